/* text/arena.c - chunks in a list; the first one serves small requests. */
#include "text/arena.h"

#include "base/mem.h"

#include <stdalign.h>

enum { CHUNK_BYTES = 16 * 1024, CHUNK_MAX_BYTES = 1024 * 1024 };

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t              used, size;
    alignas(max_align_t) unsigned char bytes[];
} arena_chunk;

void arena_init(arena *a, size_t max)
{
    *a = (arena){.max = max};
}

void arena_free(arena *a)
{
    for (arena_chunk *c = a->head; c != NULL;) {
        arena_chunk *next = c->next;
        mem_free(c);
        c = next;
    }
    arena_init(a, a->max);
}

/* A chunk for at least `need` bytes.  Chunks grow with the arena, so that a
 * long rendering asks the system rarely; a large request gets one to itself. */
static arena_chunk *chunk_new(arena *a, size_t need)
{
    size_t size = a->taken / 4;
    if (size < CHUNK_BYTES) size = CHUNK_BYTES;
    if (size > CHUNK_MAX_BYTES) size = CHUNK_MAX_BYTES;
    if (size < need) size = need;
    if (size > a->max - a->taken) size = need; /* near the limit: no more than asked */
    size_t bytes;
    if (size > a->max - a->taken || !size_add(&bytes, size, sizeof(arena_chunk))) return NULL;
    arena_chunk *c = mem_alloc(bytes, 1);
    if (c == NULL) return NULL;
    c->used = 0;
    c->size = size;
    a->taken += size;
    if (a->head != NULL && a->head->size - a->head->used > size - need) {
        c->next       = a->head->next; /* the head has more room left: it stays the head */
        a->head->next = c;
    } else {
        c->next = a->head;
        a->head = c;
    }
    return c;
}

void *arena_alloc(arena *a, size_t n, size_t size)
{
    size_t need;
    if (!size_mul(&need, n, size) || need > a->max) return NULL;
    need           = (need + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    arena_chunk *c = a->head;
    if (c == NULL || c->size - c->used < need) c = chunk_new(a, need);
    if (c == NULL) return NULL;
    void *p = c->bytes + c->used;
    c->used += need;
    return p;
}
