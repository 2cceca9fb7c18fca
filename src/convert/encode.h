/* convert/encode.h - makes the bytes of planned items and puts them into a file. */
#ifndef CONVERT_ENCODE_H
#define CONVERT_ENCODE_H

#include "base/pool.h"
#include "convert/encode_trellis.h"
#include "convert/plan.h"

/* Called with the source's bytes done since the last call; false stops. */
typedef bool encode_progress_fn(void *user, uint64_t bytes);

/* Some rows at a time: memory does not grow with the tensors. */
typedef struct encoder {
    pool               *pool; /* borrowed */
    encode_progress_fn *progress;
    void               *user;
    size_t              row_floats; /* of each thread's part of `row` */
    float              *row;
    uint8_t            *codes, *scales, *biases;
    trellis_coder       trellis;
} encoder;

/* Memory for every item of the plan. */
weir_status encoder_new(encoder *e, const plan *p, pool *threads, weir_error *err);
void        encoder_free(encoder *e); /* all zero is allowed */

/* Puts the item's tensors, whose specs begin at `spec`, into the file.
 * WEIR_FORMAT, naming the tensor, for numbers that are not finite;
 * WEIR_CANCELLED when progress() says so. */
weir_status encoder_put(encoder *e, const plan_item *i, const safetensors_spec *spec, safetensors_writer *w,
                        weir_error *err);

#endif
