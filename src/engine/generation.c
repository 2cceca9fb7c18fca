/* engine/generation.c - see generation.h. */
#include "engine/generation.h"

#include <string.h>

enum { MAX_TEXT = 1 << 20 };

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

static weir_status collect_newlines(generation *g, weir_error *err)
{
    const tokenizer *t = g->e->source->tok;
    for (uint32_t id = 0; t != NULL && id < tokenizer_size(t); id++) {
        size_t         len;
        const uint8_t *bytes = tokenizer_bytes(t, id, &len);
        if (bytes != NULL && memchr(bytes, '\n', len) != NULL) TRY(token_ids_push(&g->newlines, id, err));
    }
    return WEIR_OK;
}

static weir_status start_stops(generation *g, weir_error *err)
{
    const weir_generate_options *opt = &g->opt;
    if (opt->n_stop > STOP_MAX_STRINGS)
        return status_fail(err, WEIR_INVALID, "stop: expected at most %d strings, found %zu", STOP_MAX_STRINGS,
                           opt->n_stop);
    if (opt->n_stop > 0 && opt->stop == NULL)
        return status_fail(err, WEIR_INVALID, "stop: expected strings, found NULL");
    if (g->e->source->tok == NULL && opt->n_stop > 0)
        return status_fail(err, WEIR_UNSUPPORTED, "stop: the model has no tokenizer");
    stop_string strings[STOP_MAX_STRINGS];
    for (size_t i = 0; i < opt->n_stop; i++) strings[i] = (stop_string){opt->stop[i], strlen(opt->stop[i])};
    return stop_init(&g->stop, strings, opt->n_stop, false, err);
}

static weir_status start_sampling(generation *g, weir_error *err)
{
    const weir_sample_params greedy = WEIR_SAMPLE_PARAMS_INIT;
    g->sample                       = g->opt.sample != NULL ? *g->opt.sample : greedy;
    if (g->opt.sample == NULL) g->sample.temperature = 0;
    TRY(weir_sample_params_check(&g->sample, g->e->m.config.vocab_size, err));
    if (g->sample.fresh_seed && g->sample.temperature > 0) TRY(sample_fresh_seed(&g->sample.seed, err));
    return g->sample.xtc_probability > 0 ? collect_newlines(g, err) : WEIR_OK;
}

/* The drafts have a place of their own: what is guessed never moves the reply's. */
static weir_status start_form(generation *g, const channel_tags *tags, weir_error *err)
{
    if (g->opt.grammar == NULL) return WEIR_OK;
    const weir_model *m         = g->e->source;
    const bool        reasoning = g->channel.reasoning;
    TRY(constraint_new(&g->form, g->opt.grammar, m, tags, reasoning, err));
    return constraint_new(&g->ahead, g->opt.grammar, m, tags, reasoning, err);
}

weir_status generation_start(generation *g, const weir_engine *e, const weir_generate_options *opt,
                             uint32_t prompt_length, weir_token_fn *fn, void *user, weir_error *err)
{
    const weir_generate_options none = WEIR_GENERATE_OPTIONS_INIT;
    *g = (generation){.e = e, .opt = opt != NULL ? *opt : none, .fn = fn, .user = user, .prompt_length = prompt_length};
    str_init(&g->piece, MAX_TEXT);
    str_init(&g->shown, MAX_TEXT);
    str_init(&g->text, MAX_TEXT);
    if (g->opt.size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "weir_generate_options.size: expected %zu, found %zu", sizeof *opt,
                           g->opt.size);
    const channel_tags tags = tags_of(e->source, g->opt.raw);
    channel_init(&g->channel, &tags, g->opt.thinking_open && tags.open != CHANNEL_NO_ID);
    if (g->opt.top_logprobs > LOGPROBS_MAX_TOP)
        return status_fail(err, WEIR_INVALID, "top_logprobs: expected at most %d, found %u", LOGPROBS_MAX_TOP,
                           g->opt.top_logprobs);
    TRY(start_form(g, &tags, err));
    TRY(start_stops(g, err));
    TRY(start_sampling(g, err));
    if (e->source->tok != NULL) detok_init(&g->detok, e->source->tok, !g->opt.keep_special);
    /* The last token is sampled and not read, so it needs no room. */
    const uint32_t room = e->info.max_context - prompt_length + 1;
    g->limit            = g->opt.max_tokens != 0 && g->opt.max_tokens < room ? g->opt.max_tokens : room;
    return WEIR_OK;
}

void generation_end(generation *g)
{
    str_free(&g->piece);
    str_free(&g->shown);
    str_free(&g->text);
    channel_free(&g->channel);
    stop_free(&g->stop);
    token_ids_free(&g->newlines);
    constraint_free(g->form);
    constraint_free(g->ahead);
}

weir_status generation_draw(const generation *g, constraint *form, const float *logits, const uint32_t *tokens,
                            uint32_t position, sample_workspace *ws, uint32_t *id, weir_error *err)
{
    const weir_model *m       = g->e->source;
    const uint64_t   *allowed = m->allowed;
    if (form != NULL) TRY(constraint_mask(form, &allowed, err));
    const sample_input in = {.logits      = logits,
                             .n_logits    = g->e->m.config.vocab_size,
                             .n_valid     = model_valid_ids(m),
                             .params      = &g->sample,
                             .prompt      = tokens,
                             .n_prompt    = g->prompt_length,
                             .generated   = tokens + g->prompt_length,
                             .n_generated = position - g->prompt_length,
                             .position    = position,
                             .eos         = m->eos,
                             .n_eos       = m->n_eos,
                             .newlines    = g->newlines.ids,
                             .n_newlines  = g->newlines.n,
                             .allowed     = allowed};
    return sample_token(id, &in, ws, err);
}

