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
    mem_free(o->tools);
    weir_ids_free(&o->prefix);
    weir_grammar_free(o->grammar);
    release_adapters(o);
    *o = (job_options){0};
}

static void free_prompts(weir_ids *prompts, size_t n)
{
    for (size_t i = 0; i < n; i++) weir_ids_free(&prompts[i]);
    mem_free(prompts);
}

static bool init_choice(job *j, uint32_t i)
{
    const job_options *o        = &j->o;
    job_choice        *c        = &j->choices[i];
    c->of                       = j;
    c->sample                   = o->sample;
    c->sample.choice            = i % o->n;
    c->sample.logit_bias        = o->bias;
    c->sample.n_logit_bias      = o->n_bias;
    c->options                  = (weir_generate_options)WEIR_GENERATE_OPTIONS_INIT;
    c->options.sample           = &c->sample;
    c->options.max_tokens       = o->prompt_only ? 1 : o->max_tokens;
    c->options.stop             = (const char *const *)o->stop;
    c->options.n_stop           = o->n_stop;
    c->options.logprobs         = o->logprobs;
    c->options.top_logprobs     = o->top_logprobs;
    c->options.thinking_open    = o->thinking_open;
    c->options.raw              = o->raw;
    c->options.stop_ids         = o->stop_ids;
    c->options.n_stop_ids       = o->n_stop_ids;
    c->options.limit_reasoning  = o->limit_reasoning;
    c->options.reasoning_budget = o->reasoning_budget;
    c->options.prefix           = o->prefix.data;
    c->options.n_prefix         = o->prefix.n;
    c->options.grammar          = o->grammar;
    replier_init(&c->replier, j->d, i, o->logprobs);
    c->replier.include_stop = o->include_stop;
    c->replier.stop_ids     = o->stop_ids;
    c->replier.n_stop_ids   = o->n_stop_ids;
    c->replier.watch        = o->watch;
    if (o->tools == NULL) return true;
    weir_toolcall_options tools = o->parser;
    tools.tools_json            = o->tools;
    tools.thinking_open         = o->thinking_open;
    return replier_find_calls(&c->replier, &tools, o->one_call);
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
    *j      = (job){.out         = outlet_share(out),
                    .d           = d,
                    .o           = *o,
                    .prompts     = prompts,
                    .n_prompts   = n_prompts,
                    .choices     = c,
                    .n_choices   = (uint32_t)n,
                    .received_ns = clock_ns()};
    *o      = (job_options){0};
    bool ok = true;
    for (uint32_t i = 0; i < j->n_choices && ok; i++) ok = init_choice(j, i);
    if (ok) return j;
    job_free(j);
    return NULL;
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
