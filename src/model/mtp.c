/* model/mtp.c - the multi-token-prediction head: one more layer that guesses the
 * token after the next.
 *
 * Its output takes the place of the trunk's hidden row when it guesses further. */
#include "model/model.h"

void model_mtp(const model *m, kernels *k, const k_step *s, const state *st, work *w, const k_buf *from,
               const uint32_t *rows)
{
    const mtp_weights *p = &m->mtp;
    const uint32_t     T = s->n_rows, H = m->config.hidden_size;
    const float        eps = m->config.eps;

    k->begin(k, s);
    k->copy_rows(k, w->o, NULL, from, rows, H, T); /* o [T,H]: hidden rows of t */
    k->embed(k, w->x, m->embed);                   /* x [T,H]: tokens of t+1 */
    k->rmsnorm(k, w->o, w->o, p->norm_hidden, H, eps, T);
    k->rmsnorm(k, w->x, w->x, p->norm_embedding, H, eps, T);
    k->concat(k, w->pair, w->x, w->o, H, T); /* pair [T,2H] */
    k->linear(k, w->pair, T, &(k_linear_job){p->fc, w->x}, 1);
    model_layer(m, &p->block, k, s, st, w);              /* x [T,H], KV pages */
    k->rmsnorm(k, w->drafted, w->x, p->norm, H, eps, T); /* drafted [T,H] */
}

void model_mtp_head(const model *m, kernels *k, work *w, const uint32_t *rows, uint32_t n)
{
    k->copy_rows(k, w->h, NULL, w->drafted, rows, m->config.hidden_size, n); /* h [n,H] */
    k->linear(k, w->h, n, &(k_linear_job){m->head, w->logits}, 1);           /* logits [n,vocab] */
}
