/* tests/exact/test_verify_teeth.c - schedules find what is wrong: with one bit of
 * the truth turned, the position is named and the schedule shrunk to what it takes
 * to get there; and one schedule gives the same twice. */
#include "support/cmocka.h"
#include "support/engines.h"

#include "engine/verify_parts.h"
#include "kernels/open.h"

#include <string.h>

enum { AT = 9, SCHEDULES = 40 };

static void setup(verifier *v, weir_verify_result *r, weir_model *m)
{
    weir_error err;
    *r                = (weir_verify_result){0};
    *v                = (verifier){.m = m, .out = r, .vocab = checkpoint_config(m->c)->vocab_size, .seed = 5};
    v->opt            = (weir_verify_options)WEIR_VERIFY_OPTIONS_INIT;
    v->opt.max_length = 64;
    v->has_mtp        = load_has_mtp(m->c);
    v->end            = UINT64_MAX;
    v->n_isas         = (uint32_t)kernels_isas(v->isas, VERIFY_ISAS);
    must(verify_engines_plan(v, &err), &err);
    must(verify_texts_new(v, &err), &err);
    must(verify_wishes_new(v, &err), &err);
    must(verify_texts_run(v, &err), &err);
    for (uint32_t i = 0; i < VERIFY_TEXTS; i++) assert_int_equal(v->texts[i].length, v->texts[i].planned);
}

static void teardown(verifier *v)
{
    verify_engines_close(v);
    verify_texts_free(v);
    verify_wishes_free(v);
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
        assert_non_null(strstr(o.what, "position 9 of text 0"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_requests)};
    return cmocka_run_group_tests_name("exact verify teeth", tests, NULL, NULL);
}
