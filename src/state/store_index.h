/* state/store_index.h - the keys a store has, and the bytes of their files.
 *
 * A hash table with linear probing.  Keys are SHA-256 values, so their first
 * bytes are the hash. */
#ifndef STATE_STORE_INDEX_H
#define STATE_STORE_INDEX_H

#include "state/store_format.h"

#include <stdbool.h>

typedef struct store_slot {
    uint8_t  key[STORE_KEY_BYTES];
    uint64_t bytes;   /* of the file; 0: an empty slot */
    bool     durable; /* on the disk; else queued */
} store_slot;

typedef struct store_index {
    store_slot *slots;
    size_t      n, capacity; /* a power of two, or 0 */
} store_index;

/* NULL when there is none; valid until the next add or remove. */
store_slot *store_index_find(const store_index *x, const uint8_t key[STORE_KEY_BYTES]);
/* A key that is not in it.  False without memory. */
bool store_index_add(store_index *x, const store_slot *slot);
void store_index_remove(store_index *x, store_slot *slot);
void store_index_free(store_index *x);

#endif
