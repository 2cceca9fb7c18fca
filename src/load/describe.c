/* load/describe.c - sizes that names and shapes alone tell. */
#include "load/load.h"

#include <stdio.h>
#include <stdlib.h>
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

/* "affine4 g64", "trellis3" or "mxfp4" for a packed tensor, its type's name otherwise. */
static void format_name(char *out, size_t size, const checkpoint *c, const checkpoint_tensor *t)
{
    config_quant_form form;
    if (form_of(c, t, &form)) {
        const char *mode = config_quant_mode_name(form.mode);
        if (form.mode == CONFIG_QUANT_AFFINE && form.bits != 0 && form.group != 0)
            (void)snprintf(out, size, "%s%u g%u", mode, form.bits, form.group);
        else if (form.mode == CONFIG_QUANT_TRELLIS && form.bits != 0)
            (void)snprintf(out, size, "%s%u", mode, form.bits);
        else
            (void)snprintf(out, size, "%s", mode);
        return;
    }
    (void)snprintf(out, size, "%s", t->type_name);
    for (char *p = out; *p != '\0'; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
}

static bool ends_in(const char *s, size_t n, const char *tail)
{
    const size_t t = strlen(tail);
    return n > t && strcmp(s + n - t, tail) == 0;
}

/* What a packed weight has beside it counts with the weight; NULL: t is a weight of its own. */
static const checkpoint_tensor *owner_of(const checkpoint *c, const checkpoint_tensor *t)
{
    static const char *const tails[] = {".scales", ".biases"};
    const size_t             n       = strlen(t->name);
    char                     weight[256];
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        if (!ends_in(t->name, n, tails[i])) continue;
        (void)snprintf(weight, sizeof weight, "%.*s.weight", (int)(n - strlen(tails[i])), t->name);
        return checkpoint_find(c, t->part, weight);
    }
    return NULL;
}

/* The entry of that name, made if need be. */
static load_format *format_entry(load_description *d, const char *name)
{
    for (uint32_t i = 0; i < d->n_formats; i++)
        if (strcmp(d->formats[i].name, name) == 0) return &d->formats[i];
    if (d->n_formats == LOAD_MAX_FORMATS) {
        load_format *last = &d->formats[LOAD_MAX_FORMATS - 1];
        (void)snprintf(last->name, sizeof last->name, "other");
        return last;
    }
    load_format *f = &d->formats[d->n_formats++];
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

static void count_format(load_description *d, const checkpoint *c, const checkpoint_tensor *t)
{
    char                     name[sizeof d->formats[0].name];
    const checkpoint_tensor *owner = owner_of(c, t);
    format_name(name, sizeof name, c, owner != NULL ? owner : t);
    load_format *f = format_entry(d, name);
    f->bytes += t->bytes;
    f->n += owner == NULL;
}

static int by_bytes(const void *a, const void *b)
{
    const load_format *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->name, y->name);
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
        count_format(out, ck, t);
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
    qsort(out->formats, out->n_formats, sizeof *out->formats, by_bytes);
}
