/* tests/unit/state/test_prefix_value.c - which anchors are given up when there is
 * room for only some. */
#include "base/mem.h"
#include "made_sequences.h"
#include "support/cmocka.h"
#include "support/rng.h"

#include <string.h>

static world w;

/* Tokens of conversation `number`, which begin with `shared` of those of conversation 0. */
static void make_text(text *out, uint32_t number, uint32_t shared, uint32_t n)
{
    uint64_t seed = 0;
    out->n        = n;
    for (uint32_t i = 0; i < n; i++) {
        if (i == shared) seed = number;
        out->ids[i] = rng_below(&seed, 1000);
    }
}

/* Reads conversation x to `n` tokens and stores it there; says where it was found. */
static uint32_t turn(text *x, uint32_t n)
{
    const uint32_t all = x->n;
    x->n               = n;
    const uint32_t at  = world_read(&w, 0, x, n);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0);
    x->n = all;
    return at;
}

static uint32_t found(const text *x, uint32_t n)
{
    prefix_hit hit;
    prefix_tree_find(w.t, NULL, x->ids, n, &hit);
    return hit.length;
}

/* Positions of the anchors, ascending. */
static uint32_t positions(uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w.t->n_snapshots; i++) {
        if (w.t->anchors[i].at == NULL) continue;
        uint32_t j = n++;
        for (; j > 0 && out[j - 1] > w.t->anchors[i].at->end; j--) out[j] = out[j - 1];
        out[j] = w.t->anchors[i].at->end;
    }
    return n;
}

/* A conversation that rests for a few turns of another keeps its place, though each turn of the
 * other adds an anchor; one that rests for very long goes, though it would save much more. */
static void test_old_ones_go(void **given)
{
    (void)given;
    static text old, now;
    make_text(&old, 1, 0, 1000);
    make_text(&now, 2, 0, 2000);
    world_open(&w, 200, 4, false);
    (void)turn(&old, 1000);
    uint32_t n = 10, rested = 0;
    for (; n <= 100; n += 10) (void)turn(&now, n);
    assert_true(world_has(&w, &old));
    for (; n <= 2000 && world_has(&w, &old); n += 10) rested = n, (void)turn(&now, n);
    /* The other's smallest gap is its newest: 10 tokens with four anchors.  1000 tokens at half the
     * value every 32 ticks are worth that after 7 halvings or less, at two ticks a turn. */
    assert_true(rested / 10 > 32 && rested / 10 <= 7 * 32 / 2);
    assert_int_equal(found(&now, rested), rested);
    assert_int_equal(found(&old, 1000), 0);
    world_close(&w);
}

/* Of two conversations alike, the one used last stays, whichever was stored first. */
static void test_use_counts(void **given)
{
    (void)given;
    static text a, b, c;
    for (int which = 0; which < 2; which++) {
        make_text(&a, 1, 0, 500);
        make_text(&b, 2, 0, 500);
        make_text(&c, 3, 0, 500);
        world_open(&w, 200, 2, false);
        (void)turn(&a, 500);
        (void)turn(&b, 500);
        world_make(&w, 0, 500);
        prefix_hit hit;
        prefix_tree_find(w.t, NULL, which == 0 ? a.ids : b.ids, 500, &hit);
        assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[0]), 500);
        if (which == 1) { /* found alone is not used */
            prefix_tree_find(w.t, NULL, a.ids, 500, &hit);
            prefix_tree_find(w.t, NULL, a.ids, 500, &hit);
        }
        world_drop(&w, 0);
        (void)turn(&c, 500);
        assert_int_equal(world_has(&w, &a), which == 0);
        assert_int_equal(world_has(&w, &b), which == 1);
        assert_true(world_has(&w, &c));
        world_close(&w);
    }
}

/* However often somebody looks who waits, nothing is the older for it. */
static void test_looking_ages_nothing(void **given)
{
    (void)given;
    static text old, now;
    make_text(&old, 1, 0, 1000);
    make_text(&now, 2, 0, 30);
    world_open(&w, 200, 2, false);
    (void)turn(&old, 1000);
    (void)turn(&now, 10);
    for (int i = 0; i < 10000; i++) assert_int_equal(found(&old, 1000) + found(&now, 30), 1010);
    (void)turn(&now, 20); /* one of the two has to go: that which saves 10 tokens */
    assert_int_equal(found(&old, 1000), 1000);
    assert_int_equal(found(&now, 10), 0);
    world_close(&w);
}

/* One conversation, an anchor every 20 tokens, room for 8: at every length the gaps are near
 * those of 8 anchors spread evenly, from the beginning to the end. */
