/* The thread pool: every thread runs once, barriers hold, sleeping threads wake.
 * Numbers are plain on purpose: a thread sanitizer then checks the order that the
 * pool promises between a run, its barriers and its caller. */
#include "support/cmocka.h"

#include "base/mem.h"
#include "base/pool.h"

#include <string.h>
#include <time.h>

enum { CROWD = 9 };

typedef struct crew {
    pool    *p;
    uint32_t ran[CROWD], n_threads[CROWD];
    uint64_t mark[CROWD], sums[CROWD];
    uint32_t barriers;
} crew;

static pool *new_pool(uint32_t n)
{
    pool      *p;
    weir_error err;
    if (pool_new(&p, n, &err) != WEIR_OK) fail_msg("%s", err.text);
    return p;
}

static void count(void *arg, uint32_t thread, uint32_t n_threads)
{
    crew *c = arg;
    c->ran[thread]++;
    c->n_threads[thread] = n_threads;
}

static void every_thread_runs_once_a_run(void **state)
{
    (void)state;
    enum { RUNS = 500 };
    for (uint32_t n = 1; n <= CROWD; n += n < 4 ? 1 : 5) { /* the last is more than the cores here, often */
        crew c = {.p = new_pool(n)};
        assert_int_equal(pool_threads(c.p), n);
        for (uint32_t i = 1; i <= RUNS; i++) {
            pool_run(c.p, count, &c);
            for (uint32_t t = 0; t < n; t++) assert_int_equal(c.ran[t], i); /* all have returned */
        }
        for (uint32_t t = 0; t < n; t++) assert_int_equal(c.n_threads[t], n);
        pool_free(c.p);
    }
}

/* In every round each thread writes its mark and, behind a barrier, adds up all. */
static void rounds(void *arg, uint32_t thread, uint32_t n_threads)
{
    crew *c = arg;
    for (uint32_t round = 1; round <= c->barriers; round++) {
        c->mark[thread] = (uint64_t)round * (thread + 1);
        pool_barrier(c->p);
        for (uint32_t t = 0; t < n_threads; t++) c->sums[thread] += c->mark[t];
        pool_barrier(c->p);
    }
}

static void barriers_separate_rounds(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= CROWD; n += 2) {
        crew c = {.p = new_pool(n), .barriers = 40};
        pool_run(c.p, rounds, &c);
        pool_run(c.p, rounds, &c);
        const uint64_t expected = 2u * (40u * 41 / 2) * (n * (n + 1) / 2);
        for (uint32_t t = 0; t < n; t++) assert_int_equal(c.sums[t], expected);
        pool_free(c.p);
    }
}

static void sleeping_threads_wake(void **state)
{
    (void)state;
    const struct timespec pause = {.tv_nsec = 30 * 1000 * 1000}; /* far longer than the workers spin */
    crew                  c     = {.p = new_pool(3)};
    for (uint32_t i = 1; i <= 4; i++) {
        (void)nanosleep(&pause, NULL);
        pool_run(c.p, count, &c);
        for (uint32_t t = 0; t < 3; t++) assert_int_equal(c.ran[t], i);
    }
    (void)nanosleep(&pause, NULL);
    pool_free(c.p); /* wakes them, too */
}

static void pools_come_and_go(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        crew c = {.p = new_pool(4)};
        if (i % 2 == 0) pool_run(c.p, count, &c);
        pool_free(c.p);
        for (uint32_t t = 0; t < 4; t++) assert_int_equal(c.ran[t], i % 2 == 0);
    }
    pool_free(NULL);
}

static void two_pools_at_once(void **state)
{
    (void)state;
    crew a = {.p = new_pool(2)}, b = {.p = new_pool(3)};
    for (int i = 0; i < 50; i++) {
        pool_run(a.p, count, &a);
        pool_run(b.p, count, &b);
    }
    assert_true(a.ran[0] == 50 && a.ran[1] == 50 && b.ran[0] == 50 && b.ran[1] == 50 && b.ran[2] == 50);
    pool_free(a.p);
    pool_free(b.p);
}

static void what_cannot_be_had(void **state)
{
    (void)state;
    pool      *p;
    weir_error err;
    assert_int_equal(pool_new(&p, POOL_MAX_THREADS + 1, &err), WEIR_INVALID);
    assert_string_equal(err.text, "threads: expected at most 512, found 513");
    assert_null(p);
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(pool_new(&p, 2, &err), WEIR_NO_MEMORY);
        mem_fail_at(0);
        assert_null(p);
    }
    p = new_pool(0);
    assert_in_range(pool_threads(p), 1, POOL_MAX_THREADS);
    pool_free(p);
}

/* Parts follow one another without gaps, at multiples of the unit. */
static void cuts_cover_everything(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 5, 16, 17, 100, 4096, 100003}, units[] = {1, 4, 16, 4096};
    for (size_t s = 0; s < 8; s++)
        for (size_t u = 0; u < 4; u++)
            for (uint32_t n = 1; n <= 70; n += 3) {
                size_t last = 0, largest = 0, smallest = SIZE_MAX;
                for (uint32_t t = 0; t < n; t++) {
                    size_t begin, end;
                    pool_cut(sizes[s], units[u], t, n, &begin, &end);
                    assert_int_equal(begin, last);
                    assert_true(end >= begin && (end % units[u] == 0 || end == sizes[s]));
                    const size_t n_units = (end - begin + units[u] - 1) / units[u];
                    largest              = n_units > largest ? n_units : largest;
                    smallest             = n_units < smallest ? n_units : smallest;
                    last                 = end;
                }
                assert_int_equal(last, sizes[s]);
                assert_true(largest - smallest <= 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_once_a_run),
        cmocka_unit_test(barriers_separate_rounds),
        cmocka_unit_test(sleeping_threads_wake),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(two_pools_at_once),
        cmocka_unit_test(what_cannot_be_had),
        cmocka_unit_test(cuts_cover_everything),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
