/* serve/anthropic_request.c - a body of Messages to one of Chat Completions.
 *
 * Blocks become what chats have: text is joined, thinking is the message's reasoning, tool_use its
 * calls, and each tool_result a message of its own, before the text beside it. */
#include "base/json.h"
#include "base/mem.h"
#include "serve/anthropic.h"
#include "serve/chat_request.h"
#include "serve/fields.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 28, NAME_SIZE = 96 };

static bool no_memory(api_error *err)
{
    return api_fail(err, API_INTERNAL, NULL, "out of memory");
}

static bool is(const json_t *v, const char *word)
{
    return json_is_string(v) && strcmp(json_string_value(v), word) == 0;
}

static bool ends_in(const json_t *v, const char *end)
{
    const size_t n = json_string_length(v), m = strlen(end);
    return n >= m && strcmp(json_string_value(v) + n - m, end) == 0;
}

/* jansson shares values without const. */
static json_t *share(const json_t *v)
{
    return json_incref((json_t *)(uintptr_t)v);
}

static bool set(json_t *object, const char *key, json_t *value, api_error *err)
{
    return json_object_set_new(object, key, value) == 0 || no_memory(err);
}

static bool set_text(json_t *object, const char *key, const str *text, api_error *err)
{
    return !text->failed ? set(object, key, json_stringn(text->data, text->len), err) : no_memory(err);
}

static bool wrong_kind(const char *name, const char *expected, const json_t *found, api_error *err)
{
    return api_fail(err, API_INVALID, name, "%s: expected %s, found %s", name, expected, json_kind(found));
}

/* ---- the text of blocks ---- */

static bool put_content(const json_t *content, str *out, const char *name, bool *marked, api_error *err);

/* What a document says, where it is text. */
static bool put_document(const json_t *block, str *out, const char *name, bool *marked, api_error *err)
{
    const json_t *source = json_object_get(block, "source"), *type = json_object_get(source, "type");
    if (is(type, "content")) return put_content(json_object_get(source, "content"), out, name, marked, err);
    const json_t *data = json_object_get(source, "data");
    if (!is(type, "text") || !json_is_string(data))
        return api_fail(err, API_INVALID, name, "%s.source: this model reads text only: expected type text or content",
                        name);
    str_put(out, json_string_value(data), json_string_length(data));
    return true;
}

/* Appends a block's text, whatever it stands in. */
static bool put_block(const json_t *block, str *out, const char *name, bool *marked, api_error *err)
{
    const json_t *type = json_object_get(block, "type"), *text = json_object_get(block, "text");
    if (!json_is_object(block)) return wrong_kind(name, "an object", block, err);
    if (json_is_object(json_object_get(block, "cache_control"))) *marked = true;
    if (is(type, "text")) {
        if (!json_is_string(text))
            return api_fail(err, API_INVALID, name, "%s.text: expected a string, found %s", name, json_kind(text));
        str_put(out, json_string_value(text), json_string_length(text));
        return true;
    }
    if (is(type, "image")) return api_fail(err, API_INVALID, name, "%s: image: this model reads text only", name);
    if (is(type, "document")) return put_document(block, out, name, marked, err);
    if (is(type, "search_result")) return put_content(json_object_get(block, "content"), out, name, marked, err);
    return api_fail(err, API_INVALID, name, "%s.type: expected a kind of block, found %.60s", name,
                    json_is_string(type) ? json_string_value(type) : json_kind(type));
}

/* A string, blocks, or nothing. */
static bool put_content(const json_t *content, str *out, const char *name, bool *marked, api_error *err)
{
    char at[NAME_SIZE];
    if (content == NULL || json_is_null(content)) return true;
    if (json_is_string(content)) {
        str_put(out, json_string_value(content), json_string_length(content));
        return true;
    }
    if (!json_is_array(content)) return wrong_kind(name, "a string or blocks", content, err);
    for (size_t k = 0; k < json_array_size(content); k++) {
        (void)snprintf(at, sizeof at, "%.60s.content[%zu]", name, k);
        if (!put_block(json_array_get(content, k), out, at, marked, err)) return false;
    }
    return true;
}

/* The text blocks of what a server's tool gave; the rest of it is of that server. */
static void put_texts(const json_t *content, str *out)
{
    for (size_t k = 0; k < json_array_size(content); k++) {
        const json_t *block = json_array_get(content, k), *text = json_object_get(block, "text");
        if (is(json_object_get(block, "type"), "text") && json_is_string(text))
            str_put(out, json_string_value(text), json_string_length(text));
    }
}

