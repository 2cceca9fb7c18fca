/* tests/unit/load/test_forms.c - one model in the forms that exporters write:
 * the same logits, bit for bit. */
#include "rewrite.h"

#include "base/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void same(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    emit_same(out, t);
}

static void without_mtp(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    if (t->part != CHECKPOINT_MTP) emit_same(out, t);
}

/* Writes the fixture both ways and compares. */
static void check_pair(const char *fixture, rewrite_fn *a, rewrite_fn *b, const void *user)
{
    char *dir_a = rewrite(fixture, a, user), *dir_b = rewrite(fixture, b, user);
    check_same_logits(dir_a, dir_b);
    check_same_guesses(dir_a, dir_b);
    made_remove(dir_a);
    made_remove(dir_b);
}

/* ---- experts ---- */

/* "....mlp.experts.gate_up_proj" -> "....mlp." */
static void block_prefix(char *buf, size_t size, const checkpoint_tensor *t)
{
    (void)snprintf(buf, size, "%.*s", (int)(strstr(t->raw_name, "experts.") - t->raw_name), t->raw_name);
}

/* Rows row0 .. row0+rows-1 of every matrix of a stack, put together; free(). */
static uint8_t *rows_of(const checkpoint_tensor *t, uint64_t row0, uint64_t rows, size_t *n)
{
    const size_t row = t->bytes / (t->shape[0] * t->shape[1]), part = rows * row;
    uint8_t     *all = malloc(t->shape[0] * part);
    assert_non_null(all);
    for (uint64_t e = 0; e < t->shape[0]; e++) memcpy(all + e * part, t->data + (e * t->shape[1] + row0) * row, part);
    *n = t->shape[0] * part;
    return all;
}

/* One stack [E, rows, cols] under `name`, or E matrices under numbered names. */
static void emit_part(made_tensors *out, const checkpoint_tensor *t, const char *name, uint64_t row0, uint64_t rows,
                      bool each)
{
    char           prefix[256], full[512];
    size_t         n;
    uint8_t       *data    = rows_of(t, row0, rows, &n);
    const uint64_t E       = t->shape[0];
    const uint64_t shape[] = {E, rows, t->shape[2]};
    block_prefix(prefix, sizeof prefix, t);
    for (uint64_t e = 0; each && e < E; e++) {
        (void)snprintf(full, sizeof full, "%sexperts.%llu.%s.weight", prefix, (unsigned long long)e, name);
        emit(out, full, t, 2, shape + 1, data + e * (n / E), n / E);
    }
    (void)snprintf(full, sizeof full, "%sswitch_mlp.%s.weight", prefix, name);
    if (!each) emit(out, full, t, 3, shape, data, n);
    free(data);
}

static void repack(made_tensors *out, const checkpoint_tensor *t, bool each)
{
    if (ends_in(t->name, "experts.gate_up_proj")) {
        emit_part(out, t, "gate_proj", 0, t->shape[1] / 2, each);
        emit_part(out, t, "up_proj", t->shape[1] / 2, t->shape[1] / 2, each);
    } else if (ends_in(t->name, "experts.down_proj")) {
        emit_part(out, t, "down_proj", 0, t->shape[1], each);
    } else {
        emit_same(out, t);
    }
}

static void stacked(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    repack(out, t, false);
}

static void per_expert(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    repack(out, t, true);
}

static void test_experts(void **given)
{
    (void)given;
    check_pair("tiny-moe", same, stacked, NULL);
    check_pair("tiny-moe", same, per_expert, NULL);
}

/* ---- the head ---- */

static void with_head(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    (void)user;
    emit_same(out, t);
    if (t->part == CHECKPOINT_TRUNK && strcmp(t->name, "embed_tokens.weight") == 0)
        emit(out, "lm_head.weight", t, t->rank, t->shape, t->data, t->bytes);
}

/* A tied model may carry its head twice. */
static void test_tied_with_head(void **given)
{
    (void)given;
    check_pair("tiny-dense-tied", same, with_head, NULL);
}

/* ---- conventions ---- */

typedef struct convention {
    bool         mlx, mtp;
    const float *all_gains;  /* NULL: those of the fixture */
    bool         mtp_as_was; /* MTP's gains are left as they were, whatever mlx says */
} convention;

static bool is_gain(const checkpoint_tensor *t)
{
    static const char *const gains[] = {"layernorm.weight", "q_norm.weight", "k_norm.weight",
                                        "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight"};
    if (strcmp(t->name, "norm.weight") == 0) return true; /* linear_attn.norm is another thing */
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++)
        if (ends_in(t->name, gains[i])) return true;
    return false;
}

