/* tests/fuzz/fuzz_listing.c - any bytes as what a hub answers: first header lines, then behind an
 * empty line a page of files, which is also tried as a revision.
 *
 * What is accepted stays below its folder and has hashes of hexadecimal digits. */
#include "fetch/http_head.h"
#include "fetch/listing.h"
#include "fetch/name.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the lines up to the empty one; returns where the body begins. */
static size_t read_lines(const char *text, size_t size)
{
    http_head head = {0};
    size_t    at   = 0;
    while (at < size) {
        const char  *end = memchr(text + at, '\n', size - at);
        const size_t n   = end != NULL ? (size_t)(end - text) - at + 1 : size - at;
        http_head_line(&head, text + at, n);
        at += n;
        if (n == 1) break;
    }
    if (strnlen(head.next, sizeof head.next) == sizeof head.next ||
        strnlen(head.tag, sizeof head.tag) == sizeof head.tag)
        abort();
    return at;
}

static void check_file(const listing_file *f)
{
    const size_t n = strlen(f->hash);
    if (f->path[0] == '/' || strstr(f->path, "/../") != NULL || strncmp(f->path, "../", 3) == 0) abort();
    if ((n != HASH_SHA1_DIGITS && n != HASH_SHA256_DIGITS) || !name_is_hash(f->hash, n)) abort();
    if (f->size > UINT64_C(1) << 50) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char  *text = (const char *)data;
    const size_t body = read_lines(text, size);
    listing      l    = {0};
    weir_error   err;
    char         commit[HASH_SHA1_DIGITS + 1];
    err.text[0] = '\0';
    if (listing_add_page(&l, text + body, size - body, "page", &err) != WEIR_OK ||
        listing_finish(&l, "page", &err) != WEIR_OK) {
        if (err.text[0] == '\0') abort(); /* every failure says why */
    } else {
        for (size_t i = 0; i < l.n; i++) {
            check_file(&l.files[i]);
            if (listing_find(&l, l.files[i].path) != &l.files[i]) abort();
        }
    }
    listing_free(&l);
    if (listing_read_commit(commit, text + body, size - body, "answer", &err) == WEIR_OK &&
        !name_is_hash(commit, HASH_SHA1_DIGITS))
        abort();
    return 0;
}
