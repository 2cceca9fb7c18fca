/* tests/unit/grammar/rig.c - grammars over small vocabularies. */
#include "unit/grammar/rig.h"

#include "support/cmocka.h"
#include "support/rng.h"

#include <stdlib.h>
#include <string.h>

enum { TOKEN_MOST = 16 };

static const uint8_t *token_bytes(const void *user, uint32_t id, size_t *len)
{
    const vocabulary *v = user;
    *len                = v->len[id];
    return v->bytes + (size_t)id * TOKEN_MOST;
}

static bool is_new(const vocabulary *v, const uint8_t *bytes, uint8_t len)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->len[i] == len && memcmp(v->bytes + (size_t)i * TOKEN_MOST, bytes, len) == 0) return false;
    return true;
}

void vocabulary_make(vocabulary *v, uint32_t more, uint64_t seed)
{
    static const char *const parts[] = {"\"", "\":",  "\": ", "\",",      ",",        " ",        "\n",   "{",   "}",
                                        "[",  "]",    "a",    "b",        "ab",       "1",        "0",    "12",  "-",
                                        ".5", "e",    "true", "null",     "\\",       "\\n",      "\\u0", "00",  "x",
                                        "id", "name", "\xC3", "\xC3\xA9", "\xF0\x9F", "\x98\x80", "\"]",  "\"}", "}, {",
                                        "  ", ", \"", "{\"",  "T",        "2024",     ":"};
    enum { PARTS = sizeof parts / sizeof *parts };
    *v       = (vocabulary){0};
    v->bytes = calloc(256 + more, TOKEN_MOST);
    v->len   = calloc(256 + more, 1);
    assert_non_null(v->bytes);
    assert_non_null(v->len);
    for (; v->n < 256; v->n++) {
        v->bytes[(size_t)v->n * TOKEN_MOST] = (uint8_t)v->n;
        v->len[v->n]                        = 1;
    }
    while (v->n < 256 + more) {
        uint8_t bytes[TOKEN_MOST];
        uint8_t len = 0;
        for (uint32_t i = 0, n = 1 + rng_below(&seed, 8); i < n; i++) {
            const char  *p = parts[rng_below(&seed, PARTS)];
            const size_t k = strlen(p);
            if (len + k > TOKEN_MOST) break;
            memcpy(bytes + len, p, k);
            len = (uint8_t)(len + k);
        }
        if (len < 2 || !is_new(v, bytes, len)) continue;
        memcpy(v->bytes + (size_t)v->n * TOKEN_MOST, bytes, len);
        v->len[v->n++] = len;
    }
    v->words = (v->n + 63) / 64;
    weir_error err;
    assert_int_equal(trie_make(&v->t, v->n, token_bytes, v, &err), WEIR_OK);
}

void vocabulary_free(vocabulary *v)
{
    trie_free(&v->t);
    free(v->bytes);
    free(v->len);
}

grammar *compiled(const vocabulary *v, weir_grammar_kind kind, const char *text, const weir_grammar_options *opt)
{
    const weir_grammar_options none = WEIR_GRAMMAR_OPTIONS_INIT;
    weir_error                 err;
    grammar                   *g;
    if (grammar_compile(&g, &v->t, kind, text, strlen(text), opt != NULL ? opt : &none, &err) != WEIR_OK)
        fail_msg("%s: %s", text, err.text);
    return g;
}

bool accepts(grammar *g, const char *text, size_t n)
{
    weir_error err;
    matcher   *m;
    assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
    bool good = true;
    for (size_t i = 0; i < n && good; i++) good = matcher_bytes(m, (const uint8_t *)text + i, 1, &err) == WEIR_OK;
    good = good && matcher_may_end(m);
    matcher_free(m);
    return good;
}

static bool has(const uint64_t *bits, uint32_t id)
{
    return bits[id / 64] >> id % 64 & 1;
}

/* Every token's bit tells whether the token can be taken. */
static void compare(const vocabulary *v, const matcher *m, matcher *try, const uint64_t *bits, const char *text,
                    size_t at)
{
    for (uint32_t id = 0; id < v->n; id++) {
        weir_error err;
        size_t     len;
        matcher_copy(try, m);
        const uint8_t *b  = token_bytes(v, id, &len);
        const bool     ok = matcher_bytes(try, b, len, &err) == WEIR_OK;
        if (ok != has(bits, id))
            fail_msg("%s, byte %zu: token \"%.*s\": the mask says %d, the matcher %d", text, at, (int)len,
                     (const char *)b, has(bits, id), ok);
    }
}

/* A token that stands here, the seed's choice. */
static uint32_t cut(const vocabulary *v, const char *text, size_t n, uint64_t *seed)
{
    uint32_t best = (uint8_t)text[0], count = 1;
    for (uint32_t id = 256; id < v->n; id++) {
        const size_t len = v->len[id];
        if (len > n || memcmp(v->bytes + (size_t)id * TOKEN_MOST, text, len) != 0) continue;
        if (rng_below(seed, ++count) == 0) best = id;
    }
    return best;
}

bool accepts_by_tokens(const vocabulary *v, grammar *g, const char *text, size_t n, uint64_t seed, bool all_tokens)
{
    weir_error err;
    matcher   *m, *try;
    uint64_t  *bits = calloc(v->words, sizeof *bits);
    assert_non_null(bits);
    assert_int_equal(matcher_new(&m, g, &err), WEIR_OK);
    assert_int_equal(matcher_new(&try, g, &err), WEIR_OK);
    bool good = true;
    for (size_t i = 0; good && i <= n;) {
        assert_int_equal(matcher_mask(m, bits, &err), WEIR_OK);
        if (all_tokens) compare(v, m, try, bits, text, i);
        if (i == n) break;
        const uint32_t id = cut(v, text + i, n - i, &seed);
        good              = matcher_bytes(m, v->bytes + (size_t)id * TOKEN_MOST, v->len[id], &err) == WEIR_OK;
        if (good != has(bits, id)) fail_msg("%s, byte %zu: the mask and the matcher differ", text, i);
        i += v->len[id];
    }
    good = good && matcher_may_end(m);
    matcher_free(m);
    matcher_free(try);
    free(bits);
    return good;
}
