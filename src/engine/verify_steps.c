/* engine/verify_steps.c - a schedule of steps: up to four sequences that read, guess,
 * fork, go back, come and go on one engine.
 *
 * Every row of logits of a position that follows its text is compared. */
#include "engine/sequence_parts.h"
#include "engine/verify_parts.h"

#include <string.h>

enum { LEAST_OPS = 3 };

/* A sequence and the text that it follows; s NULL: none. */
typedef struct life {
    weir_sequence *s;
    uint32_t       text;
    bool           known; /* s->logits are those of its last position */
    weir_snapshot *snapshot;
    bool           snapshot_known;
    uint32_t       cuts; /* since it was empty */
} life;

/* What is in the file; length 0: nothing. */
typedef struct saved {
    uint32_t text, length, cuts;
    bool     known;
} saved;

typedef struct steps {
    verifier              *v;
    weir_engine           *e;
    const verify_schedule *c;
    verify_outcome        *out;
    life                   lives[VERIFY_SEQUENCES];
    saved                  saved;
    uint32_t               op; /* being done */
    bool                   someone_left;
} steps;

static uint32_t length_of(const life *l)
{
    return weir_sequence_length(l->s);
}

static const verify_text *text_of(const steps *x, const life *l)
{
    return &x->v->texts[l->text];
}

/* Tokens of its text that a sequence has yet to read. */
static uint32_t left(const steps *x, const life *l)
{
    return text_of(x, l)->length - length_of(l);
}

static char name_of(const steps *x, const life *l)
{
    return (char)('a' + (l - x->lives));
}

static void compare(steps *x, const life *l, uint32_t position, const float *logits)
{
    const verify_text *t = text_of(x, l);
    if (digest_same(digest_of(logits, x->v->vocab), t->truth[position])) return;
    verify_differs(x->out, x->op, "position %u of text %u, read by %c, differs", position, l->text, name_of(x, l));
}

/* The logits that a sequence remembers. */
static void compare_last(steps *x, const life *l)
{
    if (l->known && length_of(l) > 0) compare(x, l, length_of(l) - 1, weir_sequence_logits(l->s));
}

/* It has read something in one go. */
static void has_read(steps *x, life *l, verify_invariant how)
{
    x->out->used[how] = true;
    l->known          = true;
    if (text_of(x, l)->chosen != VERIFY_NONE) x->out->used[VERIFY_ADAPTED] = true;
    if (l->cuts++ > 0) x->out->used[VERIFY_CHUNKING] = true;
}

static verify_invariant plain(uint32_t n)
{
    return n == 1 ? VERIFY_DECODE : VERIFY_PREFILL;
}

/* ---- one step of several sequences ---- */

typedef struct part {
    life       *l;
    batch_item *item;
    uint32_t    right, keep; /* of the tokens */
    bool        known;
} part;

typedef struct step {
    part     parts[VERIFY_SEQUENCES];
    uint32_t n;
    uint32_t rows[HEAD_ROWS], row_part[HEAD_ROWS], n_rows; /* whose logits are made together */
} step;

/* Tokens of a window: the text's, but the first that is not to be right is
 * another, and those behind it are the text's once more. */
static void fill_window(const steps *x, const life *l, uint32_t *ids, uint32_t n, uint32_t right)
{
    const verify_text *t  = text_of(x, l);
    const uint32_t     at = length_of(l);
    for (uint32_t i = 0; i < n; i++) ids[i] = at + i < t->planned ? t->ids[at + i] : i % x->v->vocab;
    if (right < n) ids[right] = (ids[right] + 1) % x->v->vocab;
}

