/* tests/unit/state/test_prefix_tree.c - what the tree finds is what comparing with
 * everything stored finds, and what it hands out has the bytes of its tokens. */
#include "base/mem.h"
#include "made_sequences.h"
#include "support/cmocka.h"
#include "support/rng.h"

#include <string.h>

enum { LONGEST = 1500, MOST_TEXTS = 400 };

static text  texts[MOST_TEXTS]; /* stored, as far as the test knows */
static world w;

static void random_ids(uint64_t *seed, uint32_t *ids, uint32_t n, uint32_t kinds)
{
    for (uint32_t i = 0; i < n; i++) ids[i] = 7 + rng_below(seed, kinds);
}

static text *made(uint64_t seed, uint32_t n)
{
    text *x = mem_alloc(1, sizeof *x);
    assert_non_null(x);
    x->n = n;
    random_ids(&seed, x->ids, MOST_POSITIONS, 1000);
    return x;
}

/* ---- against a list ---- */

static uint32_t common(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static void check_find(const uint32_t *ids, uint32_t n, uint32_t n_texts)
{
    uint32_t   matched = 0, length = 0;
    prefix_hit hit;
    for (uint32_t i = 0; i < n_texts; i++) {
        const uint32_t m = common(texts[i].ids, ids, n < texts[i].n ? n : texts[i].n);
        if (m > matched) matched = m;
        if (m == texts[i].n && m > length) length = m;
    }
    prefix_tree_find(w.t, NULL, ids, n, &hit);
    assert_int_equal(hit.matched, matched);
    assert_int_equal(hit.length, length);
    assert_int_equal(hit.anchor != NULL, length > 0);
    bool other = hit.other == UINT32_MAX;
    for (uint32_t i = 0; i < n_texts; i++) { /* one of those that go on is told, and none only if none does */
        if (texts[i].n <= matched || common(texts[i].ids, ids, matched) < matched) continue;
        if (hit.other == UINT32_MAX) fail_msg("%u goes on", i);
        other |= texts[i].ids[matched] == hit.other;
    }
    assert_true(other);
}

/* A length near the borders of blocks and pages more often than not. */
static uint32_t random_length(uint64_t *seed, uint32_t most)
{
    uint32_t n = rng_below(seed, most) + 1;
    if (rng_below(seed, 2) == 0) n = n / K_PAGE * K_PAGE + rng_below(seed, 3);
    if (rng_below(seed, 3) == 0) n = n / PREFIX_BLOCK * PREFIX_BLOCK + rng_below(seed, 3);
    return n < 1 ? 1 : n > most ? most : n;
}

/* Begins like a stored one, mostly. */
static void random_text(uint64_t *seed, text *out, uint32_t n_texts)
{
    uint32_t at = 0;
    out->n      = random_length(seed, LONGEST);
    if (n_texts > 0 && rng_below(seed, 8) > 0) {
        const text *x = &texts[rng_below(seed, n_texts)];
        at            = random_length(seed, LONGEST);
        if (at > x->n) at = x->n;
        memcpy(out->ids, x->ids, at * sizeof *out->ids);
        if (out->n <= at) out->n = at + 1;
    }
    random_ids(seed, out->ids + at, out->n - at, 2 + rng_below(seed, 2));
}

static void note(uint32_t *n_texts, const sequence *q)
{
    text *x = &texts[*n_texts];
    x->n    = sequence_length(q);
    memcpy(x->ids, sequence_tokens(q), x->n * sizeof *x->ids);
    for (uint32_t i = 0; i < *n_texts; i++)
        if (texts[i].n == x->n && memcmp(texts[i].ids, x->ids, x->n * sizeof *x->ids) == 0) return;
    ++*n_texts;
}

/* Reads sequence i on to the end of the text, storing on the way. */
static void read_on(uint64_t *seed, int i, const text *x, uint32_t *n_texts)
{
    while (sequence_length(w.q[i]) < x->n) {
        const uint32_t at = sequence_length(w.q[i]), left = x->n - at;
        const uint32_t n = rng_below(seed, 3) > 0 ? left : random_length(seed, left);
        world_run(&w, i, x->ids + at, n);
        if (rng_below(seed, 4) == 0 && at + n < x->n) continue;
        prefix_tree_store(w.t, NULL, w.q[i]);
        note(n_texts, w.q[i]);
        assert_int_equal(prefix_tree_stats(w.t).anchors, *n_texts);
    }
}

/* Everything fits, so everything stored is found. */
static void run_roomy(bool carry, uint64_t seed)
{
    static text x;
    uint32_t    n_texts = 0;
    world_open(&w, MOST_PAGES, MOST_TEXTS, carry);
    for (int round = 0; round < 120; round++) {
        const int i = (int)rng_below(&seed, MOST_SEQUENCES);
        world_drop(&w, i);
        random_text(&seed, &x, n_texts);
        check_find(x.ids, x.n, n_texts);
        check_find(x.ids, x.n - 1, n_texts);
        world_read(&w, i, &x, 0);
        world_check(&w, i);
        prefix_tree_store(w.t, NULL, w.q[i]);
        note(&n_texts, w.q[i]);
        random_text(&seed, &x, n_texts); /* and it goes on from there, while others may share it */
        const uint32_t at = sequence_length(w.q[i]);
        if (at + x.n > MOST_POSITIONS) x.n = MOST_POSITIONS - at;
        memmove(x.ids + at, x.ids, x.n * sizeof *x.ids);
        memcpy(x.ids, sequence_tokens(w.q[i]), at * sizeof *x.ids);
        x.n += at;
        if (rng_below(&seed, 2) == 0) read_on(&seed, i, &x, &n_texts);
        for (int j = 0; j < MOST_SEQUENCES; j++)
            if (w.q[j] != NULL) world_check(&w, j);
        if (round % 16 == 0) world_audit(&w);
    }
    assert_true(n_texts > 150);
    for (uint32_t i = 0; i < n_texts; i++) check_find(texts[i].ids, texts[i].n, n_texts);
    world_close(&w);
}

static void test_roomy(void **given)
{
    (void)given;
    run_roomy(false, 1);
    run_roomy(true, 2);
}

/* ---- too little of everything ---- */

/* Few pages and snapshots: promises hold, and what is left of the tree is sound. */
static void run_tight(bool carry, uint32_t pages, uint32_t snapshots, uint64_t seed)
{
    static text x;
    uint32_t    n_texts = 0, hits = 0, refused = 0;
    world_open(&w, pages, snapshots, carry);
    for (int round = 0; round < 250; round++) {
        const int i = (int)rng_below(&seed, 3);
        world_drop(&w, i);
        n_texts = world_texts(&w, texts);
        random_text(&seed, &x, n_texts);
        check_find(x.ids, x.n, n_texts);
        const uint32_t free = state_free_positions(w.s), most = free < MOST_POSITIONS ? free : MOST_POSITIONS;
        if (x.n > most) {
            refused++;
            continue;
        }
        hits += world_read(&w, i, &x, x.n + rng_below(&seed, most - x.n + 1)) > 0;
        prefix_tree_store(w.t, NULL, w.q[i]);
        if (snapshots > 0) assert_true(world_has(&w, &x));
        /* As far as its promise goes; when it is the last with a promise, that is all pages. */
        uint32_t more = rng_below(&seed, 3) == 0 ? sequence_room(w.q[i]) : 0;
        if (x.n + more > LONGEST) more = LONGEST > x.n ? LONGEST - x.n : 0;
        random_ids(&seed, x.ids + x.n, more, 2);
        if (more > 0) world_run(&w, i, x.ids + x.n, more);
        for (int j = 0; j < 3; j++)
            if (w.q[j] != NULL) world_check(&w, j);
        world_audit(&w);
    }
    assert_true(snapshots < 4 || hits > 50);
    assert_true(refused < 150);
    world_close(&w);
}

static void test_tight(void **given)
{
    (void)given;
    run_tight(false, 40, 12, 3); /* pages run out first */
    run_tight(true, 40, 12, 4);
    run_tight(false, 200, 6, 5); /* snapshots do */
    run_tight(true, 200, 6, 6);
    run_tight(true, 60, 1, 7);
    run_tight(false, 60, 0, 8);
}

/* ---- single cases ---- */

static prefix_hit found(const text *x, uint32_t n)
{
    prefix_hit hit;
    prefix_tree_find(w.t, NULL, x->ids, n, &hit);
    return hit;
}

/* Short prompts, sent twice, leave one token to read. */
static void test_twice(void **given)
{
    (void)given;
    static const uint32_t lengths[] = {1, 2, 5, 63, 64, 65, 255, 256, 257, 511, 512, 513};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        text *x = made(50 + i, lengths[i] + 1);
        world_open(&w, 64, 4, i % 2 == 0);
        assert_int_equal(world_read(&w, 0, x, 0), 0);
        sequence_reset(w.q[0]);
        world_run(&w, 0, x->ids, lengths[i]);
        prefix_tree_store(w.t, NULL, w.q[0]);
        assert_int_equal(prefix_tree_stats(w.t).blocks, (lengths[i] + PREFIX_BLOCK - 1) / PREFIX_BLOCK);
        assert_int_equal(world_read(&w, 1, x, 0), lengths[i]);
        world_check(&w, 1);
        world_check(&w, 0);
        x->ids[lengths[i] - 1]++; /* the last stored token is another */
        const prefix_hit hit = found(x, x->n);
        assert_int_equal(hit.matched, lengths[i] - 1);
        assert_int_equal(hit.length, 0);
        world_close(&w);
        mem_free(x);
    }
}

