/* tests/exact/test_lora.c - adapters: what they add is right, and each sequence's
 * bits are those it has alone, whatever adapters its neighbours have. */
#include "engine/batch.h"
#include "support/adapters.h"
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/heard.h"
#include "unit/checkpoint/made_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 70, SEQUENCES = 3 };

static const adapter_recipe recipe_a = {.seed = 1, .rank = 4, .scale = 2.0};
static const adapter_recipe recipe_b = {.seed = 2, .rank = 19, .scale = 0.75, .bf16 = true};

/* A model with two adapters, and three choices: none, one, and both with scales of their own. */
typedef struct desk {
    weir_model         *m;
    weir_adapter       *a, *b;
    const weir_adapter *list[2];
    weir_adapter_choice choices[SEQUENCES][2];
    size_t              n[SEQUENCES];
    uint32_t           *ids[SEQUENCES];
} desk;

static void desk_open(desk *d, const char *name)
{
    *d               = (desk){.m = model_named(name)};
    d->a             = adapter_made(d->m, &recipe_a);
    d->b             = adapter_made(d->m, &recipe_b);
    d->list[0]       = d->a;
    d->list[1]       = d->b;
    d->choices[1][0] = (weir_adapter_choice){d->a, 1.0f};
    d->choices[2][0] = (weir_adapter_choice){d->b, 0.5f};
    d->choices[2][1] = (weir_adapter_choice){d->a, -0.25f};
    for (size_t i = 0; i < SEQUENCES; i++) {
        d->n[i]   = i;
        d->ids[i] = random_ids(d->m, LENGTH, 7 + i);
    }
}

static void desk_close(desk *d)
{
    for (int i = 0; i < SEQUENCES; i++) free(d->ids[i]);
    weir_adapter_close(d->a);
    weir_adapter_close(d->b);
    weir_model_close(d->m);
}

static weir_engine *engine_of(const desk *d, weir_engine_options o)
{
    o.adapters    = d->list;
    o.n_adapters  = 2;
    o.max_context = 256;
    if (o.max_sequences == 0) o.max_sequences = SEQUENCES;
    return engine_with(d->m, o);
}

static weir_sequence *sequence_of(const desk *d, weir_engine *e, int choice)
{
    weir_error     err;
    weir_sequence *s = sequence_on(e);
    must(weir_sequence_set_adapters(s, d->choices[choice], d->n[choice], &err), &err);
    return s;
}

/* Logits after all tokens of text i, by the plainest engine there is; free(). */
static float *alone(const desk *d, int i, uint32_t n)
{
    weir_engine   *e     = engine_of(d, (weir_engine_options){.isa = "scalar", .threads = 1, .chunk = 1});
    weir_sequence *s     = sequence_of(d, e, i);
    const size_t   bytes = e->m.config.vocab_size * sizeof(float);
    float         *out   = malloc(bytes);
    append(s, d->ids[i], n);
    memcpy(out, weir_sequence_logits(s), bytes);
    weir_sequence_free(s);
    weir_engine_close(e);
    return out;
}

static void check_same(const weir_engine *e, const float *expected, const float *found, const char *what)
{
    if (memcmp(expected, found, e->m.config.vocab_size * sizeof *found) != 0) fail_msg("%s: other bits", what);
}

/* ---- one step, several adapters ---- */

/* Reads the three texts in steps of all three, in parts of other lengths each time. */
static void read_together(const desk *d, weir_engine *e, float *logits[SEQUENCES])
{
    weir_error     err;
    weir_sequence *s[SEQUENCES];
    uint32_t       at[SEQUENCES] = {0};
    const float   *rows;
    const uint32_t V = e->m.config.vocab_size;
    for (int i = 0; i < SEQUENCES; i++) s[i] = sequence_of(d, e, i);
    for (uint32_t step = 0; at[0] < LENGTH || at[1] < LENGTH || at[2] < LENGTH; step++) {
        uint32_t last[SEQUENCES], who[SEQUENCES], n = 0;
        batch_clear(e);
        for (uint32_t j = 0; j < SEQUENCES; j++) {
            const uint32_t i = (j + step) % SEQUENCES, left = LENGTH - at[i], want = 1 + (step * 5 + i * 7) % 13;
            const uint32_t now = left < want ? left : want;
            batch_item    *it;
            if (now == 0) continue;
            must(batch_add(e, s[i], d->ids[i] + at[i], now, false, &it, &err), &err);
            at[i] += now;
            if (at[i] < LENGTH) continue;
            last[n]  = it->span.row + now - 1;
            who[n++] = i;
        }
        must(batch_forward(e, NULL, &err), &err);
        if (n > 0) must(batch_logits(e, last, n, &rows, &err), &err);
        for (uint32_t k = 0; k < n; k++) memcpy(logits[who[k]], rows + (size_t)k * V, V * sizeof *rows);
        must(batch_commit(e, &err), &err);
    }
    for (int i = 0; i < SEQUENCES; i++) weir_sequence_free(s[i]);
}

