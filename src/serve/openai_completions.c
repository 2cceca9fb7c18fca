/* serve/openai_completions.c - POST /v1/completions: text goes on, without a chat. */
#include "base/json.h"
#include "base/mem.h"
#include "serve/body.h"
#include "serve/fields.h"
#include "serve/generation.h"
#include "serve/openai.h"
#include "serve/prompt.h"
#include "serve/sse.h"

#include <stdio.h>
#include <string.h>

/* What the client wants to be gone on with. */
typedef struct texts {
    weir_ids *ids; /* [n] */
    size_t    n;
    char    **echo; /* [n * choices], NULL unless asked for */
} texts;

static void free_texts(texts *t, size_t choices)
{
    for (size_t i = 0; i < t->n && t->ids != NULL; i++) weir_ids_free(&t->ids[i]);
    for (size_t i = 0; i < t->n * choices && t->echo != NULL; i++) mem_free(t->echo[i]);
    mem_free(t->ids);
    mem_free(t->echo);
    *t = (texts){0};
}

static bool read_text(const server *s, const json_t *v, bool specials, weir_ids *out, api_error *err)
{
    weir_error we;
    if (weir_tokenize(s->o->model, json_string_value(v), json_string_length(v), specials, out, &we) != WEIR_OK)
        return api_fail_status(err, &we);
    return out->n > 0 || api_fail(err, API_INVALID, "prompt", "prompt: expected some text, found none");
}

static bool read_ids(const server *s, const json_t *list, weir_ids *out, api_error *err)
{
    const size_t n = json_array_size(list);
    out->data      = mem_alloc(n, sizeof *out->data);
    out->capacity  = n;
    if (out->data == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= s->model.vocab_size)
            return api_fail(err, API_INVALID, "prompt",
                            "prompt: expected token ids below %u, found another at index %zu", s->model.vocab_size, i);
        out->data[out->n++] = (uint32_t)json_integer_value(v);
    }
    return true;
}

static bool read_prompt(const server *s, const json_t *v, bool specials, weir_ids *out, api_error *err)
{
    if (json_is_string(v)) return read_text(s, v, specials, out, err) && prompt_fits(s, out->n, err);
    if (json_is_array(v) && json_array_size(v) > 0) return read_ids(s, v, out, err) && prompt_fits(s, out->n, err);
    return api_fail(err, API_INVALID, "prompt", "prompt: expected text or token ids, found %s",
                    json_is_array(v) ? "an empty array" : json_kind(v));
}

/* A string, strings, ids, or lists of ids. */
static bool read_prompts(const server *s, fields *f, size_t choices, texts *t)
{
    const json_t *given = field(f, "prompt"), *first = json_array_get(given, 0);
    const bool    many     = json_is_string(first) || json_is_array(first);
    bool          specials = true;
    (void)field_bool(f, "parse_special", &specials);
    if (f->failed) return false;
    t->n = many ? json_array_size(given) : 1;
    if (t->n * choices > JOB_MAX_CHOICES)
        return field_wrong(f, "prompt", "expected at most %d choices in all, found %zu prompts with %zu each",
                           JOB_MAX_CHOICES, t->n, choices);
    t->ids = mem_zalloc(t->n, sizeof *t->ids);
    if (t->ids == NULL) return api_fail(f->err, API_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < t->n; i++)
        if (!read_prompt(s, many ? json_array_get(given, i) : given, specials, &t->ids[i], f->err)) return false;
    return true;
}

/* What the ids stand for, for an answer that begins with it. */
static char *text_of(const server *s, const weir_ids *ids)
{
    str out;
    str_init(&out, BODY_MAX);
    for (size_t i = 0; i < ids->n; i++) {
        size_t         n;
        const uint8_t *bytes = weir_token_bytes(s->o->model, ids->data[i], &n);
        if (bytes != NULL) str_put(&out, bytes, n);
    }
    char *text = out.failed ? NULL : str_take(&out);
    str_free(&out);
    return text;
}

static bool read_echo(const server *s, fields *f, size_t choices, const job_options *o, texts *t)
{
    bool echo = false;
    (void)field_bool(f, "echo", &echo);
    if (f->failed) return false;
    if (!echo) return true;
    if (o->logprobs) return field_wrong(f, "echo", "expected no logprobs beside it");
    t->echo = mem_zalloc(t->n * choices, sizeof *t->echo);
    for (size_t i = 0; t->echo != NULL && i < t->n * choices; i++)
        if ((t->echo[i] = text_of(s, &t->ids[i / choices])) == NULL)
            return api_fail(f->err, API_INTERNAL, NULL, "out of memory");
    return t->echo != NULL || api_fail(f->err, API_INTERNAL, NULL, "out of memory");
}

static bool read_options(const server *s, fields *f, job_options *o)
{
    int64_t logprobs = 0;
    if (!generation_read(s, f->object, o, f->err)) return false;
    if (!o->max_tokens_given) o->max_tokens = 16; /* as the API documents it */
    o->prompt_only = o->max_tokens == 0;
    o->raw         = true;
    if (field_whole(f, "logprobs", 0, 5, &logprobs)) o->logprobs = true;
    o->top_logprobs      = (uint32_t)logprobs;
    const json_t *suffix = field(f, "suffix");
    if (suffix != NULL && !(json_is_string(suffix) && json_string_length(suffix) == 0))
        return field_wrong(f, "suffix", "filling in the middle is not served");
    return !f->failed;
}

/* Takes *o, *t and what *head owns. */
static bool submit(server *s, const http_request *r, job_options *o, texts *t, openai_head *head,
                   const openai_form *form, outlet *out, api_error *err)
{
    const completions_form cf = {.form = *form, .n = (uint32_t)(t->n * o->n), .logprobs = o->logprobs, .echo = t->echo};
    dialect               *d  = completions_writer_new(head, &cf, r->id, out);
    if (d == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    o->watch = openai_watches(form);
    job *j   = job_new(o, t->ids, t->n, d, out);
    *t       = (texts){0};
    if (j == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    j->path        = "/v1/completions";
    j->received_ns = r->received_ns;
    if (form->stream) j->stream_type = SSE_TYPE;
    j->comments = true;
    (void)snprintf(j->request_id, sizeof j->request_id, "%s", r->id);
    if (engine_loop_submit(s->loop, j, err)) return true;
    job_free(j);
    return false;
}

static bool serve_completions(server *s, const http_request *r, const json_t *body, outlet *out, api_error *err)
{
    fields       f    = {.object = body, .where = "", .err = err};
    job_options  o    = {0};
    texts        t    = {0};
    openai_head  head = {0};
    openai_form  form;
    bool         ok      = openai_read_form(s, body, "cmpl-", &form, &head, err) && read_options(s, &f, &o);
    const size_t choices = ok ? o.n : 1;
    ok                   = ok && read_prompts(s, &f, choices, &t) && read_echo(s, &f, choices, &o, &t) &&
         submit(s, r, &o, &t, &head, &form, out, err);
    free_texts(&t, choices);
    job_options_free(&o);
    openai_head_free(&head);
    return ok;
}

void handle_completions(server *s, const http_request *r, const char *rest, outlet *out)
{
    json_t   *body = NULL;
    api_error err;
    (void)rest;
    if (!body_parse(r->body, r->n_body, &body, &err) || !serve_completions(s, r, body, out, &err))
        answer_error(out, &err, API_OPENAI, r->id);
    json_decref(body);
}
