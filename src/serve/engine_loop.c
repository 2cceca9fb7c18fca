/* serve/engine_loop.c - see engine_loop.h. */
#include "serve/engine_loop.h"

#include "base/clock.h"
#include "base/mem.h"
#include "serve/server.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { EXPLAINED_LEAST = 64 /* tokens read whose reason is told */ };

struct engine_loop {
    engine_loop_options o;
    weir_engine_info    engine;
    pthread_t           thread;

    pthread_mutex_t lock; /* guards what follows, up to the blank line */
    pthread_cond_t  news;
    job            *arrived, **arrived_end;
    engine_task    *tasks, **tasks_end;
    uint32_t        in_flight; /* choices that are not over, those that have just arrived included */
    bool            drain, stop, ended;

    job     *jobs; /* the thread's own */
    uint32_t sampled;
    uint64_t read; /* tokens of prompts that the engine had read after the last step */
};

/* ---- a job that is over ---- */

static void sum_choice(job *j, const weir_request_info *i)
{
    reply_usage *u = &j->usage;
    u->completion += i->reply.tokens;
    u->reasoning += i->reply.reasoning_tokens;
    u->drafted += i->reply.drafted;
    u->accepted += i->reply.accepted;
    if (i->wait_seconds > u->wait_seconds) u->wait_seconds = i->wait_seconds;
    if (i->read_seconds > u->read_seconds) u->read_seconds = i->read_seconds;
    if (i->reply_seconds > u->reply_seconds) u->reply_seconds = i->reply_seconds;
}

/* The first choice of a prompt tells of the prompt: the others find it in the cache. */
static void sum_prompt(job *j, const weir_request_info *i)
{
    j->usage.prompt += i->prompt_tokens;
    j->usage.cached += i->cached_tokens;
    j->known       = i->known_tokens;
    j->known_other = i->known_other;
}

static const char *finish_word(metrics_finish f)
{
    static const char *const words[] = {"stop", "length", "abort", "error"};
    return words[f];
}

/* Why a prompt had to be read: where it left what the cache knows.  Ids and places, no text. */
static void explain(const job *j, char *out, size_t size)
{
    const weir_ids *p     = &j->prompts[0];
    uint32_t        known = j->known < p->n ? j->known : (uint32_t)p->n;
    out[0]                = '\0';
    if (j->n_prompts > 1 || j->o.no_cache || j->usage.prompt - j->usage.cached < EXPLAINED_LEAST) return;
    if (known < p->n && j->known_other != UINT32_MAX && j->known_other != p->data[known])
        (void)snprintf(out, size, ", cache: knew %u, then had token %u where %u came", known, j->known_other,
                       p->data[known]);
    else
        (void)snprintf(out, size, ", cache: knew %u", known);
}

static void tell(engine_loop *l, const job *j, metrics_finish finish)
{
    const reply_usage *u = &j->usage;
    char               line[600], why[120];
    const double       total = (double)(clock_ns() - j->received_ns) * 1e-9;
    metrics_request_over(l->o.metrics, &(metrics_request){.finish     = finish,
                                                          .began      = j->started_ns != 0,
                                                          .prompt     = u->prompt,
                                                          .cached     = u->cached,
                                                          .completion = u->completion,
                                                          .max_tokens = j->choices[0].options.max_tokens,
                                                          .n          = j->o.n,
                                                          .drafted    = u->drafted,
                                                          .accepted   = u->accepted,
                                                          .queued     = u->wait_seconds,
                                                          .reading    = u->read_seconds,
                                                          .replying   = u->reply_seconds,
                                                          .total      = total});
    if (l->o.say == NULL) return;
    explain(j, why, sizeof why);
    (void)snprintf(line, sizeof line,
                   "%s %s: %s, prompt %u (cached %u), reply %u (reasoning %u), queued %.0f ms, read %.0f ms, "
                   "replied %.0f ms, drafts %u of %u%s",
                   j->request_id, j->path, finish_word(finish), u->prompt, u->cached, u->completion, u->reasoning,
                   u->wait_seconds * 1e3, u->read_seconds * 1e3, u->reply_seconds * 1e3, u->accepted, u->drafted, why);
    l->o.say(l->o.user, line);
}

static void fail_job(job *j, const api_error *e)
{
    if (j->failed || j->cancelled) return;
    j->failed = true;
    j->d->fail(j->d, e);
}

