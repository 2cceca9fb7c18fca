/* engine/sequence_api.c - weir/sequence.h: reading tokens, chunk by chunk. */
#include "base/mem.h"
#include "engine/batch.h"
#include "engine/sequence_parts.h"

#include <string.h>

static weir_status no_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
}

/* A public sequence around nothing yet. */
static weir_status shell_new(weir_sequence **out, weir_engine *e, bool logits, weir_error *err)
{
    *out = mem_zalloc(1, sizeof **out);
    if (*out == NULL) return no_memory(err);
    (*out)->e = e;
    if (!logits) return WEIR_OK;
    (*out)->logits = mem_alloc(e->m.config.vocab_size, sizeof *(*out)->logits);
    if ((*out)->logits != NULL) return WEIR_OK;
    mem_free(*out);
    *out = NULL;
    return no_memory(err);
}

weir_status sequence_open(weir_sequence **out, weir_engine *e, uint32_t positions, bool logits, weir_error *err)
{
    TRY(shell_new(out, e, logits, err));
    const weir_status st = sequence_new(&(*out)->q, e->st, positions, err);
    if (st == WEIR_OK) return WEIR_OK;
    weir_sequence_free(*out);
    *out = NULL;
    return st;
}

uint32_t sequence_take_cached(weir_sequence *s, const prefix_hit *hit)
{
    const uint32_t length = prefix_tree_adopt(s->e->cache, hit, s->q);
    s->mtp_made           = mtp_made_at(length);
    return length;
}

void sequence_take_adapters(weir_sequence *s, const adapter_set *set)
{
    adapter_bank *bank = &s->e->adapters;
    adapters_hold(bank, set);
    adapters_let_go(bank, &s->adapters);
    s->adapters = *set;
}

weir_status weir_sequence_new(weir_sequence **out, weir_engine *e, weir_error *err)
{
    *out = NULL;
    TRY(engine_idle(e, "sequence", err));
    return sequence_open(out, e, 0, true, err);
}

weir_status weir_sequence_set_adapters(weir_sequence *s, const weir_adapter_choice *adapters, size_t n, weir_error *err)
{
    adapter_set set;
    TRY(engine_idle(s->e, "adapters", err));
    if (sequence_length(s->q) > 0)
        return status_fail(err, WEIR_INVALID, "adapters: expected an empty sequence, found one of %u tokens",
                           sequence_length(s->q));
    TRY(adapters_choose(&set, &s->e->adapters, adapters, n, err));
    sequence_take_adapters(s, &set);
    return WEIR_OK;
}

weir_status weir_sequence_fork(weir_sequence **out, const weir_sequence *s, weir_error *err)
{
    *out = NULL;
    TRY(engine_idle(s->e, "fork", err));
    if (s->broken) return status_fail(err, WEIR_INVALID, "fork: a step of the sequence failed");
    TRY(shell_new(out, s->e, true, err));
    const weir_status st = sequence_fork(&(*out)->q, s->q, 0, err);
    if (st != WEIR_OK) {
        weir_sequence_free(*out);
        *out = NULL;
        return st;
    }
    memcpy((*out)->logits, s->logits, s->e->m.config.vocab_size * sizeof *s->logits);
    (*out)->mtp_made = mtp_made_at(weir_sequence_length(*out));
    sequence_take_adapters(*out, &s->adapters);
    return WEIR_OK;
}

void weir_sequence_free(weir_sequence *s)
{
    if (s == NULL) return;
    adapters_let_go(&s->e->adapters, &s->adapters);
    sequence_free(s->q);
    mem_free(s->logits);
    mem_free(s);
}

uint32_t weir_sequence_length(const weir_sequence *s)
{
    return sequence_length(s->q);
}

const uint32_t *weir_sequence_tokens(const weir_sequence *s)
{
    return sequence_tokens(s->q);
}

const float *weir_sequence_logits(const weir_sequence *s)
{
    return sequence_length(s->q) == 0 ? NULL : s->logits;
}

void weir_sequence_reset(weir_sequence *s)
{
    sequence_reset(s->q);
    s->broken   = false;
    s->mtp_made = 0;
}

