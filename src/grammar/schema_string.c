/* grammar/schema_string.c - strings: of a length, of patterns and formats. */
#include "base/mem.h"
#include "grammar/regex.h"
#include "grammar/schema_parts.h"

#include <string.h>

#define YEAR "[0-9]{4}"
/* A day of a year of 365 days, or the 29th of February of a leap year. */
#define DATE \
    "(" YEAR \
    "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))" \
    "|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)"
#define HOUR_MINUTE "([01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOUR_MINUTE ":[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]" HOUR_MINUTE ")"
#define WORD "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

const char *schema_format(const char *name)
{
    static const char *const formats[][2] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
        {"email", "^" WORD "(\\." WORD ")*@" LABEL "(\\." LABEL ")*$"},
        {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i][0], name) == 0) return formats[i][1];
    return NULL;
}

uint32_t schema_count(const json_t *flat, const char *key, uint32_t none)
{
    const json_t *v = json_object_get(flat, key);
    return v == NULL ? none : (uint32_t)json_integer_value(v);
}

/* *d becomes what it and `more` accept. */
static weir_status intersect(char_dfa *d, bool *any, char_dfa *more, weir_error *err)
{
    if (!*any) {
        *d   = *more;
        *any = true;
        return WEIR_OK;
    }
    char_dfa          both;
    const weir_status st = char_dfa_and(&both, d, more, err);
    char_dfa_free(d);
    char_dfa_free(more);
    *d = both;
    return st;
}

/* All patterns and formats at once; *any false: there are none. */
static weir_status patterns(const json_t *flat, char_dfa *d, bool *any, weir_error *err)
{
    const json_t *lists[2] = {json_object_get(flat, "pattern"), json_object_get(flat, "format")};
    for (int j = 0; j < 2; j++) {
        for (size_t i = 0; i < json_array_size(lists[j]); i++) {
            const char *text = json_string_value(json_array_get(lists[j], i));
            char_dfa    one;
            if (j == 1) text = schema_format(text);
            const weir_status st = regex_parse(&one, text, strlen(text), true, err);
            if (st != WEIR_OK) {
                char_dfa_free(&one);
                return st;
            }
            TRY(intersect(d, any, &one, err));
        }
    }
    return WEIR_OK;
}

static weir_status limit(char_dfa *d, uint32_t least, uint32_t most, weir_error *err)
{
    char_dfa          limited;
    const weir_status st = char_dfa_length(&limited, d, least, most, err);
    char_dfa_free(d);
    *d = limited;
    return st;
}

static weir_status put_pattern(schema_compiler *c, char_dfa *d, uint32_t least, uint32_t most, uint32_t from,
                               uint32_t to, weir_error *err)
{
    if (least > 0 || most != DATA_MANY) TRY(limit(d, least, most, err));
    /* A rule of its own, so that its masks do not ask what is around it. */
    const uint32_t id = automaton_rule(c->a, true), open = automaton_node(c->a, id), close = automaton_node(c->a, id);
    TRY(automaton_status(c->a, err));
    automaton_bytes_edge(c->a, c->a->rules[id].start, '"', '"', open);
    automaton_bytes_edge(c->a, close, '"', '"', c->a->rules[id].end);
    automaton_call(c->a, from, id, DATA_NONE, to);
    return char_dfa_emit(d, c->a, open, ENCODE_JSON, close, err);
}

weir_status schema_put_string(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    const uint32_t least = schema_count(flat, "minLength", 0), most = schema_count(flat, "maxLength", DATA_MANY);
    char_dfa       d   = {0};
    bool           any = false;
    if (least > most) return WEIR_OK;
    weir_status st = patterns(flat, &d, &any, err);
    if (st == WEIR_OK && any) st = put_pattern(c, &d, least, most, from, to, err);
    char_dfa_free(&d);
    if (st != WEIR_OK || any) return st;
    const uint32_t string = schema_string(c);
    automaton_call(c->a, from, string, data_count(least, most), to);
    return automaton_status(c->a, err);
}
