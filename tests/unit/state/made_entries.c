/* tests/unit/state/made_entries.c - entries whose content follows from a few numbers. */
#include "made_entries.h"

#include <stdlib.h>
#include <string.h>

const uint8_t made_namespace[STORE_KEY_BYTES]       = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
const uint8_t made_other_namespace[STORE_KEY_BYTES] = {0xFE, 1, 2, 3};
const uint8_t made_no_parent[STORE_KEY_BYTES];

static void *must(void *p)
{
    if (p == NULL) abort();
    return p;
}

void made_set_type(store_entry *e, uint32_t i, uint32_t type)
{
    store_section *s    = &e->sections[i];
    uint8_t       *data = must(realloc((void *)(uintptr_t)s->data, s->bytes));
    for (uint64_t k = 0; k < s->bytes; k++) data[k] = made_byte(type, k);
    s->type = type;
    s->data = data;
}

store_entry *made_entry(const made_shape *shape)
{
    store_entry *e      = must(calloc(1, sizeof *e));
    uint32_t    *tokens = must(malloc(shape->n_tokens * sizeof *tokens));
    for (uint32_t i = 0; i < shape->n_tokens; i++) tokens[i] = 2654435761u * (i + shape->first_token) + 12345;
    e->kind     = shape->kind;
    e->position = shape->position;
    e->n_tokens = shape->n_tokens;
    e->tokens   = tokens;
    memcpy(e->parent, shape->parent != NULL ? shape->parent : made_no_parent, STORE_KEY_BYTES);
    if (store_key(e->key, e->parent, tokens, e->n_tokens, NULL) != WEIR_OK) abort();
    while (e->n_sections < STORE_MAX_SECTIONS && shape->bytes[e->n_sections] != 0) {
        e->sections[e->n_sections].bytes = shape->bytes[e->n_sections];
        made_set_type(e, e->n_sections, e->n_sections + 1);
        e->n_sections++;
    }
    return e;
}

void made_free(store_entry *e)
{
    for (uint32_t i = 0; i < e->n_sections; i++) free((void *)(uintptr_t)e->sections[i].data);
    free((void *)(uintptr_t)e->tokens);
    free(e);
}

bool made_is_section(const uint8_t *bytes, uint64_t n, uint32_t type)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] != made_byte(type, i)) return false;
    return true;
}
