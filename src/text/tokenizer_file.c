/* text/tokenizer_file.c - reading tokenizer.json.
 *
 *   { "added_tokens": [{id, content, special, ...}],
 *     "normalizer": null | {"type": "NFC"},
 *     "pre_tokenizer": Sequence[Split(regex, Isolated), ByteLevel],
 *     "post_processor": null | ByteLevel,   "decoder": ByteLevel,
 *     "model": {"type": "BPE", "vocab": {token: id}, "merges": [["a", "b"] or "a b"], ...} }
 *
 * One pass: the two tables are read where they stand (text/json_scan.h), all
 * other text is copied together into one small document for the JSON library.
 * What would change ids and is not known here is refused by name. */
#include "text/tokenizer_parts.h"

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "text/byte_alphabet.h"
#include "text/json_scan.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_FILE = 1 << 29, MAX_REST = 1 << 26 };

typedef struct reader {
    const char *file;
    tokenizer  *t;
    json_scan   scan;
    bool        have_vocab, have_merges;
    json_span   merges_later; /* merges that came before the vocabulary */
    uint8_t    *scratch;      /* as long as the file */
    bpe_merge  *merges;
    uint32_t    n_merges, merges_cap;
    str         rest; /* the document without the two tables */
} reader;

static bool span_is(json_span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.text, text, s.len) == 0;
}

static weir_status read_vocab(reader *r, weir_error *err)
{
    if (r->have_vocab) return status_fail(err, WEIR_FORMAT, "model.vocab: it is there twice");
    r->have_vocab = true;
    TRY(json_scan_expect(&r->scan, '{', err));
    bool more = json_scan_peek(&r->scan) != '}';
    if (!more) return json_scan_expect(&r->scan, '}', err);
    while (more) {
        size_t   n;
        uint32_t id;
        TRY(json_scan_token(&r->scan, r->scratch, &n, err));
        TRY(json_scan_expect(&r->scan, ':', err));
        TRY(json_scan_u32(&r->scan, &id, err));
        TRY(vocab_add(&r->t->vocab, id, r->scratch, n, TOKEN_ORDINARY, err));
        TRY(json_scan_more(&r->scan, '}', &more, err));
    }
    return WEIR_OK;
}

static weir_status reserve_merge(reader *r, weir_error *err)
{
    if (r->n_merges < r->merges_cap) return WEIR_OK;
    if (r->n_merges >= VOCAB_MAX_IDS)
        return status_fail(err, WEIR_FORMAT, "expected at most %d merges", (int)VOCAB_MAX_IDS);
    const uint32_t cap = r->merges_cap == 0 ? 1 << 16 : r->merges_cap * 2;
    bpe_merge     *p   = mem_realloc(r->merges, cap, sizeof *p);
    if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "out of memory");
    r->merges     = p;
    r->merges_cap = cap;
    return WEIR_OK;
}

/* The token a merge makes.  In files made by training it is the one after the
 * last merge's, which saves looking it up. */
static uint32_t find_joined(const reader *r, size_t n)
{
    const vocab *v = &r->t->vocab;
    if (r->n_merges > 0) {
        const uint32_t next = r->merges[r->n_merges - 1].joined + 1;
        size_t         len;
        if (vocab_kind(v, next) & TOKEN_ORDINARY) {
            const uint8_t *bytes = vocab_bytes(v, next, &len);
            if (len == n && memcmp(bytes, r->scratch, n) == 0) return next;
        }
    }
    return vocab_find(v, r->scratch, n);
}

/* The pair lies in scratch, n bytes, of which n_left are the left token. */
static weir_status add_merge(reader *r, size_t n_left, size_t n, weir_error *err)
{
    const vocab    *v = &r->t->vocab;
    const bpe_merge m = {
        .left   = vocab_find(v, r->scratch, n_left),
        .right  = vocab_find(v, r->scratch + n_left, n - n_left),
        .joined = find_joined(r, n),
    };
    if (m.left == TOKEN_NONE || m.right == TOKEN_NONE || m.joined == TOKEN_NONE)
        return status_fail(err, WEIR_FORMAT, "merge %" PRIu32 " (before byte %zu): %s is not in the vocabulary",
                           r->n_merges, r->scan.at,
                           m.left == TOKEN_NONE    ? "its left token"
                           : m.right == TOKEN_NONE ? "its right token"
                                                   : "what it makes");
    TRY(reserve_merge(r, err));
    r->merges[r->n_merges++] = m;
    return WEIR_OK;
}

