/* The trellis format of weir_quantize: which way matrices are coded, what the
 * folder says of it, and where it is refused. */
#include "../../support/golden.h"
#include "quantized.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "base/json.h"
#include "base/mem.h"
#include "convert/encode_trellis.h"
#include "quant/dense.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = TRELLIS_BLOCK, HIDDEN = 256, INNER = 288 /* of tiny-dense */ };

/* ---- matrices ---- */

/* Encodes the matrix in pieces of `rows` and compares it with what the independent encoder made. */
static void check_matrix(const safetensors *golden, const plan_item *item, uint32_t threads, uint64_t rows)
{
    plan          p = {.n = 1, .items = (plan_item *)(uintptr_t)item};
    trellis_coder c;
    weir_error    err;
    pool         *workers;
    char          name[32];
    size_t        n;
    (void)snprintf(name, sizeof name, "k%u.words", item->bits);
    const uint8_t *words = golden_data(golden, name, DTYPE_U32, &n);
    (void)snprintf(name, sizeof name, "k%u.scales", item->bits);
    const uint8_t *scales = golden_data(golden, name, DTYPE_F16, &n);
    const uint64_t all = plan_coded_rows(item), row = plan_coded_cols(item) / 8 * item->bits;
    assert_int_equal(n, all);
    must(pool_new(&workers, threads, &err), &err);
    must(trellis_coder_new(&c, &p, threads, &err), &err);
    assert_true(trellis_coder_most(item, threads) == all);
    for (uint64_t first = 0; first < all; first += rows) {
        const uint64_t m = all - first < rows ? all - first : rows;
        assert_true(trellis_coder_rows(&c, item, first, m, workers));
        assert_memory_equal(c.blocks, words + first * row, m * row);
        assert_memory_equal(c.scales, scales + 2 * first, 2 * m);
    }
    trellis_coder_free(&c);
    pool_free(workers);
}

static void rows_and_columns(void **unused)
{
    (void)unused;
    safetensors golden;
    size_t      n;
    golden_open(&golden, WEIR_SOURCE_DIR "/tests/data/trellis/rows.safetensors");
    const uint8_t *x    = golden_data(&golden, "x", DTYPE_F32, &n);
    const size_t   rows = 8, cols = n / rows;
    float         *turned = malloc(n * sizeof *turned);
    assert_non_null(turned);
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < cols; k++) turned[k * rows + r] = load_f32(x + 4 * (r * cols + k));
    const uint8_t *by_rows[] = {x}, *by_columns[] = {(const uint8_t *)turned};
    for (uint32_t bits = 2; bits <= 4; bits++) {
        plan_item item = {.kind = PLAN_TRELLIS, .type = DTYPE_F32, .mats = 1, .bits = bits, .group = BLOCK};
        item.axis      = 1;
        item.rows      = rows;
        item.cols      = cols;
        item.mat       = by_rows;
        check_matrix(&golden, &item, 1 + bits % 2, 3);
        item.axis = 0;
        item.rows = cols;
        item.cols = rows;
        item.mat  = by_columns;
        check_matrix(&golden, &item, 1 + bits % 2, 5);
    }
    free(turned);
    safetensors_close(&golden);
}

/* ---- folders ---- */

static char *rules_in(const char *dir, const char *text)
{
    made_text(dir, "rules.json", text);
    return path_join(dir, "rules.json");
}

static const safetensors_tensor *tensor_of(const safetensors *f, const char *module, const char *tail)
{
    char name[256];
    (void)snprintf(name, sizeof name, "language_model.model.%s%s", module, tail);
    return golden_find(f, name);
}

