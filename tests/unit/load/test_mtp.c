/* tests/unit/load/test_mtp.c - the MTP head is bound when it is asked for, passed
 * over when not, and refused by name when it is not what is expected. */
#include "rewrite.h"

#include "base/file.h"
#include "base/mem.h"
#include "kernels/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Loads the model in `dir`; the status, with everything released. */
static weir_status load(const char *dir, bool with_mtp, weir_error *err)
{
    checkpoint *c;
    kernels    *k;
    model       m;
    must(checkpoint_open(&c, dir, err), err);
    must(kernels_open(&k, "cpu", 1, NULL, err), err);
    const weir_status st = load_model(&m, k, c, with_mtp, err);
    if (st == WEIR_OK) assert_int_equal(m.config.mtp, with_mtp);
    load_free(&m, k);
    k->close(k);
    checkpoint_close(c);
    return st;
}

/* Refused with MTP and loaded without. */
static void check_head_refused(char *dir, weir_status status, const char *const *fragments)
{
    weir_error err;
    check_failure(load(dir, true, &err), status, &err, dir, fragments);
    must(load(dir, false, &err), &err);
    made_remove(dir);
}

#define HEAD_REFUSED(dir, status, ...) check_head_refused(dir, status, (const char *const[]){__VA_ARGS__, NULL})

/* ---- what is bound ---- */

/* Drops the MTP tensors whose canonical names are in the NULL-ended list. */
static void drop(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    const char *const *list = user;
    for (; *list != NULL; list++)
        if (t->part == CHECKPOINT_MTP && strcmp(t->name, *list) == 0) return;
    emit_same(out, t);
}

static void test_missing(void **given)
{
    (void)given;
    const char *const ends[] = {"fc.weight", "norm.weight", "pre_fc_norm_hidden.weight", NULL};
    HEAD_REFUSED(rewrite("tiny-dense", drop, ends), WEIR_FORMAT, "3 tensors are missing", "mtp.fc", "mtp.norm.weight",
                 "mtp.pre_fc_norm_hidden.weight");
    const char *const inside[] = {"layers.0.self_attn.k_proj.weight", "layers.0.mlp.experts.down_proj", NULL};
    HEAD_REFUSED(rewrite("tiny-moe", drop, inside), WEIR_FORMAT, "2 tensors are missing",
                 "mtp.layers.0.self_attn.k_proj", "mtp.layers.0.mlp.");
}

static void add(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    emit_same(out, t);
    if (t->part == CHECKPOINT_MTP && strcmp(t->name, "norm.weight") == 0)
        emit(out, user, t, t->rank, t->shape, t->data, t->bytes);
}

static void test_unexpected(void **given)
{
    (void)given;
    HEAD_REFUSED(rewrite("tiny-dense", add, "mtp.layers.1.input_layernorm.weight"), WEIR_FORMAT,
                 "mtp.layers.1.input_layernorm.weight");
    HEAD_REFUSED(rewrite("tiny-dense", add, "mtp.another.weight"), WEIR_FORMAT, "mtp.another.weight");
}

static void narrow(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    const uint64_t shape[] = {t->shape[0] * 2, t->shape[1] / 2};
    if (t->part == CHECKPOINT_MTP && strcmp(t->name, "fc.weight") == 0)
        emit(out, t->raw_name, t, 2, shape, t->data, t->bytes);
    else
        emit_same(out, t);
}

static void test_shape(void **given)
{
    (void)given;
    HEAD_REFUSED(rewrite("tiny-dense", narrow, NULL), WEIR_FORMAT, "mtp.fc.weight", "[256, 512]", "[512, 256]");
}

/* ---- whether there is one ---- */

static void same(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    emit_same(out, t);
}

/* tiny-dense with another number of MTP layers in its config; made_remove. */
static char *with_layers(char digit)
{
    static const char key[] = "\"mtp_num_hidden_layers\": ";
    char              path[1024], *text;
    size_t            n;
    weir_error        err;
    char             *dir = rewrite("tiny-dense", same, NULL);
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    must(file_read(&text, &n, path, 1 << 20, &err), &err);
    char *at = strstr(text, key);
    assert_non_null(at);
    at[sizeof key - 1] = digit;
    made_file(dir, "config.json", text, n);
    mem_free(text);
    return dir;
}

