/* serve/calls.c - see calls.h. */
#include "serve/calls.h"

#include "base/mem.h"

static bool ban(uint32_t id, job_options *o, api_error *err)
{
    if (o->bias == NULL) o->bias = mem_alloc(1, sizeof *o->bias);
    if (o->bias == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id != id) continue;
        o->bias[i].bias = -100;
        return true;
    }
    o->bias[o->n_bias++] = (weir_logit_bias){id, -100};
    return true;
}

bool calls_read(const server *s, const chat_request_parts *parts, const char *id_prefix, job_options *o, api_error *err)
{
    (void)id_prefix; /* calls are not looked for yet */
    return !parts->no_tool_calls || s->tool_call == UINT32_MAX || ban(s->tool_call, o, err);
}
