/* tests/unit/fetch/test_hash.c - both hashes against `sha256sum` and `git hash-object`. */
#include "fetch/hash.h"
#include "support/cmocka.h"

#include <stdbool.h>
#include <string.h>

static void check(size_t digits, const char *text, size_t piece, const char *expected)
{
    const size_t n = strlen(text);
    hasher       h = {0};
    char         found[HASH_TEXT_BYTES];
    hash_begin(&h, digits, n + 1); /* begun anew below */
    hash_add(&h, "other", 5);
    hash_begin(&h, digits, n);
    for (size_t at = 0; at < n; at += piece) hash_add(&h, text + at, piece < n - at ? piece : n - at);
    assert_true(hash_end(&h, found));
    assert_string_equal(found, expected);
}

static void known_hashes(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 8; piece++) {
        check(HASH_SHA256_DIGITS, "", piece, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check(HASH_SHA256_DIGITS, "abc", piece, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(HASH_SHA1_DIGITS, "", piece, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        check(HASH_SHA1_DIGITS, "what is up, doc?", piece, "bd9dbf5aae1a3862dd1526723246b20206e5fc37");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_hashes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
