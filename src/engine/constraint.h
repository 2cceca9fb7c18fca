/* engine/constraint.h - a reply on its way through its grammar.
 *
 * The reasoning is free, but for the tokens that would end the reply within it: the
 * grammar begins with the first token of the content, behind </think> and the line
 * breaks that templates put there.  The text may end where the grammar may. */
#ifndef ENGINE_CONSTRAINT_H
#define ENGINE_CONSTRAINT_H

#include "engine/channel.h"
#include "engine/grammar_parts.h"

typedef struct constraint {
    const weir_model *of;
    channel_tags      tags;
    bool              reasoning;
    bool              lead;  /* the next token may be line breaks that belong to the tag */
    bool              ended; /* an end id was taken */
    matcher          *m;
    uint64_t         *bits; /* of constraint_mask */
} constraint;

/* `reasoning`: the reply begins within it.  WEIR_INVALID: a grammar of another model. */
weir_status constraint_new(constraint **out, const weir_grammar *g, const weir_model *m, const channel_tags *tags,
                           bool reasoning, weir_error *err);
void        constraint_free(constraint *c); /* NULL is allowed */
/* `to` stands where `from` does; both are of one grammar.  Allocates nothing, nor do the others below. */
void constraint_copy(constraint *to, const constraint *from);

/* The tokens that may come: a bit per id, until the next call.  WEIR_INVALID where
 * there are none. */
weir_status constraint_mask(constraint *c, const uint64_t **bits, weir_error *err);
/* The token comes.  WEIR_INVALID, and nothing happens, where it is not allowed. */
weir_status constraint_take(constraint *c, uint32_t id, weir_error *err);
/* Nothing can follow what has come. */
bool constraint_complete(const constraint *c);

#endif
