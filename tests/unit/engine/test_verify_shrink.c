/* tests/unit/engine/test_verify_shrink.c - schedules that fail a made-up condition
 * are shrunk to the shortest that still does, and said in words. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "engine/verify_parts.h"

#include <string.h>

static verify_op op(verify_kind kind, uint32_t who, uint32_t n)
{
    return (verify_op){.kind = kind, .who = who, .n = n, .right = 1, .keep = 1};
}

/* A schedule of all sorts, with `n` times nothing of interest before, between and after `parts`. */
static verify_schedule around(const verify_op *parts, uint32_t n_parts, uint32_t n, uint64_t seed)
{
    verify_schedule c = {
        .isa = 2, .threads = 4, .draft = DRAFT_MODEL, .chunk = 7, .max_drafts = 3, .fixed_drafts = true};
    for (uint32_t i = 0; i <= n_parts; i++) {
        for (uint32_t j = 0; j < n; j++) {
            verify_op *o = &c.ops[c.n_ops++];
            *o           = op((verify_kind)rng_below(&seed, OP_SUBMIT), rng_below(&seed, 4), 1 + rng_below(&seed, 60));
            o->beside    = true;
        }
        if (i < n_parts) c.ops[c.n_ops++] = parts[i];
    }
    return c;
}

typedef struct condition {
    bool (*fails)(const verify_schedule *c);
    uint32_t calls, most; /* most: no time for more */
} condition;

static bool fails(void *user, const verify_schedule *c)
{
    condition *x = user;
    assert_true(c->n_ops > 0 && c->n_ops <= VERIFY_OPS);
    if (++x->calls > x->most) return false;
    return x->fails(c);
}

static const verify_op *find(const verify_schedule *c, const verify_op *from, verify_kind kind, uint32_t who)
{
    const verify_op *end = c->ops + c->n_ops;
    for (const verify_op *o = from; o < end; o++)
        if (o->kind == kind && o->who == who) return o;
    return NULL;
}

/* As if a fork shared a page that it writes: seen 3 tokens behind it, with two threads or more. */
static bool fork_is_seen(const verify_schedule *c)
{
    const verify_op *fork = find(c, c->ops, OP_FORK, 0);
    if (fork == NULL || c->threads < 2) return false;
    const verify_op *read = find(c, fork, OP_READ, 1);
    while (read != NULL && read->n < 3) read = find(c, read + 1, OP_READ, 1);
    return read != NULL;
}

static void test_fork(void **given)
{
    (void)given;
    const verify_op parts[] = {op(OP_JOIN, 0, 0), op(OP_FORK, 0, 40), op(OP_READ, 1, 57)};
    for (uint64_t seed = 0; seed < 20; seed++) {
        verify_schedule c = around(parts, 3, 14, seed);
        condition       x = {.fails = fork_is_seen, .most = 100000};
        assert_true(fork_is_seen(&c));
        verify_shrink(&c, fails, &x);
        assert_int_equal(c.n_ops, 2);
        assert_int_equal(c.ops[0].kind, OP_FORK);
        assert_int_equal(c.ops[1].kind, OP_READ);
        assert_int_equal(c.ops[1].n, 3);
        assert_false(c.ops[1].beside);
        assert_int_equal(c.threads, 2);
        assert_int_equal(c.isa, 0);
        assert_int_equal(c.draft, DRAFT_OFF);
        assert_int_equal(c.chunk, VERIFY_CHUNK);
        assert_false(c.fixed_drafts);
        assert_true(x.calls < 2000);
    }
}

/* Two windows in one step, the second not kept whole. */
static bool window_is_seen(const verify_schedule *c)
{
    for (uint32_t i = 1; i < c->n_ops; i++) {
        const verify_op *o = &c->ops[i];
        if (c->draft == DRAFT_NGRAM && o[-1].kind == OP_WINDOW && o->kind == OP_WINDOW && o->beside &&
            o->who != o[-1].who && o->keep < o->n && o->keep >= 2 && o->right >= o->keep)
            return true;
    }
    return false;
}

static void test_window(void **given)
{
    (void)given;
    const verify_op parts[] = {{.kind = OP_WINDOW, .who = 1, .n = 9, .right = 8, .keep = 7, .known = true},
                               {.kind = OP_WINDOW, .who = 2, .n = 16, .right = 12, .keep = 9, .beside = true}};
    verify_schedule c       = around(parts, 2, 0, 1);
    condition       x       = {.fails = window_is_seen, .most = 100000};
    c.draft                 = DRAFT_NGRAM;
    verify_shrink(&c, fails, &x);
    assert_int_equal(c.n_ops, 2);
    assert_true(c.ops[1].n == 3 && c.ops[1].right == 2 && c.ops[1].keep == 2);
    assert_true(c.ops[0].n == 1 && c.ops[0].right == 1 && c.ops[0].keep == 1);
    assert_false(c.ops[0].known);
    assert_true(c.ops[1].beside);
}

