/* engine/constraint.c - a reply on its way through its grammar. */
#include "engine/constraint.h"

#include "base/mem.h"

#include <string.h>

weir_status constraint_new(constraint **out, const weir_grammar *g, const weir_model *m, const channel_tags *tags,
                           bool reasoning, weir_error *err)
{
    *out = NULL;
    if (g->m != m) return status_fail(err, WEIR_INVALID, "grammar: it was compiled for another model");
    constraint *c = mem_zalloc(1, sizeof *c);
    if (c == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    *c      = (constraint){.of = m, .tags = *tags, .reasoning = reasoning};
    c->bits = mem_zalloc((model_valid_ids(m) + 63) / 64, sizeof *c->bits);
    weir_status st =
        c->bits == NULL ? status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory") : matcher_new(&c->m, g->g, err);
    if (st == WEIR_OK)
        *out = c;
    else
        constraint_free(c);
    return st;
}

void constraint_free(constraint *c)
{
    if (c == NULL) return;
    matcher_free(c->m);
    mem_free(c->bits);
    mem_free(c);
}

void constraint_copy(constraint *to, const constraint *from)
{
    to->reasoning = from->reasoning;
    to->lead      = from->lead;
    to->ended     = from->ended;
    matcher_copy(to->m, from->m);
}

static bool is_eos(const weir_model *m, uint32_t id)
{
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

static void put(uint64_t *bits, uint32_t id, bool allowed)
{
    if (allowed)
        bits[id / 64] |= 1ull << id % 64;
    else
        bits[id / 64] &= ~(1ull << id % 64);
}

/* The line breaks that follow </think>. */
static bool is_lead(const weir_model *m, uint32_t id)
{
    uint32_t one;
    return (tokenizer_id(m->tok, "\n\n", &one) && one == id) || (tokenizer_id(m->tok, "\n", &one) && one == id);
}

static void allow_lead(const weir_model *m, uint64_t *bits)
{
    uint32_t id;
    if (tokenizer_id(m->tok, "\n\n", &id)) put(bits, id, true);
    if (tokenizer_id(m->tok, "\n", &id)) put(bits, id, true);
}

/* All that has a text, but what ends the reply or its reasoning without the tag. */
static void mask_of_reasoning(constraint *c, uint32_t n)
{
    const weir_model *m = c->of;
    for (uint32_t i = 0; i < (n + 63) / 64; i++) c->bits[i] = m->allowed != NULL ? m->allowed[i] : UINT64_MAX;
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] < n) put(c->bits, m->eos[i], false);
    if (c->tags.tool < n) put(c->bits, c->tags.tool, false);
}

weir_status constraint_mask(constraint *c, const uint64_t **bits, weir_error *err)
{
    const weir_model *m = c->of;
    const uint32_t    n = model_valid_ids(m);
    *bits               = c->bits;
    if (c->reasoning) {
        mask_of_reasoning(c, n);
        return WEIR_OK;
    }
    if (c->ended) return status_fail(err, WEIR_INVALID, "grammar: the text has ended");
    TRY(matcher_mask(c->m, c->bits, err));
    for (size_t i = 0; i < m->n_eos && matcher_may_end(c->m); i++)
        if (m->eos[i] < n) put(c->bits, m->eos[i], true);
    if (c->lead) allow_lead(m, c->bits);
    for (uint32_t i = 0; i < (n + 63) / 64; i++)
        if (c->bits[i] != 0) return WEIR_OK;
    return status_fail(err, WEIR_INVALID, "grammar: no token of the vocabulary can go on with the text");
}

static weir_status take_reasoning(constraint *c, uint32_t id, weir_error *err)
{
    if (is_eos(c->of, id) || id == c->tags.tool)
        return status_fail(err, WEIR_INVALID, "grammar: the reply may not end in its reasoning");
    c->reasoning = id != c->tags.close;
    c->lead      = !c->reasoning;
    return WEIR_OK;
}

weir_status constraint_take(constraint *c, uint32_t id, weir_error *err)
{
    if (c->ended) return status_fail(err, WEIR_INVALID, "grammar: the text has ended");
    if (c->reasoning) return take_reasoning(c, id, err);
    if (is_eos(c->of, id)) {
        if (!matcher_may_end(c->m)) return status_fail(err, WEIR_INVALID, "grammar: the text may not end here");
        c->ended = true;
        return WEIR_OK;
    }
    if (!c->lead || !is_lead(c->of, id)) {
        size_t         len;
        const uint8_t *bytes = grammar_token_bytes(c->of, id, &len);
        if (bytes == NULL) return status_fail(err, WEIR_INVALID, "grammar: token %u has no text", id);
        TRY(matcher_bytes(c->m, bytes, len, err));
    }
    c->lead = false;
    return WEIR_OK;
}

bool constraint_complete(const constraint *c)
{
    return !c->reasoning && (c->ended || matcher_must_end(c->m));
}
