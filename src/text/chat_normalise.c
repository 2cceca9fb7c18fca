/* text/chat_normalise.c - one form for the ways clients write messages. */
#include "text/chat_parts.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { MAX_JOINED = 256 * 1024 * 1024 };

static weir_status no_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "messages: out of memory");
}

/* Steals `value`, which may be NULL after a failed allocation. */
static weir_status put(json_t *object, const char *key, json_t *value, weir_error *err)
{
    return json_object_set_new(object, key, value) == 0 ? WEIR_OK : no_memory(err);
}

/* ---- content ---- */

static bool is_text_part(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return (type == NULL || strcmp(type, "text") == 0) && json_object_get(part, "text") != NULL &&
           json_object_get(part, "image") == NULL && json_object_get(part, "image_url") == NULL &&
           json_object_get(part, "video") == NULL;
}

static weir_status check_parts(const json_t *parts, size_t index, bool *all_text, weir_error *err)
{
    *all_text = true;
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_array_get(parts, k);
        if (!json_is_object(part))
            return status_fail(err, WEIR_INVALID, "messages[%zu].content[%zu]: expected an object, found %s", index, k,
                               json_kind(part));
        const json_t *text = json_object_get(part, "text");
        if (text != NULL && !json_is_string(text))
            return status_fail(err, WEIR_INVALID, "messages[%zu].content[%zu].text: expected a string, found %s", index,
                               k, json_kind(text));
        if (!is_text_part(part)) *all_text = false;
    }
    return WEIR_OK;
}

static weir_status join_parts(json_t *message, const json_t *parts, weir_error *err)
{
    str text;
    str_init(&text, MAX_JOINED);
    for (size_t k = 0; k < json_array_size(parts); k++) {
        const json_t *part = json_object_get(json_array_get(parts, k), "text");
        str_put(&text, json_string_value(part), json_string_length(part));
    }
    weir_status st = str_status(&text, "messages: a content joined from parts", err);
    if (st == WEIR_OK) st = put(message, "content", json_stringn(text.data, text.len), err);
    str_free(&text);
    return st;
}

static weir_status normalise_content(json_t *message, size_t index, weir_error *err)
{
    const json_t *content = json_object_get(message, "content");
    if (content == NULL || json_is_null(content)) return put(message, "content", json_string(""), err);
    if (json_is_string(content)) return WEIR_OK;
    if (!json_is_array(content))
        return status_fail(err, WEIR_INVALID, "messages[%zu].content: expected a string, an array or null, found %s",
                           index, json_kind(content));
    bool all_text;
    TRY(check_parts(content, index, &all_text, err));
    return all_text ? join_parts(message, content, err) : WEIR_OK;
}

/* ---- role ---- */

static weir_status normalise_role(json_t *message, size_t index, weir_error *err)
{
    static const char *const known[] = {"system", "user", "assistant", "tool"};
    const json_t            *role    = json_object_get(message, "role");
    if (!json_is_string(role))
        return status_fail(err, WEIR_INVALID, "messages[%zu].role: expected a string, found %s", index,
                           json_kind(role));
    const char *name = json_string_value(role);
    if (strcmp(name, "developer") == 0) return put(message, "role", json_string("system"), err);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i]) == 0) return WEIR_OK;
    return status_fail(err, WEIR_INVALID,
                       "messages[%zu].role: expected system, developer, user, assistant or tool, found '%.80s'", index,
                       name);
}

/* ---- tool calls ---- */

typedef struct call_at {
    size_t message, call;
} call_at;

static weir_status parse_arguments(json_t *function, const json_t *text, call_at at, weir_error *err)
{
    char     name[120];
    json_doc doc;
    (void)snprintf(name, sizeof name, "messages[%zu].tool_calls[%zu].function.arguments", at.message, at.call);
    const weir_status st =
        json_parse(&doc, json_string_value(text), json_string_length(text), name, JSON_MAX_DEPTH, err);
    if (st != WEIR_OK) {
        if (st == WEIR_FORMAT && err != NULL) err->status = WEIR_INVALID; /* the request is wrong, not a file */
        return st == WEIR_FORMAT ? WEIR_INVALID : st;
    }
    weir_status result;
    if (json_is_object(doc.root))
        result = put(function, "arguments", json_incref(doc.root), err);
    else
        result = status_fail(err, WEIR_INVALID, "%s: expected a JSON object in the string, found %s", name,
                             json_kind(doc.root));
    json_doc_free(&doc);
    return result;
}

