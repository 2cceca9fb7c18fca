/* cli/cmd_run.c - `weir run`: one reply, or a chat (cmd_chat.c). */
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/input.h"
#include "cli/reply.h"
#include "cli/sampling.h"
#include "cli/terminal.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static const arg_option run_options[] = {
    {"--prompt", "-p", ARG_STRING, offsetof(options, prompt), 0, "TEXT", 0, 0,
     "answer this and leave; \"-\" reads the text from stdin, as\nhappens without -p when stdin is no terminal"},
    {"--chat", NULL, ARG_FLAG, offsetof(options, chat), 0, NULL, 0, 0,
     "chat also when stdin is no terminal: a line is a message"},
    {"--raw", NULL, ARG_FLAG, offsetof(options, raw), 0, NULL, 0, 0,
     "continue the text itself, without the chat template"},
    {"--session", NULL, ARG_STRING, offsetof(options, session), 0, "NAME", 0, 0,
     "go on with the conversation of this name, or begin it; it is\nkept with what was read of it, which is not read "
     "again"},
    {"--system", NULL, ARG_STRING, offsetof(options, system), 0, "TEXT", 0, 0, "the system message"},
    {"--think", NULL, ARG_FLAG, offsetof(options, think), 0, NULL, 0, 0, "reason before the answer"},
    {"--no-think", NULL, ARG_FLAG, offsetof(options, no_think), 0, NULL, 0, 0,
     "answer at once (default: as the template has it)"},
    {"--max-tokens", NULL, ARG_U32, offsetof(options, max_tokens), 0, "N", 1, 1 << 30,
     "most tokens of a reply (default: what the context holds)"},
    {"--stop", NULL, ARG_LIST, offsetof(options, stop), 0, "STR", 0, 0,
     "end the reply before this text; may be given 16 times"},
    {"--logprobs", NULL, ARG_U32, offsetof(options, logprobs), offsetof(options, logprobs_given), "N", 0, 20,
     "with --json: the log probability of each token, and of\nthe N likeliest in its place"},
};
static const arg_option form_options[] = {
    {"--json-schema", NULL, ARG_STRING, offsetof(options, json_schema), 0, "FILE", 0, 0,
     "a JSON document that fits the JSON Schema in FILE"},
    {"--regex", NULL, ARG_STRING, offsetof(options, regex), 0, "TEXT", 0, 0,
     "a text that the regular expression matches as a whole"},
    {"--grammar", NULL, ARG_STRING, offsetof(options, grammar), 0, "FILE", 0, 0,
     "a text of the grammar in FILE: rules \"name ::= ...\" that begin\nat root, as llama.cpp has them"},
};
static const arg_group        run_group  = ARG_GROUP("Options", run_options);
static const arg_group        form_group = ARG_GROUP("Form of the reply (one of; reasoning stays free)", form_options);
static const arg_group *const groups[]   = {&run_group,      &form_group,    &options_sampling, &options_adapters,
                                            &options_drafts, &options_cache, &options_common,   NULL};

/* What the command line asks for that cannot be, or that makes no sense. */
static int check(const options *o, bool one_shot)
{
    weir_error err;
    if (session_check_options(o, &err) != WEIR_OK) return cli_usage("run: %s", err.text);
    if (o->think && o->no_think) return cli_usage("run: expected one of --think and --no-think, found both");
    if (o->chat && (o->prompt != NULL || o->raw || o->json))
        return cli_usage("run: --chat goes with none of -p, --raw and --json");
    if (!one_shot && (o->raw || o->json)) return cli_usage("run: %s needs -p TEXT", o->raw ? "--raw" : "--json");
    if (o->raw && o->session != NULL) return cli_usage("run: --raw is no conversation: expected no --session");
    if (o->raw && (o->system != NULL || o->think || o->no_think))
        return cli_usage("run: --raw uses no chat template: expected no --system, --think, --no-think");
    const int forms = (o->grammar != NULL) + (o->json_schema != NULL) + (o->regex != NULL);
    if (forms > 1) return cli_usage("run: expected one of --grammar, --json-schema and --regex, found %d", forms);
    if (forms > 0 && !one_shot) return cli_usage("run: --grammar, --json-schema and --regex need -p TEXT");
    if (o->logprobs_given && !o->json) return cli_usage("run: --logprobs needs --json");
    for (size_t i = 0; i < o->stop.n; i++)
        if (o->stop.items[i][0] == '\0') return cli_usage("run: --stop: expected some text, found \"\"");
    return CLI_OK;
}

