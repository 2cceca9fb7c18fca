/* state/store_format.c - headers of state files: written, and checked field by field.
 *
 * A header is believed after its checksum alone, but the fields are checked one
 * by one as well: a checksum says that nothing was damaged, not that the writer
 * meant well. */
#include "state/store_format.h"

#include "base/bytes.h"
#include "base/mem.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

static const char magic[8] = {'W', 'E', 'I', 'R', 'K', 'E', 'E', 'P'};

enum { VERSION = 1 };

/* Where the fields stand. */
enum {
    AT_VERSION   = 8,
    AT_HEADER    = 12,
    AT_NAMESPACE = 16,
    AT_KIND      = 48,
    AT_TOKENS    = 52,
    AT_POSITION  = 56,
    AT_SECTIONS  = 60,
    AT_KEY       = 64,
    AT_PARENT    = 96,
    AT_SIZE      = 128,
};

weir_status store_sha256(uint8_t out[STORE_SUM_BYTES], const void *bytes, size_t n, weir_error *err)
{
    if (EVP_Digest(bytes, n, out, NULL, EVP_sha256(), NULL) != 1)
        return status_fail(err, WEIR_NO_MEMORY, "SHA-256: out of memory");
    return WEIR_OK;
}

void store_sum_begin(store_sum *s)
{
    s->context = EVP_MD_CTX_new();
    s->ok      = s->context != NULL && EVP_DigestInit_ex(s->context, EVP_sha256(), NULL) == 1;
}

void store_sum_add(store_sum *s, const void *bytes, size_t n)
{
    s->ok = s->ok && EVP_DigestUpdate(s->context, bytes, n) == 1;
}

weir_status store_sum_end(store_sum *s, uint8_t out[STORE_SUM_BYTES], weir_error *err)
{
    s->ok = s->ok && EVP_DigestFinal_ex(s->context, out, NULL) == 1;
    EVP_MD_CTX_free(s->context);
    s->context = NULL;
    return s->ok ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "SHA-256: out of memory");
}

weir_status store_key(uint8_t out[STORE_KEY_BYTES], const uint8_t parent[STORE_KEY_BYTES], const uint32_t *tokens,
                      uint32_t n, weir_error *err)
{
    store_sum s;
    store_sum_begin(&s);
    store_sum_add(&s, parent, STORE_KEY_BYTES);
    store_sum_add(&s, &n, sizeof n);
    store_sum_add(&s, tokens, n * sizeof *tokens);
    return store_sum_end(&s, out, err);
}

/* Zero bytes between an end at `bytes` and the next section. */
static uint32_t gap_after(uint64_t bytes)
{
    return (uint32_t)(-bytes % STORE_ALIGN);
}

/* The counts and sizes of `e` that both sides check; `st` is the kind of failure. */
static weir_status check_counts(const store_entry *e, weir_status st, weir_error *err)
{
    if (e->kind < STORE_BLOCK || e->kind > STORE_SEQUENCE)
        return status_fail(err, st, "kind: expected 1..3, found %u", (unsigned)e->kind);
    if (e->n_tokens == 0 || e->n_tokens > STORE_MAX_TOKENS)
        return status_fail(err, st, "tokens: expected 1..%d, found %" PRIu32, STORE_MAX_TOKENS, e->n_tokens);
    if (e->position > UINT32_MAX - e->n_tokens)
        return status_fail(err, st, "position: expected at most %" PRIu32 ", found %" PRIu32, UINT32_MAX - e->n_tokens,
                           e->position);
    if (e->n_sections == 0 || e->n_sections > STORE_MAX_SECTIONS)
        return status_fail(err, st, "sections: expected 1..%d, found %" PRIu32, STORE_MAX_SECTIONS, e->n_sections);
    return WEIR_OK;
}

static weir_status check_section(const store_entry *e, uint32_t i, weir_status st, weir_error *err)
{
    const store_section *s = &e->sections[i];
    for (uint32_t k = 0; k < i; k++)
        if (e->sections[k].type == s->type)
            return status_fail(
                err, st, "section %" PRIu32 ": type: expected one section of type %" PRIu32 ", found two", i, s->type);
    if (s->bytes == 0) return status_fail(err, st, "section %" PRIu32 ": bytes: expected some, found 0", i);
    return WEIR_OK;
}

static uint32_t header_bytes_of(uint32_t n_tokens, uint32_t n_sections)
{
    return STORE_FIXED_BYTES + STORE_RECORD_BYTES * n_sections + 4 * n_tokens + STORE_SUM_BYTES;
}

