/* tests/support/mtp_rig.h - a model with its MTP head on a backend, without the
 * engine: who steps what, and when, is the test's. */
#ifndef SUPPORT_MTP_RIG_H
#define SUPPORT_MTP_RIG_H

#include "support/engines.h"

typedef struct rig_options {
    const char *isa, *kv; /* NULL: the best, bf16 */
    uint32_t    threads, max_rows, max_sequences, max_positions;
} rig_options;

typedef struct mtp_rig {
    rig_options opt;
    kernels    *k;
    state      *st;
    model       m;
    work        w; /* with logits for max_rows rows */
} mtp_rig;

/* The weights are those of `m`, which stays open. */
void rig_open(mtp_rig *r, const weir_model *m, rig_options opt);
void rig_close(mtp_rig *r);

sequence *rig_sequence(mtp_rig *r);

/* n positions of q from `position` on, with room for them: a span of an MTP step. */
k_span rig_span(sequence *q, uint32_t position, uint32_t n, uint32_t row);

/* Steps of one sequence: n tokens through the trunk (appended); n pairs through MTP. */
void rig_read(mtp_rig *r, sequence *q, const uint32_t *ids, uint32_t n);
void rig_guess(mtp_rig *r, sequence *q, uint32_t position, const uint32_t *ids, uint32_t n, const k_buf *from,
               const uint32_t *rows);
/* A step through either, of any spans, to its end. */
void rig_forward(mtp_rig *r, const k_step *s);
void rig_mtp(mtp_rig *r, const k_step *s, const k_buf *from, const uint32_t *rows);

/* The numbers of a buffer. */
const float *rig_floats(const mtp_rig *r, const k_buf *b);

#endif
