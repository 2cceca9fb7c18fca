/* engine/verify_texts.c - the texts that schedules read, and the dullest run of them. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/verify_parts.h"

#include <string.h>

enum { LEAST_LENGTH = 6, LONG_TEXT = VERIFY_TEXTS - 1 };

/* Own ids behind the first `shared` of the parent's.  Those of a text that repeats
 * itself give a draft source something to find. */
static weir_status make(verifier *v, uint32_t text, uint32_t parent, uint32_t shared, uint32_t planned, uint32_t period,
                        weir_error *err)
{
    verify_text *t = &v->texts[text];
    *t             = (verify_text){.planned = least(planned, v->opt.max_length), .parent = parent, .shared = shared};
    t->ids         = mem_alloc(t->planned, sizeof *t->ids);
    t->truth       = mem_alloc(t->planned, sizeof *t->truth);
    if (t->ids == NULL || t->truth == NULL) return status_fail(err, WEIR_NO_MEMORY, "verify: out of memory");
    t->shared = least(shared, t->planned);
    if (t->shared > 0) memcpy(t->ids, v->texts[parent].ids, t->shared * sizeof *t->ids);
    for (uint32_t i = t->shared; i < t->planned; i++) {
        const bool again = period > 0 && i >= t->shared + period && below(&v->seed, 10) != 0;
        t->ids[i]        = again ? t->ids[i - period] : below(&v->seed, v->vocab);
    }
    return WEIR_OK;
}

/* Somewhere in a text, or right at a border of pages. */
static uint32_t branch(verifier *v, uint32_t text)
{
    const uint32_t n = v->texts[text].planned;
    if (n > K_PAGE + 1 && below(&v->seed, 3) == 0) return K_PAGE - 1 + below(&v->seed, 3);
    return 1 + below(&v->seed, n - 1);
}

weir_status verify_texts_new(verifier *v, weir_error *err)
{
    uint32_t shared;
    TRY(make(v, 0, 0, 0, 40 + below(&v->seed, 60), 0, err));
    shared = branch(v, 0);
    TRY(make(v, 1, 0, shared, shared + 5 + below(&v->seed, 25), 3, err));
    shared = branch(v, 1);
    TRY(make(v, 2, 1, shared, shared + 5 + below(&v->seed, 25), 0, err));
    TRY(make(v, 3, 3, 0, 5 + below(&v->seed, 30), 1 + below(&v->seed, 6), err));
    /* The same ids as others have, where nothing else is the same. */
    TRY(make(v, 4, 0, 40, 12 + below(&v->seed, 25), 0, err));
    shared = branch(v, 4);
    TRY(make(v, 5, 4, shared, shared + 3 + below(&v->seed, 12), 3, err));
    v->texts[4].chosen = VERIFY_ONE;
    v->texts[5].chosen = VERIFY_STACKED;
    shared             = branch(v, 0);
    /* A length that differs from seed to seed, so that page and block borders are met at random. */
    const uint32_t most = v->opt.max_length, less = below(&v->seed, 2 * K_PAGE);
    return make(v, LONG_TEXT, 0, shared, most > 4 * K_PAGE ? most - less : most, 0, err);
}

void verify_texts_free(verifier *v)
{
    for (uint32_t i = 0; i < VERIFY_TEXTS; i++) {
        mem_free(v->texts[i].ids);
        mem_free(v->texts[i].truth);
    }
}

uint32_t verify_shared(const verifier *v, uint32_t a, uint32_t b)
{
    const verify_text *x = &v->texts[a], *y = &v->texts[b];
    if (x->chosen != y->chosen) return 0;
    const uint32_t most = least(x->planned, y->planned);
    uint32_t       n    = 0;
    while (n < most && x->ids[n] == y->ids[n]) n++;
    return n;
}

/* What the dullest run says where it has already said something is the same. */
static weir_status check_shared(const verifier *v, uint32_t text, uint32_t at, weir_error *err)
{
    const verify_text *t = &v->texts[text], *p = &v->texts[t->parent];
    if (t->parent == text || t->chosen != p->chosen || at >= t->shared || at >= p->length ||
        digest_same(t->truth[at], p->truth[at]))
        return WEIR_OK;
    return status_fail(err, WEIR_NUMERICS, "the plainest run gave other bits when repeated: position %u", at);
}

/* One token at a time, until the end or `deadline`; at least LEAST_LENGTH of the first text. */
static weir_status dull_run(verifier *v, uint32_t text, uint64_t deadline, weir_error *err)
{
    verify_text   *t = &v->texts[text];
    weir_sequence *s;
    TRY(weir_sequence_new(&s, v->dull, err));
    const uint32_t must = text == 0 ? LEAST_LENGTH : 0;
    const uint64_t from = clock_ns();
    weir_status    st   = verify_choose(v, s, t->chosen, err);
    while (st == WEIR_OK && t->length < t->planned && !verify_over(v) && (t->length < must || clock_ns() < deadline)) {
        st = weir_sequence_append(s, &t->ids[t->length], 1, NULL, NULL, err);
        if (st != WEIR_OK) break;
        t->truth[t->length] = digest_of(weir_sequence_logits(s), v->vocab);
        st                  = check_shared(v, text, t->length++, err);
    }
    v->dull_ns += clock_ns() - from;
    v->dull_tokens += t->length;
    weir_sequence_free(s);
    return st;
}

weir_status verify_texts_run(verifier *v, weir_error *err)
{
    const uint64_t now = clock_ns(), share = now < v->end ? (v->end - now) / 5 : 0;
    for (uint32_t i = 0; i < VERIFY_TEXTS; i++) TRY(dull_run(v, i, now + share * (i + 1) / VERIFY_TEXTS, err));
    return WEIR_OK;
}
