/* state/store_format.h - the bytes of a state file, version 1.
 *
 * All numbers are little-endian.  n: tokens, s: sections, H: the header length.
 *
 *   offset  bytes
 *        0      8  "WEIRKEEP"
 *        8      4  version, 1
 *       12      4  H = 136 + 44 s + 4 n + 32
 *       16     32  namespace: what the state depends on besides the tokens
 *       48      4  kind: 1 block, 2 snapshot, 3 sequence
 *       52      4  n, 1 .. 2^22
 *       56      4  position of the first token; position + n < 2^32
 *       60      4  s, 1 .. 4
 *       64     32  key
 *       96     32  parent's key, zero for none
 *      128      8  file length
 *      136   44 s  the sections in file order, for each:
 *                     4  type, no two alike
 *                     8  bytes, not zero
 *                    32  SHA-256 of the bytes
 *        .    4 n  the tokens
 *   H - 32     32  SHA-256 of everything before it
 *
 * Each section begins at the next multiple of 64, the first one behind the
 * header; the gaps are zero.  The file ends with the last section's last byte.
 *
 * Nothing here touches a file. */
#ifndef STATE_STORE_FORMAT_H
#define STATE_STORE_FORMAT_H

#include "base/status.h"

#include <stdbool.h>

enum {
    STORE_KEY_BYTES    = 32,
    STORE_MAX_SECTIONS = 4,
    STORE_MAX_TOKENS   = 1 << 22,

    STORE_FIXED_BYTES  = 136,
    STORE_RECORD_BYTES = 44,
    STORE_SUM_BYTES    = 32,
    STORE_ALIGN        = 64,
    STORE_MAX_HEADER =
        STORE_FIXED_BYTES + STORE_MAX_SECTIONS * STORE_RECORD_BYTES + 4 * STORE_MAX_TOKENS + STORE_SUM_BYTES,
};

typedef enum store_kind { STORE_BLOCK = 1, STORE_SNAPSHOT, STORE_SEQUENCE } store_kind;

typedef struct store_section {
    uint32_t    type;
    uint64_t    bytes;
    const void *data; /* [bytes]; NULL in an entry that was read, since only its header is in memory, and where
                       * pieces are written (store_stream) */
} store_section;

/* One entry: tokens and the state they lead to.  Everything it points to is borrowed. */
typedef struct store_entry {
    uint8_t         key[STORE_KEY_BYTES], parent[STORE_KEY_BYTES]; /* parent: all zero for none */
    store_kind      kind;
    uint32_t        position; /* of the first token */
    uint32_t        n_tokens;
    const uint32_t *tokens; /* [n_tokens] */
    uint32_t        n_sections;
    store_section   sections[STORE_MAX_SECTIONS];
} store_entry;

/* What a header says, with the places of the sections worked out. */
typedef struct store_header {
    store_entry e;
    uint8_t namespace[STORE_KEY_BYTES];
    uint8_t  sums[STORE_MAX_SECTIONS][STORE_SUM_BYTES];
    uint64_t offsets[STORE_MAX_SECTIONS];
} store_header;

/* SHA-256 of n bytes.  WEIR_NO_MEMORY when the library behind it has none. */
weir_status store_sha256(uint8_t out[STORE_SUM_BYTES], const void *bytes, size_t n, weir_error *err);

/* The same of bytes that come in parts.  A failure shows at the end, which is due in any case. */
typedef struct store_sum {
    void *context;
    bool  ok;
} store_sum;
void        store_sum_begin(store_sum *s);
void        store_sum_add(store_sum *s, const void *bytes, size_t n);
weir_status store_sum_end(store_sum *s, uint8_t out[STORE_SUM_BYTES], weir_error *err);

/* The key of a block: SHA-256 of its parent's key (all zero for none), n, and
 * the n tokens, numbers as u32 little-endian. */
weir_status store_key(uint8_t out[STORE_KEY_BYTES], const uint8_t parent[STORE_KEY_BYTES], const uint32_t *tokens,
                      uint32_t n, weir_error *err);

/* The size of the entry's file.  WEIR_INVALID, with the field, for an entry
 * that the format does not have room for. */
weir_status store_file_bytes(const store_entry *e, uint64_t *bytes, weir_error *err);

/* The file's bytes before the first section, as a block of *n (mem_free).
 * Computes all checksums but that of a section without data, which is given
 * (NULL: all have data).  Fails like store_file_bytes and for want of memory. */
weir_status store_encode(uint8_t **out, size_t *n, const uint8_t namespace[STORE_KEY_BYTES], const store_entry *e,
                         const uint8_t *absent_sum, weir_error *err);

/* The whole file as pieces to be written one after another: the `header_bytes`
 * of store_encode, then gaps and sections, borrowed from `e`.  Returns how many. */
typedef struct store_piece {
    const void *bytes; /* NULL: of a section without data */
    uint64_t    n;     /* may be 0 */
} store_piece;
enum { STORE_MAX_PIECES = 1 + 2 * STORE_MAX_SECTIONS };
uint32_t store_pieces(store_piece out[STORE_MAX_PIECES], const uint8_t *header, size_t header_bytes,
                      const store_entry *e);

/* H of a file of `size` bytes that begins with the `n` bytes at `start`; they
 * may be fewer than STORE_FIXED_BYTES only where the file is.  WEIR_FORMAT for
 * another kind of file, WEIR_UNSUPPORTED for another version. */
weir_status store_header_bytes(const uint8_t *start, size_t n, uint64_t size, uint32_t *header_bytes, weir_error *err);

/* Checks the whole header, its checksum included, and describes it.
 * header: H bytes at an address for u32; out->e.tokens points into it. */
weir_status store_parse(store_header *out, const uint8_t *header, uint32_t header_bytes, uint64_t size,
                        weir_error *err);

#endif
