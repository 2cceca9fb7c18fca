/* serve/responses_items.c - see responses_items.h. */
#include "serve/responses_items.h"

#include "base/json.h"
#include "serve/server.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 27 };

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

/* ---- an input, as it is kept ---- */

/* What the ids of a kind begin with. */
static const char *prefix_of(const json_t *type)
{
    static const struct {
        const char *type, *prefix;
    } known[] = {{"message", "msg_"},          {"reasoning", "rs_"},
                 {"function_call", "fc_"},     {"function_call_output", "fco_"},
                 {"custom_tool_call", "ctc_"}, {"custom_tool_call_output", "cto_"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is(type, known[i].type)) return known[i].prefix;
    return "item_";
}

/* A content that is a string, as a list of one part. */
static json_t *part_of(const json_t *text, const json_t *role)
{
    return json_pack("[{s:s, s:O}]", "type", is(role, "assistant") ? "output_text" : "input_text", "text", text);
}

static bool keep_item(json_t *out, const json_t *given, size_t index, api_error *err)
{
    char name[40], id[40];
    (void)snprintf(name, sizeof name, "input[%zu]", index);
    if (!json_is_object(given))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(given));
    json_t *item = json_object();
    if (item == NULL || json_array_append_new(out, item) != 0) return no_memory(err);
    const json_t *type = json_object_get(given, "type"), *role = json_object_get(given, "role");
    if (!json_is_string(type)) {
        if (!json_is_string(role))
            return api_fail(err, API_INVALID, name, "%s: expected an item with a type, or a message with a role", name);
        if (json_object_set_new(item, "type", json_string("message")) != 0) return no_memory(err);
    }
    if (json_object_update(item, (json_t *)(uintptr_t)given) != 0) return no_memory(err);
    type = json_object_get(item, "type");
    if (!json_is_string(json_object_get(item, "id"))) {
        random_id(prefix_of(type), id, sizeof id);
        if (json_object_set_new(item, "id", json_string(id)) != 0) return no_memory(err);
    }
    const json_t *content = json_object_get(item, "content");
    if (!is(type, "message") || !json_is_string(content)) return true;
    return json_object_set_new(item, "content", part_of(content, role)) == 0 || no_memory(err);
}

bool responses_items_read(const json_t *input, json_t **out, api_error *err)
{
    bool ok = (*out = json_array()) != NULL || no_memory(err);
    if (ok && json_is_string(input)) {
        json_t *item = json_pack("{s:s, s:s, s:O}", "type", "message", "role", "user", "content", input);
        ok           = item != NULL ? keep_item(*out, item, 0, err) : no_memory(err);
        json_decref(item);
    } else if (ok && json_is_array(input)) {
        for (size_t i = 0; i < json_array_size(input) && ok; i++)
            ok = keep_item(*out, json_array_get(input, i), i, err);
    } else if (ok && input != NULL && !json_is_null(input)) {
        ok = api_fail(err, API_INVALID, "input", "input: expected a string or an array of items, found %s",
                      json_kind(input));
    }
    if (ok) return true;
    json_decref(*out);
    *out = NULL;
    return false;
}

/* ---- texts ---- */

static bool is_image(const json_t *type)
{
    return is(type, "input_image") || is(type, "input_file") || is(type, "input_audio") || is(type, "image_url") ||
           is(type, "computer_screenshot");
}

/* Appends what the parts say.  What a tool gave may hold an image that nobody asked for: a word
 * stands in for it.  In a message it is refused. */
static bool put_parts(const json_t *parts, const char *where, bool of_tool, str *out, api_error *err)
{
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k), *type = json_object_get(part, "type");
        const json_t *text = json_object_get(part, is(type, "refusal") ? "refusal" : "text");
        char          name[80];
        (void)snprintf(name, sizeof name, "%s[%zu]", where, k);
        if (json_is_string(text)) {
            str_put(out, json_string_value(text), json_string_length(text));
        } else if (of_tool) {
            str_puts(out, "[left out: this model reads text only]");
        } else if (is_image(type)) {
            return api_fail(err, API_INVALID, name, "%s.type: this model reads text only", name);
        } else {
            return api_fail(err, API_INVALID, name, "%s.text: expected a string, found %s", name, json_kind(text));
        }
    }
    return true;
}

