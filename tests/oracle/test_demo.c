/* tests/oracle/test_demo.c - the bundled model: held-out loss, logits, greedy
 * tokens and token ids against float64 and the tokenizers package. */
#include "demo_data.h"

#include "support/cmocka.h"
#include "support/engines.h"
#include "support/tensors.h"

#include "base/file.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WINDOWS = 64, CHUNK = 256 };

static const double bound_loss = 2e-4; /* nats, of a window as of a text */
static const double bound_logits =
    2e-2; /* of std, with keys and values in bfloat16; about four times what is measured */
static const double bound_affine8 = 0.1;  /* of std; twice what is measured */
static const double bound_f32     = 1e-4; /* of std, with keys and values in float32 */

/* ---- loss ---- */

typedef struct loss {
    const uint32_t *ids; /* of the window */
    uint32_t        vocab;
    double          sum;
} loss;

static double log_sum_exp(const float *x, size_t n)
{
    float  max = x[0];
    double sum = 0.0;
    for (size_t i = 1; i < n; i++) max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++) sum += exp((double)(x[i] - max));
    return log(sum) + (double)max;
}

static bool add_loss(void *user, const weir_rows *rows)
{
    loss *l = user;
    for (uint32_t i = 0; i < rows->n; i++) {
        const uint32_t position = rows->first_position + i;
        if (position + 1 == DEMO_WINDOW) break;
        const float *logits = rows->logits + (size_t)i * l->vocab;
        l->sum += log_sum_exp(logits, l->vocab) - (double)logits[l->ids[position + 1]];
    }
    return true;
}

/* The mean loss over tokens 1 .. DEMO_WINDOW-1, each given those before it. */
static double window_loss(weir_sequence *s, const uint32_t *ids)
{
    weir_error err;
    loss       l = {.ids = ids, .vocab = s->e->m.config.vocab_size};
    weir_sequence_reset(s);
    must(weir_sequence_score(s, ids, DEMO_WINDOW, false, add_loss, &l, &err), &err);
    return l.sum / (DEMO_WINDOW - 1);
}

typedef struct demo {
    weir_model    *m;
    weir_engine   *e;
    weir_sequence *s;
} demo;

static demo demo_open(weir_model *m, const char *kv)
{
    demo d = {.m = m};
    d.e    = engine_with(m, (weir_engine_options){.kv = kv, .threads = 2, .max_context = DEMO_WINDOW, .chunk = CHUNK});
    d.s    = sequence_on(d.e);
    return d;
}

static void demo_close(demo *d)
{
    weir_sequence_free(d->s);
    weir_engine_close(d->e);
    weir_model_close(d->m);
}

/* Windows first .. first+n-1 of a text against `expected`; the largest difference. */
static double check_windows(const demo *d, const char *text, const json_t *expected, size_t first, size_t n)
{
    size_t        n_ids;
    double        worst = 0.0, sum = 0.0;
    uint32_t     *ids    = demo_text(text, &n_ids);
    const json_t *losses = json_object_get(expected, "window_losses");
    assert_true(json_array_size(losses) == n_ids / DEMO_WINDOW && first + n <= n_ids / DEMO_WINDOW);
    for (size_t i = first; i < first + n; i++) {
        const double found = window_loss(d->s, ids + i * DEMO_WINDOW);
        const double off   = fabs(found - json_real_value(json_array_get(losses, i)));
        if (!(off <= worst)) worst = off;
        sum += found;
    }
    if (n == n_ids / DEMO_WINDOW) {
        const double mean = sum / (double)n, off = fabs(mean - json_real_value(json_object_get(expected, "loss")));
        print_message("%-8s perplexity %.5f, float64 %.5f; loss off by %.1e, at worst in a window %.1e\n", text,
                      exp(mean), json_real_value(json_object_get(expected, "perplexity")), off, worst);
        assert_true(off <= bound_loss);
    }
    free(ids);
    return worst;
}

static void test_loss(void **given)
{
    (void)given;
    json_doc j = demo_json("expected-4bit.json");
    demo     d = demo_open(model_named("demo"), NULL);
    for (unsigned i = 0; i < DEMO_TEXTS; i++) {
        const json_t *expected = json_object_get(j.root, demo_texts[i]);
        const size_t  n        = (size_t)json_integer_value(json_object_get(expected, "windows"));
        assert_true(check_windows(&d, demo_texts[i], expected, 0, n) <= 4 * bound_loss);
    }
    demo_close(&d);
    json_doc_free(&j);
}