static void test_nothing_to_store(void **given)
{
    (void)given;
    text *x = made(1, 300);
    world_open(&w, 64, 4, false);
    world_make(&w, 0, 0);
    prefix_tree_store(w.t, NULL, w.q[0]);
    assert_int_equal(prefix_tree_stats(w.t).anchors, 0);
    assert_int_equal(found(x, 0).matched, 0);
    const prefix_hit none = found(x, 300);
    assert_int_equal(none.matched, 0);
    assert_int_equal(prefix_tree_adopt(w.t, &none, w.q[0]), 0);
    world_close(&w);
    mem_free(x);
}

/* A block that is known keeps its pages; what is stored again takes nothing. */
static void test_first_pages_stay(void **given)
{
    (void)given;
    text *x = made(2, 600);
    world_open(&w, 64, 4, false);
    for (int i = 0; i < 2; i++) { /* both read everything themselves */
        world_make(&w, i, 0);
        world_run(&w, i, x->ids, 600);
    }
    prefix_tree_store(w.t, NULL, w.q[0]);
    const prefix_stats before = prefix_tree_stats(w.t);
    assert_int_equal(before.page_bytes, 10 * state_page_bytes(&w.s->limits));
    prefix_tree_store(w.t, NULL, w.q[1]);
    const prefix_stats after = prefix_tree_stats(w.t);
    assert_memory_equal(&after, &before, sizeof after);
    world_run(&w, 1, x->ids + 600, 100);
    prefix_tree_store(w.t, NULL, w.q[1]);
    /* 512..600 stays beside 512..700, the pages of which are the second's. */
    assert_int_equal(prefix_tree_stats(w.t).page_bytes, 13 * state_page_bytes(&w.s->limits));
    for (uint32_t i = 0; i < 11; i++) assert_int_equal(w.t->holds[sequence_pages(w.q[1])[i]], i < 8 ? 0 : 1);
    world_audit(&w);
    world_close(&w);
    mem_free(x);
}

