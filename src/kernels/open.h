/* kernels/open.h - a backend by name; the one door for the rooms above. */
#ifndef KERNELS_OPEN_H
#define KERNELS_OPEN_H

#include "kernels/kernels.h"

/* `device`: "cpu" (NULL: the fastest present, which is the CPU).  `isa` and
 * `threads` as in weir_engine_options.  The caller ends *out with its close(). */
weir_status kernels_open(kernels **out, const char *device, uint32_t threads, const char *isa, weir_error *err);

/* Names of the instruction sets that this machine can run, plain to special;
 * returns their number, at most max. */
size_t kernels_isas(const char **names, size_t max);

/* See weir_measure_floor. */
weir_status kernels_floor(uint32_t threads, const char *isa, double *read_gbps, double *fma_gflops, weir_error *err);

#endif