static weir_status add_part(steps *x, step *p, const verify_op *op, weir_error *err)
{
    life          *l    = &x->lives[op->who];
    const uint32_t room = x->e->batch.max_rows - x->e->batch.n_rows, more = l->s != NULL ? left(x, l) : 0;
    if (more == 0 || room == 0) return WEIR_OK;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->parts[i].l == l) return WEIR_OK;
    const bool     window = op->kind == OP_WINDOW && op->n > 1 && room > 1 && x->c->draft != DRAFT_OFF;
    const uint32_t n      = least(window || op->n == 0 ? op->n : least(op->n, more), room);
    if (n == 0) return WEIR_OK;
    uint32_t other[1 + VERIFY_DRAFTS];
    part    *q = &p->parts[p->n];
    *q         = (part){.l = l, .right = n, .keep = n, .known = op->known};
    if (window) {
        q->right = op->right < 1 ? 1 : least(op->right, least(n, more));
        q->keep  = op->keep < 1 ? 1 : least(op->keep, q->right);
        fill_window(x, l, other, n, q->right);
    }
    TRY(batch_add(x->e, l->s, window ? other : text_of(x, l)->ids + length_of(l), n, window, &q->item, err));
    p->n++;
    return WEIR_OK;
}

/* Logits of the rows gathered: compared, and those of a sequence's new last position kept. */
static weir_status read_rows(steps *x, step *p, weir_error *err)
{
    const float *logits;
    if (p->n_rows == 0) return WEIR_OK;
    TRY(batch_logits(x->e, p->rows, p->n_rows, &logits, err));
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const part    *q   = &p->parts[p->row_part[i]];
        const uint32_t j   = p->rows[i] - q->item->span.row;
        const float   *row = logits + (size_t)i * x->v->vocab;
        compare(x, q->l, q->item->span.position + j, row);
        if (j + 1 == q->keep) memcpy(q->l->s->logits, row, x->v->vocab * sizeof *row);
    }
    p->n_rows = 0;
    return WEIR_OK;
}

static weir_status read_all_rows(steps *x, step *p, weir_error *err)
{
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t j = 0; j < p->parts[i].right; j++) {
            p->rows[p->n_rows]       = p->parts[i].item->span.row + j;
            p->row_part[p->n_rows++] = i;
            if (p->n_rows == HEAD_ROWS) TRY(read_rows(x, p, err));
        }
    return read_rows(x, p, err);
}

static verify_invariant how(const part *q)
{
    const uint32_t n = q->item->span.n;
    if (!q->item->window) return plain(n);
    return q->keep == n ? VERIFY_WINDOW_ALL : q->keep == 1 ? VERIFY_WINDOW_NONE : VERIFY_WINDOW_PART;
}

/* All operations from op on that share a step; *n tells how many. */
static weir_status do_step(steps *x, uint32_t *n, weir_error *err)
{
    const verify_op *ops = &x->c->ops[x->op];
    step             p   = {.n = 0};
    uint32_t         i   = 0;
    batch_clear(x->e);
    do TRY(add_part(x, &p, &ops[i++], err));
    while (x->op + i < x->c->n_ops && (ops[i].kind == OP_READ || ops[i].kind == OP_WINDOW) && ops[i].beside);
    *n = i;
    if (p.n == 0) return WEIR_OK;
    TRY(batch_forward(x->e, NULL, err));
    TRY(read_all_rows(x, &p, err));
    for (i = 0; i < p.n; i++) {
        part              *q  = &p.parts[i];
        const verify_text *t  = text_of(x, q->l);
        const uint32_t     to = q->item->span.position + q->keep;
        has_read(x, q->l, how(q));
        q->item->keep = q->keep;
        if (q->known && to < t->planned) q->item->next = t->ids[to];
    }
    for (i = 0; i < p.n; i++) {
        const verify_chosen chosen = text_of(x, p.parts[i].l)->chosen;
        if (chosen != text_of(x, p.parts[0].l)->chosen) x->out->used[VERIFY_ADAPTED_MIXED] = true;
    }
    if (p.n > 1) x->out->used[VERIFY_BATCH] = true;
    if (x->e->m.config.mtp) x->out->used[VERIFY_MTP] = true;
    return batch_commit(x->e, err);
}

/* ---- reading by the public calls ---- */

typedef struct scored {
    steps *x;
    life  *l;
} scored;

