/* text/toolcall.c - weir/toolcall.h: what goes into the parser, and what comes out. */
#include "base/mem.h"
#include "text/toolcall_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { MAX_REPLY = 256 << 20 };

/* ---- out ---- */

void toolcall_flush(weir_toolcall_parser *p)
{
    if (p->out.len == 0) return;
    const weir_toolcall_event e = {.kind = p->out_kind, .text = p->out.data, .text_len = p->out.len, .index = p->index};
    p->fn(p->user, &e);
    toolcall_clear(p, &p->out);
}

str *toolcall_out(weir_toolcall_parser *p, weir_toolcall_kind kind)
{
    if (kind != p->out_kind) toolcall_flush(p);
    p->out_kind = kind;
    return &p->out;
}

void toolcall_put(weir_toolcall_parser *p, weir_toolcall_kind kind, const char *s, size_t n)
{
    if (n > 0) str_put(toolcall_out(p, kind), s, n);
}

static bool system_random(void *user, void *bytes, size_t n)
{
    (void)user;
    for (size_t done = 0; done < n;) {
        const ssize_t got = getrandom((char *)bytes + done, n - done, 0);
        if (got < 0 && errno != EINTR) return false;
        if (got > 0) done += (size_t)got;
    }
    return true;
}

/* 24 of 62 letters and digits, all equally likely: bytes from 4 * 62 on do not count. */
static void make_id(weir_toolcall_parser *p, str *id)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    str_puts(id, p->id_prefix);
    for (uint32_t n = 0; n < 24;) {
        uint8_t bytes[24];
        if (!p->opt.random(p->opt.random_user, bytes, sizeof bytes)) {
            p->no_ids = true;
            return;
        }
        for (size_t i = 0; i < sizeof bytes && n < 24; i++) {
            if (bytes[i] >= 4 * 62) continue;
            str_putc(id, letters[bytes[i] % 62]);
            n++;
        }
    }
}

void toolcall_begin(weir_toolcall_parser *p, name_span name)
{
    str text, id;
    toolcall_flush(p);
    str_init(&text, MAX_REPLY);
    str_init(&id, 64);
    str_put(&text, name.s, name.len);
    make_id(p, &id);
    if (text.failed || id.failed) p->failed = true;
    const weir_toolcall_event e = {
        .kind = WEIR_TOOLCALL_BEGIN, .text = "", .index = p->index, .name = text.data, .id = id.data};
    p->fn(p->user, &e);
    str_free(&text);
    str_free(&id);
}

void toolcall_end(weir_toolcall_parser *p)
{
    toolcall_flush(p);
    const weir_toolcall_event e = {.kind = WEIR_TOOLCALL_END, .text = "", .index = p->index++};
    p->fn(p->user, &e);
    p->info.calls++;
}

/* ---- life ---- */

enum { STRINGS = 9 };

static void strings_of(weir_toolcall_parser *p, str *all[STRINGS])
{
    str *const list[STRINGS] = {&p->draft, &p->tail,  &p->in,    &p->raw, &p->keys,
                                &p->stray, &p->value, &p->space, &p->out};
    memcpy(all, list, sizeof list);
}

