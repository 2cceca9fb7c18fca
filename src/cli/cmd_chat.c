/* cli/cmd_chat.c - the chat of `weir run`: lines in, replies out, and commands
 * that begin with a slash. */
#include "cli/chat.h"

#include "base/str.h"
#include "cli/cli.h"
#include "cli/conversation.h"
#include "cli/line_input.h"
#include "cli/reply.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { MESSAGE_MAX = 64 << 20 };

typedef struct chat {
    const session             *s;
    const options             *o;
    const weir_engine_options *engine; /* what it was opened with */
    const weir_sample_params  *sample;
    const talk                *kept; /* where `talk` is kept */
    conversation               talk;
    weir_request_info          last; /* of the last turn; prompt_tokens 0: there was none */
    bool                       over, failed;
} chat;

static void remark(const chat *c, const char *text)
{
    if (!c->o->quiet) (void)fprintf(stderr, "%s\n", text);
}

static void complain(chat *c, const weir_error *err)
{
    (void)fprintf(stderr, "weir: %s\n", err->text);
    c->failed = true;
}

static void do_help(chat *c, const char *argument);

static void do_system(chat *c, const char *argument)
{
    weir_error err;
    if (conversation_system(&c->talk, argument, &err) != WEIR_OK)
        complain(c, &err);
    else
        remark(c, argument[0] != '\0' ? "system message set" : "no system message");
}

static void do_think(chat *c, const char *argument)
{
    (void)argument;
    c->talk.thinking = THINK_ON;
    remark(c, "thinking on");
}

static void do_nothink(chat *c, const char *argument)
{
    (void)argument;
    c->talk.thinking = THINK_OFF;
    remark(c, "thinking off");
}

static void do_reset(chat *c, const char *argument)
{
    (void)argument;
    conversation_clear(&c->talk);
    c->last = (weir_request_info){0};
    remark(c, "conversation forgotten");
}

static void do_file(chat *c, const char *path, bool save)
{
    weir_error err;
    if (path[0] == '\0') {
        (void)status_fail(&err, WEIR_INVALID, "/%s: expected a FILE", save ? "save" : "load");
        complain(c, &err);
    } else if ((save ? conversation_save(&c->talk, path, &err) : conversation_load(&c->talk, path, &err)) != WEIR_OK) {
        complain(c, &err);
    } else {
        remark(c, save ? "saved" : "loaded");
    }
}

static void do_save(chat *c, const char *argument)
{
    do_file(c, argument, true);
}

static void do_load(chat *c, const char *argument)
{
    do_file(c, argument, false);
}

static void show_turn(const weir_request_info *i)
{
    if (i->prompt_tokens == 0) {
        (void)printf("last turn  none\n");
        return;
    }
    (void)printf("last turn  %" PRIu32 " tokens cached, %" PRIu32 " read at %.1f tok/s, %" PRIu32
                 " generated at %.1f tok/s, %" PRIu32 " of %" PRIu32 " drafts accepted\n",
                 i->cached_tokens, i->read_tokens - i->cached_tokens, reply_prefill_tps(i), i->reply.tokens,
                 reply_decode_tps(i), i->reply.accepted, i->reply.drafted);
}

static void show_memory(const chat *c)
{
    weir_fit        fit;
    weir_cache_info cache;
    struct rusage   usage;
    weir_engine_cache_info(c->s->engine, &cache);
    if (weir_engine_fit(c->s->model, c->engine, &fit, NULL) == WEIR_OK)
        (void)printf("memory     weights %.1f MB, keys and values %.1f kB a token, state %.1f MB\n",
                     (double)fit.weights_bytes * 1e-6, (double)fit.kv_bytes_per_token * 1e-3,
                     (double)fit.state_bytes_per_sequence * 1e-6);
    (void)printf("cache      %" PRIu32 " places to go on from, %.1f of %.1f MB\n", cache.anchors,
                 (double)cache.memory_bytes * 1e-6, (double)cache.memory_limit * 1e-6);
    if (cache.disk_limit > 0)
        (void)printf("disk       %" PRIu32 " places to go on from, %.1f of %.1f MB\n", cache.disk_anchors,
                     (double)cache.disk_bytes * 1e-6, (double)cache.disk_limit * 1e-6);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        (void)printf("resident   %.1f MB at most\n", (double)usage.ru_maxrss * 1.024e-3);
}