/* How far the choice is, where its events are to say so. */
static void watch(job_choice *c, const weir_request_info *i)
{
    if (!c->replier.watch) return;
    c->replier.now = (reply_usage){.prompt        = i->prompt_tokens,
                                   .cached        = i->cached_tokens,
                                   .completion    = i->reply.tokens,
                                   .reasoning     = i->reply.reasoning_tokens,
                                   .drafted       = i->reply.drafted,
                                   .accepted      = i->reply.accepted,
                                   .wait_seconds  = i->wait_seconds,
                                   .read_seconds  = i->read_seconds,
                                   .reply_seconds = i->reply_seconds};
}

/* Part of a reply that is missing would be a wrong answer. */
static void fail_if_lost(job_choice *c)
{
    api_error e;
    if (!c->replier.failed) return;
    (void)api_fail(&e, API_INTERNAL, NULL, "out of memory");
    fail_job(c->of, &e);
}

static void count_calls(const job_choice *c)
{
    weir_toolcall_info calls;
    if (c->replier.parser == NULL) return;
    weir_toolcall_get_info(c->replier.parser, &calls);
    metrics_calls(c->of->loop->o.metrics, &calls);
}

/* Takes what choice c came to.  A failure, or a hang-up, ends the whole job. */
static void end_choice(job_choice *c)
{
    job              *j = c->of;
    weir_request_info i;
    api_error         e;
    weir_request_get_info(c->request, &i);
    sum_choice(j, &i);
    if ((uint32_t)(c - j->choices) % j->o.n == 0) sum_prompt(j, &i);
    if (j->o.prompt_only && i.reply.tokens > 0) { /* its callback stopped it at the first token */
        j->usage.completion -= i.reply.tokens;
        j->cut = true;
        if (!j->failed && !j->cancelled)
            replier_end(&c->replier, &(weir_generate_result){.finish = WEIR_FINISH_LENGTH});
    } else if (c->replier.over && !j->failed && !j->cancelled) { /* it stopped at its call */
        watch(c, &i);
        replier_end(&c->replier, &i.reply);
    } else if (i.status == WEIR_CANCELLED || i.reply.finish == WEIR_FINISH_CANCELLED) {
        j->cancelled = !j->failed;
    } else if (i.status != WEIR_OK) {
        weir_error err = {.status = i.status};
        (void)snprintf(err.text, sizeof err.text, "%s", i.error);
        (void)api_fail_status(&e, &err);
        fail_job(j, &e);
    } else if (!j->failed && !j->cancelled) {
        if (i.reply.finish == WEIR_FINISH_LENGTH) j->cut = true;
        watch(c, &i);
        replier_end(&c->replier, &i.reply);
    }
    count_calls(c);
    fail_if_lost(c);
    weir_request_free(c->request);
    c->request = NULL;
    j->n_done++;
}

/* ---- a job that begins ---- */

/* A header, where the answer has not begun. */
static void tell_wait(const job_choice *c)
{
    weir_request_info i;
    char              milliseconds[32];
    if (c->of->wait_told) return;
    c->of->wait_told = true;
    weir_request_get_info(c->request, &i);
    (void)snprintf(milliseconds, sizeof milliseconds, "%.0f", i.wait_seconds * 1e3);
    outlet_header(c->of->out, "x-queue-ms", milliseconds);
}

/* Of the first choice's prompt, before its reply begins. */
static void tell_progress(const job_choice *c, uint32_t done)
{
    const job        *j = c->of;
    weir_request_info i;
    if (j->d->progress == NULL || c != j->choices || c->replier.begun || j->failed || j->cancelled) return;
    weir_request_get_info(c->request, &i);
    j->d->progress(j->d,
                   &(reply_progress){
                       .total = i.prompt_tokens, .cached = i.cached_tokens, .done = done, .seconds = i.read_seconds});
}

/* False stops the reply: who asked has gone, or does not read. */
static bool on_token(void *user, const weir_token *t)
{
    job_choice    *c   = user;
    job           *j   = c->of;
    const uint64_t now = clock_ns();
    if (j->o.prompt_only) return false;
    if (t->id != UINT32_MAX) j->loop->sampled++;
    if (c->last_token_ns != 0) metrics_gap(j->loop->o.metrics, (double)(now - c->last_token_ns) * 1e-9);
    tell_wait(c);
    if (j->first_ns == 0) j->first_ns = now;
    if (j->failed || j->cancelled || outlet_closed(j->out)) return false;
    weir_request_info i;
    weir_request_get_info(c->request, &i);
    tell_progress(c, i.prompt_tokens);
    watch(c, &i);
    replier_token(&c->replier, t);
    fail_if_lost(c);
    c->last_token_ns = now;
    return !j->failed && !c->replier.over && !outlet_closed(j->out);
}