weir_status weir_toolcall_new(weir_toolcall_parser **out, const weir_toolcall_options *opt, weir_toolcall_fn *fn,
                              void *user, weir_error *err)
{
    *out = NULL;
    if (opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "weir_toolcall_options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    const char *prefix = opt->id_prefix != NULL ? opt->id_prefix : "call_";
    if (strlen(prefix) > 16)
        return status_fail(err, WEIR_INVALID, "id_prefix: expected at most 16 bytes, found %zu", strlen(prefix));
    tool_set tools;
    TRY(tools_parse(&tools, opt->tools_json, err));
    weir_toolcall_parser *p = mem_zalloc(1, sizeof *p);
    if (p == NULL) {
        tools_free(&tools);
        return status_fail(err, WEIR_NO_MEMORY, "tool calls: out of memory");
    }
    *p                = (weir_toolcall_parser){.fn = fn, .user = user, .opt = *opt, .tools = tools, .text_line = true};
    p->opt.tools_json = p->opt.id_prefix = NULL;
    p->reasoning                         = opt->thinking_open;
    if (p->opt.random == NULL) p->opt.random = system_random;
    memcpy(p->id_prefix, prefix, strlen(prefix));
    str *all[STRINGS];
    strings_of(p, all);
    for (size_t i = 0; i < STRINGS; i++) str_init(all[i], MAX_REPLY);
    *out = p;
    return WEIR_OK;
}

void weir_toolcall_free(weir_toolcall_parser *p)
{
    if (p == NULL) return;
    str *all[STRINGS];
    strings_of(p, all);
    for (size_t i = 0; i < STRINGS; i++) str_free(all[i]);
    tools_free(&p->tools);
    mem_free(p);
}

/* What was to be said is said; text that was lost for want of memory is asked for here. */
static weir_status settle(weir_toolcall_parser *p, weir_error *err)
{
    str *all[STRINGS];
    toolcall_flush(p);
    strings_of(p, all);
    for (size_t i = 0; i < STRINGS; i++) TRY(str_status(all[i], "tool calls", err));
    if (p->failed) return status_fail(err, WEIR_NO_MEMORY, "tool calls: out of memory");
    if (p->no_ids) return status_fail(err, WEIR_NO_MEMORY, "tool calls: the system gives no random bytes");
    return WEIR_OK;
}

/* ---- in ---- */

/* What waited was a part of the reasoning. */
static void draft_was_reasoning(weir_toolcall_parser *p)
{
    p->drafting = DRAFT_NONE;
    while (p->draft.len > 0 && strchr(" \n\r\t", p->draft.data[p->draft.len - 1]) != NULL) p->draft.len--;
    scan_spell(toolcall_out(p, WEIR_TOOLCALL_REASONING), p->draft.data, p->draft.len);
    toolcall_clear(p, &p->draft);
    str_put(&p->in, p->tail.data, p->tail.len);
    toolcall_clear(p, &p->tail);
}

/* What waited is a call. */
static void draft_was_call(weir_toolcall_parser *p)
{
    p->drafting = DRAFT_NONE;
    str_put(&p->in, p->draft.data, p->draft.len);
    toolcall_clear(p, &p->draft);
    scan_run(p);
}

/* Bytes and marks that are not reasoning. */
static void feed(weir_toolcall_parser *p, const char *s, size_t n)
{
    if (p->drafting == DRAFT_OPEN) {
        str_put(&p->draft, s, n);
        return;
    }
    if (p->drafting == DRAFT_CLOSED) {
        size_t blank = 0;
        while (blank < n && strchr(" \n\r\t", s[blank]) != NULL && s[blank] != '\0') blank++;
        str_put(&p->tail, s, blank);
        s += blank;
        n -= blank;
        if (n == 0) return;
        draft_was_reasoning(p);
    }
    str_put(&p->in, s, n);
    scan_run(p);
}

/* Text that is none of ours becomes U+FFFD where it could be taken for a mark. */
static void put_clean(weir_toolcall_parser *p, const char *s, size_t n,
                      void put(weir_toolcall_parser *p, const char *s, size_t n))
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if ((uint8_t)s[i] < MARKS_FROM) continue;
        put(p, s + from, i - from);
        put(p, "\xef\xbf\xbd", 3);
        from = i + 1;
    }
    put(p, s + from, n - from);
}

static void put_reasoning(weir_toolcall_parser *p, const char *s, size_t n)
{
    toolcall_put(p, WEIR_TOOLCALL_REASONING, s, n);
}

static void take_text(weir_toolcall_parser *p, const char *s, size_t n, bool reasoning)
{
    if (n == 0) return;
    if (p->drafting == DRAFT_OPEN || !reasoning) {
        if (p->drafting == DRAFT_NONE) p->reasoning = false;
        put_clean(p, s, n, feed);
        return;
    }
    for (; n > 0 && p->state != SCAN_TEXT; s++, n--) put_clean(p, s, 1, feed); /* a call goes on to its end */
    if (n == 0) return;
    if (p->drafting == DRAFT_CLOSED) draft_was_reasoning(p);
    if (!p->reasoning && p->state == SCAN_TEXT) { /* content before it is over */
        p->ended = true;
        scan_run(p);
        p->ended = false;
    }
    p->reasoning = true;
    put_clean(p, s, n, put_reasoning);
}