static bool compare_rows(void *user, const weir_rows *rows)
{
    const scored *s = user;
    for (uint32_t i = 0; i < rows->n; i++)
        compare(s->x, s->l, rows->first_position + i, rows->logits + (size_t)i * s->x->v->vocab);
    return true;
}

static weir_status read_alone(steps *x, life *l, const verify_op *op, weir_error *err)
{
    const uint32_t  n   = least(op->n, left(x, l));
    const uint32_t *ids = text_of(x, l)->ids + length_of(l);
    if (n == 0) return WEIR_OK;
    scored s = {x, l};
    TRY(op->kind == OP_SCORE ? weir_sequence_score(l->s, ids, n, false, compare_rows, &s, err)
                             : weir_sequence_append(l->s, ids, n, NULL, NULL, err));
    has_read(x, l, plain(n));
    if (n > x->e->info.chunk) x->out->used[VERIFY_CHUNKING] = true;
    compare_last(x, l);
    return WEIR_OK;
}

/* ---- there and back ---- */

static void rewound(steps *x, life *l, bool known)
{
    x->out->used[VERIFY_REWIND] = true;
    l->known                    = known;
    compare_last(x, l);
}

static weir_status detour(steps *x, life *l, const verify_op *op, weir_error *err)
{
    weir_snapshot *snap;
    uint32_t       other[VERIFY_DETOUR];
    const uint32_t n = least(op->n, VERIFY_DETOUR), at = length_of(l);
    if (n == 0) return WEIR_OK;
    for (uint32_t i = 0; i < n; i++) other[i] = (at * 7 + i * 5 + 1) % x->v->vocab;
    TRY(weir_sequence_snapshot(l->s, &snap, err));
    weir_status st = weir_sequence_append(l->s, other, n, NULL, NULL, err);
    if (st == WEIR_OK) st = weir_sequence_rewind(l->s, snap, err);
    weir_snapshot_free(snap);
    if (st == WEIR_OK) rewound(x, l, l->known);
    return st;
}

static weir_status take_snapshot(life *l, weir_error *err)
{
    weir_snapshot_free(l->snapshot);
    l->snapshot_known = l->known;
    return weir_sequence_snapshot(l->s, &l->snapshot, err);
}

static weir_status rewind_to(steps *x, life *l, const life *of, weir_error *err)
{
    const weir_snapshot *snap = of->snapshot;
    if (snap == NULL || snap->length > length_of(l)) return WEIR_OK;
    if (memcmp(snap->origin, l->s->adapters.origin, sizeof snap->origin) != 0) return WEIR_OK;
    if (memcmp(snap->tokens, weir_sequence_tokens(l->s), snap->length * sizeof *snap->tokens) != 0) return WEIR_OK;
    TRY(weir_sequence_rewind(l->s, snap, err));
    rewound(x, l, of->snapshot_known);
    return WEIR_OK;
}

/* ---- coming and going ---- */

/* True when a sequence of l's length that goes on with `text` has read it so far. */
static bool may_follow(const steps *x, const life *l, uint32_t text)
{
    const uint32_t n = length_of(l);
    if (x->v->texts[text].chosen != text_of(x, l)->chosen) return false; /* an empty one, too */
    return n <= x->v->texts[text].length && (text == l->text || n <= verify_shared(x->v, l->text, text));
}

static uint32_t living(const steps *x)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < VERIFY_SEQUENCES; i++) n += x->lives[i].s != NULL;
    return n;
}

static weir_status join(steps *x, life *l, uint32_t text, weir_error *err)
{
    if (l->s != NULL || living(x) == x->v->sequences) return WEIR_OK;
    if (x->someone_left) x->out->used[VERIFY_REUSE] = true;
    l->text  = text;
    l->known = false;
    l->cuts  = 0;
    TRY(weir_sequence_new(&l->s, x->e, err));
    return verify_choose(x->v, l->s, x->v->texts[text].chosen, err);
}

