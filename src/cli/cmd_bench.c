/* cli/cmd_bench.c - `weir bench`: speed, next to what the machine could do. */
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
    {"--format", NULL, ARG_CHOICE, offsetof(options, format), 0, "bf16|f16|f32|affine4|affine8", 0, 0,
     "weight format of --shape (default: affine4)"},
    {"--depth", NULL, ARG_U32, offsetof(options, depth), 0, "N", 1, 1 << 30, "measure decoding behind N tokens, too"},
    {"--runs", NULL, ARG_U32, offsetof(options, runs), 0, "N", 1, 100, "repetitions (default: 5)"},
    {"--budget", NULL, ARG_REAL, offsetof(options, budget), offsetof(options, budget_given), "SECONDS", 0.1, 1e6,
     "cut repetitions short after this time (default: 60)"},
};
static const arg_group        bench_group = ARG_GROUP("Options", bench_options);
static const arg_group *const groups[]    = {&bench_group, &options_common, NULL};

static json_t *run_json(const measure_run *r)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "kind", r->kind, "tokens", (json_int_t)r->tokens,
                     "depth", (json_int_t)r->depth, "batch", (json_int_t)r->batch, "tps", r->tps, "ms_median",
                     r->ms_median, "ms_min", r->ms_min, "floor_fraction", r->floor_fraction);
}

static int print_json(const measure_plan *p, const measure_report *report, const measure_floor *floors)
{
    weir_engine_info info;
    weir_model_info  model;
    weir_engine_get_info(p->engine, &info);
    weir_model_get_info(p->model, &model);
    json_t *runs = json_array();
    for (size_t i = 0; i < report->n; i++) (void)json_array_append_new(runs, run_json(&report->runs[i]));
    return cli_print_json(json_pack(
        "{s:s, s:s, s:I, s:s, s:s, s:s, s:I, s:{s:f, s:f}, s:o, s:I}", "model", model.path, "weight_format",
        model.weight_format, "weights_bytes", (json_int_t)model.weights_bytes, "device", info.device, "isa", info.isa,
        "kv", info.kv, "threads", (json_int_t)info.threads, "floor", "read_gbps", floors->read_gbps, "fma_gflops",
        floors->fma_gflops, "runs", runs, "peak_rss_bytes", (json_int_t)report->peak_rss_bytes));
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
    (void)printf("\npeak resident memory %.1f MB\n", (double)report->peak_rss_bytes * 1e-6);
    return cli_flush();
}

/* The most tokens that will be in the sequence, within what the model allows. */
static uint32_t needed_context(const weir_model *m, uint32_t depth)
{
    weir_model_info info;
    weir_model_get_info(m, &info);
    const uint32_t deepest = depth > MEASURE_PREFILL ? depth : MEASURE_PREFILL, need = deepest + MEASURE_DECODE + 1;
    return info.max_position != 0 && need > info.max_position && depth <= MEASURE_PREFILL ? info.max_position : need;
}

static weir_status measure_work(session *s, const options *o, measure_plan *p, measure_report *report, weir_error *err)
{
    const uint32_t            context = needed_context(s->model, o->depth);
    const weir_engine_options e       = session_engine_options(o, context);
    TRY(weir_engine_fit(s->model, &e, &p->fit, err));
    TRY(session_engine(s, o, context, err));
    p->engine   = s->engine;
    p->sequence = s->sequence;
    p->deadline = clock_ns() + (uint64_t)((o->budget_given ? o->budget : 60.0) * 1e9);
    TRY(measure_load(p, s->load_seconds, report, err));
    return measure_all(p, report, err);
}

static int measure(session *s, const options *o)
{
    measure_plan   p = {.model = s->model, .repeats = o->runs, .depth = o->depth, .threads = o->threads, .isa = o->isa};
    measure_report report = {0};
    measure_floor  floors;
    weir_error     err;
    if (measure_work(s, o, &p, &report, &err) != WEIR_OK) return cli_fail(&err);
    measure_finish(&report, &floors);
    return o->json ? print_json(&p, &report, &floors) : print_table(&p, &report, &floors);
}

static int bench(const options *o)
{
    if (o->model != NULL && o->shape != NULL) return cli_usage("bench: expected either MODEL or --shape, found both");
    if (o->format != NULL && o->shape == NULL) return cli_usage("bench: --format needs --shape");
    session     s = {0};
    weir_error  err;
    weir_status st = o->shape != NULL ? weir_model_random(&s.model, o->shape, o->format != NULL ? o->format : "affine4",
                                                          o->seed, &err)
                                      : session_open(&s, o, &err);
    const int   code = st != WEIR_OK ? cli_fail(&err) : measure(&s, o);
    session_close(&s);
    return code;
}

const command cmd_bench = {
    .name    = "bench",
    .summary = "measure speed, and how near it is to what the machine can do",
    .usage   = "[MODEL | --shape S --format F] [options]",
    .details = "Loading, reading a prompt, windows of a few tokens, generating; and between them what this\n"
               "machine can do at most (reading memory, multiplying).  \"of floor\" is the least time that allows,\n"
               "divided by the median.  It can exceed 100%: a small model stays in the CPU's caches, and\n"
               "what the machine can do varies from one moment to the next.\n",
    .model   = CLI_MODEL_OPTIONAL,
    .groups  = groups,
    .run     = bench,
};