weir_status store_file_bytes(const store_entry *e, uint64_t *bytes, weir_error *err)
{
    TRY(check_counts(e, WEIR_INVALID, err));
    uint64_t end = header_bytes_of(e->n_tokens, e->n_sections);
    for (uint32_t i = 0; i < e->n_sections; i++) {
        TRY(check_section(e, i, WEIR_INVALID, err));
        end += gap_after(end);
        if (e->sections[i].bytes > INT64_MAX / 2 - end) /* leaves room for the next gap */
            return status_fail(err, WEIR_INVALID, "section %" PRIu32 ": bytes: expected less than 2^62, found %" PRIu64,
                               i, e->sections[i].bytes);
        end += e->sections[i].bytes;
    }
    *bytes = end;
    return WEIR_OK;
}

static void put_u32(uint8_t *to, uint32_t v)
{
    memcpy(to, &v, sizeof v);
}

static void put_u64(uint8_t *to, uint64_t v)
{
    memcpy(to, &v, sizeof v);
}

static weir_status fill_header(uint8_t *h, uint32_t header_bytes, uint64_t file_bytes, const uint8_t *namespace,
                               const store_entry *e, const uint8_t *absent_sum, weir_error *err)
{
    memcpy(h, magic, sizeof magic);
    put_u32(h + AT_VERSION, VERSION);
    put_u32(h + AT_HEADER, header_bytes);
    memcpy(h + AT_NAMESPACE, namespace, STORE_KEY_BYTES);
    put_u32(h + AT_KIND, e->kind);
    put_u32(h + AT_TOKENS, e->n_tokens);
    put_u32(h + AT_POSITION, e->position);
    put_u32(h + AT_SECTIONS, e->n_sections);
    memcpy(h + AT_KEY, e->key, STORE_KEY_BYTES);
    memcpy(h + AT_PARENT, e->parent, STORE_KEY_BYTES);
    put_u64(h + AT_SIZE, file_bytes);
    uint8_t *p = h + STORE_FIXED_BYTES;
    for (uint32_t i = 0; i < e->n_sections; i++, p += STORE_RECORD_BYTES) {
        const store_section *s = &e->sections[i];
        put_u32(p, s->type);
        put_u64(p + 4, s->bytes);
        if (s->data == NULL && absent_sum != NULL)
            memcpy(p + 12, absent_sum, STORE_SUM_BYTES);
        else
            TRY(store_sha256(p + 12, s->data, s->bytes, err));
    }
    memcpy(p, e->tokens, e->n_tokens * sizeof *e->tokens);
    return store_sha256(h + header_bytes - STORE_SUM_BYTES, h, header_bytes - STORE_SUM_BYTES, err);
}

weir_status store_encode(uint8_t **out, size_t *n, const uint8_t namespace[STORE_KEY_BYTES], const store_entry *e,
                         const uint8_t *absent_sum, weir_error *err)
{
    uint64_t file_bytes = 0;
    *out                = NULL;
    TRY(store_file_bytes(e, &file_bytes, err));
    const uint32_t header_bytes = header_bytes_of(e->n_tokens, e->n_sections);
    *n                          = header_bytes + gap_after(header_bytes);
    uint8_t *h                  = mem_zalloc(*n, 1);
    if (h == NULL) return status_fail(err, WEIR_NO_MEMORY, "header: out of memory");
    const weir_status st = fill_header(h, header_bytes, file_bytes, namespace, e, absent_sum, err);
    if (st != WEIR_OK) {
        mem_free(h);
        return st;
    }
    *out = h;
    return WEIR_OK;
}

uint32_t store_pieces(store_piece out[STORE_MAX_PIECES], const uint8_t *header, size_t header_bytes,
                      const store_entry *e)
{
    static const uint8_t zeros[STORE_ALIGN];
    uint64_t             end = header_bytes;
    uint32_t             n   = 0;
    out[n++]                 = (store_piece){header, header_bytes};
    for (uint32_t i = 0; i < e->n_sections; i++) {
        const store_section *s = &e->sections[i];
        out[n++]               = (store_piece){zeros, gap_after(end)};
        out[n++]               = (store_piece){s->data, s->bytes};
        end += gap_after(end) + s->bytes;
    }
    return n;
}