static weir_status check_ids(const weir_sequence *s, const uint32_t *ids, size_t n, weir_error *err)
{
    const uint32_t vocab = s->e->m.config.vocab_size, room = s->e->info.max_context - sequence_length(s->q);
    TRY(engine_idle(s->e, "sequence", err));
    if (s->broken) return status_fail(err, WEIR_INVALID, "sequence: a step failed; reset or rewind it first");
    if (n == 0) return status_fail(err, WEIR_INVALID, "tokens: expected at least one");
    if (n > room)
        return status_fail(err, WEIR_INVALID, "context: expected at most %u more tokens (max_context %u), found %zu",
                           room, s->e->info.max_context, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocab)
            return status_fail(err, WEIR_INVALID, "tokens: id %u at index %zu: expected less than vocab_size = %u",
                               ids[i], i, vocab);
    return WEIR_OK;
}

/* A step over n tokens of this sequence alone; w->x holds the rows afterwards. */
static weir_status forward(weir_sequence *s, const uint32_t *ids, uint32_t n, const model_tap *tap, weir_error *err)
{
    batch_clear(s->e);
    TRY(batch_add(s->e, s, ids, n, false, NULL, err));
    return batch_forward(s->e, tap, err);
}

/* The logits of one row of the last step become the sequence's. */
static weir_status take_logits(weir_sequence *s, uint32_t row, weir_error *err)
{
    const float *logits;
    TRY(batch_logits(s->e, &s->e->rows[row], 1, &logits, err));
    memcpy(s->logits, logits, s->e->m.config.vocab_size * sizeof *logits);
    return WEIR_OK;
}

weir_status weir_sequence_append(weir_sequence *s, const uint32_t *ids, size_t n, weir_progress_fn *progress,
                                 void *user, weir_error *err)
{
    TRY(check_ids(s, ids, n, err));
    const uint32_t total = (uint32_t)n, chunk = s->e->info.chunk;
    for (uint32_t done = 0; done < total;) {
        const uint32_t now = total - done < chunk ? total - done : chunk;
        TRY(forward(s, ids + done, now, NULL, err));
        done += now;
        /* Who stops early wants the logits there: the head of one row is cheap beside a chunk. */
        if (done == total || progress != NULL) TRY(take_logits(s, now - 1, err));
        TRY(batch_commit(s->e, err));
        if (progress != NULL && !progress(user, done, total) && done < total)
            return status_fail(err, WEIR_CANCELLED, "stopped after %u of %u tokens", done, total);
    }
    return WEIR_OK;
}

/* ---- scoring ---- */

/* Copies of the residual stream after each layer: [layer][chunk][hidden]. */
typedef struct hidden_rows {
    float        *data;
    const float **layer; /* where weir_rows.hidden points: moved on with the rows handed out */
    uint32_t      n_layers, width;
    size_t        stride; /* floats of one layer */
} hidden_rows;

static void keep_hidden(void *user, uint32_t layer_index, const float *x, uint32_t n_rows)
{
    hidden_rows *h = user;
    memcpy(h->data + layer_index * h->stride, x, (size_t)n_rows * h->width * sizeof *x);
}

static weir_status hidden_new(hidden_rows *h, const weir_engine *e, weir_error *err)
{
    *h        = (hidden_rows){.n_layers = e->m.config.n_layers, .width = e->m.config.hidden_size};
    h->stride = (size_t)e->info.chunk * h->width;
    h->data   = mem_alloc(h->n_layers * h->stride, sizeof *h->data);
    h->layer  = mem_alloc(h->n_layers, sizeof *h->layer);
    if (h->data != NULL && h->layer != NULL) return WEIR_OK;
    return status_fail(err, WEIR_NO_MEMORY, "hidden rows: out of memory");
}

static void hidden_free(hidden_rows *h)
{
    mem_free(h->data);
    mem_free(h->layer);
}

/* Rows of one step on their way to the callback. */
typedef struct handing_out {
    weir_sequence *s;
    hidden_rows   *h;
    weir_rows_fn  *rows;
    void          *user;
    uint32_t       seen; /* rows that the callback has had */
    bool           stop; /* it asked to stop */
} handing_out;

/* Hands out the n rows of the last step, HEAD_ROWS at a time. */
static weir_status hand_out(handing_out *o, uint32_t n, weir_error *err)
{
    weir_engine       *e = o->s->e;
    const hidden_rows *h = o->h;
    const size_t       V = e->m.config.vocab_size;
    for (o->seen = 0; o->seen < n && !o->stop;) {
        const uint32_t i = o->seen, count = n - i < HEAD_ROWS ? n - i : HEAD_ROWS;
        weir_rows      r = {.first_position = sequence_length(o->s->q) + i, .n = count};
        TRY(batch_logits(e, e->rows + i, count, &r.logits, err));
        if (h->layer != NULL) {
            for (uint32_t l = 0; l < h->n_layers; l++) h->layer[l] = h->data + l * h->stride + (size_t)i * h->width;
            r.hidden = h->layer;
        }
        e->stepping = true;
        o->stop     = !o->rows(o->user, &r);
        e->stepping = false;
        o->seen += count;
        if (o->seen == n) memcpy(o->s->logits, r.logits + (count - 1) * V, V * sizeof *r.logits);
    }
    return WEIR_OK;
}

