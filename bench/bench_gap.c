/* bench/bench_gap.c - how long replies wait for their next token while a long
 * prompt is being read beside them.
 *
 *   bench_gap [SHAPE [FORMAT [THREADS]]]        default: 0.8b affine4 2
 *
 * Four replies run; then a prompt of many chunks joins.  Printed are the median
 * and the largest gap between two tokens of a reply, alone and beside the prompt,
 * and the time that a chunk takes by itself. */
#include "base/clock.h"
#include "weir/experimental.h"
#include "weir/weir.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPLIES = 4, CHUNK = 256, CHUNKS = 8, WARM = 12, MOST = 4096 };

static double gaps[MOST];
static size_t n_gaps;

typedef struct speaker {
    uint64_t last; /* clock_ns() of its last token */
} speaker;

static void must(weir_status st, const weir_error *err)
{
    if (st == WEIR_OK) return;
    (void)fprintf(stderr, "bench_gap: %s\n", err->text);
    exit(1);
}

static bool hear(void *user, const weir_token *t)
{
    speaker       *s   = user;
    const uint64_t now = clock_ns();
    (void)t;
    if (s->last != 0 && n_gaps < MOST) gaps[n_gaps++] = (double)(now - s->last) * 1e-6;
    s->last = now;
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double report(const char *what)
{
    qsort(gaps, n_gaps, sizeof *gaps, by_value);
    const double median = n_gaps > 0 ? gaps[n_gaps / 2] : 0, most = n_gaps > 0 ? gaps[n_gaps - 1] : 0;
    (void)printf("%s\t%zu gaps\tmedian %.1f ms\tlargest %.1f ms\n", what, n_gaps, median, most);
    n_gaps = 0;
    return most;
}

/* Milliseconds of each chunk of a prompt that is alone: the largest. */
static double chunk_alone(weir_engine *e, const uint32_t *ids)
{
    weir_error            err;
    weir_request         *r;
    weir_request_options  o = WEIR_REQUEST_OPTIONS_INIT;
    weir_generate_options g = WEIR_GENERATE_OPTIONS_INIT;
    g.max_tokens            = 1;
    o.prompt                = ids;
    o.n_prompt              = CHUNK * CHUNKS;
    o.generate              = &g;
    must(weir_engine_submit(e, &o, &r, &err), &err);
    uint32_t left = 1;
    while (left > 0) {
        const uint64_t start = clock_ns();
        must(weir_engine_step(e, &left, &err), &err);
        if (n_gaps < MOST) gaps[n_gaps++] = (double)(clock_ns() - start) * 1e-6;
    }
    weir_request_free(r);
    return report("chunk alone");
}

int main(int argc, char **argv)
{
    const char         *shape = argc > 1 ? argv[1] : "0.8b", *format = argc > 2 ? argv[2] : "affine4";
    weir_engine_options opt = WEIR_ENGINE_OPTIONS_INIT;
    weir_model         *m;
    weir_engine        *e;
    weir_error          err;
    static uint32_t     ids[CHUNK * CHUNKS];
    static speaker      speakers[REPLIES];
    weir_request       *r[REPLIES], *prompt;
    opt.threads       = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 2;
    opt.max_context   = CHUNK * CHUNKS + 64;
    opt.max_sequences = REPLIES + 1;
    opt.chunk         = CHUNK;
    must(weir_model_random(&m, shape, format, 1, &err), &err);
    must(weir_engine_open(&e, m, &opt, &err), &err);
    for (uint32_t i = 0; i < CHUNK * CHUNKS; i++) ids[i] = i * 7 % 1000;
    const double alone = chunk_alone(e, ids);

    weir_request_options  o = WEIR_REQUEST_OPTIONS_INIT;
    weir_generate_options g = WEIR_GENERATE_OPTIONS_INIT;
    weir_sample_params    p = WEIR_SAMPLE_PARAMS_INIT;
    p.temperature           = 0;
    p.ignore_eos            = true;
    g.sample                = &p;
    o.prompt                = ids;
    o.n_prompt              = 16;
    o.generate              = &g;
    o.token                 = hear;
    for (int i = 0; i < REPLIES; i++) {
        o.user = &speakers[i];
        must(weir_engine_submit(e, &o, &r[i], &err), &err);
    }
    for (int i = 0; i < WARM; i++) must(weir_engine_step(e, NULL, &err), &err);
    (void)report("replies alone");
    g.max_tokens                          = 1;
    const weir_generate_options short_one = g;
    o.n_prompt                            = CHUNK * CHUNKS;
    o.generate                            = &short_one;
    o.token                               = NULL;
    must(weir_engine_submit(e, &o, &prompt, &err), &err);
    weir_request_info info;
    do {
        must(weir_engine_step(e, NULL, &err), &err);
        weir_request_get_info(prompt, &info);
    } while (info.state != WEIR_REQUEST_DONE);
    const double beside = report("replies beside the prompt");
    (void)printf("largest gap / largest chunk\t%.2f\n", beside / alone);
    weir_request_free(prompt);
    for (int i = 0; i < REPLIES; i++) weir_request_free(r[i]);
    weir_engine_close(e);
    weir_model_close(m);
    return 0;
}
