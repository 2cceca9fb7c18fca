/* tests/fuzz/fuzz_request.c - any bytes as the body of a request.
 *
 * What is accepted as a chat has messages, and draws within the library's own limits; so do the chats that
 * Messages and Responses requests become, of which the latter's repetition is JSON.  What is refused says why,
 * in a message that is JSON again. */
#include "base/mem.h"
#include "serve/anthropic.h"
#include "serve/body.h"
#include "serve/chat_request.h"
#include "serve/generation.h"
#include "serve/ollama.h"
#include "serve/responses_request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const api_error *e)
{
    str          out;
    json_error_t je;
    if (e->kind == API_OK || e->message[0] == '\0') abort();
    str_init(&out, 1 << 16);
    for (api_dialect d = API_OPENAI; d <= API_OLLAMA; d++) {
        str_clear(&out);
        api_error_json(e, d, "req_1", &out);
        json_t *root = json_loadb(out.data, out.len, 0, &je);
        if (root == NULL) abort();
        json_decref(root);
    }
    str_free(&out);
}

static void check_generation(const json_t *body)
{
    static const serve_options options = {.model_id = "demo", .sample = WEIR_SAMPLE_PARAMS_INIT};
    static const server        here    = {.o = &options, .model = {.vocab_size = 1000}};
    job_options                o;
    api_error                  e;
    weir_error                 we;
    if (generation_read(&here, body, &o, &e)) {
        o.sample.logit_bias   = o.bias;
        o.sample.n_logit_bias = o.n_bias;
        if (weir_sample_params_check(&o.sample, 1000, &we) != WEIR_OK || o.n < 1 || o.n > WEIR_MAX_CHOICES) abort();
    } else {
        check_error(&e);
    }
    job_options_free(&o);
}

static void check_chat(const json_t *body)
{
    chat_request_parts p;
    api_error          e;
    if (chat_request_read(body, SERVE_THINK_TEMPLATE, &p, &e)) {
        if (json_array_size(p.messages) == 0 || !json_is_object(p.kwargs)) abort();
        if (p.tools != NULL && json_array_size(p.tools) == 0) abort();
        if (p.tools == NULL && (p.force_call || p.one_call)) abort();
    } else {
        check_error(&e);
    }
    chat_request_free(&p);
}

static void check_messages(const json_t *body)
{
    anthropic_form form;
    api_error      e;
    json_t        *chat;
    if (anthropic_chat(body, &chat, &form, &e)) {
        if (json_array_size(json_object_get(chat, "messages")) == 0) abort();
        check_generation(chat);
        check_chat(chat);
    } else {
        check_error(&e);
    }
    json_decref(chat);
}

static void check_echo(const json_t *body, const responses_request *r)
{
    static const weir_sample_params sample = WEIR_SAMPLE_PARAMS_INIT;
    str                             before, behind, object;
    json_error_t                    je;
    str_init(&before, 1 << 28);
    str_init(&behind, 1 << 28);
    str_init(&object, 1 << 29);
    responses_put_echo(body, r, "m", &sample, &before, &behind);
    str_printf(&object, "{%s,%s}", before.data, behind.data);
    json_t *root = object.failed ? NULL : json_loadb(object.data, object.len, 0, &je);
    if (root == NULL) abort();
    json_decref(root);
    str_free(&object);
    str_free(&before);
    str_free(&behind);
}

static void check_responses(const json_t *body)
{
    responses_request r;
    api_error         e;
    if (responses_request_read(body, &r, &e) && responses_request_fold(&r, body, r.items, &e)) {
        check_chat(r.chat);
        check_generation(r.chat);
        check_echo(body, &r);
    } else {
        check_error(&e);
    }
    responses_request_free(&r);
}

static void check_ollama(const json_t *body, ollama_kind kind)
{
    static const serve_options options = {.model_id = "demo", .sample = WEIR_SAMPLE_PARAMS_INIT};
    static const server        here    = {.o = &options, .model = {.vocab_size = 1000}, .engine = {.max_context = 64}};
    ollama_request             q       = {0};
    api_error                  e;
    if (ollama_request_read(&here, body, kind, &q, &e)) {
        check_generation(q.body);
        if (!q.load && !q.raw) check_chat(q.body);
    } else {
        check_error(&e);
    }
    ollama_request_free(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t   *body;
    api_error e;
    char     *text = mem_strndup((const char *)data, size);
    if (text == NULL) return 0;
    if (body_parse(text, size, &body, &e)) {
        check_generation(body);
        check_chat(body);
        check_messages(body);
        check_responses(body);
        check_ollama(body, OLLAMA_CHAT);
        check_ollama(body, OLLAMA_GENERATE);
    } else {
        check_error(&e);
    }
    json_decref(body);
    mem_free(text);
    return 0;
}