static weir_status score(handing_out *o, const uint32_t *ids, uint32_t n, weir_error *err)
{
    weir_sequence  *s   = o->s;
    const model_tap tap = {.fn = keep_hidden, .user = o->h};
    for (uint32_t done = 0; done < n;) {
        const uint32_t now = n - done < s->e->info.chunk ? n - done : s->e->info.chunk;
        TRY(forward(s, ids + done, now, o->h->data != NULL ? &tap : NULL, err));
        TRY(hand_out(o, now, err));
        if (o->seen < now) TRY(take_logits(s, now - 1, err));
        TRY(batch_commit(s->e, err));
        if (o->stop && done + o->seen < n)
            return status_fail(err, WEIR_CANCELLED, "stopped after %u of %u tokens", done + o->seen, n);
        done += now;
    }
    return WEIR_OK;
}

weir_status weir_sequence_score(weir_sequence *s, const uint32_t *ids, size_t n, bool hidden, weir_rows_fn *rows,
                                void *user, weir_error *err)
{
    TRY(check_ids(s, ids, n, err));
    hidden_rows h  = {0};
    handing_out o  = {.s = s, .h = &h, .rows = rows, .user = user};
    weir_status st = hidden ? hidden_new(&h, s->e, err) : WEIR_OK;
    if (st == WEIR_OK) st = score(&o, ids, (uint32_t)n, err);
    hidden_free(&h);
    return st;
}

/* ---- snapshots ---- */

weir_status weir_sequence_snapshot(const weir_sequence *s, weir_snapshot **out, weir_error *err)
{
    *out = NULL;
    TRY(engine_idle(s->e, "snapshot", err));
    if (s->broken) return status_fail(err, WEIR_INVALID, "snapshot: a step of the sequence failed");
    const uint32_t length = sequence_length(s->q), vocab = s->e->m.config.vocab_size;
    weir_snapshot *p = mem_zalloc(1, sizeof *p);
    if (p != NULL) {
        p->e      = s->e;
        p->length = length;
        p->tokens = mem_alloc(length, sizeof *p->tokens);
        p->state  = mem_alloc(state_size(s->e->st), 1);
        p->logits = mem_alloc(vocab, sizeof *p->logits);
    }
    if (p == NULL || p->tokens == NULL || p->state == NULL || p->logits == NULL) {
        weir_snapshot_free(p);
        return status_fail(err, WEIR_NO_MEMORY, "snapshot: out of memory");
    }
    memcpy(p->origin, s->adapters.origin, sizeof p->origin);
    memcpy(p->tokens, sequence_tokens(s->q), length * sizeof *p->tokens);
    memcpy(p->logits, s->logits, vocab * sizeof *p->logits);
    sequence_save(s->q, p->state);
    *out = p;
    return WEIR_OK;
}

void weir_snapshot_free(weir_snapshot *snap)
{
    if (snap == NULL) return;
    mem_free(snap->tokens);
    mem_free(snap->state);
    mem_free(snap->logits);
    mem_free(snap);
}

uint32_t weir_snapshot_length(const weir_snapshot *snap)
{
    return snap->length;
}

weir_status weir_sequence_rewind(weir_sequence *s, const weir_snapshot *snap, weir_error *err)
{
    TRY(engine_idle(s->e, "rewind", err));
    if (snap->e != s->e)
        return status_fail(err, WEIR_INVALID, "rewind: the snapshot is of a sequence of another engine");
    if (memcmp(snap->origin, s->adapters.origin, sizeof snap->origin) != 0)
        return status_fail(err, WEIR_INVALID, "rewind: the snapshot is of a sequence with other adapters");
    if (snap->length > sequence_length(s->q) ||
        memcmp(snap->tokens, sequence_tokens(s->q), snap->length * sizeof *snap->tokens) != 0)
        return status_fail(err, WEIR_INVALID, "rewind: expected a sequence that begins with the snapshot's %u tokens",
                           snap->length);
    sequence_restore(s->q, snap->length, snap->state);
    s->broken   = false;
    s->mtp_made = mtp_made_at(snap->length);
    memcpy(s->logits, snap->logits, s->e->m.config.vocab_size * sizeof *s->logits);
    return WEIR_OK;
}