/* Adopting consumes nothing, however many do and whatever they write then. */
static void test_many_adopt(void **given)
{
    (void)given;
    text *x = made(3, 401), *y = made(4, 700);
    world_open(&w, 200, 4, true);
    world_make(&w, 0, 0);
    world_run(&w, 0, x->ids, 400);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0);
    for (int i = 0; i < 5; i++) {
        x->ids[400] = (uint32_t)i;
        assert_int_equal(world_read(&w, i, x, 640), 400);
        world_run(&w, i, y->ids + 10 * i, 200);
    }
    for (int i = 0; i < 5; i++) world_check(&w, i);
    for (int i = 0; i < 5; i++) /* six full pages and the own copy of the seventh */
        for (int j = 0; j < i; j++)
            for (uint32_t p = 0; p < 10; p++)
                assert_int_equal(sequence_pages(w.q[i])[p] == sequence_pages(w.q[j])[p], p < 6);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* A hit whose anchor is gone, or which does not fit, leaves the sequence empty. */
static void test_adopt_refused(void **given)
{
    (void)given;
    text *x = made(5, 300), *y = made(6, 300);
    world_open(&w, 64, 1, false);
    world_make(&w, 0, 300);
    world_run(&w, 0, x->ids, 300);
    prefix_tree_store(w.t, NULL, w.q[0]);
    const prefix_hit hit = found(x, 300);
    assert_int_equal(hit.length, 300);
    world_make(&w, 1, 256);
    assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[1]), 0);
    assert_int_equal(sequence_length(w.q[1]), 0);
    world_drop(&w, 1);
    world_make(&w, 1, 300);
    assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[1]), 300);
    world_make(&w, 2, 300);
    world_run(&w, 2, y->ids, 300);
    prefix_tree_store(w.t, NULL, w.q[2]); /* in the same snapshot */
    assert_ptr_equal(found(y, 300).anchor, hit.anchor);
    sequence_reset(w.q[1]);
    assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[1]), 0);
    assert_int_equal(sequence_length(w.q[1]), 0);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* Stores a text with sequence 0 and forgets the sequence. */
