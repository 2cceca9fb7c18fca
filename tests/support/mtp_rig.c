/* tests/support/mtp_rig.c - a model with its MTP head on a backend, without the engine. */
#include "support/mtp_rig.h"

#include "engine/kv_forms.h"
#include "kernels/open.h"
#include "state/state_parts.h"
#include "support/cmocka.h"

#include <string.h>

enum { MAX_ROTARY = 256, MAX_GUESSES = 1024 };

static void reserve(mtp_rig *r, const config *file)
{
    weir_error          err;
    double              inv_freq[MAX_ROTARY / 2];
    const model_config *c        = &r->m.config;
    k_limits            l        = {.max_rows          = r->opt.max_rows,
                                    .max_positions     = r->opt.max_positions,
                                    .experts           = c->n_experts,
                                    .experts_per_token = c->experts_per_token,
                                    .expert_cols       = c->expert_size,
                                    .attention         = c->attention,
                                    .delta             = c->delta,
                                    .inv_freq          = inv_freq};
    const uint32_t      inputs[] = {2 * c->hidden_size, c->intermediate_size, c->shared_size,
                                    c->delta.value_heads * c->delta.value_dim, c->attention.heads * c->attention.head_dim};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        l.max_cols = inputs[i] > l.max_cols ? inputs[i] : l.max_cols;
    assert_true(c->attention.rotary_dim <= MAX_ROTARY);
    must(load_rope(file, inv_freq, &l.rope_scale, &err), &err);
    must(r->k->reserve(r->k, &l, &err), &err);
}

void rig_open(mtp_rig *r, const weir_model *m, rig_options opt)
{
    weir_error err;
    *r = (mtp_rig){.opt = opt};
    assert_true(load_has_mtp(m->c));
    must(kernels_open(&r->k, "cpu", opt.threads, opt.isa, &err), &err);
    must(load_model(&r->m, r->k, m->c, true, &err), &err);
    reserve(r, checkpoint_config(m->c));
    const model_config      *c = &r->m.config;
    const k_delta_shape     *d = &c->delta;
    const k_attention_shape *a = &c->attention;
    kv_forms                 kv;
    must(kv_forms_named(&kv, opt.kv, model_cached_layers(c), a->head_dim, &err), &err);
    const state_limits l = {.delta_layers     = c->n_delta_layers,
                            .attention_layers = model_cached_layers(c),
                            .tail_bytes       = (uint64_t)(d->conv_kernel - 1) * k_delta_channels(d) * sizeof(float),
                            .recurrent_bytes  = (uint64_t)d->value_heads * d->value_dim * d->key_dim * sizeof(float),
                            .kv_heads         = a->kv_heads,
                            .head_dim         = a->head_dim,
                            .kv               = kv.layer,
                            .max_sequences    = opt.max_sequences,
                            .max_positions    = opt.max_positions,
                            .pages            = opt.max_sequences * ((opt.max_positions + K_PAGE - 1) / K_PAGE)};
    must(state_new(&r->st, r->k, &l, &err), &err);
    const work_limits w = {.max_rows = opt.max_rows, .max_wanted = opt.max_rows};
    must(work_new(&r->w, r->k, c, &w, &err), &err);
}

void rig_close(mtp_rig *r)
{
    work_free(&r->w, r->k);
    state_free(r->st);
    load_free(&r->m, r->k);
    r->k->close(r->k);
}

sequence *rig_sequence(mtp_rig *r)
{
    weir_error err;
    sequence  *q;
    must(sequence_new(&q, r->st, 0, &err), &err);
    return q;
}

k_span rig_span(sequence *q, uint32_t position, uint32_t n, uint32_t row)
{
    static const uint32_t none[MAX_GUESSES];
    weir_error            err;
    k_span                span;
    const uint32_t        end = position + n;
    assert_true(n <= MAX_GUESSES);
    if (end > q->length) must(sequence_span(q, none, end - q->length, row, &span, &err), &err); /* takes the pages */
    return (k_span){.row = row, .n = n, .position = position, .pages = q->pages};
}

void rig_forward(mtp_rig *r, const k_step *s)
{
    weir_error err;
    model_forward(&r->m, r->k, s, r->st, &r->w, NULL);
    must(r->k->finish(r->k, &err), &err);
}

void rig_mtp(mtp_rig *r, const k_step *s, const k_buf *from, const uint32_t *rows)
{
    weir_error err;
    model_mtp(&r->m, r->k, s, r->st, &r->w, from, rows);
    must(r->k->finish(r->k, &err), &err);
}

void rig_read(mtp_rig *r, sequence *q, const uint32_t *ids, uint32_t n)
{
    weir_error err;
    k_span     span;
    must(sequence_span(q, ids, n, 0, &span, &err), &err);
    rig_forward(r, &(k_step){.n_rows = n, .n_spans = 1, .ids = ids, .spans = &span});
    sequence_commit(q, n);
}

void rig_guess(mtp_rig *r, sequence *q, uint32_t position, const uint32_t *ids, uint32_t n, const k_buf *from,
               const uint32_t *rows)
{
    const k_span span = rig_span(q, position, n, 0);
    rig_mtp(r, &(k_step){.n_rows = n, .n_spans = 1, .ids = ids, .spans = &span}, from, rows);
}

const float *rig_floats(const mtp_rig *r, const k_buf *b)
{
    return r->k->buf_host(r->k, b);
}
