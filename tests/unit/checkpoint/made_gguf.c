/* tests/unit/checkpoint/made_gguf.c - GGUF files made by hand, byte by byte. */
#include "made_gguf.h"

#include "support/cmocka.h"

#include <string.h>

enum { MAX_FILE = 1 << 24, ALIGNMENT = 32 };

static void put_u32(str *s, uint32_t v)
{
    str_put(s, &v, sizeof v);
}

static void put_u64(str *s, uint64_t v)
{
    str_put(s, &v, sizeof v);
}

static void put_text(str *s, const char *text)
{
    put_u64(s, strlen(text));
    str_puts(s, text);
}

static void pad(str *s)
{
    while (s->len % ALIGNMENT != 0) str_putc(s, '\0');
}

void made_gguf_begin(made_gguf *m)
{
    str_init(&m->entries, MAX_FILE);
    str_init(&m->tensors, MAX_FILE);
    str_init(&m->data, MAX_FILE);
    m->n_entries = m->n_tensors = 0;
}

void made_gguf_entry(made_gguf *m, const char *key, uint32_t type, const void *value, size_t n)
{
    put_text(&m->entries, key);
    put_u32(&m->entries, type);
    str_put(&m->entries, value, n);
    m->n_entries++;
}

void made_gguf_u32(made_gguf *m, const char *key, uint32_t value)
{
    made_gguf_entry(m, key, 4, &value, sizeof value);
}

void made_gguf_f32(made_gguf *m, const char *key, float value)
{
    made_gguf_entry(m, key, 6, &value, sizeof value);
}

void made_gguf_bool(made_gguf *m, const char *key, bool value)
{
    const uint8_t byte = value;
    made_gguf_entry(m, key, 7, &byte, 1);
}

void made_gguf_text(made_gguf *m, const char *key, const char *value)
{
    put_text(&m->entries, key);
    put_u32(&m->entries, 8);
    put_text(&m->entries, value);
    m->n_entries++;
}

void made_gguf_array(made_gguf *m, const char *key, uint32_t type, uint64_t n, const void *bytes, size_t size)
{
    put_text(&m->entries, key);
    put_u32(&m->entries, 9);
    put_u32(&m->entries, type);
    put_u64(&m->entries, n);
    str_put(&m->entries, bytes, size);
    m->n_entries++;
}

void made_gguf_texts(made_gguf *m, const char *key, const char *const *values, size_t n)
{
    made_gguf_array(m, key, 8, n, NULL, 0);
    for (size_t i = 0; i < n; i++) put_text(&m->entries, values[i]);
}

void made_gguf_tensor(made_gguf *m, const char *name, uint32_t rank, const uint64_t *ne, uint32_t type,
                      const void *bytes, size_t n)
{
    pad(&m->data);
    put_text(&m->tensors, name);
    put_u32(&m->tensors, rank);
    for (uint32_t i = 0; i < rank; i++) put_u64(&m->tensors, ne[i]);
    put_u32(&m->tensors, type);
    put_u64(&m->tensors, m->data.len);
    str_put(&m->data, bytes, n);
    m->n_tensors++;
}

void made_gguf_end(made_gguf *m, str *file)
{
    str_init(file, MAX_FILE);
    str_puts(file, "GGUF");
    put_u32(file, 3);
    put_u64(file, m->n_tensors);
    put_u64(file, m->n_entries);
    str_put(file, m->entries.data, m->entries.len);
    str_put(file, m->tensors.data, m->tensors.len);
    pad(file);
    str_put(file, m->data.data, m->data.len);
    assert_false(m->entries.failed || m->tensors.failed || m->data.failed || file->failed);
    str_free(&m->entries);
    str_free(&m->tensors);
    str_free(&m->data);
}
