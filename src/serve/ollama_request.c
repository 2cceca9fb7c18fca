/* serve/ollama_request.c - bodies of /api/chat and /api/generate; see ollama.h. */
#include "base/json.h"
#include "serve/body.h"
#include "serve/fields.h"
#include "serve/ollama.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool no_memory(api_error *err)
{
    return api_fail(err, API_INTERNAL, NULL, "out of memory");
}

/* Takes value. */
static bool put(json_t *object, const char *key, json_t *value, api_error *err)
{
    return json_object_set_new(object, key, value) == 0 || no_memory(err);
}

static json_t *shared(const json_t *v)
{
    return json_incref((json_t *)(uintptr_t)v);
}

/* ---- options ---- */

/* Only here is "0.5" a number, too. */
static json_t *number(const json_t *v)
{
    char *end;
    if (!json_is_string(v) || json_string_length(v) == 0) return shared(v);
    const char     *text  = json_string_value(v);
    const long long whole = strtoll(text, &end, 10);
    if (*end == '\0') return json_integer(whole);
    const double real = strtod(text, &end);
    return *end == '\0' && isfinite(real) ? json_real(real) : shared(v);
}

/* The options with their numbers as numbers.  NULL without memory. */
static json_t *read_numbers(const json_t *options)
{
    json_t *out  = json_object();
    json_t *each = (json_t *)(uintptr_t)options; /* iterating takes it without const */
    for (void *it = json_object_iter(each); it != NULL && out != NULL; it = json_object_iter_next(each, it)) {
        const char   *key   = json_object_iter_key(it);
        const json_t *value = json_object_iter_value(it);
        if (json_object_set_new(out, key, strcmp(key, "stop") == 0 ? shared(value) : number(value)) == 0) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

/* Penalties look at the last 64 tokens, the prompt's included, where nothing else is said; -1:
 * at all, 0: at none. */
static bool read_penalties(fields *f, double usual, json_t *body)
{
    static const char *const names[] = {"repeat_penalty", "presence_penalty", "frequency_penalty", "repeat_last_n"};
    int64_t                  last    = 64;
    bool                     given   = false;
    for (size_t i = 0; i < 4; i++) given |= field(f, names[i]) != NULL;
    (void)field_whole(f, "repeat_last_n", -1, 1 << 30, &last);
    if (f->failed) return false;
    if (!given) return true;
    if (last == 0)
        return put(body, "repetition_penalty", json_real(1), f->err) &&
               put(body, "presence_penalty", json_real(0), f->err) &&
               put(body, "frequency_penalty", json_real(0), f->err);
    for (size_t i = 0; i < 3; i++)
        if (field(f, names[i]) != NULL && !put(body, names[i], shared(field(f, names[i])), f->err)) return false;
    if (field(f, names[0]) == NULL && !put(body, names[0], json_real(usual), f->err)) return false;
    return put(body, "repeat_last_n", json_integer(last < 0 ? 0 : last), f->err);
}

static bool read_each(fields *f, const server *s, ollama_request *q)
{
    static const char *const same[] = {"temperature", "top_k", "top_p", "min_p", "seed", "stop"};
    int64_t                  n;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (field(f, same[i]) != NULL && !put(q->body, same[i], shared(field(f, same[i])), f->err)) return false;
    if (field_whole(f, "num_predict", -2, INT32_MAX, &n) && n > 0 && /* others: as many as there is room for */
        !put(q->body, "max_tokens", json_integer(n), f->err))
        return false;
    if (field_whole(f, "num_ctx", 0, INT32_MAX, &n)) q->num_ctx = (uint32_t)n;
    return !f->failed && read_penalties(f, s->o->sample.repetition_penalty, q->body);
}

static bool read_options(fields *top, const server *s, ollama_request *q)
{
    const json_t *given = NULL;
    if (!field_object(top, "options", &given)) return !top->failed;
    json_t    *numbers = read_numbers(given);
    fields     f       = {.object = numbers, .where = "options", .err = top->err};
    const bool ok      = numbers != NULL ? read_each(&f, s, q) : no_memory(top->err);
    json_decref(numbers);
    return ok;
}

/* ---- what both have ---- */

static bool read_think(fields *f, json_t *body)
{
    const json_t *v = field(f, "think");
    if (v == NULL) return !f->failed;
    if (json_is_boolean(v)) return put(body, "enable_thinking", shared(v), f->err);
    static const char *const levels[] = {"low", "medium", "high", "max"};
    for (size_t i = 0; i < 4 && json_is_string(v); i++)
        if (strcmp(json_string_value(v), levels[i]) == 0) return put(body, "reasoning_effort", shared(v), f->err);
    return field_wrong(f, "think", "expected true, false, \"low\", \"medium\", \"high\" or \"max\", found %s",
                       json_is_string(v) ? "another string" : json_kind(v));
}

/* How long the model is to stay, which it does in any case; 0 asks it to go. */
static bool read_keep_alive(fields *f, bool *zero)
{
    const json_t *v = field(f, "keep_alive");
    *zero           = false;
    if (v == NULL) return !f->failed;
    if (json_is_number(v)) {
        *zero = !(json_number_value(v) > 0) && !(json_number_value(v) < 0);
        return true;
    }
    if (!json_is_string(v))
        return field_wrong(f, "keep_alive", "expected seconds or a duration, found %s", json_kind(v));
    char        *end;
    const double n = strtod(json_string_value(v), &end);
    if (end == json_string_value(v))
        return field_wrong(f, "keep_alive", "expected a duration like \"5m\", found \"%.40s\"", json_string_value(v));
    *zero = !(n > 0) && !(n < 0);
    return true;
}

static bool read_logprobs(fields *f, ollama_request *q)
{
    int64_t top = 0;
    (void)field_bool(f, "logprobs", &q->logprobs);
    if (field_whole(f, "top_logprobs", 0, 20, &top) && top > 0 && !q->logprobs)
        (void)field_wrong(f, "top_logprobs", "expected logprobs: true beside it");
    q->top_logprobs = (uint32_t)top;
    return !f->failed;
}

/* weir's own fields, which mean here what they mean elsewhere. */
static bool read_own(fields *f, json_t *body)
{
    static const char *const names[] = {"adapter", "cache_prompt", "priority"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (field(f, names[i]) != NULL && !put(body, names[i], shared(field(f, names[i])), f->err)) return false;
    return true;
}

/* ---- /api/chat ---- */

static bool read_message(const json_t *given, size_t i, json_t *messages, api_error *err)
{
    char name[64];
    (void)snprintf(name, sizeof name, "messages[%zu]", i);
    if (!json_is_object(given))
        return api_fail(err, API_INVALID, name, "%s: expected an object, found %s", name, json_kind(given));
    if (json_array_size(json_object_get(given, "images")) > 0) {
        (void)snprintf(name, sizeof name, "messages[%zu].images", i);
        return api_fail(err, API_INVALID, name, "%s: this model reads text only", name);
    }
    json_t *m = json_copy((json_t *)(uintptr_t)given); /* shallow */
    if (m == NULL || json_array_append_new(messages, m) != 0) return no_memory(err);
    const json_t *content = json_object_get(m, "content"), *thinking = json_object_get(m, "thinking");
    const json_t *tool = json_object_get(m, "tool_name");
    if ((content == NULL || json_is_null(content)) && !put(m, "content", json_string(""), err)) return false;
    if (json_is_string(thinking) && json_string_length(thinking) > 0 &&
        !put(m, "reasoning_content", shared(thinking), err))
        return false;
    return !json_is_string(tool) || json_object_get(m, "name") != NULL || put(m, "name", shared(tool), err);
}

static bool read_chat(fields *f, ollama_request *q)
{
    const json_t *given = NULL, *tools = field(f, "tools");
    (void)field_array(f, "messages", CHAT_MAX_MESSAGES, &given);
    if (f->failed) return false;
    json_t *messages = json_array();
    if (!put(q->body, "messages", messages, f->err)) return false;
    for (size_t i = 0; i < json_array_size(given); i++)
        if (!read_message(json_array_get(given, i), i, messages, f->err)) return false;
    q->load = json_array_size(messages) == 0;
    return tools == NULL || put(q->body, "tools", shared(tools), f->err);
}

/* ---- /api/generate ---- */

/* A prompt for the template is a chat of one turn. */
static bool put_turn(json_t *body, const char *system, const char *prompt, api_error *err)
{
    json_t *messages = json_array();
    if (!put(body, "messages", messages, err)) return false;
    if (system[0] != '\0' &&
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", system)) != 0)
        return no_memory(err);
    return json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", prompt)) == 0 ||
           no_memory(err);
}

static bool read_generate(fields *f, ollama_request *q)
{
    const char   *system = "", *suffix = "";
    const json_t *images = NULL;
    q->prompt            = "";
    (void)field_string(f, "prompt", &q->prompt);
    (void)field_string(f, "system", &system);
    (void)field_string(f, "suffix", &suffix);
    (void)field_bool(f, "raw", &q->raw);
    (void)field_array(f, "images", BODY_VALUES, &images);
    (void)field_array(f, "context", BODY_VALUES, &q->context);
    if (f->failed) return false;
    if (json_array_size(images) > 0) return field_wrong(f, "images", "this model reads text only");
    if (suffix[0] != '\0') return field_wrong(f, "suffix", "filling in the middle is not served");
    if (q->raw && json_array_size(q->context) > 0)
        return field_wrong(f, "context", "expected none beside raw, which takes the prompt as it is");
    q->load = q->prompt[0] == '\0';
    return q->raw || put_turn(q->body, system, q->prompt, f->err);
}

bool ollama_request_read(const server *s, const json_t *given, ollama_kind kind, ollama_request *q, api_error *err)
{
    fields      f      = {.object = given, .where = "", .err = err};
    const char *served = NULL;
    bool        zero;
    *q = (ollama_request){.stream = true, .truncate = true};
    if (!ollama_find_model(s, given, &q->model, &served, err)) return false;
    if ((q->body = json_object()) == NULL) return no_memory(err);
    (void)field_bool(&f, "stream", &q->stream);
    (void)field_bool(&f, "truncate", &q->truncate);
    const bool ok = put(q->body, "model", json_string(served), err) && read_keep_alive(&f, &zero) &&
                    form_read_value(FORM_BARE, field(&f, "format"), "format", &q->form, err) &&
                    read_think(&f, q->body) && read_logprobs(&f, q) && read_own(&f, q->body) &&
                    read_options(&f, s, q) && (kind == OLLAMA_CHAT ? read_chat(&f, q) : read_generate(&f, q));
    q->unload = ok && q->load && zero;
    return ok;
}

void ollama_request_free(ollama_request *q)
{
    json_decref(q->body);
    *q = (ollama_request){0};
}

/* ---- chats that are too long ---- */

static bool has_role(const json_t *message, const char *role)
{
    const char *own = json_string_value(json_object_get(message, "role"));
    return own != NULL && strcmp(own, role) == 0;
}

/* Whether a turn begins at message i. */
static bool begins_turn(const json_t *messages, size_t i)
{
    const json_t *m = json_array_get(messages, i);
    if (has_role(m, "system")) return false;
    if (has_role(m, "user")) return true;
    for (size_t k = 0; k < i; k++)
        if (!has_role(json_array_get(messages, k), "system")) return false;
    return true;
}

size_t ollama_count_turns(const json_t *messages)
{
    size_t turns = 0;
    for (size_t i = 0; i < json_array_size(messages); i++) turns += begins_turn(messages, i);
    return turns > 0 ? turns - 1 : 0;
}

json_t *ollama_drop_turns(const json_t *messages, size_t n)
{
    json_t *out   = json_array();
    size_t  turns = 0;
    for (size_t i = 0; i < json_array_size(messages) && out != NULL; i++) {
        json_t *m = json_array_get(messages, i);
        turns += begins_turn(messages, i);
        if (turns <= n && !has_role(m, "system")) continue;
        if (json_array_append(out, m) == 0) continue;
        json_decref(out);
        return NULL;
    }
    return out;
}
