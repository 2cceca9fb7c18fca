/* checkpoint/checkpoint.h - a checkpoint on disk as named, typed, shaped tensors.
 *
 * Opening reads the JSON files and the headers of the weight files; the
 * weights themselves are mapped and not read, apart from the few norm gains by
 * which the storage convention is told.  Tensors have canonical names, equal
 * for every generation of exporters:
 *
 *   CHECKPOINT_TRUNK   embed_tokens.weight, layers.3.self_attn.q_proj.weight, norm.weight
 *   CHECKPOINT_HEAD    lm_head.weight
 *   CHECKPOINT_MTP     fc.weight, layers.0.mlp.down_proj.weight, norm.weight
 *   CHECKPOINT_VISION  blocks.0.attn.qkv.weight, ...
 *
 * Companions of quantised weights (….scales, ….biases) and the layouts of
 * experts (experts.gate_up_proj, switch_mlp.*, experts.7.up_proj.weight) keep
 * their names; those of GGUF files are named like switch_mlp.*.  Every file is
 * untrusted; no number in it can make a view reach outside the mapping.  One
 * thread at a time. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include "base/dtype.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf.h"

enum { CHECKPOINT_MAX_RANK = 8 };

typedef enum checkpoint_part {
    CHECKPOINT_TRUNK,
    CHECKPOINT_HEAD,
    CHECKPOINT_MTP,
    CHECKPOINT_VISION,
    CHECKPOINT_PARTS
} checkpoint_part;

/* One tensor, borrowed from the checkpoint.  Row-major, last index fastest. */
typedef struct checkpoint_tensor {
    checkpoint_part part;
    const char     *name;      /* canonical */
    const char     *raw_name;  /* as in the file */
    const char     *file;      /* path, for messages; "memory" without one */
    dtype           type;      /* DTYPE_COUNT: a type that is not implemented */
    const char     *type_name; /* as in the file */
    uint32_t        rank;      /* 0: a scalar */
    uint64_t        shape[CHECKPOINT_MAX_RANK];
    const uint8_t  *data; /* any address, aligned or not; valid until close */
    uint64_t        bytes;
} checkpoint_tensor;

/* How the exporter stored what has more than one form. */
typedef struct checkpoint_convention {
    bool gain_minus_one;     /* trunk norm gains are stored as gamma - 1 (linear_attn.norm never is) */
    bool conv_channel_last;  /* conv1d.weight is [C,K,1]; else [C,1,K].  Same order of the C*K numbers */
    bool has_mtp;            /* MTP tensors are there */
    bool mtp_gain_minus_one; /* all of MTP's norm gains are stored as gamma - 1 */
    bool decay_is_rate;      /* A_log holds -exp(A_log): the file is GGUF */
} checkpoint_convention;

typedef struct checkpoint checkpoint;

/* Opens `path`: a directory, one .safetensors file beside its config.json, or
 * a GGUF file (any one of a split model's), which needs nothing beside it; a directory
 * without config.json that holds one model as GGUF stands for that.
 * On failure *out is NULL and err names file, tensor, expected and found. */
weir_status checkpoint_open(checkpoint **out, const char *path, weir_error *err);

/* An empty checkpoint without files, for made-up weights; copies both. */
weir_status checkpoint_new_memory(checkpoint **out, const config *cfg, const checkpoint_convention *convention,
                                  weir_error *err);
/* Adds a tensor to a checkpoint of checkpoint_new_memory.  `data` comes from
 * mem_pages(elements * size).  On WEIR_OK it belongs to the checkpoint, which
 * releases it by mem_pages_free; otherwise it stays the caller's.  Invalidates
 * the views given out before. */
weir_status checkpoint_add(checkpoint *c, checkpoint_part part, const char *name, dtype type, uint32_t rank,
                           const uint64_t *shape, void *data, weir_error *err);

void checkpoint_close(checkpoint *c); /* NULL is allowed */

/* The file with the metadata of a GGUF checkpoint; NULL for another.  Borrowed until close. */
const gguf *checkpoint_gguf(const checkpoint *c);

/* Borrowed until close. */
const config                *checkpoint_config(const checkpoint *c);
const checkpoint_convention *checkpoint_conventions(const checkpoint *c);
const char                  *checkpoint_path(const checkpoint *c);

/* The tensor, or NULL. */
const checkpoint_tensor *checkpoint_find(const checkpoint *c, checkpoint_part part, const char *name);
/* The same, where a missing tensor, an unimplemented element type or another
 * shape than the given one is a failure.  rank < 0: any shape. */
weir_status checkpoint_require(const checkpoint *c, checkpoint_part part, const char *name, int rank,
                               const uint64_t *shape, const checkpoint_tensor **out, weir_error *err);

/* What to call a tensor in a message, there or not: its name, with the part's prefix; of a GGUF
 * checkpoint the file's name first.  CHECKPOINT_MAX_SPELLED bytes are enough for the model's. */
enum { CHECKPOINT_MAX_SPELLED = 320 };
void checkpoint_spell(const checkpoint *c, checkpoint_part part, const char *name, char *out, size_t size);

/* All tensors, sorted by part and name. */
size_t                   checkpoint_count(const checkpoint *c);
const checkpoint_tensor *checkpoint_at(const checkpoint *c, size_t i);
/* The i of a tensor of this checkpoint. */
size_t checkpoint_index(const checkpoint *c, const checkpoint_tensor *t);

/* WEIR_FORMAT, naming the first few and their number, when tensors are neither
 * taken [checkpoint_count] nor of a part that is skipped [CHECKPOINT_PARTS].
 * Vision, a tied head and MTP tensors that the config does not announce are
 * skipped anyway. */
weir_status checkpoint_unexpected(const checkpoint *c, const bool *taken, const bool *skipped, weir_error *err);

/* Whether `module` ("layers.0.mlp.up_proj") is quantised, which is so iff its
 * ".scales" exist, and how; *quantised false leaves *form alone.  A config
 * that contradicts the file is WEIR_FORMAT. */
weir_status checkpoint_quant(const checkpoint *c, checkpoint_part part, const char *module, bool *quantised,
                             config_quant_form *form, weir_error *err);

#endif