/* Ten tokens in all, however they are read. */
static bool ten_are_seen(const verify_schedule *c)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < c->n_ops; i++)
        if (c->ops[i].who == 1 && (c->ops[i].kind == OP_READ || c->ops[i].kind == OP_SCORE)) sum += c->ops[i].n;
    return sum >= 10;
}

/* As if what one saved were wrong in another that loads it and reads two tokens. */
static bool load_is_seen(const verify_schedule *c)
{
    const verify_op *end = c->ops + c->n_ops, *save = c->ops;
    while (save < end && save->kind != OP_SAVE) save++;
    for (const verify_op *load = save; load < end; load++) {
        const verify_op *read = load->kind == OP_LOAD ? find(c, load, OP_READ, load->who) : NULL;
        if (read != NULL && read->n >= 2) return true;
    }
    return false;
}

static void test_load(void **given)
{
    (void)given;
    const verify_op parts[] = {op(OP_JOIN, 1, 0), op(OP_SAVE, 1, 0), op(OP_LOAD, 3, 0), op(OP_READ, 3, 40)};
    for (uint64_t seed = 0; seed < 20; seed++) {
        verify_schedule c = around(parts, 4, 11, seed);
        condition       x = {.fails = load_is_seen, .most = 100000};
        c.disk            = true;
        verify_shrink(&c, fails, &x);
        assert_int_equal(c.n_ops, 3);
        assert_int_equal(c.ops[0].kind, OP_SAVE);
        assert_int_equal(c.ops[1].kind, OP_LOAD);
        assert_true(c.ops[2].kind == OP_READ && c.ops[2].n == 2);
        for (uint32_t i = 0; i < 3; i++) assert_int_equal(c.ops[i].who, 0);
        assert_false(c.disk);
        assert_true(x.calls < 2000);
    }
}

/* On another engine with three threads or more, in two tokens. */
static bool abroad_is_seen(const verify_schedule *c)
{
    for (uint32_t i = 0; i < c->n_ops; i++)
        if (c->ops[i].kind == OP_ABROAD && c->ops[i].threads >= 3 && c->ops[i].n >= 2) return true;
    return false;
}

static void test_abroad(void **given)
{
    (void)given;
    const verify_op parts[] = {{.kind = OP_ABROAD, .who = 2, .n = 30, .isa = 2, .threads = 4}};
    verify_schedule c       = around(parts, 1, 20, 1);
    condition       x       = {.fails = abroad_is_seen, .most = 100000};
    verify_shrink(&c, fails, &x);
    assert_int_equal(c.n_ops, 1);
    assert_true(c.ops[0].n == 2 && c.ops[0].threads == 3 && c.ops[0].isa == 0);
    /* And when it need not have been there. */
    verify_schedule d = {.threads = 1, .draft = DRAFT_OFF, .chunk = VERIFY_CHUNK, .n_ops = 1, .ops = {c.ops[0]}};
    d.ops[0].n        = 12;
    d.ops[0].who      = 1;
    x                 = (condition){.fails = ten_are_seen, .most = 100000};
    verify_shrink(&d, fails, &x);
    assert_true(d.n_ops == 1 && d.ops[0].kind == OP_READ && d.ops[0].n == 10);
}

/* What was stored by 2 is wrong where 0 adopts it after a restart, with a disk. */
static bool restart_is_seen(const verify_schedule *c)
{
    const verify_op *end = c->ops + c->n_ops, *at = c->ops;
    while (at < end && at->kind != OP_RESTART) at++;
    return c->disk && at < end && find(c, at, OP_ADOPT, 0) != NULL;
}

static void test_restart(void **given)
{
    (void)given;
    const verify_op parts[] = {op(OP_STORE, 2, 0), op(OP_RESTART, 0, 0), op(OP_ADOPT, 0, 50)};
    verify_schedule c       = around(parts, 3, 15, 4);
    condition       x       = {.fails = restart_is_seen, .most = 100000};
    c.disk                  = true;
    verify_shrink(&c, fails, &x);
    assert_int_equal(c.n_ops, 2);
    assert_int_equal(c.ops[0].kind, OP_RESTART);
    assert_true(c.ops[1].kind == OP_ADOPT && c.ops[1].n == 1);
    assert_true(c.disk);
}

/* Two are not needed where one does. */
static bool pair_is_seen(const verify_schedule *c)
{
    uint32_t reads = 0;
    for (uint32_t i = 0; i < c->n_ops; i++)
        reads += c->ops[i].kind == OP_READ && i > 0 && c->ops[i - 1].kind == OP_SAVE;
    return reads >= 1;
}

static void test_merge(void **given)
{
    (void)given;
    verify_schedule c = {.threads = 1, .draft = DRAFT_OFF, .chunk = VERIFY_CHUNK, .n_ops = 2};
    c.ops[0]          = op(OP_SAVE, 3, 0);
    c.ops[1]          = op(OP_READ, 2, 1);
    condition x       = {.fails = pair_is_seen, .most = 100000};
    verify_shrink(&c, fails, &x);
    assert_true(c.n_ops == 2 && c.ops[0].who == 0 && c.ops[1].who == 0);
}

