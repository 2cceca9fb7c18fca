/* cli/find_model.h - what a user calls a model, as a path. */
#ifndef CLI_FIND_MODEL_H
#define CLI_FIND_MODEL_H

#include "base/status.h"

/* Resolves a MODEL argument: an existing path is itself; ORG/NAME[:FILE][@REVISION] is looked up
 * in the local Hugging Face cache; NULL is the bundled demo model.  *path is
 * released with mem_free.  WEIR_IO says where was looked. */
weir_status find_model(const char *argument, char **path, weir_error *err);

#endif
