/* weir_quantize_allocate: targets, floors, the recipe it writes, and what it refuses.  The
 * damage function is the test's: the model takes no part. */
#include "quantized.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODULES = 80 };

typedef struct asked {
    size_t      n;
    char        names[MAX_MODULES][128];
    const char *delicate; /* a part of the names of modules that matter a thousand times as much */
    double      odd;      /* given for the first module, unless 0 */
    weir_status st;
    int         stop_after;
} asked;

static weir_status damage_of(void *user, const weir_quantized_module *m, double *damage, weir_error *err)
{
    asked *a = user;
    assert_true(a->n < MAX_MODULES);
    assert_int_equal(m->bits, 3);
    assert_true(m->codes != NULL && m->scales != NULL && m->biases != NULL && m->rows > 0 && m->mats > 0);
    (void)snprintf(a->names[a->n++], sizeof a->names[0], "%s", m->name);
    *damage = a->delicate != NULL && strstr(m->name, a->delicate) != NULL ? 1.0 : 0.001;
    if (a->odd != 0.0) *damage = a->odd;
    if (a->st != WEIR_OK) return status_fail(err, a->st, "the test says so");
    return WEIR_OK;
}

static bool on_progress(void *user, uint32_t done, uint32_t total)
{
    asked *a = user;
    assert_int_equal(done, a->n);
    assert_true(done <= total);
    return a->stop_after == 0 || done < (uint32_t)a->stop_after;
}

static weir_status allocate_for(const char *source, const char *recipe, double bits, const char *rules, asked *a,
                                weir_allocate_result *r, weir_error *err)
{
    weir_allocate_options o = WEIR_ALLOCATE_OPTIONS_INIT;
    o.bits_per_weight       = bits;
    o.recipe                = rules;
    o.damage                = damage_of;
    o.on_progress           = on_progress;
    o.user                  = a;
    return weir_quantize_allocate(source, recipe, &o, r, err);
}

/* ---- what a recipe makes of a checkpoint ---- */

typedef struct stored {
    size_t n;
    struct {
        char     name[128];
        uint32_t bits;
        uint64_t parameters;
    } t[400];
} stored;

static void on_tensor(void *user, const weir_quantize_tensor *t)
{
    stored *s = user;
    assert_true(s->n < 400);
    (void)snprintf(s->t[s->n].name, sizeof s->t[0].name, "%s", t->name);
    s->t[s->n].bits         = t->bits;
    s->t[s->n++].parameters = t->parameters;
}

static char *made_by(const char *source, const char *recipe, stored *s, weir_quantize_result *r)
{
    weir_error            err;
    char                 *dir = made_dir();
    weir_quantize_options opt = WEIR_QUANTIZE_OPTIONS_INIT;
    opt.recipe                = recipe;
    opt.on_tensor             = on_tensor;
    opt.user                  = s;
    must(weir_quantize(source, dir, &opt, r, &err), &err);
    return dir;
}

static uint32_t bits_of(const stored *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strstr(s->t[i].name, name) != NULL) return s->t[i].bits;
    fail_msg("no %s", name);
    return 0;
}

/* The recipe makes what the result says, keeps what is to be kept, and gives most to what matters. */
static void check_target(const char *fixture, double bits, const char *delicate, bool mtp)
{
    weir_error           err;
    char                *dir = made_dir(), *recipe = path_join(dir, "r.json");
    asked                a = {.delicate = delicate};
    weir_allocate_result r;
    must(allocate_for(fixture_path(fixture), recipe, bits, NULL, &a, &r, &err), &err);
    assert_int_equal(r.modules, a.n);
    stored              *s = calloc(1, sizeof *s);
    weir_quantize_result q;
    char                *out = made_by(fixture_path(fixture), recipe, s, &q);
    assert_int_equal(q.bytes, r.bytes);
    assert_true(r.bits_per_weight == 8.0 * (double)q.bytes / (double)q.parameters);
    assert_true(r.bits_per_weight <= bits);
    if (r.bits_per_weight < 0.97 * bits) fail_msg("%s: wanted %g, found %g", fixture, bits, r.bits_per_weight);

    static const char *const kept[]         = {"A_log",     "dt_bias",   "norm",       "conv1d",
                                               "in_proj_a", "in_proj_b", ".mlp.gate.", "shared_expert_gate"};
    uint32_t                 least_delicate = 16, least = 16;
    for (size_t i = 0; i < s->n; i++) {
        const char *name = s->t[i].name;
        if (strncmp(name, "mtp.", 4) == 0 || s->t[i].bits == 0) continue;
        for (size_t k = 0; k < 8; k++) assert_null(strstr(name, kept[k]));
        uint32_t *l = strstr(name, delicate) != NULL ? &least_delicate : &least;
        if (s->t[i].bits < *l) *l = s->t[i].bits;
    }
    assert_true(least_delicate > least);
    if (mtp) {
        assert_int_equal(bits_of(s, "mtp.layers.0.mlp.up_proj"), 4);
        assert_int_equal(bits_of(s, "mtp.fc"), 6);
    }
    free(s);
    made_remove(out);
    mem_free(recipe);
    made_remove(dir);
}

static void targets(void **unused)
{
    (void)unused;
    check_target("tiny-dense", 6.0, "down_proj", true);
    check_target("tiny-dense", 5.4, "in_proj_qkv", true);
    check_target("tiny-moe", 5.6, "switch_mlp.up_proj", false);
}