/* As float32, so that gamma is exact where gamma - 1 is. */
static void emit_gain(made_tensors *out, const char *name, const checkpoint_tensor *t, const convention *c)
{
    const bool        plain = c->mlx && !(c->mtp_as_was && t->part == CHECKPOINT_MTP);
    const size_t      n     = (size_t)t->shape[0];
    float            *x     = malloc(n * sizeof *x);
    checkpoint_tensor wide  = *t;
    assert_non_null(x);
    assert_int_equal(t->type, DTYPE_BF16);
    wide.type_name = "F32";
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, t->data + 2 * i, sizeof h);
        x[i] = c->all_gains != NULL ? *c->all_gains : bf16_to_f32(h) + (plain ? 1.0f : 0.0f);
    }
    emit(out, name, &wide, 1, t->shape, x, n * sizeof *x);
    free(x);
}

static void in_convention(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    static const char *const hf[] = {
        [CHECKPOINT_TRUNK] = "model.language_model.", [CHECKPOINT_HEAD] = "", [CHECKPOINT_MTP] = "mtp."};
    static const char *const mlx[] = {[CHECKPOINT_TRUNK] = "language_model.model.",
                                      [CHECKPOINT_HEAD]  = "language_model.",
                                      [CHECKPOINT_MTP]   = "language_model.mtp."};
    const convention        *c     = user;
    char                     name[256];
    if (t->part == CHECKPOINT_MTP && !c->mtp) return;
    (void)snprintf(name, sizeof name, "%s%s", (c->mlx ? mlx : hf)[t->part], t->name);
    if (is_gain(t)) {
        emit_gain(out, name, t, c);
    } else if (ends_in(t->name, "conv1d.weight") && c->mlx) {
        const uint64_t last[] = {t->shape[0], t->shape[2], 1};
        emit(out, name, t, 3, last, t->data, t->bytes);
    } else {
        emit(out, name, t, t->rank, t->shape, t->data, t->bytes);
    }
}

/* gamma - 1 with [C,1,K] or gamma with [C,K,1], with MTP tensors or without. */
static void test_conventions(void **given)
{
    (void)given;
    char *plain = rewrite("tiny-dense", without_mtp, NULL);
    for (int i = 0; i < 4; i++) {
        const convention c   = {.mlx = i % 2 == 1, .mtp = i >= 2};
        char            *dir = rewrite("tiny-dense", in_convention, &c);
        check_same_logits(plain, dir);
        made_remove(dir);
    }
    made_remove(plain);
}

/* MTP's gains have a form of their own: those of a converted trunk may have been left as they were. */
static void test_mtp_conventions(void **given)
{
    (void)given;
    const convention others[] = {
        {.mtp = true}, {.mlx = true, .mtp = true}, {.mlx = true, .mtp = true, .mtp_as_was = true}};
    char *plain = rewrite("tiny-dense", same, NULL);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *dir = rewrite("tiny-dense", in_convention, &others[i]);
        check_same_guesses(plain, dir);
        made_remove(dir);
    }
    made_remove(plain);
}

/* All gains alike, stored as 1/16 or as 17/16. */
static void test_equal_gains(void **given)
{
    (void)given;
    const float      low = 0.0625f, high = 1.0625f;
    const convention a = {.all_gains = &low}, b = {.mlx = true, .all_gains = &high};
    char *dir_a = rewrite("tiny-dense", in_convention, &a), *dir_b = rewrite("tiny-dense", in_convention, &b);
    check_same_logits(dir_a, dir_b);
    made_remove(dir_a);
    made_remove(dir_b);
}

/* What cannot be told is refused, not guessed. */
static void test_undecidable(void **given)
{
    (void)given;
    const float      half = 0.5f, low = 0.05f;
    const convention middle = {.all_gains = &half}, contradiction = {.mlx = true, .all_gains = &low};
    char            *dir = rewrite("tiny-dense", in_convention, &middle);
    check_refused(dir, WEIR_FORMAT, (const char *const[]){"input_layernorm.weight", "cannot decide", NULL});
    made_remove(dir);
    dir = rewrite("tiny-dense", in_convention, &contradiction);
    check_refused(dir, WEIR_FORMAT, (const char *const[]){"norm gains", "gamma - 1", NULL});
    made_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_experts),     cmocka_unit_test(test_tied_with_head),
                                       cmocka_unit_test(test_conventions), cmocka_unit_test(test_mtp_conventions),
                                       cmocka_unit_test(test_equal_gains), cmocka_unit_test(test_undecidable)};
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL);
}
