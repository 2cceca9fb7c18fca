/* Counted allocation: sizes that overflow, the failing allocation, alignment. */
#include "support/cmocka.h"

#include "base/mem.h"

#include <string.h>

static void checked_arithmetic(void **state)
{
    (void)state;
    size_t n = 1;
    assert_true(size_mul(&n, SIZE_MAX / 3, 3) && n == SIZE_MAX / 3 * 3);
    assert_false(size_mul(&n, SIZE_MAX / 2, 3));
    assert_true(size_mul(&n, 0, SIZE_MAX) && n == 0);
    assert_true(size_add(&n, SIZE_MAX - 1, 1) && n == SIZE_MAX);
    assert_false(size_add(&n, SIZE_MAX, 1));
}

static void impossible_sizes_give_null(void **state)
{
    (void)state;
    assert_null(mem_alloc(SIZE_MAX / 2, 3));
    assert_null(mem_zalloc(SIZE_MAX, SIZE_MAX));
    assert_null(mem_aligned(SIZE_MAX / 8, 16));
    assert_null(mem_alloc((size_t)PTRDIFF_MAX + 1, 1));
    assert_null(mem_aligned((size_t)PTRDIFF_MAX, 1));
    assert_null(mem_pages(SIZE_MAX));
    char *p = mem_strdup("kept");
    assert_null(mem_realloc(p, SIZE_MAX / 2, 3));
    assert_string_equal(p, "kept");
    mem_free(p);
}

static void nothing_is_something(void **state)
{
    (void)state;
    void *a = mem_alloc(0, 8), *b = mem_zalloc(8, 0), *c = mem_aligned(0, 0), *d = mem_pages(0);
    assert_true(a != NULL && b != NULL && c != NULL && d != NULL);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_pages_free(d, 0);
    mem_free(NULL);
    mem_pages_free(NULL, 0);
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return false;
    return true;
}

static void what_is_zeroed_and_aligned(void **state)
{
    (void)state;
    for (size_t n = 1; n < 300; n += 37) {
        uint8_t *z = mem_zalloc(n, 3), *a = mem_aligned(n, 3), *p = mem_pages(n);
        assert_true(all_zero(z, 3 * n) && all_zero(a, 3 * n) && all_zero(p, n));
        assert_int_equal((uintptr_t)a % 64, 0);
        assert_int_equal((uintptr_t)p % 4096, 0);
        memset(a, 1, 3 * n); /* a sanitizer sees the true size */
        mem_free(z);
        mem_free(a);
        mem_pages_free(p, n);
    }
}

static void a_block_grows_with_its_content(void **state)
{
    (void)state;
    char *p = mem_strndup("abcdef", 3);
    assert_string_equal(p, "abc");
    p = mem_realloc(p, 1000, 2);
    assert_non_null(p);
    assert_string_equal(p, "abc");
    memset(p, 'x', 2000);
    mem_free(p);
}

static void the_nth_allocation_fails(void **state)
{
    (void)state;
    const uint64_t before = mem_count();
    mem_fail_at(3);
    void *a = mem_alloc(1, 1), *b = mem_strdup("b"), *c = mem_zalloc(1, 1), *d = mem_alloc(1, 1);
    assert_true(a != NULL && b != NULL && c == NULL && d != NULL);
    assert_int_equal(mem_count() - before, 4);
    mem_fail_at(1);
    assert_null(mem_pages(100));
    mem_fail_at(1);
    assert_null(mem_aligned(1, 1));
    mem_fail_at(1);
    assert_null(mem_realloc(a, 2, 1));
    mem_fail_at(1);
    mem_fail_at(0);
    void *e = mem_alloc(1, 1);
    assert_non_null(e);
    mem_free(a);
    mem_free(b);
    mem_free(d);
    mem_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked_arithmetic),
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(what_is_zeroed_and_aligned),
        cmocka_unit_test(a_block_grows_with_its_content),
        cmocka_unit_test(the_nth_allocation_fails),
    };
    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
