/* text/normalise.c - Unicode normalisation form C.
 *
 * The text is cut into segments that cannot act on each other: each begins with
 * a character that has combining class 0 and never joins what stands before it.
 * Segments in which the quick check of UAX 15 finds nothing are copied; the
 * others are decomposed, put in canonical order and composed again.
 *
 * The library's own one-call normalisation orders marks by swapping neighbours,
 * which is quadratic in a long run of marks, and text comes from strangers. So
 * only its tables and its composition are used, and the order is made here.
 *
 * Characters younger than the reference's Unicode data are inert, as there. */
#include "text/normalise.h"

#include "base/mem.h"
#include "text/unicode_tables.h"

#include <string.h>
#include <utf8proc.h>

static const utf8proc_option_t NFC = (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

static bool bit(const uint64_t *bits, int32_t c)
{
    return c < NORMALISE_TABLE_END && (bits[c >> 6] >> (c & 63) & 1) != 0;
}

static void set_bit(uint64_t *bits, int32_t c)
{
    if (c < NORMALISE_TABLE_END) bits[c >> 6] |= (uint64_t)1 << (c & 63);
}

static void make_inert(normaliser *n, uint32_t c)
{
    const uint64_t others = ~((uint64_t)1 << (c & 63));
    n->reacts[c >> 6] &= others;
    n->marks[c >> 6] &= others;
}

/* Decomposes one character and composes it again.  If that gives it back, all
 * but the first part of its decomposition may join a character before them. */
static void classify(normaliser *n, int32_t c)
{
    utf8proc_int32_t       parts[32];
    int                    boundclass = 0;
    const utf8proc_ssize_t len        = utf8proc_decompose_char(c, parts, 32, NFC, &boundclass);
    if (len < 2) {
        if (len != 1 || parts[0] != c) set_bit(n->reacts, c);
        return;
    }
    utf8proc_int32_t whole[32];
    memcpy(whole, parts, sizeof whole);
    const utf8proc_ssize_t left = utf8proc_normalize_utf32(whole, len, NFC);
    if (left != 1 || whole[0] != c)
        set_bit(n->reacts, c);
    else
        for (utf8proc_ssize_t i = 1; i < len; i++) set_bit(n->reacts, parts[i]);
}

void normaliser_init(normaliser *n)
{
    *n = (normaliser){0};
    for (int32_t c = 0xC0; c < NORMALISE_TABLE_END; c++) {
        const utf8proc_property_t *p = utf8proc_get_property(c);
        if (p->combining_class != 0) set_bit(n->marks, c);
        if (p->decomp_seqindex != UINT16_MAX && p->decomp_type == 0) classify(n, c);
    }
    for (size_t i = 0; i < sizeof unicode_newer_nfc / sizeof unicode_newer_nfc[0]; i++)
        for (uint32_t c = unicode_newer_nfc[i].first; c <= unicode_newer_nfc[i].last; c++) make_inert(n, c);
    for (int32_t c = 0x1161; c <= 0x1175; c++) set_bit(n->reacts, c); /* Hangul vowels */
    for (int32_t c = 0x11A8; c <= 0x11C2; c++) set_bit(n->reacts, c); /* Hangul finals */
}

void normalised_free(normalised *n)
{
    str_free(&n->text);
    str_free(&n->untrusted);
}

/* Decodes one character of valid UTF-8; never reads past `len`. */
static size_t decode(const char *s, size_t len, int32_t *c)
{
    const uint8_t lead = (uint8_t)s[0];
    if (lead < 0x80) {
        *c = lead;
        return 1;
    }
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)len, c);
    if (n > 0) return (size_t)n;
    *c = 0xFFFD; /* not reached: the caller has checked */
    return 1;
}

/* Where the text stops being in form C: the start of the first segment that
 * is not, or len. */
static size_t quick_check(const normaliser *n, const char *text, size_t from, size_t len)
{
    size_t  segment    = from;
    uint8_t last_class = 0;
    for (size_t i = from; i < len;) {
        uint64_t word;
        if (len - i >= 8 && (memcpy(&word, text + i, 8), (word & 0x8080808080808080u) == 0)) {
            segment    = i + 7;
            last_class = 0;
            i += 8;
            continue;
        }
        int32_t      c;
        const size_t step = decode(text + i, len - i, &c);
        if (bit(n->reacts, c)) return segment;
        if (!bit(n->marks, c)) {
            segment    = i;
            last_class = 0;
        } else {
            const uint8_t class = (uint8_t)utf8proc_get_property(c)->combining_class;
            if (class < last_class) return segment;
            last_class = class;
        }
        i += step;
    }
    return len;
}

