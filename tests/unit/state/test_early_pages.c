/* state/: pages of two kinds.  The first pages of every sequence hold bfloat16, and
 * are a pool of their own beside those with codes. */
#include "kernels/open.h"
#include "state/state_parts.h"
#include "support/cmocka.h"

#include <string.h>

/* Rows of 32 numbers: 64 bytes in bfloat16, 36 and 20 in codes of 8 and 4 bits. */
enum { EARLY = 4, SEQUENCES = 2, LATE = 6, PAGES = SEQUENCES * EARLY + LATE, POSITIONS = 7 * K_PAGE };
enum { BF16_PART = K_PAGE * 64, EARLY_BYTES = 4 * BF16_PART, LATE_BYTES = 2 * BF16_PART + K_PAGE * (36 + 20) };

static const k_kv_layer   forms[] = {{{K_KV_BF16, 0}, {K_KV_BF16, 0}}, {{K_KV_AFFINE8, 32}, {K_KV_AFFINE4, 32}}};
static const state_limits limits  = {.delta_layers     = 1,
                                     .attention_layers = 2,
                                     .tail_bytes       = 8,
                                     .recurrent_bytes  = 8,
                                     .kv_heads         = 1,
                                     .head_dim         = 32,
                                     .kv               = forms,
                                     .max_sequences    = SEQUENCES,
                                     .max_positions    = POSITIONS,
                                     .pages            = PAGES,
                                     .early            = EARLY,
                                     .early_pages      = SEQUENCES * EARLY};

typedef struct rig {
    kernels   *k;
    state     *s;
    weir_error err;
} rig;

static void ok(const rig *r, weir_status st)
{
    if (st != WEIR_OK) fail_msg("%s", r->err.text);
}

static int open_rig(void **given)
{
    static rig r;
    ok(&r, kernels_open(&r.k, "cpu", 1, "scalar", &r.err));
    ok(&r, state_new(&r.s, r.k, &limits, &r.err));
    *given = &r;
    return 0;
}

static int close_rig(void **given)
{
    rig *r = *given;
    assert_int_equal(r->s->n_free_pages, LATE); /* nothing got lost, */
    assert_int_equal(r->s->n_free_early, SEQUENCES * EARLY);
    for (uint32_t i = 0; i < LATE; i++) assert_true(r->s->free_pages[i] >= SEQUENCES * EARLY); /* or changed sides */
    for (uint32_t i = 0; i < SEQUENCES * EARLY; i++) assert_true(r->s->free_early[i] < SEQUENCES * EARLY);
    assert_int_equal(r->s->n_promised, 0);
    state_free(r->s);
    r->k->close(r->k);
    return 0;
}

static sequence *grown(rig *r, uint32_t promise, uint32_t n)
{
    static const uint32_t ids[POSITIONS];
    sequence             *q;
    k_span                span;
    ok(r, sequence_new(&q, r->s, promise, &r->err));
    ok(r, sequence_span(q, ids, n, 0, &span, &r->err));
    sequence_commit(q, n);
    return q;
}

static void fill(rig *r, uint32_t page, uint32_t index, uint8_t byte)
{
    uint8_t all[EARLY_BYTES];
    memset(all, byte, state_page_bytes_at(&limits, index));
    page_write(r->s, page, all);
}

static void check_fill(rig *r, uint32_t page, uint32_t index, uint8_t byte)
{
    uint8_t        all[EARLY_BYTES + 1];
    const uint64_t n = state_page_bytes_at(&limits, index);
    all[n]           = 0xEE;
    page_read(r->s, page, all);
    for (uint64_t i = 0; i < n; i++) assert_int_equal(all[i], byte);
    assert_int_equal(all[n], 0xEE);
}

static void test_sizes(void **given)
{
    (void)given;
    assert_int_equal(state_page_bytes_at(&limits, 0), EARLY_BYTES);
    assert_int_equal(state_page_bytes_at(&limits, EARLY - 1), EARLY_BYTES);
    assert_int_equal(state_page_bytes_at(&limits, EARLY), LATE_BYTES);
    assert_int_equal(state_page_bytes(&limits), LATE_BYTES);
    assert_int_equal(state_kv_bytes_per_position(&limits), LATE_BYTES / K_PAGE);
}

