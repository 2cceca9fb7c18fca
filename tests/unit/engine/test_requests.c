/* tests/unit/engine/test_requests.c - who is let in, in which order, and what a
 * request tells about itself. */
#include "support/cmocka.h"
#include "support/engines.h"
#include "weir/experimental.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 400, MAX_HEARD = 64 };

typedef struct room {
    weir_model  *m;
    weir_engine *e;
    uint32_t    *ids; /* [CONTEXT] */
} room;

static weir_sample_params endless  = {.size = sizeof endless, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
static weir_generate_options eight = {.size = sizeof eight, .sample = &endless, .max_tokens = 8};

static void room_open(room *w, weir_engine_options opt)
{
    w->m            = model_named("tiny-odd");
    opt.threads     = 1;
    opt.max_context = CONTEXT;
    w->e            = engine_with(w->m, opt);
    w->ids          = random_ids(w->m, CONTEXT, 3);
}

static void room_close(room *w)
{
    free(w->ids);
    weir_engine_close(w->e);
    weir_model_close(w->m);
}

static weir_request *submit(room *w, const uint32_t *ids, size_t n, int32_t priority, weir_token_fn *fn, void *user)
{
    weir_error                 err;
    weir_request              *r;
    const weir_request_options o = {.size     = sizeof o,
                                    .prompt   = ids,
                                    .n_prompt = n,
                                    .generate = &eight,
                                    .priority = priority,
                                    .token    = fn,
                                    .user     = user};
    must(weir_engine_submit(w->e, &o, &r, &err), &err);
    return r;
}

static uint32_t step(room *w)
{
    weir_error err;
    uint32_t   left;
    must(weir_engine_step(w->e, &left, &err), &err);
    return left;
}

static void run(room *w)
{
    for (int i = 0; step(w) > 0; i++) assert_true(i < 1000);
}

static weir_request_info info_of(const weir_request *r)
{
    weir_request_info i;
    weir_request_get_info(r, &i);
    return i;
}

static void refused(room *w, const weir_request_options *o, weir_status st, const char *named)
{
    weir_error    err;
    weir_request *r;
    assert_int_equal(weir_engine_submit(w->e, o, &r, &err), st);
    assert_null(r);
    if (strstr(err.text, named) == NULL) fail_msg("\"%s\" does not name %s", err.text, named);
}

static void test_refusals(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 2, .pool_context = 256});
    weir_request_options o = {.size = sizeof o, .prompt = w.ids, .n_prompt = 10};
    o.size--;
    refused(&w, &o, WEIR_INVALID, "weir_request_options.size");
    o.size++;
    o.n_prompt = 0;
    refused(&w, &o, WEIR_INVALID, "prompt");
    o.n_prompt = CONTEXT + 1;
    refused(&w, &o, WEIR_INVALID, "at most 400 tokens (max_context), found 401");
    o.n_prompt = 10;
    o.priority = 101;
    refused(&w, &o, WEIR_INVALID, "priority: expected -100 to 100, found 101");
    o.priority = 0;
    w.ids[7]   = 70000000;
    refused(&w, &o, WEIR_INVALID, "id 70000000 at index 7");
    w.ids[7]                  = 1;
    weir_sample_params    bad = endless;
    weir_generate_options g   = eight;
    bad.temperature           = -1;
    g.sample                  = &bad;
    o.generate                = &g;
    refused(&w, &o, WEIR_INVALID, "temperature");
    g          = eight;
    o.n_prompt = 390; /* with its reply it would need 397 positions */
    refused(&w, &o, WEIR_NO_MEMORY, "397 positions are needed");
    assert_int_equal(step(&w), 0);
    room_close(&w);
}

/* What is said of a request at each stage. */
static void test_stages(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 1, .chunk = 50});
    weir_request *a = submit(&w, w.ids, 120, 0, NULL, NULL), *b = submit(&w, w.ids, 5, 0, NULL, NULL);
    assert_int_equal(info_of(a).state, WEIR_REQUEST_WAITING);
    step(&w);
    assert_int_equal(info_of(a).state, WEIR_REQUEST_READING);
    assert_int_equal(info_of(a).read_tokens, 50);
    assert_int_equal(info_of(b).state, WEIR_REQUEST_WAITING);
    step(&w);
    step(&w);
    assert_int_equal(info_of(a).state, WEIR_REQUEST_REPLYING);
    assert_int_equal(info_of(a).read_tokens, 120);
    assert_int_equal(info_of(a).reply.tokens, 1);
    run(&w);
    const weir_request_info i = info_of(a);
    assert_int_equal(i.state, WEIR_REQUEST_DONE);
    assert_int_equal(i.status, WEIR_OK);
    assert_string_equal(i.error, "");
    assert_int_equal(i.prompt_tokens, 120);
    assert_int_equal(i.reply.tokens, 8);
    assert_int_equal(i.reply.finish, WEIR_FINISH_LENGTH);
    assert_int_equal(info_of(b).reply.tokens, 8);
    weir_request_free(a);
    weir_request_free(b);
    room_close(&w);
}

