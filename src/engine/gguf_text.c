/* engine/gguf_text.c - tokenizer and chat template out of a GGUF file's metadata. */
#include "engine/gguf_text.h"

#include "base/mem.h"

#include <string.h>

enum { MAX_STRINGS = 1 << 22 };

/* The strings of an array, as a list for the tokenizer (mem_free). */
static weir_status list_strings(tokenizer_string **out, uint32_t *n, const gguf *g, const char *key, weir_error *err)
{
    const gguf_entry *e = NULL;
    *out                = NULL;
    TRY(gguf_get_array(g, key, true, GGUF_STRING, &e, err));
    if (e->n > MAX_STRINGS) return gguf_wrong(g, key, "at most 4194304 strings", "more", err);
    tokenizer_string *list = mem_alloc((size_t)e->n, sizeof *list);
    if (list == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: %s: out of memory", g->path, key);
    const uint8_t *at = e->data;
    for (size_t i = 0; i < e->n; i++) {
        const gguf_string s = gguf_next_string(&at);
        list[i]             = (tokenizer_string){s.text, s.len};
    }
    *out = list;
    *n   = (uint32_t)e->n;
    return WEIR_OK;
}

static weir_status list_types(int32_t **out, uint32_t n, const gguf *g, weir_error *err)
{
    const char       *key = "tokenizer.ggml.token_type";
    const gguf_entry *e   = NULL;
    TRY(gguf_get_array(g, key, true, GGUF_U32, &e, err));
    if (e->n != n) return gguf_wrong(g, key, "as many as there are tokens", "another number", err);
    int32_t *list = mem_alloc(n, sizeof *list);
    if (list == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: %s: out of memory", g->path, key);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t v = gguf_integer(e, i);
        list[i]         = v < 0 || v > INT32_MAX ? 0 : (int32_t)v; /* 0 is refused too */
    }
    *out = list;
    return WEIR_OK;
}

static weir_status check_model(const gguf *g, weir_error *err)
{
    gguf_string model = {"", 0};
    TRY(gguf_get_string(g, "tokenizer.ggml.model", true, &model, err));
    if (model.len == 4 && memcmp(model.text, "gpt2", 4) == 0) return WEIR_OK;
    return status_fail(err, WEIR_UNSUPPORTED, "%s: tokenizer.ggml.model: expected \"gpt2\", found \"%.*s\"", g->path,
                       (int)(model.len < 64 ? model.len : 64), model.text);
}

weir_status gguf_tokenizer(tokenizer **out, const gguf *g, weir_error *err)
{
    tokenizer_string *tokens = NULL, *merges = NULL;
    int32_t          *types = NULL;
    gguf_string       pre   = {"", 0};
    tokenizer_lists   l     = {.name = g->path};
    *out                    = NULL;
    if (gguf_find(g, "tokenizer.ggml.tokens") == NULL) return WEIR_OK;
    TRY(check_model(g, err));
    TRY(gguf_get_string(g, "tokenizer.ggml.pre", true, &pre, err));
    weir_status st = list_strings(&tokens, &l.n_tokens, g, "tokenizer.ggml.tokens", err);
    if (st == WEIR_OK) st = list_strings(&merges, &l.n_merges, g, "tokenizer.ggml.merges", err);
    if (st == WEIR_OK) st = list_types(&types, l.n_tokens, g, err);
    l.pre    = (tokenizer_string){pre.text, pre.len};
    l.tokens = tokens;
    l.merges = merges;
    l.types  = types;
    if (st == WEIR_OK) st = tokenizer_from_lists(out, &l, err);
    mem_free(tokens);
    mem_free(merges);
    mem_free(types);
    return st;
}

weir_status gguf_chat_template(template **out, const gguf *g, weir_error *err)
{
    gguf_string text = {"", 0};
    *out             = NULL;
    TRY(gguf_get_string(g, "tokenizer.chat_template", false, &text, err));
    if (text.len != 0) return template_parse(out, text.text, text.len, g->path, err);
    return status_fail(err, WEIR_UNSUPPORTED, "%s: expected a chat template in tokenizer.chat_template, found none",
                       g->path);
}
