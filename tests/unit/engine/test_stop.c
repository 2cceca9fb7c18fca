/* The stream matcher against a search in the whole text, for every way to cut it. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "base/mem.h"
#include "engine/stop.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 4096 };

typedef struct expected {
    size_t   end, len; /* of the match; len 0: none */
    uint32_t which;
} expected;

static bool ends_with(const char *text, size_t n, stop_string s)
{
    return s.len > 0 && s.len <= n && memcmp(text + n - s.len, s.bytes, s.len) == 0;
}

static expected search(const char *text, size_t n, const stop_string *stops, size_t n_stops)
{
    for (size_t end = 1; end <= n; end++) {
        expected e = {.end = end};
        for (size_t i = 0; i < n_stops; i++)
            if (ends_with(text, end, stops[i]) && stops[i].len > e.len) e.len = stops[i].len, e.which = (uint32_t)i;
        if (e.len > 0) return e;
    }
    return (expected){.end = n};
}

/* Length of the longest tail of the text that is a proper prefix of a stop string. */
static size_t tail(const char *text, size_t n, const stop_string *stops, size_t n_stops)
{
    size_t best = 0;
    for (size_t i = 0; i < n_stops; i++)
        for (size_t len = best + 1; len < stops[i].len && len <= n; len++)
            if (memcmp(text + n - len, stops[i].bytes, len) == 0) best = len;
    return best;
}

typedef struct sink {
    char   text[MAX_TEXT];
    size_t n;
} sink;

static void take(sink *s, const stop_output *o, const char *piece)
{
    assert_true(s->n + o->n_held + o->n_piece <= MAX_TEXT);
    memcpy(s->text + s->n, o->held, o->n_held);
    s->n += o->n_held;
    memcpy(s->text + s->n, piece, o->n_piece);
    s->n += o->n_piece;
}

/* Bit i of `cuts` (or a random one, for long texts): a cut behind byte i. */
static void run(stop_matcher *m, const char *text, size_t n, uint64_t cuts, const stop_string *stops, size_t n_stops)
{
    static sink    out;
    const expected want    = search(text, n, stops, n_stops);
    uint64_t       seed    = cuts;
    size_t         from    = 0;
    bool           stopped = false;
    out.n                  = 0;
    stop_reset(m);
    for (size_t i = 0; i < n; i++) {
        const bool cut = n <= 64 ? cuts >> i & 1 : rng_below(&seed, 5) == 0;
        if (!cut && i + 1 < n) continue;
        const stop_output o = stop_push(m, text + from, i + 1 - from);
        take(&out, &o, text + from);
        from = i + 1;
        if (o.stopped && !stopped) {
            assert_int_equal(o.which, want.which);
            assert_true(want.len > 0 && want.end <= i + 1);
        }
        stopped = o.stopped;
        assert_int_equal(stopped, want.len > 0 && want.end <= i + 1);
        if (!stopped) assert_int_equal(out.n, i + 1 - tail(text, i + 1, stops, n_stops));
    }
    const stop_output last = stop_finish(m);
    take(&out, &last, "");
    const size_t want_n = want.len == 0 ? n : m->include ? want.end : want.end - want.len;
    assert_int_equal(out.n, want_n);
    assert_memory_equal(out.text, text, want_n);
}

static void short_texts_in_all_cuts(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) {
        char         text[11], bytes[16][6];
        stop_string  stops[16];
        const size_t n = 1 + rng_below(&seed, 11), n_stops = rng_below(&seed, round % 10 == 0 ? 17 : 4);
        for (size_t i = 0; i < n; i++) text[i] = (char)('a' + rng_below(&seed, 2));
        for (size_t i = 0; i < n_stops; i++) {
            stops[i] = (stop_string){bytes[i], rng_below(&seed, 7)};
            for (size_t j = 0; j < stops[i].len; j++) bytes[i][j] = (char)('a' + rng_below(&seed, 2));
        }
        stop_matcher m;
        assert_int_equal(stop_init(&m, stops, n_stops, round % 2, NULL), WEIR_OK);
        for (uint64_t cuts = 0; cuts < 1ull << (n - 1); cuts += 1 + rng_below(&seed, round < 100 ? 1 : 40))
            run(&m, text, n, cuts, stops, n_stops);
        stop_free(&m);
    }
}