/* A prompt that is text, not a chat. */
static weir_status make_raw(const session *s, const char *text, size_t len, weir_prompt *out, weir_error *err)
{
    TRY(weir_tokenize(s->model, text, len, true, &out->ids, err));
    return out->ids.n > 0 ? WEIR_OK : status_fail(err, WEIR_INVALID, "--raw: expected some text, found none");
}

/* A further message of the conversation. */
static weir_status make_chat(const session *s, conversation *c, const char *text, size_t len, weir_prompt *out,
                             weir_error *err)
{
    if (strlen(text) != len) return status_fail(err, WEIR_INVALID, "prompt: expected text, found a NUL byte");
    TRY(conversation_add(c, "user", text, NULL, err));
    return conversation_render(c, s->model, out, err);
}

/* The reply is part of the conversation, also where it was cut short. */
static weir_status keep_reply(const talk *t, conversation *c, const reply *r, weir_error *err)
{
    TRY(conversation_add(c, "assistant", r->text.data, r->reasoning.data, err));
    return talk_keep(t, c, err);
}

static int print_result(const reply *r, const session *s, uint64_t seed)
{
    const weir_request_info    *i = &r->info;
    const weir_generate_result *g = &i->reply;
    json_t                     *o = json_pack(
                            "{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:I, s:O}", "text",
                            cli_json_text(r->text.data, r->text.len), "reasoning", cli_json_text(r->reasoning.data, r->reasoning.len),
                            "tokens", (json_int_t)g->tokens, "reasoning_tokens", (json_int_t)g->reasoning_tokens, "prompt_tokens",
                            (json_int_t)i->prompt_tokens, "cached_tokens", (json_int_t)i->cached_tokens, "drafted", (json_int_t)g->drafted,
                            "accepted", (json_int_t)g->accepted, "finish", reply_finish_name(g->finish), "seconds",
                            i->read_seconds + i->reply_seconds, "load_seconds", s->load_seconds, "prefill_tps", reply_prefill_tps(i),
                            "decode_tps", reply_decode_tps(i), "seed", (json_int_t)seed, "ids", r->ids);
    if (r->logprobs != NULL) (void)json_object_set(o, "logprobs", r->logprobs);
    return cli_print_json(o);
}

/* What follows a reply that came; returns an exit code. */
static int finish_reply(const reply *r, const session *s, const options *o, uint64_t seed)
{
    const weir_generate_result *g = &r->info.reply;
    if (!o->json) (void)fputc('\n', stdout);
    const int code = o->json ? print_result(r, s, seed) : cli_flush();
    if (code != CLI_OK) return code;
    if (g->finish == WEIR_FINISH_LENGTH && !o->json && !o->quiet)
        (void)fputs(r->text.len == 0 && g->reasoning_tokens > 0
                        ? "[cut off while reasoning; --no-think answers at once]\n"
                        : "[cut off]\n",
                    stderr);
    return g->finish == WEIR_FINISH_CANCELLED ? CLI_FAILED : CLI_OK;
}

/* The form that the reply is to have; NULL: none.  weir_grammar_free. */
static weir_status make_grammar(const session *s, const options *o, weir_grammar **out, weir_error *err)
{
    enum { FILE_MOST = 1 << 20 };
    const char *path = o->grammar != NULL ? o->grammar : o->json_schema;
    *out             = NULL;
    if (o->regex != NULL)
        return weir_grammar_compile(out, s->model, WEIR_GRAMMAR_REGEX, o->regex, strlen(o->regex), NULL, err);
    if (path == NULL) return WEIR_OK;
    char  *text;
    size_t len;
    TRY(file_read(&text, &len, path, FILE_MOST, err));
    const weir_grammar_kind kind = o->grammar != NULL ? WEIR_GRAMMAR_EBNF : WEIR_GRAMMAR_JSON_SCHEMA;
    const weir_status       st   = weir_grammar_compile(out, s->model, kind, text, len, NULL, err);
    mem_free(text);
    return st == WEIR_OK ? st : status_prefix(err, st, "%s", path);
}