/* The last of it comes from on_token: the engine tells it behind the first token. */
static bool on_progress(void *user, uint32_t done, uint32_t total)
{
    job_choice *c = user;
    tell_wait(c);
    outlet_progress(c->of->out, done, total);
    if (done < total) tell_progress(c, done);
    return true;
}

static bool submit_choice(engine_loop *l, job *j, uint32_t i, api_error *e)
{
    job_choice          *c = &j->choices[i];
    const weir_ids      *p = &j->prompts[i / j->o.n];
    weir_request_options q = WEIR_REQUEST_OPTIONS_INIT;
    weir_error           err;
    q.prompt     = p->data;
    q.n_prompt   = p->n;
    q.generate   = &c->options;
    q.priority   = j->o.priority;
    q.no_cache   = j->o.no_cache;
    q.adapters   = j->o.adapters;
    q.n_adapters = j->o.n_adapters;
    q.token      = on_token;
    q.progress   = i == 0 ? on_progress : NULL;
    q.user       = c;
    return weir_engine_submit(l->o.engine, &q, &c->request, &err) == WEIR_OK || api_fail_status(e, &err);
}

static void begin_job(engine_loop *l, job *j)
{
    api_error e;
    j->submitted_ns = clock_ns();
    j->loop         = l;
    if (j->stream_type != NULL) outlet_expect_stream(j->out, j->stream_type, j->comments);
    for (uint32_t i = 0; i < j->n_choices; i++) {
        if (submit_choice(l, j, i, &e)) continue;
        fail_job(j, &e);
        break;
    }
}

/* ---- the thread ---- */

static void cancel_job(job *j)
{
    for (uint32_t i = 0; i < j->n_choices; i++)
        if (j->choices[i].request != NULL) weir_request_cancel(j->choices[i].request);
}

static void look_for_start(job *j)
{
    weir_request_info i;
    if (j->started_ns != 0) return;
    for (uint32_t k = 0; k < j->n_choices; k++) {
        if (j->choices[k].request == NULL) continue;
        weir_request_get_info(j->choices[k].request, &i);
        if (i.state == WEIR_REQUEST_WAITING || i.read_tokens == 0) continue;
        j->started_ns = clock_ns();
        return;
    }
}

/* Ends the choices that are done.  True when the job is over. */
static bool settle(job *j)
{
    weir_request_info info;
    bool              left = false;
    look_for_start(j);
    for (uint32_t i = 0; i < j->n_choices; i++) {
        job_choice *c = &j->choices[i];
        if (c->request == NULL) continue;
        weir_request_get_info(c->request, &info);
        if (info.state == WEIR_REQUEST_DONE)
            end_choice(c);
        else
            left = true;
    }
    if ((j->failed || j->cancelled) && left) { /* the other choices are of no use to anybody */
        cancel_job(j);
        return settle(j);
    }
    return !left;
}

/* The counters come first: who has its answer is counted, and holds no place any more. */
static void over(engine_loop *l, job *j)
{
    metrics_finish finish = j->cut ? METRICS_LENGTH : METRICS_STOP;
    if (j->failed && !j->revoked)
        finish = METRICS_ERROR;
    else if (j->cancelled || j->revoked)
        finish = METRICS_ABORT;
    tell(l, j, finish);
    job_release_adapters(j);
    (void)pthread_mutex_lock(&l->lock);
    l->in_flight -= j->n_choices;
    (void)pthread_mutex_unlock(&l->lock);
    if (!j->failed && !j->cancelled) j->d->end(j->d, &j->usage);
    job_free(j);
}

static void publish(engine_loop *l)
{
    metrics_state     s = {.pool = l->engine.pool_context};
    weir_request_info i;
    for (const job *j = l->jobs; j != NULL; j = j->next) {
        for (uint32_t k = 0; k < j->n_choices; k++) {
            if (j->choices[k].request == NULL) continue;
            weir_request_get_info(j->choices[k].request, &i);
            if (i.state == WEIR_REQUEST_WAITING) {
                s.waiting++;
            } else {
                s.running++;
                s.positions += i.read_tokens + i.reply.tokens;
            }
        }
    }
    weir_engine_cache_info(l->o.engine, &s.cache);
    metrics_set_state(l->o.metrics, &s);
}

