/* cli/settings.c - see settings.h. */
#include "cli/settings.h"

#include "base/file.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_NAME = 64 };

static bool fail(arg_result *out, const char *where, const char *what)
{
    char text[sizeof out->message];
    (void)snprintf(text, sizeof text, "%.200s: %.180s", where, what);
    memcpy(out->message, text, sizeof text);
    return false;
}

static bool keep(settings_texts *t, char *text)
{
    if (text == NULL || t->n == sizeof t->kept / sizeof *t->kept) {
        mem_free(text);
        return false;
    }
    t->kept[t->n++] = text;
    return true;
}

void settings_free(settings_texts *t)
{
    for (size_t i = 0; i < t->n; i++) mem_free(t->kept[i]);
    t->n = 0;
}

/* Not to be said there: they are about the command line itself. */
static bool is_of_command_line(const arg_option *a)
{
    static const char *const names[] = {"--config", "--print-config", "--help"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(a->name, names[i]) == 0) return true;
    return false;
}

static const arg_option *find(const arg_group *const *groups, const char *name)
{
    for (; *groups != NULL; groups++)
        for (size_t i = 0; i < (*groups)->n; i++) {
            const arg_option *a = &(*groups)->options[i];
            if (strcmp(a->name + 2, name) == 0 && !is_of_command_line(a)) return a;
        }
    return NULL;
}

/* ---- the file ---- */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1]) != NULL) text[--n] = '\0';
    return text;
}

static bool read_line(options *o, const arg_group *const *groups, char *line, arg_result *out)
{
    char *name = trim(line), *equals;
    if (*name == '\0' || *name == '#') return true;
    equals = strchr(name, '=');
    if (equals == NULL) return fail(out, name, "expected NAME = VALUE");
    *equals     = '\0';
    name        = trim(name);
    char *value = trim(equals + 1);
    if (strcmp(name, "model") == 0) {
        o->model = value;
        return true;
    }
    const arg_option *a = find(groups, name);
    return a != NULL ? args_set(o, a, value, ARGS_FILE, out) : fail(out, name, "no such option");
}

static bool read_file(options *o, const arg_group *const *groups, const char *path, settings_texts *texts,
                      arg_result *out)
{
    char      *text;
    size_t     n;
    weir_error err;
    if (file_read(&text, &n, path, MAX_FILE, &err) != WEIR_OK) return fail(out, "--config", err.text);
    if (!keep(texts, text)) return fail(out, path, "out of memory");
    if (strlen(text) != n) return fail(out, path, "expected text, found a zero byte");
    unsigned number = 1;
    for (char *at = text, *next; at != NULL; at = next, number++) {
        next = strchr(at, '\n');
        if (next != NULL) *next++ = '\0';
        if (read_line(o, groups, at, out)) continue;
        char where[240], why[sizeof out->message];
        (void)snprintf(where, sizeof where, "%.180s, line %u", path, number);
        memcpy(why, out->message, sizeof why);
        return fail(out, where, why);
    }
    return true;
}

/* ---- the environment ---- */

static void variable_of(const arg_option *a, char name[MAX_NAME])
{
    (void)snprintf(name, MAX_NAME, "WEIR_%s", a->name + 2);
    for (char *c = name; *c != '\0'; c++) {
        if (*c == '-') *c = '_';
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 32);
    }
}

/* "A,B": what may be given several times. */
static bool set_list(options *o, const arg_option *a, const char *value, settings_texts *texts, arg_result *out)
{
    char *copy = mem_strdup(value);
    if (!keep(texts, copy)) return fail(out, a->name, "out of memory");
    for (char *at = copy, *comma; at != NULL; at = comma) {
        comma = strchr(at, ',');
        if (comma != NULL) *comma++ = '\0';
        if (!args_set(o, a, at, ARGS_ENVIRONMENT, out)) return false;
    }
    return true;
}

