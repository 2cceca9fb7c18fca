/* cli/bench_drafts.c - drafts against none, from end to end; see bench_drafts.h.
 *
 * Both ways run on one engine, prompt after prompt and in changing order, so
 * that what disturbs the machine disturbs both.  The clock runs while all of a
 * group are replying or done: reading prompts is measured elsewhere.  Each
 * group's time is the median of its runs. */
#include "cli/bench_drafts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/measure.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "weir/request.h"

#include <inttypes.h>
#include <string.h>

enum { PROMPT_TOKENS = 128, PROMPTS = 8, REPLY_TOKENS = 128, MOST_RUNS = 100 };
typedef enum way { WITHOUT, WITH, WAYS } way;

/* Requests that run at once, and what they took. */
typedef struct group {
    double   ms[WAYS][MOST_RUNS];
    size_t   n_runs;
    uint64_t tokens[WAYS]; /* of one run, within the time */
} group;

/* What the prompt's first run said; all others have to say the same. */
typedef struct told {
    uint32_t *ids; /* [most tokens of a reply] */
    uint32_t  n;
    bool      known;
} told;

typedef struct race {
    session  *s;
    uint32_t *text; /* [n_text] ids */
    size_t    n_text;
    uint32_t  prompts, tokens, parallel, prompt_tokens, repeats;
    uint64_t  deadline;
    group    *groups; /* [n_groups] */
    uint32_t  n_groups;
    told     *told; /* [prompts] */
    uint64_t  drafted, accepted, replies;
    uint32_t  differing; /* replies */
    progress  bar;
} race;

/* One request of a run. */
typedef struct lane {
    told         *told;
    weir_request *request;
    uint32_t      n;
    bool          differs;
} lane;

static bool on_token(void *user, const weir_token *t)
{
    lane *l = user;
    if (t->id == UINT32_MAX) return true;
    if (!l->told->known)
        l->told->ids[l->n] = t->id;
    else if (l->n >= l->told->n || l->told->ids[l->n] != t->id)
        l->differs = true;
    l->n++;
    return true;
}

static weir_status submit(const race *r, uint32_t prompt, way w, lane *l, weir_error *err)
{
    weir_generate_options g     = WEIR_GENERATE_OPTIONS_INIT;
    weir_request_options  q     = WEIR_REQUEST_OPTIONS_INIT;
    const size_t          first = (size_t)prompt * (r->n_text - r->prompt_tokens) / r->prompts;
    g.max_tokens                = r->tokens;
    g.raw                       = true;
    g.no_drafts                 = w == WITHOUT;
    q.prompt                    = r->text + first;
    q.n_prompt                  = r->prompt_tokens;
    q.generate                  = &g;
    q.no_cache                  = true;
    q.adapters                  = r->s->choices;
    q.n_adapters                = r->s->n_adapters;
    q.token                     = on_token;
    q.user                      = l;
    *l                          = (lane){.told = &r->told[prompt]};
    return weir_engine_submit(r->s->engine, &q, &l->request, err);
}

/* True when no prompt is left to read; *tokens of the replies so far. */
static bool all_read(const lane *lanes, uint32_t n, uint64_t *tokens)
{
    bool all = true;
    *tokens  = 0;
    for (uint32_t i = 0; i < n; i++) {
        weir_request_info info;
        weir_request_get_info(lanes[i].request, &info);
        all = all && info.state != WEIR_REQUEST_WAITING && info.state != WEIR_REQUEST_READING;
        *tokens += info.reply.tokens;
    }
    return all;
}

static weir_status drive(race *r, group *g, way w, const lane *lanes, uint32_t n, weir_error *err)
{
    uint64_t start = 0, before = 0, after;
    for (uint32_t left = 1; left > 0;) {
        if (terminal_interrupted()) return status_fail(err, WEIR_CANCELLED, "interrupted");
        TRY(weir_engine_step(r->s->engine, &left, err));
        if (start == 0 && all_read(lanes, n, &before)) start = clock_ns();
    }
    g->ms[w][g->n_runs] = (double)(clock_ns() - start) * 1e-6;
    (void)all_read(lanes, n, &after);
    g->tokens[w] = after - before;
    return WEIR_OK;
}

