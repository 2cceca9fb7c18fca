/* load/describe.c - sizes that names and shapes alone tell. */
#include "load/load.h"

#include <stdio.h>
#include <string.h>

/* Multiply-adds of one token in the matrices of one layer; `active` experts. */
static uint64_t layer_macs(const model_config *c, config_layer kind, uint64_t active)
{
    const uint64_t H = c->hidden_size, V = (uint64_t)c->delta.value_heads * c->delta.value_dim;
    const uint64_t q     = (uint64_t)c->attention.heads * c->attention.head_dim;
    const uint64_t kv    = (uint64_t)c->attention.kv_heads * c->attention.head_dim;
    const uint64_t mixer = kind == CONFIG_FULL
                               ? H * (2 * q + 2 * kv) + H * q
                               : H * k_delta_channels(&c->delta) + H * V + 2 * H * c->delta.value_heads + H * V;
    if (c->n_experts == 0) return mixer + 3 * H * c->intermediate_size;
    return mixer + H * c->n_experts + 3 * H * c->expert_size * active + 3 * H * c->shared_size + H;
}

/* Vectors and taps of one layer. */
static uint64_t layer_vectors(const model_config *c, config_layer kind)
{
    const k_delta_shape *d = &c->delta;
    return 2 * (uint64_t)c->hidden_size + (kind == CONFIG_FULL ? 2 * (uint64_t)c->attention.head_dim
                                                               : (uint64_t)k_delta_channels(d) * d->conv_kernel +
                                                                     2 * (uint64_t)d->value_heads + d->value_dim);
}

/* Is this one of the experts' tensors, of which a token reads but a few? */
static bool is_expert(const checkpoint_tensor *t)
{
    return strstr(t->name, ".experts.") != NULL || strstr(t->name, ".switch_mlp.") != NULL;
}

/* Is it the packed weight of a module, and in which form? */
static bool form_of(const checkpoint *c, const checkpoint_tensor *t, config_quant_form *form)
{
    char         module[256];
    bool         quantised = false;
    const size_t len       = strlen(t->name);
    if (len <= 7 || strcmp(t->name + len - 7, ".weight") != 0) return false;
    (void)snprintf(module, sizeof module, "%.*s", (int)(len - 7), t->name);
    return checkpoint_quant(c, t->part, module, &quantised, form, NULL) == WEIR_OK && quantised;
}

/* "affine4 g64" or "mxfp4" for a packed tensor, its type's name otherwise. */
static void format_name(char *out, size_t size, const checkpoint *c, const checkpoint_tensor *t)
{
    config_quant_form form;
    if (form_of(c, t, &form)) {
        const char *mode = config_quant_mode_name(form.mode);
        if (form.mode == CONFIG_QUANT_AFFINE && form.bits != 0 && form.group != 0)
            (void)snprintf(out, size, "%s%u g%u", mode, form.bits, form.group);
        else
            (void)snprintf(out, size, "%s", mode);
        return;
    }
    (void)snprintf(out, size, "%s", t->type_name);
    for (char *p = out; *p != '\0'; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
}

/* Behind the format of the others: ", trellis3" or ", trellis2-4", if there are such codes. */
static void add_trellis(char *out, size_t size, const checkpoint *ck)
{
    uint32_t least = 0, most = 0;
    for (size_t i = 0; i < checkpoint_count(ck); i++) {
        config_quant_form        form;
        const checkpoint_tensor *t = checkpoint_at(ck, i);
        if (t->part != CHECKPOINT_TRUNK || !form_of(ck, t, &form) || form.mode != CONFIG_QUANT_TRELLIS) continue;
        if (form.bits > most) most = form.bits;
        if (form.bits != 0 && (least == 0 || form.bits < least)) least = form.bits;
    }
    const size_t n = strlen(out);
    if (most == 0 || strncmp(out, "trellis", 7) == 0) return;
    (void)snprintf(out + n, size - n, least == most ? ", trellis%u" : ", trellis%u-%u", least, most);
}

void load_describe(load_description *out, const checkpoint *ck)
{
    memset(out, 0, sizeof *out);
    const config      *file = checkpoint_config(ck);
    const model_config c    = load_config(file, false);
    const uint64_t     head = (uint64_t)c.vocab_size * c.hidden_size;
    for (uint32_t i = 0; i < c.n_layers; i++) {
        const uint64_t vectors = layer_vectors(&c, file->layers[i]);
        out->parameters += layer_macs(&c, file->layers[i], c.n_experts) + vectors;
        out->active_parameters += layer_macs(&c, file->layers[i], c.experts_per_token) + vectors;
        out->macs_per_token += layer_macs(&c, file->layers[i], c.experts_per_token);
    }
    out->macs_per_token += head;
    const uint64_t embeddings = c.hidden_size + head * (file->tie_word_embeddings ? 1 : 2);
    out->parameters += embeddings;
    out->active_parameters += embeddings;

    uint64_t largest = 0;
    for (size_t i = 0; i < checkpoint_count(ck); i++) {
        const checkpoint_tensor *t = checkpoint_at(ck, i);
        if (t->part == CHECKPOINT_MTP && load_has_mtp(ck)) out->mtp_bytes += t->bytes;
        if (t->part != CHECKPOINT_TRUNK && (t->part != CHECKPOINT_HEAD || file->tie_word_embeddings)) continue;
        out->weights_bytes += t->bytes;
        const bool embedding = strncmp(t->name, "embed_tokens.", 13) == 0;
        if (c.n_experts > 0 && is_expert(t))
            out->bytes_per_token += t->bytes / c.n_experts * c.experts_per_token;
        else if (embedding && !file->tie_word_embeddings)
            out->bytes_per_token += t->bytes / c.vocab_size;
        else
            out->bytes_per_token += t->bytes;
        if (t->bytes > largest && !embedding && t->part == CHECKPOINT_TRUNK) {
            largest = t->bytes;
            format_name(out->format, sizeof out->format, ck, t);
        }
    }
    add_trellis(out->format, sizeof out->format, ck);
}
