/* text/toolcall_scan.c - the state machine of weir/toolcall.h.
 *
 * A look at the text says yes, no, or that it takes more text to tell.  `more`
 * never comes when the reply has ended, and never turns a yes or no around. */
#include "text/toolcall_parts.h"

#include <string.h>

/* Most bytes of a name, and of white space within what is one tag or follows one. */
enum { MAX_NAME = 256, MAX_SPACE = 256, MAX_RETURNS = 8 };

typedef enum look { LOOK_NO, LOOK_YES, LOOK_MORE } look;

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_mark(char c)
{
    return (uint8_t)c >= MARK_CLOSE;
}

static bool ends_name(char c)
{
    return c == '>' || c == '\n' || c == '<' || is_mark(c);
}

static bool at_mark(const weir_toolcall_parser *p, size_t at, uint8_t mark)
{
    return at < p->in.len && (uint8_t)p->in.data[at] == mark;
}

static bool at_end(const weir_toolcall_parser *p, size_t at)
{
    return at >= p->in.len;
}

static look no_more(const weir_toolcall_parser *p)
{
    return p->ended ? LOOK_NO : LOOK_MORE;
}

void scan_spell(str *out, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_mark(s[i])) continue;
        str_put(out, s + from, i - from);
        str_puts(out, (uint8_t)s[i] == MARK_OPEN ? "<tool_call>" : "</tool_call>");
        from = i + 1;
    }
    str_put(out, s + from, n - from);
}

/* ---- looks ---- */

static look look_text(const weir_toolcall_parser *p, size_t at, const char *text, size_t *end)
{
    const size_t n = strlen(text), have = p->in.len - at;
    if (memcmp(p->in.data + at, text, have < n ? have : n) != 0) return LOOK_NO;
    if (have < n) return no_more(p);
    *end = at + n;
    return LOOK_YES;
}

/* White space, to where it ends.  No: there is more of it than belongs between tags. */
static look look_past_space(const weir_toolcall_parser *p, size_t at, size_t *end)
{
    const size_t from = at;
    while (at < p->in.len && is_space(p->in.data[at]) && at - from <= MAX_SPACE) at++;
    *end = at;
    if (at - from > MAX_SPACE) return LOOK_NO;
    return at_end(p, at) && !p->ended ? LOOK_MORE : LOOK_YES;
}

/* `tag`, "=", with a blank around it allowed, to the name behind. */
static look look_tag(const weir_toolcall_parser *p, size_t at, const char *tag, size_t *end)
{
    const look l = look_text(p, at, tag, &at);
    if (l != LOOK_YES) return l;
    if (!at_end(p, at) && p->in.data[at] == ' ') at++;
    if (at_end(p, at)) return no_more(p);
    if (p->in.data[at] != '=') return LOOK_NO;
    *end = at + 1;
    return LOOK_YES;
}

/* A name, to what ends it: '>', or in a tag that was not closed a newline or another tag. */
static look look_name(const weir_toolcall_parser *p, size_t at, name_span *name, size_t *end)
{
    const size_t from = at;
    while (!at_end(p, at) && !ends_name(p->in.data[at]) && at - from <= MAX_NAME) at++;
    if (at - from > MAX_NAME) return LOOK_NO;
    if (at_end(p, at)) return no_more(p);
    const char *s = p->in.data + from;
    size_t      n = at - from;
    while (n > 0 && is_space(*s)) s++, n--;
    while (n > 0 && is_space(s[n - 1])) n--;
    if (n > 1 && (*s == '"' || *s == '\'') && s[n - 1] == *s) s++, n -= 2;
    for (size_t i = 0; i < n; i++)
        if ((uint8_t)s[i] < 0x20 || s[i] == '"') return LOOK_NO;
    if (n == 0) return LOOK_NO;
    *name = (name_span){s, n};
    *end  = at;
    return LOOK_YES;
}

/* <function=NAME>, with a NAME that is declared, to the end of the tag. */
static look look_declared(const weir_toolcall_parser *p, size_t at, name_span *name, size_t *end)
{
    if (p->tools.n == 0) return LOOK_NO;
    look l = look_tag(p, at, "<function", &at);
    if (l == LOOK_YES) l = look_name(p, at, name, &at);
    if (l != LOOK_YES) return l;
    if (p->in.data[at] != '>' || tools_find(&p->tools, *name) == NULL) return LOOK_NO;
    *end = at + 1;
    return LOOK_YES;
}

