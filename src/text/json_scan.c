/* text/json_scan.c - a strict pull scanner for big tables. */
#include "text/json_scan.h"

#include "base/json.h"
#include "base/str.h"
#include "text/byte_alphabet.h"

#include <inttypes.h>
#include <string.h>

void json_scan_init(json_scan *s, const char *text, size_t len)
{
    *s = (json_scan){.text = text, .len = len};
    for (uint32_t i = 0; i < JSON_SCAN_ENTRIES; i++) {
        const uint32_t cp   = i < JSON_SCAN_PAIRS ? i : i - JSON_SCAN_PAIRS + 0x80;
        const bool     json = cp == '"' || cp == '\\' || (i < JSON_SCAN_PAIRS && i >= 0x80);
        s->alphabet[i]      = (int16_t)(json ? -1 : byte_alphabet_decode(cp));
    }
}

static weir_status wrong(const json_scan *s, const char *expected, weir_error *err)
{
    if (s->at >= s->len)
        return status_fail(err, WEIR_FORMAT, "byte %zu: expected %s, found the end of the file", s->at, expected);
    return status_fail(err, WEIR_FORMAT, "byte %zu: expected %s, found byte 0x%02X", s->at, expected,
                       (unsigned)(uint8_t)s->text[s->at]);
}

char json_scan_peek(json_scan *s)
{
    while (s->at < s->len) {
        const char c = s->text[s->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
        s->at++;
    }
    return '\0';
}

weir_status json_scan_expect(json_scan *s, char c, weir_error *err)
{
    if (json_scan_peek(s) == c && s->at < s->len) {
        s->at++;
        return WEIR_OK;
    }
    const char what[] = {'\'', c, '\'', '\0'};
    return wrong(s, what, err);
}

weir_status json_scan_more(json_scan *s, char close, bool *more, weir_error *err)
{
    const char c = json_scan_peek(s);
    if (s->at < s->len && (c == ',' || c == close)) {
        s->at++;
        *more = c == ',';
        return WEIR_OK;
    }
    const char what[] = {'\'', ',', '\'', ' ', 'o', 'r', ' ', '\'', close, '\'', '\0'};
    return wrong(s, what, err);
}

weir_status json_scan_raw(json_scan *s, json_span *out, weir_error *err)
{
    TRY(json_scan_expect(s, '"', err));
    const size_t start = s->at;
    while (s->at < s->len && s->text[s->at] != '"') s->at += s->text[s->at] == '\\' ? 2 : 1;
    if (s->at >= s->len) {
        s->at = s->len;
        return wrong(s, "the end of a string", err);
    }
    *out = (json_span){.text = s->text + start, .len = s->at - start};
    s->at++;
    return WEIR_OK;
}

/* A number or a word. */
static weir_status scan_scalar(json_scan *s, weir_error *err)
{
    const size_t start = s->at;
    while (s->at < s->len && s->text[s->at] != '\0' && strchr(" \t\r\n,:[]{}\"", s->text[s->at]) == NULL) s->at++;
    return s->at == start ? wrong(s, "a value", err) : WEIR_OK;
}

weir_status json_scan_value(json_scan *s, json_span *out, weir_error *err)
{
    unsigned     depth = 0;
    const char   first = json_scan_peek(s);
    const size_t start = s->at;
    if (first != '{' && first != '[') {
        json_span unused;
        TRY(first == '"' ? json_scan_raw(s, &unused, err) : scan_scalar(s, err));
        *out = (json_span){.text = s->text + start, .len = s->at - start};
        return WEIR_OK;
    }
    do {
        const char c = json_scan_peek(s);
        if (s->at >= s->len) return wrong(s, "the end of a value", err);
        if (c == '"') {
            json_span unused;
            TRY(json_scan_raw(s, &unused, err));
            continue;
        }
        s->at++;
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        if (depth > JSON_MAX_DEPTH)
            return status_fail(err, WEIR_FORMAT, "byte %zu: JSON nested deeper than %d levels", s->at, JSON_MAX_DEPTH);
    } while (depth > 0);
    *out = (json_span){.text = s->text + start, .len = s->at - start};
    return WEIR_OK;
}

weir_status json_scan_u32(json_scan *s, uint32_t *out, weir_error *err)
{
    (void)json_scan_peek(s);
    const size_t start = s->at;
    uint64_t     v     = 0;
    while (s->at < s->len && s->text[s->at] >= '0' && s->text[s->at] <= '9' && v <= UINT32_MAX)
        v = v * 10 + (uint64_t)(s->text[s->at++] - '0');
    const bool leading_zero = s->at - start > 1 && s->text[start] == '0';
    if (s->at == start || leading_zero || v > UINT32_MAX) {
        s->at = start;
        return wrong(s, "an integer of 32 bits", err);
    }
    *out = (uint32_t)v;
    return WEIR_OK;
}

static weir_status bad_character(const json_scan *s, weir_error *err)
{
    return wrong(s, "a character of the byte-level alphabet", err);
}

/* The four digits of \u at s->at; leaves s->at behind them. */
static weir_status scan_hex(json_scan *s, uint32_t *out, weir_error *err)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c     = s->at < s->len ? s->text[s->at] : '\0';
        const char lower = (char)(c | 0x20);
        uint32_t   digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            digit = (uint32_t)(lower - 'a') + 10;
        else
            return wrong(s, "four hexadecimal digits", err);
        v = v << 4 | digit;
        s->at++;
    }
    *out = v;
    return WEIR_OK;
}

