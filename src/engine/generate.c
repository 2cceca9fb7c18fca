/* engine/generate.c - weir/generate.h: sample, show, feed back.
 *
 * Every token takes the same path: count it, compare with the end ids, move
 * the channel, detokenize, look for stop strings, hand out. */
#include "base/mem.h"
#include "engine/channel.h"
#include "engine/engine_parts.h"
#include "engine/logprobs.h"
#include "engine/stop.h"
#include "text/detok.h"

#include <string.h>

enum { MAX_TEXT = 1 << 20 };

typedef struct run {
    weir_sequence               *s;
    const weir_generate_options *opt;
    weir_sample_params           sample;
    weir_token_fn               *fn;
    void                        *user;
    weir_generate_result         result;
    uint32_t                     prompt_length, limit; /* most tokens to sample */
    detok                        detok;
    bool                         has_text; /* the model has a tokenizer */
    channel                      channel;
    stop_matcher                 stop;
    str                          piece, shown, text; /* of one token: decoded, in its channel, past the stop matcher */
    token_ids                    newlines;           /* ids whose text has a line break; XTC leaves them alone */
    logprobs                     probs;
    weir_logprob                 top[LOGPROBS_MAX_TOP];
} run;

static uint32_t special_id(const weir_model *m, const char *text)
{
    uint32_t id;
    return m->tok != NULL && tokenizer_id(m->tok, text, &id) ? id : CHANNEL_NO_ID;
}

/* Raw text has no tags: what looks like one is text. */
static channel_tags tags_of(const weir_model *m, bool raw)
{
    channel_tags t = {.open = CHANNEL_NO_ID, .close = CHANNEL_NO_ID, .tool = CHANNEL_NO_ID};
    if (raw) return t;
    t.open  = special_id(m, "<think>");
    t.close = special_id(m, "</think>");
    t.tool  = special_id(m, "<tool_call>");
    return t;
}

static weir_status collect_newlines(run *r, weir_error *err)
{
    const tokenizer *t = r->s->e->source->tok;
    for (uint32_t id = 0; t != NULL && id < tokenizer_size(t); id++) {
        size_t         len;
        const uint8_t *bytes = tokenizer_bytes(t, id, &len);
        if (bytes != NULL && memchr(bytes, '\n', len) != NULL) TRY(token_ids_push(&r->newlines, id, err));
    }
    return WEIR_OK;
}

static weir_status run_start(run *r, weir_error *err)
{
    const weir_model            *m   = r->s->e->source;
    const weir_generate_options *opt = r->opt;
    str_init(&r->piece, MAX_TEXT);
    str_init(&r->shown, MAX_TEXT);
    str_init(&r->text, MAX_TEXT);
    const channel_tags tags = tags_of(m, opt->raw);
    channel_init(&r->channel, &tags, opt->thinking_open && tags.open != CHANNEL_NO_ID);
    if (opt->top_logprobs > LOGPROBS_MAX_TOP)
        return status_fail(err, WEIR_INVALID, "top_logprobs: expected at most %d, found %u", LOGPROBS_MAX_TOP,
                           opt->top_logprobs);
    if (opt->n_stop > STOP_MAX_STRINGS)
        return status_fail(err, WEIR_INVALID, "stop: expected at most %d strings, found %zu", STOP_MAX_STRINGS,
                           opt->n_stop);
    if (opt->n_stop > 0 && opt->stop == NULL)
        return status_fail(err, WEIR_INVALID, "stop: expected strings, found NULL");
    if (m->tok == NULL && opt->n_stop > 0)
        return status_fail(err, WEIR_UNSUPPORTED, "stop: the model has no tokenizer");
    stop_string strings[STOP_MAX_STRINGS];
    for (size_t i = 0; i < opt->n_stop; i++) strings[i] = (stop_string){opt->stop[i], strlen(opt->stop[i])};
    TRY(stop_init(&r->stop, strings, opt->n_stop, false, err));

    const weir_sample_params greedy = WEIR_SAMPLE_PARAMS_INIT;
    r->sample                       = opt->sample != NULL ? *opt->sample : greedy;
    if (opt->sample == NULL) r->sample.temperature = 0;
    TRY(weir_sample_params_check(&r->sample, r->s->e->m.config.vocab_size, err));
    if (r->sample.fresh_seed && r->sample.temperature > 0) TRY(sample_fresh_seed(&r->sample.seed, err));
    if (r->sample.xtc_probability > 0) TRY(collect_newlines(r, err));

    r->has_text      = m->tok != NULL;
    r->prompt_length = weir_sequence_length(r->s);
    if (r->has_text) detok_init(&r->detok, m->tok, !opt->keep_special);
    /* The last token is sampled and not read, so it needs no room. */
    const uint32_t room = r->s->e->info.max_context - r->prompt_length + 1;
    r->limit            = opt->max_tokens != 0 && opt->max_tokens < room ? opt->max_tokens : room;
    return WEIR_OK;
}

static void run_end(run *r)
{
    str_free(&r->piece);
    str_free(&r->shown);
    str_free(&r->text);
    channel_free(&r->channel);
    stop_free(&r->stop);
    token_ids_free(&r->newlines);
}

