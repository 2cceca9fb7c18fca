/* The index against a search through the whole text. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "base/mem.h"
#include "engine/ngram.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 5000, MAX_DRAFT = 24 };

/* Length of the common tail of text[0..end) and text[0..n). */
static uint32_t common_tail(const uint32_t *text, uint32_t n, uint32_t end)
{
    uint32_t length = 0;
    while (length < end && text[end - 1 - length] == text[n - 1 - length]) length++;
    return length;
}

/* The definition: the longest common tail of 3 to 12 tokens, the most recent of
 * these; `candidates` bounds how many occurrences of the last 8 tokens, else of
 * the last 3, are looked at. */
static ngram_match search(const uint32_t *text, uint32_t n, uint32_t candidates)
{
    ngram_match best = {0};
    for (int pass = 0; pass < 2 && best.length == 0; pass++) {
        const uint32_t least = pass == 0 ? 8 : 3;
        uint32_t       seen  = 0;
        for (uint32_t end = n - (n > 0); end > 0 && seen < candidates; end--) {
            uint32_t length = common_tail(text, n, end);
            if (length < least) continue;
            if (length > 12) length = 12;
            seen++;
            if (length > best.length) best = (ngram_match){length, end};
        }
    }
    return best;
}

static void check(ngram_index *x, const uint32_t *text, uint32_t n, uint32_t candidates, uint32_t max)
{
    uint32_t          draft[MAX_DRAFT + 1];
    const ngram_match want = search(text, n, candidates), found = ngram_find(x);
    assert_int_equal(found.length, want.length);
    assert_int_equal(found.next, want.next);
    draft[max] = 0xABCDEF;
    assert_int_equal(ngram_draft(x, draft, max), want.length == 0 ? 0 : max);
    assert_int_equal(draft[max], 0xABCDEF);
    if (want.length == 0) return;
    /* Behind the end of the text stands the draft itself. */
    uint32_t *whole = malloc((n + max) * sizeof *whole);
    memcpy(whole, text, n * sizeof *whole);
    for (uint32_t i = 0; i < max; i++) whole[n + i] = whole[want.next + i];
    assert_memory_equal(draft, whole + n, max * sizeof *draft);
    free(whole);
}

/* Up to 64 tokens there are never more than 64 candidates: the plain definition. */
static void short_texts_find_the_longest_and_latest(void **state)
{
    (void)state;
    uint64_t seed       = 1;
    int      length[13] = {0};
    for (int round = 0; round < 2000; round++) {
        uint32_t       text[64];
        ngram_index    x;
        const uint32_t alphabet = 1 + rng_below(&seed, 5);
        assert_int_equal(ngram_init(&x, 64, NULL), WEIR_OK);
        check(&x, text, 0, UINT32_MAX, 3);
        for (uint32_t n = 0; n < 64;) {
            text[n] = rng_below(&seed, alphabet) * 50021;
            assert_true(ngram_push(&x, text[n++]));
            check(&x, text, n, UINT32_MAX, rng_below(&seed, 9));
            length[ngram_find(&x).length]++;
        }
        ngram_free(&x);
    }
    for (int i = 3; i <= 12; i++) assert_in_range(length[i], 100, 120000); /* all of them were seen */
}

/* A text with long repetitions and rare faults, as edited files have. */
static void write_text(uint32_t *text, uint32_t n, uint32_t alphabet, uint64_t *seed)
{
    for (uint32_t from = 0; from < n;) {
        uint32_t       run    = 1 + rng_below(seed, 40);
        const uint32_t source = rng_below(seed, from + 1);
        const bool     copy   = from > 0 && rng_below(seed, 3) > 0;
        for (uint32_t i = 0; i < run && from < n; i++, from++)
            text[from] = copy && rng_below(seed, 30) > 0 ? text[source + i] : rng_below(seed, alphabet);
    }
}

/* To the end, where the tables are fullest and slots collide; then nothing more goes in. */
static void long_texts(void **state)
{
    (void)state;
    static uint32_t text[MAX_TEXT];
    uint64_t        seed = 2;
    for (int round = 0; round < 120; round++) {
        const uint32_t alphabet = round % 4 == 3 ? 248320 : 2 + rng_below(&seed, 30),
                       size     = round == 0 ? MAX_TEXT : 100 + rng_below(&seed, 900);
        ngram_index x;
        assert_int_equal(ngram_init(&x, size, NULL), WEIR_OK);
        write_text(text, size, alphabet, &seed);
        for (uint32_t n = 0; n < size;) {
            assert_true(ngram_push(&x, text[n++]));
            if (n % 4 == 0 || n == size) check(&x, text, n, 64, 1 + rng_below(&seed, MAX_DRAFT));
        }
        assert_false(ngram_push(&x, 1));
        assert_int_equal(x.n, size);
        assert_memory_equal(x.tokens, text, size * sizeof *text);
        ngram_free(&x);
    }
}