static bool read_environment(options *o, const arg_group *const *groups, settings_texts *texts, arg_result *out)
{
    const char *model = getenv("WEIR_MODEL");
    if (model != NULL && model[0] != '\0') o->model = model;
    for (; *groups != NULL; groups++)
        for (size_t i = 0; i < (*groups)->n; i++) {
            const arg_option *a = &(*groups)->options[i];
            char              name[MAX_NAME], why[sizeof out->message];
            variable_of(a, name);
            const char *value = getenv(name);
            if (value == NULL || value[0] == '\0' || is_of_command_line(a)) continue;
            if (a->kind == ARG_LIST ? set_list(o, a, value, texts, out) : args_set(o, a, value, ARGS_ENVIRONMENT, out))
                continue;
            memcpy(why, out->message, sizeof why);
            return fail(out, name, why);
        }
    return true;
}

bool settings_read(options *o, const arg_group *const *groups, settings_texts *texts, arg_result *out)
{
    const char *path = o->config != NULL ? o->config : getenv("WEIR_CONFIG");
    if (path != NULL && path[0] != '\0' && !read_file(o, groups, path, texts, out)) return false;
    return read_environment(o, groups, texts, out);
}

/* ---- printing ---- */

static void print_numbers(const char *name, const arg_numbers *list)
{
    (void)printf("%s = ", name);
    for (size_t i = 0; i < list->n; i++) (void)printf(i == 0 ? "%" PRIu32 : ",%" PRIu32, list->items[i]);
    (void)printf("\n");
}

/* Keys are counted only. */
static void print_list(const char *name, const arg_list *list, bool keys)
{
    for (size_t i = 0; i < list->n; i++)
        (void)printf("%s%s = %s\n", keys ? "# " : "", name, keys ? "(not shown)" : list->items[i]);
}

static void print_one(const arg_option *a, const void *target)
{
    const char *name = a->name + 2;
    switch (a->kind) {
    case ARG_FLAG: (void)printf("%s = %s\n", name, *(const bool *)target ? "true" : "false"); break;
    case ARG_STRING:
    case ARG_CHOICE: (void)printf("%s = %s\n", name, *(const char *const *)target); break;
    case ARG_U32: (void)printf("%s = %" PRIu32 "\n", name, *(const uint32_t *)target); break;
    case ARG_U64: (void)printf("%s = %" PRIu64 "\n", name, *(const uint64_t *)target); break;
    case ARG_REAL: (void)printf("%s = %.15g\n", name, *(const double *)target); break;
    case ARG_LIST: print_list(name, target, strcmp(a->value, "KEY") == 0); break;
    case ARG_NUMBERS: print_numbers(name, target); break;
    }
}

/* Nothing was said, or what holds anyway. */
static bool is_usual(const arg_option *a, const options *o, const options *usual)
{
    const void *x = (const char *)o + a->target, *y = (const char *)usual + a->target;
    switch (a->kind) {
    case ARG_FLAG: return *(const bool *)x == *(const bool *)y;
    case ARG_U32: return *(const uint32_t *)x == *(const uint32_t *)y;
    case ARG_U64: return *(const uint64_t *)x == *(const uint64_t *)y;
    case ARG_REAL: return memcmp(x, y, sizeof(double)) == 0;
    case ARG_STRING:
    case ARG_CHOICE: {
        const char *s = *(const char *const *)x, *t = *(const char *const *)y;
        return s == t || (s != NULL && t != NULL && strcmp(s, t) == 0);
    }
    case ARG_LIST: return ((const arg_list *)x)->n == 0;
    case ARG_NUMBERS: return ((const arg_numbers *)x)->n == 0;
    }
    return false;
}

void settings_print(const options *o, const arg_group *const *groups)
{
    const options usual = OPTIONS_INIT;
    (void)printf("%smodel =%s%s\n", o->model != NULL ? "" : "# ", o->model != NULL ? " " : "",
                 o->model != NULL ? o->model : "");
    for (; *groups != NULL; groups++) {
        (void)printf("\n# %s\n", (*groups)->title);
        for (size_t i = 0; i < (*groups)->n; i++) {
            const arg_option *a     = &(*groups)->options[i];
            const bool        given = a->given != 0 && *(const bool *)((const char *)o + a->given);
            if (is_of_command_line(a)) continue;
            if (!given && is_usual(a, o, &usual))
                (void)printf("# %s =\n", a->name + 2);
            else
                print_one(a, (const char *)o + a->target);
        }
    }
}