/* A character that scan_plain did not take: an escape, or what is not of the
 * alphabet or not UTF-8.  No character of the alphabet is longer than two. */
static weir_status scan_character(json_scan *s, uint32_t *out, weir_error *err)
{
    if (s->text[s->at] != '\\') {
        const size_t n = utf8_sequence(s->text + s->at, s->len - s->at);
        if (n == 0) return wrong(s, "UTF-8 text", err);
        if (n != 2) return bad_character(s, err);
        *out = ((uint32_t)(uint8_t)s->text[s->at] & 0x1F) << 6 | ((uint32_t)(uint8_t)s->text[s->at + 1] & 0x3F);
        s->at += 2;
        return WEIR_OK;
    }
    const char escape = s->at + 1 < s->len ? s->text[s->at + 1] : '\0';
    if (escape == 'u') {
        s->at += 2;
        return scan_hex(s, out, err);
    }
    if (escape != '"' && escape != '\\' && escape != '/') return bad_character(s, err);
    *out = (uint32_t)(uint8_t)escape;
    s->at += 2;
    return WEIR_OK;
}

/* Decodes what is spelled without escapes; stops in front of anything else.
 * The letters of a token are nearly always of one script, so of one length. */
static size_t scan_plain(json_scan *s, uint8_t *restrict out)
{
    const uint8_t *restrict const text     = (const uint8_t *)s->text; /* the NUL behind it ends this */
    const int16_t *restrict const alphabet = s->alphabet;
    size_t made = 0, at = s->at;
    for (;;) {
        int16_t byte;
        while ((byte = alphabet[text[at]]) >= 0) {
            out[made++] = (uint8_t)byte;
            at++;
        }
        const uint32_t lead = text[at] - 0xC2u;
        if (lead > 3 || (text[at + 1] & 0xC0) != 0x80) break;
        byte = alphabet[JSON_SCAN_PAIRS + lead * 64 + (text[at + 1] & 0x3Fu)];
        if (byte < 0) break;
        out[made++] = (uint8_t)byte;
        at += 2;
    }
    s->at = at;
    return made;
}

/* Decodes behind the opening quote up to a quote or, if `stop` is one, a space. */
static weir_status scan_token_until(json_scan *s, char stop, uint8_t *out, size_t *n, weir_error *err)
{
    size_t made = 0;
    for (;;) {
        made += scan_plain(s, out + made);
        if (s->at >= s->len) return wrong(s, "the end of a string", err);
        const char c = s->text[s->at];
        if (c == '"' || (c == ' ' && stop == ' ')) break;
        uint32_t     cp    = 0;
        const size_t start = s->at;
        if (c >= 0 && c != '\\') return bad_character(s, err);
        TRY(scan_character(s, &cp, err));
        const int byte = byte_alphabet_decode(cp);
        if (byte < 0) {
            s->at = start;
            return bad_character(s, err);
        }
        out[made++] = (uint8_t)byte;
    }
    *n = made;
    return WEIR_OK;
}

weir_status json_scan_token(json_scan *s, uint8_t *out, size_t *n, weir_error *err)
{
    TRY(json_scan_expect(s, '"', err));
    TRY(scan_token_until(s, '"', out, n, err));
    s->at++;
    return WEIR_OK;
}

weir_status json_scan_token_pair(json_scan *s, uint8_t *out, size_t *n_left, size_t *n, weir_error *err)
{
    TRY(json_scan_expect(s, '"', err));
    TRY(scan_token_until(s, ' ', out, n_left, err));
    if (s->text[s->at] != ' ') return wrong(s, "a space between two tokens", err);
    s->at++;
    size_t n_right;
    TRY(scan_token_until(s, '"', out + *n_left, &n_right, err));
    s->at++;
    *n = *n_left + n_right;
    return WEIR_OK;
}
