/* weir_sensitivity: the divergence it measures is that of the checkpoint in which the one
 * module is quantised, and the engine is its own again afterwards. */
#include "../convert/quantized.h"
#include "support/engines.h"

#include "base/file.h"
#include "base/mem.h"
#include "weir/experimental.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 10, MAX_MODULES = 80 };

/* ---- by another way: two checkpoints, all logits, the C library's functions ---- */

typedef struct rows {
    float   *x; /* [N, vocab] */
    uint32_t vocab;
} rows;

static bool keep_rows(void *user, const weir_rows *r)
{
    rows *k = user;
    memcpy(k->x + (size_t)r->first_position * k->vocab, r->logits, (size_t)r->n * k->vocab * sizeof *k->x);
    return true;
}

static rows rows_of(const char *dir, const uint32_t *ids)
{
    weir_error      err;
    weir_model     *m;
    weir_model_info info;
    must(weir_model_open(&m, dir, &err), &err);
    weir_model_get_info(m, &info);
    rows k = {.x = malloc(N * info.vocab_size * sizeof(float)), .vocab = info.vocab_size};
    assert_non_null(k.x);
    weir_engine   *e = engine_with(m, (weir_engine_options){.max_context = N, .threads = 1});
    weir_sequence *s = sequence_on(e);
    must(weir_sequence_score(s, ids, N, false, keep_rows, &k, &err), &err);
    weir_sequence_free(s);
    weir_engine_close(e);
    weir_model_close(m);
    return k;
}

static double log_sum(const float *x, uint32_t n)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i]);
    return log(sum);
}

static double divergence(const rows *p, const rows *q)
{
    double sum = 0.0;
    for (size_t t = 0; t < N; t++) {
        const float *a = p->x + t * p->vocab, *b = q->x + t * p->vocab;
        const double za = log_sum(a, p->vocab), zb = log_sum(b, p->vocab);
        double       p_rest = 1.0, q_rest = 1.0;
        for (uint32_t i = 0; i < p->vocab; i++) {
            const double logp = (double)a[i] - za, logq = (double)b[i] - zb;
            if (exp(logp) <= 0x1p-12) continue; /* those are one outcome */
            sum += exp(logp) * (logp - logq);
            p_rest -= exp(logp);
            q_rest -= exp(logq);
        }
        if (p_rest > 1e-9) sum += p_rest * log(p_rest / q_rest);
    }
    return sum / N;
}

/* The fixture with `module` in 3 bits and all others as they are. */
static double expected(const char *fixture, const char *module, const uint32_t *ids)
{
    char  text[400];
    char *rules_dir = made_dir(), *rules = path_join(rules_dir, "rules");
    (void)snprintf(text, sizeof text, "[{\"pattern\": \"%s\", \"bits\": 3}, {\"pattern\": \"*\", \"bits\": 16}]",
                   module);
    made_text(rules_dir, "rules", text);
    char *dir = quantized(fixture_path(fixture), (weir_quantize_options){.bits = 4, .group = 64, .recipe = rules}, 0);
    rows  p = rows_of(fixture_path(fixture), ids), q = rows_of(dir, ids);
    const double d = divergence(&p, &q);
    free(p.x);
    free(q.x);
    made_remove(dir);
    mem_free(rules);
    made_remove(rules_dir);
    return d;
}

/* ---- the measurement ---- */

typedef struct measured {
    weir_sensitivity *s;
    size_t            n;
    char              names[MAX_MODULES][128];
    double            damage[MAX_MODULES];
    uint64_t          weights[MAX_MODULES];
} measured;

static weir_status measure(void *user, const weir_quantized_module *q, double *damage, weir_error *err)
{
    measured *m = user;
    assert_true(m->n < MAX_MODULES);
    must(weir_sensitivity_of(m->s, q, damage, err), err);
    (void)snprintf(m->names[m->n], sizeof m->names[0], "%s", q->name);
    m->weights[m->n]  = (uint64_t)q->mats * q->rows * q->cols;
    m->damage[m->n++] = *damage;
    return WEIR_OK;
}

static void measure_all(const char *fixture, uint32_t threads, measured *m)
{
    weir_error            err;
    weir_model           *net = model_named(fixture);
    uint32_t             *ids = random_ids(net, N, 11);
    char                 *dir = made_dir(), *recipe = path_join(dir, "r");
    weir_engine_options   o = {.threads = threads};
    weir_allocate_options a = WEIR_ALLOCATE_OPTIONS_INIT;
    weir_allocate_result  r;
    *m                = (measured){0};
    a.bits_per_weight = 7.5;
    a.damage          = measure;
    a.user            = m;
    must(weir_sensitivity_open(&m->s, net, ids, N, &o, NULL, NULL, &err), &err);
    must(weir_quantize_allocate(fixture_path(fixture), recipe, &a, &r, &err), &err);
    weir_sensitivity_close(m->s);
    free(ids);
    mem_free(recipe);
    made_remove(dir);
    weir_model_close(net);
}

static double damage_of(const measured *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->names[i], name) == 0) return m->damage[i];
    fail_msg("%s was not measured", name);
    return 0;
}

