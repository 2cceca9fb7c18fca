/* checkpoint/config_read.h - the sections of config.json, one reader a file.  Private to config*.c. */
#ifndef CHECKPOINT_CONFIG_READ_H
#define CHECKPOINT_CONFIG_READ_H

#include "base/json.h"
#include "checkpoint/config.h"

/* Fills c->rope; head_dim must be known.  `text` is the object of the text part. */
weir_status config_read_rope(config *c, const json_at *text, weir_error *err);

/* Fills c->quant from the block at the top level, else in the text part.  What
 * it allocates is released by config_free, also after a failure. */
weir_status config_read_quant(config *c, const json_at *top, const json_at *text, weir_error *err);

/* WEIR_UNSUPPORTED: "file: where.key: expected ..., found ...". */
weir_status config_unsupported(const json_at *at, const char *key, const char *expected, const char *found,
                               weir_error *err);
/* WEIR_FORMAT of the same shape. */
weir_status config_wrong(const json_at *at, const char *key, const char *expected, const char *found, weir_error *err);

/* An object member as a json_at of its own, obj NULL when absent.  at.where
 * points to `path`: a section must outlive every copy of its `at`. */
typedef struct config_section {
    json_at at;
    char    path[128];
} config_section;
weir_status config_open_section(config_section *out, const json_at *parent, const char *key, weir_error *err);

#endif
