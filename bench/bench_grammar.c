/* bench/bench_grammar.c - speed of grammar/grammar.h with a vocabulary of the family's size.
 *
 * One line a grammar: milliseconds to compile; microseconds a mask takes, median, 99th
 * percentile and maximum, over texts drawn from the masks themselves: of the first
 * text, and of the many that follow.  The vocabulary of 248,044 tokens is made up: words,
 * numbers, punctuation and characters of several scripts, as such vocabularies have them. */
#include "grammar/grammar.h"
#include "support/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VOCAB = 248044, TOKEN_MOST = 32, TEXTS = 60, STEPS_MOST = 600, SLOTS = 1 << 20 };

typedef struct vocabulary {
    uint8_t (*bytes)[TOKEN_MOST];
    uint8_t  *len;
    uint32_t *slots, n;
} vocabulary;

/* Of this thread: others that use the machine do not count. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(weir_status st, const weir_error *err)
{
    if (st == WEIR_OK) return;
    (void)fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static bool add(vocabulary *v, const char *text, size_t len)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)text[i]) * 1099511628211u;
    uint32_t i = (uint32_t)(h >> 20) & (SLOTS - 1);
    for (; v->slots[i] != 0; i = (i + 1) & (SLOTS - 1)) {
        const uint32_t id = v->slots[i] - 1;
        if (v->len[id] == len && memcmp(v->bytes[id], text, len) == 0) return false;
    }
    memcpy(v->bytes[v->n], text, len);
    v->len[v->n] = (uint8_t)len;
    v->slots[i]  = ++v->n;
    return true;
}

static size_t put_word(char *out, uint64_t *seed)
{
    static const char *const syllables[] = {"an", "er", "in", "on", "th",  "re", "st", "a",  "e",  "i",
                                            "o",  "u",  "s",  "t",  "ing", "ed", "ly", "co", "de", "pro"};
    size_t                   n           = 0;
    if (rng_below(seed, 2) == 0) out[n++] = ' ';
    for (uint32_t i = 0, k = 1 + rng_below(seed, 5); i < k; i++) {
        const char *s = syllables[rng_below(seed, 20)];
        memcpy(out + n, s, strlen(s));
        if (i == 0 && rng_below(seed, 4) == 0) out[n] = (char)(out[n] - 32);
        n += strlen(s);
    }
    return n;
}

/* Characters of two or three bytes. */
static size_t put_script(char *out, uint64_t *seed)
{
    const uint32_t base = rng_below(seed, 2) == 0 ? 0x430 : 0x4E00, range = base == 0x430 ? 32 : 20000;
    size_t         n = 0;
    for (uint32_t i = 0, k = 1 + rng_below(seed, 4); i < k; i++) {
        const uint32_t cp = base + rng_below(seed, range);
        if (cp >= 0x800) {
            out[n++] = (char)(0xE0 | cp >> 12);
            out[n++] = (char)(0x80 | (cp >> 6 & 0x3F));
        } else {
            out[n++] = (char)(0xC0 | cp >> 6);
        }
        out[n++] = (char)(0x80 | (cp & 0x3F));
    }
    return n;
}

static size_t put_punctuation(char *out, uint64_t *seed)
{
    static const char marks[] = "\"\"\"'':,,..;(){}[]<>/\\=+-*&|!?#@_ \n\t  ";
    size_t            n       = 0;
    for (uint32_t i = 0, k = 2 + rng_below(seed, 6); i < k; i++) out[n++] = marks[rng_below(seed, sizeof marks - 1)];
    return n;
}

static void make(vocabulary *v)
{
    uint64_t seed = 1;
    char     text[TOKEN_MOST * 2];
    v->bytes = calloc(VOCAB, sizeof *v->bytes);
    v->len   = calloc(VOCAB, 1);
    v->slots = calloc(SLOTS, sizeof *v->slots);
    if (v->bytes == NULL || v->len == NULL || v->slots == NULL) exit(1);
    for (unsigned b = 0; b < 256; b++) (void)add(v, &(char){(char)b}, 1);
    while (v->n < VOCAB) {
        const uint32_t kind = rng_below(&seed, 100);
        const size_t   n    = kind < 55   ? put_word(text, &seed)
                              : kind < 93 ? put_script(text, &seed)
                                          : put_punctuation(text, &seed);
        if (n <= TOKEN_MOST) (void)add(v, text, n);
    }
}

static const uint8_t *bytes_of(const void *user, uint32_t id, size_t *len)
{
    const vocabulary *v = user;
    *len                = v->len[id];
    return v->bytes[id];
}

/* One of the allowed tokens: ending things often enough that texts end. */
static uint32_t choose(const vocabulary *v, const uint64_t *bits, uint64_t *seed)
{
    uint32_t best = UINT32_MAX, n = 0;
    for (const char *c = "\"}],:"; *c != '\0' && rng_below(seed, 3) == 0; c++)
        if (bits[(uint8_t)*c / 64] >> (uint8_t)*c % 64 & 1) return (uint8_t)*c;
    for (uint32_t i = 0; i < (v->n + 63) / 64; i++)
        for (uint64_t w = bits[i]; w != 0; w &= w - 1)
            if (rng_below(seed, ++n) == 0) best = i * 64 + (uint32_t)__builtin_ctzll(w);
    return best;
}

typedef struct times {
    uint64_t *ns;
    size_t    n;
} times;

