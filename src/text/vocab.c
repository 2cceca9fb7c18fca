/* text/vocab.c - the table of tokens. */
#include "text/vocab.h"

#include "base/bytes.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

void vocab_free(vocab *v)
{
    mem_free(v->bytes);
    mem_free(v->tokens);
    mem_free(v->kinds);
    mem_free(v->slots);
    *v = (vocab){0};
}

static weir_status no_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "vocabulary: out of memory");
}

/* Room for ids below n; the new ones are no tokens. */
static weir_status reserve_ids(vocab *v, uint32_t n, weir_error *err)
{
    if (n <= v->cap) return WEIR_OK;
    uint32_t cap = v->cap < 1024 ? 1024 : v->cap * 2; /* VOCAB_MAX_IDS * 2 fits */
    if (cap < n) cap = n;
    vocab_token *tokens = mem_realloc(v->tokens, cap, sizeof *tokens);
    if (tokens == NULL) return no_memory(err);
    v->tokens      = tokens;
    uint8_t *kinds = mem_realloc(v->kinds, cap, 1);
    if (kinds == NULL) return no_memory(err);
    v->kinds = kinds;
    memset(kinds + v->cap, 0, cap - v->cap);
    memset(tokens + v->cap, 0, (cap - v->cap) * sizeof *tokens);
    v->cap = cap;
    return WEIR_OK;
}

static weir_status reserve_bytes(vocab *v, size_t n, weir_error *err)
{
    if (n <= v->bytes_cap - v->n_bytes) return WEIR_OK;
    if (n > UINT32_MAX - v->n_bytes)
        return status_fail(err, WEIR_FORMAT, "vocabulary: expected less than 4 GiB of tokens");
    size_t cap = v->bytes_cap < 4096 ? 4096 : v->bytes_cap * 2;
    if (cap < v->n_bytes + n) cap = v->n_bytes + n;
    uint8_t *p = mem_realloc(v->bytes, cap, 1);
    if (p == NULL) return no_memory(err);
    v->bytes     = p;
    v->bytes_cap = cap;
    return WEIR_OK;
}

weir_status vocab_add(vocab *v, uint32_t id, const uint8_t *bytes, size_t len, uint8_t kind, weir_error *err)
{
    if (id >= VOCAB_MAX_IDS)
        return status_fail(err, WEIR_FORMAT, "id %" PRIu32 ": expected ids below %d", id, (int)VOCAB_MAX_IDS);
    if (vocab_kind(v, id) != 0) return status_fail(err, WEIR_FORMAT, "id %" PRIu32 ": two tokens have it", id);
    if (len == 0) return status_fail(err, WEIR_FORMAT, "id %" PRIu32 ": expected a token, found an empty one", id);
    TRY(reserve_ids(v, id + 1, err));
    TRY(reserve_bytes(v, len, err));
    memcpy(v->bytes + v->n_bytes, bytes, len);
    v->tokens[id] = (vocab_token){.off = (uint32_t)v->n_bytes, .len = (uint32_t)len};
    v->kinds[id]  = kind;
    v->n_bytes += len;
    if (id >= v->size) v->size = id + 1;
    if (kind & TOKEN_ORDINARY) v->n_ordinary++;
    return WEIR_OK;
}

/* The last n < 8 bytes in one word; overlapping loads, no loop. */
static uint64_t tail_word(const uint8_t *p, size_t n)
{
    if (n >= 4) return load_u32(p) | (uint64_t)load_u32(p + n - 4) << 32;
    return n == 0 ? 0 : p[0] | (uint64_t)p[n / 2] << 8 | (uint64_t)p[n - 1] << 16;
}

/* Multiply and fold, eight bytes a round.  Most tokens are one round. */
static uint32_t hash_bytes(const uint8_t *p, size_t n)
{
    const uint64_t k = 0x9E3779B97F4A7C15u;
    uint64_t       h = n * k;
    for (; n >= 8; p += 8, n -= 8) {
        h = (h ^ load_u64(p)) * k;
        h ^= h >> 32;
    }
    h = (h ^ tail_word(p, n)) * k;
    h ^= h >> 29;
    h *= k;
    return (uint32_t)(h >> 32);
}

static bool same_bytes(const vocab *v, uint32_t id, const uint8_t *bytes, size_t len)
{
    return v->tokens[id].len == len && memcmp(v->bytes + v->tokens[id].off, bytes, len) == 0;
}

weir_status vocab_index(vocab *v, weir_error *err)
{
    uint32_t n = 64;
    while (n < 2 * v->n_ordinary) n *= 2;
    v->slots = mem_alloc(n, sizeof *v->slots);
    if (v->slots == NULL) return no_memory(err);
    memset(v->slots, 0xFF, n * sizeof *v->slots);
    v->mask = n - 1;
    for (uint32_t id = 0; id < v->size; id++) {
        if (!(v->kinds[id] & TOKEN_ORDINARY)) continue;
        size_t         len;
        const uint8_t *bytes = vocab_bytes(v, id, &len);
        const uint32_t hash  = hash_bytes(bytes, len);
        uint32_t       i     = hash & v->mask;
        for (; v->slots[i].id != TOKEN_NONE; i = (i + 1) & v->mask)
            if (v->slots[i].hash == hash && same_bytes(v, v->slots[i].id, bytes, len))
                return status_fail(err, WEIR_FORMAT, "ids %" PRIu32 " and %" PRIu32 ": the same token twice",
                                   v->slots[i].id, id);
        v->slots[i] = (vocab_slot){.hash = hash, .id = id};
    }
    return WEIR_OK;
}

uint32_t vocab_find(const vocab *v, const uint8_t *bytes, size_t len)
{
    const uint32_t hash = hash_bytes(bytes, len);
    for (uint32_t i = hash & v->mask;; i = (i + 1) & v->mask) {
        const vocab_slot s = v->slots[i];
        if (s.id == TOKEN_NONE) return TOKEN_NONE;
        if (s.hash == hash && same_bytes(v, s.id, bytes, len)) return s.id;
    }
}
