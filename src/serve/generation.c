/* serve/generation.c - see generation.h. */
#include "serve/generation.h"

#include "base/json.h"
#include "base/mem.h"
#include "serve/fields.h"
#include "serve/form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STOP_BYTES = 1024, MAX_BIAS = 1024 };

/* ---- what is not served ---- */

typedef enum harmless { NOTHING, FALSE, TRUE, EMPTY, TEXT, RAW, ZERO, ONE, NOT_ABOVE_0 } harmless;

#define SAMPLER "this way of drawing tokens is not served"

/* A field that is refused unless it is absent, null or says nothing. */
static const struct {
    const char *name;
    harmless    unless;
    const char *why;
} refused[] = {
    {"guided_whitespace_pattern", NOTHING, "use any_whitespace"},
    {"structural_tag", NOTHING, "not served"},
    {"grammar_lazy", FALSE, "a grammar begins with the content"},
    {"regex", EMPTY, "use guided_regex"},
    {"ebnf", EMPTY, "use grammar"},
    {"reasoning_budget_message", EMPTY, "what closes the reasoning cannot be chosen"},
    {"chat_template", EMPTY, "the model's own template is used"},
    {"documents", EMPTY, "not served"},
    {"logprobs_mode", RAW, "log probabilities are those of the raw logits"},
    {"prompt_logprobs", ZERO, "log probabilities are those of the reply"},
    {"n_probs", ZERO, "use logprobs and top_logprobs"},
    {"post_sampling_probs", FALSE, "log probabilities are those of the raw logits"},
    {"return_token_ids", FALSE, "not served"},
    {"return_tokens", FALSE, "not served"},
    {"skip_special_tokens", TRUE, "special tokens have no text"},
    {"truncate_prompt_tokens", NOT_ABOVE_0, "a prompt is never cut"},
    {"allowed_token_ids", EMPTY, "use logit_bias"},
    {"bad_words", EMPTY, "use logit_bias"},
    {"bad_words_ids", EMPTY, "use logit_bias"},
    {"banned_tokens", EMPTY, "use logit_bias"},
    {"logits_processors", EMPTY, SAMPLER},
    {"samplers", EMPTY, "the order of the samplers cannot be chosen"},
    {"use_beam_search", FALSE, SAMPLER},
    {"num_beams", ONE, SAMPLER},
    {"best_of", ONE, "not served"},
    {"length_penalty", ONE, SAMPLER},
    {"no_repeat_ngram_size", ZERO, SAMPLER},
    {"typical_p", ONE, SAMPLER},
    {"tfs", ONE, SAMPLER},
    {"tfs_z", ONE, SAMPLER},
    {"top_a", ZERO, SAMPLER},
    {"top_n_sigma", NOT_ABOVE_0, SAMPLER},
    {"mirostat", ZERO, SAMPLER},
    {"mirostat_mode", ZERO, SAMPLER},
    {"dynatemp_range", ZERO, SAMPLER},
    {"dry_multiplier", ZERO, SAMPLER},
    {"smoothing_factor", ZERO, SAMPLER},
    {"epsilon_cutoff", ZERO, SAMPLER},
    {"eta_cutoff", ZERO, SAMPLER},
    {"penalty_alpha", ZERO, SAMPLER},
    {"guidance_scale", ONE, SAMPLER},
    {"adaptive_target", NOT_ABOVE_0, SAMPLER},
    {"audio", NOTHING, "not served"},
    {"lora_path", EMPTY, "use adapter"},
};

static bool is_number(const json_t *v, double n)
{
    return json_is_number(v) && json_number_value(v) == n;
}

static bool says_nothing(const json_t *v, harmless unless)
{
    switch (unless) {
    case NOTHING: return false;
    case FALSE: return json_is_false(v);
    case TRUE: return json_is_true(v);
    case EMPTY:
        return (json_is_array(v) && json_array_size(v) == 0) || (json_is_string(v) && json_string_length(v) == 0);
    case TEXT: return json_is_string(v) && strcmp(json_string_value(v), "text") == 0;
    case RAW: return json_is_string(v) && strncmp(json_string_value(v), "raw", 3) == 0;
    case ZERO: return is_number(v, 0);
    case ONE: return is_number(v, 1);
    case NOT_ABOVE_0: return json_is_number(v) && json_number_value(v) <= 0;
    }
    return false;
}