static void draw_text(const vocabulary *v, grammar *g, uint64_t *seed, times *t)
{
    weir_error err;
    matcher   *m;
    uint64_t  *bits = calloc((VOCAB + 63) / 64, sizeof *bits);
    if (bits == NULL) exit(1);
    must(matcher_new(&m, g, &err), &err);
    for (int step = 0; step < STEPS_MOST && !matcher_must_end(m); step++) {
        const uint64_t start = cpu_ns();
        must(matcher_mask(m, bits, &err), &err);
        t->ns[t->n++]     = cpu_ns() - start;
        const uint32_t id = choose(v, bits, seed);
        if (id == UINT32_MAX) break;
        must(matcher_bytes(m, v->bytes[id], v->len[id], &err), &err);
    }
    matcher_free(m);
    free(bits);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print(const times *t)
{
    qsort(t->ns, t->n, sizeof *t->ns, by_value);
    (void)printf("\t%zu\t%.1f\t%.1f\t%.1f", t->n, (double)t->ns[t->n / 2] * 1e-3, (double)t->ns[t->n * 99 / 100] * 1e-3,
                 (double)t->ns[t->n - 1] * 1e-3);
}

static void bench(const vocabulary *v, const trie *t, const char *name, weir_grammar_kind kind, const char *text)
{
    static uint64_t            ns[TEXTS * STEPS_MOST];
    const weir_grammar_options o = WEIR_GRAMMAR_OPTIONS_INIT;
    weir_error                 err;
    grammar                   *g;
    uint64_t                   seed = 7, start = cpu_ns();
    times                      first = {.ns = ns}, rest = {.ns = ns};
    must(grammar_compile(&g, t, kind, text, strlen(text), &o, &err), &err);
    (void)printf("%s\t%.1f", name, (double)(cpu_ns() - start) * 1e-6);
    draw_text(v, g, &seed, &first);
    print(&first);
    for (int i = 0; i < TEXTS / 2; i++) draw_text(v, g, &seed, &rest);
    rest.n = 0; /* by now what is asked often is there */
    for (int i = 0; i < TEXTS / 2; i++) draw_text(v, g, &seed, &rest);
    print(&rest);
    (void)printf("\t%.1f\n", (double)grammar_bytes(g) * 1e-6);
    (void)fflush(stdout);
    grammar_release(g);
}

/* An object of n properties of several types. */
static char *wide_schema(int n)
{
    static const char *const types[] = {"{\"type\":\"string\",\"maxLength\":%d}",
                                        "{\"type\":\"integer\",\"minimum\":-%d}",
                                        "{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"maxItems\":%d}",
                                        "{\"enum\":[\"one\",\"two\",\"three\",%d]}"};
    char                    *text    = calloc((size_t)n + 2, 120);
    size_t                   len     = 0;
    if (text == NULL) exit(1);
    len += (size_t)sprintf(text + len, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < n; i++) {
        len += (size_t)sprintf(text + len, "%s\"property_%d\":", i == 0 ? "" : ",", i);
        len += (size_t)snprintf(text + len, 100, types[i % 4], 10 + i);
    }
    (void)sprintf(text + len, "}}");
    return text;
}

int main(void)
{
    vocabulary v = {0};
    trie       t;
    weir_error err;
    make(&v);
    const uint64_t start = cpu_ns();
    must(trie_make(&t, v.n, bytes_of, &v, &err), &err);
    (void)printf("tree of %" PRIu32 " tokens: %" PRIu32 " nodes, %.1f ms\n", v.n, t.n,
                 (double)(cpu_ns() - start) * 1e-6);
    (void)printf("grammar\tcompile ms\tmasks first\tmedian us\tp99\tmax\tmasks\tmedian us\tp99\tmax\tMB\n");
    bench(&v, &t, "json object", WEIR_GRAMMAR_JSON_OBJECT, "");
    bench(
        &v, &t, "person", WEIR_GRAMMAR_JSON_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":40},\"age\":{\"type\":"
        "\"integer\",\"minimum\":0,\"maximum\":150},\"mail\":{\"type\":\"string\",\"format\":\"email\"},\"born\":{"
        "\"type\":\"string\",\"format\":\"date\"},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\",\"c\"]}"
        ",\"maxItems\":5}},\"required\":[\"name\",\"age\"]}");
    for (int n = 10; n <= 160; n *= 4) {
        char name[32], *schema = wide_schema(n);
        (void)snprintf(name, sizeof name, "%d properties", n);
        bench(&v, &t, name, WEIR_GRAMMAR_JSON_SCHEMA, schema);
        free(schema);
    }
    bench(
        &v, &t, "list", WEIR_GRAMMAR_JSON_SCHEMA,
        "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},"
        "\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},\"required\":[\"text\",\"next\"]}}}");
    bench(&v, &t, "regex", WEIR_GRAMMAR_REGEX, "([A-Z][a-z]+ ){3,9}[0-9]{4}-.{1,40}");
    bench(&v, &t, "arithmetic", WEIR_GRAMMAR_EBNF,
          "root ::= sum\nsum ::= product ((\" + \" | \" - \") product){0,20}\nproduct ::= atom (\" * \" atom)*\n"
          "atom ::= [0-9]+ | [a-z]{1,8} | \"(\" sum \")\"\n");
    trie_free(&t);
    free(v.bytes);
    free(v.len);
    free(v.slots);
    return 0;
}