/* With keys and values in float32 nothing but float32 rounding is left. */
static void test_loss_f32(void **given)
{
    (void)given;
    json_doc j = demo_json("expected-4bit.json");
    demo     d = demo_open(model_named("demo"), "f32");
    for (unsigned i = 0; i < DEMO_TEXTS; i++) {
        const double off = check_windows(&d, demo_texts[i], json_object_get(j.root, demo_texts[i]), 2, 1);
        print_message("%-8s window 2, float32 cache: loss off by %.1e\n", demo_texts[i], off);
        assert_true(off <= 2e-7);
    }
    demo_close(&d);
    json_doc_free(&j);
}

/* ---- logits and greedy tokens ---- */

typedef struct logits_check {
    numbers  logits, positions;
    uint32_t vocab;
    double   worst, off;
} logits_check;

static bool check_logits(void *user, const weir_rows *rows)
{
    logits_check *c = user;
    for (uint32_t i = 0; i < rows->n; i++)
        for (size_t j = 0; j < c->positions.n; j++) {
            if ((uint32_t)c->positions.x[j] != rows->first_position + i) continue;
            const double *expected = c->logits.x + j * c->vocab;
            const double  off      = numbers_worst(rows->logits + (size_t)i * c->vocab, expected, c->vocab);
            const double  relative = off / numbers_std(expected, c->vocab);
            if (!(off <= c->off)) c->off = off;
            if (!(relative <= c->worst)) c->worst = relative;
        }
    return true;
}

/* Reads the prompt and compares the logits the file has; the largest error of
 * a logit, in standard deviations. */
static double read_prompt(const demo *d, const safetensors *f, const char *prompt)
{
    size_t       n;
    weir_error   err;
    logits_check c   = {.vocab = d->e->m.config.vocab_size};
    uint32_t    *ids = tensors_ids(f, &n, "%s.input_ids", prompt);
    if (tensors_have(f, "%s.logits", prompt)) {
        c.logits    = tensors_get(f, "%s.logits", prompt);
        c.positions = tensors_get(f, "%s.logit_positions", prompt);
    }
    weir_sequence_reset(d->s);
    must(weir_sequence_score(d->s, ids, n, false, check_logits, &c, &err), &err);
    free(ids);
    numbers_free(&c.logits);
    numbers_free(&c.positions);
    return c.worst;
}

/* Follows the expected tokens; `allowed` is the error of a logit on either side. */
static void check_greedy(const demo *d, const safetensors *f, const char *prompt, double allowed)
{
    size_t    n, compared = 0;
    uint32_t *tokens = tensors_ids(f, &n, "%s.greedy_tokens", prompt);
    numbers   margin = tensors_get(f, "%s.greedy_margin", prompt), logit = tensors_get(f, "%s.greedy_logit", prompt);
    double    off = 0.0;
    for (size_t i = 0; i < n; i++) {
        const float *logits = weir_sequence_logits(d->s);
        off                 = fmax(off, fabs((double)logits[tokens[i]] - logit.x[i]));
        if (margin.x[i] > 2.0 * allowed) {
            assert_int_equal(numbers_best(logits, d->e->m.config.vocab_size), tokens[i]);
            compared++;
        }
        append(d->s, &tokens[i], 1);
    }
    print_message("%-4s (%s): greedy %zu of %zu decided, and equal; its logit off by %.1e\n", prompt, d->e->info.kv,
                  compared, n, off);
    assert_true(off <= allowed && compared >= n / 2);
    free(tokens);
    numbers_free(&margin);
    numbers_free(&logit);
}

static void check_answers(const char *kv, double bound)
{
    static const char *const prompts[] = {"fox", "chat", "tool"};
    char                     path[1024];
    safetensors              f;
    demo                     d = demo_open(model_named("demo"), kv);
    tensors_open(&f, demo_path(path, sizeof path, "expected-4bit.safetensors"));
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
        const double worst = read_prompt(&d, &f, prompts[i]);
        print_message("%-4s (%s): logits off by %.1e of std (allowed %.1e)\n", prompts[i], kv, worst, bound);
        assert_true(worst <= bound);
        check_greedy(&d, &f, prompts[i], 4.0 * bound); /* the logits' std is 2 to 4 */
    }
    safetensors_close(&f);
    demo_close(&d);
}