weir_status generation_guess(generation *g, uint32_t n, const float *logits, const uint32_t *tokens, uint32_t position,
                             sample_workspace *ws, uint32_t *id, weir_error *err)
{
    if (g->form != NULL && n == 0) constraint_copy(g->ahead, g->form);
    TRY(generation_draw(g, g->ahead, logits, tokens, position, ws, id, err));
    return g->ahead != NULL ? constraint_take(g->ahead, *id, err) : WEIR_OK;
}

uint32_t generation_allowed(generation *g, const uint32_t *drafts, uint32_t n)
{
    uint32_t good = 0;
    if (g->form == NULL) return n;
    constraint_copy(g->ahead, g->form);
    while (good < n && constraint_take(g->ahead, drafts[good], NULL) == WEIR_OK) good++;
    return good;
}

static weir_status note_logprobs(generation *g, const float *logits, uint32_t id, weir_error *err)
{
    TRY(logprobs_compute(&g->probs, logits, model_valid_ids(g->e->source), id, g->opt.top_logprobs, err));
    for (uint32_t i = 0; i < g->probs.n_top; i++)
        g->top[i] = (weir_logprob){g->probs.top[i].id, (float)g->probs.top[i].logprob};
    return WEIR_OK;
}

static bool is_eos(const generation *g, uint32_t id)
{
    const weir_model *m = g->e->source;
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id) return true;
    return false;
}

/* g->piece through channel and stop matcher into g->text; true when a stop string was found. */
static bool show_piece(generation *g)
{
    str_clear(&g->shown);
    str_clear(&g->text);
    channel_text(&g->channel, g->piece.data, g->piece.len, &g->shown);
    if (g->channel.reasoning) { /* stop strings are about the answer */
        str_put(&g->text, g->shown.data, g->shown.len);
        return false;
    }
    const stop_output o = stop_push(&g->stop, g->shown.data, g->shown.len);
    str_put(&g->text, o.held, o.n_held);
    str_put(&g->text, g->shown.data, o.n_piece);
    if (o.stopped) g->result.stop = g->opt.stop[o.which];
    return o.stopped;
}

/* Text lost on the way would be lost silently: all its stations are asked. */
static weir_status text_status(const generation *g, weir_error *err)
{
    const str *stations[] = {&g->piece, &g->channel.held, &g->shown, &g->text};
    for (size_t i = 0; i < sizeof stations / sizeof *stations; i++) TRY(str_status(stations[i], "reply", err));
    return WEIR_OK;
}

static bool hand_out(generation *g, uint32_t id, uint32_t position, bool reasoning)
{
    const bool       last = id == UINT32_MAX;
    const weir_token t    = {.id        = id,
                             .position  = position,
                             .text      = g->text.data,
                             .text_len  = g->text.len,
                             .reasoning = reasoning,
                             .logprob   = g->opt.logprobs && !last ? (float)g->probs.chosen.logprob : 0.0f,
                             .top       = g->top,
                             .n_top     = g->opt.logprobs && !last ? g->probs.n_top : 0};
    return g->fn == NULL || g->fn(g->user, &t);
}

static bool has_text(const generation *g)
{
    return g->e->source->tok != NULL;
}

/* One sampled token; *done tells that the reply ends with it. */
static weir_status take_token(generation *g, uint32_t id, uint32_t position, bool *done, weir_error *err)
{
    *done = true;
    if (is_eos(g, id) && !g->sample.ignore_eos) {
        g->result.finish = WEIR_FINISH_STOP;
        return WEIR_OK;
    }
    if (g->form != NULL) TRY(constraint_take(g->form, id, err));
    g->result.tokens++;
    const bool was_reasoning = g->channel.reasoning;
    const bool tag           = channel_token(&g->channel, id);
    if (was_reasoning && !tag) g->result.reasoning_tokens++;
    str_clear(&g->piece);
    if (has_text(g) && !tag) TRY(detok_push(&g->detok, id, &g->piece, err));
    const bool stopped = show_piece(g);
    TRY(text_status(g, err));
    /* The callback may also have cancelled the request. */
    if (!hand_out(g, id, position, was_reasoning || g->channel.reasoning) || g->result.finish == WEIR_FINISH_CANCELLED)
        g->result.finish = WEIR_FINISH_CANCELLED;
    else if (stopped || (g->form != NULL && constraint_complete(g->form)))
        g->result.finish = WEIR_FINISH_STOP;
    else if (g->result.tokens == g->limit)
        g->result.finish = WEIR_FINISH_LENGTH;
    else
        *done = false;
    return WEIR_OK;
}

/* What is still held back: half a character, and the beginning of a stop string. */
static weir_status flush(generation *g, uint32_t position, weir_error *err)
{
    if (g->result.finish == WEIR_FINISH_CANCELLED) return WEIR_OK;
    str_clear(&g->piece);
    str_clear(&g->text);
    if (has_text(g) && g->result.stop == NULL) {
        detok_flush(&g->detok, &g->piece);
        (void)show_piece(g);
        const stop_output o = stop_finish(&g->stop);
        str_put(&g->text, o.held, o.n_held);
    }
    TRY(text_status(g, err));
    (void)hand_out(g, UINT32_MAX, position, g->channel.reasoning);
    return WEIR_OK;
}

weir_status generation_next(generation *g, const float *logits, const uint32_t *tokens, uint32_t position,
                            sample_workspace *ws, uint32_t *id, bool *done, weir_error *err)
{
    TRY(generation_draw(g, g->form, logits, tokens, position, ws, id, err));
    if (g->opt.logprobs) TRY(note_logprobs(g, logits, *id, err));
    TRY(take_token(g, *id, position, done, err));
    return *done ? flush(g, position, err) : WEIR_OK;
}