static bool has_key(const weir_toolcall_parser *p, name_span key)
{
    for (const char *k = p->keys.data; *k != '\0';) {
        const size_t n = strcspn(k, "\n");
        if (n == key.len && memcmp(k, key.s, n) == 0) return true;
        k += n + 1;
    }
    return false;
}

/* <parameter=KEY>, to the end of the tag. */
static look look_parameter(const weir_toolcall_parser *p, size_t at, name_span *key, size_t *end)
{
    look l = look_tag(p, at, "<parameter", &at);
    if (l == LOOK_YES) l = look_name(p, at, key, &at);
    if (l != LOOK_YES) return l;
    *end = at + (p->in.data[at] == '>' ? 1 : 0);
    return LOOK_YES;
}

/* Any of the tags that may follow </parameter>, or the end of the reply. */
static look look_follower(const weir_toolcall_parser *p, size_t at)
{
    if (at_end(p, at)) return p->ended ? LOOK_YES : LOOK_MORE;
    if (is_mark(p->in.data[at])) return LOOK_YES;
    size_t     end;
    const look looks[] = {look_tag(p, at, "<parameter", &end), look_text(p, at, "</function>", &end),
                          look_tag(p, at, "<function", &end)};
    look       any     = LOOK_NO;
    for (size_t i = 0; i < 3; i++) {
        if (looks[i] == LOOK_YES) return LOOK_YES;
        if (looks[i] == LOOK_MORE) any = LOOK_MORE;
    }
    return any;
}

/* What a value may end with. */
typedef enum value_end {
    END_NO,
    END_MORE,
    END_TAG,      /* its </parameter> */
    END_MISSING,  /* something behind it */
    END_CANDIDATE /* a </parameter>, unless there is a better one */
} value_end;

static value_end end_of(look l, value_end yes, value_end no)
{
    return l == LOOK_MORE ? END_MORE : l == LOOK_YES ? yes : no;
}

/* Behind a </parameter>: it may be doubled. */
static value_end look_behind_close(const weir_toolcall_parser *p, size_t at, bool line)
{
    const value_end no = line ? END_CANDIDATE : END_NO;
    for (;;) {
        look l = look_past_space(p, at, &at);
        if (l == LOOK_YES) l = look_follower(p, at);
        if (l == LOOK_YES) return END_TAG;
        const look again = l == LOOK_NO && at_end(p, at) ? LOOK_NO : look_text(p, at, "</parameter>", &at);
        if (again == LOOK_NO) return end_of(l, END_TAG, no);
        if (again == LOOK_MORE) return END_MORE;
    }
}

/* Nothing but white space, to the end of the reply or the next call. */
static look look_over(const weir_toolcall_parser *p, size_t at)
{
    const look l = look_past_space(p, at, &at);
    if (l != LOOK_YES) return l;
    return at_end(p, at) || at_mark(p, at, MARK_OPEN) ? LOOK_YES : LOOK_NO;
}

/* </function> without </parameter>: at the beginning of a line what may follow a call
 * must follow; within a line, all the rest of it. */
static value_end look_function_close(const weir_toolcall_parser *p, size_t at, bool line)
{
    look l = look_text(p, at, "</function>", &at);
    if (l == LOOK_YES) l = look_past_space(p, at, &at);
    if (l != LOOK_YES || at_end(p, at)) return end_of(l, END_MISSING, END_NO);
    size_t end;
    if (line && is_mark(p->in.data[at])) return END_MISSING;
    if (line) return end_of(look_tag(p, at, "<function", &end), END_MISSING, END_NO);
    if (!at_mark(p, at, MARK_CLOSE)) return END_NO;
    return end_of(look_over(p, at + 1), END_MISSING, END_NO);
}

/* A parameter that was declared and not given yet begins a line: </parameter> was left out. */
static value_end look_next_parameter(const weir_toolcall_parser *p, size_t at)
{
    name_span key;
    look      l = look_parameter(p, at, &key, &at);
    if (l == LOOK_YES && (has_key(p, key) || !tool_has_parameter(p->tool, key))) l = LOOK_NO;
    return end_of(l, END_MISSING, END_NO);
}

