/* engine/identity.c - see identity.h. */
#include "engine/identity.h"

#include "base/str.h"

#include <inttypes.h>
#include <string.h>

/* To be raised with any change of the order of operations, and of what DISK_STATE, DISK_KV
 * or a sequence's file hold. */
enum { NUMERICS_REVISION = 1 };

enum { MAX_TEXT = 16 << 20, SAMPLE_BYTES = 1024 };

/* ---- in words ---- */

static void put_sizes(str *s, const config *c)
{
    str_printf(s, "model %s hidden %u layers %u vocab %u mlp %u heads %u/%u dim %u eps %.17g tied %d\n", c->model_type,
               c->hidden_size, c->n_layers, c->vocab_size, c->intermediate_size, c->n_heads, c->n_kv_heads, c->head_dim,
               c->rms_norm_eps, c->tie_word_embeddings);
    str_puts(s, "kinds ");
    for (uint32_t i = 0; i < c->n_layers; i++) str_putc(s, c->layers[i] == CONFIG_FULL ? 'a' : 'd');
    str_printf(s, "\ndelta heads %u/%u dim %u/%u conv %u\n", c->linear_n_key_heads, c->linear_n_value_heads,
               c->linear_key_dim, c->linear_value_dim, c->conv_kernel);
    str_printf(s, "experts %d %u of %u size %u shared %u\n", c->is_moe, c->n_experts_per_token, c->n_experts,
               c->moe_intermediate_size, c->shared_intermediate_size);
}

static void put_rope(str *s, const config_rope *r)
{
    str_printf(s, "rope %d theta %.17g dim %u factor %.17g of %u beta %.17g %.17g attention %.17g\n", (int)r->type,
               r->theta, r->rotary_dim, r->factor, r->original_max_position, r->beta_fast, r->beta_slow,
               r->attention_factor);
    str_printf(s, "axes %u %u %u %d\n", r->mrope_section[0], r->mrope_section[1], r->mrope_section[2],
               r->mrope_interleaved);
}

static void put_form(str *s, const char *path, bool quantised, const config_quant_form *f)
{
    str_printf(s, "quant %s %d mode %d bits %u group %u", path, quantised, (int)f->mode, f->bits, f->group);
    if (f->mode == CONFIG_QUANT_TRELLIS) str_printf(s, " axis %u", f->axis);
    str_puts(s, "\n");
}

static void put_storage(str *s, const checkpoint *c)
{
    const config_quant          *q = &checkpoint_config(c)->quant;
    const checkpoint_convention *k = checkpoint_conventions(c);
    put_form(s, "all", q->present, &q->form);
    for (size_t i = 0; i < q->n_overrides; i++)
        put_form(s, q->overrides[i].path, q->overrides[i].quantised, &q->overrides[i].form);
    str_printf(s, "gains %d %d conv %d rates %d tiled %d\n", k->gain_minus_one, k->mtp_gain_minus_one,
               k->conv_channel_last, k->decay_is_rate, checkpoint_config(c)->linear_heads_tiled);
}

/* What the engine makes of it, and how its states lie in memory. */
static void put_engine(str *s, const plan *p, const char *backend)
{
    const state_limits *l = &p->state;
    str_printf(s, "weir %s numerics %d backend %s mtp %d pre-norm %d\n", weir_version(), NUMERICS_REVISION, backend,
               p->config.mtp, p->config.mtp && p->opt.mtp_pre_norm);
    str_printf(s, "kv start %u\n", l->early);
    for (uint32_t i = 0; i < p->kv.n; i++) {
        char name[KV_NAME_MAX];
        kv_layer_name(name, p->kv.layer[i]);
        str_printf(s, "kv %u %s\n", i, name);
    }
    str_printf(
        s, "block %d page %d layers %u %u tail %" PRIu64 " recurrent %" PRIu64 " kv %" PRIu64 " carry %" PRIu64 "\n",
        PREFIX_BLOCK, K_PAGE, l->delta_layers, l->attention_layers, l->tail_bytes, l->recurrent_bytes,
        state_page_bytes(l), l->carry_bytes);
}

/* ---- the hash ---- */

/* hash <- SHA-256 of hash and what is in s. */
static weir_status fold(uint8_t hash[STORE_KEY_BYTES], str *s, weir_error *err)
{
    str_put(s, hash, STORE_KEY_BYTES);
    TRY(str_status(s, "identity", err));
    TRY(store_sha256(hash, s->data, s->len, err));
    str_clear(s);
    return WEIR_OK;
}

/* Name, type, shape, and the first, middle and last of its bytes. */
static void put_tensor(str *s, const checkpoint_tensor *t)
{
    str_printf(s, "%d %s %s", (int)t->part, t->name, t->type_name);
    for (uint32_t i = 0; i < t->rank; i++) str_printf(s, " %" PRIu64, t->shape[i]);
    str_printf(s, " %" PRIu64 "\n", t->bytes);
    const uint64_t n        = t->bytes < SAMPLE_BYTES ? t->bytes : SAMPLE_BYTES;
    const uint64_t places[] = {0, (t->bytes - n) / 2, t->bytes - n};
    for (size_t i = 0; i < sizeof places / sizeof *places && n > 0; i++) str_put(s, t->data + places[i], n);
}

static bool takes_part(const plan *p, const checkpoint_tensor *t)
{
    return t->part == CHECKPOINT_TRUNK || t->part == CHECKPOINT_HEAD || (t->part == CHECKPOINT_MTP && p->config.mtp);
}

weir_status identity_of(uint8_t out[STORE_KEY_BYTES], const plan *p, const weir_model *m, const char *backend,
                        weir_error *err)
{
    const checkpoint *c = m->c;
    str               s;
    memset(out, 0, STORE_KEY_BYTES);
    str_init(&s, MAX_TEXT);
    put_engine(&s, p, backend);
    put_sizes(&s, checkpoint_config(c));
    put_rope(&s, &checkpoint_config(c)->rope);
    put_storage(&s, c);
    weir_status st = fold(out, &s, err);
    for (size_t i = 0; st == WEIR_OK && i < checkpoint_count(c); i++) {
        const checkpoint_tensor *t = checkpoint_at(c, i);
        if (!takes_part(p, t)) continue;
        put_tensor(&s, t);
        st = fold(out, &s, err);
    }
    str_free(&s);
    return st;
}
