/* engine/sequence_api.c - weir/sequence.h: reading tokens, chunk by chunk. */
#include "base/mem.h"
#include "engine/engine_parts.h"

#include <string.h>

weir_status weir_sequence_new(weir_sequence **out, weir_engine *e, weir_error *err)
{
    *out             = NULL;
    weir_sequence *s = mem_zalloc(1, sizeof *s);
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
    s->e           = e;
    s->logits      = mem_alloc(e->m.config.vocab_size, sizeof *s->logits);
    weir_status st = s->logits == NULL ? status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory")
                                       : sequence_new(&s->q, e->st, err);
    if (st != WEIR_OK)
        weir_sequence_free(s);
    else
        *out = s;
    return st;
}

void weir_sequence_free(weir_sequence *s)
{
    if (s == NULL) return;
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
    s->broken = false;
}

static weir_status check_ids(const weir_sequence *s, const uint32_t *ids, size_t n, weir_error *err)
{
    const uint32_t vocab = s->e->m.config.vocab_size, room = s->e->info.max_context - sequence_length(s->q);
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

/* Starts a step over n tokens of this sequence; w->x holds the rows afterwards. */
static weir_status start_step(weir_sequence *s, const uint32_t *ids, uint32_t n, const model_tap *tap, weir_error *err)
{
    weir_engine *e = s->e;
    TRY(sequence_span(s->q, ids, n, 0, &e->span, err));
    e->step = (k_step){.n_rows = n, .n_spans = 1, .ids = ids, .spans = &e->span};
    model_forward(&e->m, e->k, &e->step, e->st, &e->w, tap);
    return WEIR_OK;
}

static weir_status finish_step(weir_sequence *s, weir_error *err)
{
    const weir_status st = s->e->k->finish(s->e->k, err);
    s->broken            = st != WEIR_OK;
    if (st == WEIR_OK) sequence_commit(s->q, s->e->span.n);
    return st;
}

/* The logits of one row of the last step become the sequence's. */
static void take_logits(weir_sequence *s, uint32_t row)
{
    weir_engine *e = s->e;
    model_head(&e->m, e->k, &e->w, &e->rows[row], 1);
    e->k->buf_read(e->k, e->w.logits, 0, s->logits, e->m.config.vocab_size * sizeof(float));
}

weir_status weir_sequence_append(weir_sequence *s, const uint32_t *ids, size_t n, weir_progress_fn *progress,
                                 void *user, weir_error *err)
{
    TRY(check_ids(s, ids, n, err));
    const uint32_t total = (uint32_t)n, chunk = s->e->info.chunk;
    for (uint32_t done = 0; done < total;) {
        const uint32_t now = total - done < chunk ? total - done : chunk;
        TRY(start_step(s, ids + done, now, NULL, err));
        done += now;
        /* Who stops early wants the logits there: the head of one row is cheap beside a chunk. */
        if (done == total || progress != NULL) take_logits(s, now - 1);
        TRY(finish_step(s, err));
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

/* Hands out the rows of the last step, HEAD_ROWS at a time; returns how many
 * the callback saw before it asked to stop, or all n. */
static uint32_t hand_out(weir_sequence *s, uint32_t n, const hidden_rows *h, weir_rows_fn *rows, void *user, bool *stop)
{
    weir_engine   *e     = s->e;
    const uint64_t bytes = e->m.config.vocab_size * sizeof(float);
    for (uint32_t i = 0; i < n; i += HEAD_ROWS) {
        const uint32_t count = n - i < HEAD_ROWS ? n - i : HEAD_ROWS;
        model_head(&e->m, e->k, &e->w, e->rows + i, count);
        weir_rows r = {
            .first_position = sequence_length(s->q) + i, .n = count, .logits = e->k->buf_host(e->k, e->w.logits)};
        if (h->layer != NULL) {
            for (uint32_t l = 0; l < h->n_layers; l++) h->layer[l] = h->data + l * h->stride + (size_t)i * h->width;
            r.hidden = h->layer;
        }
        *stop = !rows(user, &r);
        if (*stop) return i + count;
    }
    e->k->buf_read(e->k, e->w.logits, (n - 1) % HEAD_ROWS * bytes, s->logits, bytes);
    return n;
}

static weir_status score(weir_sequence *s, const uint32_t *ids, uint32_t n, hidden_rows *h, weir_rows_fn *rows,
                         void *user, weir_error *err)
{
    const model_tap tap = {.fn = keep_hidden, .user = h};
    for (uint32_t done = 0; done < n;) {
        const uint32_t now = n - done < s->e->info.chunk ? n - done : s->e->info.chunk;
        TRY(start_step(s, ids + done, now, h->data != NULL ? &tap : NULL, err));
        bool           stop = false;
        const uint32_t seen = hand_out(s, now, h, rows, user, &stop);
        if (stop) take_logits(s, now - 1);
        TRY(finish_step(s, err));
        if (stop && done + seen < n)
            return status_fail(err, WEIR_CANCELLED, "stopped after %u of %u tokens", done + seen, n);
        done += now;
    }
    return WEIR_OK;
}

weir_status weir_sequence_score(weir_sequence *s, const uint32_t *ids, size_t n, bool hidden, weir_rows_fn *rows,
                                void *user, weir_error *err)
{
    TRY(check_ids(s, ids, n, err));
    hidden_rows h  = {0};
    weir_status st = hidden ? hidden_new(&h, s->e, err) : WEIR_OK;
    if (st == WEIR_OK) st = score(s, ids, (uint32_t)n, &h, rows, user, err);
    hidden_free(&h);
    return st;
}

/* ---- snapshots ---- */

weir_status weir_sequence_snapshot(const weir_sequence *s, weir_snapshot **out, weir_error *err)
{
    *out = NULL;
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
    if (snap->e != s->e)
        return status_fail(err, WEIR_INVALID, "rewind: the snapshot is of a sequence of another engine");
    if (snap->length > sequence_length(s->q) ||
        memcmp(snap->tokens, sequence_tokens(s->q), snap->length * sizeof *snap->tokens) != 0)
        return status_fail(err, WEIR_INVALID, "rewind: expected a sequence that begins with the snapshot's %u tokens",
                           snap->length);
    sequence_restore(s->q, snap->length, snap->state);
    s->broken = false;
    memcpy(s->logits, snap->logits, s->e->m.config.vocab_size * sizeof *s->logits);
    return WEIR_OK;
}