static weir_status fork_to(steps *x, const life *l, life *to, uint32_t text, weir_error *err)
{
    if (to->s != NULL || living(x) == x->v->sequences) return WEIR_OK;
    TRY(weir_sequence_fork(&to->s, l->s, err));
    to->text                  = may_follow(x, l, text) ? text : l->text;
    to->known                 = l->known;
    to->cuts                  = l->cuts;
    x->out->used[VERIFY_FORK] = true;
    compare_last(x, to);
    return WEIR_OK;
}

static void leave(steps *x, life *l)
{
    if (l->s == NULL) return;
    weir_sequence_free(l->s);
    l->s            = NULL;
    x->someone_left = true;
}

static weir_status reset(steps *x, life *l, uint32_t text, weir_error *err)
{
    if (length_of(l) > 0) x->out->used[VERIFY_RESET] = true;
    weir_sequence_reset(l->s);
    l->text  = text;
    l->known = false;
    l->cuts  = 0;
    return verify_choose(x->v, l->s, text_of(x, l)->chosen, err);
}

static void adopt(steps *x, life *l, const verify_op *op)
{
    const verify_text *t = text_of(x, l);
    const uint32_t     n = least(op->n, t->length);
    prefix_hit         hit;
    if (length_of(l) > 0) return;
    prefix_tree_find(x->e->cache, l->s->adapters.origin, t->ids, n, &hit);
    const bool     disk = hit.disk != NULL;
    const uint32_t got  = sequence_take_cached(l->s, &hit);
    if (got != length_of(l) || got != hit.length || got > hit.matched || hit.matched > n ||
        memcmp(weir_sequence_tokens(l->s), t->ids, got * sizeof *t->ids) != 0)
        verify_differs(x->out, x->op, "%c took %u tokens from the prefix tree that are not the first of text %u",
                       name_of(x, l), got, l->text);
    if (got == 0) return;
    x->out->used[VERIFY_CACHE] = true;
    if (disk) x->out->used[VERIFY_DISK] = true;
    l->known = false;
}

/* Keeps it, and hands it on to the disk as a step does. */
static void store(steps *x, const life *l)
{
    prefix_tree_store(x->e->cache, l->s->adapters.origin, l->s->q);
    prefix_tree_write(x->e->cache);
}

/* ---- through a file ---- */

/* Into the file: `s` is l, here or on another engine.  A disk that cannot take it is no difference. */
static weir_status save(steps *x, const life *l, const weir_sequence *s, weir_error *err)
{
    weir_error own;
    if (weir_sequence_length(s) == 0 || !verify_files_ready(x->v)) return WEIR_OK;
    x->saved             = (saved){.length = 0};
    const weir_status st = weir_sequence_save(s, x->v->files.sequence, &own);
    if (st == WEIR_IO) verify_files_deny(x->v, own.text);
    if (st == WEIR_IO) return WEIR_OK;
    if (st != WEIR_OK) return status_fail(err, st, "%s", own.text);
    x->saved = (saved){.text = l->text, .length = weir_sequence_length(s), .cuts = l->cuts, .known = l->known};
    return WEIR_OK;
}

/* `s` becomes what is in the file. */
static weir_status load(steps *x, const life *l, weir_sequence *s, weir_error *err)
{
    const saved *f = &x->saved;
    TRY(weir_sequence_load(s, x->v->files.sequence, err));
    if (weir_sequence_length(s) != f->length ||
        memcmp(weir_sequence_tokens(s), x->v->texts[f->text].ids, f->length * sizeof(uint32_t)) != 0)
        verify_differs(x->out, x->op, "%c is loaded with %u tokens that are not the first %u of text %u", name_of(x, l),
                       weir_sequence_length(s), f->length, f->text);
    x->out->used[VERIFY_SAVE_LOAD] = true;
    return WEIR_OK;
}

static weir_status load_here(steps *x, life *l, weir_error *err)
{
    if (x->saved.length == 0) return WEIR_OK;
    if (x->v->texts[x->saved.text].chosen != text_of(x, l)->chosen) TRY(reset(x, l, x->saved.text, err));
    TRY(load(x, l, l->s, err));
    if (x->out->differs) return WEIR_OK;
    l->text  = x->saved.text;
    l->known = x->saved.known;
    l->cuts  = x->saved.cuts;
    compare_last(x, l);
    return WEIR_OK;
}