/* Takes out what is over, publishes how things stand without it, and then ends it. */
static void settle_all(engine_loop *l)
{
    job *done = NULL, **end = &done;
    for (job **at = &l->jobs; *at != NULL;) {
        job *j = *at;
        if (!settle(j)) {
            at = &j->next;
            continue;
        }
        *at  = j->next;
        *end = j;
        end  = &j->next;
    }
    *end = NULL;
    publish(l);
    while (done != NULL) {
        job *j = done;
        done   = j->next;
        over(l, j);
    }
}

/* Waits for something to do; takes what arrived.  False: stop. */
static bool wait_for_work(engine_loop *l, job **arrived, engine_task **tasks)
{
    (void)pthread_mutex_lock(&l->lock);
    while (!l->stop && l->arrived == NULL && l->tasks == NULL && l->jobs == NULL)
        (void)pthread_cond_wait(&l->news, &l->lock);
    *arrived       = l->arrived;
    l->arrived     = NULL;
    l->arrived_end = &l->arrived;
    *tasks         = l->tasks;
    l->tasks       = NULL;
    l->tasks_end   = &l->tasks;
    const bool go  = !l->stop;
    (void)pthread_mutex_unlock(&l->lock);
    return go;
}

static void add_all(engine_loop *l, job *arrived)
{
    job **end = &l->jobs;
    while (*end != NULL) end = &(*end)->next;
    *end = arrived;
    for (job *j = arrived; j != NULL; j = j->next) begin_job(l, j);
}

static void step(engine_loop *l)
{
    weir_error      err;
    weir_cache_info cache;
    const uint64_t  start = clock_ns();
    l->sampled            = 0;
    /* A failure of the engine is in the infos of the requests that it ended. */
    (void)weir_engine_step(l->o.engine, NULL, &err);
    weir_engine_cache_info(l->o.engine, &cache);
    metrics_step(l->o.metrics, (double)(clock_ns() - start) * 1e-9, (uint32_t)(cache.read_tokens - l->read),
                 l->sampled);
    l->read = cache.read_tokens;
}

static void fail_all(engine_loop *l)
{
    api_error e;
    (void)api_fail(&e, API_UNAVAILABLE, NULL, "the server is shutting down");
    e.retry_after = 1;
    for (job *j = l->jobs; j != NULL; j = j->next) fail_job(j, &e);
    settle_all(l);
}

static void run_tasks(engine_loop *l, engine_task *t)
{
    for (engine_task *next; t != NULL; t = next) {
        next = t->next;
        t->run(t, l->o.engine);
    }
}

/* What was asked for until now, and then nothing more. */
static void end_tasks(engine_loop *l)
{
    (void)pthread_mutex_lock(&l->lock);
    engine_task *left = l->tasks;
    l->tasks          = NULL;
    l->ended          = true;
    (void)pthread_mutex_unlock(&l->lock);
    run_tasks(l, left);
}

static void *run(void *user)
{
    engine_loop *l = user;
    job         *arrived;
    engine_task *tasks;
    bool         go = true;
    while (go) {
        go = wait_for_work(l, &arrived, &tasks);
        add_all(l, arrived);
        run_tasks(l, tasks);
        for (job *j = l->jobs; j != NULL; j = j->next)
            if (outlet_closed(j->out)) {
                j->cancelled = !j->failed;
                cancel_job(j);
            }
        settle_all(l);
        if (go && l->jobs != NULL) step(l);
        settle_all(l);
    }
    fail_all(l);
    end_tasks(l);
    return NULL;
}

/* ---- for the other threads ---- */

weir_status engine_loop_start(engine_loop **out, const engine_loop_options *o, weir_error *err)
{
    engine_loop *l = mem_zalloc(1, sizeof *l);
    *out           = NULL;
    if (l == NULL) return status_fail(err, WEIR_NO_MEMORY, "the engine's thread: out of memory");
    l->o           = *o;
    l->arrived_end = &l->arrived;
    l->tasks_end   = &l->tasks;
    weir_engine_get_info(o->engine, &l->engine);
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->news, NULL);
    publish(l);
    if (pthread_create(&l->thread, NULL, run, l) != 0) {
        mem_free(l);
        return status_fail(err, WEIR_IO, "the engine's thread: cannot be started");
    }
    *out = l;
    return WEIR_OK;
}