/* A content or output: a string, parts, nothing, or (of a tool) any JSON. */
static bool put_content(const json_t *v, const char *where, bool of_tool, str *out, api_error *err)
{
    if (v == NULL || json_is_null(v)) return true;
    if (json_is_string(v)) {
        str_put(out, json_string_value(v), json_string_length(v));
        return true;
    }
    if (json_is_array(v)) return put_parts(v, where, of_tool, out, err);
    if (!of_tool)
        return api_fail(err, API_INVALID, where, "%s: expected a string or an array of parts, found %s", where,
                        json_kind(v));
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL) return no_memory(err);
    str_puts(out, text);
    free(text);
    return true;
}

static json_t *take_string(str *text, api_error *err)
{
    json_t *s = text->failed ? NULL : json_stringn(text->data, text->len);
    if (s == NULL) (void)no_memory(err);
    str_free(text);
    return s;
}

/* ---- turns ---- */

/* The order of what a turn of the assistant holds: what comes before begins another. */
typedef enum stage { STAGE_REASONING, STAGE_TEXT, STAGE_CALLS } stage;

typedef struct folding {
    json_t    *messages;
    json_t    *open; /* the assistant's message that goes on, or NULL; borrowed from messages */
    stage      at;
    size_t    *left_out;
    api_error *err;
} folding;

static bool append(folding *f, json_t *message)
{
    return (message != NULL && json_array_append_new(f->messages, message) == 0) || no_memory(f->err);
}

/* The message that takes something of stage `s`. */
static bool open_turn(folding *f, stage s)
{
    if (f->open == NULL || s < f->at || (s == STAGE_TEXT && f->at == STAGE_TEXT)) {
        json_t *m = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
        if (!append(f, m)) return false;
        f->open = m;
    }
    f->at = s;
    return true;
}

/* The member's text with more behind it. */
static bool extend(folding *f, const char *key, const char *between, str *more)
{
    const json_t *had = json_object_get(f->open, key);
    if (json_string_length(had) > 0 && more->len > 0) {
        str all;
        str_init(&all, TEXT_MAX);
        str_put(&all, json_string_value(had), json_string_length(had));
        str_puts(&all, between);
        str_put(&all, more->data, more->len);
        if (more->failed) all.failed = true;
        str_free(more);
        *more = all;
    } else if (json_string_length(had) > 0) {
        str_free(more);
        return true;
    }
    json_t *text = take_string(more, f->err);
    return text != NULL && (json_object_set_new(f->open, key, text) == 0 || no_memory(f->err));
}

static bool add_message(folding *f, const json_t *item, const char *where)
{
    char          name[60];
    str           text;
    const json_t *role = json_object_get(item, "role");
    if (!json_is_string(role))
        return api_fail(f->err, API_INVALID, where, "%s.role: expected a string, found %s", where, json_kind(role));
    (void)snprintf(name, sizeof name, "%s.content", where);
    str_init(&text, TEXT_MAX);
    bool ok = put_content(json_object_get(item, "content"), name, false, &text, f->err);
    if (ok && is(role, "assistant")) {
        ok = open_turn(f, STAGE_TEXT) && extend(f, "content", "", &text);
    } else if (ok) {
        f->open         = NULL;
        json_t *content = take_string(&text, f->err);
        ok              = content != NULL && append(f, json_pack("{s:O, s:o}", "role", role, "content", content));
    }
    str_free(&text);
    return ok;
}

/* The whole reasoning where it is there, else what a summary kept of it. */
static bool add_reasoning(folding *f, const json_t *item)
{
    str           text;
    const json_t *content = json_object_get(item, "content"), *summary = json_object_get(item, "summary");
    const json_t *from = json_array_size(content) > 0 ? content : summary;
    str_init(&text, TEXT_MAX);
    for (size_t k = 0; k < json_array_size(from); k++) {
        const json_t *said = json_object_get(json_array_get(from, k), "text");
        if (!json_is_string(said)) continue;
        if (text.len > 0) str_puts(&text, "\n\n");
        str_put(&text, json_string_value(said), json_string_length(said));
    }
    const bool ok = (text.len == 0 && !text.failed) ||
                    (open_turn(f, STAGE_REASONING) && extend(f, "reasoning_content", "\n\n", &text));
    str_free(&text);
    return ok;
}

/* Takes `arguments`. */
static bool add_call(folding *f, const json_t *id, json_t *name, json_t *arguments)
{
    json_t *call =
        json_pack("{s:s, s:{s:o, s:o}}", "type", "function", "function", "name", name, "arguments", arguments);
    bool ok = call != NULL || no_memory(f->err);
    if (ok && json_is_string(id) && json_object_set(call, "id", (json_t *)(uintptr_t)id) != 0) ok = no_memory(f->err);
    ok = ok && open_turn(f, STAGE_CALLS);
    if (ok && json_object_get(f->open, "tool_calls") == NULL &&
        json_object_set_new(f->open, "tool_calls", json_array()) != 0)
        ok = no_memory(f->err);
    if (ok && json_array_append(json_object_get(f->open, "tool_calls"), call) != 0) ok = no_memory(f->err);
    json_decref(call);
    return ok;
}

