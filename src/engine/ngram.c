/* engine/ngram.c - hash tables of the latest occurrence, chained to the earlier ones.
 *
 * Prompt lookup decoding is A. Saxena's (2023).  There are two levels, for grams
 * of 8 and of 3 tokens.  An occurrence is named by its end, the number of tokens
 * up to and including it.  For each level
 *
 *     latest[slot]      the latest end of the gram that owns the slot; 0: free
 *     earlier[end - 1]  the end before that of the same gram; 0: none
 *
 * so the candidates of a draft are the chain that starts at earlier[n - 1].
 *
 * The table is open, with linear probing; the key of a slot is read from the
 * tokens in front of its end.  Nothing leaves it: a reply only grows.
 *
 * At most half of the slots are in use, and a gram that finds no place within
 * MAX_PROBES is left out, so that not even chosen collisions make this slow. */
#include "engine/ngram.h"

#include "base/mem.h"

#include <string.h>

enum { MAX_PROBES = 64, SLOTS_PER_TOKEN = 2, MAX_CAPACITY = 1 << 30 };

static const uint32_t gram_length[NGRAM_LEVELS] = {NGRAM_LONG, NGRAM_SHORTEST};

size_t ngram_bytes(uint32_t capacity)
{
    return (size_t)capacity * (1 + NGRAM_LEVELS * (1 + SLOTS_PER_TOKEN)) * sizeof(uint32_t);
}

weir_status ngram_init(ngram_index *x, uint32_t capacity, weir_error *err)
{
    *x = (ngram_index){0};
    if (capacity == 0 || capacity > MAX_CAPACITY)
        return status_fail(err, WEIR_INVALID, "ngram: expected a capacity of 1 to %d tokens, found %u", MAX_CAPACITY,
                           capacity);
    uint32_t *memory = mem_pages(ngram_bytes(capacity));
    if (memory == NULL) return status_fail(err, WEIR_NO_MEMORY, "ngram: no memory for %u tokens", capacity);
    x->capacity = capacity;
    x->tokens   = memory;
    memory += capacity;
    for (int level = 0; level < NGRAM_LEVELS; level++) {
        x->earlier[level] = memory;
        x->latest[level]  = memory + capacity;
        memory += (size_t)capacity * (1 + SLOTS_PER_TOKEN);
    }
    return WEIR_OK;
}

void ngram_free(ngram_index *x)
{
    if (x->tokens != NULL) mem_pages_free(x->tokens, ngram_bytes(x->capacity));
    *x = (ngram_index){0};
}

static uint32_t hash(const uint32_t *gram, uint32_t length)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < length; i++) {
        h = (h ^ gram[i]) * 0x9E3779B97F4A7C15u; /* 2^64 / the golden ratio */
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32);
}

/* The slot of the gram that ends at `end`, or the one it may take; NULL when all
 * slots that it could be in belong to others. */
static uint32_t *find_slot(ngram_index *x, int level, uint32_t end)
{
    const uint32_t  length  = gram_length[level];
    const uint32_t *gram    = x->tokens + end - length;
    const uint64_t  n_slots = (uint64_t)x->capacity * SLOTS_PER_TOKEN;
    uint64_t        at      = hash(gram, length) * n_slots >> 32;
    for (int probe = 0; probe < MAX_PROBES; probe++) {
        uint32_t *slot = &x->latest[level][at];
        x->steps++;
        if (*slot == 0 || memcmp(x->tokens + *slot - length, gram, length * sizeof(uint32_t)) == 0) return slot;
        at = at + 1 < n_slots ? at + 1 : 0;
    }
    return NULL;
}

bool ngram_push(ngram_index *x, uint32_t id)
{
    if (x->n == x->capacity) return false;
    x->tokens[x->n++] = id;
    for (int level = 0; level < NGRAM_LEVELS; level++) {
        uint32_t *slot              = x->n < gram_length[level] ? NULL : find_slot(x, level, x->n);
        x->earlier[level][x->n - 1] = slot == NULL ? 0 : *slot;
        if (slot != NULL) *slot = x->n;
    }
    return true;
}

/* How many tokens before `end` equal those at the end of the sequence, up to 12;
 * `known` of them are. */
static uint32_t count_equal(ngram_index *x, uint32_t end, uint32_t known)
{
    uint32_t length = known;
    while (length < NGRAM_LONGEST && length < end && x->tokens[end - 1 - length] == x->tokens[x->n - 1 - length])
        length++;
    x->steps += length - known + 1;
    return length;
}

ngram_match ngram_find(ngram_index *x)
{
    ngram_match best = {0};
    for (int level = 0; level < NGRAM_LEVELS && best.length == 0; level++) {
        uint32_t end = x->n == 0 ? 0 : x->earlier[level][x->n - 1];
        for (int i = 0; i < NGRAM_CANDIDATES && end > 0 && best.length < NGRAM_LONGEST; i++) {
            const uint32_t length = count_equal(x, end, gram_length[level]);
            if (length > best.length) best = (ngram_match){length, end};
            end = x->earlier[level][end - 1];
        }
    }
    return best;
}

uint32_t ngram_draft(ngram_index *x, uint32_t *out, uint32_t max)
{
    const ngram_match match = ngram_find(x);
    if (match.length == 0) return 0;
    const uint32_t known = x->n - match.next; /* tokens from there to the end; at least 1 */
    for (uint32_t i = 0; i < max; i++) out[i] = i < known ? x->tokens[match.next + i] : out[i - known];
    return max;
}