static void store(const text *x)
{
    world_make(&w, 0, x->n);
    world_run(&w, 0, x->ids, x->n);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0);
}

/* The copy that an adopter needs is made room for elsewhere, though this anchor is worth
 * less and giving it up would do. */
static void test_adopt_when_dry(void **given)
{
    (void)given;
    text *x = made(7, 5), *y = made(8, 320);
    world_open(&w, 10, 4, false);
    store(x);
    y->n = 256;
    store(y);
    world_make(&w, 1, 320);
    world_run(&w, 1, y->ids, 300);        /* in pages of its own */
    prefix_tree_store(w.t, NULL, w.q[1]); /* of which the tree needs the fifth alone */
    assert_int_equal(w.s->n_free_pages, 0);
    const prefix_hit hit = found(x, 5);
    world_make(&w, 0, 192);
    assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[0]), 5);
    assert_true(world_has(&w, x));
    assert_int_equal(prefix_tree_stats(w.t).anchors, 1); /* 300, which frees nothing, went to come to 256 */
    world_run(&w, 0, y->ids, 187);                       /* the whole promise */
    world_check(&w, 0);
    world_check(&w, 1);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* No page but the anchor's own: it is the adopter's from now on. */
static void test_adopt_the_last_page(void **given)
{
    (void)given;
    text *x = made(7, 300), *y = made(9, 192);
    world_open(&w, 8, 4, false);
    x->n = 250;
    store(x);
    x->n = 300;
    world_read(&w, 0, x, 300);
    prefix_tree_store(w.t, NULL, w.q[0]);
    world_drop(&w, 0); /* anchors at 250 and 300; 6 pages: the fourth twice */
    assert_int_equal(w.s->n_free_pages, 2);
    world_make(&w, 1, 128);
    world_run(&w, 1, y->ids, 128);
    world_make(&w, 0, 384);
    const prefix_hit hit = found(x, 300);
    assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[0]), 300);
    assert_int_equal(prefix_tree_stats(w.t).anchors, 1); /* the shorter went for the copy */
    assert_true(world_has(&w, x));
    world_check(&w, 0);
    world_run(&w, 0, y->ids, 84); /* and this one for the sixth page */
    assert_int_equal(prefix_tree_stats(w.t).anchors, 0);
    world_check(&w, 0);
    world_audit(&w);
    assert_int_equal(sequence_room(w.q[0]), 0);
    world_close(&w);

    world_open(&w, 4, 4, false);
    x->n = 100;
    store(x);
    world_make(&w, 1, 128);
    world_run(&w, 1, y->ids, 128);
    world_make(&w, 0, 128);
    const prefix_hit last = found(x, 100);
    assert_int_equal(prefix_tree_adopt(w.t, &last, w.q[0]), 100);
    assert_int_equal(prefix_tree_stats(w.t).anchors, 0);
    world_check(&w, 0);
    world_run(&w, 0, y->ids, 28);
    world_check(&w, 0);
    world_close(&w);
    mem_free(x);
    mem_free(y);
}

/* ---- memory ---- */

/* Should the blocks be used up after all, nothing is stored and nothing is left behind. */
static void test_no_blocks(void **given)
{
    (void)given;
    text *x = made(10, 1000);
    world_open(&w, 64, 2, false);
    world_make(&w, 0, 0);
    world_run(&w, 0, x->ids, 600);
    prefix_tree_store(w.t, NULL, w.q[0]);
    const uint32_t n_nodes = w.t->n_nodes;
    w.t->n_nodes           = w.t->fresh + 1; /* of the two that are wanted */
    world_run(&w, 0, x->ids + 600, 400);
    prefix_tree_store(w.t, NULL, w.q[0]);
    assert_int_equal(prefix_tree_stats(w.t).anchors, 1);
    assert_int_equal(prefix_tree_stats(w.t).blocks, 3);
    world_audit(&w);
    w.t->n_nodes = n_nodes;
    prefix_tree_store(w.t, NULL, w.q[0]);
    assert_int_equal(prefix_tree_stats(w.t).anchors, 2);
    assert_int_equal(prefix_tree_stats(w.t).blocks, 5);
    world_close(&w);
    mem_free(x);
}

