/* cli/cmd_bench.c - `weir bench`: speed, next to what the machine could do. */
#include "cli/bench_drafts.h"
#include "cli/cli.h"
#include "cli/measure.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include "base/clock.h"
#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const arg_option bench_options[] = {
    {"--shape", NULL, ARG_CHOICE, offsetof(options, shape), 0, "0.8b|2b|4b|9b|27b|35b-a3b", 0, 0,
     "instead of a MODEL: one of this shape with random weights"},
    {"--format", NULL, ARG_CHOICE, offsetof(options, format), 0,
     "bf16|f16|f32|affine2|affine3|affine4|affine5|affine6|affine8|mxfp4|mxfp8|nvfp4|trellis2|trellis3|trellis4|q4_0|"
     "q8_0|q4_k|q5_k|q6_k",
     0, 0, "weight format of --shape (default: affine4)"},
    {"--batch", NULL, ARG_NUMBERS, offsetof(options, batches), 0, "N,N,...", 1, 64,
     "sequences in one step (default: 1,2,4,8, as far as memory\nallows)"},
    {"--window", NULL, ARG_NUMBERS, offsetof(options, window_sizes), 0, "N,N,...", 2, 17,
     "tokens of one sequence in one step, as checking drafts has\nthem (default: 2,4,8)"},
    {"--depth", NULL, ARG_U32, offsetof(options, depth), 0, "N", 1, 1 << 30, "measure decoding behind N tokens, too"},
    {"--runs", NULL, ARG_U32, offsetof(options, runs), 0, "N", 1, 100, "repetitions (default: 5)"},
    {"--budget", NULL, ARG_REAL, offsetof(options, budget), offsetof(options, budget_given), "SECONDS", 0.1, 1e6,
     "cut repetitions short after this time (default: 60)"},
};
static const arg_option text_options[] = {
    {"--text", NULL, ARG_STRING, offsetof(options, text), 0, "FILE", 0, 0,
     "generate after prompts cut from this text, with drafts and\nwithout"},
    {"--prompts", NULL, ARG_U32, offsetof(options, prompts), 0, "N", 1, 4096, "how many prompts (default: 8)"},
    {"--tokens", NULL, ARG_U32, offsetof(options, tokens), 0, "N", 2, 1 << 20, "most tokens of a reply (default: 128)"},
    {"--parallel", NULL, ARG_U32, offsetof(options, parallel), 0, "N", 1, 4096, "replies at once (default: 1)"},
};
static const arg_group        bench_group = ARG_GROUP("Options", bench_options);
static const arg_group        text_group  = ARG_GROUP("Instead: what drafts bring", text_options);
static const arg_group *const groups[]    = {&bench_group,    &text_group,     &options_adapters,
                                             &options_drafts, &options_common, NULL};

static const arg_numbers usual_batches = {{1, 2, 4, 8}, 4}, usual_windows = {{2, 4, 8}, 3};

static json_t *run_json(const measure_run *r)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "kind", r->kind, "tokens", (json_int_t)r->tokens,
                     "depth", (json_int_t)r->depth, "batch", (json_int_t)r->batch, "tps", r->tps, "ms_median",
                     r->ms_median, "ms_min", r->ms_min, "floor_fraction", r->floor_fraction);
}

/* {"batch": {"2": 1.9}, "window": {"2": 1.1}} */
static json_t *ratios_json(const measure_report *report)
{
    json_t *batch = json_object(), *window = json_object();
    for (size_t i = 0; i < report->n; i++) {
        const measure_run *r = &report->runs[i];
        char               name[16];
        if (r->ratio <= 0) continue;
        (void)snprintf(name, sizeof name, "%" PRIu32, r->batch > 1 ? r->batch : r->tokens);
        (void)json_object_set_new(r->batch > 1 ? batch : window, name, json_real(r->ratio));
    }
    return json_pack("{s:o, s:o}", "batch", batch, "window", window);
}