static const char *const spelling[] = {
    [WEIR_TAG_TOOL_OPEN]   = "<tool_call>",
    [WEIR_TAG_TOOL_CLOSE]  = "</tool_call>",
    [WEIR_TAG_THINK_OPEN]  = "<think>",
    [WEIR_TAG_THINK_CLOSE] = "</think>",
};

static void take_mark(weir_toolcall_parser *p, weir_toolcall_tag tag)
{
    /* In a call <think> is a word like others. */
    if ((tag == WEIR_TAG_THINK_OPEN || tag == WEIR_TAG_THINK_CLOSE) && p->state != SCAN_TEXT) {
        feed(p, spelling[tag], strlen(spelling[tag]));
        return;
    }
    const char mark = (char)(tag == WEIR_TAG_TOOL_OPEN ? MARK_OPEN : MARK_CLOSE);
    switch (tag) {
    case WEIR_TAG_TOOL_OPEN:
        if (p->drafting == DRAFT_NONE && p->reasoning) p->drafting = DRAFT_OPEN;
        p->reasoning = false;
        feed(p, &mark, 1);
        break;
    case WEIR_TAG_TOOL_CLOSE:
        if (p->reasoning) /* closes nothing */
            toolcall_put(p, WEIR_TOOLCALL_REASONING, spelling[tag], strlen(spelling[tag]));
        else
            feed(p, &mark, 1);
        break;
    case WEIR_TAG_THINK_OPEN:
        if (p->drafting == DRAFT_CLOSED) draft_was_reasoning(p);
        if (p->drafting == DRAFT_NONE) p->reasoning = true;
        break;
    case WEIR_TAG_THINK_CLOSE:
        if (p->drafting == DRAFT_OPEN) p->drafting = DRAFT_CLOSED;
        p->reasoning = false;
        break;
    }
}

weir_status weir_toolcall_text(weir_toolcall_parser *p, const char *text, size_t len, bool reasoning, weir_error *err)
{
    take_text(p, text, len, reasoning);
    return settle(p, err);
}

weir_status weir_toolcall_mark(weir_toolcall_parser *p, weir_toolcall_tag tag, weir_error *err)
{
    take_mark(p, tag);
    return settle(p, err);
}

/* A tag as a token: the text before its spelling is text. */
static void take_tag(weir_toolcall_parser *p, weir_toolcall_tag tag, const char *text, size_t len, bool reasoning)
{
    const size_t n = strlen(spelling[tag]);
    if (len >= n && memcmp(text + len - n, spelling[tag], n) == 0) len -= n;
    take_text(p, text, len, reasoning);
    take_mark(p, tag);
}

weir_status weir_toolcall_token(weir_toolcall_parser *p, uint32_t id, const char *text, size_t len, bool reasoning,
                                weir_error *err)
{
    const weir_toolcall_options *o = &p->opt;
    if (id == UINT32_MAX)
        take_text(p, text, len, reasoning);
    else if (id == o->tool_open)
        take_tag(p, WEIR_TAG_TOOL_OPEN, text, len, reasoning);
    else if (id == o->tool_close)
        take_tag(p, WEIR_TAG_TOOL_CLOSE, text, len, reasoning);
    else if (id == o->think_open)
        take_tag(p, WEIR_TAG_THINK_OPEN, text, len, reasoning);
    else if (id == o->think_close)
        take_tag(p, WEIR_TAG_THINK_CLOSE, text, len, reasoning);
    else
        take_text(p, text, len, reasoning);
    return settle(p, err);
}

weir_status weir_toolcall_finish(weir_toolcall_parser *p, bool complete, weir_error *err)
{
    if (p->drafting != DRAFT_NONE) draft_was_call(p);
    scan_finish(p, complete);
    p->info.unfinished     = p->raw.data;
    p->info.unfinished_len = p->raw.len;
    return settle(p, err);
}

void weir_toolcall_get_info(const weir_toolcall_parser *p, weir_toolcall_info *out)
{
    *out = p->info;
    if (out->unfinished == NULL) out->unfinished = "";
}
