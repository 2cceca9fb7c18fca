/* tests/unit/engine/test_measure_step.c - weir_measure_step computes what it
 * times: after it the sequences are where appending the same tokens leads. */
#include "support/engines.h"

#include "weir/experimental.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 3, DEPTH = 20, CONTEXT = 64, WINDOW = 4 };

typedef struct setting {
    weir_model    *m;
    weir_engine   *e;
    weir_sequence *s[N], *alone; /* alone: what the others are compared with */
    uint32_t      *ids;          /* [DEPTH] of the beginning, then [CONTEXT] for steps */
    size_t         vocab;
} setting;

static setting setting_open(const char *draft)
{
    setting         g = {.m = model_named("tiny-odd")};
    weir_model_info info;
    weir_model_get_info(g.m, &info);
    g.vocab = info.vocab_size;
    g.e     = engine_with(g.m, (weir_engine_options){.threads       = 2,
                                                     .max_context   = CONTEXT,
                                                     .max_sequences = N + 1,
                                                     .chunk         = 16,
                                                     .draft         = draft,
                                                     .max_drafts    = WINDOW - 1});
    g.ids   = random_ids(g.m, DEPTH + CONTEXT, 5);
    g.alone = sequence_on(g.e);
    for (uint32_t i = 0; i < N; i++) {
        g.s[i] = sequence_on(g.e);
        append(g.s[i], g.ids, DEPTH - i); /* of different lengths */
    }
    return g;
}

static void setting_close(setting *g)
{
    for (uint32_t i = 0; i < N; i++) weir_sequence_free(g->s[i]);
    weir_sequence_free(g->alone);
    weir_engine_close(g->e);
    weir_model_close(g->m);
    free(g->ids);
}

/* Sequence i has read `keep` tokens more, and remembers them. */
static void check(const setting *g, uint32_t i, uint32_t tokens, uint32_t keep)
{
    const uint32_t *more = g->ids + DEPTH + i * tokens, next = 7;
    weir_sequence_reset(g->alone);
    append(g->alone, g->ids, DEPTH - i);
    append(g->alone, more, keep);
    assert_int_equal(weir_sequence_length(g->s[i]), DEPTH - i + keep);
    assert_memory_equal(weir_sequence_tokens(g->s[i]), weir_sequence_tokens(g->alone),
                        (DEPTH - i + keep) * sizeof *more);
    assert_memory_equal(weir_sequence_logits(g->s[i]), weir_sequence_logits(g->alone), g->vocab * sizeof(float));
    append(g->s[i], &next, 1);
    append(g->alone, &next, 1);
    assert_memory_equal(weir_sequence_logits(g->s[i]), weir_sequence_logits(g->alone), g->vocab * sizeof(float));
}

static void step_and_check(uint32_t tokens, uint32_t keep)
{
    setting    g       = setting_open("ngram");
    double     seconds = 0;
    weir_error err;
    must(weir_measure_step(g.s, N, g.ids + DEPTH, tokens, keep, &seconds, &err), &err);
    assert_true(seconds > 0);
    for (uint32_t i = 0; i < N; i++) check(&g, i, tokens, keep);
    setting_close(&g);
}

static void test_a_batch(void **unused)
{
    (void)unused;
    step_and_check(1, 1);
}

static void test_windows(void **unused)
{
    (void)unused;
    for (uint32_t keep = 1; keep <= WINDOW; keep++) step_and_check(WINDOW, keep);
}

static void refused(setting *g, uint32_t n, const uint32_t *ids, uint32_t tokens, uint32_t keep, const char *says)
{
    double     seconds = -1;
    weir_error err;
    assert_int_equal(weir_measure_step(g->s, n, ids, tokens, keep, &seconds, &err), WEIR_INVALID);
    if (strstr(err.text, says) == NULL) fail_msg("expected \"%s\" in: %s", says, err.text);
    for (uint32_t i = 0; i < N; i++) assert_int_equal(weir_sequence_length(g->s[i]), DEPTH - i);
}

static void test_what_is_refused_changes_nothing(void **unused)
{
    (void)unused;
    setting         g    = setting_open("ngram");
    const uint32_t *more = g.ids + DEPTH, unknown[] = {1, (uint32_t)g.vocab, 2};
    weir_sequence  *last = g.s[N - 1];
    double          seconds;
    refused(&g, 0, more, 1, 1, "at least one");
    refused(&g, N, more, WINDOW, 0, "keep");
    refused(&g, N, more, WINDOW, WINDOW + 1, "keep");
    refused(&g, N, unknown, 1, 1, "vocab_size");
    refused(&g, N, more, CONTEXT, 1, "rows");
    refused(&g, N, more, 2 * WINDOW + 1, 1, "window"); /* two can be recorded, and not the third */
    g.s[N - 1] = g.s[0];
    assert_int_equal(weir_measure_step(g.s, N, more, 1, 1, &seconds, NULL), WEIR_INVALID);
    g.s[N - 1] = last;
    /* No window is still taken: as many as there are can be had. */
    must(weir_measure_step(g.s, N, more, WINDOW, 2, &seconds, NULL), NULL);
    for (uint32_t i = 0; i < N; i++) check(&g, i, WINDOW, 2);
    setting_close(&g);
}

static void test_windows_need_drafts(void **unused)
{
    (void)unused;
    setting g = setting_open("off");
    refused(&g, 1, g.ids + DEPTH, 2, 1, "without drafts");
    setting_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_what_is_refused_changes_nothing),
        cmocka_unit_test(test_windows_need_drafts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
