/* serve/responses_request.c - see responses_request.h. */
#include "serve/responses_request.h"

#include "base/json.h"
#include "serve/fields.h"
#include "serve/json_out.h"
#include "serve/responses_items.h"

#include <math.h>
#include <stdlib.h>
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

/* ---- reading ---- */

static void refuse_unserved(fields *f)
{
    bool background = false;
    if (field(f, "conversation") != NULL)
        (void)field_wrong(f, "conversation", "not served: use previous_response_id, or send the items");
    if (field(f, "prompt") != NULL) (void)field_wrong(f, "prompt", "not served: use instructions and input");
    if (field_bool(f, "background", &background) && background)
        (void)field_wrong(f, "background", "expected false: responses are made while their client waits");
}

static void read_reasoning(fields *f, responses_request *out)
{
    const json_t *reasoning = NULL;
    if (!field_object(f, "reasoning", &reasoning)) return;
    const json_t *summary = json_object_get(reasoning, "summary");
    out->summary          = json_is_string(summary) && !is(summary, "none");
}

static void read_logprobs(fields *f, responses_request *out)
{
    const json_t *include = NULL;
    int64_t       top     = 0;
    (void)field_array(f, "include", 64, &include);
    for (size_t i = 0; i < json_array_size(include); i++)
        if (is(json_array_get(include, i), "message.output_text.logprobs")) out->logprobs = true;
    if (field_whole(f, "top_logprobs", 0, 20, &top) && top > 0) out->logprobs = true;
    out->top_logprobs = (uint32_t)top;
}

bool responses_request_read(const json_t *body, responses_request *out, api_error *err)
{
    fields        f        = {.object = body, .where = "", .err = err};
    bool          parallel = true;
    int64_t       most;
    const json_t *metadata;
    *out = (responses_request){.store = true};
    refuse_unserved(&f);
    (void)field_bool(&f, "store", &out->store);
    (void)field_bool(&f, "parallel_tool_calls", &parallel);
    (void)field_string(&f, "previous_response_id", &out->previous);
    (void)field_object(&f, "metadata", &metadata);
    out->limited = field_whole(&f, "max_output_tokens", 1, INT32_MAX, &most);
    read_reasoning(&f, out);
    read_logprobs(&f, out);
    out->one_call = !parallel;
    return !f.failed && responses_items_read(json_object_get(body, "input"), &out->items, err) &&
           responses_tools_read(json_object_get(body, "tools"), json_object_get(body, "tool_choice"), &out->tools, err);
}

void responses_request_free(responses_request *r)
{
    json_decref(r->items);
    json_decref(r->chat);
    responses_tools_free(&r->tools);
    *r = (responses_request){0};
}

/* ---- as Chat Completions has it ---- */

static bool set(json_t *object, const char *key, json_t *value, api_error *err)
{
    return json_object_set_new(object, key, value) == 0 || no_memory(err);
}

/* The fields that are called the same there and here, or not known here. */
static json_t *common_fields(const json_t *body)
{
    static const char *const others[] = {"input",
                                         "instructions",
                                         "tools",
                                         "tool_choice",
                                         "text",
                                         "reasoning",
                                         "include",
                                         "parallel_tool_calls",
                                         "messages",
                                         "n",
                                         "max_tokens",
                                         "max_completion_tokens",
                                         "functions",
                                         "function_call",
                                         "modalities",
                                         "audio",
                                         "best_of",
                                         "logprobs",
                                         "top_logprobs",
                                         "logprobs_all",
                                         "prompt",
                                         "reasoning_effort",
                                         "response_format",
                                         "continue_final_message",
                                         "stream_options",
                                         "add_generation_prompt"};
    json_t                  *chat     = json_copy((json_t *)(uintptr_t)body);
    for (size_t i = 0; chat != NULL && i < sizeof others / sizeof *others; i++) (void)json_object_del(chat, others[i]);
    return chat;
}

static bool fold_messages(responses_request *r, const json_t *body, const json_t *history, api_error *err)
{
    json_t       *messages     = json_array();
    const json_t *instructions = json_object_get(body, "instructions");
    if (messages == NULL || json_object_set_new(r->chat, "messages", messages) != 0) return no_memory(err);
    if (json_is_string(instructions)) {
        if (json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions)) != 0)
            return no_memory(err);
    } else if (instructions != NULL && !json_is_null(instructions)) {
        return api_fail(err, API_INVALID, "instructions", "instructions: expected a string, found %s",
                        json_kind(instructions));
    }
    if (!responses_items_to_messages(history, messages, &r->left_out, err) ||
        !responses_items_to_messages(r->items, messages, &r->left_out, err))
        return false;
    return json_array_size(messages) > 0 ||
           api_fail(err, API_INVALID, "input", "input: expected a string or at least one item");
}