static void do_stats(chat *c, const char *argument)
{
    (void)argument;
    weir_engine_info info;
    weir_engine_get_info(c->s->engine, &info);
    (void)printf("messages   %zu\n", json_array_size(c->talk.messages));
    (void)printf("context    %" PRIu32 " of %" PRIu32 " tokens\n", c->last.prompt_tokens + c->last.reply.tokens,
                 info.max_context);
    show_turn(&c->last);
    show_memory(c);
    (void)printf("engine     %s, %s, %" PRIu32 " threads, kv %s, drafts %s, seed %" PRIu64 "\n", info.device, info.isa,
                 info.threads, info.kv, info.draft, c->sample->seed);
    (void)fflush(stdout);
}

static void do_exit(chat *c, const char *argument)
{
    (void)argument;
    c->over = true;
}

static const struct {
    const char *name, *argument, *help;
    void (*run)(chat *c, const char *argument);
} chat_commands[] = {
    {"help", "", "show this list", do_help},
    {"system", " TEXT", "set the system message (without TEXT: none)", do_system},
    {"think", "", "let the model reason before it answers", do_think},
    {"nothink", "", "let it answer at once", do_nothink},
    {"reset", "", "forget the conversation, keep the system message", do_reset},
    {"save", " FILE", "write the conversation as JSON", do_save},
    {"load", " FILE", "go on with a saved conversation", do_load},
    {"stats", "", "tokens, speed and memory", do_stats},
    {"exit", "", "leave; Ctrl-D does the same", do_exit},
};
enum { N_CHAT_COMMANDS = sizeof chat_commands / sizeof chat_commands[0] };

static void do_help(chat *c, const char *argument)
{
    (void)c;
    (void)argument;
    for (size_t i = 0; i < N_CHAT_COMMANDS; i++) {
        char left[40];
        (void)snprintf(left, sizeof left, "/%s%s", chat_commands[i].name, chat_commands[i].argument);
        (void)printf("%-14s %s\n", left, chat_commands[i].help);
    }
    (void)printf("A line that ends in \\ goes on in the next; // begins a message with one slash.\n"
                 "Ctrl-C stops a reply, or clears the line.\n");
    (void)fflush(stdout);
}

static void run_chat_command(chat *c, const char *line)
{
    const size_t n        = strcspn(line, " \t\n");
    const char  *argument = line + n + strspn(line + n, " \t\n");
    weir_error   err;
    for (size_t i = 0; i < N_CHAT_COMMANDS; i++) {
        if (strlen(chat_commands[i].name) != n || strncmp(chat_commands[i].name, line, n) != 0) continue;
        if (chat_commands[i].argument[0] != '\0' || argument[0] == '\0') {
            chat_commands[i].run(c, argument);
            return;
        }
        (void)status_fail(&err, WEIR_INVALID, "/%s: expected nothing behind it, found \"%.40s\"", chat_commands[i].name,
                          argument);
        complain(c, &err);
        return;
    }
    (void)status_fail(&err, WEIR_INVALID, "unknown command \"/%.*s\"; /help lists them", (int)(n < 40 ? n : 40), line);
    complain(c, &err);
}

/* Tells how the reply ended and keeps it, also a partial one. */
static void keep_answer(chat *c, const reply *r, weir_status st, const weir_error *why)
{
    weir_error err;
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    if (st != WEIR_OK)
        complain(c, why);
    else if (r->info.reply.finish == WEIR_FINISH_CANCELLED)
        remark(c, "[stopped]");
    else if (r->info.reply.finish == WEIR_FINISH_LENGTH)
        remark(c, "[cut off]");
    if (conversation_add(&c->talk, "assistant", r->text.data, r->reasoning.data, &err) != WEIR_OK) complain(c, &err);
}