/* The runs of a step of none (2 rows), a (3) and b then a (1): by place, and of their rows alone. */
static void test_runs_go_by_place(void **unused)
{
    (void)unused;
    desk           d;
    weir_error     err;
    weir_sequence *s[SEQUENCES];
    desk_open(&d, "tiny-odd");
    weir_engine          *e      = engine_of(&d, (weir_engine_options){.threads = 1});
    static const uint32_t many[] = {2, 3, 1};
    batch_clear(e);
    for (int i = 0; i < SEQUENCES; i++) {
        s[i] = sequence_of(&d, e, i);
        must(batch_add(e, s[i], d.ids[i], many[i], false, NULL, &err), &err);
    }
    must(batch_forward(e, NULL, &err), &err);
    const lora_run *r = e->adapters.runs;
    const lora     *a = &e->adapters.loras[0], *b = &e->adapters.loras[1];
    assert_int_equal(e->adapters.step.n_runs, 3);
    assert_true(r[0].adapter == a && r[0].n == 3 && r[1].adapter == b && r[1].n == 1 && r[2].adapter == a &&
                r[2].n == 1);
    assert_memory_equal(r[0].rows, ((const uint32_t[]){2, 3, 4}), 3 * sizeof(uint32_t));
    assert_true(r[1].rows[0] == 5 && r[2].rows[0] == 5);
    assert_true(r[0].scales[0] == 1.0f && r[1].scales[0] == 0.5f && r[2].scales[0] == -0.25f);
    must(batch_commit(e, &err), &err);
    for (int i = 0; i < SEQUENCES; i++) weir_sequence_free(s[i]);
    weir_engine_close(e);
    desk_close(&d);
}

static void check_together(const char *name)
{
    desk        d;
    const char *names[MAX_ISAS];
    float      *expected[SEQUENCES], *found[SEQUENCES];
    desk_open(&d, name);
    for (int i = 0; i < SEQUENCES; i++) expected[i] = alone(&d, i, LENGTH);
    const size_t n = isas(names);
    for (size_t k = 0; k < n; k++) {
        weir_engine *e = engine_of(&d, (weir_engine_options){.isa = names[k], .threads = 1 + k % 2, .chunk = 40});
        for (int i = 0; i < SEQUENCES; i++) found[i] = malloc(e->m.config.vocab_size * sizeof(float));
        read_together(&d, e, found);
        for (int i = 0; i < SEQUENCES; i++) {
            check_same(e, expected[i], found[i], names[k]);
            free(found[i]);
        }
        weir_engine_close(e);
    }
    for (int i = 0; i < SEQUENCES; i++) free(expected[i]);
    desk_close(&d);
}

static void test_a_step_of_several(void **unused)
{
    (void)unused;
    check_together("tiny-odd");
    check_together("tiny-moe");
    check_together("mlx-q4");
}

static void test_chunks_and_threads(void **unused)
{
    (void)unused;
    desk   d;
    float *expected;
    desk_open(&d, "tiny-dense");
    expected = alone(&d, 2, LENGTH);
    for (uint32_t chunk = 3; chunk <= 64; chunk *= 4)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            weir_engine   *e = engine_of(&d, (weir_engine_options){.threads = threads, .chunk = chunk});
            weir_sequence *s = sequence_of(&d, e, 2);
            append(s, d.ids[2], LENGTH);
            check_same(e, expected, weir_sequence_logits(s), "chunk, threads");
            weir_sequence_free(s);
            weir_engine_close(e);
        }
    free(expected);
    desk_close(&d);
}

/* ---- what is added ---- */

/* Logits of the last of n tokens under adapter a at `scale` (NULL: none); free(). */
static float *logits_with(const weir_model *m, const weir_adapter *a, float scale, const uint32_t *ids, size_t n)
{
    weir_error   err;
    weir_engine *e =
        engine_with(m, (weir_engine_options){.max_context = 128, .kv = "f32", .adapters = &a, .n_adapters = a != NULL});
    weir_sequence *s   = sequence_on(e);
    float         *out = malloc(e->m.config.vocab_size * sizeof *out);
    if (a != NULL) must(weir_sequence_set_adapters(s, &(weir_adapter_choice){a, scale}, 1, &err), &err);
    append(s, ids, n);
    memcpy(out, weir_sequence_logits(s), e->m.config.vocab_size * sizeof *out);
    weir_sequence_free(s);
    weir_engine_close(e);
    return out;
}

