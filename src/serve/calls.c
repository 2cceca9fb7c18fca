/* serve/calls.c - see calls.h. */
#include "serve/calls.h"

#include "base/mem.h"
#include "serve/body.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(api_error *err)
{
    return api_fail(err, API_INTERNAL, NULL, "out of memory");
}

static bool ban(uint32_t id, job_options *o, api_error *err)
{
    if (o->bias == NULL) o->bias = mem_alloc(1, sizeof *o->bias);
    if (o->bias == NULL) return no_memory(err);
    for (size_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id != id) continue;
        o->bias[i].bias = -100;
        return true;
    }
    o->bias[o->n_bias++] = (weir_logit_bias){id, -100};
    return true;
}

static bool append(const server *s, const char *text, bool tags, weir_ids *out, api_error *err)
{
    weir_error we;
    return weir_tokenize(s->o->model, text, strlen(text), tags, out, &we) == WEIR_OK || api_fail_status(err, &we);
}

/* A name is text, also where it spells a control token. */
static bool force(const server *s, const char *name, job_options *o, api_error *err)
{
    str head;
    if (s->tool_call == UINT32_MAX)
        return api_fail(err, API_INVALID, "tool_choice",
                        "tool_choice: this model has no token that begins a call, so none can be forced");
    if (!append(s, "<tool_call>", true, &o->prefix, err)) return false;
    if (name == NULL) return true;
    str_init(&head, BODY_MAX);
    str_printf(&head, "\n<function=%s>\n", name);
    const bool ok = head.failed ? no_memory(err) : append(s, head.data, false, &o->prefix, err);
    str_free(&head);
    return ok;
}

/* The parser's own look at the tools: one of each choice is made later, and cannot refuse them. */
static bool look_for_calls(const server *s, const json_t *tools, const char *id_prefix, job_options *o, api_error *err)
{
    weir_toolcall_parser *trial;
    weir_error            we;
    char                 *text = json_dumps(tools, JSON_COMPACT);
    o->parser                  = (weir_toolcall_options)WEIR_TOOLCALL_OPTIONS_INIT;
    o->parser.id_prefix        = id_prefix;
    weir_toolcall_tags(s->o->model, &o->parser);
    o->tools = text != NULL ? mem_strdup(text) : NULL;
    free(text);
    if (o->tools == NULL) return no_memory(err);
    weir_toolcall_options p = o->parser;
    p.tools_json            = o->tools;
    if (weir_toolcall_new(&trial, &p, NULL, NULL, &we) != WEIR_OK) return api_fail_status(err, &we);
    weir_toolcall_free(trial);
    return true;
}

bool calls_read(const server *s, const chat_request_parts *parts, const char *id_prefix, job_options *o, api_error *err)
{
    if (parts->no_tool_calls) return s->tool_call == UINT32_MAX || ban(s->tool_call, o, err);
    if (parts->tools == NULL) return true;
    if (o->grammar != NULL)
        return api_fail(
            err, API_INVALID, "tools",
            "tools: expected none, or tool_choice \"none\", beside a form of the reply: within it there are "
            "no calls");
    o->one_call = parts->one_call;
    return look_for_calls(s, parts->tools, id_prefix, o, err) &&
           (!parts->force_call || force(s, parts->force_name, o, err));
}