static weir_status read_merge(reader *r, weir_error *err)
{
    size_t n_left, n;
    if (json_scan_peek(&r->scan) == '"') {
        TRY(json_scan_token_pair(&r->scan, r->scratch, &n_left, &n, err));
        return add_merge(r, n_left, n, err);
    }
    size_t n_right;
    TRY(json_scan_expect(&r->scan, '[', err));
    TRY(json_scan_token(&r->scan, r->scratch, &n_left, err));
    TRY(json_scan_expect(&r->scan, ',', err));
    TRY(json_scan_token(&r->scan, r->scratch + n_left, &n_right, err));
    TRY(json_scan_expect(&r->scan, ']', err));
    return add_merge(r, n_left, n_left + n_right, err);
}

static weir_status read_merges(reader *r, weir_error *err)
{
    TRY(json_scan_expect(&r->scan, '[', err));
    bool more = json_scan_peek(&r->scan) != ']';
    if (!more) return json_scan_expect(&r->scan, ']', err);
    while (more) {
        TRY(read_merge(r, err));
        TRY(json_scan_more(&r->scan, ']', &more, err));
    }
    return WEIR_OK;
}

/* Tables: read where they stand. */
static weir_status read_table(reader *r, json_span key, weir_error *err)
{
    weir_status st;
    if (span_is(key, "vocab")) {
        st = read_vocab(r, err);
        if (st == WEIR_OK) st = vocab_index(&r->t->vocab, err);
    } else if (r->have_merges) {
        st = status_fail(err, WEIR_FORMAT, "it is there twice");
    } else {
        r->have_merges = true;
        st             = r->have_vocab ? read_merges(r, err) : json_scan_value(&r->scan, &r->merges_later, err);
    }
    return st == WEIR_OK ? st : status_prefix(err, st, "model.%.*s", (int)key.len, key.text);
}

static void copy_key(reader *r, bool first, json_span key)
{
    str_puts(&r->rest, first ? "\"" : ",\"");
    str_put(&r->rest, key.text, key.len);
    str_puts(&r->rest, "\":");
}

/* Everything else: copied. */
static weir_status copy_member(reader *r, bool first, json_span key, json_span *value, weir_error *err)
{
    TRY(json_scan_value(&r->scan, value, err));
    copy_key(r, first, key);
    str_put(&r->rest, value->text, value->len);
    return WEIR_OK;
}

static weir_status read_model(reader *r, weir_error *err)
{
    TRY(json_scan_expect(&r->scan, '{', err));
    str_putc(&r->rest, '{');
    bool first = true, more = json_scan_peek(&r->scan) != '}';
    if (!more) TRY(json_scan_expect(&r->scan, '}', err));
    while (more) {
        json_span key, value;
        TRY(json_scan_raw(&r->scan, &key, err));
        TRY(json_scan_expect(&r->scan, ':', err));
        if (span_is(key, "vocab") || span_is(key, "merges")) {
            TRY(read_table(r, key, err));
        } else {
            TRY(copy_member(r, first, key, &value, err));
            first = false;
            /* Asked as soon as it is known: the tables of other models look otherwise. */
            if (span_is(key, "type") && !span_is(value, "\"BPE\""))
                return status_fail(err, WEIR_UNSUPPORTED, "model.type: expected \"BPE\", found %.*s",
                                   (int)(value.len < 64 ? value.len : 64), value.text);
        }
        TRY(json_scan_more(&r->scan, '}', &more, err));
    }
    str_putc(&r->rest, '}');
    return WEIR_OK;
}

static weir_status read_document(reader *r, weir_error *err)
{
    TRY(json_scan_expect(&r->scan, '{', err));
    str_putc(&r->rest, '{');
    bool more = json_scan_peek(&r->scan) != '}';
    if (!more) TRY(json_scan_expect(&r->scan, '}', err));
    for (bool first = true; more; first = false) {
        json_span key, value;
        TRY(json_scan_raw(&r->scan, &key, err));
        TRY(json_scan_expect(&r->scan, ':', err));
        if (span_is(key, "model")) {
            copy_key(r, first, key);
            TRY(read_model(r, err));
        } else {
            TRY(copy_member(r, first, key, &value, err));
        }
        TRY(json_scan_more(&r->scan, '}', &more, err));
    }
    str_putc(&r->rest, '}');
    if (json_scan_peek(&r->scan) != '\0' || r->scan.at < r->scan.len)
        return status_fail(err, WEIR_FORMAT, "byte %zu: expected the end of the file", r->scan.at);
    if (!r->have_vocab || !r->have_merges)
        return status_fail(err, WEIR_FORMAT, "expected model.%s, found none", r->have_vocab ? "merges" : "vocab");
    if (r->merges_later.text != NULL) {
        r->scan.at           = (size_t)(r->merges_later.text - r->scan.text);
        const weir_status st = read_merges(r, err);
        if (st != WEIR_OK) return status_prefix(err, st, "model.merges");
    }
    return str_status(&r->rest, "what is not vocab or merges", err);
}