/* ---- messages ---- */

typedef struct converter {
    json_t    *messages; /* so far */
    json_t    *ids;      /* of tool_use blocks so far, as keys */
    bool       marked;
    api_error *err;
} converter;

/* A message being read. */
typedef struct turn {
    const char *role;
    str         text, thinking;
    json_t     *calls;
    size_t      results; /* that have become messages */
} turn;

static bool add_message(converter *c, json_t *message)
{
    return (message != NULL && json_array_append_new(c->messages, message) == 0) || no_memory(c->err);
}

static bool read_tool_use(converter *c, turn *t, const json_t *block, const char *name)
{
    const json_t *id = json_object_get(block, "id"), *function = json_object_get(block, "name");
    const json_t *input = json_object_get(block, "input");
    if (!json_is_string(id) || !json_is_string(function))
        return api_fail(c->err, API_INVALID, name, "%s: tool_use: expected an id and a name", name);
    if (!json_is_object(input))
        return api_fail(c->err, API_INVALID, name, "%s.input: expected an object, found %s", name, json_kind(input));
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function", "function", "name", function,
                             "arguments", input);
    if (call == NULL || json_array_append_new(t->calls, call) != 0) return no_memory(c->err);
    return set(c->ids, json_string_value(id), json_true(), c->err);
}

static bool read_tool_result(converter *c, turn *t, const json_t *block, const char *name)
{
    const json_t *id = json_object_get(block, "tool_use_id");
    str           text;
    if (!json_is_string(id))
        return api_fail(c->err, API_INVALID, name, "%s.tool_use_id: expected a string, found %s", name, json_kind(id));
    if (json_object_get(c->ids, json_string_value(id)) == NULL)
        return api_fail(c->err, API_INVALID, name,
                        "%s.tool_use_id: expected the id of a tool_use before it, found %.80s", name,
                        json_string_value(id));
    str_init(&text, TEXT_MAX);
    bool ok = put_content(json_object_get(block, "content"), &text, name, &c->marked, c->err);
    if (ok) {
        json_t *m = json_pack("{s:s, s:O}", "role", "tool", "tool_call_id", id);
        ok        = add_message(c, m) && set_text(m, "content", &text, c->err);
    }
    str_free(&text);
    t->results++;
    return ok;
}

static bool read_thinking_block(converter *c, turn *t, const json_t *block, const char *name)
{
    const json_t *text = json_object_get(block, "thinking");
    if (!json_is_string(text))
        return api_fail(c->err, API_INVALID, name, "%s.thinking: expected a string, found %s", name, json_kind(text));
    if (t->thinking.len > 0 && json_string_length(text) > 0) str_puts(&t->thinking, "\n");
    str_put(&t->thinking, json_string_value(text), json_string_length(text));
    return true;
}

static bool read_block(converter *c, turn *t, const json_t *block, const char *name)
{
    const json_t *type      = json_object_get(block, "type");
    const bool    assistant = strcmp(t->role, "assistant") == 0, user = strcmp(t->role, "user") == 0;
    if (json_is_object(json_object_get(block, "cache_control"))) c->marked = true;
    if (is(type, "tool_use") && assistant) return read_tool_use(c, t, block, name);
    if (is(type, "tool_result") && user) return read_tool_result(c, t, block, name);
    if (is(type, "tool_use") || is(type, "tool_result"))
        return api_fail(c->err, API_INVALID, name, "%s: %s: not in a message of the %s", name, json_string_value(type),
                        t->role);
    if (is(type, "thinking")) return read_thinking_block(c, t, block, name);
    if (is(type, "redacted_thinking") || ends_in(type, "_tool_use")) return true;
    if (ends_in(type, "_tool_result")) {
        put_texts(json_object_get(block, "content"), &t->text);
        return true;
    }
    return put_block(block, &t->text, name, &c->marked, c->err);
}

static bool end_turn(converter *c, turn *t)
{
    if (t->results > 0 && t->text.len == 0) return true;
    json_t *m = json_pack("{s:s}", "role", t->role);
    if (!add_message(c, m) || !set_text(m, "content", &t->text, c->err)) return false;
    if (t->thinking.len > 0 && !set_text(m, "reasoning_content", &t->thinking, c->err)) return false;
    return json_array_size(t->calls) == 0 || set(m, "tool_calls", share(t->calls), c->err);
}