/* A choice that names a tool of a kind that is left out forces nothing. */
static bool fold_tool_choice(const json_t *choice, json_t *chat, api_error *err)
{
    const json_t *type = json_object_get(choice, "type"), *name = json_object_get(choice, "name");
    if (choice == NULL || json_is_null(choice)) return true;
    if (json_is_string(choice)) return set(chat, "tool_choice", shared(choice), err);
    if (is(type, "allowed_tools")) {
        const json_t *mode = json_object_get(choice, "mode");
        return !is(mode, "required") || set(chat, "tool_choice", json_string("required"), err);
    }
    if (!is(type, "function") && !is(type, "custom")) return true;
    if (name == NULL) name = json_object_get(json_object_get(choice, "function"), "name");
    return set(chat, "tool_choice", json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name), err);
}

/* text.format and reasoning.effort, under the names that are known there. */
static bool fold_renamed(const json_t *body, json_t *chat, api_error *err)
{
    const json_t *effort = json_object_get(json_object_get(body, "reasoning"), "effort");
    const json_t *format = json_object_get(json_object_get(body, "text"), "format");
    const json_t *most   = json_object_get(body, "max_output_tokens");
    if (effort != NULL && !set(chat, "reasoning", json_pack("{s:O}", "effort", effort), err)) return false;
    if (json_is_number(most) && !set(chat, "max_tokens", shared(most), err)) return false;
    if (is(json_object_get(format, "type"), "json_schema"))
        return set(chat, "response_format", json_pack("{s:s, s:O}", "type", "json_schema", "json_schema", format), err);
    return format == NULL || set(chat, "response_format", shared(format), err);
}

bool responses_request_fold(responses_request *r, const json_t *body, const json_t *history, api_error *err)
{
    if ((r->chat = common_fields(body)) == NULL) return no_memory(err);
    if (!fold_messages(r, body, history, err) || !fold_renamed(body, r->chat, err)) return false;
    if (json_array_size(r->tools.functions) == 0) return true;
    return set(r->chat, "tools", shared(r->tools.functions), err) &&
           fold_tool_choice(json_object_get(body, "tool_choice"), r->chat, err);
}

/* ---- what a response repeats ---- */

static void put_value(str *out, const json_t *v, const char *otherwise)
{
    char *text = v != NULL && !json_is_null(v) ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    str_puts(out, text != NULL ? text : otherwise);
    free(text);
}

static void echo(str *out, const char *key, const json_t *body, const char *otherwise)
{
    str_printf(out, "%s\"%s\":", out->len > 0 ? "," : "", key);
    put_value(out, json_object_get(body, key), otherwise);
}

static void put_text(const json_t *body, str *out)
{
    const json_t *text = json_object_get(body, "text"), *verbosity = json_object_get(text, "verbosity");
    str_puts(out, ",\"text\":{\"format\":");
    put_value(out, json_object_get(text, "format"), "{\"type\":\"text\"}");
    if (json_is_string(verbosity)) {
        str_puts(out, ",\"verbosity\":");
        put_value(out, verbosity, "null");
    }
    str_putc(out, '}');
}

/* A checkpoint's 0.7 was a float once. */
static double plain(double v)
{
    return round(v * 1e6) / 1e6;
}

void responses_put_echo(const json_t *body, const responses_request *r, const char *model, const weir_sample_params *p,
                        str *before, str *behind)
{
    const json_t *reasoning = json_object_get(body, "reasoning");
    echo(before, "instructions", body, "null");
    echo(before, "max_output_tokens", body, "null");
    echo(before, "max_tool_calls", body, "null");
    echo(before, "metadata", body, "{}");
    str_puts(before, ",\"model\":");
    json_out_string(before, model, strlen(model));

    echo(behind, "parallel_tool_calls", body, "true");
    echo(behind, "previous_response_id", body, "null");
    echo(behind, "prompt_cache_key", body, "null");
    str_puts(behind, ",\"reasoning\":{\"effort\":");
    put_value(behind, json_object_get(reasoning, "effort"), "null");
    str_puts(behind, ",\"summary\":");
    put_value(behind, json_object_get(reasoning, "summary"), "null");
    str_printf(behind, "},\"service_tier\":\"default\",\"store\":%s,\"temperature\":", r->store ? "true" : "false");
    json_out_number(behind, plain(p->temperature));
    put_text(body, behind);
    echo(behind, "tool_choice", body, "\"auto\"");
    echo(behind, "tools", body, "[]");
    str_printf(behind, ",\"top_logprobs\":%u,\"top_p\":", r->top_logprobs);
    json_out_number(behind, plain(p->top_p));
    str_puts(behind, ",\"truncation\":\"disabled\"");
    echo(behind, "user", body, "null");
}
