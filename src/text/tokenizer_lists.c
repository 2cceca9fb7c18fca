/* text/tokenizer_lists.c - a tokenizer out of the lists of a GGUF file.
 *
 * The file names its pattern instead of writing it down, and says nothing of
 * normalisation: both are those of the tokenizer.json that its lists were made
 * from. */
#include "base/mem.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_parts.h"

#include <inttypes.h>
#include <string.h>

/* As GGUF numbers them; 2, unknown, and 6, a byte, belong to other kinds of model. */
enum { TYPE_ORDINARY = 1, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, MAX_TOKEN = 1 << 20 };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define WHITE_SPACE "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name, *pattern;
} patterns[] = {
    /* Marks are a part of words. */
    {"qwen35", CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" WHITE_SPACE},
    {"qwen2", CONTRACTIONS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+" WHITE_SPACE},
};

typedef struct builder {
    const tokenizer_lists *l;
    tokenizer             *t;
    uint8_t               *scratch; /* as long as the longest string */
    bpe_merge             *merges;
} builder;

static weir_status at_token(const builder *b, uint32_t i, weir_status st, weir_error *err)
{
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: tokenizer.ggml.tokens[%" PRIu32 "]", b->l->name, i);
}

/* Room for every string, none of which may be longer than any real one. */
static weir_status reserve(builder *b, weir_error *err)
{
    size_t longest = 1;
    for (uint32_t i = 0; i < b->l->n_tokens; i++)
        if (b->l->tokens[i].len > longest) longest = b->l->tokens[i].len;
    for (uint32_t i = 0; i < b->l->n_merges; i++)
        if (b->l->merges[i].len > longest) longest = b->l->merges[i].len;
    if (longest > MAX_TOKEN)
        return status_fail(err, WEIR_FORMAT, "%s: tokenizer.ggml.tokens: expected at most %d bytes each, found %zu",
                           b->l->name, MAX_TOKEN, longest);
    b->t       = mem_zalloc(1, sizeof *b->t);
    b->scratch = mem_alloc(longest, 1);
    b->merges  = mem_alloc(b->l->n_merges, sizeof *b->merges);
    if (b->t == NULL || b->scratch == NULL || b->merges == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "%s: tokenizer: out of memory", b->l->name);
    return WEIR_OK;
}

static weir_status choose_pattern(builder *b, weir_error *err)
{
    const tokenizer_string pre = b->l->pre;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (strlen(patterns[i].name) != pre.len || memcmp(patterns[i].name, pre.text, pre.len) != 0) continue;
        b->t->nfc = true;
        normaliser_init(&b->t->normaliser);
        return pretokenizer_new(&b->t->pattern, patterns[i].pattern, strlen(patterns[i].pattern), err);
    }
    return status_fail(err, WEIR_UNSUPPORTED, "%s: tokenizer.ggml.pre: expected qwen35 or qwen2, found \"%.*s\"",
                       b->l->name, (int)(pre.len < 64 ? pre.len : 64), pre.text);
}

static weir_status put_ordinary(builder *b, uint32_t id, weir_error *err)
{
    const tokenizer_string s = b->l->tokens[id];
    size_t                 n;
    if (!byte_alphabet_read(s.text, s.len, b->scratch, &n))
        return status_fail(err, WEIR_FORMAT, "expected characters of the byte alphabet, found \"%.*s\"",
                           (int)(s.len < 64 ? s.len : 64), s.text);
    return vocab_add(&b->t->vocab, id, b->scratch, n, TOKEN_ORDINARY, err);
}

static weir_status put_added(builder *b, uint32_t id, weir_error *err)
{
    const tokenizer_string s = b->l->tokens[id];
    added_token            a = {.len = (uint32_t)s.len, .id = id};
    if (!utf8_valid(s.text, s.len) || memchr(s.text, '\0', s.len) != NULL)
        return status_fail(err, WEIR_FORMAT, "expected UTF-8 text");
    const uint8_t kind = (uint8_t)(TOKEN_ADDED | (b->l->types[id] == TYPE_CONTROL ? TOKEN_SPECIAL : 0));
    TRY(vocab_add(&b->t->vocab, id, (const uint8_t *)s.text, s.len, kind, err));
    a.text = mem_strndup(s.text, s.len);
    if (a.text == NULL) return status_fail(err, WEIR_NO_MEMORY, "out of memory");
    weir_status st = added_set_put(&b->t->added, &a, err);
    if (st == WEIR_OK) st = added_set_put(&b->t->added_raw, &a, err);
    mem_free(a.text);
    return st;
}

static weir_status read_tokens(builder *b, weir_error *err)
{
    const tokenizer_lists *l = b->l;
    for (uint32_t i = 0; i < l->n_tokens; i++) {
        weir_status st = WEIR_OK;
        switch (l->types[i]) {
        case TYPE_ORDINARY: st = put_ordinary(b, i, err); break;
        case TYPE_CONTROL:
        case TYPE_USER: st = put_added(b, i, err); break;
        case TYPE_UNUSED: break; /* a row of the model without a token */
        default:
            return status_fail(err, WEIR_UNSUPPORTED,
                               "%s: tokenizer.ggml.token_type[%" PRIu32 "]: expected 1, 3, 4 or 5, found %" PRId32,
                               l->name, i, l->types[i]);
        }
        TRY(at_token(b, i, st, err));
    }
    weir_status st = vocab_index(&b->t->vocab, err);
    if (st == WEIR_OK) st = added_set_sort(&b->t->added, err);
    if (st == WEIR_OK) st = added_set_sort(&b->t->added_raw, err);
    if (st == WEIR_OK) st = added_set_sort(&b->t->added_normalised, err);
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: tokenizer.ggml.tokens", l->name);
}

/* One merge: no token of the alphabet has a blank in it. */
static weir_status read_merge(builder *b, uint32_t i, weir_error *err)
{
    const tokenizer_string s     = b->l->merges[i];
    const char            *blank = s.len > 0 ? memchr(s.text, ' ', s.len) : NULL;
    const vocab           *v     = &b->t->vocab;
    size_t                 left = 0, right = 0;
    const size_t           n    = blank != NULL ? (size_t)(blank - s.text) : 0;
    const bool             read = blank != NULL && byte_alphabet_read(s.text, n, b->scratch, &left) &&
                      byte_alphabet_read(blank + 1, s.len - n - 1, b->scratch + left, &right) && left > 0 && right > 0;
    if (read) {
        const bpe_merge m = {.left   = vocab_find(v, b->scratch, left),
                             .right  = vocab_find(v, b->scratch + left, right),
                             .joined = vocab_find(v, b->scratch, left + right)};
        b->merges[i]      = m;
        if (m.left != TOKEN_NONE && m.right != TOKEN_NONE && m.joined != TOKEN_NONE) return WEIR_OK;
    }
    return status_fail(err, WEIR_FORMAT,
                       "%s: tokenizer.ggml.merges[%" PRIu32 "]: expected two tokens whose join is one, found \"%.*s\"",
                       b->l->name, i, (int)(s.len < 64 ? s.len : 64), s.text);
}

static weir_status build(builder *b, weir_error *err)
{
    TRY(reserve(b, err));
    TRY(choose_pattern(b, err));
    TRY(read_tokens(b, err));
    for (uint32_t i = 0; i < b->l->n_merges; i++) TRY(read_merge(b, i, err));
    const weir_status st = bpe_init(&b->t->bpe, &b->t->vocab, b->merges, b->l->n_merges, false, err);
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: tokenizer.ggml.merges", b->l->name);
}

weir_status tokenizer_from_lists(tokenizer **out, const tokenizer_lists *l, weir_error *err)
{
    builder           b  = {.l = l};
    const weir_status st = build(&b, err);
    *out                 = NULL;
    mem_free(b.scratch);
    mem_free(b.merges);
    if (st == WEIR_OK)
        *out = b.t;
    else
        tokenizer_free(b.t);
    return st;
}