typedef struct order {
    int     who;
    int    *list;
    size_t *n;
} order;

static bool note(void *user, const weir_token *t)
{
    order *o = user;
    if (t->id != UINT32_MAX && *o->n < MAX_HEARD) o->list[(*o->n)++] = o->who;
    return true;
}

/* One place: the higher priority goes first, equals in the order they came. */
static void test_priority(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 1});
    static const int32_t priority[] = {0, 0, 5, -5, 5};
    static const int     expected[] = {2, 4, 0, 1, 3};
    int                  list[MAX_HEARD];
    size_t               n = 0;
    order                o[5];
    weir_request        *r[5];
    for (int i = 0; i < 5; i++) {
        o[i] = (order){i, list, &n};
        r[i] = submit(&w, w.ids + i, 10, priority[i], note, &o[i]);
    }
    run(&w);
    assert_int_equal(n, 40);
    for (size_t i = 0; i < n; i++) assert_int_equal(list[i], expected[i / 8]);
    for (int i = 0; i < 5; i++) weir_request_free(r[i]);
    room_close(&w);
}

/* A large request that does not fit is overtaken by small ones, four times at most. */
static void test_overtaking(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 2, .pool_context = 256}); /* 6 pages */
    weir_request *first = submit(&w, w.ids, 100, 0, NULL, NULL);                   /* 2 */
    weir_request *large = submit(&w, w.ids + 1, 300, 0, NULL, NULL);               /* 5 */
    weir_request *small[7];
    for (int i = 0; i < 7; i++) small[i] = submit(&w, w.ids + 2 + i, 4, 0, NULL, NULL);
    while (info_of(first).state != WEIR_REQUEST_DONE) {
        step(&w);
        assert_int_equal(info_of(large).state, WEIR_REQUEST_WAITING);
    }
    run(&w);
    int overtook = 0;
    for (int i = 0; i < 7; i++) overtook += info_of(small[i]).wait_seconds < info_of(large).wait_seconds;
    assert_true(overtook >= 1);
    assert_true(overtook <= 4);
    weir_request_free(first);
    weir_request_free(large);
    for (int i = 0; i < 7; i++) weir_request_free(small[i]);
    room_close(&w);
}

/* Prompts that begin alike are read once: the second waits for the first. */
static void test_equal_prompts(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 3, .chunk = 64, .cache_memory = 64u << 20});
    uint32_t *other = malloc(CONTEXT * sizeof *other);
    assert_non_null(other);
    memcpy(other, w.ids, CONTEXT * sizeof *other);
    other[190] ^= 1;
    weir_request *a = submit(&w, w.ids, 380, 0, NULL, NULL), *b = submit(&w, w.ids, 380, 0, NULL, NULL),
                 *c = submit(&w, other, 350, 0, NULL, NULL);
    run(&w);
    assert_int_equal(info_of(a).cached_tokens, 0);
    assert_int_equal(info_of(b).cached_tokens, 379);
    assert_int_equal(info_of(c).cached_tokens, 190);
    weir_cache_info k;
    weir_engine_cache_info(w.e, &k);
    assert_int_equal(k.lookups, 3);
    assert_int_equal(k.hits, 2);
    assert_int_equal(k.cached_tokens, 569);
    assert_int_equal(k.read_tokens, 380 + 1 + 160);
    free(other);
    weir_request_free(a);
    weir_request_free(b);
    weir_request_free(c);
    room_close(&w);
}

/* A miss can be explained: how far the cache knew the prompt, and what it had instead. */
static void test_what_was_known(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.chunk = 64, .cache_memory = 64u << 20});
    weir_request *first = submit(&w, w.ids, 300, 0, NULL, NULL);
    run(&w);
    assert_int_equal(info_of(first).known_tokens, 0);
    assert_int_equal(info_of(first).known_other, UINT32_MAX);
    w.ids[270] ^= 1;
    weir_request *other = submit(&w, w.ids, 300, 0, NULL, NULL);
    assert_int_equal(info_of(other).known_other, UINT32_MAX); /* it waits */
    run(&w);
    assert_int_equal(info_of(other).cached_tokens, 256);
    assert_int_equal(info_of(other).known_tokens, 270);
    assert_int_equal(info_of(other).known_other, w.ids[270] ^ 1);
    w.ids[100] ^= 1;
    weir_request *early = submit(&w, w.ids, 300, 0, NULL, NULL);
    run(&w);
    assert_int_equal(info_of(early).cached_tokens, 0);
    assert_int_equal(info_of(early).known_tokens, 100);
    assert_int_equal(info_of(early).known_other, w.ids[100] ^ 1);
    weir_request_free(first);
    weir_request_free(other);
    weir_request_free(early);
    room_close(&w);
}

