/* tests/fuzz/fuzz_grammar.c - any bytes as a grammar: a schema, a regular expression or EBNF, as
 * FUZZ_KIND says.
 *
 * What is refused says why.  What is accepted gives masks, and the matcher takes what they
 * allow and nothing else. */
#include "grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 256 + 8, STEPS = 24 };

static const uint8_t *bytes_of(const void *user, uint32_t id, size_t *len)
{
    static const char *const more[TOKENS - 256] = {"\": ", "\",", "ab", "12", "[]", "{\"", "  ", "\xC3\xA9"};
    static uint8_t           one[256];
    (void)user;
    if (id >= 256) {
        *len = strlen(more[id - 256]);
        return (const uint8_t *)more[id - 256];
    }
    one[id] = (uint8_t)id;
    *len    = 1;
    return &one[id];
}

static bool has(const uint64_t *bits, uint32_t id)
{
    return bits[id / 64] >> id % 64 & 1;
}

/* Tokens by turns of the seed; each one's bit is held against the matcher. */
static void walk(grammar *g, uint32_t seed)
{
    matcher   *m, *try;
    weir_error err;
    uint64_t   bits[(TOKENS + 63) / 64];
    if (matcher_new(&m, g, &err) != WEIR_OK) return;
    if (matcher_new(&try, g, &err) != WEIR_OK) abort();
    for (int step = 0; step < STEPS; step++) {
        if (matcher_mask(m, bits, &err) != WEIR_OK) break;
        uint32_t chosen = UINT32_MAX;
        for (uint32_t i = 0; i < TOKENS && chosen == UINT32_MAX; i++) {
            const uint32_t id = (i + seed) % TOKENS;
            size_t         len;
            const uint8_t *b = bytes_of(NULL, id, &len);
            matcher_copy(try, m);
            if ((matcher_bytes(try, b, len, &err) == WEIR_OK) != has(bits, id) && strstr(err.text, "ambiguous") == NULL)
                abort();
            if (has(bits, id)) chosen = id;
        }
        if (chosen == UINT32_MAX) break;
        size_t         len;
        const uint8_t *b = bytes_of(NULL, chosen, &len);
        if (matcher_bytes(m, b, len, &err) != WEIR_OK) break;
        seed = seed * 1664525u + 1013904223u;
    }
    matcher_free(m);
    matcher_free(try);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static trie          t;
    weir_grammar_options o = {.size = sizeof o, .ordered = size % 2 == 0, .any_space = size % 3 == 0};
    weir_error           err;
    grammar             *g;
    if (t.nodes == NULL && trie_make(&t, TOKENS, bytes_of, NULL, &err) != WEIR_OK) abort();
    err.text[0] = '\0';
    if (grammar_compile(&g, &t, FUZZ_KIND, (const char *)data, size, &o, &err) != WEIR_OK) {
        if (err.text[0] == '\0' || g != NULL) abort(); /* every failure says why */
        return 0;
    }
    walk(g, (uint32_t)size);
    walk(g, (uint32_t)size * 31 + 7);
    grammar_release(g);
    return 0;
}