static void test_layers(void **given)
{
    (void)given;
    HEAD_REFUSED(with_layers('2'), WEIR_UNSUPPORTED, "mtp_num_hidden_layers", "expected 1, found 2");
    HEAD_REFUSED(with_layers('0'), WEIR_INVALID, "multi-token-prediction", "found none");
    HEAD_REFUSED(rewrite("tiny-odd", same, NULL), WEIR_INVALID, "multi-token-prediction", "found none");
}

static checkpoint *fixture(const char *name)
{
    char        path[1024];
    weir_error  err;
    checkpoint *c;
    (void)snprintf(path, sizeof path, "%s/%s", WEIR_SOURCE_DIR, name);
    must(checkpoint_open(&c, path, &err), &err);
    return c;
}

static void test_has_mtp(void **given)
{
    (void)given;
    static const struct {
        const char *name;
        uint64_t    bytes; /* of its mtp.* tensors */
    } files[] = {{"tests/fixtures/tiny-dense", 2805248},
                 {"tests/fixtures/tiny-moe", 1036800},
                 {"models/demo", 1723904},
                 {"tests/fixtures/tiny-odd", 0},
                 {"tests/fixtures/mlx-q4", 0}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        load_description d;
        checkpoint      *c = fixture(files[i].name);
        load_describe(&d, c);
        assert_int_equal(load_has_mtp(c), files[i].bytes > 0);
        assert_int_equal(d.mtp_bytes, files[i].bytes);
        checkpoint_close(c);
    }
}

/* ---- sizes ---- */

static struct {
    weir_status (*buf_new)(kernels *k, uint64_t bytes, k_buf **out, weir_error *err);
    uint64_t bytes;
} counted;

static weir_status count(kernels *k, uint64_t bytes, k_buf **out, weir_error *err)
{
    counted.bytes += bytes;
    return counted.buf_new(k, bytes, out, err);
}

/* What is announced is what is taken, by loading as by the buffers of a step. */
static void check_sizes(const char *name, bool with_mtp)
{
    weir_error        err;
    kernels          *k;
    model             m;
    work              w;
    const work_limits l = {.max_rows = 5, .max_wanted = 3};
    checkpoint       *c = fixture(name);
    must(kernels_open(&k, "cpu", 1, NULL, &err), &err);
    counted.buf_new = k->buf_new;
    counted.bytes   = 0;
    k->buf_new      = count;
    must(load_model(&m, k, c, with_mtp, &err), &err);
    assert_int_equal(counted.bytes, load_converted_bytes(&m.config));
    counted.bytes = 0;
    must(work_new(&w, k, &m.config, &l, &err), &err);
    assert_int_equal(counted.bytes, work_bytes(&m.config, &l));
    assert_int_equal(w.hidden != NULL, with_mtp);
    assert_int_equal(w.drafted != NULL, with_mtp);
    work_free(&w, k);
    load_free(&m, k);
    k->close(k);
    checkpoint_close(c);
}

static void test_sizes(void **given)
{
    (void)given;
    static const char *const names[] = {"tests/fixtures/tiny-dense", "tests/fixtures/tiny-moe", "models/demo"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_sizes(names[i], false);
        check_sizes(names[i], true);
    }
}

/* Of tiny-dense, and of one whose pairs of halves are its widest rows. */
static void test_work(void **given)
{
    (void)given;
    const work_limits l = {.max_rows = 5, .max_wanted = 3};
    checkpoint       *c = fixture("tests/fixtures/tiny-dense");
    model_config with = load_config(checkpoint_config(c), true), without = load_config(checkpoint_config(c), false);
    assert_int_equal(work_bytes(&with, &l) - work_bytes(&without, &l), sizeof(float) * (5 + 5) * 256);
    with.hidden_size = without.hidden_size = 8192; /* wider than the 2048 of queries and gates */
    assert_int_equal(work_bytes(&with, &l) - work_bytes(&without, &l),
                     sizeof(float) * ((5 + 5) * 8192 + 5 * (2 * 8192 - 2048)));
    checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_work),       cmocka_unit_test(test_missing),
                                       cmocka_unit_test(test_unexpected), cmocka_unit_test(test_shape),
                                       cmocka_unit_test(test_layers),     cmocka_unit_test(test_has_mtp),
                                       cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests_name("MTP", tests, NULL, NULL);
}
