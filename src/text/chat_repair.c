/* text/chat_repair.c - histories that the published templates refuse.
 *
 * The template is not changed and its words are not guessed.  It renders a
 * stand-in that it accepts, and the stand-in's turn is found again in the
 * result by a text that occurs nowhere else:
 *
 *   - a late system message is rendered as a user turn, wrapped so that it does
 *     not count as a question; then the role and the text are put in;
 *   - when no question of the user is left, one is put in front of the first
 *     answer; then its whole turn is cut out.
 *
 * Anything unexpected in the result (the text found twice, or not in a turn of
 * the usual form) leaves the template's refusal as it was. */
#include "text/chat_parts.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static const char OPENER[] = "<|im_start|>", TURN[] = "<|im_start|>user\n", TURN_END[] = "<|im_end|>\n";
static const char QUIET[] = "<tool_response>", QUIET_END[] = "</tool_response>";

enum { MAX_STAND_INS = 64, MARK_SIZE = 80 };

/* The text of stand-in k: no one types it by accident. */
static void mark_of(char out[MARK_SIZE], size_t k)
{
    (void)snprintf(out, MARK_SIZE, "[weir stand-in %zu 6f1d0c]", k);
}

static bool has_role(const json_t *message, const char *role)
{
    const char *r = json_string_value(json_object_get(message, "role"));
    return r != NULL && strcmp(r, role) == 0;
}

static bool is_quiet(const json_t *content)
{
    const char  *text = json_string_value(content);
    const size_t n = json_string_length(content), head = strlen(QUIET), tail = strlen(QUIET_END);
    return text != NULL && n >= head + tail && memcmp(text, QUIET, head) == 0 &&
           memcmp(text + n - tail, QUIET_END, tail) == 0;
}

static bool has_question(const json_t *messages)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        if (has_role(m, "user") && !is_quiet(json_object_get(m, "content"))) return true;
    }
    return false;
}

static json_t *user_message(const char *before, const char *mark, const char *behind)
{
    return json_pack("{s:s, s:s++}", "role", "user", "content", before, mark, behind);
}

typedef struct stand_ins {
    json_t *messages;          /* with the stand-ins in it */
    size_t  at[MAX_STAND_INS]; /* index of the late system messages in the original */
    size_t  n;
    bool    question; /* one was put in; its mark is number n */
} stand_ins;

/* false: nothing to repair, too much, or no memory. */
static bool place(stand_ins *s, const json_t *messages)
{
    const size_t n     = json_array_size(messages);
    size_t       first = 0; /* turn behind the leading system message */
    char         mark[MARK_SIZE];
    s->messages = json_array();
    while (first < n && has_role(json_array_get(messages, first), "system")) first++;
    for (size_t i = 0; i < n && s->messages != NULL; i++) {
        json_t    *m    = json_array_get(messages, i);
        const bool late = i >= first && has_role(m, "system");
        if (late && (s->n == MAX_STAND_INS || !json_is_string(json_object_get(m, "content")))) return false;
        if (late) {
            s->at[s->n] = i;
            mark_of(mark, s->n++);
            m = user_message(QUIET, mark, QUIET_END);
        } else {
            (void)json_incref(m);
        }
        if (m == NULL || json_array_append_new(s->messages, m) != 0) return false;
    }
    s->question = !has_question(messages);
    mark_of(mark, s->n);
    if (s->question && json_array_insert_new(s->messages, first, user_message("", mark, "")) != 0) return false;
    return s->messages != NULL && (s->n > 0 || s->question);
}

/* The turn that holds mark k, from its <|im_start|> to behind its end. */
static bool find_turn(const template_text *t, size_t k, bool quiet, size_t *from, size_t *to)
{
    char mark[MARK_SIZE], whole[4 * MARK_SIZE];
    mark_of(mark, k);
    (void)snprintf(whole, sizeof whole, "%s%s%s%s%s", TURN, quiet ? QUIET : "", mark, quiet ? QUIET_END : "", TURN_END);
    const char *hit = strstr(t->text, mark);
    if (hit == NULL || strstr(hit + 1, mark) != NULL) return false;
    const size_t before = strlen(TURN) + (quiet ? strlen(QUIET) : 0), at = (size_t)(hit - t->text);
    if (at < before) return false;
    *from = at - before;
    *to   = *from + strlen(whole);
    return *to <= t->len && memcmp(t->text + *from, whole, strlen(whole)) == 0 &&
           memchr(t->untrusted + *from, 1, strlen(OPENER)) == NULL; /* the role may be data */
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Puts a system turn with `text` in the place of bytes [from, to). */
static bool put_turn(template_text *t, size_t from, size_t to, const json_t *text)
{
    static const char head[] = "<|im_start|>system\n";
    const char       *p      = json_string_value(text);
    size_t            n      = json_string_length(text);
    for (; n > 0 && is_space(*p); p++) n--; /* as the templates trim every content */
    while (n > 0 && is_space(p[n - 1])) n--;
    const size_t fixed = strlen(head) + strlen(TURN_END), kept = t->len - (to - from);
    size_t       len;
    if (!size_add(&len, kept, n) || !size_add(&len, len, fixed + 1)) return false;
    char    *out   = mem_alloc(len, 1);
    uint8_t *marks = mem_zalloc(len, 1);
    if (out == NULL || marks == NULL) {
        mem_free(out);
        mem_free(marks);
        return false;
    }
    size_t at = from;
    memcpy(out, t->text, from);
    memcpy(marks, t->untrusted, from);
    memcpy(out + at, head, strlen(head));
    at += strlen(head);
    memcpy(out + at, p, n);
    memset(marks + at, 1, n);
    at += n;
    memcpy(out + at, TURN_END, strlen(TURN_END));
    at += strlen(TURN_END);
    memcpy(out + at, t->text + to, t->len - to + 1);
    memcpy(marks + at, t->untrusted + to, t->len - to);
    mem_free(t->text);
    mem_free(t->untrusted);
    *t = (template_text){.text = out, .untrusted = marks, .len = len - 1};
    return true;
}

static void cut(template_text *t, size_t from, size_t to)
{
    memmove(t->text + from, t->text + to, t->len - to + 1);
    memmove(t->untrusted + from, t->untrusted + to, t->len - to);
    t->len -= to - from;
}

/* Puts the real turns where the stand-ins are. */
static bool replace(template_text *t, const stand_ins *s, const json_t *messages)
{
    size_t from, to;
    if (s->question) {
        if (!find_turn(t, s->n, false, &from, &to)) return false;
        cut(t, from, to);
    }
    for (size_t k = 0; k < s->n; k++) {
        const json_t *content = json_object_get(json_array_get(messages, s->at[k]), "content");
        if (!find_turn(t, k, true, &from, &to) || !put_turn(t, from, to, content)) return false;
    }
    return true;
}

weir_status chat_repair(const chat_run *run, const json_t *messages, weir_status refusal, template_text *out,
                        weir_error *err)
{
    stand_ins   s  = {0};
    weir_status st = refusal;
    if (place(&s, messages) && chat_run_template(run, s.messages, out, NULL) == WEIR_OK) {
        if (replace(out, &s, messages))
            st = WEIR_OK;
        else
            template_text_free(out);
    }
    json_decref(s.messages);
    if (st == WEIR_OK && err != NULL) *err = (weir_error){.status = WEIR_OK};
    return st;
}