/* *type is the "type" of the object at `key`, "null" when there is none. */
static weir_status part_type(const json_at *at, const char *key, json_at *part, const char **type, weir_error *err)
{
    const json_t *obj;
    TRY(json_get_object(at, key, false, &obj, err));
    *part = (json_at){.file = at->file, .where = key, .obj = obj};
    *type = "null";
    return obj == NULL ? WEIR_OK : json_get_string(part, "type", true, type, err);
}

static weir_status unknown(const json_at *at, const char *key, const char *expected, const char *found, weir_error *err)
{
    return status_fail(err, WEIR_UNSUPPORTED, "%s: %s%s%s: expected %s, found %.64s", at->file, at->where,
                       at->where[0] != '\0' ? "." : "", key, expected, found);
}

static weir_status read_normalizer(tokenizer *t, const json_at *top, weir_error *err)
{
    json_at     part;
    const char *type;
    TRY(part_type(top, "normalizer", &part, &type, err));
    t->nfc = strcmp(type, "NFC") == 0;
    if (!t->nfc && part.obj != NULL) return unknown(&part, "type", "NFC or no normalizer", type, err);
    if (t->nfc) normaliser_init(&t->normaliser);
    return WEIR_OK;
}

/* Post-processor and decoder must be byte-level: they add no tokens and join
 * bytes, whatever their other settings say. */
static weir_status check_byte_level(const json_at *top, const char *key, bool required, weir_error *err)
{
    json_at     part;
    const char *type;
    TRY(part_type(top, key, &part, &type, err));
    if (strcmp(type, "ByteLevel") == 0 || (part.obj == NULL && !required)) return WEIR_OK;
    return unknown(&part, "type", "ByteLevel", type, err);
}

static weir_status read_split(tokenizer *t, const json_at *at, weir_error *err)
{
    const char   *behavior, *regex;
    const json_t *pattern;
    TRY(json_get_string(at, "behavior", true, &behavior, err));
    if (strcmp(behavior, "Isolated") != 0) return unknown(at, "behavior", "Isolated", behavior, err);
    TRY(json_get_object(at, "pattern", true, &pattern, err));
    const json_at inner = {.file = at->file, .where = "pre_tokenizer.Split.pattern", .obj = pattern};
    TRY(json_get_string(&inner, "Regex", true, &regex, err));
    const weir_status st = pretokenizer_new(&t->pattern, regex, strlen(regex), err);
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: %s", at->file, inner.where);
}

static weir_status read_byte_level(const json_at *at, weir_error *err)
{
    bool add_prefix_space = true, use_regex = true; /* what the format means by leaving them out */
    TRY(json_get_bool(at, "add_prefix_space", false, &add_prefix_space, err));
    TRY(json_get_bool(at, "use_regex", false, &use_regex, err));
    if (add_prefix_space) return unknown(at, "add_prefix_space", "false", "true", err);
    if (use_regex) return unknown(at, "use_regex", "false", "true", err);
    return WEIR_OK;
}

/* Sequence[Split, ByteLevel], in this order. */
static weir_status read_pre_tokenizer(tokenizer *t, const json_at *top, weir_error *err)
{
    json_at       part;
    const char   *type;
    const json_t *list;
    TRY(part_type(top, "pre_tokenizer", &part, &type, err));
    if (strcmp(type, "Sequence") != 0) return unknown(&part, "type", "Sequence", type, err);
    TRY(json_get_array(&part, "pretokenizers", true, &list, err));
    const size_t n = json_array_size(list);
    if (n != 2)
        return status_fail(err, WEIR_UNSUPPORTED,
                           "%s: pre_tokenizer.pretokenizers: expected Split and ByteLevel, "
                           "found %zu parts",
                           top->file, n);
    static const char *const expected[] = {"Split", "ByteLevel"};
    static const char *const where[]    = {"pre_tokenizer.Split", "pre_tokenizer.ByteLevel"};
    for (size_t i = 0; i < n; i++) {
        const json_at at = {.file = top->file, .where = where[i], .obj = json_array_get(list, i)};
        if (!json_is_object(at.obj))
            return status_fail(err, WEIR_FORMAT, "%s: pre_tokenizer.pretokenizers: expected an object, found %s",
                               top->file, json_kind(at.obj));
        TRY(json_get_string(&at, "type", true, &type, err));
        if (strcmp(type, expected[i]) != 0) return unknown(&part, "pretokenizers", expected[i], type, err);
        TRY(i == 0 ? read_split(t, &at, err) : read_byte_level(&at, err));
    }
    return WEIR_OK;
}

