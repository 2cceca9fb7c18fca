/* tests/oracle/demo_data.h - the bundled model's texts and expected values. */
#ifndef ORACLE_DEMO_DATA_H
#define ORACLE_DEMO_DATA_H

#include "base/json.h"
#include "support/engines.h"

enum { DEMO_TEXTS = 3, DEMO_WINDOW = 1024, DEMO_MAX_FILE = 1 << 20 };
extern const char *const demo_texts[DEMO_TEXTS];

/* tests/data/demo/<name> in a buffer of the caller; the same as JSON (json_doc_free). */
char    *demo_path(char *buf, size_t size, const char *name);
json_doc demo_json(const char *name);

/* The ids of an array, and of a held-out text; free(). */
uint32_t *demo_ids(const json_t *array, size_t *n);
uint32_t *demo_text(const char *text, size_t *n);

/* The weights the demo model was quantised from, where they are at hand;
 * skips the test otherwise. */
weir_model *demo_unquantised(void);

#endif
