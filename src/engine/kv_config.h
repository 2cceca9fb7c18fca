/* engine/kv_config.h - kv_config.json: the form of the cache layer by layer.
 *
 *   [{"layer_idx": 3, "bits": 8}, {"layer_idx": 7, "k_bits": 8, "v_bits": 4, "group_size": 32}]
 *
 * layer_idx counts all layers of the model; entries for layers without a cache mean nothing.
 * Bits are 4, 8 or, for bfloat16, 16; a group is 32, 64 (when not given) or 128 numbers and
 * divides the head's size.  What is not listed, MTP's layer too, stays bfloat16; members with
 * other names are ignored. */
#ifndef ENGINE_KV_CONFIG_H
#define ENGINE_KV_CONFIG_H

#include "engine/kv_forms.h"

/* Forms for the layers of `c`, and MTP's behind them if there is one.  `name` is for messages.
 * WEIR_FORMAT names the entry and the member, what was expected and what was found. */
weir_status kv_config_parse(kv_forms *out, const char *text, size_t len, const char *name, const config *c, bool mtp,
                            weir_error *err);
/* The same from a file. */
weir_status kv_config_load(kv_forms *out, const char *path, const config *c, bool mtp, weir_error *err);

#endif