static weir_status read_model_settings(const json_at *top, bool *ignore_merges, weir_error *err)
{
    const json_t *obj;
    TRY(json_get_object(top, "model", true, &obj, err));
    const json_at at   = {.file = top->file, .where = "model", .obj = obj};
    const char   *type = "BPE"; /* early files leave it out */
    TRY(json_get_string(&at, "type", false, &type, err));
    if (strcmp(type, "BPE") != 0) return unknown(&at, "type", "BPE", type, err);
    double dropout = 0;
    TRY(json_get_double(&at, "dropout", false, &dropout, err));
    if (dropout > 0 || dropout < 0) return unknown(&at, "dropout", "none", "a probability", err);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++) {
        const char *affix = "";
        TRY(json_get_string(&at, affixes[i], false, &affix, err));
        if (affix[0] != '\0') return unknown(&at, affixes[i], "none", affix, err);
    }
    *ignore_merges = false;
    return json_get_bool(&at, "ignore_merges", false, ignore_merges, err);
}

/* The ordinary token that the file's alphabet spells like this text, or
 * TOKEN_NONE.  `bytes` has room for the text. */
static uint32_t find_spelling(const vocab *v, const char *text, uint8_t *bytes)
{
    size_t n;
    return byte_alphabet_read(text, strlen(text), bytes, &n) ? vocab_find(v, bytes, n) : TOKEN_NONE;
}

/* An added token may also be an entry of the vocabulary, then under the same
 * id; otherwise its id is new. */
static weir_status register_added(tokenizer *t, const added_token *a, bool special, uint8_t *bytes, weir_error *err)
{
    const uint8_t  kind     = (uint8_t)(TOKEN_ADDED | (special ? TOKEN_SPECIAL : 0));
    const uint32_t ordinary = find_spelling(&t->vocab, a->text, bytes);
    if (ordinary == TOKEN_NONE) return vocab_add(&t->vocab, a->id, (const uint8_t *)a->text, a->len, kind, err);
    size_t         len;
    const uint8_t *own = vocab_bytes(&t->vocab, ordinary, &len);
    if (ordinary != a->id || len != a->len || memcmp(own, a->text, len) != 0)
        return status_fail(err, WEIR_FORMAT, "id %" PRIu32 ": the vocabulary has '%s' as another token, %" PRIu32,
                           a->id, a->text, ordinary);
    if (t->vocab.kinds[a->id] & TOKEN_ADDED)
        return status_fail(err, WEIR_FORMAT, "id %" PRIu32 ": two tokens have it", a->id);
    t->vocab.kinds[a->id] |= kind;
    return WEIR_OK;
}

static weir_status put_normalised(tokenizer *t, const added_token *a, weir_error *err)
{
    added_token copy = *a;
    normalised  n;
    bool        is_nfc = true;
    str_init(&n.text, MAX_REST);
    str_init(&n.untrusted, MAX_REST);
    weir_status st = t->nfc ? normalise_nfc(&t->normaliser, a->text, a->len, NULL, &n, &is_nfc, err) : WEIR_OK;
    if (!is_nfc) {
        copy.text = n.text.data;
        copy.len  = (uint32_t)n.text.len;
    }
    if (st == WEIR_OK) st = added_set_put(&t->added_normalised, &copy, err);
    normalised_free(&n);
    return st;
}