static void test_the_forms_are_twins(void **unused)
{
    (void)unused;
    weir_model    *m    = model_named("tiny-moe");
    uint32_t      *ids  = random_ids(m, 20, 3);
    const size_t   V    = checkpoint_config(m->c)->vocab_size * sizeof(float);
    adapter_recipe r    = {.seed = 5, .rank = 6, .scale = 1.5};
    weir_adapter  *peft = adapter_made(m, &r), *mlx;
    r.mlx               = true;
    mlx                 = adapter_made(m, &r);
    weir_adapter_info a, b;
    weir_adapter_get_info(peft, &a);
    weir_adapter_get_info(mlx, &b);
    assert_string_equal(a.form, "peft");
    assert_string_equal(b.form, "mlx");
    assert_int_equal(a.max_rank, 6);
    assert_int_equal(a.n_modules, b.n_modules);
    assert_memory_equal(a.hash, b.hash, sizeof a.hash);
    float *x = logits_with(m, peft, 1.0f, ids, 20), *y = logits_with(m, mlx, 1.0f, ids, 20);
    float *none = logits_with(m, NULL, 1.0f, ids, 20), *zero = logits_with(m, mlx, 0.0f, ids, 20);
    assert_memory_equal(x, y, V);
    assert_memory_equal(none, zero, V);
    assert_memory_not_equal(x, none, V);
    free(x);
    free(y);
    free(none);
    free(zero);
    weir_adapter_close(peft);
    weir_adapter_close(mlx);
    free(ids);
    weir_model_close(m);
}

/* Base and adapter say what the merged checkpoint says; the largest difference, of the largest logit. */
static double distance_to_merged(const weir_model *m, const adapter_recipe *r, const uint32_t *ids, size_t n)
{
    weir_error    err;
    weir_model   *merged;
    weir_adapter *a   = adapter_made(m, r);
    char         *dir = made_dir(), out[300];
    (void)snprintf(out, sizeof out, "%s/merged", dir);
    must(weir_model_merge(m, &(weir_adapter_choice){a, 0.5f}, 1, out, &err), &err);
    must(weir_model_open(&merged, out, &err), &err);
    float *x = logits_with(m, a, 0.5f, ids, n), *y = logits_with(merged, NULL, 1.0f, ids, n);
    float *base  = logits_with(m, NULL, 1.0f, ids, n);
    double worst = 0, largest = 0, moved = 0;
    for (size_t i = 0; i < checkpoint_config(m->c)->vocab_size; i++) {
        worst   = fmax(worst, fabs((double)x[i] - (double)y[i]));
        moved   = fmax(moved, fabs((double)x[i] - (double)base[i]));
        largest = fmax(largest, fabs((double)y[i]));
    }
    /* It did something, and a hundred times what the difference may be. */
    if (!(moved > 1e-3 * largest)) fail_msg("%s: moves the logits by %g only", r->only, moved / largest);
    free(x);
    free(y);
    free(base);
    weir_model_close(merged);
    weir_adapter_close(a);
    made_remove(dir);
    return worst / largest;
}

static void check_merged(const weir_model *m, const char *const *modules)
{
    uint32_t *ids = random_ids(m, 24, 11);
    for (; *modules != NULL; modules++) {
        const adapter_recipe r = {.seed = 21, .rank = 5, .scale = 8.0, .only = *modules};
        const double         d = distance_to_merged(m, &r, ids, 24);
        print_message("%-28s %.2g of the largest logit\n", *modules, d);
        if (!(d < 1e-5)) fail_msg("%s: differs from the merged checkpoint by %g of the largest logit", *modules, d);
    }
    free(ids);
}

static void test_merged_dense(void **unused)
{
    (void)unused;
    static const char *const modules[] = {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj",
                                          "q_proj",      "k_proj",    "v_proj",    "o_proj",    "gate_proj",
                                          "up_proj",     "down_proj", NULL};
    weir_model              *m         = model_named("tiny-odd");
    check_merged(m, modules);
    weir_model_close(m);
}

static void test_merged_moe(void **unused)
{
    (void)unused;
    static const char *const modules[] = {"shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj",
                                          NULL};
    weir_error               err;
    weir_model              *m   = model_named("tiny-moe"), *wide;
    char                    *dir = made_dir();
    checkpoint_widen(dir, m);
    must(weir_model_open(&wide, dir, &err), &err);
    check_merged(wide, modules);
    weir_model_close(wide);
    weir_model_close(m);
    made_remove(dir);
}