static void test_reads(void **given)
{
    (void)given;
    verify_schedule c = {.threads = 1, .draft = DRAFT_OFF, .chunk = VERIFY_CHUNK, .n_ops = 8};
    for (uint32_t i = 0; i < 8; i++) c.ops[i] = op(i % 3 == 0 ? OP_SCORE : OP_READ, i % 2, 3);
    condition x = {.fails = ten_are_seen, .most = 100000};
    verify_shrink(&c, fails, &x);
    assert_int_equal(c.n_ops, 1);
    assert_int_equal(c.ops[0].kind, OP_READ);
    assert_int_equal(c.ops[0].n, 10);
}

/* Any request that is called off between steps after the second. */
static bool cancel_is_seen(const verify_schedule *c)
{
    for (uint32_t i = 0; i < c->n_ops; i++)
        if (c->requests && c->ops[i].off == OFF_BETWEEN_STEPS && c->ops[i].until >= 2) return true;
    return false;
}

static void test_requests(void **given)
{
    (void)given;
    verify_schedule c = {.requests = true, .threads = 1, .draft = DRAFT_OFF, .chunk = 1, .n_ops = 5};
    for (uint32_t i = 0; i < 5; i++)
        c.ops[i] =
            (verify_op){.kind = OP_SUBMIT, .who = i, .at = 3 * i, .until = 3 * i + 5, .off = i % 3, .priority = 1};
    condition x = {.fails = cancel_is_seen, .most = 100000};
    verify_shrink(&c, fails, &x);
    assert_int_equal(c.n_ops, 1);
    assert_int_equal(c.ops[0].off, OFF_BETWEEN_STEPS);
    assert_int_equal(c.ops[0].until, 2);
    assert_int_equal(c.ops[0].at, 0);
}

/* Without time it still is one that fails. */
static void test_out_of_time(void **given)
{
    (void)given;
    const verify_op parts[] = {op(OP_FORK, 0, 40), op(OP_READ, 1, 57)};
    for (uint32_t most = 0; most < 60; most++) {
        verify_schedule c = around(parts, 2, 15, 3);
        condition       x = {.fails = fork_is_seen, .most = most};
        verify_shrink(&c, fails, &x);
        assert_true(fork_is_seen(&c));
        assert_true(x.calls < most + 900); /* and soon comes to an end */
    }
}

static void test_words(void **given)
{
    (void)given;
    static verifier v     = {.isas = {"scalar", "avx2"}, .n_isas = 2};
    verify_schedule c     = {.isa = 1, .threads = 3, .draft = DRAFT_NGRAM, .chunk = 5, .max_drafts = 2, .snapshots = 1};
    const verify_op ops[] = {{.kind = OP_JOIN, .who = 0, .text = 2},
                             {.kind = OP_READ, .who = 0, .n = 4},
                             {.kind = OP_FORK, .who = 0, .to = 3, .text = 1},
                             {.kind = OP_READ, .who = 0, .n = 1},
                             {.kind = OP_WINDOW, .who = 3, .n = 4, .right = 3, .keep = 2, .beside = true},
                             {.kind = OP_SAVE, .who = 3},
                             {.kind = OP_LOAD, .who = 0},
                             {.kind = OP_ABROAD, .who = 0, .n = 3, .threads = 2},
                             {.kind = OP_RESTART}};
    c.disk                = true;
    memcpy(c.ops, ops, sizeof ops);
    c.n_ops = sizeof ops / sizeof *ops;
    for (uint32_t i = 0; i < VERIFY_TEXTS; i++) v.texts[i].length = 10 + i;
    v.texts[2].shared = 3, v.texts[2].parent = 1;
    v.texts[4].chosen = VERIFY_ONE;
    str text;
    str_init(&text, 4000);
    verify_print(&text, &v, &c);
    assert_string_equal(text.data,
                        "isa avx2, threads 3, chunk 5, drafts ngram (at most 2), room for 1 snapshots and "
                        "more on disk\n"
                        "texts: 0 has 10 tokens; 1 has 11 tokens; 2 has 12 tokens, the first 3 those of 1; "
                        "3 has 13 tokens; 4 has 14 tokens, under an adapter; 5 has 15 tokens; 6 has 16 tokens\n"
                        "a joins with text 2\n"
                        "a reads 4\n"
                        "a forks to d, which follows text 1\n"
                        "a reads 1; d tries 4, 3 of them right, and keeps 2\n"
                        "d is saved to a file\n"
                        "a becomes what was saved\n"
                        "a goes through a file to an engine with isa scalar and threads 2, reads 3 there "
                        "and comes back\n"
                        "the prefix tree goes to disk, and memory forgets it\n");
    str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fork),        cmocka_unit_test(test_window),
                                       cmocka_unit_test(test_reads),       cmocka_unit_test(test_load),
                                       cmocka_unit_test(test_abroad),      cmocka_unit_test(test_restart),
                                       cmocka_unit_test(test_merge),       cmocka_unit_test(test_requests),
                                       cmocka_unit_test(test_out_of_time), cmocka_unit_test(test_words)};
    return cmocka_run_group_tests_name("verify shrink", tests, NULL, NULL);
}
