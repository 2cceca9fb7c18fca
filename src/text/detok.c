/* text/detok.c - token ids to text, as a stream of whole characters. */
#include "text/detok.h"

#include <inttypes.h>
#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

void detok_init(detok *d, const tokenizer *t, bool skip_special)
{
    *d = (detok){.tokenizer = t, .skip_special = skip_special};
}

/* Bytes of the character that begins with this byte; 0: none begins so. */
static size_t length_by_lead(uint8_t lead)
{
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Can `c` follow the n bytes (n >= 1) at p, the beginning of a character?  The
 * second byte decides about overlong forms, surrogates and the upper end. */
static bool continues(const uint8_t *p, size_t n, uint8_t c)
{
    if (n > 1) return c >= 0x80 && c <= 0xBF;
    switch (p[0]) {
    case 0xE0: return c >= 0xA0 && c <= 0xBF;
    case 0xED: return c >= 0x80 && c <= 0x9F;
    case 0xF0: return c >= 0x90 && c <= 0xBF;
    case 0xF4: return c >= 0x80 && c <= 0x8F;
    default: return c >= 0x80 && c <= 0xBF;
    }
}

static void push_byte(detok *d, uint8_t c, str *out)
{
    if (d->n_held > 0) {
        if (continues(d->held, d->n_held, c)) {
            if (d->n_held + 1u < length_by_lead(d->held[0])) {
                d->held[d->n_held++] = c;
                return;
            }
            str_put(out, d->held, d->n_held);
            str_putc(out, (char)c);
            d->n_held = 0;
            return;
        }
        detok_flush(d, out);
    }
    const size_t need = length_by_lead(c);
    if (need == 0) {
        str_puts(out, replacement);
    } else if (need == 1) {
        str_putc(out, (char)c);
    } else {
        d->held[0] = c;
        d->n_held  = 1;
    }
}

weir_status detok_push(detok *d, uint32_t id, str *out, weir_error *err)
{
    size_t         len;
    const uint8_t *bytes = tokenizer_bytes(d->tokenizer, id, &len);
    if (bytes == NULL)
        return status_fail(err, WEIR_INVALID,
                           "token id %" PRIu32 ": expected an id of the vocabulary (%" PRIu32 " ids)", id,
                           tokenizer_size(d->tokenizer));
    if (d->skip_special && tokenizer_is_special(d->tokenizer, id)) return WEIR_OK;
    for (size_t i = 0; i < len;) {
        const size_t whole = d->n_held > 0 ? 0 : utf8_sequence((const char *)bytes + i, len - i);
        if (whole > 0) {
            str_put(out, bytes + i, whole);
            i += whole;
        } else {
            push_byte(d, bytes[i++], out);
        }
    }
    return WEIR_OK;
}

void detok_flush(detok *d, str *out)
{
    if (d->n_held > 0) str_puts(out, replacement);
    d->n_held = 0;
}

weir_status detok_all(const tokenizer *t, const uint32_t *ids, size_t n, bool skip_special, str *out, weir_error *err)
{
    detok d;
    detok_init(&d, t, skip_special);
    for (size_t i = 0; i < n; i++) TRY(detok_push(&d, ids[i], out, err));
    detok_flush(&d, out);
    return str_status(out, "text of token ids", err);
}