/* Every page of the pool holds what was put there, whatever is put into the others. */
static void test_apart(void **given)
{
    rig     *r = *given;
    uint32_t page[PAGES], index[PAGES];
    for (uint32_t i = 0; i < PAGES; i++) {
        index[i] = i < SEQUENCES * EARLY ? i % EARLY : EARLY + i;
        page[i]  = page_take(r->s, index[i]);
        assert_int_not_equal(page[i], UINT32_MAX);
        check_fill(r, page[i], index[i], 0);
        fill(r, page[i], index[i], (uint8_t)(i + 1));
    }
    assert_int_equal(page_take(r->s, 0), UINT32_MAX);
    assert_int_equal(page_take(r->s, EARLY), UINT32_MAX);
    for (uint32_t i = 0; i < PAGES; i++) check_fill(r, page[i], index[i], (uint8_t)(i + 1));
    for (uint32_t i = 0; i < PAGES; i++) page_release(r->s, page[i]);
    const uint32_t again = page_take(r->s, EARLY); /* and is zeroed, whole and alone, for the next */
    check_fill(r, again, EARLY, 0);
    for (uint32_t i = 0; i < PAGES; i++)
        if (page[i] != again) check_fill(r, page[i], index[i], (uint8_t)(i + 1));
    page_release(r->s, again);
}

static void test_sequences(void **given)
{
    rig      *r = *given;
    sequence *a = grown(r, 5 * K_PAGE, 5 * K_PAGE - 7), *b;
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(sequence_pages(a)[i] < SEQUENCES * EARLY, i < EARLY);
        fill(r, sequence_pages(a)[i], i, (uint8_t)(i + 1));
    }
    ok(r, sequence_fork(&b, a, 0, &r->err)); /* the last page is copied as what it is */
    assert_int_equal(sequence_pages(b)[3], sequence_pages(a)[3]);
    assert_int_not_equal(sequence_pages(b)[4], sequence_pages(a)[4]);
    assert_true(sequence_pages(b)[4] >= SEQUENCES * EARLY);
    check_fill(r, sequence_pages(b)[4], 4, 5);
    uint8_t saved[64];
    sequence_save(b, saved);
    sequence_restore(b, 3 * K_PAGE - 1, saved); /* into the middle of an early one */
    assert_int_not_equal(sequence_pages(b)[2], sequence_pages(a)[2]);
    assert_true(sequence_pages(b)[2] < SEQUENCES * EARLY);
    check_fill(r, sequence_pages(b)[2], 2, 3);
    check_fill(r, sequence_pages(a)[2], 2, 3);
    sequence_free(a);
    sequence_free(b);
}

/* Early pages there are for all; the others are promised. */
static void test_promises(void **given)
{
    rig      *r = *given;
    sequence *b;
    assert_int_equal(state_free_positions(r->s), (LATE + EARLY) * K_PAGE);
    sequence *a = grown(r, 0, 1);
    assert_int_equal(r->s->n_promised, 3);
    assert_int_equal(state_free_positions(r->s), (3 + EARLY) * K_PAGE);
    ok(r, sequence_new(&b, r->s, EARLY * K_PAGE, &r->err));
    assert_int_equal(r->s->n_promised, 3);
    sequence_free(b);
    const uint32_t taken = page_take(r->s, EARLY);
    b                    = grown(r, 0, EARLY * K_PAGE);
    assert_int_equal(r->s->n_promised, 6);
    assert_int_equal(r->s->n_free_early, 3); /* a has one */
    sequence_free(a);
    sequence_free(b);
    page_release(r->s, taken);
}

/* Gives up pages that are kept besides, the last one first. */
typedef struct kept {
    state   *s;
    uint32_t page[PAGES], n;
} kept;

static bool give_up(void *user)
{
    kept *k = user;
    if (k->n == 0) return false;
    page_release(k->s, k->page[--k->n]);
    return true;
}

/* Who needs an early page gets one, however many others must go before. */
static void test_dry(void **given)
{
    rig *r = *given;
    kept k = {.s = r->s};
    for (uint32_t i = 0; i < SEQUENCES * EARLY; i++) k.page[k.n++] = page_take(r->s, 0);
    for (uint32_t i = 0; i < 3; i++) k.page[k.n++] = page_take(r->s, EARLY);
    state_on_dry(r->s, give_up, &k);
    sequence *a = grown(r, 0, 1);
    assert_int_equal(k.n, SEQUENCES * EARLY - 1);
    assert_int_equal(r->s->n_free_pages, LATE);
    sequence_free(a);
    while (give_up(&k)) continue;
    state_on_dry(r->s, NULL, NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_rig, close_rig)
    const struct CMUnitTest tests[] = {TEST(test_sizes), TEST(test_apart), TEST(test_sequences), TEST(test_promises),
                                       TEST(test_dry)};
    return cmocka_run_group_tests_name("early pages", tests, NULL, NULL);
}
