/* cli/sampling.c - see sampling.h. */
#include "cli/sampling.h"

#include "base/clock.h"

#include <sys/random.h>

/* 53 bits: such a number survives any JSON reader. */
static uint64_t fresh_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = clock_ns();
    return seed >> 11;
}

weir_status sampling_from(const weir_model *m, const options *o, weir_sample_params *out, weir_error *err)
{
    weir_sampling_defaults d;
    weir_model_get_sampling(m, &d);
    weir_sample_params p = WEIR_SAMPLE_PARAMS_INIT;
    p.temperature        = o->temp_given ? o->temp : (double)d.temperature;
    p.top_p              = o->top_p_given ? o->top_p : (double)d.top_p;
    p.top_k              = (int32_t)(o->top_k_given ? o->top_k : d.top_k);
    p.min_p              = o->min_p;
    p.presence_penalty   = o->presence_penalty;
    p.repetition_penalty = o->repetition_penalty;
    p.fresh_seed         = false;
    p.seed               = o->seed_given ? o->seed : fresh_seed();
    *out                 = p;
    return weir_sample_params_check(&p, 0, err);
}
