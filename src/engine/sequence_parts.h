/* engine/sequence_parts.h - public sequences, as the rest of this room makes them. */
#ifndef ENGINE_SEQUENCE_PARTS_H
#define ENGINE_SEQUENCE_PARTS_H

#include "engine/engine_parts.h"

/* A new empty sequence with room for `positions` (0: max_context); without
 * `logits` it does not keep those of its last position. */
weir_status sequence_open(weir_sequence **out, weir_engine *e, uint32_t positions, bool logits, weir_error *err);

/* prefix_tree_adopt of the engine's cache, which there must be, for the empty s, whose MTP rows
 * are made as far as the cache has them.  Returns the length. */
uint32_t sequence_take_cached(weir_sequence *s, const prefix_hit *hit);

/* The sequence has these adapters from now on, instead of those it has. */
void sequence_take_adapters(weir_sequence *s, const adapter_set *set);

/* WEIR_INVALID inside a callback of a step: sequences are not to be touched there. */
static inline weir_status engine_idle(const weir_engine *e, const char *what, weir_error *err)
{
    if (!e->stepping) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "%s: called from a callback", what);
}

#endif
