/* text/chat.c - rendering a conversation; see chat.h. */
#include "text/chat_parts.h"

#include "base/json.h"

#include <string.h>

enum { MAX_KWARGS = 64 };

weir_status chat_run_template(const chat_run *run, const json_t *messages, template_text *out, weir_error *err)
{
    const chat_request *r    = run->request;
    json_t             *null = json_null(); /* a constant of jansson: nothing to release */
    template_var        vars[MAX_KWARGS + 4];
    size_t              n = 0;
    vars[n++]             = (template_var){.name = "messages", .value = messages};
    vars[n++]             = (template_var){.name = "tools", .value = r->tools == NULL ? null : r->tools};
    vars[n++]             = (template_var){.name = "documents", .value = null};
    json_t *kwargs        = (json_t *)(uintptr_t)r->kwargs; /* iterating takes it without const */
    for (void *it = json_object_iter(kwargs); it != NULL; it = json_object_iter_next(kwargs, it))
        vars[n++] = (template_var){.name = json_object_iter_key(it), .value = json_object_iter_value(it)};
    if (run->prompt != NULL) vars[n++] = (template_var){.name = "add_generation_prompt", .value = run->prompt};
    return template_render(run->t, vars, n, run->opt, out, err);
}

static weir_status check_request(const chat_request *r, weir_error *err)
{
    if (r->tools != NULL && !json_is_array(r->tools) && !json_is_null(r->tools))
        return status_fail(err, WEIR_INVALID, "tools: expected an array, found %s", json_kind(r->tools));
    for (size_t i = 0; i < json_array_size(r->tools); i++)
        if (!json_is_object(json_array_get(r->tools, i)))
            return status_fail(err, WEIR_INVALID, "tools[%zu]: expected an object, found %s", i,
                               json_kind(json_array_get(r->tools, i)));
    if (r->kwargs == NULL || json_is_null(r->kwargs)) return WEIR_OK;
    if (!json_is_object(r->kwargs))
        return status_fail(err, WEIR_INVALID, "chat_template_kwargs: expected an object, found %s",
                           json_kind(r->kwargs));
    if (json_object_size(r->kwargs) > MAX_KWARGS)
        return status_fail(err, WEIR_INVALID, "chat_template_kwargs: expected at most %d members, found %zu",
                           (int)MAX_KWARGS, json_object_size(r->kwargs));
    static const char *const taken[] = {"messages", "tools"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (json_object_get(r->kwargs, taken[i]) != NULL)
            return status_fail(err, WEIR_INVALID, "chat_template_kwargs.%s: expected outside of the kwargs", taken[i]);
    return WEIR_OK;
}

size_t chat_last_written(const template_text *t, const char *literal)
{
    const size_t n = strlen(literal);
    if (n > t->len) return SIZE_MAX;
    for (size_t i = t->len - n + 1; i-- > 0;) {
        if (t->text[i] != literal[0] || memcmp(t->text + i, literal, n) != 0) continue;
        if (memchr(t->untrusted + i, 1, n) == NULL) return i;
    }
    return SIZE_MAX;
}

/* Only what the template wrote counts: a "<think>" in a message opens nothing,
 * and the end of a turn closes whatever was open in it. */
static bool ends_in_thinking(const template_text *t)
{
    static const char *const closers[] = {"</think>", "<|im_end|>", "<|im_start|>"};
    const size_t             open      = chat_last_written(t, "<think>");
    if (open == SIZE_MAX) return false;
    for (size_t i = 0; i < sizeof closers / sizeof *closers; i++) {
        const size_t closed = chat_last_written(t, closers[i]);
        if (closed != SIZE_MAX && closed > open) return false;
    }
    return true;
}

static bool asks_to_continue(const chat_request *r, const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char   *role = json_string_value(json_object_get(last, "role"));
    return json_is_true(json_object_get(r->kwargs, "add_generation_prompt")) && role != NULL &&
           strcmp(role, "assistant") == 0 && json_array_size(json_object_get(last, "tool_calls")) == 0;
}

/* Cuts the end of the last turn, so that the model goes on in it. */
static weir_status cut_last_turn(template_text *t, weir_error *err)
{
    const size_t end = chat_last_written(t, "<|im_end|>");
    if (end == SIZE_MAX)
        return status_fail(err, WEIR_UNSUPPORTED,
                           "the last message is of the assistant, and this chat template does not "
                           "end a turn with <|im_end|>: it cannot be continued");
    t->len       = end;
    t->text[end] = '\0';
    return WEIR_OK;
}

static weir_status render_messages(chat_run *run, const json_t *messages, chat_prompt *out, weir_error *err)
{
    out->continues = asks_to_continue(run->request, messages);
    if (out->continues) run->prompt = json_false();
    weir_status st = chat_run_template(run, messages, &out->text, err);
    if (st == WEIR_INVALID) st = chat_repair(run, messages, st, &out->text, err);
    if (st == WEIR_OK && out->continues) st = cut_last_turn(&out->text, err);
    if (st == WEIR_OK) out->thinking_open = ends_in_thinking(&out->text);
    return st;
}

weir_status chat_render(const template *t, const chat_request *request, const template_options *opt, chat_prompt *out,
                        weir_error *err)
{
    *out = (chat_prompt){0};
    TRY(check_request(request, err));
    json_t *messages;
    TRY(chat_normalise(&messages, request->messages, err));
    chat_run          run = {.t = t, .request = request, .opt = opt};
    const weir_status st  = render_messages(&run, messages, out, err);
    json_decref(messages);
    if (st != WEIR_OK) chat_prompt_free(out);
    return st;
}

void chat_prompt_free(chat_prompt *p)
{
    template_text_free(&p->text);
    *p = (chat_prompt){0};
}
