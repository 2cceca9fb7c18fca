/* tests/exact/test_verify_teeth.c - schedules find what is wrong: with one bit of
 * the truth turned, the position is named and the schedule shrunk to what it takes
 * to get there; and one schedule gives the same twice.  So do those that go through
 * files, when what comes back from there is not all that was, and those with adapters, when
 * one is lost beside others or the cache takes one choice for another. */
#include "support/cmocka.h"
#include "support/engines.h"

#include "engine/verify_parts.h"
#include "kernels/open.h"
#include "state/prefix_parts.h"
#include "state/state_parts.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AT = 9, SCHEDULES = 40 };

static char scratch[] = "/tmp/weir-teeth-XXXXXX";

static void setup(verifier *v, weir_verify_result *r, weir_model *m)
{
    weir_error err;
    *r                = (weir_verify_result){0};
    *v                = (verifier){.m = m, .out = r, .vocab = checkpoint_config(m->c)->vocab_size, .seed = 5};
    v->opt            = (weir_verify_options)WEIR_VERIFY_OPTIONS_INIT;
    v->opt.max_length = 64;
    v->opt.scratch    = scratch;
    v->has_mtp        = load_has_mtp(m->c);
    v->end            = UINT64_MAX;
    v->n_isas         = (uint32_t)kernels_isas(v->isas, VERIFY_ISAS);
    must(verify_adapters_new(v, &err), &err);
    must(verify_engines_plan(v, &err), &err);
    must(verify_texts_new(v, &err), &err);
    must(verify_wishes_new(v, &err), &err);
    must(verify_texts_run(v, &err), &err);
    for (uint32_t i = 0; i < VERIFY_TEXTS; i++) assert_int_equal(v->texts[i].length, v->texts[i].planned);
}

static void teardown(verifier *v)
{
    verify_engines_close(v);
    verify_files_free(v);
    verify_texts_free(v);
    verify_wishes_free(v);
    verify_adapters_free(v);
    weir_model_close((weir_model *)(uintptr_t)v->m);
}

static bool differs(void *user, const verify_schedule *c)
{
    weir_error     err;
    verify_outcome o;
    must(verify_run(user, c, &o, &err), &err);
    return o.differs;
}

/* The first text's truth is wrong at one position: whoever reads it there says so. */
static void test_steps(void **given)
{
    (void)given;
    static verifier    v;
    weir_verify_result r;
    verify_schedule    c;
    uint32_t           found = 0;
    setup(&v, &r, model_named("tiny-odd"));
    v.texts[0].truth[AT].b ^= 1;
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        weir_error     err;
        verify_outcome o;
        verify_draw_engine(&v, &c);
        verify_draw_steps(&v, &c);
        must(verify_run(&v, &c, &o, &err), &err);
        if (!o.differs) continue;
        if (strstr(o.what, "position 9 of text 0") == NULL) fail_msg("%s", o.what);
        if (found++ > 3) continue;
        verify_shrink(&c, differs, &v);
        assert_true(differs(&v, &c));
        assert_int_equal(c.n_ops, 2);
        assert_int_equal(c.ops[0].kind, OP_JOIN);
        assert_int_equal(c.ops[0].text, 0);
        assert_int_equal(c.threads, 1);
        assert_int_equal(c.isa, 0);
        assert_int_equal(c.draft, DRAFT_OFF);
        assert_int_equal(c.ops[1].n, AT + 1);
    }
    assert_in_range(found, 5, SCHEDULES - 1);
    v.texts[0].truth[AT].b ^= 1;
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        verify_draw_engine(&v, &c);
        verify_draw_steps(&v, &c);
        assert_false(differs(&v, &c));
    }
    teardown(&v);
}