/* What a finished request came to. */
static weir_status take(race *r, way w, lane *l, weir_error *err)
{
    weir_request_info info;
    weir_request_get_info(l->request, &info);
    if (info.status != WEIR_OK) return status_fail(err, info.status, "%s", info.error);
    if (l->told->known && l->n != l->told->n) l->differs = true;
    if (!l->told->known) l->told->n = l->n;
    l->told->known = true;
    r->differing += l->differs;
    r->replies++;
    if (w == WITHOUT) return WEIR_OK;
    r->drafted += info.reply.drafted;
    r->accepted += info.reply.accepted;
    return WEIR_OK;
}

static weir_status run_group(race *r, uint32_t index, way w, weir_error *err)
{
    const uint32_t first = index * r->parallel, rest = r->prompts - first;
    const uint32_t n     = rest < r->parallel ? rest : r->parallel;
    lane          *lanes = mem_zalloc(n, sizeof *lanes);
    if (lanes == NULL) return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    weir_status st = WEIR_OK;
    for (uint32_t i = 0; i < n && st == WEIR_OK; i++) st = submit(r, first + i, w, &lanes[i], err);
    if (st == WEIR_OK) st = drive(r, &r->groups[index], w, lanes, n, err);
    for (uint32_t i = 0; i < n && st == WEIR_OK; i++) st = take(r, w, &lanes[i], err);
    for (uint32_t i = 0; i < n; i++) weir_request_free(lanes[i].request);
    mem_free(lanes);
    return st;
}

static weir_status run_all(race *r, weir_error *err)
{
    const double total = (double)r->repeats * r->n_groups;
    for (uint32_t round = 0; round < r->repeats; round++) {
        for (uint32_t i = 0; i < r->n_groups; i++) {
            if (round + i > 0 && clock_ns() >= r->deadline) return WEIR_OK;
            const way first = (round + i) % 2 == 0 ? WITHOUT : WITH;
            TRY(run_group(r, i, first, err));
            TRY(run_group(r, i, first == WITH ? WITHOUT : WITH, err));
            r->groups[i].n_runs++;
            progress_show(&r->bar, (double)round * r->n_groups + i + 1, total);
        }
    }
    return WEIR_OK;
}

/* Tokens a second of one way, over all groups that were run. */
static double speed(const race *r, way w)
{
    double   ms     = 0;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < r->n_groups; i++) {
        group *g = &r->groups[i];
        if (g->n_runs == 0) continue;
        ms += measure_median(g->ms[w], g->n_runs);
        tokens += g->tokens[w];
    }
    return ms > 0 ? 1e3 * (double)tokens / ms : 0;
}

static int print_result(const race *r, const options *o)
{
    weir_engine_info info;
    weir_model_info  model;
    weir_engine_get_info(r->s->engine, &info);
    weir_model_get_info(r->s->model, &model);
    const double off = speed(r, WITHOUT), on = speed(r, WITH), ratio = off > 0 ? on / off : 0;
    const double rate = r->drafted > 0 ? (double)r->accepted / (double)r->drafted : 0;
    if (o->json)
        return cli_print_json(json_pack(
            "{s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:f, s:b}", "model",
            model.path, "weight_format", model.weight_format, "isa", info.isa, "threads", (json_int_t)info.threads,
            "draft", info.draft, "draft_tokens", (json_int_t)info.max_drafts, "parallel", (json_int_t)r->parallel,
            "prompts", (json_int_t)r->prompts, "tokens", (json_int_t)r->tokens, "replies", (json_int_t)r->replies,
            "tps_off", off, "tps_on", on, "ratio", ratio, "drafted", (json_int_t)r->drafted, "accepted",
            (json_int_t)r->accepted, "acceptance", rate, "same_text", r->differing == 0));
    (void)fputs("model    ", stdout);
    (void)cli_put_clean(stdout, model.path, strlen(model.path));
    (void)printf(", %s\nengine   %s, %s, %" PRIu32 " threads, drafts %s, at most %" PRIu32 "\n", model.weight_format,
                 info.device, info.isa, info.threads, info.draft, info.max_drafts);
    (void)printf("text     %" PRIu32 " prompts of %" PRIu32 " tokens, %" PRIu32 " at once, replies of at most %" PRIu32
                 "\n\n",
                 r->prompts, r->prompt_tokens, r->parallel, r->tokens);
    (void)printf("off      %11.2f tok/s\n%-8s %11.2f tok/s, %.3f times as fast\n", off, info.draft, on, ratio);
    (void)printf("accepted %" PRIu64 " of %" PRIu64 " drafts (%.1f%%)\n", r->accepted, r->drafted, 100 * rate);
    (void)printf("replies  %" PRIu64 ", %" PRIu32 " of them with another text than the first\n", r->replies,
                 r->differing);
    return cli_flush();
}

