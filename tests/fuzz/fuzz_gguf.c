/* tests/fuzz/fuzz_gguf.c - any bytes as a GGUF file.
 *
 * Beyond not crashing: in a file that is accepted every tensor and every value
 * lies inside it, which is shown by reading each tensor's first and last byte
 * and all of the metadata. */
#include "checkpoint/gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensors(const gguf *g, const uint8_t *file, size_t size)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t     = &g->tensors[i];
        const uint8_t     *first = g->data + t->begin, *last = first + t->bytes - 1;
        if (t->bytes == 0 || first < file || last >= file + size) abort();
        sum = (uint8_t)(sum + *first + *last + (uint8_t)t->name[0]);
    }
}

static void read_entries(const gguf *g)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < g->n_entries; i++) {
        const gguf_entry *e  = &g->entries[i];
        const uint8_t    *at = e->data;
        if (gguf_find(g, e->key) != e) abort();
        for (uint64_t k = 0; k < e->n; k++) {
            if (e->type == GGUF_STRING) {
                const gguf_string s = gguf_next_string(&at);
                for (size_t c = 0; c < s.len; c++) sum = (uint8_t)(sum + (uint8_t)s.text[c]);
            } else {
                sum = (uint8_t)(sum + gguf_integer(e, k));
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf       g;
    weir_error err;
    err.text[0] = '\0';
    if (gguf_open_memory(&g, "fuzz", data, size, &err) == WEIR_OK) {
        read_tensors(&g, data, size);
        read_entries(&g);
    } else if (err.text[0] == '\0') {
        abort(); /* every failure says why */
    }
    gguf_close(&g);
    return 0;
}
