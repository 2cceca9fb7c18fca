/* tests/unit/fetch/test_name.c - what may become a part of a path or a URL. */
#include "fetch/name.h"
#include "support/cmocka.h"

#include <stdbool.h>
#include <string.h>

static void names_are_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repo, *revision, *file;
    } cases[] = {
        {"org/a", "org/a", "main", ""},
        {"hf:Org_1/a.b-c", "Org_1/a.b-c", "main", ""},
        {"org/a@v1.0", "org/a", "v1.0", ""},
        {"org/a:Q4_K_M", "org/a", "main", "Q4_K_M"},
        {"org/a:sub/x.gguf@refs/pr/3", "org/a", "refs/pr/3", "sub/x.gguf"},
        {"org/a@dev:q8_0", "org/a", "dev", "q8_0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fetch_name n;
        assert_true(fetch_is_name(cases[i].text));
        assert_int_equal(fetch_parse_name(&n, cases[i].text, NULL), WEIR_OK);
        assert_string_equal(n.repo, cases[i].repo);
        assert_string_equal(n.revision, cases[i].revision);
        assert_string_equal(n.file, cases[i].file);
        assert_int_equal(n.revision_given, strcmp(n.revision, "main") != 0);
    }
}

static void others_are_no_names(void **state)
{
    (void)state;
    static const char *const none[] = {"",       "a",      "/a",   "a/",    "a/b/c",  "../a",
                                       "a/..",   ".a/b",   "a/.b", "a b/c", "a/b--c", "a--b/c",
                                       "a/b..c", "a\\b/c", "hf:",  "~/a",   "a/b\n",  "\xC3\xA4/b"};
    static const char *const bad[]  = {"a/b@",     "a/b:",   "a/b@..",   "a/b@x/",  "a/b@/x",
                                       "a/b@x//y", "a/b@.x", "a/b@x/.y", "a/b@x@y", "a/b:x:y",
                                       "a/b:../x", "a/b:/x", "a/b:x/",   "a/b@x y", "a/b@%2e"};
    fetch_name               n;
    weir_error               err;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_false(fetch_is_name(none[i]));
        assert_int_equal(fetch_parse_name(&n, none[i], &err), WEIR_INVALID);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fetch_parse_name(&n, bad[i], &err), WEIR_INVALID);
        assert_non_null(strstr(err.text, "expected"));
    }
    char long_name[400] = "a/";
    memset(long_name + 2, 'x', 97);
    assert_false(fetch_is_name(long_name));
    long_name[2 + 96] = '\0';
    assert_true(fetch_is_name(long_name));
}

static void paths_stay_below_their_folder(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "a.b/.c", "..a", "a..", "...", "a b/\xC3\xA9"};
    static const char *const bad[]  = {"",     "/",    "/a",     "a/",    "a//b", ".",    "..",
                                       "a/..", "../a", "a/../b", "a/./b", "a\\b", "a\nb", "a\x7F"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(name_is_path(good[i], 100));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(name_is_path(bad[i], 100));
    char path[300];
    memset(path, 'x', sizeof path);
    path[256] = '\0';
    assert_false(name_is_path(path, 1000));
    path[255] = '\0';
    assert_true(name_is_path(path, 1000));
    assert_true(name_is_path(path, 255));
    assert_false(name_is_path(path, 254));
}

static void hashes_are_lower_case(void **state)
{
    (void)state;
    assert_true(name_is_hash("0123456789abcdef", 16));
    assert_false(name_is_hash("0123456789abcdef", 15));
    assert_false(name_is_hash("0123456789abcdeF", 16));
    assert_false(name_is_hash("../3456789abcdef", 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_taken_apart),
        cmocka_unit_test(others_are_no_names),
        cmocka_unit_test(paths_stay_below_their_folder),
        cmocka_unit_test(hashes_are_lower_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