/* Whether the value ends at `at`; `line`: which begins a line. */
static value_end look_end(const weir_toolcall_parser *p, size_t at, bool line)
{
    if (at_end(p, at)) return p->ended ? END_MISSING : END_MORE;
    size_t end;
    if (at_mark(p, at, MARK_CLOSE)) return line ? END_MISSING : end_of(look_over(p, at + 1), END_MISSING, END_NO);
    if (at_mark(p, at, MARK_OPEN)) {
        look l = line ? look_past_space(p, at + 1, &end) : LOOK_NO;
        if (l == LOOK_YES) l = at_end(p, end) ? LOOK_NO : look_tag(p, end, "<function", &end);
        return end_of(l, END_MISSING, END_NO);
    }
    if (p->in.data[at] != '<') return END_NO;
    const look close = look_text(p, at, "</parameter>", &end);
    if (close == LOOK_YES) return look_behind_close(p, end, line);
    const value_end function = look_function_close(p, at, line);
    if (function == END_MISSING) return function;
    const value_end next = line ? look_next_parameter(p, at) : END_NO;
    if (next == END_MISSING) return next;
    return close == LOOK_MORE || function == END_MORE || next == END_MORE ? END_MORE : END_NO;
}

/* ---- moving on ---- */

/* The next n bytes have been read. */
static void consume(weir_toolcall_parser *p, size_t n)
{
    if (p->state != SCAN_TEXT) scan_spell(&p->raw, p->in.data + p->at, n);
    p->at += n;
}

/* Text outside of calls.  White space waits: a call would swallow it. */
static void put_text(weir_toolcall_parser *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t from = i;
        while (i < n && is_space(s[i])) {
            if (s[i++] == '\n') p->text_line = true;
        }
        str_put(&p->space, s + from, i - from);
        if (i == n) return;
        const size_t solid = i;
        while (i < n && !is_space(s[i])) i++;
        /* Between a call and the first content nothing has to be kept apart. */
        if (p->said || p->info.calls == 0) toolcall_put(p, WEIR_TOOLCALL_CONTENT, p->space.data, p->space.len);
        toolcall_clear(p, &p->space);
        toolcall_put(p, WEIR_TOOLCALL_CONTENT, s + solid, i - solid);
        p->said       = true;
        p->text_line  = false;
        p->after_call = false;
    }
}

/* What was taken for a call is content. */
static void give_up(weir_toolcall_parser *p)
{
    p->state = SCAN_TEXT;
    p->info.malformed++;
    p->malformed = true;
    put_text(p, p->raw.data, p->raw.len);
    toolcall_clear(p, &p->raw);
}

static void begin_call(weir_toolcall_parser *p, name_span name)
{
    p->tool = tools_find(&p->tools, name);
    toolcall_clear(p, &p->space);
    toolcall_clear(p, &p->keys);
    toolcall_clear(p, &p->stray);
    p->malformed = false;
    p->returns   = 0;
    p->state     = SCAN_BETWEEN;
    toolcall_begin(p, name);
}

static void end_call(weir_toolcall_parser *p)
{
    toolcall_put(p, WEIR_TOOLCALL_ARGUMENTS, "{}", p->keys.len == 0 ? 2 : 0);
    toolcall_put(p, WEIR_TOOLCALL_ARGUMENTS, "}", p->keys.len == 0 ? 0 : 1);
    toolcall_end(p);
    toolcall_clear(p, &p->raw);
    p->state = SCAN_TEXT;
    while (p->stray.len > 0 && is_space(p->stray.data[p->stray.len - 1])) p->stray.len--;
    if (p->stray.len > 0 && p->said) str_putc(&p->space, '\n');
    put_text(p, p->stray.data, p->stray.len);
    p->text_line  = true;
    p->after_call = true;
}

/* ---- the states: each reads on, or tells that it needs more ---- */

static bool step_text_mark(weir_toolcall_parser *p)
{
    const bool open = at_mark(p, p->at, MARK_OPEN);
    if (p->tools.n == 0 || (!open && p->malformed)) {
        put_text(p, open ? "<tool_call>" : "</tool_call>", open ? 11 : 12);
        p->malformed = p->by_tag = false;
        consume(p, 1);
        return true;
    }
    if (open) {
        p->state  = SCAN_OPEN;
        p->by_tag = true;
    } else {
        if (!p->by_tag) p->info.repairs++;
        p->by_tag = false;
        if (p->after_call) toolcall_clear(p, &p->space); /* within the call */
    }
    consume(p, 1);
    return true;
}

