/* tests/unit/fetch/test_listing.c - the hub's answers, sound and not. */
#include "base/mem.h"
#include "fetch/http_head.h"
#include "fetch/listing.h"
#include "support/cmocka.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SHA1 "0123456789abcdef0123456789abcdef01234567"
#define SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FILE_OF(path, rest) "{\"type\":\"file\",\"path\":\"" path "\"," rest "}"
#define PLAIN "\"oid\":\"" SHA1 "\",\"size\":7"

static weir_status add(listing *l, const char *text, weir_error *err)
{
    return listing_add_page(l, text, strlen(text), "page", err);
}

static void files_of_pages(void **state)
{
    (void)state;
    listing l = {0};
    assert_int_equal(add(&l, "[" FILE_OF("b/c", PLAIN) ",{\"type\":\"directory\",\"path\":\"b\",\"oid\":1}]", NULL),
                     WEIR_OK);
    assert_int_equal(add(&l,
                         "[" FILE_OF("a", "\"oid\":\"" SHA1 "\",\"size\":99,\"lfs\":{\"oid\":\"" SHA256
                                          "\",\"size\":5000000000,\"pointerSize\":134}") "]",
                         NULL),
                     WEIR_OK);
    assert_int_equal(listing_finish(&l, "page", NULL), WEIR_OK);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.files[0].path, "a");
    assert_string_equal(l.files[0].hash, SHA256);
    assert_int_equal(l.files[0].size, 5000000000);
    assert_string_equal(l.files[1].hash, SHA1);
    assert_int_equal(l.files[1].size, 7);
    assert_ptr_equal(listing_find(&l, "b/c"), &l.files[1]);
    assert_null(listing_find(&l, "b"));
    listing_free(&l);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "[",
        "[1]",
        "[null]",
        "\xff",
        "[{}]",
        "[{\"type\":1}]",
        "[{\"type\":\"file\"}]",
        "[" FILE_OF("../x", PLAIN) "]",
        "[" FILE_OF("/etc/x", PLAIN) "]",
        "[" FILE_OF("a/../../b", PLAIN) "]",
        "[" FILE_OF("a\\u0000b", PLAIN) "]",
        "[" FILE_OF("a\\nb", PLAIN) "]",
        "[" FILE_OF("", PLAIN) "]",
        "[" FILE_OF("a\\\\b", PLAIN) "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA1 "\"") "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA1 "\",\"size\":-1") "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA1 "\",\"size\":1.5") "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA1 "\",\"size\":\"1\"") "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA1 "\",\"size\":1125899906842625") "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA1 "\",\"size\":99999999999999999999") "]",
        "[" FILE_OF("a", "\"oid\":\"" SHA256 "\",\"size\":1") "]",
        "[" FILE_OF("a", "\"oid\":\"../../0123456789abcdef0123456789abcdef0\",\"size\":1") "]",
        "[" FILE_OF("a", PLAIN ",\"lfs\":{\"oid\":\"" SHA1 "\",\"size\":1}") "]",
        "[" FILE_OF("a", PLAIN ",\"lfs\":{\"oid\":\"" SHA256 "\"}") "]",
        "[" FILE_OF("a", PLAIN ",\"lfs\":5") "]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        listing    l = {0};
        weir_error err;
        assert_int_equal(add(&l, bad[i], &err), WEIR_FORMAT);
        assert_memory_equal(err.text, "page", 4);
        listing_free(&l);
    }
    listing l = {0};
    assert_int_equal(add(&l, "[" FILE_OF("a", PLAIN) "]", NULL), WEIR_OK);
    assert_int_equal(add(&l, "[" FILE_OF("a", PLAIN) "]", NULL), WEIR_OK);
    assert_int_equal(listing_finish(&l, "page", NULL), WEIR_FORMAT);
    listing_free(&l);
}

static void no_memory_at_any_place(void **state)
{
    (void)state;
    static const char page[] = "[" FILE_OF("a", PLAIN) "," FILE_OF("b", PLAIN) "]";
    for (uint64_t n = 1; n < 20; n++) {
        listing l = {0};
        mem_fail_at(n);
        const weir_status st = add(&l, page, NULL);
        mem_fail_at(0);
        assert_true(st == WEIR_OK ? n > 3 : st == WEIR_NO_MEMORY);
        listing_free(&l);
    }
}

static void commits(void **state)
{
    (void)state;
    char        commit[HASH_SHA1_DIGITS + 1];
    const char *good = "{\"id\":\"a/b\",\"sha\":\"" SHA1 "\"}";
    assert_int_equal(listing_read_commit(commit, good, strlen(good), "answer", NULL), WEIR_OK);
    assert_string_equal(commit, SHA1);
    static const char *const bad[] = {"null",
                                      "[]",
                                      "{}",
                                      "{\"sha\":5}",
                                      "{\"sha\":\"main\"}",
                                      "{\"sha\":\"../../../../0123456789abcdef0123456789ab\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(listing_read_commit(commit, bad[i], strlen(bad[i]), "answer", NULL), WEIR_FORMAT);
}

static http_head read_head(const char *const *lines, size_t n)
{
    http_head h = {.at_endpoint = true};
    for (size_t i = 0; i < n; i++) http_head_line(&h, lines[i], strlen(lines[i]));
    return h;
}
#define HEAD(...) \
    read_head((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void header_lines(void **state)
{
    (void)state;
    http_head h =
        HEAD("HTTP/1.1 206 Partial Content\r\n", "content-LENGTH: 100\r\n", "Content-Range: bytes 5-104/105 \r\n",
             "ETag: \"abc\"\r\n", "X-Error-Code:GatedRepo\r\n", "Retry-After: 7\r\n",
             "Link: <http://h/1>; rel=\"first\", <http://h/2?a=1,2>; rel=\"next\"\r\n", "\r\n");
    assert_true(h.at_endpoint && h.has_length && h.has_range && h.has_total);
    assert_int_equal(h.length, 100);
    assert_int_equal(h.range_start, 5);
    assert_int_equal(h.range_total, 105);
    assert_string_equal(h.tag, "\"abc\"");
    assert_string_equal(h.error_code, "GatedRepo");
    assert_int_equal(h.retry_after, 7);
    assert_string_equal(h.next, "http://h/2?a=1,2");

    h = HEAD("Content-Length: 5", "ETag: \"a\"", "HTTP/2 200", "Content-Range: bytes 0-9/*");
    assert_false(h.has_length || h.has_total || h.tag[0] != '\0');
    assert_true(h.at_endpoint && h.has_range);

    h = HEAD("Content-Length: -5", "Content-Range: bytes 9-3/10", "ETag: W/\"weak\"", "Retry-After: Tue, 1 Dec 2026",
             "Link: <http://h/1>; rel=\"prev\"", "Link: <>; rel=\"next\"", "Link: <http://h", "no colon", ":", "");
    assert_false(h.has_length || h.has_range || h.tag[0] != '\0' || h.retry_after != 0 || h.next[0] != '\0');
    h = HEAD("Content-Length: 99999999999999999999", "Content-Range: bytes 1-2", "Content-Range: items 1-2/3");
    assert_false(h.has_length || h.has_range);
    assert_int_equal(HEAD("Retry-After: 999999").retry_after, 3600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_pages), cmocka_unit_test(what_is_refused), cmocka_unit_test(no_memory_at_any_place),
        cmocka_unit_test(commits),        cmocka_unit_test(header_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
