/* convert/encode_trellis.h - trellis blocks of planned items, some rows at a time. */
#ifndef CONVERT_ENCODE_TRELLIS_H
#define CONVERT_ENCODE_TRELLIS_H

#include "base/pool.h"
#include "convert/plan.h"
#include "quant/trellis_encode.h"

typedef struct trellis_coder {
    trellis_encode_tables       *tables;      /* of the widths that the plan has */
    const trellis_encode_tables *of_bits[5];  /* by bits; into tables */
    size_t                       work_floats; /* of each thread's part of `work` */
    float                       *work;
    float                       *x;      /* [rows][coded columns], divided by the scales */
    uint8_t                     *blocks; /* [rows][coded columns / 8 * bits] */
    uint8_t                     *scales; /* [rows] */
} trellis_coder;

/* Memory for every trellis item of the plan, of which there may be none.
 * WEIR_NO_MEMORY; trellis_coder_free in any case. */
weir_status trellis_coder_new(trellis_coder *c, const plan *p, uint32_t threads, weir_error *err);
void        trellis_coder_free(trellis_coder *c); /* all zero is allowed */

/* The most rows that one call of trellis_coder_rows takes: a fraction of a second's. */
uint64_t trellis_coder_most(const plan_item *i, uint32_t threads);

/* Fills blocks and scales for n rows of the output from `first` on, by all
 * threads; false when their numbers are not finite or too large. */
bool trellis_coder_rows(trellis_coder *c, const plan_item *i, uint64_t first, uint64_t n, pool *threads);

#endif