/* A tag that opens or follows a call, at the beginning of a line. */
static look step_text_tag(weir_toolcall_parser *p)
{
    name_span name;
    size_t    end;
    look      l = look_declared(p, p->at, &name, &end);
    if (l == LOOK_YES) {
        p->info.repairs++; /* without <tool_call> */
        begin_call(p, name);
        consume(p, end - p->at);
        return LOOK_YES;
    }
    static const char *const orphans[] = {"</function>", "</parameter>"};
    for (int i = 0; i < 2 && p->after_call; i++) {
        const look o = look_text(p, p->at, orphans[i], &end);
        if (o == LOOK_YES) {
            p->info.repairs++;
            p->at = end;
            toolcall_clear(p, &p->space);
            return LOOK_YES;
        }
        if (o == LOOK_MORE) l = LOOK_MORE;
    }
    return l;
}

static bool step_text(weir_toolcall_parser *p)
{
    if (at_end(p, p->at)) return false;
    if (is_mark(p->in.data[p->at])) return step_text_mark(p);
    if (p->in.data[p->at] == '<' && p->text_line) {
        const look l = step_text_tag(p);
        if (l != LOOK_NO) return l == LOOK_YES;
    }
    size_t end = p->at + 1;
    while (end < p->in.len && p->in.data[end] != '<' && !is_mark(p->in.data[end])) end++;
    put_text(p, p->in.data + p->at, end - p->at);
    consume(p, end - p->at);
    return true;
}

static bool step_open(weir_toolcall_parser *p)
{
    if (at_end(p, p->at)) {
        if (p->ended) give_up(p);
        return p->ended;
    }
    const char c = p->in.data[p->at];
    if (is_space(c) || at_mark(p, p->at, MARK_OPEN)) {
        if (!is_space(c)) p->info.repairs++;
        consume(p, 1);
        return true;
    }
    if (c == '{') {
        p->state   = SCAN_JSON;
        p->scanned = 0;
        p->depth   = 0;
        p->quote   = 0;
        return true;
    }
    name_span name;
    size_t    end;
    look      l = look_tag(p, p->at, "<function", &end);
    if (l == LOOK_YES) l = look_name(p, end, &name, &end);
    if (l == LOOK_MORE) return false;
    if (l == LOOK_YES && p->opt.undeclared_is_text && tools_find(&p->tools, name) == NULL) l = LOOK_NO;
    if (l == LOOK_NO) {
        give_up(p);
        return true;
    }
    begin_call(p, name);
    if (p->in.data[end] == '>')
        end++;
    else
        p->info.repairs++;
    consume(p, end - p->at);
    return true;
}

/* A text that was needed for a moment; that there was no memory for it is not forgotten. */
static void let_go(weir_toolcall_parser *p, str *text)
{
    if (text->failed) p->failed = true;
    str_free(text);
}

/* A call in the older form, compact: its name and arguments; false when it is none. */
static bool call_of_json(weir_toolcall_parser *p, name_span object)
{
    const name_span name = value_member(object.s, object.len, "name");
    name_span       args = value_member(object.s, object.len, "arguments");
    if (args.s == NULL) args = value_member(object.s, object.len, "parameters");
    str  spelled, inner;
    bool good = name.len > 2 && *name.s == '"';
    str_init(&spelled, p->value.max);
    str_init(&inner, p->value.max);
    if (good) value_unescape(&spelled, name);
    if (args.s != NULL && *args.s == '"') { /* some write the object as a string */
        str text;
        str_init(&text, p->value.max);
        value_unescape(&text, args);
        good = good && value_compact(&inner, text.data, text.len, true);
        let_go(p, &text);
        args = (name_span){inner.data, inner.len};
    }
    if (args.s == NULL) args = (name_span){"{}", 2};
    good                   = good && *args.s == '{' && memchr(spelled.data, 0, spelled.len) == NULL;
    const name_span called = {spelled.data, spelled.len};
    if (good && p->opt.undeclared_is_text) good = tools_find(&p->tools, called) != NULL;
    if (good) {
        begin_call(p, called);
        str_puts(&p->keys, "\n"); /* not without arguments */
        toolcall_put(p, WEIR_TOOLCALL_ARGUMENTS, args.s, args.len - 1);
        end_call(p);
    }
    let_go(p, &spelled);
    let_go(p, &inner);
    return good;
}

