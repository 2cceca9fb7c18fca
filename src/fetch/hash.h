/* fetch/hash.h - the two hashes by which a hub names the content of files, taken
 * as the bytes come. */
#ifndef FETCH_HASH_H
#define FETCH_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_SHA1_DIGITS = 40, HASH_SHA256_DIGITS = 64, HASH_TEXT_BYTES = HASH_SHA256_DIGITS + 1 };

typedef struct hasher {
    void *context; /* NULL: none begun */
    bool  ok;
} hasher;

/* `digits` is HASH_SHA256_DIGITS for the SHA-256 of the bytes, HASH_SHA1_DIGITS for
 * git's: the SHA-1 of "blob SIZE", a NUL and the bytes.  A failure sticks until
 * hash_end tells.  Begins anew when one was begun. */
void hash_begin(hasher *h, size_t digits, uint64_t size);
void hash_add(hasher *h, const void *bytes, size_t n);
/* Writes the lower-case digits and releases; false when the library failed. */
bool hash_end(hasher *h, char out[HASH_TEXT_BYTES]);
void hash_free(hasher *h); /* all zero is allowed */

#endif