static int one_reply(const session *s, const options *o, const char *text, size_t len, const weir_sample_params *sample,
                     const talk *t)
{
    weir_error            err;
    weir_prompt           p = {0};
    reply                 r = {0};
    conversation          c = {0};
    weir_grammar         *form;
    weir_generate_options g = WEIR_GENERATE_OPTIONS_INIT;
    g.sample                = sample;
    g.max_tokens            = o->max_tokens;
    g.stop                  = o->stop.items;
    g.n_stop                = o->stop.n;
    g.logprobs              = o->logprobs_given;
    g.top_logprobs          = o->logprobs;
    g.raw                   = o->raw;
    weir_status st          = make_grammar(s, o, &form, &err);
    g.grammar               = form;
    if (st == WEIR_OK) st = o->raw ? make_raw(s, text, len, &p, &err) : talk_begin(t, o, &c, &err);
    if (st == WEIR_OK && !o->raw) st = make_chat(s, &c, text, len, &p, &err);
    g.thinking_open = p.thinking_open;
    if (st == WEIR_OK) st = reply_run(&r, s, &p.ids, &g, !o->json, &err);
    if (st == WEIR_OK && !o->raw) st = keep_reply(t, &c, &r, &err);
    if (st != WEIR_OK && r.begun && !o->json) (void)fputc('\n', stdout);
    const int code = st != WEIR_OK ? cli_fail(&err) : finish_reply(&r, s, o, sample->seed);
    reply_free(&r);
    weir_prompt_free(&p);
    conversation_free(&c);
    weir_grammar_free(form);
    return code;
}

/* Drafts and the cache are on where nothing else is said. */
static weir_engine_options engine_options(const session *s, const options *o)
{
    weir_engine_options e = session_engine_options(s, o, 0);
    if (o->draft == NULL) e.draft = "auto";
    if (!o->cache_memory_given) e.cache_memory = WEIR_CACHE_AUTO;
    return e;
}

/* A session keeps what was read where nothing else is said. */
static weir_status open_talk(talk *t, options *o, weir_error *err)
{
    if (o->session == NULL) return WEIR_OK;
    TRY(talk_open(t, o->session, err));
    if (o->cache_dir == NULL && (!o->cache_memory_given || o->cache_memory > 0)) o->cache_dir = t->cache;
    return WEIR_OK;
}

static int run(const options *given)
{
    options    own = *given, *o = &own;
    const bool one_shot = o->prompt != NULL || (!terminal_stdin() && !o->chat);
    const int  bad      = check(o, one_shot);
    if (bad != CLI_OK) return bad;

    session            s = {0};
    talk               t = {0};
    weir_sample_params sample;
    weir_error         err;
    char              *read       = NULL;
    const bool         from_stdin = one_shot && (o->prompt == NULL || strcmp(o->prompt, "-") == 0);
    size_t             len        = o->prompt != NULL ? strlen(o->prompt) : 0;
    weir_status        st         = from_stdin ? input_stdin(&read, &len, &err) : WEIR_OK;
    if (st == WEIR_OK && from_stdin && strspn(read, " \t\r\n") == len)
        st = status_fail(&err, WEIR_INVALID, "run: expected -p TEXT, or text on stdin (--chat talks through a pipe)");
    if (st == WEIR_OK) st = open_talk(&t, o, &err);
    if (st == WEIR_OK) st = session_open(&s, o, &err);
    if (st == WEIR_OK) st = sampling_from(s.model, o, &sample, &err);
    const weir_engine_options e = engine_options(&s, o);
    if (st == WEIR_OK) st = session_engine(&s, &e, &err);
    int code;
    if (st != WEIR_OK)
        code = cli_fail(&err);
    else if (one_shot)
        code = one_reply(&s, o, read != NULL ? read : o->prompt, len, &sample, &t);
    else
        code = chat_run(&s, o, &e, &sample, &t);
    mem_free(read);
    session_close(&s);
    talk_close(&t);
    return code;
}

const command cmd_run = {
    .name    = "run",
    .summary = "chat with a model, or get one reply",
    .usage   = "[MODEL] [-p TEXT] [options]",
    .details = "On a terminal this is a chat; /help in it lists its commands.  With -p, or when stdin is\n"
               "no terminal, it prints one reply.  The model's reasoning is shown on a terminal only,\n"
               "and is in --json's result.  Ctrl-C ends a reply.\n",
    .model   = CLI_MODEL_OPTIONAL,
    .groups  = groups,
    .run     = run,
};