static bool read_turn(converter *c, turn *t, const json_t *content, size_t index)
{
    char name[NAME_SIZE];
    if (json_is_string(content)) {
        str_put(&t->text, json_string_value(content), json_string_length(content));
        return end_turn(c, t);
    }
    (void)snprintf(name, sizeof name, "messages[%zu].content", index);
    if (!json_is_array(content)) return wrong_kind(name, "a string or blocks", content, c->err);
    for (size_t k = 0; k < json_array_size(content); k++) {
        (void)snprintf(name, sizeof name, "messages[%zu].content[%zu]", index, k);
        if (!read_block(c, t, json_array_get(content, k), name)) return false;
    }
    return end_turn(c, t);
}

static bool read_message(converter *c, const json_t *message, size_t index)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const json_t            *role    = json_object_get(message, "role");
    turn                     t       = {0};
    char                     name[NAME_SIZE];
    (void)snprintf(name, sizeof name, "messages[%zu]", index);
    if (!json_is_object(message)) return wrong_kind(name, "an object", message, c->err);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (is(role, roles[i])) t.role = roles[i];
    if (t.role == NULL)
        return api_fail(c->err, API_INVALID, name, "%s.role: expected user, assistant or system, found %.60s", name,
                        json_is_string(role) ? json_string_value(role) : json_kind(role));
    str_init(&t.text, TEXT_MAX);
    str_init(&t.thinking, TEXT_MAX);
    t.calls       = json_array();
    const bool ok = t.calls != NULL ? read_turn(c, &t, json_object_get(message, "content"), index) : no_memory(c->err);
    str_free(&t.text);
    str_free(&t.thinking);
    json_decref(t.calls);
    return ok;
}

/* ---- the system's text ---- */

/* Changes with every request, at the very beginning of a prompt: nothing behind it would be found
 * in the cache. */
static const char billing[] = "x-anthropic-billing-header:";

static bool add_system(converter *c, const char *text, size_t n)
{
    return n == 0 || add_message(c, json_pack("{s:s, s:s%}", "role", "system", "content", text, n));
}

static bool read_system(converter *c, const json_t *system)
{
    char name[NAME_SIZE];
    if (system == NULL || json_is_null(system)) return true;
    if (json_is_string(system)) {
        const char *text = json_string_value(system), *end = NULL;
        if (strncmp(text, billing, strlen(billing)) == 0) {
            end  = strchr(text, '\n');
            text = end != NULL ? end + 1 : "";
        }
        return add_system(c, text, strlen(text));
    }
    if (!json_is_array(system)) return wrong_kind("system", "a string or blocks", system, c->err);
    for (size_t k = 0; k < json_array_size(system); k++) {
        str text;
        str_init(&text, TEXT_MAX);
        (void)snprintf(name, sizeof name, "system[%zu]", k);
        bool ok = put_block(json_array_get(system, k), &text, name, &c->marked, c->err);
        if (ok && text.failed) ok = no_memory(c->err);
        if (ok && strncmp(text.data, billing, strlen(billing)) != 0) ok = add_system(c, text.data, text.len);
        str_free(&text);
        if (!ok) return false;
    }
    return true;
}

static bool read_messages(fields *f, json_t *chat, anthropic_form *form)
{
    converter     c     = {.messages = json_array(), .ids = json_object(), .err = f->err};
    const json_t *given = NULL;
    bool          ok    = c.messages != NULL && c.ids != NULL;
    if (!ok)
        (void)no_memory(f->err);
    else if (!field_array(f, "messages", CHAT_MAX_MESSAGES, &given) || json_array_size(given) == 0)
        ok = field_wrong(f, "messages", "expected an array with at least one message");
    if (ok) ok = read_system(&c, json_object_get(f->object, "system"));
    for (size_t i = 0; ok && i < json_array_size(given); i++) ok = read_message(&c, json_array_get(given, i), i);
    if (ok) ok = set(chat, "messages", share(c.messages), f->err);
    if (c.marked) form->marked = true;
    json_decref(c.messages);
    json_decref(c.ids);
    return ok;
}

/* ---- thinking ---- */

static bool read_effort(fields *f, const char **effort)
{
    static const char *const known[] = {"low", "medium", "high", "xhigh", "max"};
    const json_t            *config  = NULL;
    if (!field_object(f, "output_config", &config)) return !f->failed;
    fields of = {.object = config, .where = "output_config", .err = f->err};
    if (!field_string(&of, "effort", effort)) return !of.failed;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(*effort, known[i]) == 0) return true;
    return field_wrong(&of, "effort", "expected low, medium, high, xhigh or max, found %.60s", *effort);
}

