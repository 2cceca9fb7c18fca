/* text/jinja_value.h - what a template computes with, and the state of one
 * rendering.
 *
 * Values are small structs passed by value; what they point to lives in the
 * rendering's arena, in the template's, or in the caller's JSON, and is never
 * changed except namespaces.  A string knows of every byte whether it came
 * from the data.
 *
 * Failure is sticky: the first one is kept in the state, later work is skipped,
 * and every function below then answers with an empty value. */
#ifndef TEXT_JINJA_VALUE_H
#define TEXT_JINJA_VALUE_H

#include "base/status.h"
#include "text/arena.h"

#include <jansson.h>
#include <stdbool.h>

/* Bytes with their provenance.  `marks` has one byte per byte (1 = data); when
 * it is NULL all bytes have `mark`.  Not NUL-terminated. */
typedef struct jstr {
    const char    *p;
    size_t         len;
    const uint8_t *marks;
    uint8_t        mark;
} jstr;

typedef enum jkind {
    J_MISSING, /* no value at all: an argument that was not given */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STRING,
    J_SEQ,
    J_DICT,
    J_NAMESPACE,
    J_MACRO,
    J_METHOD,
    J_FUNCTION,
    J_LOOP,
} jkind;

typedef enum jseq_kind { SEQ_LIST, SEQ_TUPLE, SEQ_RANGE, SEQ_GENERATOR, SEQ_KEYS, SEQ_VALUES, SEQ_ITEMS } jseq_kind;

typedef struct jvalue jvalue;

struct jvalue {
    jkind   kind;
    uint8_t mark; /* scalars: 1 when the number, boolean or null came from the data */
    union {
        bool                   b;
        int64_t                i;
        double                 f;
        jstr                   s; /* J_UNDEFINED: what it was called, for messages */
        struct jseq           *seq;
        struct jdict          *dict; /* also J_NAMESPACE */
        struct jmacro         *macro;
        struct jmethod        *method;
        const struct jbuiltin *function;
        const struct jloop    *loop;
    } u;
};

typedef struct jseq {
    jseq_kind kind;
    bool      spent; /* a generator gives its items once */
    size_t    n, cap;
    int64_t   range[3]; /* SEQ_RANGE: as it was called, for printing */
    jvalue   *v;
} jseq;

typedef struct jentry {
    jvalue key, value;
} jentry;

typedef struct jdict {
    size_t  n, cap;
    jentry *e; /* in order of insertion */
} jdict;

typedef struct jmethod {
    jvalue                 self;
    const struct jbuiltin *fn;
} jmethod;

/* A loop as seen by its body; the sequence is complete before it starts. */
typedef struct jloop {
    const jseq *seq;
    size_t      index; /* from 0 */
} jloop;

/* One rendering. */
typedef struct jinja {
    arena       mem;
    const char *name;  /* of the template */
    uint32_t    line;  /* of the node being run */
    uint32_t    depth; /* of C recursion, all kinds together */
    uint64_t    steps_left, max_steps;
    size_t      max_output;
    int64_t     now;
    weir_status st;
    weir_error *err;
} jinja;

enum { JINJA_MAX_DEPTH = 800, JINJA_MAX_NESTING = 200 };

/* Keeps the first failure: "name:line: text". */
__attribute__((cold, format(printf, 3, 4))) void jinja_fail(jinja *j, weir_status st, const char *fmt, ...);
/* Keeps the first failure with the text as it is. */
__attribute__((cold)) void jinja_raise(jinja *j, jstr text);
static inline bool         jinja_ok(const jinja *j)
{
    return j->st == WEIR_OK;
}
/* Counts work; false (and a failure) when the limit is reached or all is over. */
bool jinja_work(jinja *j, uint64_t steps);
/* Counts work of handling n bytes. */
static inline bool jinja_work_bytes(jinja *j, size_t n)
{
    return jinja_work(j, 1 + n / 64);
}
/* Enters one level of recursion; false when too deep.  Pair with jinja_leave. */
bool               jinja_enter(jinja *j);
static inline void jinja_leave(jinja *j)
{
    j->depth--;
}
/* Arena memory; NULL and a failure that names the limit. */
void *jinja_alloc(jinja *j, size_t n, size_t size);

/* Makers. */
static inline jvalue jv_none(void)
{
    return (jvalue){.kind = J_NONE};
}
static inline jvalue jv_bool(bool b)
{
    return (jvalue){.kind = J_BOOL, .u.b = b};
}
static inline jvalue jv_int(int64_t i)
{
    return (jvalue){.kind = J_INT, .u.i = i};
}
static inline jvalue jv_float(double f)
{
    return (jvalue){.kind = J_FLOAT, .u.f = f};
}
static inline jvalue jv_str(jstr s)
{
    return (jvalue){.kind = J_STRING, .u.s = s};
}
static inline jvalue jv_undefined(jstr name)
{
    return (jvalue){.kind = J_UNDEFINED, .u.s = name};
}
static inline jvalue jv_nothing(void)
{
    return (jvalue){.kind = J_UNDEFINED, .u.s = {.p = ""}};
}
jvalue jv_seq(jinja *j, jseq_kind kind, size_t cap);
jvalue jv_dict(jinja *j, size_t cap);
/* Grow as needed.  dict_set replaces the value of an equal key. */
void seq_push(jinja *j, jseq *s, jvalue v);
void dict_set(jinja *j, jdict *d, jvalue key, jvalue value);
/* Without looking for an equal key: for keys known to be new. */
void dict_push(jinja *j, jdict *d, jvalue key, jvalue value);
/* NULL when absent. */
const jvalue *dict_get(jinja *j, const jdict *d, jvalue key);
const jvalue *dict_get_str(jinja *j, const jdict *d, jstr key);

/* Python's rules. */
bool jv_truth(jvalue v);
bool jv_equal(jinja *j, jvalue a, jvalue b);
/* <0, 0, >0; a failure for kinds without an order. */
int    jv_compare(jinja *j, jvalue a, jvalue b);
bool   jv_contains(jinja *j, jvalue box, jvalue item);
bool   jv_hashable(jvalue v);
bool   jv_number(jvalue v, int64_t *i, double *f, bool *is_int); /* booleans count as integers */
jstr   jv_to_str(jinja *j, jvalue v);                            /* str(): strings as they are, with their marks */
jvalue jv_from_json(jinja *j, const json_t *json, uint8_t mark);

/* "a string", "undefined", ... for messages. */
const char *jv_kind(jvalue v);

/* The items in order: of a mapping its keys, of a string its characters, of
 * undefined none.  NULL and a failure for what cannot be iterated. */
jseq *jv_iterate(jinja *j, jvalue v);
/* len(); false when the kind has none. */
bool jv_length(jvalue v, size_t *n);

#endif
