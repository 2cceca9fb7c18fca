/* tests/oracle/demo_data.c - the bundled model's texts and expected values. */
#include "demo_data.h"

#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>

const char *const demo_texts[DEMO_TEXTS] = {"tales", "stories", "chat"};

char *demo_path(char *buf, size_t size, const char *name)
{
    (void)snprintf(buf, size, "%s/tests/data/demo/%s", WEIR_SOURCE_DIR, name);
    return buf;
}

json_doc demo_json(const char *name)
{
    char       path[1024];
    weir_error err;
    json_doc   d;
    must(json_load(&d, demo_path(path, sizeof path, name), DEMO_MAX_FILE, 8, &err), &err);
    return d;
}

uint32_t *demo_ids(const json_t *array, size_t *n)
{
    assert_true(json_is_array(array));
    *n            = json_array_size(array);
    uint32_t *ids = malloc(*n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (uint32_t)json_integer_value(json_array_get(array, i));
    return ids;
}

uint32_t *demo_text(const char *text, size_t *n)
{
    char name[64];
    (void)snprintf(name, sizeof name, "val-%s.ids.json", text);
    json_doc  d   = demo_json(name);
    uint32_t *ids = demo_ids(d.root, n);
    json_doc_free(&d);
    return ids;
}

weir_model *demo_unquantised(void)
{
    weir_error  err;
    weir_model *m;
    const char *dir = getenv("WEIR_DEMO_BF16");
    if (dir == NULL) {
        print_message("WEIR_DEMO_BF16 does not name the folder of the unquantised demo model\n");
        skip();
    }
    must(weir_model_open(&m, dir, &err), &err);
    return m;
}
