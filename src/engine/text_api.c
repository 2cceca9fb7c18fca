/* engine/text_api.c - weir/text.h over the text room. */
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine_parts.h"
#include "text/chat.h"
#include "text/detok.h"
#include "weir/toolcall.h"

#include <string.h>

enum { MAX_CHAT_BYTES = 256 << 20, MAX_PIECE = 1 << 20 };

/* weir_ids is the public face of token_ids. */
static token_ids to_internal(const weir_ids *w)
{
    return (token_ids){.ids = w->data, .n = w->n, .cap = w->capacity};
}

static weir_ids to_public(const token_ids *t)
{
    return (weir_ids){.data = t->ids, .n = t->n, .capacity = t->cap};
}

void weir_ids_free(weir_ids *ids)
{
    mem_free(ids->data);
    *ids = (weir_ids){0};
}

static weir_status need_tokenizer(const weir_model *m, weir_error *err)
{
    if (m->tok != NULL) return WEIR_OK;
    return status_fail(err, WEIR_UNSUPPORTED, "%s: expected a tokenizer.json, found none", checkpoint_path(m->c));
}

static weir_status encode(const weir_model *m, const char *text, size_t len, const uint8_t *untrusted, bool added,
                          weir_ids *out, weir_error *err)
{
    token_ids         t  = to_internal(out);
    const weir_status st = tokenizer_encode(m->tok, text, len, untrusted, added, &t, err);
    *out                 = to_public(&t);
    return st;
}

weir_status weir_tokenize(const weir_model *m, const char *text, size_t len, bool added_tokens, weir_ids *out,
                          weir_error *err)
{
    TRY(need_tokenizer(m, err));
    return encode(m, text, len, NULL, added_tokens, out, err);
}

const uint8_t *weir_token_bytes(const weir_model *m, uint32_t id, size_t *len)
{
    *len = 0;
    return m->tok == NULL ? NULL : tokenizer_bytes(m->tok, id, len);
}

/* ---- streaming ---- */

struct weir_detok {
    detok d;
    str   out;
};

weir_status weir_detok_new(weir_detok **out, const weir_model *m, bool skip_special, weir_error *err)
{
    *out = NULL;
    TRY(need_tokenizer(m, err));
    weir_detok *d = mem_zalloc(1, sizeof *d);
    if (d == NULL) return status_fail(err, WEIR_NO_MEMORY, "detokenizer: out of memory");
    detok_init(&d->d, m->tok, skip_special);
    str_init(&d->out, MAX_PIECE);
    *out = d;
    return WEIR_OK;
}

void weir_detok_free(weir_detok *d)
{
    if (d == NULL) return;
    str_free(&d->out);
    mem_free(d);
}

weir_status weir_detok_push(weir_detok *d, uint32_t id, const char **text, size_t *len, weir_error *err)
{
    str_clear(&d->out);
    TRY(detok_push(&d->d, id, &d->out, err));
    TRY(str_status(&d->out, "detokenizer", err));
    *text = d->out.data;
    *len  = d->out.len;
    return WEIR_OK;
}

weir_status weir_detok_flush(weir_detok *d, const char **text, size_t *len, weir_error *err)
{
    str_clear(&d->out);
    detok_flush(&d->d, &d->out);
    TRY(str_status(&d->out, "detokenizer", err));
    *text = d->out.data;
    *len  = d->out.len;
    return WEIR_OK;
}

/* ---- tags ---- */

void weir_toolcall_tags(const weir_model *m, weir_toolcall_options *opt)
{
    const struct {
        const char *text;
        uint32_t   *id;
    } tags[] = {{"<tool_call>", &opt->tool_open},
                {"</tool_call>", &opt->tool_close},
                {"<think>", &opt->think_open},
                {"</think>", &opt->think_close}};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (m->tok == NULL || !tokenizer_id(m->tok, tags[i].text, tags[i].id)) *tags[i].id = UINT32_MAX;
}

/* ---- chats ---- */

static weir_status parse_part(json_doc *out, const char *text, const char *name, bool object, weir_error *err)
{
    *out = (json_doc){0};
    if (text == NULL) return WEIR_OK;
    const size_t len = strlen(text);
    if (len > MAX_CHAT_BYTES)
        return status_fail(err, WEIR_INVALID, "%s: expected at most %d bytes, found %zu", name, MAX_CHAT_BYTES, len);
    const weir_status st = json_parse(out, text, len, name, JSON_MAX_DEPTH, err);
    if (st == WEIR_FORMAT) { /* the text is right, but it is an argument and no file */
        if (err != NULL) err->status = WEIR_INVALID;
        return WEIR_INVALID;
    }
    if (st != WEIR_OK) return st;
    if (object ? json_is_object(out->root) : json_is_array(out->root)) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "%s: expected %s, found %s", name, object ? "an object" : "an array",
                       json_kind(out->root));
}

static weir_status render(const weir_model *m, const chat_request *r, weir_prompt *out, weir_error *err)
{
    chat_prompt p;
    TRY(chat_render(m->chat, r, NULL, &p, err));
    weir_status st = encode(m, p.text.text, p.text.len, p.text.untrusted, true, &out->ids, err);
    if (st == WEIR_OK && out->ids.n == 0)
        st = status_fail(err, WEIR_FORMAT, "%s: chat template: expected a prompt, found nothing rendered",
                         checkpoint_path(m->c));
    if (st == WEIR_OK) {
        out->text          = p.text.text;
        out->text_len      = p.text.len;
        out->thinking_open = p.thinking_open;
        p.text.text        = NULL; /* now the caller's */
    }
    chat_prompt_free(&p);
    return st;
}

weir_status weir_chat_render(const weir_model *m, const char *messages_json, const char *tools_json,
                             const char *kwargs_json, weir_prompt *out, weir_error *err)
{
    *out = (weir_prompt){0};
    TRY(need_tokenizer(m, err));
    if (m->chat == NULL) return status_fail(err, WEIR_UNSUPPORTED, "%s", m->no_chat.text);
    json_doc    messages = {0}, tools = {0}, kwargs = {0};
    weir_status st = parse_part(&messages, messages_json, "messages", false, err);
    if (st == WEIR_OK) st = parse_part(&tools, tools_json, "tools", false, err);
    if (st == WEIR_OK) st = parse_part(&kwargs, kwargs_json, "kwargs", true, err);
    if (st == WEIR_OK && messages.root == NULL)
        st = status_fail(err, WEIR_INVALID, "messages: expected an array, found nothing");
    if (st == WEIR_OK)
        st =
            render(m, &(chat_request){.messages = messages.root, .tools = tools.root, .kwargs = kwargs.root}, out, err);
    json_doc_free(&messages);
    json_doc_free(&tools);
    json_doc_free(&kwargs);
    if (st != WEIR_OK) weir_prompt_free(out);
    return st;
}

void weir_prompt_free(weir_prompt *p)
{
    mem_free(p->text);
    weir_ids_free(&p->ids);
    *p = (weir_prompt){0};
}
