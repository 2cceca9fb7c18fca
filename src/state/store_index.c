/* state/store_index.c - a hash table without tombstones. */
#include "state/store_index.h"

#include "base/bytes.h"
#include "base/mem.h"

enum { FIRST_CAPACITY = 64 };

static size_t home(const store_index *x, const uint8_t *key)
{
    return (size_t)load_u64(key) & (x->capacity - 1);
}

/* The slot with the key, or the empty one where it belongs. */
static store_slot *probe(const store_index *x, const uint8_t *key)
{
    size_t i = home(x, key);
    while (x->slots[i].bytes != 0 && memcmp(x->slots[i].key, key, STORE_KEY_BYTES) != 0)
        i = (i + 1) & (x->capacity - 1);
    return &x->slots[i];
}

store_slot *store_index_find(const store_index *x, const uint8_t key[STORE_KEY_BYTES])
{
    if (x->n == 0) return NULL;
    store_slot *slot = probe(x, key);
    return slot->bytes != 0 ? slot : NULL;
}

static bool grow(store_index *x)
{
    store_index larger = {.n = x->n, .capacity = x->capacity != 0 ? 2 * x->capacity : FIRST_CAPACITY};
    larger.slots       = mem_zalloc(larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (size_t i = 0; i < x->capacity; i++)
        if (x->slots[i].bytes != 0) *probe(&larger, x->slots[i].key) = x->slots[i];
    mem_free(x->slots);
    *x = larger;
    return true;
}

bool store_index_add(store_index *x, const store_slot *slot)
{
    if (x->n >= x->capacity / 4 * 3 && !grow(x)) return false;
    *probe(x, slot->key) = *slot;
    x->n++;
    return true;
}

/* Later entries of the run move up, so that no search stops too early. */
void store_index_remove(store_index *x, store_slot *slot)
{
    const size_t mask = x->capacity - 1;
    size_t       hole = (size_t)(slot - x->slots);
    for (size_t i = (hole + 1) & mask; x->slots[i].bytes != 0; i = (i + 1) & mask) {
        const size_t from_home = (i - home(x, x->slots[i].key)) & mask, from_hole = (i - hole) & mask;
        if (from_home < from_hole) continue; /* its home lies behind the hole */
        x->slots[hole] = x->slots[i];
        hole           = i;
    }
    x->slots[hole] = (store_slot){0};
    x->n--;
}

void store_index_free(store_index *x)
{
    mem_free(x->slots);
    *x = (store_index){0};
}
