/* text/chat_source.c - where a checkpoint keeps its chat template. */
#include "text/chat.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <string.h>

enum { MAX_CONFIG = 8 * 1024 * 1024 };

static weir_status parse_file(template **out, const char *path, weir_error *err)
{
    char  *text;
    size_t len;
    TRY(file_read(&text, &len, path, TEMPLATE_MAX_BYTES, err));
    const weir_status st = template_parse(out, text, len, path, err);
    mem_free(text);
    return st;
}

/* The string itself, or the one named "default" in a list; NULL when absent. */
static weir_status choose(const json_doc *doc, const json_t **out, weir_error *err)
{
    const json_t *v = json_object_get(doc->root, "chat_template");
    *out            = NULL;
    if (v == NULL || json_is_null(v)) return WEIR_OK;
    if (json_is_string(v)) {
        *out = v;
        return WEIR_OK;
    }
    if (!json_is_array(v))
        return status_fail(err, WEIR_FORMAT, "%s: chat_template: expected a string or an array, found %s", doc->name,
                           json_kind(v));
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *entry = json_array_get(v, i), *text = json_object_get(entry, "template");
        const char   *name = json_string_value(json_object_get(entry, "name"));
        if (name == NULL || !json_is_string(text))
            return status_fail(err, WEIR_FORMAT, "%s: chat_template[%zu]: expected an object with name and template",
                               doc->name, i);
        if (strcmp(name, "default") == 0) *out = text;
    }
    if (*out == NULL)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: chat_template: expected an entry named 'default', found none",
                           doc->name);
    return WEIR_OK;
}

static weir_status parse_config(template **out, const char *path, bool *found, weir_error *err)
{
    json_doc      doc;
    const json_t *text;
    TRY(json_load(&doc, path, MAX_CONFIG, JSON_MAX_DEPTH, err));
    weir_status st = choose(&doc, &text, err);
    *found         = st != WEIR_OK || text != NULL;
    if (st == WEIR_OK && text != NULL)
        st = template_parse(out, json_string_value(text), json_string_length(text), path, err);
    json_doc_free(&doc);
    return st;
}

weir_status chat_template_load(template **out, const char *dir, weir_error *err)
{
    *out               = NULL;
    char       *own    = path_join(dir, "chat_template.jinja");
    char       *config = path_join(dir, "tokenizer_config.json");
    bool        found  = false;
    weir_status st     = WEIR_OK;
    if (own == NULL || config == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    } else if (file_exists(own)) {
        found = true;
        st    = parse_file(out, own, err);
    } else if (file_exists(config)) {
        st = parse_config(out, config, &found, err);
    }
    if (st == WEIR_OK && !found)
        st = status_fail(err, WEIR_UNSUPPORTED,
                         "%s: expected a chat template in chat_template.jinja or in chat_template of "
                         "tokenizer_config.json, found none",
                         dir);
    mem_free(own);
    mem_free(config);
    return st;
}
