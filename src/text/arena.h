/* text/arena.h - memory that is taken piece by piece and given back at once.
 *
 * A template's syntax tree and everything one rendering makes live in an arena
 * each.  The arena knows its limit, so a hostile template or conversation runs
 * into a refusal instead of into the machine's memory. */
#ifndef TEXT_ARENA_H
#define TEXT_ARENA_H

#include <stddef.h>

typedef struct arena {
    struct arena_chunk *head;
    size_t              taken, max; /* bytes asked of the system / allowed */
} arena;

void arena_init(arena *a, size_t max);
void arena_free(arena *a); /* leaves it as after arena_init */
/* n * size bytes, uninitialised, aligned for any type; NULL when the limit or
 * the system refuses. */
void *arena_alloc(arena *a, size_t n, size_t size);

#endif
