/* Keys, hosts and origins. */
#include "serve/auth.h"
#include "support/cmocka.h"

#include <string.h>

static const char *const keys[] = {"alpha", "b"}, *const origins[] = {"https://page.example"},
                         *const hosts[] = {"box.local"};

static auth make(const char *host)
{
    auth                a;
    const serve_options o = {
        .host = host, .api_keys = {keys, 2}, .origins = {origins, 1}, .hosts = {hosts, 1}, .insecure = true};
    assert_int_equal(auth_init(&a, &o, NULL), WEIR_OK);
    return a;
}

static void test_keys(void **state)
{
    (void)state;
    auth              a       = make("0.0.0.0");
    const credentials right[] = {{"Bearer alpha", NULL, NULL},
                                 {"bEARER   b", NULL, NULL},
                                 {NULL, "alpha", NULL},
                                 {NULL, NULL, "b"},
                                 {"Bearer no", "b", NULL}};
    const credentials wrong[] = {{NULL, NULL, NULL},          {"Bearer ", NULL, NULL}, {"Beareralpha", NULL, NULL},
                                 {"Basic alpha", NULL, NULL}, {NULL, "", NULL},        {NULL, "alphaalpha", NULL},
                                 {NULL, "bb", NULL},          {NULL, "alph", NULL},    {"alpha", NULL, NULL}};
    api_error         err;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_true(auth_key(&a, &right[i], &err));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(auth_key(&a, &wrong[i], &err));
        assert_int_equal(err.kind, API_BAD_KEY);
    }
    auth_free(&a);
    assert_true(auth_key(&a, &wrong[0], &err)); /* no key is configured */
}

static void check_admin(auth *a, const char *text, api_kind expected)
{
    api_error         err = {0};
    const credentials c   = {NULL, text, NULL};
    assert_int_equal(auth_admin(a, &c, &err), expected == API_OK);
    assert_int_equal(err.kind, expected);
}

static void test_admins(void **state)
{
    (void)state;
    static const char *const boss[] = {"boss"};
    auth                     a;
    serve_options            o = {.host = "127.0.0.1", .api_keys = {keys, 2}, .admin_keys = {boss, 1}};
    assert_int_equal(auth_init(&a, &o, NULL), WEIR_OK);
    check_admin(&a, "boss", API_OK);
    check_admin(&a, "alpha", API_FORBIDDEN);
    check_admin(&a, "nobody", API_BAD_KEY);
    o.admin_keys.n = 0;
    o.api_keys.n   = 1;
    assert_int_equal(auth_reload(&a, &o, NULL), WEIR_OK);
    check_admin(&a, "alpha", API_OK); /* the only one */
    check_admin(&a, "boss", API_BAD_KEY);
    o.api_keys.n = 0;
    o.host       = "0.0.0.0";
    assert_int_equal(auth_reload(&a, &o, NULL), WEIR_INVALID);
    check_admin(&a, "alpha", API_OK); /* as it was */
    check_admin(&a, "b", API_BAD_KEY);
    auth_free(&a);
    check_admin(&a, "alpha", API_OK);
}

static void test_an_open_address_needs_a_key(void **state)
{
    (void)state;
    auth          a;
    weir_error    err;
    serve_options o = {.host = "0.0.0.0"};
    assert_int_equal(auth_init(&a, &o, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "--api-key"));
    o.host = "::1";
    assert_int_equal(auth_init(&a, &o, &err), WEIR_OK);
    auth_free(&a);
}

static void test_hosts(void **state)
{
    (void)state;
    auth                     a = make("127.0.0.1"), open = make("0.0.0.0");
    static const char *const right[] = {"localhost", "LOCALHOST:80", "127.0.0.1:8080",
                                        "127.1.2.3", "[::1]:8080",   "Box.local"};
    static const char *const wrong[] = {"evil.example",  "127.0.0.1.evil.example", "localhost.evil", "[::2]:80", "",
                                        "box.local.evil"};
    api_error                err;
    assert_true(auth_host(&a, NULL, &err)); /* HTTP/1.0 */
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_true(auth_host(&a, right[i], &err));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(auth_host(&a, wrong[i], &err));
        assert_int_equal(err.kind, API_FORBIDDEN);
        assert_true(auth_host(&open, wrong[i], &err));
    }
    auth_free(&a);
    auth_free(&open);
}

static void test_origins(void **state)
{
    (void)state;
    auth                     a       = make("127.0.0.1");
    static const char *const right[] = {
        "http://localhost", "https://localhost:3000", "http://127.0.0.1:1", "http://[::1]:5",
        "app://x",          "vscode-webview://y",     "tauri://localhost",  "https://page.example"};
    static const char *const wrong[] = {"https://evil.example",     "http://localhost.evil.example",
                                        "http://localhost:80.evil", "https://page.example.evil",
                                        "file://localhost",         "null",
                                        "http://localhost/x"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_true(auth_origin(&a, right[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(auth_origin(&a, wrong[i]));
    assert_false(auth_origin(&a, NULL));
    static const char *const all[] = {"*"};
    a.origins                      = (serve_list){all, 1};
    assert_true(auth_origin(&a, "https://evil.example"));
    auth_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_admins),
        cmocka_unit_test(test_an_open_address_needs_a_key),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
