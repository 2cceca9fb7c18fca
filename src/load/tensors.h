/* load/tensors.h - tensors of a checkpoint as weights and vectors of a backend. */
#ifndef LOAD_TENSORS_H
#define LOAD_TENSORS_H

#include "load/load.h"

/* The work of one load_model: failures stick, so that binding reads as a list;
 * missing names are gathered and reported together. */
typedef struct binder {
    const checkpoint *c;
    kernels          *k;
    bool             *taken;                     /* [checkpoint_count] */
    bool              skipped[CHECKPOINT_PARTS]; /* whose tensors may be left over */
    weir_status       st;
    weir_error       *err;
    char              missing[1024]; /* names, for the message */
    size_t            n_missing;
} binder;

/* module ("layers.0.mlp.up_proj") + ".weight" [rows, cols], or its quantised form. */
k_weight *bind_matrix(binder *b, checkpoint_part part, const char *module, uint32_t rows, uint32_t cols);

/* Rows row0 .. row0+rows-1 of every matrix of a stack [mats, all_rows, cols];
 * `name` is the tensor's or the quantised module's name. */
typedef struct stack_shape {
    uint32_t mats, all_rows, row0, rows, cols;
} stack_shape;
k_weight *bind_stack(binder *b, checkpoint_part part, const char *name, const stack_shape *s);

/* `mats` separate matrices "prefix.<i>.suffix" as one stack. */
k_weight *bind_each(binder *b, checkpoint_part part, const char *prefix, const char *suffix, uint32_t mats,
                    uint32_t rows, uint32_t cols);

/* A vector [n] as f32, plus `shift`. */
k_buf *bind_vector(binder *b, checkpoint_part part, const char *name, uint32_t n, float shift);
/* The same values through f, in place. */
k_buf *bind_mapped(binder *b, checkpoint_part part, const char *name, uint32_t n, void (*f)(float *x, uint32_t n));
/* conv1d.weight of C channels and K taps as [K, C]. */
k_buf *bind_taps(binder *b, checkpoint_part part, const char *name, uint32_t channels, uint32_t kernel);

/* Is there a tensor or quantised module of this name? */
bool bind_exists(const binder *b, checkpoint_part part, const char *name);

/* Turns gathered missing names into the failure they are. */
weir_status bind_finish(binder *b);

#endif