static void check(const char *fixture, const char *const *modules)
{
    measured    m, again;
    weir_model *net = model_named(fixture);
    uint32_t   *ids = random_ids(net, N, 11);
    measure_all(fixture, 1, &m);
    measure_all(fixture, 2, &again);
    assert_int_equal(m.n, again.n);
    assert_memory_equal(m.damage, again.damage, m.n * sizeof *m.damage);
    for (size_t i = 0; i < m.n; i++) assert_true(m.damage[i] > 0.0);
    for (size_t i = 0; modules[i] != NULL; i++) {
        const double want = expected(fixture, modules[i], ids), found = damage_of(&m, modules[i]);
        /* Ours has its own exp and log, and another order of the sums. */
        if (!(fabs(found - want) <= 1e-9 * want))
            fail_msg("%s: %s: expected %.9g, found %.9g", fixture, modules[i], want, found);
    }
    free(ids);
    weir_model_close(net);
}

static void as_the_checkpoint(void **unused)
{
    (void)unused;
    static const char *const dense[] = {"embed_tokens",
                                        "lm_head",

                                        "layers.2.linear_attn.out_proj",
                                        "layers.3.self_attn.k_proj",
                                        "layers.1.mlp.down_proj",
                                        NULL};
    static const char *const tied[]  = {"embed_tokens", "layers.1.linear_attn.in_proj_z", "layers.3.self_attn.q_proj",
                                        "layers.3.mlp.gate_proj", NULL};
    static const char *const moe[]   = {"layers.1.mlp.switch_mlp.gate_proj", "layers.1.mlp.switch_mlp.up_proj",
                                        "layers.2.mlp.switch_mlp.down_proj", "layers.0.mlp.shared_expert.up_proj",
                                        "layers.3.self_attn.o_proj",         NULL};
    check("tiny-dense", dense);
    check("tiny-dense-tied", tied);
    check("tiny-moe", moe);
}

/* ---- what it refuses, and how it stops ---- */

typedef struct stopper {
    uint32_t calls, at;
} stopper;

static bool stop_later(void *user, uint32_t done, uint32_t total)
{
    stopper *s = user;
    assert_true(done >= 1 && done <= total && total == N);
    return ++s->calls != s->at;
}

static void refusals(void **unused)
{
    (void)unused;
    weir_error                err;
    weir_model               *m   = model_named("tiny-dense");
    uint32_t                 *ids = random_ids(m, N, 11);
    weir_sensitivity         *s;
    const weir_engine_options o = {0};
    assert_int_equal(weir_sensitivity_open(&s, m, ids, 1, &o, NULL, NULL, &err), WEIR_INVALID);
    assert_null(s);
    stopper stop = {.at = 1};
    assert_int_equal(weir_sensitivity_open(&s, m, ids, N, &o, stop_later, &stop, &err), WEIR_CANCELLED);
    assert_null(s);
    stop = (stopper){0};
    must(weir_sensitivity_open(&s, m, ids, N, &o, stop_later, &stop, &err), &err);

    /* layers.1.mlp.down_proj, 2 bits, all codes 1 and scales 0: as if it were not there. */
    enum { H = 256, I = 288, GROUP = 32 };
    uint8_t              *bytes = mem_zalloc(H * I, 1);
    weir_quantized_module q     = {.name        = "layers.1.mlp.down_proj",
                                   .bits        = 2,
                                   .group       = GROUP,
                                   .mats        = 1,
                                   .rows        = H,
                                   .cols        = I,
                                   .scale_dtype = "BF16",
                                   .codes       = bytes,
                                   .scales      = bytes,
                                   .biases      = bytes};
    double                first, again;
    must(weir_sensitivity_of(s, &q, &first, &err), &err);
    assert_true(first > 0.0);
    q.cols = H;
    assert_int_equal(weir_sensitivity_of(s, &q, &again, &err), WEIR_INVALID);
    q.cols = I;
    q.mats = 2;
    assert_int_equal(weir_sensitivity_of(s, &q, &again, &err), WEIR_INVALID);
    q.mats = 1;
    q.bits = 7;
    assert_int_equal(weir_sensitivity_of(s, &q, &again, &err), WEIR_INVALID);
    q.bits        = 2;
    q.scale_dtype = "U8";
    assert_int_equal(weir_sensitivity_of(s, &q, &again, &err), WEIR_INVALID);
    q.scale_dtype = "BF16";
    q.name        = "mtp.fc";
    assert_int_equal(weir_sensitivity_of(s, &q, &again, &err), WEIR_INVALID);
    q.name = "layers.1.mlp.down_proj";
    /* Stopped in the middle, it measures the same next time. */
    stop = (stopper){.at = 1};
    assert_int_equal(weir_sensitivity_of(s, &q, &again, &err), WEIR_CANCELLED);
    stop = (stopper){0};
    must(weir_sensitivity_of(s, &q, &again, &err), &err);
    assert_memory_equal(&first, &again, sizeof first);

    mem_free(bytes);
    weir_sensitivity_close(s);
    weir_sensitivity_close(NULL);
    weir_model_close(m);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_checkpoint), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests_name("sensitivity", tests, NULL, NULL);
}
