/* Paths to handlers, and errors in the words of each dialect. */
#include "serve/route.h"
#include "support/cmocka.h"

#include <string.h>

static api_error   err;
static char        scratch[256];
static route_match m;

static const route *find(const char *method, const char *path)
{
    err = (api_error){0};
    route_find(method, path, scratch, &m, &err);
    return m.route;
}

static void test_found(void **state)
{
    (void)state;
    static const char *const chats[] = {"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/"};
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        assert_non_null(find("POST", chats[i]));
        assert_true(m.route->handle == handle_chat);
        assert_int_equal(m.route->access, ROUTE_KEY);
    }
    assert_true(find("HEAD", "/health")->handle == handle_health);
    assert_int_equal(m.route->access, ROUTE_PUBLIC);
    assert_true(find("GET", "/v1/models/org/name/")->handle == handle_model);
    assert_string_equal(m.rest, "org/name");
    assert_true(find("GET", "/models")->handle == handle_models);
    assert_true(find("POST", "/v1/messages")->handle == handle_messages);
    assert_true(find("POST", "/messages/count_tokens/")->handle == handle_count_tokens);
    assert_true(find("GET", "/v1/responses/resp_1/input_items/")->handle == handle_response_items);
    assert_string_equal(m.rest, "resp_1");
    assert_true(find("GET", "/responses/resp_1")->handle == handle_response);
    assert_string_equal(m.rest, "resp_1");
    assert_true(find("DELETE", "/v1/responses/resp_1")->handle == handle_response_delete);
    assert_true(find("POST", "/v1/responses/input_tokens")->handle == handle_responses_tokens);
    assert_true(find("POST", "/v1/responses/resp_1/cancel")->handle == handle_response_cancel);
    assert_true(find("POST", "/api/chat/")->handle == handle_ollama_chat);
    assert_int_equal(m.route->access, ROUTE_KEY);
    assert_true(find("DELETE", "/api/delete")->handle == handle_ollama_change);
    assert_true(find("POST", "/v1/adapters")->handle == handle_adapter_load);
    assert_int_equal(m.route->access, ROUTE_ADMIN);
    assert_true(find("HEAD", "/adapters")->handle == handle_adapters);
    assert_true(find("DELETE", "/v1/adapters/a.b")->handle == handle_adapter_delete);
    assert_string_equal(m.rest, "a.b");
    assert_true(find("GET", "/")->handle == handle_home);
    assert_int_equal(m.route->access, ROUTE_PUBLIC);
    assert_true(find("HEAD", "/web/app.js")->handle == handle_web);
    assert_string_equal(m.rest, "app.js");
    assert_int_equal(m.route->access, ROUTE_PUBLIC);
}

static void test_not_found(void **state)
{
    (void)state;
    static const char *const none[] = {"/v1", "/v1/metrics", "/v1/v1/models", "/modelsx", "/models/x/../y/",
                                       "",    "*",           "/web",          "/web/",    "/v1/web/app.js"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        if (i == 4) continue; /* anything is an id */
        assert_null(find("GET", none[i]));
        assert_int_equal(err.kind, API_NOT_FOUND);
        assert_string_equal(m.allow, "");
    }
    assert_null(find("DELETE", "/v1/models"));
    assert_int_equal(err.kind, API_METHOD);
    assert_string_equal(m.allow, "GET, HEAD, OPTIONS");
    assert_null(find("PUT", "/v1/responses/resp_1"));
    assert_string_equal(m.allow, "GET, HEAD, DELETE, OPTIONS");
    assert_null(find("GET", "/v1/adapters/x"));
    assert_string_equal(m.allow, "DELETE, OPTIONS");
    assert_null(find("DELETE", "/v1/adapters"));
    assert_string_equal(m.allow, "GET, HEAD, POST, OPTIONS");
    assert_null(find("HEAD", "/tokenize"));
    assert_string_equal(m.allow, "POST, OPTIONS");
    assert_null(find("POST", "/api/delete"));
    assert_string_equal(m.allow, "DELETE, OPTIONS");
    assert_null(find("POST", "/v1/api/chat"));
    assert_int_equal(err.kind, API_NOT_FOUND);
}

static void check(const char *path, api_kind kind, unsigned status, const char *body)
{
    str out;
    str_init(&out, 1024);
    (void)find("GET", path);
    const api_dialect d = m.dialect;
    (void)api_fail(&err, kind, "a.b", "say \"%s\"", "x");
    api_error_json(&err, d, "req_1", &out);
    assert_string_equal(out.data, body);
    assert_int_equal(api_http_status(&err, d), status);
    str_free(&out);
}

static void test_dialects(void **state)
{
    (void)state;
    check("/nope", API_INVALID, 400,
          "{\"error\":{\"message\":\"say "
          "\\\"x\\\"\",\"type\":\"invalid_request_error\",\"param\":\"a.b\",\"code\":null}}");
    check("/v1/messages", API_INVALID, 400,
          "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"say "
          "\\\"x\\\"\"},\"request_id\":\"req_1\"}");
    check("/v1/messages", API_UNAVAILABLE, 529,
          "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"say "
          "\\\"x\\\"\"},\"request_id\":\"req_1\"}");
    check("/api/chat", API_UNAVAILABLE, 503, "{\"error\":\"say \\\"x\\\"\"}");
    check("/v1/x", API_NUMERICS, 500,
          "{\"error\":{\"message\":\"say "
          "\\\"x\\\"\",\"type\":\"server_error\",\"param\":\"a.b\",\"code\":\"numerics\"}}");
}

static void test_failures_of_the_library(void **state)
{
    (void)state;
    weir_error e = {.status = WEIR_INVALID, .text = "messages[2].role: expected a string, found null"};
    assert_false(api_fail_status(&err, &e));
    assert_string_equal(err.param, "messages[2].role");
    assert_int_equal(err.kind, API_INVALID);
    e = (weir_error){.status = WEIR_NO_MEMORY, .text = "request: 9 positions are needed"};
    assert_false(api_fail_status(&err, &e));
    assert_int_equal(err.kind, API_BUDGET);
    e = (weir_error){.status = WEIR_NUMERICS, .text = "logits are not finite"};
    assert_false(api_fail_status(&err, &e));
    assert_int_equal(err.kind, API_NUMERICS);
    assert_string_equal(err.param, "");
    char long_text[2000];
    memset(long_text, 'a', sizeof long_text);
    memcpy(long_text + 997, "\xE2\x82\xAC", 4); /* cut in the middle of a character */
    assert_false(api_fail(&err, API_INVALID, NULL, "%s", long_text));
    assert_int_equal(strlen(err.message), 997);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_dialects),
        cmocka_unit_test(test_failures_of_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
