/* serve/chat_request.c - see chat_request.h. */
#include "serve/chat_request.h"

#include "base/json.h"
#include "base/mem.h"
#include "serve/fields.h"

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

static bool is_one_of(const json_t *v, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is(v, words[i])) return true;
    return false;
}

/* ---- messages ---- */

/* One part of a content: text goes to *parts, thinking to *message. */
static bool read_part(json_t *message, const json_t *part, json_t *parts, const char *name, api_error *err)
{
    static const char *const texts[]  = {"text", "input_text", "output_text"};
    static const char *const images[] = {"image_url", "input_image", "image", "video", "video_url", "input_audio"};
    const json_t            *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    if (!json_is_object(part))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(part));
    if (is(type, "refusal")) text = json_object_get(part, "refusal");
    if (is(type, "thinking")) {
        text = json_object_get(part, "thinking");
        if (json_is_string(text) && json_object_get(message, "reasoning_content") == NULL)
            return json_object_set(message, "reasoning_content", (json_t *)(uintptr_t)text) == 0 || no_memory(err);
        return true;
    }
    if (is_one_of(type, images, sizeof images / sizeof *images))
        return api_fail(err, API_INVALID, name, "%s.type: this model reads text only", name);
    if (type != NULL && !is(type, "refusal") && !is_one_of(type, texts, sizeof texts / sizeof *texts))
        return api_fail(err, API_INVALID, name, "%s.type: expected text, found %s", name,
                        json_is_string(type) ? json_string_value(type) : json_kind(type));
    if (!json_is_string(text))
        return api_fail(err, API_INVALID, name, "%s.text: expected a string, found %s", name, json_kind(text));
    json_t *own = json_pack("{s:s, s:O}", "type", "text", "text", text);
    return json_array_append_new(parts, own) == 0 || no_memory(err);
}

static bool read_content(json_t *message, size_t index, api_error *err)
{
    const json_t *content = json_object_get(message, "content");
    char          name[80];
    if (!json_is_array(content)) return true; /* the library looks at the rest */
    (void)json_incref((json_t *)(uintptr_t)content);
    json_t *parts = json_array();
    bool    ok    = parts != NULL || no_memory(err);
    for (size_t k = 0; k < json_array_size(content) && ok; k++) {
        (void)snprintf(name, sizeof name, "messages[%zu].content[%zu]", index, k);
        ok = read_part(message, json_array_get(content, k), parts, name, err);
    }
    if (ok && json_object_set(message, "content", parts) != 0) ok = no_memory(err);
    json_decref(parts);
    json_decref((json_t *)(uintptr_t)content);
    return ok;
}

/* A call of before `tool_calls`. */
static bool read_function_call_of(json_t *message, api_error *err)
{
    json_t *call = json_object_get(message, "function_call");
    if (!json_is_object(call) || json_array_size(json_object_get(message, "tool_calls")) > 0) return true;
    json_t *calls = json_pack("[{s:s, s:O}]", "type", "function", "function", call);
    return json_object_set_new(message, "tool_calls", calls) == 0 || no_memory(err);
}

static bool is_empty(const json_t *text)
{
    return json_is_string(text) && json_string_length(text) == 0;
}

/* The library looks at arguments; clients write none as "", too. */
static bool read_call(json_t *calls, const json_t *given, const char *name, api_error *err)
{
    const json_t *function = json_object_get(given, "function");
    if (!json_is_object(given))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(given));
    if (function == NULL) function = given;
    if (!json_is_string(json_object_get(function, "name")))
        return api_fail(err, API_INVALID, name, "%s.function: expected an object with a name", name);
    json_t *own = json_copy((json_t *)(uintptr_t)function);
    bool    ok  = own != NULL;
    if (ok && is_empty(json_object_get(own, "arguments"))) ok = json_object_del(own, "arguments") == 0;
    json_t *call = ok ? json_copy((json_t *)(uintptr_t)given) : NULL;
    ok           = call != NULL && json_object_set(call, "function", own) == 0 && json_array_append(calls, call) == 0;
    json_decref(own);
    json_decref(call);
    return ok || no_memory(err);
}

static bool read_calls(json_t *message, size_t index, api_error *err)
{
    const json_t *given = json_object_get(message, "tool_calls");
    char          name[80];
    if (!json_is_array(given)) return true; /* the library looks at the rest */
    json_t *calls = json_array();
    bool    ok    = calls != NULL || no_memory(err);
    for (size_t k = 0; k < json_array_size(given) && ok; k++) {
        (void)snprintf(name, sizeof name, "messages[%zu].tool_calls[%zu]", index, k);
        ok = read_call(calls, json_array_get(given, k), name, err);
    }
    if (ok && json_object_set(message, "tool_calls", calls) != 0) ok = no_memory(err);
    json_decref(calls);
    return ok;
}

