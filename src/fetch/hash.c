/* fetch/hash.c - SHA-256, and git's SHA-1 of a blob; see hash.h. */
#include "fetch/hash.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

void hash_begin(hasher *h, size_t digits, uint64_t size)
{
    hash_free(h);
    const EVP_MD *kind = digits == HASH_SHA256_DIGITS ? EVP_sha256() : EVP_sha1();
    EVP_MD_CTX   *c    = EVP_MD_CTX_new();
    h->context         = c;
    h->ok              = c != NULL && EVP_DigestInit_ex(c, kind, NULL) == 1;
    if (digits == HASH_SHA256_DIGITS) return;
    char      head[32];
    const int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
    hash_add(h, head, (size_t)n + 1); /* with its NUL */
}

void hash_add(hasher *h, const void *bytes, size_t n)
{
    h->ok = h->ok && EVP_DigestUpdate(h->context, bytes, n) == 1;
}

bool hash_end(hasher *h, char out[HASH_TEXT_BYTES])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned      n  = 0;
    bool          ok = h->ok && EVP_DigestFinal_ex(h->context, bytes, &n) == 1 && 2 * (size_t)n < HASH_TEXT_BYTES;
    for (unsigned i = 0; ok && i < n; i++) (void)snprintf(out + 2 * (size_t)i, 3, "%02x", bytes[i]);
    hash_free(h);
    return ok;
}

void hash_free(hasher *h)
{
    EVP_MD_CTX_free(h->context);
    *h = (hasher){0};
}