/* The object is the next n bytes. */
static void end_json(weir_toolcall_parser *p, size_t n)
{
    str spelled;
    str_init(&spelled, p->value.max);
    scan_spell(&spelled, p->in.data + p->at, n);
    consume(p, n);
    toolcall_clear(p, &p->value);
    if (!value_compact(&p->value, spelled.data, spelled.len, true) ||
        !call_of_json(p, (name_span){p->value.data, p->value.len}))
        give_up(p);
    let_go(p, &spelled);
}

static bool step_json(weir_toolcall_parser *p)
{
    for (; p->at + p->scanned < p->in.len; p->scanned++) {
        const char c = p->in.data[p->at + p->scanned];
        if (p->quote != 0) {
            if (c == '\\') {
                if (p->at + p->scanned + 1 >= p->in.len) break; /* with what it escapes */
                p->scanned++;
            } else if (c == p->quote) {
                p->quote = 0;
            }
        } else if (c == '"' || c == '\'') {
            p->quote = c;
        } else if (is_mark(c)) {
            consume(p, p->scanned);
            give_up(p);
            return true;
        } else if (c == '{' || c == '[') {
            p->depth++;
        } else if ((c == '}' || c == ']') && --p->depth == 0) {
            end_json(p, p->scanned + 1);
            return true;
        }
    }
    if (!p->ended) return false;
    consume(p, p->in.len - p->at);
    give_up(p);
    return true;
}

static void begin_value(weir_toolcall_parser *p, name_span key)
{
    p->types   = tool_types(p->tool, key);
    p->dropped = has_key(p, key);
    p->streams = p->types == TYPE_STRING;
    p->fresh   = true;
    p->ahead   = 0;
    p->state   = SCAN_VALUE;
    toolcall_clear(p, &p->value);
    if (p->dropped) {
        p->info.duplicates++;
        return;
    }
    str *out = toolcall_out(p, WEIR_TOOLCALL_ARGUMENTS);
    str_puts(out, p->keys.len == 0 ? "{\"" : ",\"");
    value_escape(out, key.s, key.len);
    str_puts(out, p->streams ? "\":\"" : "\":");
    str_put(&p->keys, key.s, key.len);
    str_putc(&p->keys, '\n');
}

/* A tag in a call; LOOK_NO: it is text. */
static look step_between_tag(weir_toolcall_parser *p)
{
    name_span  name;
    size_t     end;
    const look parameter = look_parameter(p, p->at, &name, &end);
    if (parameter == LOOK_YES) {
        begin_value(p, name);
        if (p->in.data[end - 1] != '>') p->info.repairs++;
        consume(p, end - p->at);
        return LOOK_YES;
    }
    const look close = look_text(p, p->at, "</function>", &end);
    if (close == LOOK_YES) {
        consume(p, end - p->at);
        end_call(p);
        return LOOK_YES;
    }
    const look orphan = look_text(p, p->at, "</parameter>", &end);
    if (orphan == LOOK_YES) {
        p->info.repairs++;
        consume(p, end - p->at);
        return LOOK_YES;
    }
    const look next = look_declared(p, p->at, &name, &end);
    if (next == LOOK_YES) {
        p->info.repairs++;
        end_call(p);
        return LOOK_YES;
    }
    const bool more = parameter == LOOK_MORE || close == LOOK_MORE || orphan == LOOK_MORE || next == LOOK_MORE;
    return more ? LOOK_MORE : LOOK_NO;
}

static bool step_between(weir_toolcall_parser *p)
{
    if (at_end(p, p->at)) {
        if (!p->ended) return false;
        p->info.repairs++;
        end_call(p);
        return true;
    }
    const char c = p->in.data[p->at];
    if (is_mark(c)) {
        p->info.repairs++;
        if (at_mark(p, p->at, MARK_CLOSE) && p->by_tag) {
            consume(p, 1);
            p->by_tag = false;
        }
        end_call(p);
        return true;
    }
    if (c == '<') {
        const look l = step_between_tag(p);
        if (l != LOOK_NO) return l == LOOK_YES;
    }
    if (p->stray.len > 0 || !is_space(c)) str_putc(&p->stray, c);
    consume(p, 1);
    return true;
}

