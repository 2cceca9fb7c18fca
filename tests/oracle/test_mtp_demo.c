/* tests/oracle/test_mtp_demo.c - how often the demo model's MTP head guesses what
 * the trunk picks, over held-out text, beside the figures of its training run.
 *
 * A row is right when MTP, from the hidden row at t and the text's token at t+1,
 * has the same best token as the trunk at t+1.  Windows as for the loss. */
#include "demo_data.h"

#include "support/cmocka.h"
#include "support/mtp_rig.h"
#include "support/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 };

static const double bound_share = 0.15; /* per cent; the cache is bfloat16, so near ties fall either way */
static const double near_tie    = 0.1;  /* logits */

/* Per cent of a text's guesses that were right with the unquantised weights, in training. */
static const double trained[DEMO_TEXTS] = {57.8, 93.4, 94.4};

static void open_demo(mtp_rig *r, const weir_model *m, bool pre_norm)
{
    rig_open(r, m, (rig_options){.threads = 2, .max_rows = CHUNK, .max_sequences = 1, .max_positions = DEMO_WINDOW});
    r->m.mtp_pre_norm = pre_norm;
}

/* The best token of each of n rows of logits. */
static void best_of_rows(const mtp_rig *r, uint32_t *best, uint32_t n)
{
    const size_t vocab = r->m.config.vocab_size;
    for (uint32_t i = 0; i < n; i++) best[i] = numbers_best(rig_floats(r, r->w.logits) + i * vocab, vocab);
}

/* Of n tokens: picks[t] of the trunk for token t+1, t < n; guesses[t] of MTP for
 * token t+2, t < n - 1. */
static void picks_and_guesses(mtp_rig *r, const uint32_t *ids, uint32_t n, uint32_t *picks, uint32_t *guesses)
{
    sequence *q = rig_sequence(r);
    for (uint32_t at = 0; at < n; at += CHUNK) {
        const uint32_t rows = n - at < CHUNK ? n - at : CHUNK, pairs = at + rows < n ? rows : rows - 1;
        rig_read(r, q, ids + at, rows);
        model_head(&r->m, r->k, &r->w, NULL, rows);
        best_of_rows(r, picks + at, rows);
        if (pairs == 0) continue;
        rig_guess(r, q, at, ids + at + 1, pairs, r->w.hidden, NULL);
        model_mtp_head(&r->m, r->k, &r->w, NULL, pairs);
        best_of_rows(r, guesses + at, pairs);
    }
    sequence_free(q);
}

/* Per cent of guesses that are right over the windows of a text. */
static double acceptance(mtp_rig *r, const char *text)
{
    static uint32_t picks[DEMO_WINDOW], guesses[DEMO_WINDOW];
    size_t          n_ids, right = 0;
    uint32_t       *ids     = demo_text(text, &n_ids);
    const size_t    windows = n_ids / DEMO_WINDOW;
    for (size_t w = 0; w < windows; w++) {
        picks_and_guesses(r, ids + w * DEMO_WINDOW, DEMO_WINDOW, picks, guesses);
        for (size_t t = 0; t + 1 < DEMO_WINDOW; t++) right += guesses[t] == picks[t + 1];
    }
    free(ids);
    return 100.0 * (double)right / (double)(windows * (DEMO_WINDOW - 1));
}

/* ---- the shipped weights against float64 ---- */

/* Acceptance over a text beside the expected one. */
static void check_acceptance(mtp_rig *r, const json_t *expected, const char *text)
{
    const double found = acceptance(r, text);
    const double want =
        100.0 * json_real_value(json_object_get(json_object_get(expected, text), "mtp_agrees_with_trunk"));
    print_message("%-8s MTP right in %.2f %%, float64 %.2f %%\n", text, found, want);
    assert_true(fabs(found - want) <= bound_share);
}

/* One text: the others take minutes. */
static void test_acceptance(void **given)
{
    (void)given;
    weir_model *m = model_named("demo");
    json_doc    j = demo_json("expected-4bit.json");
    mtp_rig     r;
    open_demo(&r, m, false);
    check_acceptance(&r, j.root, "chat");
    json_doc_free(&j);
    rig_close(&r);
    weir_model_close(m);
}

/* The guesses for tokens that the trunk picked after a prompt: guess i is for
 * tokens[i + 1], from the hidden row two before it. */
static void guesses_after(mtp_rig *r, const uint32_t *prompt, size_t n_prompt, const uint32_t *tokens, size_t n,
                          uint32_t *guesses)
{
    static uint32_t ids[DEMO_WINDOW], picks[DEMO_WINDOW], all[DEMO_WINDOW];
    assert_true(n_prompt > 0 && n > 1 && n_prompt + n <= DEMO_WINDOW);
    memcpy(ids, prompt, n_prompt * sizeof *ids);
    memcpy(ids + n_prompt, tokens, n * sizeof *ids);
    picks_and_guesses(r, ids, (uint32_t)(n_prompt + n), picks, all);
    memcpy(guesses, all + n_prompt - 1, (n - 1) * sizeof *guesses);
}

