/* engine/batch.c - see batch.h. */
#include "engine/batch.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

uint64_t batch_bytes(uint32_t max_items, uint32_t max_rows)
{
    const uint64_t rows = batch_mtp_rows(max_items, max_rows);
    return max_items * (uint64_t)(sizeof(batch_item) + 2 * sizeof(k_span) + sizeof(uint32_t)) +
           rows * 3 * sizeof(uint32_t);
}

weir_status batch_new(batch *b, uint32_t max_items, uint32_t max_rows, weir_error *err)
{
    const uint32_t rows = batch_mtp_rows(max_items, max_rows);
    *b                  = (batch){.max_items = max_items, .max_rows = max_rows};
    b->items            = mem_alloc(max_items, sizeof *b->items);
    b->spans            = mem_alloc(max_items, sizeof *b->spans);
    b->more             = mem_alloc(max_items, sizeof *b->more);
    b->drafted          = mem_alloc(max_items, sizeof *b->drafted);
    b->ids              = mem_alloc(rows, sizeof *b->ids);
    b->mtp_ids          = mem_alloc(rows, sizeof *b->mtp_ids);
    b->mtp_from         = mem_alloc(rows, sizeof *b->mtp_from);
    if (b->items != NULL && b->spans != NULL && b->more != NULL && b->drafted != NULL && b->ids != NULL &&
        b->mtp_ids != NULL && b->mtp_from != NULL)
        return WEIR_OK;
    batch_free(b);
    return status_fail(err, WEIR_NO_MEMORY, "batch: out of memory");
}

void batch_free(batch *b)
{
    mem_free(b->items);
    mem_free(b->spans);
    mem_free(b->more);
    mem_free(b->drafted);
    mem_free(b->ids);
    mem_free(b->mtp_ids);
    mem_free(b->mtp_from);
    *b = (batch){0};
}

void batch_clear(weir_engine *e)
{
    e->batch.n_items = e->batch.n_rows = 0;
    state_begin_step(e->st);
}

weir_status batch_add(weir_engine *e, weir_sequence *s, const uint32_t *ids, uint32_t n, bool window, batch_item **out,
                      weir_error *err)
{
    batch *b = &e->batch;
    if (b->n_items == b->max_items || n > b->max_rows - b->n_rows)
        return status_fail(err, WEIR_INVALID, "step: %u rows after %u in %u spans; %u in %u fit", n, b->n_rows,
                           b->n_items, b->max_rows, b->max_items);
    batch_item *it = &b->items[b->n_items];
    *it            = (batch_item){.s = s, .window = window, .mtp = true, .keep = n, .next = UINT32_MAX};
    TRY((window ? sequence_window : sequence_span)(s->q, ids, n, b->n_rows, &it->span, err));
    memcpy(b->ids + b->n_rows, ids, n * sizeof *ids);
    b->n_rows += n;
    b->n_items++;
    if (out != NULL) *out = it;
    return WEIR_OK;
}

void batch_abandon(weir_engine *e)
{
    batch *b = &e->batch;
    for (uint32_t i = 0; i < b->n_items; i++) {
        batch_item *it = &b->items[i];
        if (it->window) sequence_drop_window(it->s->q, &it->span);
        it->window = false;
    }
    b->n_items = b->n_rows = 0;
}

static weir_status finish(weir_engine *e, weir_error *err)
{
    const weir_status st = e->k->finish(e->k, err);
    if (st == WEIR_OK) return WEIR_OK;
    for (uint32_t i = 0; i < e->batch.n_items; i++) e->batch.items[i].s->broken = true;
    batch_abandon(e);
    return st;
}

/* The rows of the batch with adapter `a` at this place of their lists, as a run; true if there are any. */
static bool gather_run(const batch *b, uint32_t place, uint32_t a, lora_run *run, uint32_t *rows, float *scales)
{
    run->n = 0;
    for (uint32_t i = 0; i < b->n_items; i++) {
        const adapter_set *set = &b->items[i].s->adapters;
        if (place >= set->n || set->index[place] != a) continue;
        for (uint32_t j = 0; j < b->items[i].span.n; j++, run->n++) {
            rows[run->n]   = b->items[i].span.row + j;
            scales[run->n] = set->scale[place];
        }
    }
    run->rows   = rows;
    run->scales = scales;
    return run->n > 0;
}

/* The adapters of the batch's rows; NULL when none has any. */
static const lora_step *gather_adapters(weir_engine *e)
{
    adapter_bank *bank = &e->adapters;
    uint32_t      at   = 0;
    bank->step.n_runs  = 0;
    for (uint32_t place = 0; place < WEIR_MAX_ADAPTERS; place++)
        for (uint32_t a = 0; a < bank->n; a++) {
            lora_run *run = &bank->runs[bank->step.n_runs];
            if (!gather_run(&e->batch, place, a, run, bank->rows + at, bank->scales + at)) continue;
            run->adapter = &bank->loras[a];
            at += run->n;
            bank->step.n_runs++;
        }
    return bank->step.n_runs > 0 ? &bank->step : NULL;
}