static void test_answers_bf16(void **given)
{
    (void)given;
    check_answers("bf16", bound_logits);
}

static void test_answers_affine8(void **given)
{
    (void)given;
    check_answers("affine8", bound_affine8);
}

static void test_answers_f32(void **given)
{
    (void)given;
    check_answers("f32", bound_f32);
}

/* ---- token ids ---- */

static void test_tokenize(void **given)
{
    (void)given;
    weir_model *m = model_named("demo");
    for (unsigned i = 0; i < DEMO_TEXTS; i++) {
        char       path[1024], name[64], *text;
        size_t     len, n;
        weir_error err;
        weir_ids   found = {0};
        (void)snprintf(name, sizeof name, "val-%s.txt", demo_texts[i]);
        must(file_read(&text, &len, demo_path(path, sizeof path, name), DEMO_MAX_FILE, &err), &err);
        must(weir_tokenize(m, text, len, true, &found, &err), &err);
        uint32_t *expected = demo_text(demo_texts[i], &n);
        assert_int_equal(found.n, n);
        assert_memory_equal(found.data, expected, n * sizeof *expected);
        free(expected);
        free(text);
        weir_ids_free(&found);
    }
    weir_model_close(m);
}

/* ---- the unquantised weights, where they are at hand ---- */

/* Mean losses and greedy tokens from the run that trained the model: bfloat16
 * weights, float32 arithmetic. */
static const double trained_loss[DEMO_TEXTS] = {3.26738, 0.315197, 0.396922};

static void test_unquantised_loss(void **given)
{
    (void)given;
    demo d = demo_open(demo_unquantised(), NULL);
    for (unsigned i = 0; i < DEMO_TEXTS; i++) {
        size_t    n;
        double    sum = 0.0;
        uint32_t *ids = demo_text(demo_texts[i], &n);
        for (size_t w = 0; w < n / DEMO_WINDOW; w++) sum += window_loss(d.s, ids + w * DEMO_WINDOW);
        const double mean = sum / (double)(n / DEMO_WINDOW);
        print_message("%-8s unquantised: perplexity %.5f, loss %.6f, in training %.6f\n", demo_texts[i], exp(mean),
                      mean, trained_loss[i]);
        assert_true(fabs(mean - trained_loss[i]) <= bound_loss);
        free(ids);
    }
    demo_close(&d);
}

/* The lead of the best token in the step's list of the five best. */
static double lead(const json_t *top5)
{
    return json_number_value(json_array_get(json_array_get(top5, 0), 1)) -
           json_number_value(json_array_get(json_array_get(top5, 1), 1));
}

static void test_unquantised_greedy(void **given)
{
    (void)given;
    demo     d        = demo_open(demo_unquantised(), NULL);
    json_doc j        = demo_json("reference.json");
    size_t   compared = 0, steps = 0, index;
    json_t  *item;
    json_array_foreach(json_object_get(j.root, "cases"), index, item)
    {
        size_t    n_prompt, n;
        uint32_t *prompt = demo_ids(json_object_get(item, "prompt_ids"), &n_prompt);
        uint32_t *tokens = demo_ids(json_object_get(item, "greedy_ids"), &n);
        weir_sequence_reset(d.s);
        append(d.s, prompt, n_prompt);
        for (size_t i = 0; i < n; i++, steps++) {
            if (lead(json_array_get(json_object_get(item, "top5_per_step"), i)) > 0.02) {
                assert_int_equal(numbers_best(weir_sequence_logits(d.s), d.e->m.config.vocab_size), tokens[i]);
                compared++;
            }
            append(d.s, &tokens[i], 1);
        }
        free(prompt);
        free(tokens);
    }
    print_message("unquantised: %zu of %zu greedy tokens lead clearly, and are equal\n", compared, steps);
    assert_true(compared >= steps * 3 / 4);
    json_doc_free(&j);
    demo_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenize),         cmocka_unit_test(test_loss),
        cmocka_unit_test(test_loss_f32),         cmocka_unit_test(test_answers_f32),
        cmocka_unit_test(test_answers_affine8),  cmocka_unit_test(test_answers_bf16),
        cmocka_unit_test(test_unquantised_loss), cmocka_unit_test(test_unquantised_greedy),
    };
    return cmocka_run_group_tests_name("oracle demo", tests, NULL, NULL);
}
