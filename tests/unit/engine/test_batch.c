/* tests/unit/engine/test_batch.c - a step is never composed larger than it may be. */
#include "engine/batch.h"
#include "state/state_parts.h"
#include "support/cmocka.h"
#include "support/engines.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 320, PLACES = 4 };

/* ---- what one holds ---- */

/* As many bytes as are taken, but for what malloc adds to each block. */
static void test_bytes(void **given)
{
    (void)given;
    static const uint32_t sizes[][2] = {{1, 1000}, {1000, 1000}, {100, 5000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        batch      b;
        weir_error err;
        must(batch_new(&b, sizes[i][0], sizes[i][1], &err), &err);
        void *const  blocks[] = {b.items, b.spans, b.more, b.drafted, b.ids, b.mtp_ids, b.mtp_from};
        const size_t n        = sizeof blocks / sizeof *blocks;
        uint64_t     taken    = 0;
        for (size_t k = 0; k < n; k++) taken += malloc_usable_size(blocks[k]);
        assert_in_range(taken - batch_bytes(sizes[i][0], sizes[i][1]), 0, n * 32);
        batch_free(&b);
    }
}

/* ---- adding ---- */

static void refused(weir_engine *e, weir_sequence *s, const uint32_t *ids, uint32_t n, bool window)
{
    weir_error     err;
    const uint32_t items = e->batch.n_items, rows = e->batch.n_rows, slots = e->st->n_free_slots;
    const uint32_t pages = s->q->n_pages;
    assert_int_equal(batch_add(e, s, ids, n, window, NULL, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "step: "));
    assert_int_equal(e->batch.n_items, items);
    assert_int_equal(e->batch.n_rows, rows);
    assert_int_equal(e->st->n_free_slots, slots);
    assert_int_equal(s->q->n_pages, pages);
}

/* Rows and spans up to the last that fit, and not one more; what was refused leaves the step
 * as it was. */
static void test_adding(void **given)
{
    (void)given;
    weir_model    *m   = model_named("tiny-odd");
    uint32_t      *ids = random_ids(m, CONTEXT, 4);
    weir_engine   *e   = engine_with(m, (weir_engine_options){.threads       = 1,
                                                              .max_context   = CONTEXT,
                                                              .max_sequences = PLACES,
                                                              .chunk         = 16,
                                                              .draft         = "ngram",
                                                              .max_drafts    = 3});
    weir_sequence *s[PLACES], *alone;
    weir_error     err;
    for (int i = 0; i < PLACES; i++) s[i] = sequence_on(e);
    assert_int_equal(e->batch.max_rows, 16 + PLACES * (1 + 3));
    assert_int_equal(e->batch.max_items, PLACES);

    batch_clear(e);
    refused(e, s[0], ids, 33, false);
    refused(e, s[0], ids, UINT32_MAX, false);
    must(batch_add(e, s[0], ids, 20, false, NULL, &err), &err);
    refused(e, s[1], ids, 13, false);
    refused(e, s[1], ids, 13, true);
    refused(e, s[1], ids, UINT32_MAX - 19, false); /* with those before it this is 0 */
    must(batch_add(e, s[1], ids, 12, false, NULL, &err), &err);
    refused(e, s[2], ids, 1, false);
    must(batch_forward(e, NULL, &err), &err);
    must(batch_commit(e, &err), &err);

    batch_clear(e);
    for (int i = 0; i < PLACES; i++) must(batch_add(e, s[i], ids + 20, 1, false, NULL, &err), &err);
    refused(e, s[0], ids, 1, false); /* there is room for rows, not for a span */
    batch_abandon(e);

    /* The full step was one like any other. */
    weir_engine *plain = engine_with(m, (weir_engine_options){.threads = 1, .max_context = CONTEXT});
    alone              = sequence_on(plain);
    append(s[0], ids + 20, 5);
    append(alone, ids, 25);
    assert_memory_equal(weir_sequence_logits(s[0]), weir_sequence_logits(alone),
                        e->m.config.vocab_size * sizeof(float));
    for (int i = 0; i < PLACES; i++) weir_sequence_free(s[i]);
    weir_sequence_free(alone);
    weir_engine_close(e);
    weir_engine_close(plain);
    free(ids);
    weir_model_close(m);
}

/* ---- composing ---- */

enum { MANY = 24, CHUNK = 32, LONG = 300, TOKENS = 60, DRAFTS = 8 };

typedef struct watch {
    weir_engine *e;
    uint32_t     most, most_replying; /* rows of a step; of one without prompts */
    uint32_t     reading;             /* requests */
} watch;

static bool look(void *user, const weir_token *t)
{
    watch         *w    = user;
    const uint32_t rows = w->e->batch.n_rows;
    (void)t;
    if (rows > w->most) w->most = rows;
    if (w->reading == 0 && rows > w->most_replying) w->most_replying = rows;
    return true;
}

static weir_request *submit(watch *w, const uint32_t *ids, uint32_t n, uint32_t max_tokens)
{
    weir_error                  err;
    weir_request               *r;
    const weir_sample_params    p = {.size = sizeof p, .top_p = 1, .repetition_penalty = 1, .ignore_eos = true};
    const weir_generate_options g = {.size = sizeof g, .sample = &p, .max_tokens = max_tokens};
    const weir_request_options  o = {
         .size = sizeof o, .prompt = ids, .n_prompt = n, .generate = &g, .token = look, .user = w};
    must(weir_engine_submit(w->e, &o, &r, &err), &err);
    return r;
}

/* More replies than can all have their guesses, and a prompt that takes every row it is
 * given: steps are filled to the border, and none is refused. */
static void test_full_steps(void **given)
{
    (void)given;
    weir_model   *m   = model_named("tiny-odd");
    uint32_t     *ids = random_ids(m, LONG, 6), left;
    watch         w   = {.reading = 1};
    weir_request *r[MANY];
    weir_error    err;
    w.e = engine_with(m, (weir_engine_options){.threads       = 1,
                                               .max_context   = CONTEXT,
                                               .max_sequences = MANY,
                                               .chunk         = CHUNK,
                                               .draft         = "model",
                                               .draft_model   = m, /* guesses as many as it is asked for */
                                               .max_drafts    = DRAFTS,
                                               .fixed_drafts  = true});
    assert_int_equal(w.e->decode_rows, DRAFT_MAX_ROWS); /* not MANY * (1 + DRAFTS) */
    assert_int_equal(w.e->batch.max_rows, DRAFT_MAX_ROWS + CHUNK);
    r[0] = submit(&w, ids, LONG, 2);
    for (uint32_t i = 1; i < MANY; i++) r[i] = submit(&w, ids + i, 2 + i % 3, TOKENS);
    do {
        weir_request_info info;
        must(weir_engine_step(w.e, &left, &err), &err);
        weir_request_get_info(r[0], &info);
        w.reading = info.state <= WEIR_REQUEST_READING;
    } while (left > 0);
    /* Of the replies' rows one is kept for each request that reads. */
    assert_int_equal(w.most, DRAFT_MAX_ROWS - 1 + CHUNK);
    assert_int_equal(w.most_replying, DRAFT_MAX_ROWS);
    for (uint32_t i = 0; i < MANY; i++) {
        weir_request_info info;
        weir_request_get_info(r[i], &info);
        assert_int_equal(info.status, WEIR_OK);
        assert_int_equal(info.reply.tokens, i == 0 ? 2 : TOKENS);
        weir_request_free(r[i]);
    }
    weir_engine_close(w.e);
    free(ids);
    weir_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_adding),
        cmocka_unit_test(test_full_steps),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
