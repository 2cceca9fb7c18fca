/* engine/verify_shrink.c - from a schedule that fails to the shortest that does.
 *
 * Delta debugging (Zeller and Hildebrandt, 2002): parts are left out, the large
 * ones first, then numbers are made smaller and the engine plainer, for as long
 * as something still helps. */
#include "engine/verify_parts.h"

#include <string.h>

typedef struct shrinking {
    verify_schedule *best;
    verify_fails_fn *fails;
    void            *user;
    bool             helped; /* in this round */
} shrinking;

/* Takes `c` for the best one when it fails, too. */
static bool better(shrinking *s, const verify_schedule *c)
{
    if (c->n_ops == 0 || !s->fails(s->user, c)) return false;
    *s->best  = *c;
    s->helped = true;
    return true;
}

/* ---- fewer operations ---- */

static bool without(shrinking *s, uint32_t from, uint32_t n)
{
    verify_schedule c = *s->best;
    memmove(c.ops + from, c.ops + from + n, (c.n_ops - from - n) * sizeof *c.ops);
    c.n_ops -= n;
    return better(s, &c);
}

static void drop_ops(shrinking *s)
{
    for (uint32_t n = (s->best->n_ops + 1) / 2; n > 0; n /= 2) /* From the end: what comes last is needed least. */
        for (uint32_t end = s->best->n_ops; end >= n; end = least(end - 1, s->best->n_ops))
            if (without(s, end - n, n) && s->best->n_ops < n) break;
}

/* All operations of one sequence or wish. */
static void drop_who(shrinking *s, uint32_t who)
{
    verify_schedule c = *s->best;
    c.n_ops           = 0;
    for (uint32_t i = 0; i < s->best->n_ops; i++)
        if (s->best->ops[i].who != who || s->best->ops[i].kind == OP_RESTART) c.ops[c.n_ops++] = s->best->ops[i];
    if (c.n_ops < s->best->n_ops) (void)better(s, &c);
}

/* What two sequences do, done by one. */
static void merge(shrinking *s, uint32_t who, uint32_t into)
{
    verify_schedule c     = *s->best;
    bool            there = false;
    for (uint32_t i = 0; i < c.n_ops; i++) {
        verify_op *op = &c.ops[i];
        there         = there || op->who == who;
        if (op->who == who) op->who = into;
        if (op->to == who) op->to = into;
    }
    if (there) (void)better(s, &c);
}

static void merge_all(shrinking *s)
{
    for (uint32_t who = 1; who < VERIFY_SEQUENCES && !s->best->requests; who++)
        for (uint32_t into = 0; into < who; into++) merge(s, who, into);
}

/* What a sequence reads in one go and in the next as one read. */
static void join_reads(shrinking *s)
{
    for (uint32_t i = 0; i + 1 < s->best->n_ops; i++) {
        const verify_op *op = &s->best->ops[i];
        uint32_t         j  = i + 1;
        while (j < s->best->n_ops && s->best->ops[j].who != op->who) j++;
        if (op->kind != OP_READ || j == s->best->n_ops || s->best->ops[j].kind != OP_READ) continue;
        verify_schedule c = *s->best;
        c.ops[j].n += op->n;
        memmove(c.ops + i, c.ops + i + 1, (--c.n_ops - i) * sizeof *c.ops);
        (void)better(s, &c);
    }
}

/* ---- smaller numbers ---- */

/* The smallest value down to `most` that still fails, as far as halving and then
 * counting down finds it.  field: of best->ops[i], by its offset. */
static void lower(shrinking *s, uint32_t i, size_t field, uint32_t most)
{
    for (uint32_t cut = UINT32_MAX; cut > 0;) {
        verify_schedule c = *s->best;
        uint32_t        now;
        memcpy(&now, (char *)&c.ops[i] + field, sizeof now);
        if (now <= most) return;
        cut = least(cut, now - most);
        now -= cut;
        memcpy((char *)&c.ops[i] + field, &now, sizeof now);
        if (!better(s, &c)) cut /= 2;
    }
}

static void lower_numbers(shrinking *s)
{
    for (uint32_t i = 0; i < s->best->n_ops; i++) {
        lower(s, i, offsetof(verify_op, text), 0);
        lower(s, i, offsetof(verify_op, n), 1);
        lower(s, i, offsetof(verify_op, right), 1);
        lower(s, i, offsetof(verify_op, keep), 1);
        lower(s, i, offsetof(verify_op, at), 0);
        lower(s, i, offsetof(verify_op, until), 0);
        lower(s, i, offsetof(verify_op, isa), 0);
        lower(s, i, offsetof(verify_op, threads), 1);
    }
}

static bool read_instead(shrinking *s, uint32_t i, uint32_t n)
{
    verify_schedule c = *s->best;
    c.ops[i].kind     = OP_READ;
    c.ops[i].n        = n;
    return better(s, &c);
}

/* One operation without what it need not have. */
static void plainer_op(shrinking *s, uint32_t i)
{
    const verify_op *op = &s->best->ops[i];
    if (op->kind == OP_WINDOW && !read_instead(s, i, op->keep)) (void)read_instead(s, i, op->n);
    if (op->kind == OP_APPEND || op->kind == OP_SCORE || op->kind == OP_ABROAD) (void)read_instead(s, i, op->n);
    verify_schedule c = *s->best;
    verify_op      *o = &c.ops[i];
    if (!o->beside && !o->known && o->off == OFF_NEVER && o->priority == 0 && !o->no_cache && !o->no_drafts) return;
    o->beside = o->known = o->no_cache = o->no_drafts = false;
    o->off                                            = OFF_NEVER;
    o->priority                                       = 0;
    if (better(s, &c)) return;
    /* Together they matter; one of them may not. */
    c              = *s->best;
    c.ops[i].known = false;
    if (op->known) (void)better(s, &c);
    c               = *s->best;
    c.ops[i].beside = false;
    if (op->beside) (void)better(s, &c);
    c                 = *s->best;
    c.ops[i].priority = 0;
    if (op->priority != 0) (void)better(s, &c);
}

/* ---- a plainer engine ---- */

static void plainer_engine(shrinking *s)
{
    const verify_schedule *b = s->best;
    verify_schedule        c;
    for (uint32_t threads = 1; threads < b->threads; threads++) {
        c         = *b;
        c.threads = threads;
        if (better(s, &c)) break;
    }
    for (uint32_t isa = 0; isa < b->isa; isa++) {
        c     = *b;
        c.isa = isa;
        if (better(s, &c)) break;
    }
    for (draft_source d = DRAFT_OFF; d < b->draft; d++) {
        if (d == DRAFT_MTP) continue; /* the model may have none */
        c       = *b;
        c.draft = d;
        if (better(s, &c)) break;
    }
    c              = *b;
    c.chunk        = VERIFY_CHUNK;
    c.fixed_drafts = c.pre_norm = false;
    if (c.chunk != b->chunk || b->fixed_drafts || b->pre_norm) (void)better(s, &c);
    c      = *b;
    c.disk = false;
    if (b->disk) (void)better(s, &c);
}

void verify_shrink(verify_schedule *c, verify_fails_fn *fails, void *user)
{
    shrinking s = {.best = c, .fails = fails, .user = user, .helped = true};
    while (s.helped) {
        s.helped = false;
        drop_ops(&s);
        join_reads(&s);
        for (uint32_t who = 0; who < VERIFY_WISHES; who++) drop_who(&s, who);
        merge_all(&s);
        plainer_engine(&s);
        lower_numbers(&s);
        for (uint32_t i = 0; i < c->n_ops; i++) plainer_op(&s, i);
    }
}
