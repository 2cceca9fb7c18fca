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
    channel_tags t = {
        .open = CHANNEL_NO_ID, .close = CHANNEL_NO_ID, .tool = CHANNEL_NO_ID, .tool_close = CHANNEL_NO_ID};
    if (raw) return t;
    t.open       = special_id(m, "<think>");
    t.close      = special_id(m, "</think>");
    t.tool       = special_id(m, "<tool_call>");
    t.tool_close = special_id(m, "</tool_call>");
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

enum { MAX_STOP_IDS = 64 };

/* A list of ids among the options. */
static weir_status check_ids(const generation *g, const char *name, const uint32_t *ids, size_t n, weir_error *err)
{
    const uint32_t valid = model_valid_ids(g->e->source);
    if (n > 0 && ids == NULL) return status_fail(err, WEIR_INVALID, "%s: expected token ids, found NULL", name);
    if (n > g->e->info.max_context)
        return status_fail(err, WEIR_INVALID, "%s: expected at most %u token ids, found %zu", name,
                           g->e->info.max_context, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= valid)
            return status_fail(err, WEIR_INVALID, "%s[%zu]: expected a token id below %u, found %u", name, i, valid,
                               ids[i]);
    return WEIR_OK;
}

static weir_status script_add(generation *g, const uint32_t *ids, size_t n, weir_error *err)
{
    for (size_t i = 0; i < n; i++) TRY(token_ids_push(&g->script, ids[i], err));
    return WEIR_OK;
}

/* What closes the reasoning; nothing in a model that has none. */
static weir_status script_close(generation *g, weir_error *err)
{
    static const char            usual[] = "\n</think>\n\n";
    const weir_generate_options *opt     = &g->opt;
    const uint32_t               id      = g->channel.tags.close;
    if (id == CHANNEL_NO_ID) return WEIR_OK;
    if (opt->reasoning_close != NULL)
        TRY(script_add(g, opt->reasoning_close, opt->n_reasoning_close, err));
    else
        TRY(tokenizer_encode(g->e->source->tok, usual, strlen(usual), NULL, true, &g->script, err));
    while (g->n_closed < g->script.n && g->script.ids[g->n_closed] != id) g->n_closed++;
    if (g->n_closed == g->script.n)
        return status_fail(err, WEIR_INVALID, "reasoning_close: expected the id of </think> (%u), found others", id);
    g->n_closed++;
    g->n_close = g->script.n;
    return WEIR_OK;
}

/* From `position` on the script is told, from its index `from` to the end; the prefix only once. */
static void force(generation *g, size_t from, uint32_t position)
{
    g->forced    = from;
    g->n_forced  = (g->began ? g->n_close : g->script.n) - from;
    g->forced_at = position;
    g->began     = true;
}

static weir_status start_script(generation *g, weir_error *err)
{
    const weir_generate_options *opt = &g->opt;
    g->forced_at                     = UINT32_MAX;
    TRY(check_ids(g, "reasoning_close", opt->reasoning_close, opt->n_reasoning_close, err));
    TRY(check_ids(g, "prefix", opt->prefix, opt->n_prefix, err));
    TRY(check_ids(g, "stop_ids", opt->stop_ids, opt->n_stop_ids, err));
    if (opt->n_stop_ids > MAX_STOP_IDS)
        return status_fail(err, WEIR_INVALID, "stop_ids: expected at most %d, found %zu", MAX_STOP_IDS,
                           opt->n_stop_ids);
    if (opt->n_prefix > 0 && opt->grammar != NULL)
        return status_fail(err, WEIR_INVALID, "prefix: a grammar says what the content begins with");
    if (!opt->limit_reasoning && opt->n_prefix == 0) return WEIR_OK;
    TRY(script_close(g, err));
    TRY(script_add(g, opt->prefix, opt->n_prefix, err));
    if (!g->channel.reasoning)
        force(g, g->n_close, g->prompt_length);
    else if (opt->limit_reasoning && opt->reasoning_budget == 0 && g->n_close > 0)
        force(g, 0, g->prompt_length);
    return WEIR_OK;
}

/* The id that is told for a position; false when it is to be drawn. */
static bool told(const generation *g, uint32_t position, uint32_t *id)
{
    if (position < g->forced_at || position - g->forced_at >= g->n_forced) return false;
    *id = g->script.ids[g->forced + (position - g->forced_at)];
    return true;
}

/* After a token, which closed the reasoning or did not: whether others follow that are told. */
static void look_ahead(generation *g, bool closed, uint32_t next)
{
    const weir_generate_options *opt = &g->opt;
    uint32_t                     id;
    if (told(g, next, &id)) return;
    const bool too_long = opt->limit_reasoning && g->result.reasoning_tokens >= opt->reasoning_budget;
    if (g->channel.reasoning && too_long && g->n_close > 0)
        force(g, 0, next);
    else if (closed && opt->n_prefix > 0 && !g->began)
        force(g, g->n_closed, next);
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
    g->result.stop_id = UINT32_MAX;
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
    TRY(start_script(g, err));
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
    token_ids_free(&g->script);
    constraint_free(g->form);
    constraint_free(g->ahead);
}

weir_status generation_draw(const generation *g, constraint *form, const float *logits, const uint32_t *tokens,
                            uint32_t position, sample_workspace *ws, uint32_t *id, weir_error *err)
{
    if (told(g, position, id)) return WEIR_OK;
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

/* The reply ends with this id, which is no part of it. */
static bool ends_reply(const generation *g, uint32_t id)
{
    for (size_t i = 0; i < g->opt.n_stop_ids; i++)
        if (g->opt.stop_ids[i] == id) return true;
    return is_eos(g, id) && !g->sample.ignore_eos;
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
    if (g->channel.tool != CHANNEL_NO_TOOL) { /* and not about calls */
        const stop_output before = stop_finish(&g->stop);
        str_put(&g->text, before.held, before.n_held);
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
    uint32_t         same;
    const bool       last = id == UINT32_MAX;
    const weir_token t    = {.id        = id,
                             .position  = position,
                             .text      = g->text.data,
                             .text_len  = g->text.len,
                             .reasoning = reasoning,
                             .forced    = !last && told(g, position, &same),
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
    if (ends_reply(g, id)) {
        g->result.finish  = WEIR_FINISH_STOP;
        g->result.stop_id = id;
        return WEIR_OK;
    }
    if (g->form != NULL) TRY(constraint_take(g->form, id, err));
    g->result.tokens++;
    const bool was_reasoning = g->channel.reasoning;
    const bool tag           = channel_token(&g->channel, id);
    const bool call          = was_reasoning && !tag && !g->channel.reasoning; /* its tag ends the reasoning */
    if (was_reasoning && !tag && !call) g->result.reasoning_tokens++;
    str_clear(&g->piece);
    if (has_text(g) && !tag) TRY(detok_push(&g->detok, id, &g->piece, err));
    const bool stopped = show_piece(g);
    TRY(text_status(g, err));
    /* The callback may also have cancelled the request. */
    if (!hand_out(g, id, position, (was_reasoning && !call) || g->channel.reasoning) ||
        g->result.finish == WEIR_FINISH_CANCELLED)
        g->result.finish = WEIR_FINISH_CANCELLED;
    else if (stopped || (g->form != NULL && constraint_complete(g->form)))
        g->result.finish = WEIR_FINISH_STOP;
    else if (g->result.tokens == g->limit)
        g->result.finish = WEIR_FINISH_LENGTH;
    else
        *done = false;
    if (!*done) look_ahead(g, tag && id == g->channel.tags.close, position + 1);
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
