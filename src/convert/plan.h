/* convert/plan.h - every tensor of the output, and in which file, before any is made.
 *
 * The output is in MLX's form: names under language_model., experts as three
 * stacks (switch_mlp), conv kernels as [C,K,1], norm gains as gamma.  MTP and
 * vision keep their names and numbers, and have files of their own: loaders
 * that take every model*.safetensors, and that know neither, do not meet them. */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "checkpoint/safetensors_write.h"
#include "convert/recipe.h"

typedef enum plan_kind {
    PLAN_COPY,   /* bytes as they are */
    PLAN_GAIN,   /* f32(stored) + 1, as F32 */
    PLAN_AFFINE, /* codes, scales, biases */
    PLAN_TRELLIS /* blocks, a scale for each row */
} plan_kind;

/* One tensor, or one quantised module, made of `mats` matrices [rows, cols]
 * that lie anywhere in the source. */
typedef struct plan_item {
    plan_kind       kind;
    char           *module; /* for recipes and people: "layers.0.mlp.up_proj"; NULL: no module */
    char           *name;   /* in the output, of the tensor or (quantised) of the module; both owned */
    const char     *source; /* the tensor's name there, for messages */
    dtype           type;   /* of the source */
    uint32_t        rank;
    uint64_t        shape[CHECKPOINT_MAX_RANK]; /* of the tensor, of the unquantised weight */
    uint64_t        mats, rows, cols;
    const uint8_t **mat; /* [mats]; owned */
    uint32_t        bits, group;
    uint32_t        axis;       /* trellis: 1: rows are coded, 0: columns, which are the rows of the output */
    dtype           scale_type; /* affine: source numbers are rounded to it first, as MLX does */
    size_t          spec;       /* its first tensor in the file's list; affine has three, trellis two */
} plan_item;

typedef enum plan_class { PLAN_MODEL, PLAN_MTP, PLAN_VISION, PLAN_CLASSES } plan_class;

typedef struct plan_file {
    plan_class class;
    char               name[64];
    size_t             begin, end; /* its items */
    size_t             n_specs;
    safetensors_spec  *specs; /* owned, names too */
    safetensors_header header;
} plan_file;

typedef struct plan {
    size_t     n, cap;
    plan_item *items; /* by class, then in the order of the checkpoint */
    size_t     n_files;
    plan_file *files;
    str        text; /* what the output depends on, for comparing with an earlier run's */
    uint64_t   source_bytes, bytes, parameters;
} plan;

typedef struct plan_request {
    const checkpoint *source;
    recipe           *recipe;
    dtype             scale_type; /* DTYPE_COUNT: that of each weight */
    uint64_t          file_bytes; /* a file ends before the tensor that would pass this */
} plan_request;

/* WEIR_INVALID for a source that is quantised already, WEIR_UNSUPPORTED for
 * element types and shapes that have no place.  plan_close in any case. */
weir_status plan_open(plan *out, const plan_request *r, weir_error *err);
void        plan_close(plan *p); /* all zero is allowed */

/* Bytes of an item in the source, and in the output. */
uint64_t plan_item_bytes(const plan_item *i);
uint64_t plan_output_bytes(const plan_item *i);

/* Rows and columns of a trellis item as the output has them. */
static inline uint64_t plan_coded_rows(const plan_item *i)
{
    return i->axis == 1 ? i->rows : i->cols;
}
static inline uint64_t plan_coded_cols(const plan_item *i)
{
    return i->axis == 1 ? i->cols : i->rows;
}

#endif
