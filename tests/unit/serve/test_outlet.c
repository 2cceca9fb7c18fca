/* The buffer between who makes an answer and who sends it. */
#include "base/clock.h"
#include "serve/outlet.h"
#include "support/cmocka.h"

#include <stdbool.h>
#include <string.h>

/* Stands for a connection: how often it was put to sleep and woken. */
typedef struct sleeper {
    int suspended, resumed;
} sleeper;

static void on_suspend(void *connection)
{
    ((sleeper *)connection)->suspended++;
}

static void on_resume(void *connection)
{
    ((sleeper *)connection)->resumed++;
}

static outlet *make(sleeper *s)
{
    *s        = (sleeper){0};
    outlet *o = outlet_new(&(outlet_sleeper){.suspend = on_suspend, .resume = on_resume, .connection = s});
    assert_non_null(o);
    return o;
}

static void test_whole_answer_wakes_the_sender(void **state)
{
    sleeper     s;
    outlet     *o = make(&s);
    outlet_head h;
    char        got[16];
    (void)state;
    assert_false(outlet_ready(o));
    assert_int_equal(s.suspended, 1);
    outlet_header(o, "Retry-After", "3");
    outlet_answer(o, 429, "application/json", "{\"a\":1}", 7);
    assert_int_equal(s.resumed, 1);
    outlet_answer(o, 200, "text/plain", "again", 5); /* the first one counts */
    assert_true(outlet_ready(o));
    outlet_get_head(o, &h);
    assert_int_equal(h.status, 429);
    assert_true(h.whole);
    assert_int_equal(h.size, 7);
    assert_int_equal(h.n_headers, 1);
    assert_string_equal(h.values[0], "3");
    assert_int_equal(outlet_take(o, got, 4), 4);
    assert_int_equal(outlet_take(o, got + 4, 12), 3);
    assert_memory_equal(got, "{\"a\":1}", 7);
    assert_int_equal(outlet_take(o, got, 4), OUTLET_END);
    assert_int_equal(s.suspended, 1);
    outlet_close(o);
}

static void test_stream_sleeps_when_it_is_empty(void **state)
{
    sleeper s;
    outlet *o = make(&s);
    char    got[16];
    (void)state;
    outlet_expect_stream(o, "text/event-stream", true);
    assert_false(outlet_begun(o));
    assert_true(outlet_put(o, "ab", 2));
    assert_true(outlet_begun(o));
    assert_int_equal(s.resumed, 0); /* nobody slept */
    assert_int_equal(outlet_take(o, got, sizeof got), 2);
    assert_int_equal(outlet_take(o, got, sizeof got), 0);
    assert_int_equal(s.suspended, 1);
    assert_true(outlet_put(o, "cd", 2));
    assert_true(outlet_put(o, "ef", 2));
    assert_int_equal(s.resumed, 1); /* once a sleep */
    assert_int_equal(outlet_take(o, got, sizeof got), 4);
    assert_memory_equal(got, "cdef", 4);
    outlet_end(o);
    assert_false(outlet_put(o, "gh", 2));
    assert_int_equal(outlet_take(o, got, sizeof got), OUTLET_END);
    outlet_close(o);
}

static void test_who_does_not_read_is_gone(void **state)
{
    sleeper     s;
    outlet     *o = make(&s), *maker = outlet_share(o);
    static char block[1 << 16];
    size_t      taken = 0;
    (void)state;
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 40; i++) { /* a reader that keeps up may take more than the limit in all */
        char got[1 << 16];
        assert_true(outlet_put(o, block, sizeof block));
        if (i >= 2) taken += (size_t)outlet_take(o, got, sizeof got);
    }
    assert_int_equal(taken, 38u << 16);
    assert_false(outlet_closed(maker));
    size_t waits = 2;
    while (outlet_put(o, block, sizeof block)) waits++;
    assert_int_equal(waits, OUTLET_MAX / sizeof block);
    assert_true(outlet_closed(maker));
    assert_int_equal(outlet_take(o, block, sizeof block), OUTLET_BROKEN);
    outlet_close(o);
    outlet_release(maker);
}

static void test_hang_up(void **state)
{
    sleeper s;
    outlet *o = make(&s), *maker = outlet_share(o);
    (void)state;
    assert_false(outlet_ready(o));
    outlet_hang_up(o);
    assert_int_equal(s.resumed, 1); /* so that it can go */
    assert_true(outlet_ready(o));
    assert_true(outlet_closed(maker));
    assert_false(outlet_put(maker, "x", 1));
    outlet_close(o);
    outlet_answer(maker, 200, "text/plain", "late", 4); /* harmless, and wakes nobody */
    assert_int_equal(s.resumed, 1);
    outlet_release(maker);
}

static void test_signs_of_life(void **state)
{
    const uint64_t second = 1000000000u;
    sleeper        s;
    outlet        *o = make(&s);
    char           got[64];
    const uint64_t start = clock_ns();
    (void)state;
    assert_false(outlet_ready(o));
    outlet_tick(o, start + 10 * second); /* a whole answer may take as long as it wants */
    assert_false(outlet_begun(o));
    outlet_expect_stream(o, "text/event-stream", true);
    outlet_tick(o, start + second);
    assert_false(outlet_begun(o));
    outlet_tick(o, start + 3 * second);
    assert_true(outlet_begun(o));
    assert_int_equal(s.resumed, 1);
    outlet_progress(o, 256, 1000);
    outlet_tick(o, clock_ns() + 4 * second);
    assert_int_equal(outlet_take(o, got, sizeof got), 0);
    outlet_tick(o, clock_ns() + 5 * second);
    const long n = outlet_take(o, got, sizeof got);
    assert_int_equal(n, strlen(": keepalive 256/1000\n\n"));
    assert_memory_equal(got, ": keepalive 256/1000\n\n", (size_t)n);
    outlet_keep_alive(o, "event: ping\n\n"); /* a dialect's own */
    outlet_tick(o, clock_ns() + 5 * second);
    assert_int_equal(outlet_take(o, got, sizeof got), strlen("event: ping\n\n"));
    assert_memory_equal(got, "event: ping\n\n", strlen("event: ping\n\n"));
    outlet_end(o);
    outlet_tick(o, clock_ns() + 50 * second);
    assert_int_equal(outlet_take(o, got, sizeof got), OUTLET_END);
    outlet_close(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_answer_wakes_the_sender),
        cmocka_unit_test(test_stream_sleeps_when_it_is_empty),
        cmocka_unit_test(test_who_does_not_read_is_gone),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_signs_of_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
