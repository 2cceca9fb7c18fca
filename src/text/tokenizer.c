/* text/tokenizer.c - text to token ids. */
#include "text/tokenizer.h"

#include "base/str.h"
#include "text/tokenizer_parts.h"

#include <string.h>

void tokenizer_free(tokenizer *t)
{
    if (t == NULL) return;
    bpe_free(&t->bpe);
    vocab_free(&t->vocab);
    pretokenizer_free(t->pattern);
    added_set_free(&t->added);
    added_set_free(&t->added_raw);
    added_set_free(&t->added_normalised);
    mem_free(t);
}

uint32_t tokenizer_size(const tokenizer *t)
{
    return t->vocab.size;
}

bool tokenizer_id(const tokenizer *t, const char *text, uint32_t *id)
{
    const size_t       len   = strlen(text);
    const added_token *added = added_find(&t->added, text, len);
    const uint32_t     found = added != NULL ? added->id : vocab_find(&t->vocab, (const uint8_t *)text, len);
    if (found == TOKEN_NONE) return false;
    *id = found;
    return true;
}

const uint8_t *tokenizer_bytes(const tokenizer *t, uint32_t id, size_t *len)
{
    *len = 0;
    return vocab_kind(&t->vocab, id) == 0 ? NULL : vocab_bytes(&t->vocab, id, len);
}

bool tokenizer_is_added(const tokenizer *t, uint32_t id)
{
    return (vocab_kind(&t->vocab, id) & TOKEN_ADDED) != 0;
}

bool tokenizer_is_special(const tokenizer *t, uint32_t id)
{
    return (vocab_kind(&t->vocab, id) & TOKEN_SPECIAL) != 0;
}

/* What one call of tokenizer_encode owns. */
typedef struct encoding {
    const tokenizer *t;
    bool             added; /* recognise added tokens */
    pretoken_cut     cut;
    normalised       normal;
    bpe_scratch      scratch;
    token_ids       *out; /* the caller's */
} encoding;

static weir_status encode_text(encoding *e, const added_text *x, weir_error *err)
{
    pretoken_cut_start(&e->cut, x->text, x->len);
    while (pretoken_cut_more(&e->cut)) {
        size_t start, end;
        TRY(pretoken_cut_next(&e->cut, &start, &end, err));
        TRY(bpe_encode(&e->t->bpe, (const uint8_t *)x->text + start, end - start, &e->scratch, e->out, err));
    }
    return WEIR_OK;
}

typedef weir_status between_fn(encoding *e, const added_text *x, weir_error *err);

/* Emits the tokens of the set that occur in x, and gives what lies between
 * them to `between`. */
static weir_status split_at_added(encoding *e, const added_set *set, const added_text *x, between_fn *between,
                                  weir_error *err)
{
    size_t      at   = 0;
    added_match m    = {0};
    bool        more = true;
    while (more) {
        more             = e->added && added_next(set, x, at, &m);
        const size_t end = more ? m.start : x->len;
        if (end > at) {
            const uint8_t   *untrusted = x->untrusted == NULL ? NULL : x->untrusted + at;
            const added_text part      = {.text = x->text + at, .len = end - at, .untrusted = untrusted};
            TRY(between(e, &part, err));
        }
        if (more) TRY(token_ids_push(e->out, m.id, err));
        at = m.end;
    }
    return WEIR_OK;
}

static weir_status encode_normalised(encoding *e, const added_text *x, weir_error *err)
{
    return split_at_added(e, &e->t->added_normalised, x, encode_text, err);
}

static weir_status encode_raw(encoding *e, const added_text *x, weir_error *err)
{
    if (!e->t->nfc) return encode_normalised(e, x, err);
    bool is_nfc;
    str_clear(&e->normal.text);
    str_clear(&e->normal.untrusted);
    TRY(normalise_nfc(&e->t->normaliser, x->text, x->len, x->untrusted, &e->normal, &is_nfc, err));
    if (is_nfc) return encode_normalised(e, x, err);
    const added_text y = {
        .text      = e->normal.text.data,
        .len       = e->normal.text.len,
        .untrusted = x->untrusted == NULL ? NULL : (const uint8_t *)e->normal.untrusted.data,
    };
    return encode_normalised(e, &y, err);
}

/* The offset of the first byte that is not UTF-8, or len. */
static size_t utf8_prefix(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len) {
        uint64_t word;
        if (len - i >= 8 && (memcpy(&word, text + i, 8), (word & 0x8080808080808080u) == 0)) {
            i += 8;
            continue;
        }
        const size_t n = utf8_sequence(text + i, len - i);
        if (n == 0) break;
        i += n;
    }
    return i;
}

weir_status tokenizer_encode(const tokenizer *t, const char *text, size_t len, const uint8_t *untrusted, bool added,
                             token_ids *out, weir_error *err)
{
    if (len > TOKENIZER_MAX_TEXT)
        return status_fail(err, WEIR_INVALID, "text: expected at most %d bytes, found %zu", (int)TOKENIZER_MAX_TEXT,
                           len);
    const size_t valid = utf8_prefix(text, len);
    if (valid < len)
        return status_fail(err, WEIR_INVALID, "text: expected UTF-8, found byte 0x%02X at offset %zu",
                           (unsigned)(uint8_t)text[valid], valid);
    const size_t before = out->n;
    encoding     e      = {.t = t, .added = added, .out = out};
    str_init(&e.normal.text, (size_t)TOKENIZER_MAX_TEXT * 3); /* NFC is at most thrice as long */
    str_init(&e.normal.untrusted, (size_t)TOKENIZER_MAX_TEXT * 3);

    weir_status st = pretoken_cut_init(&e.cut, t->pattern, err);
    if (st == WEIR_OK) {
        const added_text x = {.text = text, .len = len, .untrusted = untrusted};
        st                 = split_at_added(&e, &t->added_raw, &x, encode_raw, err);
    }
    pretoken_cut_free(&e.cut);
    normalised_free(&e.normal);
    bpe_scratch_free(&e.scratch);
    if (st != WEIR_OK) out->n = before;
    return st;
}