/* The numbers of stored row r, and their place in the source, as its layers.0 has it. */
static double error_of_module(const safetensors *f, const checkpoint *source, const char *module, uint32_t bits)
{
    const safetensors_tensor *w = tensor_of(f, module, ".weight"), *s = tensor_of(f, module, ".scales");
    char                      name[256];
    float                     code[4096];
    double                    error = 0, power = 0;
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const checkpoint_tensor *t    = checkpoint_find(source, CHECKPOINT_TRUNK, name);
    const bool               down = strstr(module, "down") != NULL;
    for (uint32_t n = 0; n < TRELLIS_STATES; n++) code[n] = trellis_code(n);
    assert_true(w != NULL && s != NULL && t != NULL);
    assert_true(w->type == DTYPE_U32 && w->rank == 2 && w->shape[0] == INNER && w->shape[1] == HIDDEN * bits / 32);
    assert_true(s->type == DTYPE_F16 && s->rank == 1 && s->shape[0] == INNER);
    assert_null(tensor_of(f, module, ".biases"));
    for (size_t r = 0; r < INNER; r++) {
        const uint8_t *block = f->data + w->begin + r * (32 * bits);
        const float    scale = f16_to_f32(load_u16(f->data + s->begin + 2 * r));
        for (size_t k = 0; k < BLOCK; k++) {
            uint32_t s12 = 0;
            for (size_t i = 0, at = (BLOCK - 1 - k) * bits; i < 12; i++, at = (at + 1) % (BLOCK * bits))
                s12 |= (uint32_t)(block[at / 8] >> at % 8 & 1) << i;
            const double v = dense_at(t->data, t->type, down ? k * INNER + r : r * HIDDEN + k);
            const double d = v - (double)(code[s12] * scale);
            error += d * d;
            power += v * v;
        }
    }
    return error / power;
}

static void check_entry(const json_t *block, const char *module, uint32_t bits, int axis)
{
    char    name[256];
    json_t *want = json_pack("{s:I, s:i, s:s, s:{s:i, s:s, s:i}}", "bits", (json_int_t)bits, "group_size", 256, "mode",
                             "trellis", "trellis", "L", 12, "code", "1mad", "axis", axis);
    (void)snprintf(name, sizeof name, "language_model.model.%s", module);
    if (!json_equal(json_object_get(block, name), want)) fail_msg("%s: another entry", name);
    json_decref(want);
}

static void check_folder(const char *dir, const checkpoint *source, uint32_t bits, double least, double most)
{
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    weir_error               err;
    safetensors              f;
    json_doc                 doc;
    char *path = path_join(dir, "model.safetensors"), *json = path_join(dir, "config.json"), module[64];
    golden_open(&f, path);
    must(json_load(&doc, json, 1 << 20, 16, &err), &err);
    const json_t *block = json_object_get(doc.root, "quantization");
    assert_true(json_equal(block, json_object_get(doc.root, "quantization_config")));
    assert_string_equal(json_string_value(json_object_get(block, "mode")), "affine");
    assert_int_equal(json_integer_value(json_object_get(block, "bits")), bits);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(module, sizeof module, "layers.0.mlp.%s", parts[i]);
        const double e = error_of_module(&f, source, module, bits);
        if (e < least || e > most) fail_msg("%s with %u bits: error %g", module, bits, e);
        check_entry(block, module, bits, i < 2);
    }
    /* The others are what they are without a trellis. */
    const safetensors_tensor *other = tensor_of(&f, "layers.0.linear_attn.out_proj", ".biases");
    assert_true(other != NULL && other->type == DTYPE_BF16);
    json_doc_free(&doc);
    safetensors_close(&f);
    mem_free(path);
    mem_free(json);
}

/* The other layers have affine MLPs, for time. */
static void matrices_are_the_sources(void **unused)
{
    (void)unused;
    static const double least[] = {[2] = 0.065, [3] = 0.017, [4] = 0.004};
    static const double most[]  = {[2] = 0.080, [3] = 0.021, [4] = 0.006};
    weir_error          err;
    checkpoint         *source;
    char               *rules_dir = made_dir();
    char               *rules     = rules_in(rules_dir, "[{\"pattern\": \"layers.1.mlp.*\", \"bits\": 8},"
                                                                          " {\"pattern\": \"layers.2.mlp.*\", \"bits\": 4},"
                                                                          " {\"pattern\": \"layers.3.mlp.*\", \"bits\": 4}]");
    must(checkpoint_open(&source, fixture_path("tiny-dense"), &err), &err);
    for (uint32_t bits = 2; bits <= 4; bits++) {
        const weir_quantize_options opt = {
            .bits = bits, .group = 64, .format = "trellis", .recipe = rules, .threads = 2};
        char *dir = quantized(fixture_path("tiny-dense"), opt, 0);
        check_folder(dir, source, bits, least[bits], most[bits]);
        made_remove(dir);
    }
    checkpoint_close(source);
    mem_free(rules);
    made_remove(rules_dir);
}

