/* serve/job.c - see job.h. */
#include "serve/job.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

static void release_adapters(job_options *o)
{
    for (size_t i = 0; i < o->n_adapters; i++) adapter_release(o->held[i]);
    o->n_adapters = 0;
}

void job_release_adapters(job *j)
{
    release_adapters(&j->o);
}

void job_options_free(job_options *o)
{
    for (size_t i = 0; i < o->n_stop; i++) mem_free(o->stop[i]);
    mem_free(o->bias);
    release_adapters(o);
    *o = (job_options){0};
}

static void free_prompts(weir_ids *prompts, size_t n)
{
    for (size_t i = 0; i < n; i++) weir_ids_free(&prompts[i]);
    mem_free(prompts);
}

static void init_choice(job *j, uint32_t i)
{
    job_choice *c            = &j->choices[i];
    c->of                    = j;
    c->sample                = j->o.sample;
    c->sample.choice         = i % j->o.n;
    c->sample.logit_bias     = j->o.bias;
    c->sample.n_logit_bias   = j->o.n_bias;
    c->options               = (weir_generate_options)WEIR_GENERATE_OPTIONS_INIT;
    c->options.sample        = &c->sample;
    c->options.max_tokens    = j->o.prompt_only ? 1 : j->o.max_tokens;
    c->options.stop          = (const char *const *)j->o.stop;
    c->options.n_stop        = j->o.n_stop;
    c->options.logprobs      = j->o.logprobs;
    c->options.top_logprobs  = j->o.top_logprobs;
    c->options.thinking_open = j->o.thinking_open;
    c->options.raw           = j->o.raw;
    replier_init(&c->replier, j->d, i, j->o.logprobs);
}

job *job_new(job_options *o, weir_ids *prompts, size_t n_prompts, dialect *d, outlet *out)
{
    job         *j = mem_zalloc(1, sizeof *j);
    const size_t n = n_prompts * o->n;
    job_choice  *c = mem_zalloc(n, sizeof *c);
    if (j == NULL || c == NULL) {
        mem_free(j);
        mem_free(c);
        free_prompts(prompts, n_prompts);
        job_options_free(o);
        d->free(d);
        return NULL;
    }
    *j = (job){.out         = outlet_share(out),
               .d           = d,
               .o           = *o,
               .prompts     = prompts,
               .n_prompts   = n_prompts,
               .choices     = c,
               .n_choices   = (uint32_t)n,
               .received_ns = clock_ns()};
    *o = (job_options){0};
    for (uint32_t i = 0; i < j->n_choices; i++) init_choice(j, i);
    return j;
}

void job_free(job *j)
{
    if (j == NULL) return;
    for (uint32_t i = 0; i < j->n_choices; i++) {
        weir_request_free(j->choices[i].request);
        replier_free(&j->choices[i].replier);
    }
    mem_free(j->choices);
    free_prompts(j->prompts, j->n_prompts);
    job_options_free(&j->o);
    j->d->free(j->d);
    outlet_release(j->out);
    mem_free(j);
}