/* The same recipe again, on another number of threads; and made by it, the same folder. */
static void the_same_again(void **unused)
{
    (void)unused;
    weir_error           err;
    char                *dir = made_dir(), *one = path_join(dir, "one"), *two = path_join(dir, "two");
    weir_allocate_result r;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        asked                 a = {.delicate = "gate_proj"};
        weir_allocate_options o = WEIR_ALLOCATE_OPTIONS_INIT;
        o.bits_per_weight       = 7;
        o.damage                = damage_of;
        o.user                  = &a;
        o.threads               = threads;
        must(weir_quantize_allocate(fixture_path("tiny-dense"), threads == 1 ? one : two, &o, &r, &err), &err);
    }
    char  *x, *y;
    size_t n, m;
    must(file_read(&x, &n, one, 1 << 20, &err), &err);
    must(file_read(&y, &m, two, 1 << 20, &err), &err);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    /* All that is left to a default, such as what in_proj_a is, stands in it too. */
    assert_non_null(strstr(x, "{\"pattern\": \"layers.0.linear_attn.in_proj_a\", \"bits\": 16}"));
    mem_free(x);
    mem_free(y);
    weir_quantize_options q = {.bits = 4, .group = 64, .recipe = one};
    char *a = quantized(fixture_path("tiny-dense"), q, 0), *b = quantized(fixture_path("tiny-dense"), q, 0);
    check_same_folder(a, b);
    made_remove(a);
    made_remove(b);
    mem_free(one);
    mem_free(two);
    made_remove(dir);
}

/* Rules say the fewest bits; 16 is no choice at all. */
static void rules_are_floors(void **unused)
{
    (void)unused;
    weir_error           err;
    char                *dir = made_dir(), *recipe = path_join(dir, "r.json"), *rules = path_join(dir, "rules");
    asked                a = {.delicate = "layers.0.mlp"};
    weir_allocate_result r;
    made_text(dir, "rules",
              "[{\"pattern\": \"layers.1.mlp.up_proj\", \"bits\": 8, \"group\": 32},"
              " {\"pattern\": \"layers.1.mlp.down_proj\", \"bits\": 16},"
              " {\"pattern\": \"mtp.fc\", \"bits\": 5},"
              " {\"pattern\": \"*.self_attn.*_proj\", \"bits\": 6}]");
    must(allocate_for(fixture_path("tiny-dense"), recipe, 5.8, rules, &a, &r, &err), &err);
    for (size_t i = 0; i < a.n; i++) assert_string_not_equal(a.names[i], "layers.1.mlp.down_proj");
    stored              *s = calloc(1, sizeof *s);
    weir_quantize_result q;
    char                *out = made_by(fixture_path("tiny-dense"), recipe, s, &q);
    assert_int_equal(q.bytes, r.bytes);
    assert_int_equal(bits_of(s, "layers.1.mlp.up_proj"), 8);
    assert_int_equal(bits_of(s, "layers.1.mlp.down_proj"), 0);
    assert_int_equal(bits_of(s, "mtp.fc"), 5);
    assert_int_equal(bits_of(s, "mtp.layers.0.self_attn.q_proj"), 6);
    assert_true(bits_of(s, "language_model.model.layers.3.self_attn.q_proj") >= 6);
    assert_true(bits_of(s, "layers.2.linear_attn.out_proj") < 6);
    free(s);
    made_remove(out);
    mem_free(recipe);
    mem_free(rules);
    made_remove(dir);
}

static void refused(double bits, asked *a, weir_status status, const char *says)
{
    weir_error           err;
    char                *dir = made_dir(), *recipe = path_join(dir, "r.json");
    weir_allocate_result r;
    const weir_status    st          = allocate_for(fixture_path("tiny-dense"), recipe, bits, NULL, a, &r, &err);
    const char *const    fragments[] = {says, NULL};
    check_failure(st, status, &err, "allocate", fragments);
    assert_false(file_exists(recipe));
    mem_free(recipe);
    made_remove(dir);
}

static void refusals(void **unused)
{
    (void)unused;
    asked none = {0};
    refused(3.0, &none, WEIR_INVALID, "bits per weight: expected 4.");
    refused(12.0, &none, WEIR_INVALID, "found 12");
    refused((double)NAN, &none, WEIR_INVALID, "bits per weight");
    assert_int_equal(none.n, 0); /* known before anything is measured */
    refused(7.0, &(asked){.odd = (double)NAN}, WEIR_NUMERICS, "expected a finite damage");
    refused(7.0, &(asked){.odd = -1.0}, WEIR_NUMERICS, "found -1");
    refused(7.0, &(asked){.st = WEIR_IO}, WEIR_IO, "the test says so");
    refused(7.0, &(asked){.stop_after = 2}, WEIR_CANCELLED, "stopped");

    weir_error            err;
    weir_allocate_result  r;
    weir_allocate_options o = WEIR_ALLOCATE_OPTIONS_INIT;
    assert_int_equal(weir_quantize_allocate(fixture_path("tiny-dense"), "/tmp/none", &o, &r, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "damage"));
    o.damage = damage_of;
    o.group  = 48;
    assert_int_equal(weir_quantize_allocate(fixture_path("tiny-dense"), "/tmp/none", &o, &r, &err), WEIR_INVALID);
    o.group = 64;
    assert_int_equal(weir_quantize_allocate("/does/not/exist", "/tmp/none", &o, &r, &err), WEIR_IO);
    o.size = 8;
    assert_int_equal(weir_quantize_allocate(fixture_path("tiny-dense"), "/tmp/none", &o, &r, &err), WEIR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets),
        cmocka_unit_test(the_same_again),
        cmocka_unit_test(rules_are_floors),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("mixed", tests, NULL, NULL);
}