/* "ns.name", as the tools are shown to the model. */
static json_t *name_of(const json_t *item)
{
    const json_t *ns = json_object_get(item, "namespace"), *name = json_object_get(item, "name");
    if (json_string_length(ns) == 0) return shared(name);
    return json_sprintf("%s.%s", json_string_value(ns), json_string_value(name));
}

/* A model may have written what is no object; its own history must not stop it for good. */
static json_t *arguments_of(const json_t *text)
{
    json_error_t je;
    if (json_is_object(text)) return shared(text);
    if (!json_is_string(text) || json_string_length(text) == 0) return json_object();
    json_t *v = json_loadb(json_string_value(text), json_string_length(text), 0, &je);
    if (json_is_object(v)) return v;
    json_decref(v);
    return json_pack("{s:O}", "arguments", text);
}

static bool add_function_call(folding *f, const json_t *item, const char *where)
{
    if (!json_is_string(json_object_get(item, "name")))
        return api_fail(f->err, API_INVALID, where, "%s.name: expected a string, found %s", where,
                        json_kind(json_object_get(item, "name")));
    if (is(json_object_get(item, "type"), "custom_tool_call")) {
        const json_t *input = json_object_get(item, "input");
        return add_call(f, json_object_get(item, "call_id"), name_of(item),
                        json_is_string(input) ? json_pack("{s:O}", "input", input) : json_object());
    }
    return add_call(f, json_object_get(item, "call_id"), name_of(item),
                    arguments_of(json_object_get(item, "arguments")));
}

/* The built-in shell's call, as the function that stands for it. */
static bool add_shell_call(folding *f, const json_t *item)
{
    const json_t *action = json_object_get(item, "action"), *command = json_object_get(action, "command");
    const json_t *limit = json_object_get(action, "timeout_ms"), *dir = json_object_get(action, "working_directory");
    json_t       *arguments = json_object();
    bool          ok        = arguments != NULL;
    if (ok && command != NULL) ok = json_object_set_new(arguments, "command", shared(command)) == 0;
    if (ok && json_is_integer(limit)) ok = json_object_set_new(arguments, "timeout_ms", shared(limit)) == 0;
    if (ok && json_is_string(dir)) ok = json_object_set_new(arguments, "workdir", shared(dir)) == 0;
    if (!ok) {
        json_decref(arguments);
        return no_memory(f->err);
    }
    return add_call(f, json_object_get(item, "call_id"), json_string("shell"), arguments);
}

static bool add_output(folding *f, const json_t *item, const char *where)
{
    char          name[60];
    str           text;
    const json_t *id = json_object_get(item, "call_id");
    (void)snprintf(name, sizeof name, "%s.output", where);
    str_init(&text, TEXT_MAX);
    f->open = NULL;
    bool ok = put_content(json_object_get(item, "output"), name, true, &text, f->err);
    if (ok) {
        json_t *content = take_string(&text, f->err);
        ok              = content != NULL &&
             append(f, json_is_string(id)
                           ? json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", content)
                           : json_pack("{s:s, s:o}", "role", "tool", "content", content));
    }
    str_free(&text);
    return ok;
}

static bool add_item(folding *f, const json_t *item, const char *where)
{
    const json_t *type = json_object_get(item, "type");
    if (is(type, "message")) return add_message(f, item, where);
    if (is(type, "reasoning")) return add_reasoning(f, item);
    if (is(type, "function_call") || is(type, "custom_tool_call")) return add_function_call(f, item, where);
    if (is(type, "local_shell_call")) return add_shell_call(f, item);
    if (is(type, "function_call_output") || is(type, "custom_tool_call_output") || is(type, "local_shell_call_output"))
        return add_output(f, item, where);
    ++*f->left_out;
    return true;
}

bool responses_items_to_messages(const json_t *items, json_t *messages, size_t *left_out, api_error *err)
{
    char    where[40];
    folding f = {.messages = messages, .left_out = left_out, .err = err};
    for (size_t i = 0; i < json_array_size(items); i++) {
        (void)snprintf(where, sizeof where, "input[%zu]", i);
        if (!add_item(&f, json_array_get(items, i), where)) return false;
    }
    return true;
}
