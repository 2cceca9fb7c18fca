/* tests/oracle/test_routing.c - the router's logits, its choices and their
 * weights in every layer, against float64.
 *
 * What the engine routes by is seen through its own table of operations: the
 * entry for routing is replaced by one that calls it and looks at the result. */
#include "fixture_cases.h"

#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double bound_logits = 2e-5; /* of the rms of the layer's router logits */

/* The prompt under test; one at a time. */
static struct {
    void (*route)(kernels *k, const k_buf *logits);
    const model_config *c;
    uint32_t            layer, rows; /* next layer, rows of the prompt */
    numbers             logits, experts, weights;
    double              worst_logits, worst_weight;
    uint32_t            wrong;
} seen;

static void look(kernels *k, const k_buf *logits)
{
    seen.route(k, logits);
    const cpu_backend *b = cpu_of(k);
    const size_t       T = seen.rows, E = seen.c->n_experts, top = seen.c->experts_per_token;
    const double      *expected = seen.logits.x + seen.layer * T * E;
    const double       off      = numbers_worst(k->buf_host(k, logits), expected, T * E) / numbers_rms(expected, T * E);
    if (!(off <= seen.worst_logits)) seen.worst_logits = off;
    for (size_t i = 0; i < T * top; i++) {
        const size_t at = seen.layer * T * top + i;
        if (b->route_ids[i] != (uint32_t)seen.experts.x[at]) seen.wrong++;
        const double d = fabs((double)b->route_weights[i] - seen.weights.x[at]);
        if (!(d <= seen.worst_weight)) seen.worst_weight = d;
    }
    seen.layer++;
}

static void test_routing(void **given)
{
    const fixture_case *c = *given;
    memset(&seen, 0, sizeof seen);
    seen.route     = c->e->k->route;
    seen.c         = &c->e->m.config;
    c->e->k->route = look;
    for (unsigned i = 0; i < N_PROMPTS; i++) {
        size_t    n;
        uint32_t *ids = tensors_ids(&c->expected, &n, "p%u.input_ids", prompts[i]);
        seen.layer    = 0;
        seen.rows     = (uint32_t)n;
        seen.logits   = tensors_get(&c->expected, "p%u.router_logits", prompts[i]);
        seen.experts  = tensors_get(&c->expected, "p%u.router_experts", prompts[i]);
        seen.weights  = tensors_get(&c->expected, "p%u.router_weights", prompts[i]);
        weir_sequence_reset(c->s);
        append(c->s, ids, n);
        assert_int_equal(seen.layer, seen.c->n_layers);
        free(ids);
        numbers_free(&seen.logits);
        numbers_free(&seen.experts);
        numbers_free(&seen.weights);
    }
    print_message("%s: router logits %.1e of rms, weights %.1e\n", c->name, seen.worst_logits, seen.worst_weight);
    assert_int_equal(seen.wrong, 0);
    assert_true(seen.worst_logits <= bound_logits);
    assert_true(seen.worst_weight <= bound_logits);
}

static bool wanted(const fixture_case *c)
{
    return strcmp(c->fixture, "tiny-moe") == 0 && strcmp(c->kv, "f32") == 0;
}

int main(void)
{
    return fixture_cases_run("oracle routing", test_routing, wanted);
}