typedef struct meddler {
    room         *w;
    weir_request *victim, *child;
    int           heard, after; /* tokens; of them after the cancellation */
    bool          cancelled;
} meddler;

static bool meddle(void *user, const weir_token *t)
{
    meddler   *d = user;
    weir_error err;
    (void)t;
    d->after += d->cancelled;
    if (++d->heard != 3) return true;
    assert_int_equal(weir_engine_step(d->w->e, NULL, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "callback"));
    d->child     = submit(d->w, d->w->ids, 12, 0, NULL, NULL);
    d->cancelled = true;
    weir_request_cancel(d->victim);
    return true;
}

/* Callbacks may submit and cancel, even their own request. */
static void test_callbacks(void **given)
{
    (void)given;
    for (int own = 0; own < 2; own++) {
        room w;
        room_open(&w, (weir_engine_options){.max_sequences = 3});
        meddler       d      = {.w = &w};
        weir_request *victim = submit(&w, w.ids + 1, 9, 0, NULL, NULL), *a = submit(&w, w.ids, 10, 0, meddle, &d);
        d.victim = own ? a : victim;
        run(&w);
        assert_int_equal(info_of(d.victim).status, WEIR_CANCELLED);
        assert_int_equal(info_of(d.victim).reply.finish, WEIR_FINISH_CANCELLED);
        assert_int_equal(info_of(d.child).reply.tokens, 8);
        assert_int_equal(info_of(own ? victim : a).reply.tokens, 8);
        if (own) assert_int_equal(d.after, 0);
        weir_request_free(d.child);
        weir_request_free(victim);
        weir_request_free(a);
        room_close(&w);
    }
}

/* ---- what is not to be called from a callback ---- */

typedef struct intruder {
    room          *w;
    weir_sequence *s; /* the caller's own */
    weir_snapshot *snapshot;
    uint32_t       ids[MAX_HEARD], n, tries;
} intruder;

static bool no_rows(void *user, const weir_rows *rows)
{
    (void)user, (void)rows;
    fail_msg("nothing is scored");
    return false;
}

static void says_no(weir_status st, const weir_error *err)
{
    if (st != WEIR_INVALID || strstr(err->text, "called from a callback") == NULL)
        fail_msg("status %d: \"%s\"", (int)st, err->text);
}

/* All that has a status to refuse with. */
static void intrude(intruder *d)
{
    weir_error      err;
    weir_engine    *e   = d->w->e;
    const uint32_t *ids = d->w->ids;
    weir_sequence  *other;
    weir_snapshot  *snapshot;
    double          seconds;
    says_no(weir_sequence_append(d->s, ids, 1, NULL, NULL, &err), &err);
    says_no(weir_sequence_score(d->s, ids, 1, false, no_rows, NULL, &err), &err);
    says_no(weir_generate(d->s, &eight, NULL, NULL, NULL, &err), &err);
    says_no(weir_measure_step(&d->s, 1, ids, 1, 1, &seconds, &err), &err);
    says_no(weir_sequence_new(&other, e, &err), &err);
    assert_null(other);
    says_no(weir_sequence_fork(&other, d->s, &err), &err);
    assert_null(other);
    says_no(weir_sequence_snapshot(d->s, &snapshot, &err), &err);
    assert_null(snapshot);
    says_no(weir_sequence_rewind(d->s, d->snapshot, &err), &err);
    says_no(weir_sequence_save(d->s, "/nowhere/at/all", &err), &err);
    says_no(weir_sequence_load(d->s, "/nowhere/at/all", &err), &err);
    says_no(weir_engine_step(e, NULL, &err), &err);
    says_no(weir_engine_flush(e, &err), &err);
    d->tries++;
}

static bool intrude_at_token(void *user, const weir_token *t)
{
    intruder *d = user;
    if (t->id != UINT32_MAX) d->ids[d->n++] = t->id;
    if (d->snapshot != NULL) intrude(d);
    return true;
}

static bool intrude_at_progress(void *user, uint32_t done, uint32_t total)
{
    intruder *d = user;
    assert_true(done <= total);
    if (d->snapshot != NULL) intrude(d);
    return true;
}

