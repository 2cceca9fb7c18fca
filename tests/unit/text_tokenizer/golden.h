/* tests/unit/text_tokenizer/golden.h - access to tests/data/tokenizer/, which
 * tools/tokenizer-goldens.py writes.  A file that is not as expected fails the
 * test that asked. */
#ifndef TEXT_TOKENIZER_GOLDEN_H
#define TEXT_TOKENIZER_GOLDEN_H

#include "base/json.h"
#include "text/tokenizer.h"

/* Path below the source folder, e.g. "models/demo/tokenizer.json". */
tokenizer *golden_tokenizer(const char *path);
json_doc   golden_load(const char *path);

/* Members of an object. */
const char *golden_text(const json_t *obj, const char *key);
size_t      golden_size(const json_t *obj, const char *key);

/* Fails, naming `what`, unless the ids are those of the JSON array. */
void golden_ids_equal(const char *what, const token_ids *got, const json_t *expected);

/* 64-bit FNV-1a over whole ids. */
uint64_t golden_hash(const token_ids *ids);

#endif
