/* grammar/schema.h - JSON Schema, the part of it that an automaton can hold exactly.
 *
 * Known: type (also lists), nullable, properties, required, additionalProperties,
 * enum, const, items, prefixItems, minItems, maxItems, minLength, maxLength, pattern,
 * format (date, time, date-time, uuid, email, ipv4), minimum, maximum,
 * exclusiveMinimum and exclusiveMaximum of integers, anyOf, oneOf (as anyOf), allOf,
 * $ref into the document, $defs, definitions.  What does not constrain is ignored, what
 * does and is not known is refused, by name and JSON pointer.
 *
 * Within that, what is accepted is valid; the other way round, of equal texts one is
 * chosen: strings of a pattern, an enum or a name are written in the shortest way, white
 * space is what printers of JSON write, properties that are not named come only where
 * additionalProperties allows them or no properties are given. */
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "grammar/automaton.h"

enum { SCHEMA_BYTES_MOST = 1 << 20, SCHEMA_DEPTH_MOST = 64, SCHEMA_VALUES_MOST = 1 << 13 };

typedef struct schema_options {
    bool ordered;   /* properties in the schema's order */
    bool any_space; /* any white space between tokens */
} schema_options;

/* Adds the schema to an empty automaton and finishes it. */
weir_status schema_compile(automaton *a, const char *text, size_t len, const schema_options *o, weir_error *err);

#endif
