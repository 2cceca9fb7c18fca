/* serve/form.c - see form.h. */
#include "serve/form.h"

#include "base/json.h"
#include "serve/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The form that member `key` gives, unless one was found before. */
static void keep_first(const fields *f, const char *key, weir_grammar_kind kind, const json_t *value, reply_form *out)
{
    if (out->given) return;
    out->given = true;
    out->kind  = kind;
    out->value = value;
    (void)snprintf(out->where, sizeof out->where, "%s%s%s", f->where, f->where[0] != '\0' ? "." : "", key);
}

/* What a kind is written as; a schema may be text, too. */
static bool has_kind(const json_t *v, weir_grammar_kind kind, const char **expected)
{
    switch (kind) {
    case WEIR_GRAMMAR_JSON_SCHEMA: *expected = "a JSON Schema"; return json_is_object(v) || json_is_string(v);
    case WEIR_GRAMMAR_JSON_OBJECT: *expected = "true or false"; return json_is_boolean(v);
    case WEIR_GRAMMAR_REGEX:
    case WEIR_GRAMMAR_EBNF: *expected = "a string"; return json_is_string(v);
    case WEIR_GRAMMAR_CHOICE: break;
    }
    *expected = "an array of strings";
    return json_is_array(v);
}

static void read_member(fields *f, const char *key, weir_grammar_kind kind, reply_form *out)
{
    const json_t *v = field(f, key);
    const char   *expected;
    if (v == NULL) return;
    if (!has_kind(v, kind, &expected))
        (void)field_wrong(f, key, "expected %s, found %s", expected, json_kind(v));
    else if (!json_is_false(v) && !(kind == WEIR_GRAMMAR_EBNF && json_string_length(v) == 0)) /* clients send "" */
        keep_first(f, key, kind, v, out);
}

/* ---- one value ---- */

/* The schema is a member of `f`, or of its json_schema. */
static bool read_schema(fields *f, bool required, reply_form *out)
{
    const json_t *nested = NULL;
    char          where[64];
    if (required) (void)field_object(f, "json_schema", &nested);
    (void)snprintf(where, sizeof where, "%s%s", f->where, nested != NULL ? ".json_schema" : "");
    fields of = {.object = nested != NULL ? nested : f->object, .where = where, .err = f->err, .failed = f->failed};
    (void)field_bool(&of, "strict", &out->ordered);
    read_member(&of, "schema", WEIR_GRAMMAR_JSON_SCHEMA, out);
    if (required && !out->given) (void)field_wrong(&of, "schema", "expected a JSON Schema, found nothing");
    f->failed = of.failed;
    return !f->failed;
}

static bool read_typed(fields *f, reply_form *out)
{
    const json_t *type = field(f, "type");
    const char   *word = json_is_string(type) ? json_string_value(type) : json_kind(type);
    if (strcmp(word, "text") == 0) return true;
    if (strcmp(word, "json_schema") == 0) return read_schema(f, true, out);
    if (strcmp(word, "json_object") != 0)
        return field_wrong(f, "type", "expected text, json_object or json_schema, found %.40s", word);
    if (!read_schema(f, false, out)) return false;
    keep_first(f, "type", WEIR_GRAMMAR_JSON_OBJECT, NULL, out);
    return true;
}

bool form_read_value(form_style style, const json_t *value, const char *where, reply_form *out, api_error *err)
{
    fields       f    = {.object = value, .where = where, .err = err};
    const char  *word = style == FORM_BARE && json_is_string(value) ? json_string_value(value) : NULL;
    const fields here = {.where = "", .err = err};
    *out              = (reply_form){0};
    if (value == NULL || json_is_null(value) || (word != NULL && word[0] == '\0')) return true;
    if (word != NULL && strcmp(word, "json") == 0) {
        keep_first(&here, where, WEIR_GRAMMAR_JSON_OBJECT, NULL, out);
        return true;
    }
    if (!json_is_object(value))
        return api_fail(err, API_INVALID, where, "%s: expected %s, found %s", where,
                        style == FORM_BARE ? "\"json\" or a JSON Schema" : "an object", json_kind(value));
    if (style == FORM_TYPED) return read_typed(&f, out);
    keep_first(&here, where, WEIR_GRAMMAR_JSON_SCHEMA, value, out);
    return true;
}

/* ---- all spellings ---- */