static weir_status draw(run *r, uint32_t *id, weir_error *err)
{
    const weir_model  *m      = r->s->e->source;
    const uint32_t     length = weir_sequence_length(r->s);
    const sample_input in     = {.logits      = r->s->logits,
                                 .n_logits    = r->s->e->m.config.vocab_size,
                                 .n_valid     = model_valid_ids(m),
                                 .params      = &r->sample,
                                 .prompt      = weir_sequence_tokens(r->s),
                                 .n_prompt    = r->prompt_length,
                                 .generated   = weir_sequence_tokens(r->s) + r->prompt_length,
                                 .n_generated = length - r->prompt_length,
                                 .position    = length,
                                 .eos         = m->eos,
                                 .n_eos       = m->n_eos,
                                 .newlines    = r->newlines.ids,
                                 .n_newlines  = r->newlines.n,
                                 .allowed     = m->allowed};
    TRY(sample_token(id, &in, &r->s->e->sampler, err));
    if (!r->opt->logprobs) return WEIR_OK;
    TRY(logprobs_compute(&r->probs, r->s->logits, in.n_valid, *id, r->opt->top_logprobs, err));
    for (uint32_t i = 0; i < r->probs.n_top; i++)
        r->top[i] = (weir_logprob){r->probs.top[i].id, (float)r->probs.top[i].logprob};
    return WEIR_OK;
}

static bool is_eos(const run *r, uint32_t id)
{
    const weir_model *m = r->s->e->source;
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

/* r->piece through channel and stop matcher into r->text; true when a stop string was found. */
static bool show_piece(run *r)
{
    str_clear(&r->shown);
    str_clear(&r->text);
    channel_text(&r->channel, r->piece.data, r->piece.len, &r->shown);
    if (r->channel.reasoning) { /* stop strings are about the answer */
        str_put(&r->text, r->shown.data, r->shown.len);
        return false;
    }
    const stop_output o = stop_push(&r->stop, r->shown.data, r->shown.len);
    str_put(&r->text, o.held, o.n_held);
    str_put(&r->text, r->shown.data, o.n_piece);
    if (o.stopped) r->result.stop = r->opt->stop[o.which];
    return o.stopped;
}

/* Text lost on the way would be lost silently: all its stations are asked. */
static weir_status text_status(const run *r, weir_error *err)
{
    const str *stations[] = {&r->piece, &r->channel.held, &r->shown, &r->text};
    for (size_t i = 0; i < sizeof stations / sizeof *stations; i++) TRY(str_status(stations[i], "reply", err));
    return WEIR_OK;
}

static bool hand_out(run *r, uint32_t id, bool reasoning)
{
    const bool       last = id == UINT32_MAX;
    const weir_token t    = {.id        = id,
                             .position  = weir_sequence_length(r->s),
                             .text      = r->text.data,
                             .text_len  = r->text.len,
                             .reasoning = reasoning,
                             .logprob   = r->opt->logprobs && !last ? (float)r->probs.chosen.logprob : 0.0f,
                             .top       = r->top,
                             .n_top     = r->opt->logprobs && !last ? r->probs.n_top : 0};
    return r->fn == NULL || r->fn(r->user, &t);
}

/* One sampled token; *done tells that the reply ends with it. */
static weir_status take_token(run *r, uint32_t id, bool *done, weir_error *err)
{
    *done = true;
    if (is_eos(r, id) && !r->sample.ignore_eos) {
        r->result.finish = WEIR_FINISH_STOP;
        return WEIR_OK;
    }
    r->result.tokens++;
    const bool was_reasoning = r->channel.reasoning;
    const bool tag           = channel_token(&r->channel, id);
    if (was_reasoning && !tag) r->result.reasoning_tokens++;
    str_clear(&r->piece);
    if (r->has_text && !tag) TRY(detok_push(&r->detok, id, &r->piece, err));
    const bool stopped = show_piece(r);
    TRY(text_status(r, err));
    if (!hand_out(r, id, was_reasoning || r->channel.reasoning))
        r->result.finish = WEIR_FINISH_CANCELLED;
    else if (stopped)
        r->result.finish = WEIR_FINISH_STOP;
    else if (r->result.tokens == r->limit)
        r->result.finish = WEIR_FINISH_LENGTH;
    else
        *done = false;
    return WEIR_OK;
}

/* What is still held back: half a character, and the beginning of a stop string. */
static weir_status flush(run *r, weir_error *err)
{
    if (r->result.finish == WEIR_FINISH_CANCELLED) return WEIR_OK;
    str_clear(&r->piece);
    str_clear(&r->text);
    if (r->has_text && r->result.stop == NULL) {
        detok_flush(&r->detok, &r->piece);
        (void)show_piece(r);
        const stop_output o = stop_finish(&r->stop);
        str_put(&r->text, o.held, o.n_held);
    }
    TRY(text_status(r, err));
    (void)hand_out(r, UINT32_MAX, r->channel.reasoning);
    return WEIR_OK;
}

static weir_status loop(run *r, weir_error *err)
{
    for (;;) {
        uint32_t id;
        bool     done;
        TRY(draw(r, &id, err));
        TRY(take_token(r, id, &done, err));
        if (done) return flush(r, err);
        TRY(weir_sequence_append(r->s, &id, 1, NULL, NULL, err));
    }
}

weir_status weir_generate(weir_sequence *s, const weir_generate_options *opt, weir_token_fn *fn, void *user,
                          weir_generate_result *result, weir_error *err)
{
    const weir_generate_options none = WEIR_GENERATE_OPTIONS_INIT;
    if (opt == NULL) opt = &none;
    if (opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "weir_generate_options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    if (weir_sequence_length(s) == 0)
        return status_fail(err, WEIR_INVALID, "generate: expected a sequence that has read something");
    run         r  = {.s = s, .opt = opt, .fn = fn, .user = user};
    weir_status st = run_start(&r, err);
    if (st == WEIR_OK) st = loop(&r, err);
    run_end(&r);
    if (result != NULL) *result = r.result;
    return st;
}