weir_status batch_forward(weir_engine *e, const model_tap *tap, weir_error *err)
{
    batch *b = &e->batch;
    for (uint32_t i = 0; i < b->n_items; i++) b->spans[i] = b->items[i].span;
    e->step       = (k_step){.n_rows = b->n_rows, .n_spans = b->n_items, .ids = b->ids, .spans = b->spans};
    e->w.adapters = gather_adapters(e);
    model_forward(&e->m, e->k, &e->step, e->st, &e->w, tap);
    e->w.adapters = NULL; /* MTP guesses without */
    return finish(e, err);
}

weir_status batch_logits(weir_engine *e, const uint32_t *rows, uint32_t n, const float **out, weir_error *err)
{
    model_head(&e->m, e->k, &e->w, rows, n);
    *out = e->k->buf_host(e->k, e->w.logits);
    return finish(e, err);
}

/* ---- moving on ---- */

/* The part of every window that stays, where it is not all of it, is run through
 * the recurrence once more. */
static void commit_sequences(weir_engine *e)
{
    batch   *b = &e->batch;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_items; i++) {
        batch_item *it = &b->items[i];
        if (!it->window)
            sequence_commit(it->s->q, it->span.n);
        else if (sequence_keep(it->s->q, &it->span, it->keep, &b->more[n]))
            n++;
        it->window = false; /* a failure from here on has no spare slot to give back */
    }
    if (n == 0) return;
    e->step = (k_step){.n_rows = state_n_recorded(e->st), .n_spans = n, .spans = b->more};
    model_replay(&e->m, e->k, &e->step, e->st, &e->w);
}

/* ---- MTP ----
 *
 * Its row t pairs the hidden row of position t with the token at t + 1.  The
 * hidden rows of the last positions wait in the sequence's slot (state_carry,
 * position t in row t % MTP_LAG) until that token is known and the head is
 * wanted: where nobody drafts, many rows at a time cost little. */

/* The row of state_carry where the hidden row of a position waits. */
static uint32_t carry_row(uint32_t slot, uint32_t position)
{
    return slot * MTP_LAG + position % MTP_LAG;
}

/* Settles whose rows are made now: where they are wanted, and where no more may wait. */
static void choose_mtp(batch *b)
{
    for (uint32_t i = 0; i < b->n_items; i++) {
        batch_item    *it    = &b->items[i];
        const uint32_t begin = it->span.position;
        /* A sequence that took over another's memory has that one's rows, but for the last. */
        if (begin - it->s->mtp_made > MTP_LAG) it->s->mtp_made = mtp_made_at(begin);
        if (begin + it->keep - it->s->mtp_made > MTP_LAG) it->mtp = true;
        it->drafted_row = UINT32_MAX;
    }
}

/* One pass over the positions mtp_made .. end-1 of each item, whose hidden rows
 * are in `from`; `from_step`: they are the step's own. */
static weir_status mtp_pass(weir_engine *e, bool from_step, weir_error *err)
{
    batch   *b    = &e->batch;
    uint32_t rows = 0, n = 0;
    for (uint32_t i = 0; i < b->n_items; i++) {
        batch_item    *it    = &b->items[i];
        weir_sequence *s     = it->s;
        const uint32_t begin = it->span.position, length = begin + it->keep;
        const uint32_t known = it->next != UINT32_MAX ? length : length - 1; /* pairs that are complete */
        const uint32_t from = s->mtp_made, end = from_step ? known : begin < known ? begin : known;
        if (!it->mtp || from >= end) continue;
        const uint32_t *tokens = sequence_tokens(s->q);
        TRY(sequence_aside(s->q, from, end - from, rows, &b->more[n++], err));
        for (uint32_t t = from; t < end; t++, rows++) {
            b->mtp_ids[rows]  = t + 1 < length ? tokens[t + 1] : it->next;
            b->mtp_from[rows] = from_step ? it->span.row + (t - begin) : carry_row(it->span.slot_in, t);
        }
        s->mtp_made     = end;
        it->drafted_row = rows - 1;
    }
    if (rows == 0) return WEIR_OK;
    e->step = (k_step){.n_rows = rows, .n_spans = n, .ids = b->mtp_ids, .spans = b->more};
    model_mtp(&e->m, e->k, &e->step, e->st, &e->w, from_step ? e->w.hidden : state_carry(e->st), b->mtp_from);
    return WEIR_OK;
}

/* What a later step will need: the last hidden row, or all where MTP waits. */
static void leave_carried(weir_engine *e)
{
    batch   *b = &e->batch;
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_items; i++) {
        const batch_item *it = &b->items[i];
        for (uint32_t j = it->mtp ? it->keep - 1 : 0; j < it->keep; j++, n++) {
            b->mtp_ids[n]  = carry_row(sequence_slot(it->s->q), it->span.position + j); /* the list of where to */
            b->mtp_from[n] = it->span.row + j;
        }
    }
    e->k->copy_rows(e->k, state_carry(e->st), b->mtp_ids, e->w.hidden, b->mtp_from, e->m.config.hidden_size, n);
}

weir_status batch_commit(weir_engine *e, weir_error *err)
{
    commit_sequences(e);
    if (e->m.config.mtp) {
        const uint64_t start = clock_ns();
        choose_mtp(&e->batch);
        TRY(mtp_pass(e, false, err));
        e->batch.catch_up_ns = clock_ns() - start;
        leave_carried(e);
        TRY(mtp_pass(e, true, err));
    }
    return finish(e, err);
}
