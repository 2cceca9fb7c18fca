/* tests/unit/engine/test_anchors.c - where prompts leave snapshots. */
#include "engine/anchors.h"

#include "base/mem.h"
#include "support/cmocka.h"

enum { START = 9, TEXT = 1 };

/* A prompt of n tokens with messages that begin at `at`. */
static void plan(anchors *a, uint32_t n, uint32_t from, uint32_t parted, const uint32_t *at, size_t n_at)
{
    weir_error err;
    uint32_t  *ids = mem_alloc(n, sizeof *ids);
    assert_non_null(ids);
    for (uint32_t i = 0; i < n; i++) ids[i] = TEXT;
    for (size_t i = 0; i < n_at; i++) ids[at[i]] = START;
    assert_int_equal(anchors_plan(a, ids, n, from, parted, START, &err), WEIR_OK);
    mem_free(ids);
}

static void expect(anchors *a, const uint32_t *at, uint32_t n)
{
    assert_int_equal(a->n, n);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(a->at[i], at[i]);
    anchors_free(a);
}

#define EXPECT(a, ...) expect(a, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)
#define AT(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4

static void test_boundaries_and_strides(void **given)
{
    (void)given;
    anchors a;
    plan(&a, 1000, 0, 0, AT(0, 100, 300, 996));
    EXPECT(&a, 100, 256, 512, 768, 996); /* 300 is too near to 256 */
    plan(&a, 1000, 0, 0, AT(0, 200, 400, 990));
    EXPECT(&a, 200, 256, 400, 512, 768, 990);
}

/* Many small messages: few anchors, but always the last boundary. */
static void test_small_messages(void **given)
{
    (void)given;
    anchors a;
    plan(&a, 60, 0, 0, AT(0, 10, 20, 30, 40, 55));
    EXPECT(&a, 55);
    plan(&a, 140, 0, 0, AT(0, 10, 66, 80, 120, 137));
    EXPECT(&a, 66, 137);
}

/* What is cached already gets no anchors; where the prompt left it does. */
static void test_after_the_cached_part(void **given)
{
    (void)given;
    anchors a;
    plan(&a, 700, 512, 530, AT(0, 100, 560, 697));
    EXPECT(&a, 530, 697);
}

/* Without messages the end counts: the same text again is read from there. */
static void test_plain_text(void **given)
{
    (void)given;
    anchors a;
    plan(&a, 300, 0, 0, NULL, 0);
    EXPECT(&a, 256);
    plan(&a, 400, 0, 0, NULL, 0);
    EXPECT(&a, 256, 399);
    plan(&a, 1, 0, 0, NULL, 0);
    assert_int_equal(a.n, 0);
    anchors_free(&a);
}

static void test_walking(void **given)
{
    (void)given;
    anchors a;
    plan(&a, 600, 0, 0, AT(0, 100, 597));
    assert_int_equal(anchors_distance(&a, 0), 100);
    assert_int_equal(anchors_distance(&a, 99), 1);
    assert_int_equal(anchors_distance(&a, 100), 156);
    assert_false(anchors_reached(&a, 99));
    assert_true(anchors_reached(&a, 100));
    anchors_add(&a, 300); /* somebody else parts there */
    anchors_add(&a, 300);
    assert_int_equal(a.n, 5);
    assert_int_equal(anchors_distance(&a, 256), 44);
    assert_true(anchors_reached(&a, 300));
    assert_false(anchors_reached(&a, 301));
    assert_int_equal(anchors_distance(&a, 597), UINT32_MAX);
    anchors_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_boundaries_and_strides),
                                       cmocka_unit_test(test_small_messages),
                                       cmocka_unit_test(test_after_the_cached_part), cmocka_unit_test(test_plain_text),
                                       cmocka_unit_test(test_walking)};
    return cmocka_run_group_tests_name("anchors", tests, NULL, NULL);
}