/* The same for the last token of a reply. */
static void test_requests(void **given)
{
    (void)given;
    static verifier    v;
    weir_verify_result r;
    weir_error         err;
    bool               known;
    setup(&v, &r, model_named("tiny-odd"));
    verify_wish *w = &v.wishes[0];
    v.start        = 0;
    must(verify_wish_alone(&v, 0, &known, &err), &err);
    assert_true(known && w->alone.n > 0);
    w->alone.said[w->alone.n - 1].a ^= 1;
    verify_schedule c;
    uint32_t        found = 0;
    for (uint32_t i = 0; i < SCHEDULES; i++) {
        verify_outcome o;
        verify_draw_engine(&v, &c);
        must(verify_draw_requests(&v, &c, &known, &err), &err);
        assert_true(known);
        must(verify_run(&v, &c, &o, &err), &err);
        if (!o.differs) continue;
        assert_non_null(strstr(o.what, "wish 0: token "));
        if (found++ > 3) continue;
        verify_shrink(&c, differs, &v);
        assert_int_equal(c.n_ops, 1);
        assert_int_equal(c.ops[0].who, 0);
        assert_int_equal(c.ops[0].at, 0);
        assert_int_equal(c.ops[0].off, OFF_NEVER);
    }
    assert_in_range(found, 5, SCHEDULES - 1);
    teardown(&v);
}

/* ---- what comes out of files ---- */

/* The linker puts these in the place of the library's. */
weir_status __real_weir_sequence_load(weir_sequence *s, const char *path, weir_error *err);
weir_status __wrap_weir_sequence_load(weir_sequence *s, const char *path, weir_error *err);
uint32_t    __real_prefix_tree_adopt(prefix_tree *t, const prefix_hit *hit, sequence *q);
uint32_t    __wrap_prefix_tree_adopt(prefix_tree *t, const prefix_hit *hit, sequence *q);

void __real_prefix_tree_find(const prefix_tree *t, const uint8_t *origin, const uint32_t *ids, uint32_t n,
                             prefix_hit *out);
void __wrap_prefix_tree_find(const prefix_tree *t, const uint8_t *origin, const uint32_t *ids, uint32_t n,
                             prefix_hit *out);
void __real_lora_add(const lora_step *s, const lora_work *w, kernels *k, uint32_t number, const k_buf *x,
                     const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs);
void __wrap_lora_add(const lora_step *s, const lora_work *w, kernels *k, uint32_t number, const k_buf *x,
                     const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs);

typedef enum harm { HARM_NONE, HARM_VALUE, HARM_PAGE, HARM_ORIGIN, HARM_RUNS } harm;
static harm of_load, of_disk, of_find, of_runs;

/* The largest number of the first layer's recurrent state, with the other sign. */
static void turn_value(sequence *q)
{
    const state_limits *l     = &q->s->limits;
    uint8_t            *bytes = malloc(state_size(q->s));
    const size_t        n     = l->recurrent_bytes / sizeof(float);
    assert_non_null(bytes);
    sequence_save(q, bytes);
    float *x  = (float *)(void *)(bytes + l->tail_bytes);
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(x[at])) at = i;
    x[at] = -x[at];
    sequence_restore(q, sequence_length(q), bytes);
    free(bytes);
}

/* As if the last page had not been there. */
static void lose_page(sequence *q)
{
    void *bytes = calloc(1, state_page_bytes(&q->s->limits));
    assert_non_null(bytes);
    page_write(q->s, sequence_pages(q)[(sequence_length(q) - 1) / K_PAGE], bytes);
    free(bytes);
}

static void do_harm(harm h, sequence *q)
{
    if (h == HARM_VALUE) turn_value(q);
    if (h == HARM_PAGE) lose_page(q);
}

weir_status __wrap_weir_sequence_load(weir_sequence *s, const char *path, weir_error *err)
{
    const weir_status st = __real_weir_sequence_load(s, path, err);
    if (st == WEIR_OK) do_harm(of_load, s->q);
    return st;
}