/* One layer, so that it is short. */
static const char one_layer[] = "[{\"pattern\": \"layers.0.mlp.*\", \"bits\": 3, \"format\": \"trellis\"}]";

static bool stop_at_once(void *user, uint64_t done, uint64_t total)
{
    int *left = user;
    assert_true(done <= total);
    return --*left > 0;
}

static void threads_and_interruptions(void **unused)
{
    (void)unused;
    enum { SMALL = 60000 };
    const char                 *from      = fixture_path("tiny-dense");
    char                       *rules_dir = made_dir(), *rules = rules_in(rules_dir, one_layer), *dir = made_dir();
    const weir_quantize_options opt = {.bits = 4, .group = 64, .recipe = rules};
    weir_quantize_options       one = opt, stopped = opt;
    one.threads = 1;
    char *a     = quantized(from, one, SMALL);
    /* Stopped later each time, at least once within a matrix of layer 0. */
    weir_error           err;
    weir_quantize_result r;
    weir_status          st   = WEIR_CANCELLED;
    int                  runs = 0, left;
    stopped.size              = sizeof stopped;
    stopped.threads           = 2;
    stopped.on_progress       = stop_at_once;
    stopped.user              = &left;
    for (; st == WEIR_CANCELLED; runs++) {
        left = 15 + 20 * runs;
        st   = quantize(from, dir, &stopped, SMALL, &r, &err);
    }
    must(st, &err);
    assert_true(runs > 3 && r.files_kept > 2);
    check_same_folder(a, dir);
    mem_free(rules);
    made_remove(a);
    made_remove(dir);
    made_remove(rules_dir);
}

/* ---- where there is no trellis ---- */

static void refused(const char *source, const weir_quantize_options *opt, weir_status status, const char *says,
                    const char *names)
{
    weir_error           err;
    weir_quantize_result r;
    char                *dir = made_dir(), *target = path_join(dir, "out");
    const weir_status    st          = weir_quantize(source, target, opt, &r, &err);
    const char *const    fragments[] = {says, names, NULL};
    check_failure(st, status, &err, source, fragments);
    if (status == WEIR_INVALID) assert_false(file_is_dir(target)); /* nothing was begun */
    mem_free(target);
    made_remove(dir);
}

static void with_a_nan(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    if (strcmp(t->name, user) != 0) {
        emit_same(out, t);
        return;
    }
    uint8_t *copy = malloc(t->bytes);
    assert_non_null(copy);
    memcpy(copy, t->data, t->bytes);
    memset(copy + t->bytes / 4 * 2, 0xFF, 2);
    emit(out, t->raw_name, t, t->rank, t->shape, copy, t->bytes);
    free(copy);
}

static void what_is_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *fixture, *pattern, *says, *names;
    } cases[] = {
        {"tiny-moe", "layers.1.mlp.switch_mlp.up_proj", "expected a dense layer's mlp.gate_proj",
         "layers.1.mlp.switch_mlp.up_proj"},
        {"tiny-moe", "layers.1.mlp.shared_expert.up_proj", "expected a dense layer's mlp.gate_proj", "shared_expert"},
        {"tiny-dense", "lm_head", "expected a dense layer's mlp.gate_proj", "lm_head"},
        {"tiny-dense", "mtp.layers.0.mlp.up_proj", "expected a dense layer's mlp.gate_proj", "found mtp.layers.0"},
        {"tiny-dense-tied", "layers.0.mlp.up_proj", "expected a multiple of 256 columns, found 128", "mlp.up_proj"},
        {"tiny-dense-tied", "layers.0.mlp.down_proj", "expected a multiple of 256 rows, found 128", "mlp.down_proj"},
    };
    char                 *dir = made_dir(), text[256];
    weir_quantize_options opt = WEIR_QUANTIZE_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(text, sizeof text, "[{\"pattern\": \"%s\", \"bits\": 3, \"format\": \"trellis\"}]",
                       cases[i].pattern);
        char *rules = rules_in(dir, text);
        opt.recipe  = rules;
        refused(fixture_path(cases[i].fixture), &opt, WEIR_INVALID, cases[i].says, cases[i].names);
        mem_free(rules);
    }
    opt        = (weir_quantize_options)WEIR_QUANTIZE_OPTIONS_INIT;
    opt.format = "trellis";
    opt.bits   = 6;
    refused(fixture_path("tiny-dense"), &opt, WEIR_INVALID, "bits: expected 2, 3 or 4 with format trellis", "found 6");
    opt.bits   = 4;
    opt.format = "q4_0";
    refused(fixture_path("tiny-dense"), &opt, WEIR_INVALID, "format: expected affine or trellis", "found q4_0");
    opt.format = "trellis";
    char *odd  = rewrite("tiny-dense", with_a_nan, "layers.0.mlp.down_proj.weight");
    refused(odd, &opt, WEIR_FORMAT, "expected finite numbers", "layers.0.mlp.down_proj.weight");
    made_remove(odd);
    made_remove(dir);
}