static bool read_message(json_t *messages, const json_t *given, size_t index, api_error *err)
{
    char name[40];
    (void)snprintf(name, sizeof name, "messages[%zu]", index);
    if (!json_is_object(given))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(given));
    json_t *m = json_copy((json_t *)(uintptr_t)given); /* shallow */
    if (m == NULL || json_array_append_new(messages, m) != 0) return no_memory(err);
    if (is(json_object_get(m, "role"), "function") && json_object_set_new(m, "role", json_string("tool")) != 0)
        return no_memory(err);
    const json_t *reasoning = json_object_get(m, "reasoning");
    if (json_is_string(reasoning) && !json_is_string(json_object_get(m, "reasoning_content")) &&
        json_object_set(m, "reasoning_content", (json_t *)(uintptr_t)reasoning) != 0)
        return no_memory(err);
    return read_function_call_of(m, err) && read_calls(m, index, err) && read_content(m, index, err);
}

static bool read_messages(fields *f, chat_request_parts *out)
{
    const json_t *given = NULL;
    if (!field_array(f, "messages", CHAT_MAX_MESSAGES, &given) || json_array_size(given) == 0)
        return field_wrong(f, "messages", "expected an array with at least one message");
    if ((out->messages = json_array()) == NULL) return no_memory(f->err);
    for (size_t i = 0; i < json_array_size(given); i++)
        if (!read_message(out->messages, json_array_get(given, i), i, f->err)) return false;
    return true;
}

/* ---- tools ---- */

static bool read_tool(chat_request_parts *out, json_t *tool, size_t i, api_error *err)
{
    char          name[40];
    const json_t *type = json_object_get(tool, "type"), *function = json_object_get(tool, "function");
    (void)snprintf(name, sizeof name, "tools[%zu]", i);
    if (!json_is_object(tool))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(tool));
    if (type != NULL && !is(type, "function")) { /* a client's own kinds: the functions are served all the same */
        out->tools_left_out++;
        return true;
    }
    if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
        return api_fail(err, API_INVALID, name, "%s.function: expected an object with a name", name);
    return json_array_append(out->tools, tool) == 0 || no_memory(err);
}

static const json_t *find_tool(const json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        if (is(json_object_get(function, "name"), name)) return function;
    }
    return NULL;
}

static bool force_function(fields *f, const char *key, const json_t *name, chat_request_parts *out)
{
    if (!json_is_string(name)) return field_wrong(f, key, "expected a function's name, found %s", json_kind(name));
    if (find_tool(out->tools, json_string_value(name)) == NULL)
        return field_wrong(f, key, "expected one of the tools, found \"%.60s\"", json_string_value(name));
    out->force_call = true;
    out->force_name = mem_strdup(json_string_value(name));
    return out->force_name != NULL || no_memory(f->err);
}

/* "required": with one tool it is known which. */
static bool force_any(fields *f, const char *key, chat_request_parts *out)
{
    if (out->tools == NULL) return field_wrong(f, key, "expected tools beside it");
    out->force_call     = true;
    const json_t *first = json_array_get(out->tools, 0);
    if (json_array_size(out->tools) > 1) return true;
    return force_function(f, key, json_object_get(json_object_get(first, "function"), "name"), out);
}

static bool read_tool_choice(fields *f, chat_request_parts *out)
{
    const json_t *choice = field(f, "tool_choice");
    bool          many   = true;
    (void)field_bool(f, "parallel_tool_calls", &many);
    if (f->failed) return false;
    out->one_call = !many && out->tools != NULL;
    if (choice == NULL || is(choice, "auto")) return true;
    if (is(choice, "none")) return out->no_tool_calls = true;
    if (is(choice, "required") || is(choice, "any")) return force_any(f, "tool_choice", out);
    if (json_is_object(choice) && is(json_object_get(choice, "type"), "function")) {
        const json_t *function = json_object_get(choice, "function");
        const json_t *name     = json_object_get(function != NULL ? function : choice, "name");
        return force_function(f, "tool_choice", name, out);
    }
    return field_wrong(f, "tool_choice", "expected \"none\", \"auto\", \"required\" or a function");
}

/* The names of before tools: `functions` are tools without their wrapping, `function_call` is `tool_choice`. */
static bool read_functions(fields *f, chat_request_parts *out)
{
    const json_t *given = NULL;
    if (!field_array(f, "functions", CHAT_MAX_TOOLS, &given)) return !f->failed;
    if (field(f, "tools") != NULL && json_array_size(given) > 0)
        return field_wrong(f, "functions", "expected no tools beside them");
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *function = json_array_get(given, i);
        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
            return field_wrong(f, "functions", "expected objects with a name, found another at %zu", i);
        json_t *tool = json_pack("{s:s, s:O}", "type", "function", "function", function);
        if (tool == NULL || json_array_append_new(out->tools, tool) != 0) return no_memory(f->err);
    }
    return true;
}

static bool read_function_call(fields *f, chat_request_parts *out)
{
    const json_t *choice = field(f, "function_call");
    if (f->failed) return false;
    if (choice == NULL || is(choice, "auto")) return true;
    if (field(f, "tool_choice") != NULL) return field_wrong(f, "function_call", "expected no tool_choice beside it");
    if (is(choice, "none")) return out->no_tool_calls = true;
    return force_function(f, "function_call", json_object_get(choice, "name"), out);
}