/* The number of blocks that are taken in advance is enough: branches that share all but a page. */
static void test_blocks_suffice(void **given)
{
    (void)given;
    enum { BRANCHES = 40 };
    static uint8_t saved[64];
    text          *x = made(11, 256);
    world_open(&w, 3 + BRANCHES + 1, BRANCHES, false);
    world_make(&w, 0, 256);
    world_run(&w, 0, x->ids, 192);
    sequence_save(w.q[0], saved);
    for (uint32_t i = 0; i < BRANCHES; i++) {
        x->ids[200] = i;
        world_run(&w, 0, x->ids + 192, 64);
        prefix_tree_store(w.t, NULL, w.q[0]);
        sequence_restore(w.q[0], 192, saved);
    }
    assert_int_equal(prefix_tree_stats(w.t).blocks, BRANCHES);
    assert_int_equal(prefix_tree_stats(w.t).page_bytes, (3 + BRANCHES) * state_page_bytes(&w.s->limits));
    world_audit(&w);
    world_close(&w);
    mem_free(x);
}

static void test_bytes(void **given)
{
    (void)given;
    prefix_tree *t;
    world_open(&w, 64, 0, true);
    const uint64_t none = prefix_tree_bytes(&w.s->limits, 0, 0), one = prefix_tree_bytes(&w.s->limits, 1, 0);
    assert_int_equal(none, sizeof *w.t + 64 / 4 * sizeof(prefix_node) + (64 + MOST_POSITIONS + 32) * sizeof(uint32_t));
    assert_int_equal(one - none, 2 * sizeof(prefix_node) + sizeof(prefix_anchor) + state_size(w.s));
    assert_int_equal(prefix_tree_bytes(&w.s->limits, 100, 0) - none, 100 * (one - none));
    assert_int_equal(prefix_tree_new(&t, w.s, UINT32_MAX, &w.err), WEIR_INVALID);
    assert_null(t);
    world_close(&w);
}

/* Making a tree may fail anywhere; using it allocates nothing. */
static void test_no_memory(void **given)
{
    (void)given;
    text *x = made(12, 700);
    world_open(&w, 64, 2, false);
    for (uint64_t n = 1;; n++) {
        prefix_tree *t;
        mem_fail_at(n);
        const weir_status st = prefix_tree_new(&t, w.s, 3, &w.err);
        mem_fail_at(0);
        assert_ptr_equal(w.s->reclaim_user, st == WEIR_OK ? t : w.t); /* a failure changes nothing */
        if (st == WEIR_OK) {
            prefix_tree_free(t);
            assert_int_equal(n, 8);
            break;
        }
        assert_null(t);
        assert_int_equal(st, WEIR_NO_MEMORY);
    }
    state_on_dry(w.s, anchor_reclaim, w.t);
    world_make(&w, 0, 0);
    world_run(&w, 0, x->ids, 700);
    world_make(&w, 1, 0);
    const uint64_t before = mem_count();
    for (uint32_t i = 0; i < 5; i++) {
        prefix_tree_store(w.t, NULL, w.q[0]);
        const prefix_hit hit = found(x, 700 + i);
        assert_int_equal(prefix_tree_adopt(w.t, &hit, w.q[1]), 700 + i);
        world_run(&w, 0, x->ids, 1);
        sequence_reset(w.q[1]);
        x->ids[700 + i] = x->ids[0];
    }
    assert_int_equal(mem_count(), before);
    world_close(&w);
    mem_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_roomy),
                                       cmocka_unit_test(test_tight),
                                       cmocka_unit_test(test_twice),
                                       cmocka_unit_test(test_nothing_to_store),
                                       cmocka_unit_test(test_first_pages_stay),
                                       cmocka_unit_test(test_many_adopt),
                                       cmocka_unit_test(test_adopt_refused),
                                       cmocka_unit_test(test_adopt_when_dry),
                                       cmocka_unit_test(test_adopt_the_last_page),
                                       cmocka_unit_test(test_no_blocks),
                                       cmocka_unit_test(test_blocks_suffice),
                                       cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests_name("prefix_tree", tests, NULL, NULL);
}
