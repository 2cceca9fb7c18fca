/* engine/grammar_api.c - weir/grammar.h over the grammar room. */
#include "engine/grammar_parts.h"

#include "base/mem.h"

#include <string.h>

/* Text that the reply is made of: no added token, whose text is a mark to the chat, not to its reader. */
const uint8_t *grammar_token_bytes(const void *user, uint32_t id, size_t *len)
{
    const weir_model *m = user;
    return tokenizer_is_added(m->tok, id) ? NULL : tokenizer_bytes(m->tok, id, len);
}

weir_status weir_grammar_compile(weir_grammar **out, const weir_model *m, weir_grammar_kind kind, const char *text,
                                 size_t len, const weir_grammar_options *opt, weir_error *err)
{
    const weir_grammar_options none = WEIR_GRAMMAR_OPTIONS_INIT;
    *out                            = NULL;
    if (opt == NULL) opt = &none;
    if (opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "weir_grammar_options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    if (m->grammars == NULL) return status_fail(err, WEIR_UNSUPPORTED, "grammar: the model has no tokenizer");
    weir_grammar *g = mem_zalloc(1, sizeof *g);
    if (g == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    g->m                 = m;
    const weir_status st = shelf_compile(m->grammars, &g->g, kind, text, len, opt, err);
    if (st == WEIR_OK)
        *out = g;
    else
        mem_free(g);
    return st;
}

void weir_grammar_free(weir_grammar *g)
{
    if (g == NULL) return;
    grammar_release(g->g);
    mem_free(g);
}

struct weir_matcher {
    const weir_model *model;
    grammar          *g;
    matcher          *m;
    bool              ended; /* an end id was accepted */
};

static weir_status new_matcher(weir_matcher **out, const weir_model *of, grammar *g, weir_error *err)
{
    *out            = NULL;
    weir_matcher *m = mem_zalloc(1, sizeof *m);
    if (m == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    m->model             = of;
    m->g                 = g;
    const weir_status st = matcher_new(&m->m, g, err);
    if (st == WEIR_OK)
        *out = m;
    else
        mem_free(m);
    return st;
}

weir_status weir_matcher_new(weir_matcher **out, const weir_grammar *g, weir_error *err)
{
    return new_matcher(out, g->m, g->g, err);
}

weir_status weir_matcher_fork(weir_matcher **out, const weir_matcher *m, weir_error *err)
{
    TRY(new_matcher(out, m->model, m->g, err));
    matcher_copy((*out)->m, m->m);
    (*out)->ended = m->ended;
    return WEIR_OK;
}

void weir_matcher_free(weir_matcher *m)
{
    if (m == NULL) return;
    matcher_free(m->m);
    mem_free(m);
}

static bool is_eos(const weir_model *m, uint32_t id)
{
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

weir_status weir_matcher_accept(weir_matcher *m, uint32_t id, weir_error *err)
{
    size_t         len   = 0;
    const uint8_t *bytes = NULL;
    if (m->ended) return status_fail(err, WEIR_INVALID, "grammar: the text has ended");
    if (is_eos(m->model, id)) {
        if (!matcher_may_end(m->m)) return status_fail(err, WEIR_INVALID, "grammar: the text may not end here");
        m->ended = true;
        return WEIR_OK;
    }
    bytes = grammar_token_bytes(m->model, id, &len);
    if (bytes == NULL || len == 0)
        return status_fail(err, WEIR_INVALID, "grammar: token %u is not one that text is made of", id);
    return matcher_bytes(m->m, bytes, len, err);
}

weir_status weir_matcher_mask(weir_matcher *m, uint64_t *bits, size_t n_words, weir_error *err)
{
    const size_t need = (model_valid_ids(m->model) + 63) / 64;
    if (n_words < need)
        return status_fail(err, WEIR_INVALID, "mask: expected at least %zu words, found %zu", need, n_words);
    memset(bits, 0, n_words * sizeof *bits);
    if (m->ended) return WEIR_OK;
    TRY(matcher_mask(m->m, bits, err));
    for (size_t i = 0; i < m->model->n_eos && matcher_may_end(m->m); i++)
        if (m->model->eos[i] < need * 64) bits[m->model->eos[i] / 64] |= 1ull << m->model->eos[i] % 64;
    return WEIR_OK;
}

bool weir_matcher_may_end(const weir_matcher *m)
{
    return m->ended || matcher_may_end(m->m);
}

bool weir_matcher_is_terminated(const weir_matcher *m)
{
    return m->ended || matcher_must_end(m->m);
}

size_t weir_matcher_forced_prefix(const weir_matcher *m, uint8_t *bytes, size_t size)
{
    return m->ended ? 0 : matcher_forced(m->m, bytes, size);
}