/* Pushes and drafts 20000 tokens; the work of a token on the average, and the
 * most that one had. */
static void measure(uint32_t (*token)(uint32_t i, uint64_t *seed), uint64_t *mean, uint64_t *worst)
{
    enum { N = 20000 };
    uint64_t    seed = 4;
    uint32_t    draft[4];
    ngram_index x;
    *worst = 0;
    assert_int_equal(ngram_init(&x, N, NULL), WEIR_OK);
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t before = x.steps;
        assert_true(ngram_push(&x, token(i, &seed)));
        ngram_draft(&x, draft, 4);
        if (x.steps - before > *worst) *worst = x.steps - before;
    }
    *mean = x.steps / N;
    ngram_free(&x);
}

static uint32_t all_equal(uint32_t i, uint64_t *seed)
{
    (void)i, (void)seed;
    return 7;
}

static uint32_t all_different(uint32_t i, uint64_t *seed)
{
    (void)seed;
    return i;
}

static uint32_t binary(uint32_t i, uint64_t *seed)
{
    (void)i;
    return rng_below(seed, 2);
}

/* The same ten tokens over and over, each time behind another one: thousands of
 * occurrences, none as long as 12. */
static uint32_t near_misses(uint32_t i, uint64_t *seed)
{
    (void)seed;
    return i % 11 == 0 ? 100 + i : i % 11;
}

static uint32_t short_near_misses(uint32_t i, uint64_t *seed)
{
    (void)seed;
    return i % 4 == 0 ? 100 + i : i % 4;
}

static void the_work_of_a_token_is_bounded(void **state)
{
    (void)state;
    uint64_t mean, worst;
    measure(all_equal, &mean, &worst);
    assert_in_range(worst, 3, 32); /* the first candidate agrees as far as one can */
    measure(all_different, &mean, &worst);
    assert_in_range(mean, 2, 5); /* probes alone */
    assert_in_range(worst, 2, 2 * 64);
    measure(binary, &mean, &worst);
    assert_in_range(worst, 64, 64 * 6 + 2 * 64);
    measure(near_misses, &mean, &worst);
    assert_in_range(worst, 64, 64 * 6 + 2 * 64);
    assert_in_range(mean, 64, 64 * 6);
    measure(short_near_misses, &mean, &worst);
    assert_in_range(worst, 64, 64 * 6 + 2 * 64);
}

static void a_period_goes_on(void **state)
{
    (void)state;
    ngram_index x;
    uint32_t    draft[7];
    assert_int_equal(ngram_init(&x, 100, NULL), WEIR_OK);
    const uint32_t text[] = {9, 1, 2, 1, 2, 1, 2, 1}, want[] = {2, 1, 2, 1, 2, 1, 2};
    for (uint32_t i = 0; i < 5; i++) assert_true(ngram_push(&x, text[i]));
    assert_int_equal(ngram_draft(&x, draft, 7), 0); /* 2 1 2 was there never before */
    for (uint32_t i = 5; i < 8; i++) assert_true(ngram_push(&x, text[i]));
    const ngram_match match = ngram_find(&x); /* 1 2 1 2 1 ends at 6 too */
    assert_true(match.length == 5 && match.next == 6);
    assert_int_equal(ngram_draft(&x, draft, 7), 7);
    assert_memory_equal(draft, want, sizeof want);
    ngram_free(&x);
}

static void limits_are_named(void **state)
{
    (void)state;
    ngram_index x;
    weir_error  err;
    assert_int_equal(ngram_init(&x, 0, &err), WEIR_INVALID);
    assert_string_equal(err.text, "ngram: expected a capacity of 1 to 1073741824 tokens, found 0");
    assert_int_equal(ngram_init(&x, (1u << 30) + 1, &err), WEIR_INVALID);
    mem_fail_at(1);
    assert_int_equal(ngram_init(&x, 10, &err), WEIR_NO_MEMORY);
    mem_fail_at(0);
    ngram_free(&x);
    assert_true(ngram_bytes(1000) == 28000 && ngram_bytes(1u << 30) == (size_t)28 << 30);
    /* The smallest index: two tokens wait for a third that never fits. */
    assert_int_equal(ngram_init(&x, 1, &err), WEIR_OK);
    assert_true(ngram_push(&x, 5) && !ngram_push(&x, 5));
    assert_int_equal(ngram_find(&x).length, 0);
    ngram_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_texts_find_the_longest_and_latest),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(the_work_of_a_token_is_bounded),
        cmocka_unit_test(a_period_goes_on),
        cmocka_unit_test(limits_are_named),
    };
    return cmocka_run_group_tests_name("ngram", tests, NULL, NULL);
}