/* vLLM's structured_outputs says what it says or is refused: what is not known here would leave
 * the reply free. */
static void check_structured(fields *f)
{
    static const char *const names[] = {"json", "json_object", "regex", "choice", "grammar"};
    bool                     any = false, off = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) any = any || field(f, names[i]) != NULL;
    if (field(f, "structural_tag") != NULL) (void)field_wrong(f, "structural_tag", "not served");
    if (field(f, "whitespace_pattern") != NULL) (void)field_wrong(f, "whitespace_pattern", "use any_whitespace");
    if (field_bool(f, "disable_any_whitespace", &off) && off)
        (void)field_wrong(f, "disable_any_whitespace", "not served");
    if (field_bool(f, "disable_additional_properties", &off) && off)
        (void)field_wrong(f, "disable_additional_properties", "say so in the schema");
    if (!any && !f->failed) {
        f->failed = true;
        (void)api_fail(f->err, API_INVALID, f->where, "%s: expected one of json, json_object, regex, choice, grammar",
                       f->where);
    }
}

/* From the most to the least particular; all are looked at. */
static void read_spellings(fields *top, fields *in, const reply_form *format, reply_form *out)
{
    const bool schema = format->given && format->kind == WEIR_GRAMMAR_JSON_SCHEMA;
    read_member(top, "grammar", WEIR_GRAMMAR_EBNF, out);
    read_member(top, "guided_grammar", WEIR_GRAMMAR_EBNF, out);
    read_member(in, "grammar", WEIR_GRAMMAR_EBNF, out);
    if (schema && !out->given) *out = *format;
    read_member(top, "json_schema", WEIR_GRAMMAR_JSON_SCHEMA, out);
    read_member(top, "guided_json", WEIR_GRAMMAR_JSON_SCHEMA, out);
    read_member(in, "json", WEIR_GRAMMAR_JSON_SCHEMA, out);
    if (!schema && !out->given) *out = *format;
    read_member(in, "json_object", WEIR_GRAMMAR_JSON_OBJECT, out);
    read_member(top, "guided_regex", WEIR_GRAMMAR_REGEX, out);
    read_member(in, "regex", WEIR_GRAMMAR_REGEX, out);
    read_member(top, "guided_choice", WEIR_GRAMMAR_CHOICE, out);
    read_member(in, "choice", WEIR_GRAMMAR_CHOICE, out);
}

bool form_read(const json_t *body, reply_form *out, api_error *err)
{
    fields     top = {.object = body, .where = "", .err = err};
    fields     in  = {.where = "structured_outputs", .err = err};
    reply_form format;
    bool       any_space = false;
    *out                 = (reply_form){0};
    if (!form_read_value(FORM_TYPED, field(&top, "response_format"), "response_format", &format, err)) return false;
    (void)field_bool(&top, "any_whitespace", &any_space);
    if (field_object(&top, "structured_outputs", &in.object)) check_structured(&in);
    (void)field_bool(&in, "any_whitespace", &any_space);
    if (top.failed || in.failed) return false;
    read_spellings(&top, &in, &format, out);
    out->any_space = any_space;
    return !top.failed && !in.failed;
}

/* ---- compiling ---- */

bool form_apply(const weir_model *m, const reply_form *f, job_options *o, api_error *err)
{
    weir_grammar_options opt = WEIR_GRAMMAR_OPTIONS_INIT;
    weir_error           we;
    char                *own  = NULL;
    const char          *text = "";
    size_t               len  = 0;
    weir_grammar_free(o->grammar);
    o->grammar = NULL;
    if (!f->given) return true;
    if (json_is_string(f->value)) {
        text = json_string_value(f->value);
        len  = json_string_length(f->value);
    } else if (f->value != NULL && !json_is_boolean(f->value)) {
        text = own = json_dumps(f->value, JSON_COMPACT);
        if (own == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
        len = strlen(own);
    }
    opt.ordered          = f->ordered;
    opt.any_space        = f->any_space;
    const weir_status st = weir_grammar_compile(&o->grammar, m, f->kind, text, len, &opt, &we);
    free(own);
    if (st == WEIR_OK) return true;
    const api_kind kind = st == WEIR_INVALID || st == WEIR_UNSUPPORTED ? API_INVALID : API_INTERNAL;
    return api_fail(err, kind, f->where, "%s: %s", f->where, we.text);
}