uint32_t __wrap_prefix_tree_adopt(prefix_tree *t, const prefix_hit *hit, sequence *q)
{
    const bool     disk = hit->disk != NULL;
    const uint32_t got  = __real_prefix_tree_adopt(t, hit, q);
    if (disk && got > 0) do_harm(of_disk, q);
    return got;
}

/* As if all had been read without adapters. */
void __wrap_prefix_tree_find(const prefix_tree *t, const uint8_t *origin, const uint32_t *ids, uint32_t n,
                             prefix_hit *out)
{
    __real_prefix_tree_find(t, of_find == HARM_ORIGIN ? prefix_no_origin : origin, ids, n, out);
}

/* Adapters add to rows that stand first in the step alone. */
void __wrap_lora_add(const lora_step *s, const lora_work *w, kernels *k, uint32_t number, const k_buf *x,
                     const k_linear_job *jobs, const lora_target *targets, uint32_t n_jobs)
{
    for (uint32_t i = 0; s != NULL && i < s->n_runs; i++) {
        if (of_runs == HARM_RUNS && s->runs[i].rows[0] > 0) continue;
        const lora_step one = {1, &s->runs[i], s->scales, s->slots};
        __real_lora_add(&one, w, k, number, x, jobs, targets, n_jobs);
    }
}

static size_t files_in(const char *dir)
{
    size_t n = 0;
    DIR   *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static uint32_t count(const verify_schedule *c, verify_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n_ops; i++) n += c->ops[i].kind == kind;
    return n;
}

static bool loads(const verify_schedule *c)
{
    return count(c, OP_LOAD) + count(c, OP_ABROAD) > 0;
}

static bool restarts(const verify_schedule *c)
{
    return c->disk && count(c, OP_RESTART) > 0;
}

static bool adapted(uint32_t text)
{
    return text == 4 || text == 5;
}

/* Someone under adapters in a step with someone else. */
static bool beside_others(const verify_schedule *c)
{
    uint32_t with = 0, without = 0, beside = 0;
    for (uint32_t i = 0; i < c->n_ops; i++) {
        with += c->ops[i].kind == OP_JOIN && adapted(c->ops[i].text);
        without += c->ops[i].kind == OP_JOIN && !adapted(c->ops[i].text);
        beside += c->ops[i].beside;
    }
    return with > 0 && without > 0 && beside > 1;
}

/* Someone without adapters is stored, and someone under some adopts: not always as few tokens as they share. */
static bool adopts_beside(const verify_schedule *c)
{
    uint32_t text[VERIFY_SEQUENCES] = {0};
    bool     stored                 = false;
    for (uint32_t i = 0; i < c->n_ops; i++) {
        const verify_op *op = &c->ops[i];
        if (op->kind == OP_JOIN || op->kind == OP_RESET) text[op->who] = op->text;
        stored = stored || (op->kind == OP_STORE && !adapted(text[op->who]) && text[op->who] != 3);
        if (op->kind == OP_ADOPT && stored && adapted(text[op->who])) return true;
    }
    return false;
}

/* Two join and read one token each, in a step. */
static void check_beside(const verify_schedule *c)
{
    assert_int_equal(c->n_ops, 4);
    assert_int_equal(count(c, OP_JOIN), 2);
    assert_true(c->ops[3].beside && c->ops[3].n == 1);
}

/* One reads and is stored, another one adopts that and reads on. */
static void check_adopt(const verify_schedule *c)
{
    assert_in_range(c->n_ops, 6, 7);
    assert_int_equal(count(c, OP_STORE), 1);
    assert_int_equal(count(c, OP_ADOPT), 1);
}

/* Read, saved, loaded and read on. */
static void check_load(const verify_schedule *c)
{
    if (c->n_ops != (count(c, OP_ABROAD) > 0 ? 3 : 5)) fail_msg("%u operations", c->n_ops);
    assert_false(c->disk);
}

