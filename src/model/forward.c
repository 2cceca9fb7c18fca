/* model/forward.c - one step through the text model, top to bottom. */
#include "model/model.h"

void model_linear(const layer *l, kernels *k, const work *w, const k_buf *x, uint32_t rows, const k_linear_job *jobs,
                  const lora_target *targets, uint32_t n_jobs)
{
    k->linear(k, x, rows, jobs, n_jobs);
    lora_add(w->adapters, &w->adapted, k, l->number, x, jobs, targets, n_jobs);
}

void model_layer(const model *m, const layer *l, kernels *k, const k_step *s, const state *st, work *w)
{
    const model_config *c = &m->config;
    const uint32_t      T = s->n_rows, H = c->hidden_size;

    k->rmsnorm(k, w->h, w->x, l->input_norm, H, c->eps, T); /* h [T,H] */
    if (l->kind == LAYER_DELTA)
        model_delta(m, l, k, s, st, w); /* o [T,H], recurrent state */
    else
        model_attention(m, l, k, s, st, w); /* o [T,H], KV pages */
    k->add(k, w->x, w->o, H, T);

    k->rmsnorm(k, w->h, w->x, l->post_norm, H, c->eps, T);
    if (c->n_experts > 0)
        model_moe(m, l, k, s, w); /* o [T,H] */
    else
        model_mlp(m, l, k, s, w);
    k->add(k, w->x, w->o, H, T);
}

void model_forward(const model *m, kernels *k, const k_step *s, const state *st, work *w, const model_tap *tap)
{
    const model_config *c = &m->config;
    const uint32_t      T = s->n_rows, H = c->hidden_size;

    k->begin(k, s);
    k->embed(k, w->x, m->embed); /* x [T,H]: the residual stream */
    for (uint32_t i = 0; i < c->n_layers; i++) {
        model_layer(m, &m->layers[i], k, s, st, w);
        if (tap != NULL) tap->fn(tap->user, i, k->buf_host(k, w->x), T);
    }
    if (!c->mtp) return;
    if (m->mtp_pre_norm)
        k->copy_rows(k, w->hidden, NULL, w->x, NULL, H, T);
    else
        k->rmsnorm(k, w->hidden, w->x, m->final_norm, H, c->eps, T); /* hidden [T,H] */
}

/* The widest product of all: only for rows someone will read. */
void model_head(const model *m, kernels *k, work *w, const uint32_t *rows, uint32_t n)
{
    const uint32_t H = m->config.hidden_size;
    k->copy_rows(k, w->h, NULL, w->x, rows, H, n); /* h [n,H] */
    k->rmsnorm(k, w->h, w->h, m->final_norm, H, m->config.eps, n);
    k->linear(k, w->h, n, &(k_linear_job){m->head, w->logits}, 1); /* logits [n,vocab] */
}
