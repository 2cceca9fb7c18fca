/* text/token_ids.h - a growable list of token ids, owned by the caller. */
#ifndef TEXT_TOKEN_IDS_H
#define TEXT_TOKEN_IDS_H

#include "base/mem.h"

/* All zero is the empty list. */
typedef struct token_ids {
    uint32_t *ids;
    size_t    n, cap;
} token_ids;

static inline void token_ids_free(token_ids *t)
{
    mem_free(t->ids);
    *t = (token_ids){0};
}

/* Makes room for n more. */
static inline weir_status token_ids_reserve(token_ids *t, size_t n, weir_error *err)
{
    if (n <= t->cap - t->n) return WEIR_OK;
    size_t need;
    if (!size_add(&need, t->n, n)) return status_fail(err, WEIR_NO_MEMORY, "token ids: out of memory");
    const size_t cap = need < t->cap + t->cap / 2 ? t->cap + t->cap / 2 : need < 64 ? 64 : need;
    uint32_t    *p   = mem_realloc(t->ids, cap, sizeof *p);
    if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "token ids: out of memory");
    t->ids = p;
    t->cap = cap;
    return WEIR_OK;
}

static inline weir_status token_ids_push(token_ids *t, uint32_t id, weir_error *err)
{
    TRY(token_ids_reserve(t, 1, err));
    t->ids[t->n++] = id;
    return WEIR_OK;
}

#endif