static void test_guesses(void **given)
{
    (void)given;
    static const char *const prompts[] = {"fox", "chat", "tool"};
    char                     path[1024];
    safetensors              f;
    size_t                   decided = 0, all = 0;
    weir_model              *m = model_named("demo");
    mtp_rig                  r;
    open_demo(&r, m, false);
    tensors_open(&f, demo_path(path, sizeof path, "expected-4bit.safetensors"));
    for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++) {
        size_t    n_prompt, n, n_drafts;
        uint32_t  guesses[DEMO_WINDOW];
        uint32_t *prompt = tensors_ids(&f, &n_prompt, "%s.input_ids", prompts[p]);
        uint32_t *tokens = tensors_ids(&f, &n, "%s.greedy_tokens", prompts[p]);
        uint32_t *drafts = tensors_ids(&f, &n_drafts, "%s.draft_tokens", prompts[p]);
        numbers   lead   = tensors_get(&f, "%s.draft_margin", prompts[p]);
        assert_true(n_drafts == n - 1 && lead.n == n_drafts);
        guesses_after(&r, prompt, n_prompt, tokens, n, guesses);
        for (size_t i = 0; i < n_drafts; i++, all++) {
            if (lead.x[i] <= near_tie) continue;
            assert_int_equal(guesses[i], drafts[i]);
            decided++;
        }
        free(prompt);
        free(tokens);
        free(drafts);
        numbers_free(&lead);
    }
    print_message("%zu of %zu guesses are decided, and as in float64\n", decided, all);
    assert_true(decided >= all * 3 / 4);
    safetensors_close(&f);
    rig_close(&r);
    weir_model_close(m);
}

/* ---- the unquantised weights against their training run ---- */

static void test_unquantised_acceptance(void **given)
{
    (void)given;
    weir_model *m = demo_unquantised(), *shipped = model_named("demo");
    json_doc    j = demo_json("expected-4bit.json");
    mtp_rig     r, post, pre;
    open_demo(&r, m, false);
    open_demo(&post, shipped, false);
    open_demo(&pre, shipped, true);
    for (unsigned i = 0; i < DEMO_TEXTS; i++) {
        const double found = acceptance(&r, demo_texts[i]);
        print_message("%-8s unquantised: MTP right in %.2f %%, in training %.1f %%\n", demo_texts[i], found,
                      trained[i]);
        assert_true(fabs(found - trained[i]) <= bound_share);
        check_acceptance(&post, j.root, demo_texts[i]);
        print_message("%-8s before the final norm: MTP right in %.2f %%\n", demo_texts[i],
                      acceptance(&pre, demo_texts[i]));
    }
    json_doc_free(&j);
    rig_close(&r);
    rig_close(&post);
    rig_close(&pre);
    weir_model_close(shipped);
    weir_model_close(m);
}

static void test_unquantised_guesses(void **given)
{
    (void)given;
    weir_model *m = demo_unquantised();
    json_doc    j = demo_json("reference.json");
    size_t      index, equal = 0, all = 0;
    json_t     *item;
    mtp_rig     r;
    open_demo(&r, m, false);
    json_array_foreach(json_object_get(j.root, "cases"), index, item)
    {
        size_t    n_prompt, n, n_drafts;
        uint32_t  guesses[DEMO_WINDOW];
        uint32_t *prompt = demo_ids(json_object_get(item, "prompt_ids"), &n_prompt);
        uint32_t *tokens = demo_ids(json_object_get(item, "greedy_ids"), &n);
        uint32_t *drafts = demo_ids(json_object_get(item, "draft_ids"), &n_drafts);
        guesses_after(&r, prompt, n_prompt, tokens, n, guesses);
        assert_int_equal(n_drafts, n - 1);
        for (size_t i = 0; i < n_drafts; i++) equal += guesses[i] == drafts[i];
        all += n_drafts;
        free(prompt);
        free(tokens);
        free(drafts);
    }
    print_message("unquantised: %zu of %zu guesses as in training\n", equal, all);
    assert_int_equal(equal, all);
    json_doc_free(&j);
    rig_close(&r);
    weir_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_guesses), cmocka_unit_test(test_acceptance),
                                       cmocka_unit_test(test_unquantised_guesses),
                                       cmocka_unit_test(test_unquantised_acceptance)};
    return cmocka_run_group_tests_name("oracle MTP demo", tests, NULL, NULL);
}
