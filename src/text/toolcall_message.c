/* text/toolcall_message.c - a whole reply at once: the stream's events, put together. */
#include "base/mem.h"
#include "text/toolcall_parts.h"

#include <string.h>

enum { MAX_MESSAGE = 512 << 20, TAGS = 4 };

/* A message while events come. */
typedef struct collector {
    weir_message *m;
    str           reasoning, content, arguments;
    size_t        capacity;
    bool          failed; /* no memory */
} collector;

static void begin(collector *c, const weir_toolcall_event *e)
{
    weir_message *m = c->m;
    if (m->n_calls == c->capacity) {
        const size_t       more  = 2 * c->capacity + 4;
        weir_message_call *calls = mem_realloc(m->calls, more, sizeof *calls);
        if (calls == NULL) {
            c->failed = true;
            return;
        }
        m->calls    = calls;
        c->capacity = more;
    }
    m->calls[m->n_calls++] = (weir_message_call){.id = mem_strdup(e->id), .name = mem_strdup(e->name)};
    str_clear(&c->arguments);
}

static void collect(void *user, const weir_toolcall_event *e)
{
    collector *c = user;
    if (c->failed) return;
    switch (e->kind) {
    case WEIR_TOOLCALL_REASONING: str_put(&c->reasoning, e->text, e->text_len); break;
    case WEIR_TOOLCALL_CONTENT: str_put(&c->content, e->text, e->text_len); break;
    case WEIR_TOOLCALL_BEGIN: begin(c, e); break;
    case WEIR_TOOLCALL_ARGUMENTS: str_put(&c->arguments, e->text, e->text_len); break;
    case WEIR_TOOLCALL_END:
        c->failed                                = c->failed || c->arguments.failed;
        c->m->calls[c->m->n_calls - 1].arguments = str_take(&c->arguments);
        break;
    }
}

static void free_call(weir_message_call *c)
{
    mem_free(c->id);
    mem_free(c->name);
    mem_free(c->arguments);
    *c = (weir_message_call){0};
}

void weir_message_free(weir_message *m)
{
    for (size_t i = 0; i < m->n_calls; i++) free_call(&m->calls[i]);
    mem_free(m->calls);
    mem_free(m->reasoning);
    mem_free(m->content);
    mem_free(m->unfinished);
    *m = (weir_message){0};
}

/* ---- text with tags as they are spelled ---- */

static const struct {
    const char       *text;
    weir_toolcall_tag tag;
} tags[TAGS] = {{"<tool_call>", WEIR_TAG_TOOL_OPEN},
                {"</tool_call>", WEIR_TAG_TOOL_CLOSE},
                {"<think>", WEIR_TAG_THINK_OPEN},
                {"</think>", WEIR_TAG_THINK_CLOSE}};

/* Which tag s begins with, or TAGS. */
static unsigned tag_at(const char *s, size_t n)
{
    unsigned i = 0;
    while (i < TAGS && (n < strlen(tags[i].text) || memcmp(s, tags[i].text, strlen(tags[i].text)) != 0)) i++;
    return i;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A piece of text between tags, without the white space around the think tags. */
static weir_status give(weir_toolcall_parser *p, const char *s, size_t n, bool behind_think, weir_error *err)
{
    if (p->reasoning) {
        while (n > 0 && is_space(*s)) s++, n--;
        while (n > 0 && is_space(s[n - 1])) n--;
    } else if (behind_think && p->state == SCAN_TEXT) {
        while (n > 0 && (*s == '\n' || *s == '\r')) s++, n--;
    }
    return weir_toolcall_text(p, s, n, p->reasoning, err);
}

static weir_status parse(weir_toolcall_parser *p, const char *text, size_t len, bool complete, weir_error *err)
{
    size_t from         = 0;
    bool   behind_think = false;
    for (size_t i = 0; i < len;) {
        const unsigned which = text[i] == '<' ? tag_at(text + i, len - i) : TAGS;
        if (which == TAGS) {
            i++;
            continue;
        }
        TRY(give(p, text + from, i - from, behind_think, err));
        TRY(weir_toolcall_mark(p, tags[which].tag, err));
        behind_think = tags[which].tag == WEIR_TAG_THINK_CLOSE;
        i += strlen(tags[which].text);
        from = i;
    }
    TRY(give(p, text + from, len - from, behind_think, err));
    return weir_toolcall_finish(p, complete, err);
}

/* Gives a text to the message; one that is empty stays NULL. */
static void take(char **text, size_t *len, str *s)
{
    *len = s->len;
    if (s->len > 0) *text = str_take(s);
}

static weir_status finish(collector *c, const weir_toolcall_parser *p, weir_error *err)
{
    weir_message      *m = c->m;
    weir_toolcall_info info;
    weir_toolcall_get_info(p, &info);
    if (m->n_calls > info.calls) free_call(&m->calls[--m->n_calls]); /* it was cut off */
    bool whole = !c->failed;
    for (size_t i = 0; i < m->n_calls; i++)
        whole = whole && m->calls[i].id != NULL && m->calls[i].name != NULL && m->calls[i].arguments != NULL;
    if (info.unfinished_len > 0) {
        m->unfinished     = mem_strndup(info.unfinished, info.unfinished_len);
        m->unfinished_len = info.unfinished_len;
        whole             = whole && m->unfinished != NULL;
    }
    if (!whole) return status_fail(err, WEIR_NO_MEMORY, "message: out of memory");
    TRY(str_status(&c->reasoning, "message", err));
    TRY(str_status(&c->content, "message", err));
    TRY(str_status(&c->arguments, "message", err));
    take(&m->reasoning, &m->reasoning_len, &c->reasoning);
    take(&m->content, &m->content_len, &c->content);
    return WEIR_OK;
}

weir_status weir_message_parse(weir_message *out, const weir_toolcall_options *opt, const char *text, size_t len,
                               bool complete, weir_error *err)
{
    collector             c = {.m = out};
    weir_toolcall_parser *p = NULL;
    *out                    = (weir_message){0};
    str_init(&c.reasoning, MAX_MESSAGE);
    str_init(&c.content, MAX_MESSAGE);
    str_init(&c.arguments, MAX_MESSAGE);
    weir_status st = weir_toolcall_new(&p, opt, collect, &c, err);
    if (st == WEIR_OK) st = parse(p, text, len, complete, err);
    if (st == WEIR_OK) st = finish(&c, p, err);
    weir_toolcall_free(p);
    str_free(&c.reasoning);
    str_free(&c.content);
    str_free(&c.arguments);
    if (st != WEIR_OK) weir_message_free(out);
    return st;
}
