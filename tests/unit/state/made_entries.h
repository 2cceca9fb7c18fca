/* tests/unit/state/made_entries.h - entries whose content follows from a few numbers.
 *
 * The formulas are those of tools/make-store-goldens.py. */
#ifndef TESTS_MADE_ENTRIES_H
#define TESTS_MADE_ENTRIES_H

#include "state/store_format.h"

#include <stdbool.h>

extern const uint8_t made_namespace[STORE_KEY_BYTES], made_other_namespace[STORE_KEY_BYTES],
    made_no_parent[STORE_KEY_BYTES];

/* Section i has type i + 1 and bytes[i] bytes; n_sections is what is not zero. */
typedef struct made_shape {
    store_kind     kind;
    uint32_t       position, n_tokens, first_token;
    const uint8_t *parent; /* NULL: none */
    uint64_t       bytes[STORE_MAX_SECTIONS];
} made_shape;

/* A block of its own memory; the test fails without memory. */
store_entry *made_entry(const made_shape *shape);
void         made_free(store_entry *e);
/* Another type for section i, and the bytes that belong to it. */
void made_set_type(store_entry *e, uint32_t i, uint32_t type);

/* Byte i of a section of that type. */
static inline uint8_t made_byte(uint32_t type, uint64_t i)
{
    return (uint8_t)(7 * i + 31 * type);
}
/* True when these are the bytes of a section of that type. */
bool made_is_section(const uint8_t *bytes, uint64_t n, uint32_t type);

#endif
