/* grammar/trie.c - the vocabulary as a tree of bytes. */
#include "grammar/trie.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct trie_token {
    const uint8_t *bytes;
    uint64_t       head; /* the first bytes as a number: most comparisons end there */
    uint32_t       len, id;
} trie_token;

static uint64_t head_of(const uint8_t *bytes, size_t len)
{
    uint64_t h = 0;
    for (size_t i = 0; i < 8; i++) h = h << 8 | (i < len ? bytes[i] : 0);
    return h;
}

static int by_bytes(const void *a, const void *b)
{
    const trie_token *x = a, *y = b;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    const int      c = memcmp(x->bytes, y->bytes, n);
    if (c != 0) return c;
    return x->len != y->len ? (x->len > y->len) - (x->len < y->len) : (x->id > y->id) - (x->id < y->id);
}

static uint32_t common(const trie_token *a, const trie_token *b)
{
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n]) n++;
    return n;
}

void trie_free(trie *t)
{
    mem_free(t->nodes);
    *t = (trie){0};
}

static uint32_t collect(trie_token *list, uint32_t n_ids, trie_bytes_fn *bytes, const void *user)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < n_ids; id++) {
        size_t         len;
        const uint8_t *b = bytes(user, id, &len);
        if (b != NULL && len > 0 && len <= TRIE_DEPTH_MOST)
            list[n++] = (trie_token){b, head_of(b, len), (uint32_t)len, id};
    }
    qsort(list, n, sizeof *list, by_bytes);
    return n;
}

/* The nodes of a sorted list.  Of equal tokens the lowest id stands for all: the others
 * are no token that text is made of. */
static void fill(trie *t, const trie_token *list, uint32_t n)
{
    uint32_t open[TRIE_DEPTH_MOST + 1], depth = 0; /* nodes on the way to the last token */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t shared = i == 0 ? 0 : common(&list[i - 1], &list[i]);
        while (depth > shared) t->nodes[open[--depth]].skip = t->n;
        for (; depth < list[i].len; depth++) {
            open[depth]      = t->n;
            t->nodes[t->n++] = (trie_node){.id = TRIE_NO_TOKEN, .byte = list[i].bytes[depth], .depth = (uint8_t)depth};
        }
        trie_node *last = &t->nodes[open[depth - 1]];
        if (last->id == TRIE_NO_TOKEN) last->id = list[i].id;
        for (uint32_t d = 0; d < depth; d++) {
            const uint8_t below = (uint8_t)(list[i].len - 1 - d);
            if (t->nodes[open[d]].height < below) t->nodes[open[d]].height = below;
        }
        if (list[i].len > t->longest) t->longest = list[i].len;
    }
    while (depth > 0) t->nodes[open[--depth]].skip = t->n;
}

weir_status trie_make(trie *out, uint32_t n_ids, trie_bytes_fn *bytes, const void *user, weir_error *err)
{
    *out             = (trie){.n_ids = n_ids};
    trie_token *list = mem_alloc(n_ids, sizeof *list);
    if (list == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    const uint32_t n     = collect(list, n_ids, bytes, user);
    size_t         nodes = 0;
    for (uint32_t i = 0; i < n; i++) nodes += list[i].len - (i == 0 ? 0 : common(&list[i - 1], &list[i]));
    out->nodes = nodes >= UINT32_MAX ? NULL : mem_alloc(nodes, sizeof *out->nodes);
    if (out->nodes != NULL) fill(out, list, n);
    mem_free(list);
    return out->nodes != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
}
