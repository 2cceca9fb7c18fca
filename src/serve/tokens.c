/* serve/tokens.c - POST /tokenize, /detokenize and /apply-template, in the forms of llama.cpp and
 * of vLLM: a body with `content` is of the one, with `prompt` or `messages` of the other. */
#include "base/json.h"
#include "serve/body.h"
#include "serve/fields.h"
#include "serve/json_out.h"
#include "serve/prompt.h"

#include <string.h>

enum { ANSWER_MAX = 1 << 30 };

typedef bool maker(const server *s, const json_t *body, str *out, api_error *err);

static void answer(const server *s, const http_request *r, maker *make, outlet *out)
{
    json_t   *body = NULL;
    api_error err;
    str       text;
    str_init(&text, ANSWER_MAX);
    if (body_parse(r->body, r->n_body, &body, &err) && make(s, body, &text, &err))
        answer_json(out, &text);
    else
        answer_error(out, &err, API_OPENAI, r->id);
    str_free(&text);
    json_decref(body);
}

static void put_ids(const weir_ids *ids, str *out)
{
    str_putc(out, '[');
    for (size_t i = 0; i < ids->n; i++) str_printf(out, i == 0 ? "%u" : ",%u", ids->data[i]);
    str_putc(out, ']');
}

static const char *bytes_of(const server *s, uint32_t id, size_t *n)
{
    const uint8_t *bytes = weir_token_bytes(s->o->model, id, n);
    return bytes != NULL ? (const char *)bytes : "";
}

/* `[{"id","piece"}]`; a piece that is no text is a list of bytes. */
static void put_pieces(const server *s, const weir_ids *ids, str *out)
{
    str_putc(out, '[');
    for (size_t i = 0; i < ids->n; i++) {
        size_t      n;
        const char *bytes = bytes_of(s, ids->data[i], &n);
        str_printf(out, "%s{\"id\":%u,\"piece\":", i == 0 ? "" : ",", ids->data[i]);
        if (utf8_valid(bytes, n)) {
            json_out_string(out, bytes, n);
        } else {
            str_putc(out, '[');
            for (size_t k = 0; k < n; k++) str_printf(out, k == 0 ? "%u" : ",%u", (unsigned char)bytes[k]);
            str_putc(out, ']');
        }
        str_putc(out, '}');
    }
    str_putc(out, ']');
}

static bool tokenize(const server *s, const json_t *text, bool specials, weir_ids *ids, api_error *err)
{
    weir_error we;
    return weir_tokenize(s->o->model, json_string_value(text), json_string_length(text), specials, ids, &we) ==
               WEIR_OK ||
           api_fail_status(err, &we);
}

/* llama.cpp's. */
static bool tokenize_content(const server *s, fields *f, str *out)
{
    const json_t *content  = field(f, "content");
    bool          specials = true, pieces = false;
    weir_ids      ids = {0};
    (void)field_bool(f, "parse_special", &specials);
    (void)field_bool(f, "with_pieces", &pieces);
    if (!json_is_string(content)) return field_wrong(f, "content", "expected a string, found %s", json_kind(content));
    bool ok = !f->failed && tokenize(s, content, specials, &ids, f->err);
    if (ok) {
        str_puts(out, "{\"tokens\":");
        if (pieces)
            put_pieces(s, &ids, out);
        else
            put_ids(&ids, out);
        str_putc(out, '}');
    }
    weir_ids_free(&ids);
    return ok;
}

static bool render(const server *s, const json_t *body, weir_prompt *p, api_error *err)
{
    chat_request_parts parts = {0};
    const bool         ok    = chat_request_read(body, s->o->thinking, &parts, err) && prompt_render(s, &parts, p, err);
    chat_request_free(&parts);
    return ok;
}

/* vLLM's. */
static bool tokenize_prompt(const server *s, fields *f, str *out)
{
    const json_t *text    = field(f, "prompt");
    bool          strings = false;
    weir_prompt   p       = {0};
    (void)field_bool(f, "return_token_strs", &strings);
    if (text != NULL && !json_is_string(text))
        (void)field_wrong(f, "prompt", "expected a string, found %s", json_kind(text));
    const bool ok =
        !f->failed && (text != NULL ? tokenize(s, text, true, &p.ids, f->err) : render(s, f->object, &p, f->err));
    if (ok) {
        str_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":", p.ids.n, s->engine.max_context);
        put_ids(&p.ids, out);
        str_puts(out, ",\"token_strs\":");
        if (!strings) str_puts(out, "null");
        for (size_t i = 0; strings && i < p.ids.n; i++) {
            size_t      n;
            const char *bytes = bytes_of(s, p.ids.data[i], &n);
            str_putc(out, i == 0 ? '[' : ',');
            json_out_string(out, bytes, n);
        }
        if (strings) str_puts(out, p.ids.n == 0 ? "[]" : "]");
        str_putc(out, '}');
    }
    weir_prompt_free(&p);
    return ok;
}

static bool make_tokenize(const server *s, const json_t *body, str *out, api_error *err)
{
    fields f = {.object = body, .where = "", .err = err};
    if (field(&f, "content") != NULL) return tokenize_content(s, &f, out);
    if (field(&f, "prompt") == NULL && field(&f, "messages") == NULL)
        return field_wrong(&f, "content", "expected content, prompt or messages");
    return tokenize_prompt(s, &f, out);
}

static bool make_detokenize(const server *s, const json_t *body, str *out, api_error *err)
{
    fields        f    = {.object = body, .where = "", .err = err};
    const json_t *list = NULL;
    str           text;
    if (!field_array(&f, "tokens", BODY_VALUES, &list))
        return field_wrong(&f, "tokens", "expected an array of token ids");
    str_init(&text, ANSWER_MAX);
    for (size_t i = 0; i < json_array_size(list) && !f.failed; i++) {
        const json_t *v = json_array_get(list, i);
        size_t        n;
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= s->model.vocab_size) {
            (void)field_wrong(&f, "tokens", "expected token ids below %u, found another at index %zu",
                              s->model.vocab_size, i);
            break;
        }
        const char *bytes = bytes_of(s, (uint32_t)json_integer_value(v), &n);
        str_put(&text, bytes, n);
    }
    str_puts(out, "{\"content\":");
    json_out_string(out, text.data, text.len);
    str_puts(out, ",\"prompt\":");
    json_out_string(out, text.data, text.len);
    str_putc(out, '}');
    if (text.failed) out->failed = true;
    str_free(&text);
    return !f.failed;
}

static bool make_template(const server *s, const json_t *body, str *out, api_error *err)
{
    weir_prompt p  = {0};
    const bool  ok = render(s, body, &p, err);
    if (ok) {
        str_puts(out, "{\"prompt\":");
        json_out_string(out, p.text, p.text_len);
        str_printf(out, ",\"tokens\":%zu}", p.ids.n);
    }
    weir_prompt_free(&p);
    return ok;
}

void handle_tokenize(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    answer(s, r, make_tokenize, out);
}

void handle_detokenize(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    answer(s, r, make_detokenize, out);
}

void handle_apply_template(server *s, const http_request *r, const char *rest, outlet *out)
{
    (void)rest;
    answer(s, r, make_template, out);
}
