/* tests/unit/grammar/test_schema_goldens.c - random schemas against another validator's word.
 *
 * tests/data/grammar/schemas.jsonl is made by tools/make-schema-goldens.py: for each
 * schema, documents that the jsonschema package calls valid, and changed ones that it
 * does not. */
#include "unit/grammar/rig.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "support/cmocka.h"

#include <string.h>

enum { FILE_MOST = 1 << 22 };

static void check_line(const vocabulary *v, const json_t *line, uint64_t seed)
{
    const char *schema = json_string_value(json_object_get(line, "schema"));
    grammar    *g      = compiled(v, WEIR_GRAMMAR_JSON_SCHEMA, schema, NULL);
    size_t      i;
    json_t     *text;
    json_array_foreach(json_object_get(line, "good"), i, text)
    {
        if (!accepts_by_tokens(v, g, json_string_value(text), json_string_length(text), seed + i, false))
            fail_msg("expected %s to fit %s", json_string_value(text), schema);
    }
    json_array_foreach(json_object_get(line, "bad"), i, text)
    {
        if (accepts(g, json_string_value(text), json_string_length(text)))
            fail_msg("expected %s not to fit %s", json_string_value(text), schema);
    }
    grammar_release(g);
}

static void documents_fit_as_the_validator_says(void **state)
{
    (void)state;
    vocabulary v;
    weir_error err;
    char      *all;
    size_t     len, lines = 0;
    vocabulary_make(&v, 400, 9);
    assert_int_equal(file_read(&all, &len, WEIR_SOURCE_DIR "/tests/data/grammar/schemas.jsonl", FILE_MOST, &err),
                     WEIR_OK);
    for (char *at = all, *end; (end = strchr(at, '\n')) != NULL; at = end + 1, lines++) {
        json_doc doc;
        if (json_parse(&doc, at, (size_t)(end - at), "line", JSON_MAX_DEPTH, &err) != WEIR_OK) fail_msg("%s", err.text);
        check_line(&v, doc.root, lines);
        json_doc_free(&doc);
    }
    assert_true(lines >= 100);
    mem_free(all);
    vocabulary_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(documents_fit_as_the_validator_says)};
    return cmocka_run_group_tests_name("schemas against jsonschema", tests, NULL, NULL);
}
