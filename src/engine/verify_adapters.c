/* engine/verify_adapters.c - two random adapters, and the choices among them under which texts
 * and wishes are read: none, one, and both on top of each other, with scales. */
#include "engine/verify_parts.h"

static weir_status make(verifier *v, uint32_t i, uint32_t rank, dtype type, weir_error *err)
{
    adapter *a;
    TRY(adapter_random(&a, checkpoint_config(v->m->c), rank, type, v->seed + i, err));
    return adapter_wrap(&v->adapters[i], v->m, a, err);
}

static void choose(verifier *v, verify_choice *c, uint32_t which)
{
    static const float scales[] = {1.0f, 0.5f, 2.0f, -1.0f};
    c->list[c->n++] =
        (weir_adapter_choice){v->adapters[which], scales[below(&v->seed, sizeof scales / sizeof *scales)]};
}

weir_status verify_adapters_new(verifier *v, weir_error *err)
{
    TRY(make(v, 0, 2, DTYPE_BF16, err));
    TRY(make(v, 1, 3, DTYPE_F32, err));
    const uint32_t first = below(&v->seed, 2);
    choose(v, &v->choices[VERIFY_ONE], below(&v->seed, 2));
    choose(v, &v->choices[VERIFY_STACKED], first);
    choose(v, &v->choices[VERIFY_STACKED], 1 - first);
    return WEIR_OK;
}

void verify_adapters_free(verifier *v)
{
    for (int i = 0; i < VERIFY_ADAPTERS; i++) weir_adapter_close(v->adapters[i]);
}

weir_status verify_choose(const verifier *v, weir_sequence *s, verify_chosen chosen, weir_error *err)
{
    const verify_choice *c = &v->choices[chosen];
    return weir_sequence_set_adapters(s, c->list, c->n, err);
}