static void without_columns(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    const uint64_t none[] = {INNER, 0};
    (void)user;
    if (strcmp(t->name, "layers.0.mlp.up_proj.weight") == 0)
        emit(out, t->raw_name, t, 2, none, t->data, 0);
    else if (strstr(t->name, ".mlp.") == NULL) /* the others take time */
        emit_same(out, t);
}

static void a_matrix_of_nothing(void **unused)
{
    (void)unused;
    safetensors f;
    char       *odd  = rewrite("tiny-dense", without_columns, NULL);
    char       *dir  = quantized(odd, (weir_quantize_options){.bits = 3, .group = 64, .format = "trellis"}, 0);
    char       *path = path_join(dir, "model.safetensors");
    golden_open(&f, path);
    const safetensors_tensor *w = tensor_of(&f, "layers.0.mlp.up_proj", ".weight");
    assert_true(w != NULL && w->type == DTYPE_BF16 && w->shape[1] == 0);
    safetensors_close(&f);
    mem_free(path);
    made_remove(dir);
    made_remove(odd);
}

/* Where it has no place, the format changes nothing. */
static void models_without_a_place(void **unused)
{
    (void)unused;
    static const char *const sources[] = {"tiny-moe", "tiny-dense-tied"};
    for (size_t i = 0; i < 2; i++) {
        weir_quantize_options opt = {.bits = 3, .group = 64};
        char                 *a   = quantized(fixture_path(sources[i]), opt, 0);
        opt.format                = "trellis";
        char *b                   = quantized(fixture_path(sources[i]), opt, 0);
        check_same_folder(a, b);
        made_remove(a);
        made_remove(b);
    }
}

static void on_tensor(void *user, const weir_quantize_tensor *t)
{
    uint32_t  *n   = user;
    const bool mlp = strncmp(t->name, "language_model.model.layers.0.mlp.", 34) == 0;
    assert_true(t->bits != 0 ? t->format != NULL : t->format == NULL);
    if (t->format == NULL) return;
    assert_string_equal(t->format, mlp ? "trellis" : "affine");
    if (!mlp) return;
    assert_int_equal(t->bits, 3);
    assert_int_equal(t->group, 256);
    assert_string_equal(t->dtype, "F16");
    assert_int_equal(t->parameters, HIDDEN * INNER);
    ++*n;
}

static void what_is_told(void **unused)
{
    (void)unused;
    uint32_t              n   = 0;
    char                 *dir = made_dir(), *rules = rules_in(dir, one_layer);
    weir_quantize_options opt = WEIR_QUANTIZE_OPTIONS_INIT;
    opt.recipe                = rules;
    opt.on_tensor             = on_tensor;
    opt.user                  = &n;
    char *out                 = quantized(fixture_path("tiny-dense"), opt, 0);
    assert_int_equal(n, 3);
    mem_free(rules);
    made_remove(out);
    made_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns),          cmocka_unit_test(matrices_are_the_sources),
        cmocka_unit_test(threads_and_interruptions), cmocka_unit_test(what_is_refused),
        cmocka_unit_test(models_without_a_place),    cmocka_unit_test(what_is_told),
        cmocka_unit_test(a_matrix_of_nothing),
    };
    return cmocka_run_group_tests_name("quantize_trellis", tests, NULL, NULL);
}