static size_t segment_end(const normaliser *n, const char *text, size_t from, size_t len)
{
    int32_t c;
    size_t  i = from + decode(text + from, len - from, &c);
    while (i < len) {
        const size_t step = decode(text + i, len - i, &c);
        if (!bit(n->reacts, c) && !bit(n->marks, c)) break;
        i += step;
    }
    return i;
}

/* Stable sort of a run of marks by combining class: insertion while short,
 * then one counting pass.  `spare` has room for n. */
static void sort_marks(int32_t *c, size_t n, int32_t *spare)
{
    enum { FEW = 16 };
    if (n <= FEW) {
        for (size_t i = 1; i < n; i++) {
            const int32_t x = c[i];
            const int class = utf8proc_get_property(x)->combining_class;
            size_t k        = i;
            for (; k > 0 && utf8proc_get_property(c[k - 1])->combining_class > class; k--) c[k] = c[k - 1];
            c[k] = x;
        }
        return;
    }
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[(utf8proc_get_property(c[i])->combining_class & 255) + 1]++;
    for (size_t k = 1; k < 257; k++) start[k] += start[k - 1];
    for (size_t i = 0; i < n; i++) spare[start[utf8proc_get_property(c[i])->combining_class & 255]++] = c[i];
    memcpy(c, spare, n * sizeof *c);
}

static void canonical_order(int32_t *c, size_t n, int32_t *spare)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && utf8proc_get_property(c[end])->combining_class != 0) end++;
        sort_marks(c + i, end - i, spare);
        i = end + 1;
    }
}

/* Decomposes into c[0..cap); returns how many characters there are. */
static size_t decompose(const char *text, size_t len, int32_t *c, size_t cap)
{
    size_t n          = 0;
    int    boundclass = 0;
    for (size_t i = 0; i < len;) {
        int32_t x;
        i += decode(text + i, len - i, &x);
        const size_t           room = n < cap ? cap - n : 0;
        const utf8proc_ssize_t got =
            utf8proc_decompose_char(x, room > 0 ? c + n : NULL, (utf8proc_ssize_t)room, NFC, &boundclass);
        n += got > 0 ? (size_t)got : 0;
    }
    return n;
}

/* Appends the segment in form C. */
static weir_status compose_segment(const char *text, size_t len, str *out, weir_error *err)
{
    enum { ON_STACK = 32 };
    int32_t  stack[2 * ON_STACK]; /* and the space to sort in */
    int32_t *c = stack;
    size_t   n = decompose(text, len, c, ON_STACK);
    if (n > ON_STACK) {
        c = mem_alloc(n, 2 * sizeof *c);
        if (c == NULL) return status_fail(err, WEIR_NO_MEMORY, "normalisation: out of memory");
        n = decompose(text, len, c, n);
    }
    canonical_order(c, n, c + (c == stack ? ON_STACK : n));
    const utf8proc_ssize_t left = utf8proc_normalize_utf32(c, (utf8proc_ssize_t)n, NFC);
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        utf8proc_uint8_t bytes[4];
        str_put(out, bytes, (size_t)utf8proc_encode_char(c[i], bytes));
    }
    if (c != stack) mem_free(c);
    return str_status(out, "normalised text", err);
}

/* The length of an inert mark at the start of a segment, or 0.  The library
 * would take it for a mark and order it among those behind it. */
static size_t inert_mark(const normaliser *n, const char *text, size_t len)
{
    int32_t      c;
    const size_t step = decode(text, len, &c);
    return !bit(n->marks, c) && utf8proc_get_property(c)->combining_class != 0 ? step : 0;
}

static bool any_set(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return true;
    return false;
}

weir_status normalise_nfc(const normaliser *n, const char *text, size_t len, const uint8_t *untrusted, normalised *out,
                          bool *is_nfc, weir_error *err)
{
    size_t at   = 0;
    size_t stop = quick_check(n, text, 0, len);
    *is_nfc     = stop == len;
    if (*is_nfc) return WEIR_OK;
    while (at < len) {
        if (stop < len) stop += inert_mark(n, text + stop, len - stop);
        str_put(&out->text, text + at, stop - at);
        if (untrusted != NULL) str_put(&out->untrusted, untrusted + at, stop - at);
        if (stop == len) break;
        const size_t end    = segment_end(n, text, stop, len);
        const size_t before = out->text.len;
        TRY(compose_segment(text + stop, end - stop, &out->text, err));
        if (untrusted != NULL) {
            const char tainted = any_set(untrusted + stop, end - stop);
            for (size_t i = before; i < out->text.len; i++) str_putc(&out->untrusted, tainted);
        }
        at   = end;
        stop = quick_check(n, text, at, len);
    }
    TRY(str_status(&out->text, "normalised text", err));
    return str_status(&out->untrusted, "normalised text", err);
}