weir_status store_header_bytes(const uint8_t *start, size_t n, uint64_t size, uint32_t *header_bytes, weir_error *err)
{
    if (n < AT_HEADER || memcmp(start, magic, sizeof magic) != 0)
        return status_fail(err, WEIR_FORMAT, "magic: expected a state file of weir");
    const uint32_t version = load_u32(start + AT_VERSION);
    if (version != VERSION)
        return status_fail(err, WEIR_UNSUPPORTED, "version: expected %d, found %" PRIu32, VERSION, version);
    if (n < STORE_FIXED_BYTES)
        return status_fail(err, WEIR_FORMAT, "size: expected at least %d bytes, found %" PRIu64, STORE_FIXED_BYTES,
                           size);
    const uint32_t h = load_u32(start + AT_HEADER);
    if (h < header_bytes_of(1, 1) || h > STORE_MAX_HEADER || h > size)
        return status_fail(err, WEIR_FORMAT, "header length: expected %" PRIu32 "..%" PRIu64 " bytes, found %" PRIu32,
                           header_bytes_of(1, 1), size < STORE_MAX_HEADER ? size : (uint64_t)STORE_MAX_HEADER, h);
    *header_bytes = h;
    return WEIR_OK;
}

static weir_status parse_fixed(store_header *out, const uint8_t *h, uint32_t header_bytes, uint64_t size,
                               weir_error *err)
{
    store_entry *e = &out->e;
    memcpy(out->namespace, h + AT_NAMESPACE, STORE_KEY_BYTES);
    memcpy(e->key, h + AT_KEY, STORE_KEY_BYTES);
    memcpy(e->parent, h + AT_PARENT, STORE_KEY_BYTES);
    e->kind       = (store_kind)load_u32(h + AT_KIND);
    e->n_tokens   = load_u32(h + AT_TOKENS);
    e->position   = load_u32(h + AT_POSITION);
    e->n_sections = load_u32(h + AT_SECTIONS);
    TRY(check_counts(e, WEIR_FORMAT, err));
    const uint32_t expected = header_bytes_of(e->n_tokens, e->n_sections);
    if (header_bytes != expected)
        return status_fail(err, WEIR_FORMAT, "header length: expected %" PRIu32 " bytes for its counts, found %" PRIu32,
                           expected, header_bytes);
    const uint64_t said = load_u64(h + AT_SIZE);
    if (said != size)
        return status_fail(err, WEIR_FORMAT, "file length: expected %" PRIu64 " bytes, found %" PRIu64, said, size);
    return WEIR_OK;
}

/* The table; `size` is what the file has. */
static weir_status parse_sections(store_header *out, const uint8_t *h, uint32_t header_bytes, uint64_t size,
                                  weir_error *err)
{
    uint64_t       end = header_bytes; /* never over size */
    const uint8_t *p   = h + STORE_FIXED_BYTES;
    for (uint32_t i = 0; i < out->e.n_sections; i++, p += STORE_RECORD_BYTES) {
        store_section *s = &out->e.sections[i];
        *s               = (store_section){.type = load_u32(p), .bytes = load_u64(p + 4)};
        memcpy(out->sums[i], p + 12, STORE_SUM_BYTES);
        TRY(check_section(&out->e, i, WEIR_FORMAT, err));
        const uint64_t room = size - end, gap = gap_after(end);
        if (gap > room || s->bytes > room - gap)
            return status_fail(err, WEIR_FORMAT,
                               "section %" PRIu32 ": bytes: expected at most %" PRIu64 ", found %" PRIu64, i,
                               gap > room ? 0 : room - gap, s->bytes);
        out->offsets[i] = end + gap;
        end             = out->offsets[i] + s->bytes;
    }
    if (end != size)
        return status_fail(err, WEIR_FORMAT, "sections: expected them to end at byte %" PRIu64 ", found %" PRIu64, size,
                           end);
    return WEIR_OK;
}

weir_status store_parse(store_header *out, const uint8_t *header, uint32_t header_bytes, uint64_t size, weir_error *err)
{
    uint8_t sum[STORE_SUM_BYTES];
    *out = (store_header){0};
    TRY(parse_fixed(out, header, header_bytes, size, err));
    TRY(store_sha256(sum, header, header_bytes - STORE_SUM_BYTES, err));
    if (memcmp(sum, header + header_bytes - STORE_SUM_BYTES, sizeof sum) != 0)
        return status_fail(err, WEIR_FORMAT, "header: its checksum does not match");
    TRY(parse_sections(out, header, header_bytes, size, err));
    out->e.tokens =
        (const uint32_t *)(const void *)(header + STORE_FIXED_BYTES + (size_t)STORE_RECORD_BYTES * out->e.n_sections);
    return WEIR_OK;
}