static int print_json(const measure_plan *p, const measure_report *report, const measure_floor *floors)
{
    weir_engine_info info;
    weir_model_info  model;
    weir_engine_get_info(p->engine, &info);
    weir_model_get_info(p->model, &model);
    json_t *runs = json_array();
    for (size_t i = 0; i < report->n; i++) (void)json_array_append_new(runs, run_json(&report->runs[i]));
    return cli_print_json(json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:{s:f, s:f}, s:o, s:o, s:I}", "model",
                                    model.path, "weight_format", model.weight_format, "weights_bytes",
                                    (json_int_t)model.weights_bytes, "device", info.device, "isa", info.isa, "kv",
                                    info.kv, "threads", (json_int_t)info.threads, "floor", "read_gbps",
                                    floors->read_gbps, "fma_gflops", floors->fma_gflops, "runs", runs, "ratios",
                                    ratios_json(report), "peak_rss_bytes", (json_int_t)report->peak_rss_bytes));
}

static int print_table(const measure_plan *p, const measure_report *report, const measure_floor *floors)
{
    weir_engine_info info;
    weir_model_info  model;
    weir_engine_get_info(p->engine, &info);
    weir_model_get_info(p->model, &model);
    (void)fputs("model    ", stdout);
    (void)cli_put_clean(stdout, model.path, strlen(model.path));
    (void)printf(", %s, %.1f MB\n", model.weight_format, (double)model.weights_bytes * 1e-6);
    (void)printf("engine   %s, %s, %" PRIu32 " threads, kv %s\n", info.device, info.isa, info.threads, info.kv);
    (void)printf("floors   read %.1f GB/s, fused multiply-add %.1f GFLOP/s\n\n", floors->read_gbps, floors->fma_gflops);
    (void)printf("%-8s %7s %7s %6s %11s %11s %11s %9s\n", "kind", "tokens", "depth", "batch", "tok/s", "ms median",
                 "ms min", "of floor");
    for (size_t i = 0; i < report->n; i++) {
        const measure_run *r = &report->runs[i];
        (void)printf("%-8s %7" PRIu32 " %7" PRIu32 " %6" PRIu32 " %11.2f %11.3f %11.3f %8.1f%%\n", r->kind, r->tokens,
                     r->depth, r->batch, r->tps, r->ms_median, r->ms_min, 100.0 * r->floor_fraction);
    }
    (void)putchar('\n');
    for (size_t i = 0; i < report->n; i++) {
        const measure_run *r = &report->runs[i];
        if (r->ratio > 0 && r->batch > 1)
            (void)printf("batch %-3" PRIu32 "  %6.3f times the tokens a second of batch 1\n", r->batch, r->ratio);
        else if (r->ratio > 0)
            (void)printf("window %-2" PRIu32 "  %6.3f times the time of one step\n", r->tokens, r->ratio);
    }
    (void)printf("\npeak resident memory %.1f MB\n", (double)report->peak_rss_bytes * 1e-6);
    return cli_flush();
}

/* The most tokens that will be in a sequence, within what the model allows. */
static uint32_t needed_context(const weir_model *m)
{
    weir_model_info info;
    weir_model_get_info(m, &info);
    const uint32_t need = MEASURE_PREFILL + MEASURE_DECODE + 1;
    return info.max_position != 0 && need > info.max_position ? info.max_position : need;
}

/* An engine for the batches and windows; usual batches that do not fit are left out. */
static weir_status open_engine(session *s, const options *o, measure_plan *p, arg_numbers *batches, weir_error *err)
{
    weir_engine_options e     = session_engine_options(s, o, needed_context(s->model));
    const bool          usual = o->batches.n == 0;
    e.draft                   = "ngram"; /* a source that costs nothing: windows need one */
    e.max_drafts              = p->windows->items[p->windows->n - 1] - 1;
    for (;; batches->n--) {
        e.max_sequences = batches->items[batches->n - 1];
        TRY(weir_engine_fit(s->model, &e, &p->fit, err));
        if (p->fit.fits || !usual || batches->n == 1) break;
    }
    TRY(session_engine(s, &e, err));
    p->engine = s->engine;
    return WEIR_OK;
}

