/* cli/args.c - the option parser; see args.h. */
#include "cli/args.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static bool refuse(arg_result *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out->message, sizeof out->message, fmt, ap);
    va_end(ap);
    return false;
}

/* Looks up `word`, whose name ends before an '=' at `*value` if there is one. */
static const arg_option *find_option(const arg_group *const *groups, const char *word, const char **value)
{
    const char  *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
    const size_t n      = equals != NULL ? (size_t)(equals - word) : strlen(word);
    *value              = equals != NULL ? equals + 1 : NULL;
    for (; *groups != NULL; groups++) {
        for (size_t i = 0; i < (*groups)->n; i++) {
            const arg_option *o = &(*groups)->options[i];
            if (strlen(o->name) == n && strncmp(o->name, word, n) == 0) return o;
            if (o->brief != NULL && strcmp(o->brief, word) == 0) return o;
        }
    }
    return NULL;
}

static bool is_word_of(const char *words, const char *text)
{
    const size_t n = strlen(text);
    for (const char *w = words; w != NULL; w = strchr(w, '|')) {
        if (*w == '|') w++;
        const size_t len = strcspn(w, "|");
        if (n > 0 && len == n && strncmp(w, text, n) == 0) return true;
    }
    return false;
}

static bool parse_whole(const arg_option *o, const char *text, uint64_t *out, arg_result *res)
{
    char *end;
    errno                = 0;
    const uint64_t value = strtoull(text, &end, 10);
    /* strtoull takes blanks, signs and wraps "-1": only digits may come here. */
    const bool digits = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    if (!digits || errno != 0 || value < (uint64_t)o->min || value > (uint64_t)o->max)
        return refuse(res, "%s: expected a whole number from %.0f to %.0f, found \"%.60s\"", o->name, o->min, o->max,
                      text);
    *out = value;
    return true;
}

static bool parse_real(const arg_option *o, const char *text, double *out, arg_result *res)
{
    char        *end;
    const double value = strtod(text, &end);
    const bool   shape = text[0] != '\0' && strspn(text, "0123456789.eE+-") == strlen(text) && *end == '\0';
    /* What is too small for a double is nearly 0, what is too large infinite. */
    if (!shape || !isfinite(value) || value < o->min || value > o->max)
        return refuse(res, "%s: expected a number from %g to %g, found \"%.60s\"", o->name, o->min, o->max, text);
    *out = value;
    return true;
}

/* Whole numbers with commas between them, each larger than the one before. */
static bool parse_numbers(const arg_option *o, const char *text, arg_numbers *out, arg_result *res)
{
    arg_numbers list = {0};
    for (const char *at = text;; at++) {
        char         one[24];
        const size_t len   = strcspn(at, ",");
        uint64_t     value = 0;
        (void)snprintf(one, sizeof one, "%.*s", (int)(len < sizeof one ? len : sizeof one - 1), at);
        if (!parse_whole(o, one, &value, res)) return false;
        if (list.n == ARG_LIST_MAX) return refuse(res, "%s: expected at most %d numbers", o->name, ARG_LIST_MAX);
        if (list.n > 0 && value <= list.items[list.n - 1])
            return refuse(res, "%s: expected rising numbers, found \"%.60s\"", o->name, text);
        list.items[list.n++] = (uint32_t)value;
        at += len;
        if (*at == '\0') break;
    }
    *out = list;
    return true;
}

static bool store(void *values, const arg_option *o, const char *text, arg_source from, arg_result *res)
{
    void    *target = (char *)values + o->target;
    uint64_t whole  = 0;
    switch (o->kind) {
    case ARG_FLAG: *(bool *)target = true; break;
    case ARG_CHOICE:
        if (!is_word_of(o->value, text))
            return refuse(res, "%s: expected one of %s, found \"%.60s\"", o->name, o->value, text);
        *(const char **)target = text;
        break;
    case ARG_STRING: *(const char **)target = text; break;
    case ARG_U32:
        if (!parse_whole(o, text, &whole, res)) return false;
        *(uint32_t *)target = (uint32_t)whole;
        break;
    case ARG_U64:
        if (!parse_whole(o, text, &whole, res)) return false;
        *(uint64_t *)target = whole;
        break;
    case ARG_REAL:
        if (!parse_real(o, text, target, res)) return false;
        break;
    case ARG_LIST: {
        arg_list *list = target;
        if (list->from != from) *list = (arg_list){.from = from};
        if (list->n == ARG_LIST_MAX) return refuse(res, "%s: expected at most %d of them", o->name, ARG_LIST_MAX);
        list->items[list->n++] = text;
        break;
    }
    case ARG_NUMBERS:
        if (!parse_numbers(o, text, target, res)) return false;
        break;
    }
    if (o->given != 0) *(bool *)((char *)values + o->given) = true;
    return true;
}

bool args_parse(void *values, const arg_group *const *groups, size_t max_positionals, int argc, char **argv,
                arg_result *out)
{
    *out              = (arg_result){0};
    bool options_over = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (options_over || word[0] != '-' || word[1] == '\0') {
            if (out->n_positionals == max_positionals)
                return refuse(out, "expected no further argument, found \"%.200s\"", word);
            out->positionals[out->n_positionals++] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            options_over = true;
            continue;
        }
        const char       *text;
        const arg_option *o = find_option(groups, word, &text);
        if (o == NULL) return refuse(out, "unknown option \"%.200s\"", word);
        if (o->kind == ARG_FLAG && text != NULL) return refuse(out, "%s: takes no value", o->name);
        if (o->kind != ARG_FLAG && text == NULL) {
            if (i + 1 == argc) return refuse(out, "%s: expected a value (%s) behind it", o->name, o->value);
            text = argv[++i];
        }
        if (!store(values, o, text, ARGS_COMMAND, out)) return false;
    }
    return true;
}

bool args_set(void *values, const arg_option *o, const char *text, arg_source from, arg_result *out)
{
    if (o->kind != ARG_FLAG) return store(values, o, text, from, out);
    if (!is_word_of("true|false", text))
        return refuse(out, "%s: expected true or false, found \"%.60s\"", o->name, text);
    *(bool *)((char *)values + o->target) = strcmp(text, "true") == 0;
    return true;
}

void args_print_help(const arg_group *const *groups)
{
    enum { COLUMN = 30 };
    for (; *groups != NULL; groups++) {
        (void)printf("\n%s:\n", (*groups)->title);
        for (size_t i = 0; i < (*groups)->n; i++) {
            const arg_option *o = &(*groups)->options[i];
            char              left[120];
            (void)snprintf(left, sizeof left, "  %s%s%s%s%s", o->brief != NULL ? o->brief : "",
                           o->brief != NULL ? ", " : "", o->name, o->value != NULL ? " " : "",
                           o->value != NULL ? o->value : "");
            const char *help = o->help;
            (void)printf("%-*s", COLUMN, left);
            if (strlen(left) >= COLUMN) (void)printf("\n%*s", COLUMN, "");
            for (const char *nl; (nl = strchr(help, '\n')) != NULL; help = nl + 1)
                (void)printf("%.*s\n%*s", (int)(nl - help), help, COLUMN, "");
            (void)printf("%s\n", help);
        }
    }
}