static void test_even_thinning(void **given)
{
    (void)given;
    enum { ROOM = 8, STEP = 20 };
    static text x;
    uint32_t    at[ROOM];
    make_text(&x, 1, 0, MOST_POSITIONS);
    world_open(&w, 200, ROOM, true);
    for (uint32_t n = STEP; n <= MOST_POSITIONS; n += STEP) {
        assert_int_equal(turn(&x, n), n - STEP);
        const uint32_t count = positions(at);
        assert_int_equal(count, n / STEP < ROOM ? n / STEP : ROOM);
        assert_int_equal(at[count - 1], n);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t gap = at[i] - (i == 0 ? 0 : at[i - 1]);
            if (gap > 2 * n / count + STEP) fail_msg("a gap of %u before %u with %u tokens", gap, at[i], n);
        }
        world_audit(&w);
    }
    world_close(&w);
}

/* The end of a system prompt that many share outlives all of them, though each saves more alone. */
static void test_shared_prompt_stays(void **given)
{
    (void)given;
    enum { SYSTEM = 400, TURN = 700 };
    static text x;
    world_open(&w, 400, 6, false);
    for (uint32_t i = 1; i <= 60; i++) {
        make_text(&x, i, SYSTEM, SYSTEM + TURN);
        if (i == 1) (void)turn(&x, SYSTEM);
        assert_int_equal(found(&x, SYSTEM + TURN), SYSTEM);
        assert_int_equal(turn(&x, SYSTEM + TURN), SYSTEM);
        world_audit(&w);
    }
    /* When nobody has shared it for long, it goes as all others do. */
    for (uint32_t n = 100; n <= 2000; n += 10) {
        make_text(&x, 99, 0, 2000);
        (void)turn(&x, n);
    }
    make_text(&x, 1, SYSTEM, SYSTEM + TURN);
    assert_int_equal(found(&x, SYSTEM), 0);
    world_close(&w);
}

/* An anchor that lies between two makes the deeper one save less, and gives it back when it goes. */
static void test_anchor_between(void **given)
{
    (void)given;
    static text a, b;
    make_text(&a, 1, 0, 600);
    make_text(&b, 2, 0, 400);
    world_open(&w, 200, 3, false);
    (void)turn(&a, 600);
    world_make(&w, 0, 500); /* read without the tree, as after a change of mind */
    world_run(&w, 0, a.ids, 500);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0);
    world_audit(&w);
    (void)turn(&b, 400);
    (void)turn(&b, 390); /* of 600 - 500, 500, 400 and now 10 below it, the least was 600's */
    uint32_t at[3];
    assert_int_equal(positions(at), 3);
    assert_int_equal(at[0], 390);
    assert_int_equal(at[1], 400);
    assert_int_equal(at[2], 500);
    (void)turn(&a, 600); /* for which 400 goes: it saves 10 */
    assert_int_equal(positions(at), 3);
    assert_int_equal(at[0], 390);
    assert_int_equal(at[1], 500);
    assert_int_equal(at[2], 600);
    world_close(&w);
}

/* ---- when pages are short ---- */

/* Takes one page more than are free, and gives all back; false when there was none. */
static bool run_dry(void)
{
    static uint32_t taken[MOST_PAGES];
    uint32_t        n = 0;
    while (w.s->n_free_pages > 0) taken[n++] = page_take(w.s, 0);
    const uint32_t last = page_take(w.s, 0);
    if (last != UINT32_MAX) taken[n++] = last;
    while (n > 0) page_release(w.s, taken[--n]);
    return last != UINT32_MAX;
}

/* Only anchors that keep pages go: those at the end of a branch, and not one whose
 * page another block holds, too.  Each token costs as many pages, so the age decides. */
static void test_branches_give_pages(void **given)
{
    (void)given;
    static const uint32_t turns[] = {256, 320, 768, 1024};
    static const struct {
        uint32_t gone, pages;
    } order[] = {{1024, 20}, {768, 13}, {320, 12}, {256, 8}, {512, 0}};
    static text a, b;
    uint32_t    at[10];
    make_text(&a, 1, 0, 1024);
    make_text(&b, 2, 0, 512);
    world_open(&w, 64, 10, false);
    for (uint32_t i = 0; i < 4; i++) (void)turn(&a, turns[i]);
    (void)turn(&b, 512);
    assert_int_equal(prefix_tree_stats(w.t).page_bytes, 24 * state_page_bytes(&w.s->limits));
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(run_dry());
        assert_int_equal(positions(at), 4 - i);
        for (uint32_t j = 0; j < 4 - i; j++) assert_int_not_equal(at[j], order[i].gone);
        assert_int_equal(prefix_tree_stats(w.t).page_bytes, order[i].pages * state_page_bytes(&w.s->limits));
        world_audit(&w);
    }
    assert_false(run_dry());
    world_close(&w);
}

/* Of two, `first` goes when a page is wanted. */
static void goes_first(const text *first, const text *second)
{
    assert_true(world_has(&w, first) && world_has(&w, second));
    assert_true(run_dry());
    assert_false(world_has(&w, first));
    assert_true(world_has(&w, second));
    world_audit(&w);
    world_close(&w);
}