/* A second engine: room for so many tokens is not to be had for every batch. */
static weir_status measure_deep(session *s, const options *o, measure_plan *p, measure_report *report, weir_error *err)
{
    const weir_engine_options e = session_engine_options(s, o, o->depth + MEASURE_DECODE);
    weir_engine_close(s->engine);
    s->engine = NULL;
    TRY(session_engine(s, &e, err));
    p->engine = s->engine;
    return measure_depth(p, o->depth, report, err);
}

static weir_status measure_work(session *s, const options *o, measure_plan *p, measure_report *report, weir_error *err)
{
    arg_numbers batches = o->batches.n > 0 ? o->batches : usual_batches;
    p->batches          = &batches;
    p->windows          = o->window_sizes.n > 0 ? &o->window_sizes : &usual_windows;
    TRY(open_engine(s, o, p, &batches, err));
    p->start  = clock_ns();
    p->budget = o->budget_given ? o->budget : 60.0;
    TRY(measure_load(p, s->load_seconds, report, err));
    TRY(measure_all(p, report, err));
    return o->depth != 0 ? measure_deep(s, o, p, report, err) : WEIR_OK;
}

static int measure(session *s, const options *o)
{
    measure_plan p        = {.model = s->model, .repeats = o->runs, .threads = o->threads, .isa = o->isa};
    p.adapters            = s->choices;
    p.n_adapters          = s->n_adapters;
    measure_report report = {0};
    measure_floor  floors;
    weir_error     err;
    if (measure_work(s, o, &p, &report, &err) != WEIR_OK) return cli_fail(&err);
    measure_finish(&report, &floors);
    return o->json ? print_json(&p, &report, &floors) : print_table(&p, &report, &floors);
}

static int check(const options *o)
{
    weir_error err;
    if (o->model != NULL && o->shape != NULL) return cli_usage("bench: expected either MODEL or --shape, found both");
    if (o->format != NULL && o->shape == NULL) return cli_usage("bench: --format needs --shape");
    const bool of_text = o->prompts != 0 || o->tokens != 0 || o->parallel != 0 || o->draft_fixed || o->draft != NULL ||
                         o->draft_tokens != 0 || o->mtp_hidden != NULL;
    if (o->text == NULL && of_text)
        return cli_usage("bench: --prompts, --tokens, --parallel, --draft, --draft-tokens, --draft-fixed and "
                         "--mtp-hidden need --text");
    if (o->text != NULL && (o->shape != NULL || o->depth != 0 || o->batches.n > 0 || o->window_sizes.n > 0))
        return cli_usage("bench: --text goes with none of --shape, --depth, --batch and --window");
    if (o->shape != NULL && o->adapters.n > 0) return cli_usage("bench: --adapter needs a MODEL that it was made for");
    if (o->draft != NULL && strcmp(o->draft, "off") == 0)
        return cli_usage("bench: --draft: expected a source to compare with off, found \"off\"");
    return session_check_options(o, &err) == WEIR_OK ? CLI_OK : cli_usage("bench: %s", err.text);
}

static int bench(const options *o)
{
    const int bad = check(o);
    if (bad != CLI_OK) return bad;
    session     s = {0};
    weir_error  err;
    weir_status st = o->shape != NULL ? weir_model_random(&s.model, o->shape, o->format != NULL ? o->format : "affine4",
                                                          o->seed, &err)
                                      : session_open(&s, o, &err);
    const int   code = st != WEIR_OK ? cli_fail(&err) : o->text != NULL ? bench_drafts(&s, o) : measure(&s, o);
    session_close(&s);
    return code;
}

const command cmd_bench = {
    .name    = "bench",
    .summary = "measure speed, and how near it is to what the machine can do",
    .usage   = "[MODEL | --shape S --format F] [options] | [MODEL] --text FILE [options]",
    .details = "Loading, reading a prompt, and in turn steps of one and of several sequences and windows of\n"
               "a few tokens of one; between them what this machine can do at most (reading memory,\n"
               "multiplying).  \"of floor\" is the least time that allows, divided by the median.  It can\n"
               "exceed 100%: a small model stays in the CPU's caches, and what the machine can do varies from\n"
               "one moment to the next.\n",
    .model   = CLI_MODEL_OPTIONAL,
    .groups  = groups,
    .run     = bench,
};
