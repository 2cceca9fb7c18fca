/* What weir_quantize makes of the fixtures: the bytes of an independent
 * implementation, the logits of the numbers its codes stand for, and logits
 * near those of the source. */
#include "quantized.h"
#include "support/tensors.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "base/json.h"
#include "base/mem.h"
#include "convert/recipe.h"
#include "quant/affine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the MLX fixtures, made of the same sources ---- */

static const char *without_prefix(const char *path)
{
    static const char *const prefixes[] = {"language_model.model.", "language_model."};
    for (size_t i = 0; i < 2; i++)
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) return path + strlen(prefixes[i]);
    return path;
}

/* The overrides of a fixture's config as a recipe, its width for all the rest. */
static char *recipe_of(const char *fixture, const char *dir)
{
    weir_error  err;
    json_doc    doc;
    str         text;
    const char *key;
    json_t     *v;
    char       *path = path_join(fixture_path(fixture), "config.json");
    must(json_load(&doc, path, 1 << 20, 16, &err), &err);
    mem_free(path);
    json_t *block = json_object_get(doc.root, "quantization");
    str_init(&text, 1 << 20);
    json_object_foreach(block, key, v)
    {
        if (json_is_object(v))
            str_printf(&text, "%s{\"pattern\": \"%s\", \"bits\": %lld, \"group\": %lld}", text.len == 0 ? "[" : ",\n",
                       without_prefix(key), (long long)json_integer_value(json_object_get(v, "bits")),
                       (long long)json_integer_value(json_object_get(v, "group_size")));
    }
    str_printf(&text, ", {\"pattern\": \"*\", \"bits\": %lld, \"group\": %lld}]",
               (long long)json_integer_value(json_object_get(block, "bits")),
               (long long)json_integer_value(json_object_get(block, "group_size")));
    made_text(dir, "recipe.json", text.data);
    str_free(&text);
    json_doc_free(&doc);
    return path_join(dir, "recipe.json");
}

/* Norm gains are bfloat16 there and float32 here. */
static void check_gain(const checkpoint_tensor *want, const checkpoint_tensor *found)
{
    assert_int_equal(found->type, DTYPE_F32);
    assert_int_equal(found->bytes, 2 * want->bytes);
    for (size_t i = 0; i < want->bytes / 2; i++)
        assert_int_equal(bf16_from_f32(load_f32(found->data + 4 * i)), load_u16(want->data + 2 * i));
}

static void check_fixture(const char *source, const char *fixture)
{
    weir_error  err;
    checkpoint *want, *found;
    char       *dir   = made_dir();
    char       *rules = recipe_of(fixture, dir);
    char *out = quantized(fixture_path(source), (weir_quantize_options){.bits = 4, .group = 64, .recipe = rules}, 0);
    must(checkpoint_open(&want, fixture_path(fixture), &err), &err);
    must(checkpoint_open(&found, out, &err), &err);
    size_t compared = 0, gains = 0;
    for (size_t i = 0; i < checkpoint_count(want); i++) {
        const checkpoint_tensor *w = checkpoint_at(want, i), *f = checkpoint_find(found, w->part, w->name);
        if (w->part == CHECKPOINT_VISION) continue; /* in the source's form */
        if (f == NULL) fail_msg("%s: %s is missing", fixture, w->raw_name);
        assert_string_equal(f->raw_name, w->raw_name);
        assert_int_equal(f->rank, w->rank);
        assert_memory_equal(f->shape, w->shape, w->rank * sizeof w->shape[0]);
        if (f->type == w->type && f->bytes == w->bytes && memcmp(f->data, w->data, w->bytes) == 0)
            compared++;
        else if (w->type == DTYPE_BF16 && ends_in(w->name, "norm.weight") && ++gains > 0)
            check_gain(w, f);
        else
            fail_msg("%s: %s differs", fixture, w->raw_name);
    }
    assert_true(compared > 80 && gains > 8 && gains < 20);
    checkpoint_close(want);
    checkpoint_close(found);
    mem_free(rules);
    made_remove(out);
    made_remove(dir);
}

static void the_bytes_of_an_independent_implementation(void **unused)
{
    (void)unused;
    check_fixture("tiny-dense-tied", "mlx-q4");
    check_fixture("tiny-dense-tied", "mlx-q8");
    check_fixture("tiny-moe", "mlx-moe-q4");
}

/* ---- logits ---- */

/* Widths that have kernels, several in one model. */
static const char mixed[] = "[{\"pattern\": \"*.self_attn.*\", \"bits\": 8},"
                            " {\"pattern\": \"*.linear_attn.out_proj\", \"bits\": 8, \"group\": 32},"
                            " {\"pattern\": \"lm_head\", \"bits\": 8}, {\"pattern\": \"mtp.fc\", \"bits\": 8},"
                            " {\"pattern\": \"*.in_proj_z\", \"bits\": 16},"
                            " {\"pattern\": \"*\", \"bits\": 4, \"group\": 64}]";