/* A long conversation saves more, and costs as many pages more: the older goes. */
static void test_long_ones_cost_more(void **given)
{
    (void)given;
    static text a, b, c;
    make_text(&a, 1, 0, 1000);
    make_text(&b, 2, 0, 128);
    make_text(&c, 3, 0, 128);
    world_open(&w, 64, 2, false);
    (void)turn(&a, 1000);
    (void)turn(&b, 128);
    goes_first(&a, &b);
    world_open(&w, 64, 2, false);
    (void)turn(&a, 1000);
    (void)turn(&b, 128);
    (void)turn(&c, 128); /* a snapshot is a snapshot */
    assert_true(world_has(&w, &a));
    assert_false(world_has(&w, &b));
    world_close(&w);
}

/* What two branches share is free when both are gone, so it is no cost of one of them. */
static void test_shared_pages_are_no_cost(void **given)
{
    (void)given;
    static text a, b, c;
    make_text(&a, 1, 1024, 1152);
    make_text(&b, 2, 1024, 1152);
    make_text(&c, 3, 0, 256);
    world_open(&w, 64, 3, false);
    (void)turn(&a, 1152);
    (void)turn(&b, 1152); /* reads the 1024 itself: there is no anchor */
    (void)turn(&c, 256);
    assert_true(world_has(&w, &b));
    goes_first(&c, &a);

    /* And what is before an anchor stays with that. */
    world_open(&w, 64, 3, false);
    (void)turn(&c, 256);
    (void)turn(&a, 1024);
    (void)turn(&a, 1152);
    goes_first(&c, &a);
}

/* Two anchors in one page do not protect each other: the older conversation goes. */
static void test_two_in_a_page(void **given)
{
    (void)given;
    static text a, b;
    make_text(&a, 1, 0, 310);
    make_text(&b, 2, 0, 256);
    world_open(&w, 64, 4, false);
    world_make(&w, 0, 310);
    world_run(&w, 0, a.ids, 300);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_run(&w, 0, a.ids + 300, 10);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0);
    assert_int_equal(prefix_tree_stats(w.t).page_bytes, 5 * state_page_bytes(&w.s->limits));
    (void)turn(&b, 256);
    goes_first(&a, &b);
}

/* What a running sequence holds, too, would free nothing: another goes, though it is worth more. */
static void test_running_ones_stay(void **given)
{
    (void)given;
    static text a, b;
    make_text(&a, 1, 0, 20);
    make_text(&b, 2, 0, 1000);
    world_open(&w, 64, 4, true);
    assert_int_equal(world_read(&w, 1, &a, 256), 0);
    prefix_tree_store(w.t, NULL, w.q[1]); /* and runs on */
    (void)turn(&b, 1000);
    assert_true(run_dry());
    assert_true(world_has(&w, &a));
    assert_false(world_has(&w, &b));
    assert_false(run_dry()); /* given up though it helps nobody, for there was nothing else */
    assert_int_equal(prefix_tree_stats(w.t).anchors, 0);
    world_check(&w, 1);
    world_close(&w);
}

/* A pool full of old conversations gives each its turn: the longest unused first. */
static void test_oldest_pages_first(void **given)
{
    (void)given;
    static text x[8];
    world_open(&w, 32, 20, false);
    for (uint32_t i = 0; i < 8; i++) {
        make_text(&x[i], i + 1, 0, 256);
        (void)turn(&x[i], 256);
    }
    assert_int_equal(w.s->n_free_pages, 0);
    (void)turn(&x[2], 256); /* needs its own copy of one page: the oldest goes for it */
    assert_false(world_has(&w, &x[0]));
    static const uint32_t order[] = {1, 3, 4, 5, 6, 7, 2};
    for (uint32_t i = 0; i < 7; i++) {
        for (uint32_t j = i; j < 7; j++) assert_true(world_has(&w, &x[order[j]]));
        assert_true(run_dry());
        assert_false(world_has(&w, &x[order[i]]));
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_old_ones_go),
                                       cmocka_unit_test(test_use_counts),
                                       cmocka_unit_test(test_looking_ages_nothing),
                                       cmocka_unit_test(test_even_thinning),
                                       cmocka_unit_test(test_shared_prompt_stays),
                                       cmocka_unit_test(test_anchor_between),
                                       cmocka_unit_test(test_branches_give_pages),
                                       cmocka_unit_test(test_running_ones_stay),
                                       cmocka_unit_test(test_two_in_a_page),
                                       cmocka_unit_test(test_long_ones_cost_more),
                                       cmocka_unit_test(test_shared_pages_are_no_cost),
                                       cmocka_unit_test(test_oldest_pages_first)};
    return cmocka_run_group_tests_name("prefix_value", tests, NULL, NULL);
}
