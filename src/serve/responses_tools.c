/* serve/responses_tools.c - see responses_tools.h. */
#include "serve/responses_tools.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

static bool no_memory(api_error *err)
{
    return api_fail(err, API_INTERNAL, NULL, "out of memory");
}

static bool is(const json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

static json_t *shared(const json_t *v)
{
    return json_incref((json_t *)(uintptr_t)v);
}

/* Where a tool is described: flat, or as Chat Completions nests it. */
static const json_t *described(const json_t *tool)
{
    const json_t *nested = json_object_get(tool, "function");
    return json_is_object(nested) ? nested : tool;
}

/* Whether tool_choice leaves the tool to the model: "allowed_tools" lists by type and name. */
static bool is_allowed(const json_t *choice, const json_t *ns, const json_t *name)
{
    if (!is(json_object_get(choice, "type"), "allowed_tools")) return true;
    const json_t *list = json_object_get(choice, "tools");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *each = described(json_array_get(list, i)), *listed = json_object_get(each, "name");
        if (json_is_string(listed) &&
            (is(listed, json_string_value(name)) || (ns != NULL && is(listed, json_string_value(ns)))))
            return true;
    }
    return false;
}

/* Takes `parameters`.  A tool in a namespace, or a custom one, is noted under its name. */
static bool add(responses_tools *out, const json_t *ns, const json_t *name, const char *description, json_t *parameters,
                bool custom, api_error *err)
{
    json_t *full  = ns == NULL ? shared(name) : json_sprintf("%s.%s", json_string_value(ns), json_string_value(name));
    json_t *f     = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", full);
    json_t *inner = json_object_get(f, "function");
    bool    ok    = inner != NULL;
    if (ok && description[0] != '\0') ok = json_object_set_new(inner, "description", json_string(description)) == 0;
    if (ok && parameters != NULL) ok = json_object_set(inner, "parameters", parameters) == 0;
    if (ok) ok = json_array_append(out->functions, f) == 0;
    if (ok && (custom || ns != NULL)) {
        json_t *note = json_pack("{s:b, s:O}", "custom", (int)custom, "name", name);
        if (ns != NULL && note != NULL && json_object_set(note, "namespace", (json_t *)(uintptr_t)ns) != 0) ok = false;
        ok = ok && json_object_set(out->told, json_string_value(full), note) == 0;
        json_decref(note);
    }
    json_decref(parameters);
    json_decref(f);
    json_decref(full);
    return ok || no_memory(err);
}

/* The model is told the grammar; nothing holds it to it. */
static bool add_custom(responses_tools *out, const json_t *ns, const json_t *tool, api_error *err)
{
    const json_t *format = json_object_get(tool, "format"), *definition = json_object_get(format, "definition");
    const char   *said = json_string_value(json_object_get(tool, "description"));
    str           text;
    str_init(&text, 1 << 24);
    str_puts(&text, said != NULL ? said : "");
    if (json_is_string(definition)) {
        const char *syntax = json_string_value(json_object_get(format, "syntax"));
        str_printf(&text, "%sThe input has to follow this %s:\n", text.len > 0 ? "\n\n" : "",
                   syntax != NULL && strcmp(syntax, "regex") == 0 ? "regular expression" : "Lark grammar");
        str_put(&text, json_string_value(definition), json_string_length(definition));
    }
    json_t *parameters = json_pack("{s:s, s:{s:{s:s}}, s:[s]}", "type", "object", "properties", "input", "type",
                                   "string", "required", "input");
    bool    ok         = !text.failed && parameters != NULL;
    if (ok)
        ok = add(out, ns, json_object_get(tool, "name"), text.data, parameters, true, err);
    else
        (void)no_memory(err);
    str_free(&text);
    return ok;
}

static bool add_shell(responses_tools *out, api_error *err)
{
    json_t    *name       = json_string("shell");
    json_t    *parameters = json_pack("{s:s, s:{s:{s:s, s:{s:s}}, s:{s:s}, s:{s:s}}, s:[s]}", "type", "object",
                                      "properties", "command", "type", "array", "items", "type", "string", "timeout_ms",
                                      "type", "integer", "workdir", "type", "string", "required", "command");
    const bool ok         = name != NULL && parameters != NULL
                                ? add(out, NULL, name, "Runs a command and returns its output.", parameters, false, err)
                                : no_memory(err);
    json_decref(name);
    return ok;
}

/* A tool with a name, alone or in a namespace. */
static bool read_named(responses_tools *out, const json_t *ns, const json_t *tool, const json_t *choice,
                       const char *where, api_error *err)
{
    const json_t *of = described(tool), *name = json_object_get(of, "name"), *type = json_object_get(tool, "type");
    const json_t *parameters = json_object_get(of, "parameters");
    const char   *said       = json_string_value(json_object_get(of, "description"));
    if (json_string_length(name) == 0)
        return api_fail(err, API_INVALID, where, "%s.name: expected a string, found %s", where, json_kind(name));
    if (!is_allowed(choice, ns, name)) return true;
    if (is(type, "custom")) return add_custom(out, ns, tool, err);
    return add(out, ns, name, said != NULL ? said : "", json_is_object(parameters) ? shared(parameters) : NULL, false,
               err);
}

static bool read_namespace(responses_tools *out, const json_t *tool, const json_t *choice, const char *where,
                           api_error *err)
{
    const json_t *ns = json_object_get(tool, "name"), *tools = json_object_get(tool, "tools");
    if (json_string_length(ns) == 0) {
        out->left_out++;
        return true;
    }
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *each = json_array_get(tools, i), *type = json_object_get(each, "type");
        char          name[80];
        (void)snprintf(name, sizeof name, "%s.tools[%zu]", where, i);
        if (type == NULL || is(type, "function") || is(type, "custom")) {
            if (!read_named(out, ns, each, choice, name, err)) return false;
        } else {
            out->left_out++;
        }
    }
    return true;
}

static bool read_tool(responses_tools *out, const json_t *tool, const json_t *choice, size_t i, api_error *err)
{
    char          where[40];
    const json_t *type = json_object_get(tool, "type");
    (void)snprintf(where, sizeof where, "tools[%zu]", i);
    if (!json_is_object(tool))
        return api_fail(err, API_INVALID, where, "%s: expected an object, found %s", where, json_kind(tool));
    if (type == NULL || is(type, "function") || is(type, "custom"))
        return read_named(out, NULL, tool, choice, where, err);
    if (is(type, "namespace")) return read_namespace(out, tool, choice, where, err);
    if (is(type, "local_shell")) return add_shell(out, err);
    out->left_out++;
    return true;
}

bool responses_tools_read(const json_t *tools, const json_t *choice, responses_tools *out, api_error *err)
{
    *out = (responses_tools){.functions = json_array(), .told = json_object()};
    if (out->functions == NULL || out->told == NULL) return no_memory(err);
    if (tools == NULL || json_is_null(tools)) return true;
    if (!json_is_array(tools))
        return api_fail(err, API_INVALID, "tools", "tools: expected an array, found %s", json_kind(tools));
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!read_tool(out, json_array_get(tools, i), choice, i, err)) return false;
    return true;
}

void responses_tools_free(responses_tools *t)
{
    json_decref(t->functions);
    json_decref(t->told);
    *t = (responses_tools){0};
}