static void test_quantised_is_not_merged(void **unused)
{
    (void)unused;
    weir_error    err;
    weir_model   *m   = model_named("mlx-q4");
    weir_adapter *a   = adapter_made(m, &recipe_a);
    char         *dir = made_dir(), out[300];
    (void)snprintf(out, sizeof out, "%s/merged", dir);
    check_failure(weir_model_merge(m, &(weir_adapter_choice){a, 1.0f}, 1, out, &err), WEIR_UNSUPPORTED, &err,
                  "quantised", (const char *const[]){"merge: expected F32, F16 or BF16, found U32", NULL});
    weir_adapter_close(a);
    weir_model_close(m);
    made_remove(dir);
}

/* ---- requests, the cache, files ---- */

static void ask(weir_engine *e, const uint32_t *ids, size_t n, const weir_adapter_choice *choices, size_t n_choices,
                heard *h, weir_request_info *info)
{
    weir_error            err;
    weir_request         *r;
    weir_generate_options g = WEIR_GENERATE_OPTIONS_INIT;
    weir_request_options  o = WEIR_REQUEST_OPTIONS_INIT;
    g.max_tokens            = 24;
    g.logprobs              = true;
    o.prompt                = ids;
    o.n_prompt              = n;
    o.generate              = &g;
    o.adapters              = choices;
    o.n_adapters            = n_choices;
    o.token                 = hear;
    o.user                  = h;
    memset(h, 0, sizeof *h);
    must(weir_engine_submit(e, &o, &r, &err), &err);
    for (uint32_t left = 1; left > 0;) must(weir_engine_step(e, &left, &err), &err);
    weir_request_get_info(r, info);
    assert_int_equal(info->status, WEIR_OK);
    weir_request_free(r);
}

/* Asks under each choice twice: the first finds nothing of the others, the second what it left. */
static void ask_all(const desk *d, weir_engine *e, const weir_adapter_choice (*choices)[2], const size_t *n,
                    int n_choices, bool known)
{
    heard             first, again;
    weir_request_info info;
    for (int i = 0; i < n_choices; i++) {
        ask(e, d->ids[0], LENGTH, choices[i], n[i], &first, &info);
        assert_int_equal(info.cached_tokens > 0, known);
        ask(e, d->ids[0], LENGTH, choices[i], n[i], &again, &info);
        assert_true(info.cached_tokens > 0);
        assert_memory_equal(&first, &again, sizeof first);
    }
}

static void test_the_cache_tells_them_apart(void **unused)
{
    (void)unused;
    desk  d;
    char *dir = made_dir();
    desk_open(&d, "tiny-dense");
    const weir_adapter_choice choices[][2] = {{{NULL, 0}},
                                              {{d.a, 1.0f}},
                                              {{d.a, 0.5f}},
                                              {{d.b, 1.0f}},
                                              {{d.a, 1.0f}, {d.b, 1.0f}},
                                              {{d.b, 1.0f}, {d.a, 1.0f}}};
    const size_t              n[]          = {0, 1, 1, 1, 2, 2};
    weir_engine              *e = engine_of(&d, (weir_engine_options){.cache_memory = 64 << 20, .cache_dir = dir});
    ask_all(&d, e, choices, n, 6, false);
    weir_engine_close(e);
    /* And so does the disk. */
    e = engine_of(&d, (weir_engine_options){.cache_memory = 64 << 20, .cache_dir = dir});
    ask_all(&d, e, choices, n, 5, true);
    weir_engine_close(e);
    e = engine_of(&d, (weir_engine_options){.cache_memory = 64 << 20, .cache_dir = dir});
    const weir_adapter_choice other[][2] = {{{d.b, 0.75f}}};
    ask_all(&d, e, other, (const size_t[]){1}, 1, false);
    weir_engine_close(e);
    desk_close(&d);
    made_remove(dir);
}

static void test_drafts_say_the_same(void **unused)
{
    (void)unused;
    static const char *const sources[] = {"mtp", "ngram"};
    desk                     d;
    heard                    plain, drafted;
    weir_request_info        info;
    desk_open(&d, "tiny-dense");
    for (int i = 1; i < SEQUENCES; i++) {
        weir_engine *e = engine_of(&d, (weir_engine_options){.draft = "off"});
        ask(e, d.ids[i], 40, d.choices[i], d.n[i], &plain, &info);
        weir_engine_close(e);
        for (int k = 0; k < 2; k++) {
            e = engine_of(&d, (weir_engine_options){.draft = sources[k], .fixed_drafts = true, .max_drafts = 3});
            ask(e, d.ids[i], 40, d.choices[i], d.n[i], &drafted, &info);
            if (k == 0) assert_true(info.reply.drafted > 0);
            assert_memory_equal(&plain, &drafted, sizeof plain);
            weir_engine_close(e);
        }
    }
    desk_close(&d);
}