/* Reads n tokens of l's text on the other engine, and is in the file afterwards. */
static weir_status read_abroad(steps *x, life *l, weir_sequence *s, uint32_t n, weir_error *err)
{
    const uint32_t at = length_of(l);
    scored         to = {x, l};
    TRY(load(x, l, s, err));
    if (x->out->differs) return WEIR_OK;
    TRY(weir_sequence_score(s, text_of(x, l)->ids + at, n, false, compare_rows, &to, err));
    has_read(x, l, plain(n));
    return save(x, l, s, err);
}

static weir_status abroad(steps *x, life *l, const verify_op *op, weir_error *err)
{
    weir_engine   *there;
    weir_sequence *s;
    const uint32_t n = least(op->n, left(x, l));
    if (n == 0 || length_of(l) == 0) return WEIR_OK;
    TRY(verify_engine_beside(x->v, x->c, op, &there, err));
    if (there == NULL) return WEIR_OK;
    TRY(save(x, l, l->s, err));
    if (x->saved.length == 0) return WEIR_OK; /* there is no place for files */
    TRY(weir_sequence_new(&s, there, err));
    weir_status st = verify_choose(x->v, s, text_of(x, l)->chosen, err);
    if (st == WEIR_OK) st = read_abroad(x, l, s, n, err);
    weir_sequence_free(s);
    if (st != WEIR_OK || x->out->differs) return st;
    return load_here(x, l, err);
}

/* ---- the list ---- */

static weir_status do_op(steps *x, const verify_op *op, weir_error *err)
{
    life *l = &x->lives[op->who];
    if (op->kind == OP_JOIN) return join(x, l, op->text, err);
    if (op->kind == OP_RESTART) return verify_engine_restart(x->v, x->e, x->c, err);
    if (l->s == NULL) return WEIR_OK;
    switch (op->kind) {
    case OP_APPEND:
    case OP_SCORE: return read_alone(x, l, op, err);
    case OP_DETOUR: return detour(x, l, op, err);
    case OP_SNAPSHOT: return take_snapshot(l, err);
    case OP_REWIND: return rewind_to(x, l, &x->lives[op->to], err);
    case OP_FORK: return fork_to(x, l, &x->lives[op->to], op->text, err);
    case OP_TURN:
        if (may_follow(x, l, op->text)) l->text = op->text;
        break;
    case OP_STORE: store(x, l); break;
    case OP_ADOPT: adopt(x, l, op); break;
    case OP_SAVE: return save(x, l, l->s, err);
    case OP_LOAD: return load_here(x, l, err);
    case OP_ABROAD: return abroad(x, l, op, err);
    case OP_RESET: return reset(x, l, op->text, err);
    case OP_LEAVE: leave(x, l); break;
    case OP_JOIN:
    case OP_READ:
    case OP_WINDOW:
    case OP_RESTART:
    case OP_SUBMIT: break;
    }
    return WEIR_OK;
}

weir_status verify_run_steps(verifier *v, weir_engine *e, const verify_schedule *c, verify_outcome *out,
                             weir_error *err)
{
    steps       x  = {.v = v, .e = e, .c = c, .out = out};
    weir_status st = WEIR_OK;
    /* What a schedule saw before time ran out is compared and counts; a little it sees in any case. */
    while (st == WEIR_OK && x.op < c->n_ops && !out->differs && (x.op < LEAST_OPS || !verify_over(v))) {
        const verify_op *op = &c->ops[x.op];
        uint32_t         n  = 1;
        st                  = op->kind == OP_READ || op->kind == OP_WINDOW ? do_step(&x, &n, err) : do_op(&x, op, err);
        if (st != WEIR_OK) break;
        x.op += n;
    }
    for (uint32_t i = 0; i < VERIFY_SEQUENCES; i++) {
        leave(&x, &x.lives[i]);
        weir_snapshot_free(x.lives[i].snapshot);
    }
    return st;
}
