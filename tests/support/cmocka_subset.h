/* tests/support/cmocka_subset.h - the part of cmocka's interface that the kernel
 * tests use, for cross builds where cmocka does not exist for the target.
 *
 * One test program includes it once; a failed check jumps back to the runner, as
 * in cmocka.  What is missing here is missing on purpose: add it when a kernel
 * test needs it, with cmocka's meaning. */
#ifndef SUPPORT_CMOCKA_SUBSET_H
#define SUPPORT_CMOCKA_SUBSET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(f) \
    { \
#f, f \
    }
#define cmocka_run_group_tests(tests, setup, teardown) \
    subset_run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(group, tests, setup, teardown) \
    subset_run(group, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

static jmp_buf subset_leave; /* where a failed check or skip() goes */
enum { SUBSET_RAN = 0, SUBSET_FAILED = 1, SUBSET_SKIPPED = 2 };

__attribute__((noreturn, format(printf, 3, 4), unused)) static void subset_fail(const char *file, int line,
                                                                                const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)fprintf(stderr, "%s:%d: ", file, line);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
    longjmp(subset_leave, SUBSET_FAILED);
}

/* Its own function, so that no variable of the caller is alive across the jump. */
__attribute__((noinline)) static int subset_run_one(const struct CMUnitTest *test, void **state)
{
    const int left = setjmp(subset_leave);
    if (left == SUBSET_RAN) test->run(state);
    return left;
}

static int subset_run(const char *group, const struct CMUnitTest *tests, size_t n, int (*setup)(void **),
                      int (*teardown)(void **))
{
    static const char *const words[] = {"ok", "FAILED", "skipped"};

    void *state    = NULL;
    int   n_failed = 0;
    if (setup != NULL && setup(&state) != 0) {
        (void)fprintf(stderr, "%s: setup failed\n", group);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        const int left = subset_run_one(&tests[i], &state);
        if (left == SUBSET_FAILED) n_failed++;
        (void)fprintf(stderr, "%s: %s: %s\n", group, tests[i].name, words[left]);
    }
    if (teardown != NULL && teardown(&state) != 0) {
        (void)fprintf(stderr, "%s: teardown failed\n", group);
        n_failed++;
    }
    return n_failed;
}

#define fail_msg(...) subset_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail() subset_fail(__FILE__, __LINE__, "failed")
#define skip() longjmp(subset_leave, SUBSET_SKIPPED)

#define subset_check(holds, what) \
    do { \
        if (!(holds)) subset_fail(__FILE__, __LINE__, "does not hold: %s", what); \
    } while (0)

#define assert_true(c) subset_check(c, #c)
#define assert_false(c) subset_check(!(c), "!(" #c ")")
#define assert_null(p) subset_check((p) == NULL, #p " == NULL")
#define assert_non_null(p) subset_check((p) != NULL, #p " != NULL")
#define assert_ptr_equal(a, b) subset_check((const void *)(a) == (const void *)(b), #a " == " #b)
#define assert_string_equal(a, b) subset_check(strcmp(a, b) == 0, #a " equals " #b)
#define assert_memory_equal(a, b, n) subset_check(memcmp(a, b, n) == 0, #a " and " #b " have the same bytes")
#define assert_int_equal(a, b) subset_compare(a, b, ==, !=)
#define assert_int_not_equal(a, b) subset_compare(a, b, !=, ==)
#define assert_in_range(a, lo, hi) \
    subset_check((uintmax_t)(a) >= (uintmax_t)(lo) && (uintmax_t)(a) <= (uintmax_t)(hi), #a " in " #lo ".." #hi)

#define subset_compare(a, b, must, must_not) \
    do { \
        const long long subset_a = (long long)(a), subset_b = (long long)(b); \
        if (!(subset_a must subset_b)) \
            subset_fail(__FILE__, __LINE__, "%s (%lld) " #must_not " %s (%lld)", #a, subset_a, #b, subset_b); \
    } while (0)

/* cmocka's: |a - b| <= epsilon. */
#define assert_float_equal(a, b, epsilon) \
    do { \
        const double subset_a = (double)(a), subset_b = (double)(b); \
        const double subset_d = subset_a > subset_b ? subset_a - subset_b : subset_b - subset_a; \
        if (!(subset_d <= (double)(epsilon))) \
            subset_fail(__FILE__, __LINE__, "%s (%.9g) != %s (%.9g)", #a, subset_a, #b, subset_b); \
    } while (0)

#endif
