/* Status texts and error messages: bounded, prefixed, optional. */
#include "support/cmocka.h"

#include "base/status.h"

#include <string.h>

static void every_status_has_its_own_text(void **state)
{
    (void)state;
    static const weir_status all[] = {
#define X(name, text) WEIR_##name,
        WEIR_STATUS_LIST(X)
#undef X
    };
    const size_t n = sizeof all / sizeof *all;
    assert_int_equal(WEIR_OK, 0);
    assert_string_equal(weir_status_text(WEIR_OK), "ok");
    for (size_t i = 0; i < n; i++) {
        assert_string_not_equal(weir_status_text(all[i]), "unknown status");
        for (size_t j = 0; j < i; j++) assert_string_not_equal(weir_status_text(all[i]), weir_status_text(all[j]));
    }
    assert_string_equal(weir_status_text((weir_status)n), "unknown status");
}

static void failing_fills_the_error(void **state)
{
    (void)state;
    weir_error err = {0};
    assert_int_equal(status_fail(&err, WEIR_FORMAT, "%s: expected %d, found %d", "a.json", 3, 4), WEIR_FORMAT);
    assert_int_equal(err.status, WEIR_FORMAT);
    assert_string_equal(err.text, "a.json: expected 3, found 4");
    assert_int_equal(status_fail(NULL, WEIR_IO, "nobody reads %d", 1), WEIR_IO);
    assert_int_equal(status_prefix(NULL, WEIR_IO, "nor %d", 2), WEIR_IO);
}

static void prefixes_stack_up(void **state)
{
    (void)state;
    weir_error err;
    (void)status_fail(&err, WEIR_FORMAT, "expected 4, found 5");
    assert_int_equal(status_prefix(&err, WEIR_FORMAT, "layer %d", 7), WEIR_FORMAT);
    assert_int_equal(status_prefix(&err, WEIR_UNSUPPORTED, "model.safetensors"), WEIR_UNSUPPORTED);
    assert_string_equal(err.text, "model.safetensors: layer 7: expected 4, found 5");
    assert_int_equal(err.status, WEIR_UNSUPPORTED);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    weir_error err;
    char       text[2 * sizeof err.text];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)status_fail(&err, WEIR_INVALID, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    (void)status_prefix(&err, WEIR_INVALID, "ab");
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_memory_equal(err.text, "ab: xxx", 7);
    (void)status_prefix(&err, WEIR_INVALID, "%s", text); /* nothing is left of what was there */
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_null(strchr(err.text, ':'));
}

/* Names out of files end up on terminals. */
static void control_characters_are_replaced(void **state)
{
    (void)state;
    weir_error err;
    (void)status_fail(&err, WEIR_FORMAT, "a\x1b[2J\n%s", "\x7f\xc2\x9b \xc3\xa9 \xc2\xa0");
    assert_string_equal(err.text, "a?[2J???? \xc3\xa9 \xc2\xa0");
    (void)status_prefix(&err, WEIR_FORMAT, "f\r");
    assert_string_equal(err.text, "f?: a?[2J???? \xc3\xa9 \xc2\xa0");
}

static weir_status pass_up(weir_status st)
{
    TRY(st);
    return WEIR_CANCELLED; /* reached */
}

static void try_passes_failures_up(void **state)
{
    (void)state;
    assert_int_equal(pass_up(WEIR_NO_MEMORY), WEIR_NO_MEMORY);
    assert_int_equal(pass_up(WEIR_OK), WEIR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_text),
        cmocka_unit_test(failing_fills_the_error),
        cmocka_unit_test(prefixes_stack_up),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(control_characters_are_replaced),
        cmocka_unit_test(try_passes_failures_up),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
