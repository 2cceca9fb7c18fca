/* checkpoint/convention.h - in which of its forms a checkpoint is stored, told by evidence. */
#ifndef CHECKPOINT_CONVENTION_H
#define CHECKPOINT_CONVENTION_H

#include "checkpoint/checkpoint.h"

/* Reads the shapes of the conv kernels and the values of a few norm gains.
 * WEIR_FORMAT, naming file and tensor, when they contradict each other or do
 * not decide. */
weir_status convention_detect(checkpoint_convention *out, const checkpoint *c, weir_error *err);

/* The one form of GGUF files: gains are gamma, A_log is -exp(A_log), kernels are
 * [C,1,K].  WEIR_FORMAT when the values say that a writer left out one of these
 * conversions. */
weir_status convention_gguf(checkpoint_convention *out, const checkpoint *c, weir_error *err);

#endif
