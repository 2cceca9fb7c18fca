/* serve/anthropic_tools.c - tools of Messages to those of chats. */
#include "base/json.h"
#include "serve/anthropic.h"
#include "serve/fields.h"

#include <stdio.h>
#include <string.h>

static bool no_memory(api_error *err)
{
    return api_fail(err, API_INTERNAL, NULL, "out of memory");
}

/* Kinds that the client carries out; Anthropic's models know them without a schema, others need one. */
static const struct {
    const char *prefix; /* of the type, before its date */
    const char *description, *schema;
} known[] = {
    {"bash_", "Runs a command in a persistent bash session and returns its output.",
     "{\"type\":\"object\",\"properties\":{"
     "\"command\":{\"type\":\"string\",\"description\":\"The command to run.\"},"
     "\"restart\":{\"type\":\"boolean\",\"description\":\"True restarts the session; then no command is needed.\"}}}"},
    {"text_editor_", "Views, creates and edits text files.",
     "{\"type\":\"object\",\"properties\":{"
     "\"command\":{\"type\":\"string\",\"enum\":[\"view\",\"create\",\"str_replace\",\"insert\"]},"
     "\"path\":{\"type\":\"string\",\"description\":\"The file or folder.\"},"
     "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},"
     "\"description\":\"Of view: first and last line, from 1; -1 is the end.\"},"
     "\"file_text\":{\"type\":\"string\",\"description\":\"Of create: the whole file.\"},"
     "\"old_str\":{\"type\":\"string\",\"description\":\"Of str_replace: the text to replace, which occurs once.\"},"
     "\"new_str\":{\"type\":\"string\",\"description\":\"Of str_replace: what replaces it.\"},"
     "\"insert_line\":{\"type\":\"integer\",\"description\":\"Of insert: the line after which; 0 is the beginning.\"},"
     "\"insert_text\":{\"type\":\"string\",\"description\":\"Of insert: the text.\"}},"
     "\"required\":[\"command\",\"path\"]}"},
    {"memory_", "Views, creates, edits, deletes and renames files below /memories, which outlive the conversation.",
     "{\"type\":\"object\",\"properties\":{"
     "\"command\":{\"type\":\"string\","
     "\"enum\":[\"view\",\"create\",\"str_replace\",\"insert\",\"delete\",\"rename\"]},"
     "\"path\":{\"type\":\"string\",\"description\":\"The file or folder; not of rename.\"},"
     "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},"
     "\"file_text\":{\"type\":\"string\",\"description\":\"Of create.\"},"
     "\"old_str\":{\"type\":\"string\",\"description\":\"Of str_replace.\"},"
     "\"new_str\":{\"type\":\"string\",\"description\":\"Of str_replace.\"},"
     "\"insert_line\":{\"type\":\"integer\",\"description\":\"Of insert.\"},"
     "\"insert_text\":{\"type\":\"string\",\"description\":\"Of insert.\"},"
     "\"old_path\":{\"type\":\"string\",\"description\":\"Of rename.\"},"
     "\"new_path\":{\"type\":\"string\",\"description\":\"Of rename.\"}},"
     "\"required\":[\"command\"]}"},
};

/* A tool with a schema of its own.  The keys stay in this order: they are part of the prompt. */
static json_t *own_function(const json_t *tool)
{
    const json_t *description = json_object_get(tool, "description");
    const bool    described = json_is_string(description), strict = json_is_true(json_object_get(tool, "strict"));
    return json_pack("{s:O, s:O*, s:O, s:o*}", "name", json_object_get(tool, "name"), "description",
                     described ? description : NULL, "parameters", json_object_get(tool, "input_schema"), "strict",
                     strict ? json_true() : NULL);
}

static json_t *known_function(const json_t *tool, size_t i)
{
    json_t *schema = json_loads(known[i].schema, 0, NULL);
    return json_pack("{s:O, s:s, s:o}", "name", json_object_get(tool, "name"), "description", known[i].description,
                     "parameters", schema);
}

static bool add_function(json_t *out, json_t *function, api_error *err)
{
    json_t *tool = json_pack("{s:s, s:o}", "type", "function", "function", function);
    return (tool != NULL && json_array_append_new(out, tool) == 0) || no_memory(err);
}

static bool add_tool(json_t *out, json_t *tool, size_t index, bool *marked, api_error *err)
{
    const json_t *type = json_object_get(tool, "type"), *schema = json_object_get(tool, "input_schema");
    const char   *kind = json_is_string(type) ? json_string_value(type) : "custom";
    char          name[40];
    (void)snprintf(name, sizeof name, "tools[%zu]", index);
    if (!json_is_object(tool))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(tool));
    if (json_is_object(json_object_get(tool, "cache_control"))) *marked = true;
    const bool named = json_is_string(json_object_get(tool, "name"));
    if (strcmp(kind, "custom") == 0) {
        if (!named) return api_fail(err, API_INVALID, name, "%s.name: expected a string", name);
        if (!json_is_object(schema))
            return api_fail(err, API_INVALID, name, "%s.input_schema: expected an object, found %s", name,
                            json_kind(schema));
        return add_function(out, own_function(tool), err);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (named && strncmp(kind, known[i].prefix, strlen(known[i].prefix)) == 0)
            return add_function(out, known_function(tool, i), err);
    return json_array_append(out, tool) == 0 || no_memory(err);
}

bool anthropic_tools(const json_t *tools, json_t **out, bool *marked, api_error *err)
{
    *out = json_array();
    if (*out == NULL) return no_memory(err);
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!add_tool(*out, json_array_get(tools, i), i, marked, err)) return false;
    return true;
}

bool anthropic_tool_choice(const json_t *choice, json_t *chat, api_error *err)
{
    fields      f    = {.object = choice, .where = "tool_choice", .err = err};
    const char *type = "", *name = NULL;
    bool        one  = false;
    json_t     *said = NULL;
    (void)field_string(&f, "type", &type);
    (void)field_string(&f, "name", &name);
    (void)field_bool(&f, "disable_parallel_tool_use", &one);
    if (f.failed) return false;
    if (strcmp(type, "auto") == 0 || strcmp(type, "none") == 0)
        said = json_string(type);
    else if (strcmp(type, "any") == 0)
        said = json_string("required");
    else if (strcmp(type, "tool") != 0)
        return field_wrong(&f, "type", "expected auto, any, tool or none, found \"%.60s\"", type);
    else if (name == NULL)
        return field_wrong(&f, "name", "expected a tool's name");
    else
        said = json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name);
    if (json_object_set_new(chat, "tool_choice", said) != 0) return no_memory(err);
    return !one || json_object_set_new(chat, "parallel_tool_calls", json_false()) == 0 || no_memory(err);
}
