/* checkpoint/adapter_config.h - adapter_config.json of a LoRA adapter, of PEFT or of mlx-lm.
 *
 * PEFT scales a module by alpha / rank, or alpha / sqrt(rank), with an alpha that a
 * pattern may change for some modules; mlx-lm by one number.  What changes the
 * arithmetic and is not known here is refused by name (WEIR_UNSUPPORTED). */
#ifndef CHECKPOINT_ADAPTER_CONFIG_H
#define CHECKPOINT_ADAPTER_CONFIG_H

#include "base/status.h"

#include <stdbool.h>

typedef enum adapter_form { ADAPTER_PEFT, ADAPTER_MLX } adapter_form;

typedef struct adapter_pattern {
    char  *key; /* a module's path ends so; '.' stands for any character, as in the file's expressions */
    double alpha;
} adapter_pattern;

typedef struct adapter_config {
    adapter_form     form;
    bool             rslora;
    double           alpha; /* PEFT */
    double           scale; /* mlx-lm */
    size_t           n_patterns;
    adapter_pattern *patterns; /* in the file's order: the first that fits counts */
} adapter_config;

/* Reads a file / the text of one (`name` for messages).  On failure *out is all zero. */
weir_status adapter_config_load(adapter_config *out, const char *path, weir_error *err);
weir_status adapter_config_parse(adapter_config *out, const char *name, const char *text, size_t len, weir_error *err);
void        adapter_config_free(adapter_config *c); /* all zero is allowed */

/* What B (A x) of a module is multiplied with.  `module`: its path in the base model
 * ("model.layers.0.mlp.up_proj"); rank >= 1. */
double adapter_config_scale(const adapter_config *c, const char *module, uint32_t rank);

#endif
