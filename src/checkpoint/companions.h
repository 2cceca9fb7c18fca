/* checkpoint/companions.h - the files that belong beside a checkpoint's weights, for those who
 * write another one of it: tokenizer, templates, the configs of what is around the model. */
#ifndef CHECKPOINT_COMPANIONS_H
#define CHECKPOINT_COMPANIONS_H

#include "base/status.h"

/* Copies them from folder to folder, as far as they are there, each whole or not at all; not
 * config.json, which says that the rest is complete. */
weir_status companions_copy(const char *from, const char *to, weir_error *err);
/* One file of that name, if it is there. */
weir_status companion_copy(const char *from, const char *to, const char *name, weir_error *err);

#endif