/* The conversation so far is a prompt: what it shares with earlier ones comes
 * out of the engine's cache. */
static void answer(chat *c)
{
    weir_error            err;
    weir_prompt           p = {0};
    reply                 r = {0};
    weir_generate_options g = WEIR_GENERATE_OPTIONS_INIT;
    g.sample                = c->sample;
    g.max_tokens            = c->o->max_tokens;
    g.stop                  = c->o->stop.items;
    g.n_stop                = c->o->stop.n;
    weir_status st          = conversation_render(&c->talk, c->s->model, &p, &err);
    g.thinking_open         = p.thinking_open;
    if (st == WEIR_OK) st = reply_run(&r, c->s, &p.ids, &g, true, &err);
    if (st == WEIR_OK || r.begun) {
        c->last = r.info;
        keep_answer(c, &r, st, &err);
    } else {
        conversation_drop(&c->talk); /* a message that was not read has no answer */
        if (st == WEIR_CANCELLED)
            remark(c, "[stopped; the message is dropped]");
        else
            complain(c, &err);
    }
    reply_free(&r);
    weir_prompt_free(&p);
}

static void take_turn(chat *c, const char *text)
{
    weir_error err;
    if (conversation_add(&c->talk, "user", text, NULL, &err) != WEIR_OK)
        complain(c, &err);
    else
        answer(c);
}

static void keep(chat *c)
{
    weir_error err;
    if (talk_keep(c->kept, &c->talk, &err) != WEIR_OK) complain(c, &err);
}

static void take_message(chat *c, const str *message)
{
    if (strlen(message->data) != message->len || message->failed) {
        weir_error err;
        (void)status_fail(&err, WEIR_INVALID, "message: expected text of less than %d bytes without NUL", MESSAGE_MAX);
        complain(c, &err);
    } else if (message->data[0] == '/' && message->data[1] != '/') {
        run_chat_command(c, message->data + 1);
        keep(c);
    } else if (strspn(message->data, " \t\n") < message->len) {
        take_turn(c, message->data + (message->data[0] == '/' ? 1 : 0));
        keep(c);
    }
}

static void chat_loop(chat *c, line_input *in)
{
    str message;
    str_init(&message, MESSAGE_MAX);
    while (!c->over && !terminal_ended()) {
        /* A write that Ctrl-C cut short is no failure of stdout. */
        if (terminal_interrupted()) clearerr(stdout);
        terminal_interrupt_clear();
        const line_result got = line_input_read(in, &message);
        if (got == LINE_END) break;
        if (got == LINE_TEXT) take_message(c, &message);
        if (terminal_interrupted() && !terminal_stdin()) {
            c->failed = true;
            break;
        }
    }
    str_free(&message);
}

int chat_run(const session *s, const options *o, const weir_engine_options *e, const weir_sample_params *sample,
             const talk *t)
{
    weir_error  err;
    chat        c  = {.s = s, .o = o, .engine = e, .sample = sample, .kept = t};
    line_input *in = NULL;
    weir_status st = talk_begin(t, o, &c.talk, &err);
    if (st == WEIR_OK) st = line_input_open(&in, &err);
    int code = CLI_OK;
    if (st != WEIR_OK) {
        code = cli_fail(&err);
    } else {
        if (terminal_stdin()) remark(&c, "/help lists the commands, Ctrl-D leaves");
        chat_loop(&c, in);
        code = cli_flush();
        /* A person has seen what went wrong; a script asks the exit code. */
        if (terminal_ended() || (c.failed && !terminal_stdin())) code = CLI_FAILED;
    }
    line_input_close(in);
    conversation_free(&c.talk);
    return code;
}
