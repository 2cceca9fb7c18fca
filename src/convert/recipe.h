/* convert/recipe.h - which module is stored with how many bits.
 *
 * A recipe file is a list of rules, and the first whose pattern fits the
 * module's name wins:
 *
 *   [{"pattern": "layers.*.mlp.down_proj", "bits": 6, "group": 64},
 *    {"pattern": "layers.*.mlp.*", "bits": 3, "format": "trellis"},
 *    {"pattern": "*.in_proj_a", "bits": 16}]
 *
 * In a pattern * is any run of characters and ? is any one.  Names are those of
 * the trunk's modules without a prefix, lm_head, and mtp.*.  16 bits: as the
 * source has it.  For what no rule names there is a default for each width;
 * it keeps what sets decay and write strength and what routes tokens as it is,
 * and gives the projections that suffer most at least 6 bits.  Its format is
 * that of a dense layer's MLP; all other modules are affine. */
#ifndef CONVERT_RECIPE_H
#define CONVERT_RECIPE_H

#include "base/status.h"

#include <stdbool.h>

enum { RECIPE_KEEP = 16, RECIPE_MAX_FILE = 1 << 20, RECIPE_MAX_PATTERN = 1000 };

typedef enum recipe_format { RECIPE_AFFINE, RECIPE_TRELLIS } recipe_format;

typedef struct recipe_rule {
    char         *pattern; /* owned */
    uint32_t      bits, group;
    recipe_format format;
    bool          used; /* it was the first that fitted some module */
} recipe_rule;

typedef struct recipe {
    uint32_t      bits, group; /* of the default */
    recipe_format format;
    bool          tied_head; /* the embedding is the head too */
    char         *file;      /* for messages; owned; NULL: no rules */
    size_t        n;
    recipe_rule  *rules;
} recipe;

/* Affine: bits 16, or a form that affine_is() knows.  Trellis: bits that
 * trellis_encode_is() knows; the group is for recipe_as_affine(). */
typedef struct recipe_choice {
    uint32_t      bits, group;
    recipe_format format;
    bool          named; /* by a rule */
} recipe_choice;

/* The rules of a text (`name` is for messages) or of a file go to *r, whose
 * bits and group must be set.  recipe_free in any case. */
weir_status recipe_parse(recipe *r, const char *text, size_t len, const char *name, weir_error *err);
weir_status recipe_load(recipe *r, const char *path, weir_error *err);
void        recipe_free(recipe *r); /* all zero is allowed */

/* How to store `module` with `cols` columns.  Where these do not come in whole
 * groups, smaller groups are taken; where no group divides them, 16 bits. */
recipe_choice recipe_choose(recipe *r, const char *module, uint64_t cols);
/* The same without a trellis. */
recipe_choice recipe_as_affine(recipe_choice c, uint64_t cols);

/* Is it the gate, up or down projection of a dense layer's MLP in the trunk?
 * Programs know the trellis format for these alone. */
bool recipe_is_dense_mlp(const char *module);

/* Does a rule say how to store `module`? */
bool recipe_names(const recipe *r, const char *module);

/* WEIR_FORMAT, naming the first rule that fitted no module: it was meant to. */
weir_status recipe_all_used(const recipe *r, weir_error *err);

#endif
