/* checkpoint/names.c - tensor names of every generation of exporters as ours.
 *
 * The trunk has been exported as model.language_model.X (with a vision tower),
 * language_model.model.X (MLX), model.X (text only) and X (the bare text
 * model).  The canonical name is what is left when the prefix goes. */
#include "checkpoint/names.h"

#include <string.h>

/* `keep`: how many bytes at the end of the prefix belong to the name. */
typedef struct name_rule {
    const char     *prefix;
    size_t          keep;
    checkpoint_part part;
} name_rule;

/* The first rule whose prefix fits wins: special ones come before general ones. */
static const name_rule name_rules[] = {
    {"model.language_model.visual.", 0, CHECKPOINT_VISION},
    {"model.visual.", 0, CHECKPOINT_VISION},
    {"visual.", 0, CHECKPOINT_VISION},
    {"vision_tower.", 0, CHECKPOINT_VISION},
    {"model.mtp.", 0, CHECKPOINT_MTP},
    {"language_model.mtp.", 0, CHECKPOINT_MTP},
    {"mtp.", 0, CHECKPOINT_MTP},
    {"language_model.lm_head.", sizeof "lm_head." - 1, CHECKPOINT_HEAD},
    {"lm_head.", sizeof "lm_head." - 1, CHECKPOINT_HEAD},
    {"model.language_model.", 0, CHECKPOINT_TRUNK},
    {"language_model.model.", 0, CHECKPOINT_TRUNK},
    {"model.", 0, CHECKPOINT_TRUNK},
};

checkpoint_part names_split(const char *raw, const char **name)
{
    for (size_t i = 0; i < sizeof name_rules / sizeof name_rules[0]; i++) {
        const name_rule *r = &name_rules[i];
        const size_t     n = strlen(r->prefix);
        if (strncmp(raw, r->prefix, n) != 0) continue;
        *name = raw + n - r->keep;
        return r->part;
    }
    *name = raw;
    return CHECKPOINT_TRUNK;
}