static void refuse_unserved(fields *f)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = field(f, refused[i].name);
        if (v != NULL && !says_nothing(v, refused[i].unless))
            (void)field_wrong(f, refused[i].name, "%s", refused[i].why);
    }
    const json_t *modalities = field(f, "modalities");
    for (size_t i = 0; i < json_array_size(modalities); i++)
        if (!says_nothing(json_array_get(modalities, i), TEXT))
            (void)field_wrong(f, "modalities", "only \"text\" is served");
}

/* ---- how tokens are drawn ---- */

static void read_window(fields *f, const char *name, uint32_t *out)
{
    int64_t n;
    if (field_whole(f, name, 0, 1 << 30, &n)) *out = (uint32_t)n;
}

static void read_penalties(fields *f, weir_sample_params *p)
{
    (void)field_real(f, "presence_penalty", -2, 2, &p->presence_penalty);
    (void)field_real(f, "frequency_penalty", -2, 2, &p->frequency_penalty);
    (void)field_real(f, "repetition_penalty", 0.01, 100, &p->repetition_penalty);
    read_window(f, "presence_context_size", &p->presence_window);
    read_window(f, "frequency_context_size", &p->frequency_window);
    read_window(f, "repetition_context_size", &p->repetition_window);
    if (field_real(f, "repeat_penalty", 0.01, 100, &p->repetition_penalty)) { /* llama.cpp's: all see the prompt */
        uint32_t last = 64;
        read_window(f, "repeat_last_n", &last);
        p->repetition_window = p->presence_window = p->frequency_window = last;
        p->penalize_prompt                                              = true;
    }
}

static void read_sampling(fields *f, weir_sample_params *p)
{
    int64_t n;
    (void)field_real(f, "temperature", 0, 5, &p->temperature);
    (void)field_real(f, "top_p", 0, 1, &p->top_p);
    (void)field_real(f, "min_p", 0, 1, &p->min_p);
    if (field_whole(f, "top_k", -1, 1 << 30, &n)) p->top_k = (int32_t)n;
    (void)field_real(f, "xtc_probability", 0, 1, &p->xtc_probability);
    (void)field_real(f, "xtc_threshold", 0, 1, &p->xtc_threshold);
    if (field_whole(f, "min_tokens", 0, 1 << 30, &n)) p->min_tokens = (uint32_t)n;
    (void)field_bool(f, "ignore_eos", &p->ignore_eos);
    read_penalties(f, p);
    /* One seed for all choices, each with numbers of its own.  Below 0 is as good as none. */
    p->fresh_seed = false;
    if (field_whole(f, "seed", INT64_MIN, INT64_MAX, &n) && n >= 0)
        p->seed = (uint64_t)n;
    else
        p->seed = random_seed();
}

static void read_bias(const server *s, fields *f, job_options *o)
{
    const json_t *map;
    if (!field_object(f, "logit_bias", &map)) return;
    const size_t n = json_object_size(map);
    if (n > MAX_BIAS) {
        (void)field_wrong(f, "logit_bias", "expected at most %d members, found %zu", MAX_BIAS, n);
        return;
    }
    o->bias = mem_alloc(n + 1, sizeof *o->bias); /* one more for tool_choice */
    if (o->bias == NULL) {
        (void)field_wrong(f, "logit_bias", "out of memory");
        return;
    }
    json_t *each = (json_t *)(uintptr_t)map; /* iterating takes it without const */
    for (void *it = json_object_iter(each); it != NULL; it = json_object_iter_next(each, it)) {
        const char         *key = json_object_iter_key(it);
        const json_t       *v   = json_object_iter_value(it);
        char               *end;
        const unsigned long id = strtoul(key, &end, 10);
        if (key[0] < '0' || key[0] > '9' || *end != '\0' || id >= s->model.vocab_size) {
            (void)field_wrong(f, "logit_bias", "expected token ids below %u as keys, found \"%.40s\"",
                              s->model.vocab_size, key);
            return;
        }
        for (size_t i = 0; i < o->n_bias; i++)
            if (o->bias[i].id == id) {
                (void)field_wrong(f, "logit_bias", "expected every id once, found \"%.40s\" again", key);
                return;
            }
        if (!json_is_number(v) || !(fabs(json_number_value(v)) <= 100)) {
            (void)field_wrong(f, "logit_bias", "expected numbers from -100 to 100, found another for \"%.40s\"", key);
            return;
        }
        o->bias[o->n_bias++] = (weir_logit_bias){(uint32_t)id, (float)json_number_value(v)};
    }
}

/* ---- where it ends ---- */