/* n bytes from p->at on belong to the value. */
static void put_value(weir_toolcall_parser *p, size_t n)
{
    const char *s = p->in.data + p->at;
    if (!p->dropped) {
        scan_spell(&p->value, s, n);
        if (p->streams) {
            value_escape(toolcall_out(p, WEIR_TOOLCALL_ARGUMENTS), p->value.data, p->value.len);
            toolcall_clear(p, &p->value);
        }
    }
    consume(p, n);
}

/* The value ends n bytes from p->at on, with `tag` bytes of newline and closing tag behind it. */
static void end_value(weir_toolcall_parser *p, size_t n, size_t tag)
{
    put_value(p, n);
    consume(p, tag);
    p->ahead = 0;
    p->state = SCAN_BETWEEN;
    if (p->dropped) return;
    if (p->streams) {
        toolcall_put(p, WEIR_TOOLCALL_ARGUMENTS, "\"", 1);
        return;
    }
    value_put(toolcall_out(p, WEIR_TOOLCALL_ARGUMENTS), p->value.data, p->value.len, p->types);
}

/* At `s` bytes from p->at, behind a newline that goes with the tag if `newline`. */
static bool decide_end(weir_toolcall_parser *p, value_end end, size_t s, size_t newline)
{
    static const size_t CLOSE = sizeof "</parameter>" - 1;
    if (end == END_CANDIDATE && p->returns == MAX_RETURNS) end = END_TAG;
    if (end == END_TAG) {
        end_value(p, s, newline + CLOSE);
    } else if (end == END_MISSING) {
        p->info.repairs++;
        if (p->ahead > 0) { /* then the first that may be the end is the end, and what is behind it is read again */
            p->returns++;
            end_value(p, 0, p->candidate);
        } else {
            end_value(p, s, newline);
        }
    } else { /* a candidate: the first one counts */
        if (p->ahead == 0) p->candidate = newline + CLOSE;
        p->ahead = s + newline + CLOSE;
        p->line  = false;
    }
    return true;
}

/* The first byte: a newline behind the tag is dropped. */
static bool step_value_begin(weir_toolcall_parser *p)
{
    if (at_end(p, p->at) && !p->ended) return false;
    p->fresh = false;
    p->line  = true;
    if (!at_end(p, p->at) && p->in.data[p->at] == '\n') consume(p, 1);
    return true;
}

static bool step_value(weir_toolcall_parser *p)
{
    if (p->fresh) return step_value_begin(p);
    const size_t at      = p->at + p->ahead;
    const bool   newline = !at_end(p, at) && p->in.data[at] == '\n';
    if (at_end(p, at) || newline || p->in.data[at] == '<' || is_mark(p->in.data[at])) {
        const value_end end = look_end(p, at + newline, newline || p->line);
        if (end == END_MORE) return false;
        if (end != END_NO) return decide_end(p, end, p->ahead, newline);
    }
    size_t to = at + 1;
    if (!newline)
        while (to < p->in.len && p->in.data[to] != '\n' && p->in.data[to] != '<' && !is_mark(p->in.data[to])) to++;
    p->line = newline;
    if (p->ahead > 0)
        p->ahead += to - at;
    else
        put_value(p, to - at);
    return true;
}

static bool step(weir_toolcall_parser *p)
{
    switch (p->state) {
    case SCAN_TEXT: return step_text(p);
    case SCAN_OPEN: return step_open(p);
    case SCAN_JSON: return step_json(p);
    case SCAN_BETWEEN: return step_between(p);
    case SCAN_VALUE: return step_value(p);
    }
    return false;
}

/* Lets go of what has been read. */
static void forget_read(weir_toolcall_parser *p)
{
    if (p->at < p->in.len / 2 || p->in.failed) return;
    p->in.len -= p->at;
    memmove(p->in.data, p->in.data + p->at, p->in.len);
    p->in.data[p->in.len] = '\0';
    p->at                 = 0;
}

void scan_run(weir_toolcall_parser *p)
{
    while (step(p)) {
    }
    forget_read(p);
}

void scan_finish(weir_toolcall_parser *p, bool complete)
{
    if (!complete && p->state != SCAN_TEXT) {
        consume(p, p->in.len - p->at);
        return;
    }
    p->ended = true;
    scan_run(p);
    if (!p->after_call) toolcall_put(p, WEIR_TOOLCALL_CONTENT, p->space.data, p->space.len);
    toolcall_clear(p, &p->space);
}