static void long_texts_and_strings(void **state)
{
    (void)state;
    static char text[MAX_TEXT], bytes[16][STOP_MAX_BYTES];
    uint64_t    seed    = 8;
    int         matches = 0;
    for (int round = 0; round < 200; round++) {
        stop_string  stops[16];
        const size_t n = 1000 + rng_below(&seed, MAX_TEXT - 1000), n_stops = 1 + rng_below(&seed, 16);
        /* Periodic with rare faults: long borders, many near misses; any byte value. */
        const uint32_t period = 1 + rng_below(&seed, 40);
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(rng_below(&seed, 300) == 0 ? rng_below(&seed, 256) : (i % period) * 7);
        for (size_t i = 0; i < n_stops; i++) {
            stops[i]          = (stop_string){bytes[i], 1 + rng_below(&seed, STOP_MAX_BYTES)};
            const size_t from = rng_below(&seed, (uint32_t)n);
            for (size_t j = 0; j < stops[i].len; j++) bytes[i][j] = text[(from + j) % n];
            if (rng_below(&seed, 2)) bytes[i][stops[i].len - 1] ^= 1;
        }
        matches += search(text, n, stops, n_stops).len > 0;
        stop_matcher m;
        assert_int_equal(stop_init(&m, stops, n_stops, round % 2, NULL), WEIR_OK);
        run(&m, text, n, rng_next(&seed), stops, n_stops);
        stop_free(&m);
    }
    assert_in_range(matches, 20, 199);
}

static void earliest_end_wins_then_longest(void **state)
{
    (void)state;
    const stop_string stops[] = {{"", 0}, {"cd", 2}, {"abcde", 5}, {"bcd", 3}, {"d", 1}};
    stop_matcher      m;
    assert_int_equal(stop_init(&m, stops, 5, false, NULL), WEIR_OK);
    stop_output o = stop_push(&m, "xabc", 4);
    assert_int_equal(o.n_held + o.n_piece, 1); /* "abc" may become "abcde" */
    assert_false(o.stopped);
    o = stop_push(&m, "def", 3);
    assert_true(o.stopped);
    assert_int_equal(o.which, 3);
    assert_int_equal(o.n_held, 1);
    assert_memory_equal(o.held, "a", 1);
    assert_int_equal(o.n_piece, 0);
    o = stop_push(&m, "more", 4);
    assert_true(o.stopped && o.n_held + o.n_piece == 0);
    stop_free(&m);
}

static void no_strings_hold_nothing_back(void **state)
{
    (void)state;
    const stop_string empty = {"", 0};
    stop_matcher      m;
    assert_int_equal(stop_init(&m, &empty, 1, false, NULL), WEIR_OK);
    const stop_output o = stop_push(&m, "abc", 3);
    assert_true(o.n_piece == 3 && o.n_held == 0 && !o.stopped);
    stop_free(&m);
    m = (stop_matcher){0};
    stop_free(&m);
}

static void limits_are_named(void **state)
{
    (void)state;
    static char  bytes[STOP_MAX_BYTES + 1];
    stop_string  stops[17];
    stop_matcher m;
    weir_error   err;
    for (int i = 0; i < 17; i++) stops[i] = (stop_string){bytes, STOP_MAX_BYTES};
    assert_int_equal(stop_init(&m, stops, 17, false, &err), WEIR_INVALID);
    assert_string_equal(err.text, "stop: expected at most 16 strings, found 17");
    stops[3].len = STOP_MAX_BYTES + 1;
    assert_int_equal(stop_init(&m, stops, 16, false, &err), WEIR_INVALID);
    assert_string_equal(err.text, "stop[3]: expected at most 1024 bytes, found 1025");
    stops[3].len = 1;
    assert_int_equal(stop_init(&m, stops, 16, false, &err), WEIR_OK);
    stop_free(&m);
    mem_fail_at(1);
    assert_int_equal(stop_init(&m, stops, 16, false, &err), WEIR_NO_MEMORY);
    mem_fail_at(0);
    stop_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_texts_in_all_cuts),
        cmocka_unit_test(long_texts_and_strings),
        cmocka_unit_test(earliest_end_wins_then_longest),
        cmocka_unit_test(no_strings_hold_nothing_back),
        cmocka_unit_test(limits_are_named),
    };
    return cmocka_run_group_tests_name("stop", tests, NULL, NULL);
}