static char *mixed_recipe(const char *dir)
{
    made_text(dir, "recipe.json", mixed);
    return path_join(dir, "recipe.json");
}

/* One module's or tensor's numbers as F32 [.., cols]; companions are left out. */
static void emit_numbers(made_tensors *out, const checkpoint *c, const checkpoint_tensor *t)
{
    char              name[512], shape[128];
    bool              coded = false;
    config_quant_form form;
    weir_error        err;
    if (ends_in(t->name, ".scales") || ends_in(t->name, ".biases")) return;
    (void)snprintf(name, sizeof name, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    if (ends_in(t->name, ".weight")) must(checkpoint_quant(c, t->part, name, &coded, &form, &err), &err);
    const uint64_t last = t->rank > 0 ? t->shape[t->rank - 1] : 1, cols = coded ? last * 32 / form.bits : last;
    const uint64_t rows = coded ? t->bytes / 4 / last : t->bytes / dtype_table[t->type].bytes / last;
    float         *x    = malloc(rows * cols * sizeof *x);
    assert_non_null(x);
    if (coded) {
        (void)snprintf(name + strlen(name), 16, ".scales");
        const checkpoint_tensor *s = checkpoint_find(c, t->part, name);
        (void)snprintf(name + strlen(name) - 7, 16, ".biases");
        const checkpoint_tensor *b = checkpoint_find(c, t->part, name);
        for (uint64_t r = 0; r < rows; r++) {
            const size_t     at  = r * (cols / form.group) * dtype_table[s->type].bytes;
            const affine_row row = {.bits       = form.bits,
                                    .group      = form.group,
                                    .codes      = t->data + r * last * 4,
                                    .scales     = s->data + at,
                                    .biases     = b->data + at,
                                    .scale_type = s->type};
            affine_decode(x + r * cols, &row, cols);
        }
    } else {
        dense_decode(x, t->data, t->type, rows * cols);
    }
    size_t n = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%llu", i > 0 ? ", " : "[",
                              (unsigned long long)(i + 1 < t->rank ? t->shape[i] : cols));
    (void)snprintf(shape + n, sizeof shape - n, "]");
    made_raw(out, t->raw_name, "F32", t->rank > 0 ? shape : "[]", x, rows * cols * sizeof *x);
    free(x);
}

/* The folder `dir` with every number that its codes stand for as F32. */
static char *widened(const char *dir)
{
    weir_error   err;
    checkpoint  *c;
    made_tensors out;
    char        *to = made_dir(), *path = path_join(dir, "config.json"), *text;
    json_doc     doc;
    must(checkpoint_open(&c, dir, &err), &err);
    made_begin(&out);
    for (size_t i = 0; i < checkpoint_count(c); i++)
        if (checkpoint_at(c, i)->part != CHECKPOINT_VISION) emit_numbers(&out, c, checkpoint_at(c, i));
    made_write(&out, to, "model.safetensors");
    checkpoint_close(c);
    must(json_load(&doc, path, 1 << 20, 16, &err), &err);
    (void)json_object_del(doc.root, "quantization");
    (void)json_object_del(doc.root, "quantization_config");
    text = json_dumps(doc.root, 0);
    made_text(to, "config.json", text);
    free(text);
    json_doc_free(&doc);
    mem_free(path);
    return to;
}

/* Plain F32 weights agree with float64 to a few 1e-6 of the largest logit
 * (tests/oracle), so what is left here is the kernels' own way with codes. */
static void logits_are_those_of_the_decoded_weights(void **unused)
{
    (void)unused;
    static const char *const sources[] = {"tiny-dense", "tiny-moe", "tiny-dense-tied", "tiny-odd"};
    for (size_t i = 0; i < 4; i++) {
        char *dir   = made_dir();
        char *rules = mixed_recipe(dir);
        /* tiny-odd has no MTP, the tied one no head: rules must fit something. */
        const bool                  whole = i < 2;
        const weir_quantize_options opt   = {.bits = 8, .group = 32, .recipe = whole ? rules : NULL};
        char                       *out = quantized(fixture_path(sources[i]), opt, 0), *wide = widened(out);
        uint32_t                    n, m;
        float                      *x = logits_of(out, &n), *y = logits_of(wide, &m), most = 0, worst = 0;
        assert_int_equal(n, m);
        for (uint32_t k = 0; k < n; k++) {
            most  = fmaxf(most, fabsf(y[k]));
            worst = fmaxf(worst, fabsf(x[k] - y[k]));
        }
        if (!(worst <= 2e-4f * most)) fail_msg("%s: off by %g of %g", sources[i], (double)worst, (double)most);
        if (whole) check_same_guesses(out, out);
        free(x);
        free(y);
        mem_free(rules);
        made_remove(wide);
        made_remove(out);
        made_remove(dir);
    }
}

/* The largest |logit - float64 of the source| over the standard deviation, last position of p37. */
static double distance(const char *dir, const char *source)
{
    weir_error  err;
    weir_model *m;
    safetensors expected;
    char       *path = path_join(fixture_path(source), "expected.safetensors");
    size_t      n;
    tensors_open(&expected, path);
    must(weir_model_open(&m, dir, &err), &err);
    weir_engine   *e   = engine_with(m, (weir_engine_options){.threads = 1, .max_context = 64, .kv = "f32"});
    weir_sequence *s   = sequence_on(e);
    uint32_t      *ids = tensors_ids(&expected, &n, "p37.input_ids");
    numbers        y   = tensors_get(&expected, "p37.logits");
    append(s, ids, n);
    const size_t  vocab = e->m.config.vocab_size;
    const double *last  = y.x + y.n - vocab;
    const double  worst = numbers_worst(weir_sequence_logits(s), last, vocab) / numbers_std(last, vocab);
    numbers_free(&y);
    free(ids);
    weir_sequence_free(s);
    weir_engine_close(e);
    weir_model_close(m);
    safetensors_close(&expected);
    mem_free(path);
    return worst;
}

/* Names, splits and gains are right when 8 bits are nearly the source; a part
 * that is swapped or scaled is off by a standard deviation and more. */
static void eight_bits_are_near_the_source(void **unused)
{
    (void)unused;
    static const char *const sources[] = {"tiny-dense", "tiny-moe", "tiny-dense-tied", "tiny-odd"};
    for (size_t i = 0; i < 4; i++) {
        char        *out = quantized(fixture_path(sources[i]), (weir_quantize_options){.bits = 8, .group = 32}, 0);
        const double off = distance(out, sources[i]);
        if (!(off < 0.25)) fail_msg("%s: off by %g standard deviations", sources[i], off);
        made_remove(out);
    }
}

/* ---- other packings of experts ---- */

static void emit_each(made_tensors *out, const checkpoint_tensor *t, const char *name, uint64_t row0, uint64_t rows)
{
    char           full[512];
    const uint64_t row = t->bytes / (t->shape[0] * t->shape[1]), shape[] = {rows, t->shape[2]};
    const int      stem = (int)(strstr(t->raw_name, "experts.") - t->raw_name);
    for (uint64_t e = 0; e < t->shape[0]; e++) {
        (void)snprintf(full, sizeof full, "%.*sexperts.%llu.%s.weight", stem, t->raw_name, (unsigned long long)e, name);
        emit(out, full, t, 2, shape, t->data + (e * t->shape[1] + row0) * row, rows * row);
    }
}

static void one_matrix_an_expert(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    if (ends_in(t->name, "experts.gate_up_proj")) {
        emit_each(out, t, "gate_proj", 0, t->shape[1] / 2);
        emit_each(out, t, "up_proj", t->shape[1] / 2, t->shape[1] / 2);
    } else if (ends_in(t->name, "experts.down_proj")) {
        emit_each(out, t, "down_proj", 0, t->shape[1]);
    } else {
        emit_same(out, t);
    }
}

static void as_they_are(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    emit_same(out, t);
}

static void experts_in_either_packing(void **unused)
{
    (void)unused;
    static const uint32_t bits[] = {4, RECIPE_KEEP};
    for (size_t i = 0; i < 2; i++) {
        char *fused = rewrite("tiny-moe", as_they_are, NULL), *each = rewrite("tiny-moe", one_matrix_an_expert, NULL);
        char *dir = made_dir(), text[128];
        (void)snprintf(text, sizeof text, "[{\"pattern\": \"*\", \"bits\": %u}]", bits[i]);
        made_text(dir, "recipe.json", text);
        char                       *rules = path_join(dir, "recipe.json");
        const weir_quantize_options opt   = {.bits = 4, .group = 64, .recipe = rules};
        char                       *a = quantized(fused, opt, 0), *b = quantized(each, opt, 0);
        check_same_folder(a, b);
        if (bits[i] == RECIPE_KEEP) check_same_logits(a, fused); /* nothing but names and gains has changed */
        mem_free(rules);
        made_remove(a);
        made_remove(b);
        made_remove(dir);
        made_remove(fused);
        made_remove(each);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_an_independent_implementation),
        cmocka_unit_test(logits_are_those_of_the_decoded_weights),
        cmocka_unit_test(eight_bits_are_near_the_source),
        cmocka_unit_test(experts_in_either_packing),
    };
    return cmocka_run_group_tests_name("quantize", tests, NULL, NULL);
}
