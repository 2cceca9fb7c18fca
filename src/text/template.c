/* text/template.c - one parsed template, and its renderings. */
#include "text/template.h"

#include "base/mem.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"

#include <inttypes.h>

struct template
{
    arena  mem; /* name, source and tree */
    char  *name;
    jnode *root;
};

enum { PARSE_MEMORY = 64 * 1024 * 1024, MAX_NAME = 200 };

static const template_options defaults = {
    .max_steps  = 50 * 1000 * 1000,
    .max_memory = 64 * 1024 * 1024,
    .max_output = 64 * 1024 * 1024,
};

weir_status template_parse(template **out, const char *source, size_t len, const char *name, weir_error *err)
{
    *out = NULL;
    if (len > TEMPLATE_MAX_BYTES)
        return status_fail(err, WEIR_FORMAT, "%s: expected a template of at most %d bytes, found %zu", name,
                           (int)TEMPLATE_MAX_BYTES, len);
    template *t    = mem_zalloc(1, sizeof *t);
    char     *copy = mem_strndup(name, strnlen(name, MAX_NAME));
    if (t == NULL || copy == NULL) {
        mem_free(t);
        mem_free(copy);
        return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name);
    }
    t->name = copy;
    arena_init(&t->mem, PARSE_MEMORY);
    const weir_status st = jinja_parse(&t->root, &t->mem, source, len, t->name, err);
    if (st != WEIR_OK) {
        template_free(t);
        return st;
    }
    *out = t;
    return WEIR_OK;
}

void template_free(template *t)
{
    if (t == NULL) return;
    arena_free(&t->mem);
    mem_free(t->name);
    mem_free(t);
}

/* Copies the result out of the arena. */
static weir_status hand_over(template_text *out, const jbuf *b, const template *t, weir_error *err)
{
    char    *text  = mem_alloc(b->len + 1, 1);
    uint8_t *marks = mem_alloc(b->len + 1, 1);
    if (text == NULL || marks == NULL) {
        mem_free(text);
        mem_free(marks);
        return status_fail(err, WEIR_NO_MEMORY, "%s: no memory for %zu bytes of text", t->name, b->len);
    }
    if (b->len > 0) {
        memcpy(text, b->p, b->len);
        memcpy(marks, b->m, b->len);
    }
    text[b->len] = '\0';
    *out         = (template_text){.text = text, .untrusted = marks, .len = b->len};
    return WEIR_OK;
}

static void start(jinja *j, const template *t, const template_options *opt, weir_error *err)
{
    if (opt == NULL) opt = &defaults;
    *j            = (jinja){.name       = t->name,
                            .max_steps  = opt->max_steps != 0 ? opt->max_steps : defaults.max_steps,
                            .max_output = opt->max_output != 0 ? opt->max_output : defaults.max_output,
                            .now        = opt->now,
                            .err        = err};
    j->steps_left = j->max_steps;
    arena_init(&j->mem, opt->max_memory != 0 ? opt->max_memory : defaults.max_memory);
}

weir_status template_render(const template *t, const template_var *vars, size_t n_vars, const template_options *opt,
                            template_text *out, weir_error *err)
{
    jinja j;
    *out = (template_text){0};
    start(&j, t, opt, err);
    jscope *globals = scope_new(&j, NULL);
    for (size_t i = 0; i < n_vars && jinja_ok(&j); i++)
        scope_set(&j, globals, js(vars[i].name), jv_from_json(&j, vars[i].value, !vars[i].trusted));
    /* What the template sets lives apart, so that macros and data cannot mix up. */
    jscope *top  = scope_new(&j, globals);
    jbuf    text = {0};
    if (top != NULL) (void)jinja_run(&j, top, &text, t->root);
    weir_status st = j.st;
    if (st == WEIR_OK) st = hand_over(out, &text, t, err);
    arena_free(&j.mem);
    return st;
}

void template_text_free(template_text *t)
{
    mem_free(t->text);
    mem_free(t->untrusted);
    *t = (template_text){0};
}