/* The reply to 120 tokens. */
static void ask(intruder *d)
{
    weir_error                 err;
    weir_request              *r;
    const weir_request_options o = {.size     = sizeof o,
                                    .prompt   = d->w->ids,
                                    .n_prompt = 120,
                                    .generate = &eight,
                                    .token    = intrude_at_token,
                                    .progress = intrude_at_progress,
                                    .user     = d};
    must(weir_engine_submit(d->w->e, &o, &r, &err), &err);
    run(d->w);
    assert_int_equal(info_of(r).status, WEIR_OK);
    weir_request_free(r);
}

/* Sequences, also that of the reply, are refused and stay as they are; so does the reply. */
static void test_intruders_are_refused(void **given)
{
    (void)given;
    weir_error err;
    room       w;
    room_open(&w, (weir_engine_options){.max_sequences = 3, .chunk = 50, .draft = "ngram", .fixed_drafts = true});
    const size_t bytes = w.e->m.config.vocab_size * sizeof(float);
    intruder     calm = {.w = &w, .s = sequence_on(w.e)}, d = {.w = &w, .s = sequence_on(w.e)};
    append(calm.s, w.ids + 7, 30);
    append(d.s, w.ids + 7, 30);
    ask(&calm);
    must(weir_sequence_snapshot(d.s, &d.snapshot, &err), &err);
    ask(&d);
    assert_int_equal(d.n, 8);
    assert_int_equal(calm.tries, 0);
    assert_int_equal(d.tries, 8 + 1 + 3); /* tokens, the end, and parts of the prompt */
    assert_memory_equal(d.ids, calm.ids, sizeof d.ids);
    assert_int_equal(weir_sequence_length(d.s), 30);
    assert_memory_equal(weir_sequence_logits(d.s), weir_sequence_logits(calm.s), bytes);
    d.n = calm.n = 0;
    must(weir_generate(d.s, &eight, intrude_at_token, &d, NULL, &err), &err);
    must(weir_generate(calm.s, &eight, intrude_at_token, &calm, NULL, &err), &err);
    assert_memory_equal(d.ids, calm.ids, sizeof d.ids);
    assert_int_equal(weir_sequence_length(d.s), weir_sequence_length(calm.s));
    assert_memory_equal(weir_sequence_logits(d.s), weir_sequence_logits(calm.s), bytes);
    weir_snapshot_free(d.snapshot);
    weir_sequence_free(d.s);
    weir_sequence_free(calm.s);
    room_close(&w);
}

/* Cancelled while it is read: what was read is found again. */
static void test_cancelled_prompt_is_kept(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 1, .chunk = 70, .cache_memory = 64u << 20});
    weir_request *a = submit(&w, w.ids, 390, 0, NULL, NULL);
    step(&w);
    step(&w);
    weir_request_free(a);
    a = submit(&w, w.ids, 390, 0, NULL, NULL);
    run(&w);
    assert_int_equal(info_of(a).cached_tokens, 140);
    weir_request_free(a);
    room_close(&w);
}

/* Sequences that the caller holds leave no place: the request says so instead of waiting for ever. */
static void test_no_place(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 1});
    weir_sequence *s = sequence_on(w.e);
    weir_request  *a = submit(&w, w.ids, 10, 0, NULL, NULL);
    assert_int_equal(step(&w), 0);
    assert_int_equal(info_of(a).status, WEIR_NO_MEMORY);
    weir_request_free(a);
    weir_sequence_free(s);
    a = submit(&w, w.ids, 10, 0, NULL, NULL);
    run(&w);
    assert_int_equal(info_of(a).status, WEIR_OK);
    weir_request_free(a);
    room_close(&w);
}

/* A request that nobody waits for costs nothing afterwards. */
static void test_free_while_running(void **given)
{
    (void)given;
    room w;
    room_open(&w, (weir_engine_options){.max_sequences = 2});
    weir_request *a = submit(&w, w.ids, 10, 0, NULL, NULL), *b = submit(&w, w.ids, 20, 0, NULL, NULL),
                 *c = submit(&w, w.ids, 30, 0, NULL, NULL);
    step(&w);
    weir_request_free(b); /* replies */
    weir_request_free(c); /* waits */
    run(&w);
    assert_int_equal(info_of(a).reply.tokens, 8);
    weir_request_free(a);
    weir_request_free(NULL);
    room_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_overtaking),
        cmocka_unit_test(test_equal_prompts),
        cmocka_unit_test(test_what_was_known),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_intruders_are_refused),
        cmocka_unit_test(test_cancelled_prompt_is_kept),
        cmocka_unit_test(test_no_place),
        cmocka_unit_test(test_free_while_running),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