static weir_status make_room(race *r, weir_error *err)
{
    r->n_groups = (r->prompts + r->parallel - 1) / r->parallel;
    r->groups   = mem_zalloc(r->n_groups, sizeof *r->groups);
    r->told     = mem_zalloc(r->prompts, sizeof *r->told);
    if (r->groups == NULL || r->told == NULL) return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    for (uint32_t i = 0; i < r->prompts; i++)
        if ((r->told[i].ids = mem_alloc(r->tokens, sizeof *r->told[i].ids)) == NULL)
            return status_fail(err, WEIR_NO_MEMORY, "bench: out of memory");
    return WEIR_OK;
}

static weir_status open_race(race *r, const options *o, weir_error *err)
{
    TRY(input_text(r->s->model, o->text, &r->text, &r->n_text, err));
    if (r->n_text < 2 * (size_t)r->prompt_tokens)
        return status_fail(err, WEIR_FORMAT, "%s: expected at least %" PRIu32 " tokens, found %zu", o->text,
                           2 * r->prompt_tokens, r->n_text);
    weir_engine_options e = session_engine_options(r->s, o, r->prompt_tokens + r->tokens);
    weir_engine_info    info;
    e.max_sequences = r->parallel;
    if (o->draft == NULL) e.draft = "auto";
    TRY(session_engine(r->s, &e, err));
    weir_engine_get_info(r->s->engine, &info);
    if (strcmp(info.draft, "off") == 0)
        return status_fail(err, WEIR_INVALID,
                           "--text compares drafts with none: expected --draft mtp, ngram or a MODEL");
    if (info.max_context < r->prompt_tokens + r->tokens)
        return status_fail(err, WEIR_INVALID, "--ctx: expected at least %" PRIu32 " tokens, found %" PRIu32,
                           r->prompt_tokens + r->tokens, info.max_context);
    return make_room(r, err);
}

static void close_race(race *r)
{
    for (uint32_t i = 0; r->told != NULL && i < r->prompts; i++) mem_free(r->told[i].ids);
    mem_free(r->told);
    mem_free(r->groups);
    mem_free(r->text);
}

int bench_drafts(session *s, const options *o)
{
    race        r = {.s             = s,
                     .prompts       = o->prompts != 0 ? o->prompts : PROMPTS,
                     .tokens        = o->tokens != 0 ? o->tokens : REPLY_TOKENS,
                     .parallel      = o->parallel != 0 ? o->parallel : 1,
                     .prompt_tokens = PROMPT_TOKENS,
                     .repeats       = o->runs};
    weir_error  err;
    weir_status st = open_race(&r, o, &err);
    r.deadline     = clock_ns() + (uint64_t)((o->budget_given ? o->budget : 60.0) * 1e9);
    progress_start(&r.bar, "generating");
    if (st == WEIR_OK) st = run_all(&r, &err);
    progress_end(&r.bar);
    int code = st != WEIR_OK ? cli_fail(&err) : print_result(&r, o);
    if (code == CLI_OK && r.differing > 0) {
        (void)fprintf(stderr, "weir: drafts changed the text of %" PRIu32 " replies\n", r.differing);
        code = CLI_FAILED;
    }
    close_race(&r);
    return code;
}