static weir_status read_added(reader *r, const json_at *at, weir_error *err)
{
    tokenizer  *t          = r->t;
    added_token a          = {0};
    bool        normalized = false, special = false;
    const char *content = NULL;
    TRY(json_get_u32(at, "id", true, 0, VOCAB_MAX_IDS - 1, &a.id, err));
    TRY(json_get_string(at, "content", true, &content, err));
    TRY(json_get_bool(at, "single_word", true, &a.single_word, err));
    TRY(json_get_bool(at, "lstrip", true, &a.lstrip, err));
    TRY(json_get_bool(at, "rstrip", true, &a.rstrip, err));
    TRY(json_get_bool(at, "normalized", true, &normalized, err));
    TRY(json_get_bool(at, "special", true, &special, err));
    a.len = (uint32_t)strlen(content);
    if (a.len == 0) return status_fail(err, WEIR_FORMAT, "%s: %s.content: found an empty one", at->file, at->where);
    a.text         = mem_strdup(content);
    weir_status st = a.text == NULL ? status_fail(err, WEIR_NO_MEMORY, "out of memory") : WEIR_OK;
    if (st == WEIR_OK) st = register_added(t, &a, special, r->scratch, err);
    if (st == WEIR_OK) st = added_set_put(&t->added, &a, err);
    if (st == WEIR_OK) st = normalized ? put_normalised(t, &a, err) : added_set_put(&t->added_raw, &a, err);
    mem_free(a.text);
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: %s", at->file, at->where);
}

static weir_status read_added_tokens(reader *r, const json_at *top, weir_error *err)
{
    const json_t *list;
    TRY(json_get_array(top, "added_tokens", false, &list, err));
    const size_t n = list == NULL ? 0 : json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        char          where[48];
        const json_at at = {.file = top->file, .where = where, .obj = json_array_get(list, i)};
        (void)snprintf(where, sizeof where, "added_tokens[%zu]", i);
        if (!json_is_object(at.obj))
            return status_fail(err, WEIR_FORMAT, "%s: %s: expected an object, found %s", top->file, where,
                               json_kind(at.obj));
        TRY(read_added(r, &at, err));
    }
    added_set *const sets[] = {&r->t->added, &r->t->added_raw, &r->t->added_normalised};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const weir_status st = added_set_sort(sets[i], err);
        if (st != WEIR_OK) return status_prefix(err, st, "%s", top->file);
    }
    return WEIR_OK;
}

static weir_status read_settings(reader *r, const json_at *top, weir_error *err)
{
    bool ignore_merges;
    TRY(read_model_settings(top, &ignore_merges, err));
    TRY(read_normalizer(r->t, top, err));
    TRY(read_pre_tokenizer(r->t, top, err));
    TRY(check_byte_level(top, "post_processor", false, err));
    TRY(check_byte_level(top, "decoder", true, err));
    TRY(read_added_tokens(r, top, err));
    const weir_status st = bpe_init(&r->t->bpe, &r->t->vocab, r->merges, r->n_merges, ignore_merges, err);
    return st == WEIR_OK ? st : status_prefix(err, st, "%s: model", top->file);
}

static weir_status read_all(reader *r, weir_error *err)
{
    weir_status st = read_document(r, err);
    if (st != WEIR_OK) return status_prefix(err, st, "%s", r->file);
    json_doc doc;
    TRY(json_parse(&doc, r->rest.data, r->rest.len, r->file, JSON_MAX_DEPTH, err));
    const json_at top = {.file = r->file, .where = "", .obj = doc.root};
    st                = read_settings(r, &top, err);
    json_doc_free(&doc);
    return st;
}

weir_status tokenizer_parse(tokenizer **out, const char *text, size_t len, const char *name, weir_error *err)
{
    *out = NULL;
    if (len > MAX_FILE)
        return status_fail(err, WEIR_FORMAT, "%s: expected at most %d bytes, found %zu", name, (int)MAX_FILE, len);
    reader r = {.file = name};
    json_scan_init(&r.scan, text, len);
    str_init(&r.rest, MAX_REST);
    r.t            = mem_zalloc(1, sizeof *r.t);
    r.scratch      = mem_alloc(len, 1);
    weir_status st = r.t == NULL || r.scratch == NULL ? status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name)
                                                      : read_all(&r, err);
    str_free(&r.rest);
    mem_free(r.scratch);
    mem_free(r.merges);
    if (st == WEIR_OK)
        *out = r.t;
    else
        tokenizer_free(r.t);
    return st;
}

weir_status tokenizer_open(tokenizer **out, const char *path, weir_error *err)
{
    char  *text;
    size_t len;
    *out = NULL;
    TRY(file_read(&text, &len, path, MAX_FILE, err));
    const weir_status st = tokenizer_parse(out, text, len, path, err);
    mem_free(text);
    return st;
}