static void test_sequences_keep_theirs(void **unused)
{
    (void)unused;
    desk           d;
    weir_error     err;
    weir_sequence *s, *other, *fork;
    weir_snapshot *snap;
    char          *dir = made_dir(), path[300];
    (void)snprintf(path, sizeof path, "%s/a.state", dir);
    desk_open(&d, "tiny-odd");
    weir_engine *e        = engine_of(&d, (weir_engine_options){.threads = 1});
    float       *expected = alone(&d, 1, LENGTH);
    s                     = sequence_of(&d, e, 1);
    append(s, d.ids[1], 30);
    check_failure(weir_sequence_set_adapters(s, NULL, 0, &err), WEIR_INVALID, &err, "not empty",
                  (const char *const[]){"expected an empty sequence, found one of 30 tokens", NULL});
    must(weir_sequence_save(s, path, &err), &err);
    must(weir_sequence_snapshot(s, &snap, &err), &err);
    must(weir_sequence_fork(&fork, s, &err), &err);
    append(fork, d.ids[1] + 30, LENGTH - 30);
    check_same(e, expected, weir_sequence_logits(fork), "fork");

    other = sequence_of(&d, e, 2);
    check_failure(weir_sequence_load(other, path, &err), WEIR_FORMAT, &err, "other adapters",
                  (const char *const[]){"of another model, adapters, cache format or version", NULL});
    append(other, d.ids[1], 40);
    check_failure(weir_sequence_rewind(other, snap, &err), WEIR_INVALID, &err, "other adapters",
                  (const char *const[]){"other adapters", NULL});
    weir_sequence_free(other);
    other = sequence_of(&d, e, 1);
    must(weir_sequence_load(other, path, &err), &err);
    append(other, d.ids[1] + 30, LENGTH - 30);
    check_same(e, expected, weir_sequence_logits(other), "load");

    weir_snapshot_free(snap);
    weir_sequence_free(s);
    weir_sequence_free(fork);
    weir_sequence_free(other);
    weir_engine_close(e);
    free(expected);
    desk_close(&d);
    made_remove(dir);
}

static void test_fit_counts_them(void **unused)
{
    (void)unused;
    desk     d;
    weir_fit without, with;
    desk_open(&d, "tiny-odd");
    weir_error          err;
    weir_engine_options o = WEIR_ENGINE_OPTIONS_INIT;
    o.max_context         = 256;
    must(weir_engine_fit(d.m, &o, &without, &err), &err);
    o.adapters   = d.list;
    o.n_adapters = 2;
    must(weir_engine_fit(d.m, &o, &with, &err), &err);
    weir_adapter_info a, b;
    weir_adapter_get_info(d.a, &a);
    weir_adapter_get_info(d.b, &b);
    assert_int_equal(without.adapter_bytes, 0);
    assert_true(with.adapter_bytes > a.bytes + b.bytes);
    assert_int_equal(with.total_bytes, without.total_bytes + with.adapter_bytes);
    weir_engine   *e     = engine_of(&d, (weir_engine_options){.threads = 1});
    weir_engine   *plain = engine_with(d.m, (weir_engine_options){.max_context = 256, .threads = 1});
    weir_sequence *s     = sequence_on(plain);
    check_failure(weir_sequence_set_adapters(s, d.choices[1], 1, &err), WEIR_INVALID, &err, "unknown",
                  (const char *const[]){"expected one of the engine's", NULL});
    weir_sequence_free(s);
    weir_engine_close(plain);
    weir_engine_close(e);
    desk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_go_by_place),
        cmocka_unit_test(test_a_step_of_several),
        cmocka_unit_test(test_chunks_and_threads),
        cmocka_unit_test(test_the_forms_are_twins),
        cmocka_unit_test(test_merged_dense),
        cmocka_unit_test(test_merged_moe),
        cmocka_unit_test(test_quantised_is_not_merged),
        cmocka_unit_test(test_the_cache_tells_them_apart),
        cmocka_unit_test(test_drafts_say_the_same),
        cmocka_unit_test(test_sequences_keep_theirs),
        cmocka_unit_test(test_fit_counts_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