static void add_stop(fields *f, const json_t *text, job_options *o)
{
    if (!json_is_string(text)) {
        (void)field_wrong(f, "stop", "expected a string or strings, found %s", json_kind(text));
        return;
    }
    const size_t n = json_string_length(text);
    if (n == 0) return;
    if (n > MAX_STOP_BYTES) {
        (void)field_wrong(f, "stop", "expected at most %d bytes, found %zu", MAX_STOP_BYTES, n);
        return;
    }
    if (o->n_stop == JOB_MAX_STOPS) {
        (void)field_wrong(f, "stop", "expected at most %d strings", JOB_MAX_STOPS);
        return;
    }
    o->stop[o->n_stop] = mem_strdup(json_string_value(text));
    if (o->stop[o->n_stop] == NULL)
        (void)field_wrong(f, "stop", "out of memory");
    else
        o->n_stop++;
}

static void read_end(fields *f, job_options *o)
{
    const json_t *stop = field(f, "stop");
    int64_t       n;
    if (json_is_array(stop))
        for (size_t i = 0; i < json_array_size(stop); i++) add_stop(f, json_array_get(stop, i), o);
    else if (stop != NULL)
        add_stop(f, stop, o);
    static const char *const names[] = {"max_tokens", "max_completion_tokens"}; /* the later one wins */
    for (size_t i = 0; i < 2; i++) {
        if (!field_whole(f, names[i], 0, INT32_MAX, &n)) continue;
        o->max_tokens       = (uint32_t)n;
        o->max_tokens_given = true;
    }
}

static void read_stop_ids(const server *s, fields *f, job_options *o)
{
    const json_t *ids;
    (void)field_bool(f, "include_stop_str_in_output", &o->include_stop);
    if (!field_array(f, "stop_token_ids", JOB_MAX_STOP_IDS, &ids)) return;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *v = json_array_get(ids, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= s->model.vocab_size) {
            (void)field_wrong(f, "stop_token_ids", "expected token ids below %u, found another at %zu",
                              s->model.vocab_size, i);
            return;
        }
        o->stop_ids[o->n_stop_ids++] = (uint32_t)json_integer_value(v);
    }
}

/* ---- how much is reasoned ---- */

static int64_t budget(const serve_options *o, fields *f)
{
    /* Those of vLLM, llama.cpp (two) and DashScope; the first that is there counts. */
    static const char *const names[] = {"thinking_token_budget", "reasoning_budget", "thinking_budget_tokens",
                                        "thinking_budget"};
    int64_t                  n       = -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (field_whole(f, names[i], -1, INT32_MAX, &n)) return n;
    return o->limit_reasoning ? (int64_t)o->reasoning_budget : -1;
}

/* A reply whose length is limited keeps some of it for the answer. */
static void read_budget(const server *s, fields *f, job_options *o)
{
    const int64_t  given   = budget(s->o, f);
    const uint32_t reserve = s->o->answer_reserve;
    o->limit_reasoning     = given >= 0;
    o->reasoning_budget    = given >= 0 ? (uint32_t)given : 0;
    if (o->limit_reasoning || reserve == 0 || !o->max_tokens_given) return;
    o->limit_reasoning  = true;
    o->reasoning_budget = o->max_tokens > reserve ? o->max_tokens - reserve : 0;
}

static void read_priority(fields *f, job_options *o)
{
    const json_t *v = field(f, "priority");
    int64_t       n;
    if (json_is_string(v)) {
        const char *word = json_string_value(v);
        if (strcmp(word, "low") == 0)
            o->priority = -50;
        else if (strcmp(word, "high") == 0)
            o->priority = 50;
        else if (strcmp(word, "normal") != 0)
            (void)field_wrong(f, "priority", "expected low, normal, high or -100 to 100, found \"%.40s\"", word);
    } else if (field_whole(f, "priority", -100, 100, &n)) {
        o->priority = (int32_t)n;
    }
}

bool generation_read(const server *s, const json_t *body, job_options *o, api_error *err)
{
    fields     f = {.object = body, .where = "", .err = err};
    reply_form form;
    int64_t    n     = 1;
    bool       cache = true;
    *o               = (job_options){.sample = s->o->sample};
    refuse_unserved(&f);
    read_sampling(&f, &o->sample);
    read_bias(s, &f, o);
    read_end(&f, o);
    read_stop_ids(s, &f, o);
    read_budget(s, &f, o);
    (void)field_whole(&f, "n", 1, WEIR_MAX_CHOICES, &n);
    o->n = (uint32_t)n;
    (void)field_bool(&f, "cache_prompt", &cache);
    o->no_cache = !cache;
    read_priority(&f, o);
    return !f.failed && choose_adapters(s, body, o, err) && form_read(body, &form, err) &&
           form_apply(s->o->model, &form, o, err);
}