/* `call` is a shallow copy that may be changed. */
static weir_status normalise_call(json_t *call, call_at at, weir_error *err)
{
    const json_t *function = json_object_get(call, "function");
    json_t       *target   = call;
    if (function != NULL) {
        if (!json_is_object(function))
            return status_fail(err, WEIR_INVALID,
                               "messages[%zu].tool_calls[%zu].function: expected an object, found %s", at.message,
                               at.call, json_kind(function));
        target = json_copy((json_t *)(uintptr_t)function);
        TRY(put(call, "function", target, err));
    }
    const json_t *arguments = json_object_get(target, "arguments");
    if (json_is_string(arguments)) return parse_arguments(target, arguments, at, err);
    if (arguments == NULL || json_is_null(arguments) || json_is_object(arguments)) return WEIR_OK;
    return status_fail(err, WEIR_INVALID,
                       "messages[%zu].tool_calls[%zu].function.arguments: expected an object or a string, found %s",
                       at.message, at.call, json_kind(arguments));
}

static weir_status normalise_calls(json_t *message, size_t index, weir_error *err)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    if (calls == NULL || json_is_null(calls)) return WEIR_OK;
    if (!json_is_array(calls))
        return status_fail(err, WEIR_INVALID, "messages[%zu].tool_calls: expected an array, found %s", index,
                           json_kind(calls));
    json_t     *copies = json_array();
    weir_status st     = copies == NULL ? no_memory(err) : WEIR_OK;
    for (size_t k = 0; k < json_array_size(calls) && st == WEIR_OK; k++) {
        json_t *call = json_array_get(calls, k);
        if (!json_is_object(call)) {
            st = status_fail(err, WEIR_INVALID, "messages[%zu].tool_calls[%zu]: expected an object, found %s", index, k,
                             json_kind(call));
            break;
        }
        call = json_copy(call);
        if (call == NULL || json_array_append_new(copies, call) != 0)
            st = no_memory(err);
        else
            st = normalise_call(call, (call_at){index, k}, err);
    }
    if (st == WEIR_OK) st = put(message, "tool_calls", json_incref(copies), err);
    json_decref(copies);
    return st;
}

/* ---- messages ---- */

static bool is_plain_system(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role != NULL && strcmp(role, "system") == 0 && json_is_string(json_object_get(message, "content"));
}

/* The first message, then those from `from` on, in place of *messages. */
static weir_status keep_first_and_rest(json_t **messages, size_t from, weir_error *err)
{
    json_t *out = json_array();
    bool    ok  = out != NULL && json_array_append(out, json_array_get(*messages, 0)) == 0;
    for (size_t i = from; i < json_array_size(*messages) && ok; i++)
        ok = json_array_append(out, json_array_get(*messages, i)) == 0;
    if (!ok) {
        json_decref(out);
        return no_memory(err);
    }
    json_decref(*messages);
    *messages = out;
    return WEIR_OK;
}

/* Leading system messages into the first of them. */
static weir_status join_leading_systems(json_t **all, weir_error *err)
{
    json_t *messages = *all;
    size_t  n        = 0;
    str     text;
    while (is_plain_system(json_array_get(messages, n))) n++;
    if (n < 2) return WEIR_OK;
    str_init(&text, MAX_JOINED);
    for (size_t i = 0; i < n; i++) {
        const json_t *content = json_object_get(json_array_get(messages, i), "content");
        if (i > 0) str_puts(&text, "\n\n");
        str_put(&text, json_string_value(content), json_string_length(content));
    }
    weir_status st = str_status(&text, "messages: the joined system messages", err);
    if (st == WEIR_OK) st = put(json_array_get(messages, 0), "content", json_stringn(text.data, text.len), err);
    str_free(&text);
    return st == WEIR_OK ? keep_first_and_rest(all, n, err) : st;
}

static weir_status append_message(json_t *out, const json_t *message, size_t index, weir_error *err)
{
    if (!json_is_object(message))
        return status_fail(err, WEIR_INVALID, "messages[%zu]: expected an object, found %s", index, json_kind(message));
    json_t *copy = json_copy((json_t *)(uintptr_t)message); /* shallow */
    if (copy == NULL || json_array_append_new(out, copy) != 0) return no_memory(err);
    TRY(normalise_role(copy, index, err));
    TRY(normalise_content(copy, index, err));
    return normalise_calls(copy, index, err);
}

weir_status chat_normalise(json_t **out, const json_t *messages, weir_error *err)
{
    *out = NULL;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return status_fail(err, WEIR_INVALID, "messages: expected an array with at least one message, found %s",
                           json_is_array(messages) ? "an empty one" : json_kind(messages));
    json_t *copies = json_array();
    if (copies == NULL) return no_memory(err);
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < json_array_size(messages) && st == WEIR_OK; i++)
        st = append_message(copies, json_array_get(messages, i), i, err);
    if (st == WEIR_OK) st = join_leading_systems(&copies, err);
    if (st != WEIR_OK) {
        json_decref(copies);
        return st;
    }
    *out = copies;
    return WEIR_OK;
}
