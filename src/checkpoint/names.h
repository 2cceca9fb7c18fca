/* checkpoint/names.h - tensor names of every generation of exporters as ours. */
#ifndef CHECKPOINT_NAMES_H
#define CHECKPOINT_NAMES_H

#include "checkpoint/checkpoint.h"

/* The part that `raw` belongs to; *name is its canonical name, a tail of `raw`. */
checkpoint_part names_split(const char *raw, const char **name);

#endif