static bool read_tools(fields *f, chat_request_parts *out)
{
    const json_t *given = NULL;
    (void)field_array(f, "tools", CHAT_MAX_TOOLS, &given);
    if (f->failed) return false;
    if ((out->tools = json_array()) == NULL) return no_memory(f->err);
    for (size_t i = 0; i < json_array_size(given); i++)
        if (!read_tool(out, json_array_get(given, i), i, f->err)) return false;
    if (!read_functions(f, out)) return false;
    if (json_array_size(out->tools) == 0) { /* [] is as good as none */
        json_decref(out->tools);
        out->tools = NULL;
    }
    return read_tool_choice(f, out) && read_function_call(f, out);
}

/* ---- template variables ---- */

static bool set(json_t *object, const char *key, json_t *value, api_error *err)
{
    return json_object_set_new(object, key, value) == 0 || no_memory(err);
}

/* An effort says whether to reason, and how much, to templates that know. */
static bool read_effort(fields *f, const char *key, json_t *kwargs)
{
    static const char *const on[] = {"minimal", "low", "medium", "high", "xhigh", "max", "adaptive"};
    const json_t            *v    = field(f, key);
    if (v == NULL) return true;
    if (is(v, "none") || is(v, "disabled")) return set(kwargs, "enable_thinking", json_false(), f->err);
    if (!is_one_of(v, on, sizeof on / sizeof *on))
        return field_wrong(f, key, "expected none, minimal, low, medium, high, xhigh or max, found %s",
                           json_is_string(v) ? json_string_value(v) : json_kind(v));
    const bool  most  = is(v, "max") || is(v, "xhigh");
    const char *level = most ? "high" : is(v, "minimal") ? "low" : is(v, "adaptive") ? "medium" : json_string_value(v);
    return set(kwargs, "enable_thinking", json_true(), f->err) &&
           set(kwargs, "reasoning_effort", json_string(level), f->err);
}

static bool read_thinking(fields *f, serve_thinking thinking, json_t *kwargs)
{
    const json_t *reasoning = NULL;
    bool          on;
    if (json_object_get(kwargs, "enable_thinking") == NULL && field_bool(f, "enable_thinking", &on) &&
        !set(kwargs, "enable_thinking", json_boolean(on), f->err))
        return false;
    if (field_object(f, "reasoning", &reasoning)) {
        fields of = {.object = reasoning, .where = "reasoning", .err = f->err, .failed = f->failed};
        if (field_bool(&of, "enabled", &on) && !set(kwargs, "enable_thinking", json_boolean(on), f->err)) return false;
        if (!read_effort(&of, "effort", kwargs)) return false;
        f->failed = of.failed;
    }
    if (f->failed || !read_effort(f, "reasoning_effort", kwargs)) return false;
    if (thinking == SERVE_THINK_TEMPLATE || json_object_get(kwargs, "enable_thinking") != NULL) return true;
    return set(kwargs, "enable_thinking", json_boolean(thinking == SERVE_THINK_ON), f->err);
}

/* Whether a last message of the assistant goes on, or the reply begins anew. */
static bool read_continue(fields *f, const json_t *messages, json_t *kwargs)
{
    bool          add = true, go_on = false;
    const bool    given = field_bool(f, "add_generation_prompt", &add);
    const json_t *last  = json_array_get(messages, json_array_size(messages) - 1);
    (void)field_bool(f, "continue_final_message", &go_on);
    if (f->failed) return false;
    if (given && add && go_on)
        return field_wrong(f, "continue_final_message", "expected no add_generation_prompt beside it");
    const bool assistant = is(json_object_get(last, "role"), "assistant");
    if (go_on && !assistant)
        return field_wrong(f, "continue_final_message", "expected a last message of the assistant");
    /* The library continues it where a generation prompt is asked for. */
    return set(kwargs, "add_generation_prompt", json_boolean(add || assistant), f->err);
}

static bool read_kwargs(fields *f, serve_thinking thinking, chat_request_parts *out)
{
    const json_t *given = NULL;
    bool          preserve;
    (void)field_object(f, "chat_template_kwargs", &given);
    if (f->failed) return false;
    out->kwargs = given != NULL ? json_copy((json_t *)(uintptr_t)given) : json_object();
    if (out->kwargs == NULL) return no_memory(f->err);
    if (field_bool(f, "preserve_thinking", &preserve) &&
        !set(out->kwargs, "preserve_thinking", json_boolean(preserve), f->err))
        return false;
    return read_thinking(f, thinking, out->kwargs) && read_continue(f, out->messages, out->kwargs);
}

bool chat_request_read(const json_t *body, serve_thinking thinking, chat_request_parts *out, api_error *err)
{
    fields f = {.object = body, .where = "", .err = err};
    *out     = (chat_request_parts){0};
    return read_messages(&f, out) && read_tools(&f, out) && read_kwargs(&f, thinking, out);
}

void chat_request_free(chat_request_parts *p)
{
    json_decref(p->messages);
    json_decref(p->tools);
    json_decref(p->kwargs);
    mem_free(p->force_name);
    *p = (chat_request_parts){0};
}
