/* engine/kv_forms.h - in which form the keys and values of every layer are cached.
 *
 * A form is written as its name, for affine ones with the group when it is not 64:
 * "bf16", "affine8", "affine4-32".  Keys and values may differ: "affine8,affine4".  "turbo" is a
 * pair of its own, for heads of 64, 128, 256 or 512 numbers. */
#ifndef ENGINE_KV_FORMS_H
#define ENGINE_KV_FORMS_H

#include "checkpoint/config.h"
#include "kernels/kernels.h"

enum { KV_NAME_MAX = 64, KV_MAX_LAYERS = CONFIG_MAX_LAYERS + 1 };

typedef struct kv_forms {
    uint32_t   n;                    /* layers with a cache of their own: those of the trunk, then MTP's */
    k_kv_layer layer[KV_MAX_LAYERS]; /* [n] */
} kv_forms;

/* One form for all n layers by its name; NULL is "bf16".  WEIR_INVALID with the names that heads of
 * head_dim numbers can have. */
weir_status kv_forms_named(kv_forms *out, const char *name, uint32_t n, uint32_t head_dim, weir_error *err);

/* Whether any layer's keys or values are in codes. */
bool kv_forms_coded(const kv_forms *f);

/* The name of a layer's form, and of all of them ("mixed" when layers differ). */
void kv_layer_name(char out[KV_NAME_MAX], k_kv_layer layer);
void kv_forms_name(char out[KV_NAME_MAX], const kv_forms *f);

#endif