/* When there may be room: about when one of those that are here is over. */
static uint32_t retry_after(engine_loop *l)
{
    const double mean = metrics_mean_seconds(l->o.metrics);
    return mean < 1 ? 1 : mean > 60 ? 60 : (uint32_t)ceil(mean);
}

bool engine_loop_submit(engine_loop *l, job *j, api_error *err)
{
    bool           ok   = true;
    const uint32_t most = l->engine.max_sequences + l->o.max_queue;
    (void)pthread_mutex_lock(&l->lock);
    if (l->drain) {
        ok               = api_fail(err, API_UNAVAILABLE, NULL, "the server is shutting down");
        err->retry_after = 1;
    } else if (l->in_flight >= most) {
        ok = api_fail(err, API_QUEUE_FULL, NULL, "%u requests are running or waiting, and no more may wait",
                      l->in_flight);
    } else {
        l->in_flight += j->n_choices;
        j->next         = NULL;
        *l->arrived_end = j;
        l->arrived_end  = &j->next;
        (void)pthread_cond_signal(&l->news);
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (!ok && err->kind == API_QUEUE_FULL) err->retry_after = retry_after(l);
    return ok;
}

bool engine_loop_call(engine_loop *l, engine_task *t)
{
    t->next = NULL;
    (void)pthread_mutex_lock(&l->lock);
    const bool ok = !l->ended;
    if (ok) {
        *l->tasks_end = t;
        l->tasks_end  = &t->next;
        (void)pthread_cond_signal(&l->news);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return ok;
}

typedef struct cancel_task {
    engine_task  task;
    engine_loop *l;
    outlet      *out;
    char         id[129], own_id[129];
} cancel_task;

static void revoke(engine_task *t, weir_engine *engine)
{
    cancel_task *c = t->user;
    uint32_t     n = 0;
    api_error    e;
    str          body;
    (void)engine;
    (void)api_fail(&e, API_CANCELLED, NULL, "the request was cancelled");
    for (job *j = c->l->jobs; j != NULL; j = j->next) {
        if (strcmp(j->request_id, c->id) != 0 || j->failed || j->cancelled) continue;
        fail_job(j, &e);
        j->revoked = true;
        n++;
    }
    if (n == 0) {
        (void)api_fail(&e, API_NOT_FOUND, NULL, "no request %s is running or waiting", c->id);
        answer_error(c->out, &e, API_OPENAI, c->own_id);
    } else {
        str_init(&body, 512);
        str_printf(&body, "{\"id\":\"%s\",\"cancelled\":%u}", c->id, n);
        answer_json(c->out, &body);
    }
    outlet_release(c->out);
    mem_free(c);
}

bool engine_loop_cancel(engine_loop *l, const char *id, const char *own_id, outlet *out, api_error *err)
{
    cancel_task *c = mem_zalloc(1, sizeof *c);
    if (c == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    c->l    = l;
    c->out  = outlet_share(out);
    c->task = (engine_task){.run = revoke, .user = c};
    (void)snprintf(c->id, sizeof c->id, "%s", id);
    (void)snprintf(c->own_id, sizeof c->own_id, "%s", own_id);
    if (engine_loop_call(l, &c->task)) return true;
    outlet_release(c->out);
    mem_free(c);
    return api_fail(err, API_UNAVAILABLE, NULL, "the server is shutting down");
}

void engine_loop_drain(engine_loop *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->drain = true;
    (void)pthread_mutex_unlock(&l->lock);
}

bool engine_loop_idle(engine_loop *l)
{
    (void)pthread_mutex_lock(&l->lock);
    const bool idle = l->in_flight == 0;
    (void)pthread_mutex_unlock(&l->lock);
    return idle;
}

void engine_loop_stop(engine_loop *l)
{
    if (l == NULL) return;
    (void)pthread_mutex_lock(&l->lock);
    l->drain = l->stop = true;
    (void)pthread_cond_signal(&l->news);
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->thread, NULL);
}

void engine_loop_free(engine_loop *l)
{
    if (l == NULL) return;
    (void)pthread_cond_destroy(&l->news);
    (void)pthread_mutex_destroy(&l->lock);
    mem_free(l);
}
