/* engine/identity.h - what a kept state depends on besides the tokens.
 *
 * A state on disk is worth nothing, and would be wrong without a sign of it, in an engine
 * that computes other numbers.  So its namespace (state/store.h) is a hash of all that the
 * numbers follow from, and of how they lie in memory; docs/STATE-FILES.md lists it.  Bits
 * do not depend on threads, chunks or the instruction set (docs/EXACTNESS.md), so neither
 * does this. */
#ifndef ENGINE_IDENTITY_H
#define ENGINE_IDENTITY_H

#include "engine/budget.h"
#include "state/store_format.h"

/* The namespace of an engine by plan p on that backend.  Reads a few kilobytes of each
 * tensor. */
weir_status identity_of(uint8_t out[STORE_KEY_BYTES], const plan *p, const weir_model *m, const char *backend,
                        weir_error *err);

#endif
