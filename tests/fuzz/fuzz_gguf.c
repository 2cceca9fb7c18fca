/* tests/fuzz/fuzz_gguf.c - any bytes as a GGUF file.
 *
 * Beyond not crashing: in a file that is accepted every tensor and every value
 * lies inside it, which is shown by reading each tensor's first and last byte
 * and all of the metadata; config, names and tokenizer are made of it. */
#include "checkpoint/gguf_model.h"
#include "engine/gguf_text.h"

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
                sum = (uint8_t)(sum + (uint8_t)gguf_integer(e, k));
            }
        }
    }
}

static void must_say_why(weir_status st, const weir_error *err)
{
    if (st != WEIR_OK && err->text[0] == '\0') abort();
}

static void read_model(gguf *g)
{
    config         c;
    tokenizer     *t;
    template      *chat;
    const gguf_set s = {1, g};
    weir_error     err;
    err.text[0] = '\0';
    must_say_why(gguf_read_config(&c, &s, &err), &err);
    for (size_t i = 0; i < g->n_tensors; i++) {
        char              name[GGUF_MAX_CANONICAL];
        checkpoint_tensor v = {.name = name, .rank = g->tensors[i].rank};
        v.part              = gguf_canonical(g->tensors[i].name, c.n_layers, name);
        gguf_canonical_shape(&v);
        if (v.part >= CHECKPOINT_PARTS || name[0] == '\0' || v.rank > CHECKPOINT_MAX_RANK) abort();
    }
    config_free(&c);
    err.text[0] = '\0';
    must_say_why(gguf_tokenizer(&t, g, &err), &err);
    tokenizer_free(t);
    err.text[0] = '\0';
    must_say_why(gguf_chat_template(&chat, g, &err), &err);
    template_free(chat);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf       g;
    weir_error err;
    err.text[0] = '\0';
    if (gguf_open_memory(&g, "fuzz", data, size, &err) == WEIR_OK) {
        read_tensors(&g, data, size);
        read_entries(&g);
        read_model(&g);
    } else if (err.text[0] == '\0') {
        abort(); /* every failure says why */
    }
    gguf_close(&g);
    return 0;
}