/* Read, stored, lost in memory, begun again, adopted and read on. */
static void check_restart(const verify_schedule *c)
{
    assert_int_equal(c->n_ops, 7);
    assert_int_equal(count(c, OP_STORE), 1);
    assert_int_equal(count(c, OP_RESTART), 1);
    assert_int_equal(count(c, OP_ADOPT), 1);
    assert_true(c->disk);
}

/* Of the schedules of a sort, those that use what is harmed differ, and are shrunk to it. */
static void finds(verifier *v, harm *harmed, bool (*sort)(const verify_schedule *), verify_invariant use,
                  void (*check)(const verify_schedule *), uint32_t tried)
{
    enum { LEAST_FOUND = 3, SHRUNK = 1 };
    uint32_t found = 0;
    for (uint32_t i = 0; i < tried;) {
        verify_schedule c;
        verify_outcome  o;
        weir_error      err;
        verify_draw_engine(v, &c);
        verify_draw_steps(v, &c);
        if (!sort(&c)) continue;
        i++;
        must(verify_run(v, &c, &o, &err), &err);
        assert_true(!o.differs || o.used[use]);
        if (o.differs && found++ < SHRUNK) {
            verify_schedule shrunk = c;
            verify_shrink(&shrunk, differs, v);
            assert_true(differs(v, &shrunk));
            check(&shrunk);
        }
        const harm h = *harmed;
        *harmed      = HARM_NONE;
        assert_false(differs(v, &c));
        *harmed = h;
        assert_in_range(files_in(scratch), 0, 1); /* the folder of this run */
    }
    *harmed = HARM_NONE;
    assert_in_range(found, LEAST_FOUND, tried);
}

static void test_files(void **given)
{
    (void)given;
    static verifier    v;
    weir_verify_result r;
    for (harm h = HARM_VALUE; h <= HARM_PAGE; h++) {
        setup(&v, &r, model_named("tiny-odd"));
        of_load = h;
        finds(&v, &of_load, loads, VERIFY_SAVE_LOAD, check_load, 8);
        of_disk = h;
        finds(&v, &of_disk, restarts, VERIFY_DISK, check_restart, 8);
        teardown(&v);
        assert_int_equal(files_in(scratch), 0);
    }
}

static void test_adapters(void **given)
{
    (void)given;
    static verifier    v;
    weir_verify_result r;
    setup(&v, &r, model_named("tiny-odd"));
    of_runs = HARM_RUNS;
    finds(&v, &of_runs, beside_others, VERIFY_ADAPTED_MIXED, check_beside, 20);
    of_find = HARM_ORIGIN;
    finds(&v, &of_find, adopts_beside, VERIFY_ADAPTED, check_adopt, 24);
    teardown(&v);
}

/* Without a place for files there are no differences, and the counts say so. */
static void test_no_files(void **given)
{
    (void)given;
    static verifier    v;
    weir_verify_result r;
    verify_schedule    c;
    uint32_t           n = 0;
    setup(&v, &r, model_named("tiny-odd"));
    v.opt.scratch = "/nowhere/at/all";
    while (n < 3) {
        verify_outcome o;
        weir_error     err;
        verify_draw_engine(&v, &c);
        verify_draw_steps(&v, &c);
        assert_false(c.disk);
        if (!loads(&c)) continue;
        n++;
        must(verify_run(&v, &c, &o, &err), &err);
        assert_false(o.differs || o.used[VERIFY_SAVE_LOAD] || o.used[VERIFY_DISK]);
    }
    assert_true(v.files.denied);
    teardown(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_requests),
                                       cmocka_unit_test(test_files), cmocka_unit_test(test_adapters),
                                       cmocka_unit_test(test_no_files)};
    if (mkdtemp(scratch) == NULL) return 1;
    const int failed = cmocka_run_group_tests_name("exact verify teeth", tests, NULL, NULL);
    (void)rmdir(scratch);
    return failed;
}