/* `reasoning` of a chat says it above all else.  Without a word of the client's there is none. */
static bool read_thinking(fields *f, json_t *chat, anthropic_form *form)
{
    const json_t *thinking = NULL;
    const char   *type = "", *display = "", *effort = NULL;
    int64_t       budget = 0;
    if (!read_effort(f, &effort)) return false;
    if (!field_object(f, "thinking", &thinking)) return !f->failed;
    fields of = {.object = thinking, .where = "thinking", .err = f->err};
    (void)field_string(&of, "type", &type);
    (void)field_string(&of, "display", &display);
    form->limit_thinking  = field_whole(&of, "budget_tokens", 0, INT32_MAX, &budget);
    form->thinking_budget = (uint32_t)budget;
    form->omit_thinking   = strcmp(display, "omitted") == 0;
    const bool on         = strcmp(type, "enabled") == 0 || strcmp(type, "adaptive") == 0;
    if (!on && strcmp(type, "disabled") != 0)
        (void)field_wrong(&of, "type", "expected enabled, adaptive or disabled, found \"%.60s\"", type);
    if (of.failed) return false;
    if (!on) form->limit_thinking = false;
    json_t *reasoning = json_pack("{s:b}", "enabled", on);
    if (reasoning == NULL) return no_memory(f->err);
    if (!set(chat, "reasoning", reasoning, f->err)) return false;
    return !on || effort == NULL || set(reasoning, "effort", json_string(effort), f->err);
}

/* ---- the rest ---- */

static bool read_stops(fields *f, json_t *chat)
{
    const json_t *stops = NULL;
    if (!field_array(f, "stop_sequences", JOB_MAX_STOPS, &stops)) return !f->failed;
    for (size_t i = 0; i < json_array_size(stops); i++)
        if (!json_is_string(json_array_get(stops, i)))
            return field_wrong(f, "stop_sequences", "expected strings, found %s", json_kind(json_array_get(stops, i)));
    return set(chat, "stop", share(stops), f->err);
}

/* A schema that the answer has to have. */
static bool read_format(fields *f, json_t *chat)
{
    const json_t *config = NULL, *format = NULL;
    (void)field_object(f, "output_config", &config);
    fields of = {.object = config, .where = "output_config", .err = f->err, .failed = f->failed};
    if (config == NULL || !field_object(&of, "format", &format)) (void)field_object(f, "output_format", &format);
    if (f->failed || of.failed) return false;
    return format == NULL || set(chat, "response_format", share(format), f->err);
}

/* Fields that mean the same in a chat, and further ones of chats that are of use here. */
static bool copy_fields(const json_t *body, json_t *chat, api_error *err)
{
    static const char *const same[] = {"model",
                                       "max_tokens",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "seed",
                                       "min_p",
                                       "logit_bias",
                                       "adapter",
                                       "priority",
                                       "cache_prompt",
                                       "ignore_eos",
                                       "min_tokens",
                                       "presence_penalty",
                                       "frequency_penalty",
                                       "repetition_penalty",
                                       "preserve_thinking",
                                       "chat_template_kwargs"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const json_t *v = json_object_get(body, same[i]);
        if (v != NULL && !set(chat, same[i], share(v), err)) return false;
    }
    return true;
}

bool anthropic_chat(const json_t *body, json_t **chat, anthropic_form *form, api_error *err)
{
    fields        f     = {.object = body, .where = "", .err = err};
    const json_t *tools = NULL, *choice = NULL;
    json_t       *own = NULL;
    *form             = (anthropic_form){.marked = json_is_object(json_object_get(body, "cache_control"))};
    *chat             = json_object();
    if (*chat == NULL) return no_memory(err);
    (void)field_bool(&f, "stream", &form->stream);
    (void)field_array(&f, "tools", CHAT_MAX_TOOLS, &tools);
    (void)field_object(&f, "tool_choice", &choice);
    if (f.failed || !copy_fields(body, *chat, err) || !read_messages(&f, *chat, form)) return false;
    bool ok = tools == NULL || anthropic_tools(tools, &own, &form->marked, err);
    if (ok && own != NULL) ok = set(*chat, "tools", share(own), err);
    json_decref(own);
    return ok && (choice == NULL || anthropic_tool_choice(choice, *chat, err)) && read_thinking(&f, *chat, form) &&
           read_stops(&f, *chat) && read_format(&f, *chat);
}
