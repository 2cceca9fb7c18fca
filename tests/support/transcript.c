/* tests/support/transcript.c - see transcript.h. */
#include "support/transcript.h"

#include "support/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 24, IDS = 100 };

static const char *const spelled[] = {"", "<tool_call>", "</tool_call>", "<think>", "</think>"};

typedef struct player {
    transcript        *t;
    weir_toolcall_kind kind; /* of the text that is open in the line */
    bool               open, in_call;
    str                arguments;
} player;

static void close_text(player *p)
{
    if (p->open && p->kind != WEIR_TOOLCALL_ARGUMENTS) str_putc(&p->t->line, ')');
    p->open = false;
}

static void hear_text(player *p, const weir_toolcall_event *e)
{
    transcript *t = p->t;
    if (e->text_len == 0 || p->in_call != (e->kind == WEIR_TOOLCALL_ARGUMENTS)) t->wrong = true;
    if (!p->open || p->kind != e->kind) {
        close_text(p);
        if (e->kind != WEIR_TOOLCALL_ARGUMENTS) str_puts(&t->line, e->kind == WEIR_TOOLCALL_CONTENT ? "C(" : "R(");
    }
    p->open = true;
    p->kind = e->kind;
    str_put(&t->line, e->text, e->text_len);
    if (e->kind == WEIR_TOOLCALL_CONTENT) str_put(&t->content, e->text, e->text_len);
    if (e->kind == WEIR_TOOLCALL_ARGUMENTS) str_put(&p->arguments, e->text, e->text_len);
}

static void hear(void *user, const weir_toolcall_event *e)
{
    player     *p = user;
    transcript *t = p->t;
    if (e->kind == WEIR_TOOLCALL_BEGIN) {
        close_text(p);
        str_printf(&t->line, "[%u %s ", e->index, e->name);
        if (e->index != t->begun || p->in_call || strlen(e->id) != 29) t->wrong = true;
        t->begun++;
        p->in_call = true;
    } else if (e->kind == WEIR_TOOLCALL_END) {
        p->open = false;
        str_putc(&t->line, ']');
        if (e->index + 1 != t->begun || !p->in_call) t->wrong = true;
        p->in_call = false;
        str_put(&t->arguments, p->arguments.data, p->arguments.len);
        str_putc(&t->arguments, '\n');
        str_clear(&p->arguments);
    } else {
        hear_text(p, e);
    }
}

static void must(weir_status st, const weir_error *err)
{
    if (st == WEIR_OK) return;
    (void)fprintf(stderr, "%s\n", err->text);
    abort();
}

/* Seeds that give the same ids in every run. */
static bool count_up(void *user, void *bytes, size_t n)
{
    uint8_t *next = user;
    for (size_t i = 0; i < n; i++) ((uint8_t *)bytes)[i] = (*next)++;
    return true;
}

static size_t next_cut(const cutting *c, size_t at, uint64_t *seed)
{
    size_t to = SIZE_MAX;
    if (c->split > at) to = c->split;
    if (c->every > 0 && at + c->every < to) to = at + c->every;
    if (c->random != 0) {
        const size_t some = at + 1 + rng_below(seed, 12);
        if (some < to) to = some;
    }
    return to;
}

/* As the engine tells it: a tool call ends the reasoning, </think> within the call is known. */
static bool still_reasoning(bool reasoning, char tag)
{
    return tag == *THINK || (reasoning && tag != *THINK_CLOSE && tag != *OPEN);
}

static void play(weir_toolcall_parser *p, bool reasoning, const char *s, size_t n, const cutting *cut)
{
    weir_error err;
    uint64_t   seed = cut->random;
    size_t     from = 0, stop = next_cut(cut, 0, &seed);
    for (size_t i = 0; i <= n; i++) {
        const bool tag = i < n && s[i] >= 1 && s[i] <= 4;
        if (i < n && i < stop && !tag) continue;
        const size_t len = i - from;
        if (tag && cut->ids) {
            str both;
            str_init(&both, MOST);
            str_put(&both, s + from, len);
            str_puts(&both, spelled[(int)s[i]]);
            must(weir_toolcall_token(p, IDS + (uint32_t)s[i], both.data, both.len, reasoning, &err), &err);
            str_free(&both);
        } else {
            must(weir_toolcall_text(p, s + from, len, reasoning, &err), &err);
            if (tag) must(weir_toolcall_mark(p, (weir_toolcall_tag)(s[i] - 1), &err), &err);
        }
        if (tag) reasoning = still_reasoning(reasoning, s[i]);
        from = tag ? i + 1 : i;
        while (stop <= from && stop <= n) stop = next_cut(cut, from, &seed);
    }
}

void transcript_play(transcript *t, const char *tools, bool thinking, bool undeclared_is_text, const char *script,
                     size_t n, const cutting *cut)
{
    weir_toolcall_options opt = WEIR_TOOLCALL_OPTIONS_INIT;
    weir_toolcall_parser *p;
    weir_error            err;
    uint8_t               next = 0;
    player                at   = {.t = t};
    *t                         = (transcript){0};
    str *const all[]           = {&t->line, &t->content, &t->arguments, &t->unfinished, &at.arguments};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) str_init(all[i], MOST);
    opt.tools_json         = tools;
    opt.thinking_open      = thinking;
    opt.undeclared_is_text = undeclared_is_text;
    opt.random             = count_up;
    opt.random_user        = &next;
    opt.tool_open = IDS + 1, opt.tool_close = IDS + 2, opt.think_open = IDS + 3, opt.think_close = IDS + 4;
    must(weir_toolcall_new(&p, &opt, hear, &at, &err), &err);
    const bool complete = n == 0 || script[n - 1] != *CUT;
    play(p, thinking, script, complete ? n : n - 1, cut);
    must(weir_toolcall_finish(p, complete, &err), &err);
    close_text(&at);
    weir_toolcall_get_info(p, &t->info);
    str_put(&t->unfinished, t->info.unfinished, t->info.unfinished_len);
    t->info.unfinished = NULL;
    weir_toolcall_free(p);
    str_free(&at.arguments);
}

void transcript_free(transcript *t)
{
    str_free(&t->line);
    str_free(&t->content);
    str_free(&t->arguments);
    str_free(&t->unfinished);
}

void script_spell(str *out, const char *script, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (script[i] >= 1 && script[i] <= 4)
            str_puts(out, spelled[(int)script[i]]);
        else if (script[i] != *CUT)
            str_putc(out, script[i]);
    }
}
