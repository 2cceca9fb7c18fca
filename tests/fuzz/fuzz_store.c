/* tests/fuzz/fuzz_store.c - any bytes as a state file, and as the one file of a store.
 *
 * As they are, and again with the header's checksum made right, since no random
 * change gets past it.  In a file that is accepted every section lies inside,
 * and one that is read has the checksum that the header says. */
#include "base/bytes.h"
#include "base/mem.h"
#include "state/store.h"
#include "state/store_file.h"
#include "state/store_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/weir-fuzz-store-XXXXXX";
static char path[512];

static void clean_up(void)
{
    (void)remove(path);
    (void)remove(folder);
}

/* The namespace and key that all inputs come under: those of the corpus' block. */
static void set_up(uint8_t namespace[STORE_KEY_BYTES], uint8_t key[STORE_KEY_BYTES])
{
    static const uint8_t no_parent[STORE_KEY_BYTES];
    uint32_t             tokens[5];
    for (uint32_t i = 0; i < 5; i++) tokens[i] = 2654435761u * i + 12345;
    for (uint8_t i = 0; i < STORE_KEY_BYTES; i++) namespace[i] = i;
    if (store_key(key, no_parent, tokens, 5, NULL) != WEIR_OK) abort();
    if (path[0] != '\0') return;
    char name[STORE_NAME_BYTES];
    store_name(name, namespace, key);
    if (mkdtemp(folder) == NULL) abort();
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)atexit(clean_up);
}

static void put(const uint8_t *data, size_t size)
{
    (void)unlink(path); /* some file systems sync a file that is cut and written again */
    FILE *f = fopen(path, "wb");
    if (f == NULL || (size != 0 && fwrite(data, 1, size, f) != size) || fclose(f) != 0) abort();
}

static void check_section(const store_file *f, uint32_t i, const uint8_t *data, size_t size)
{
    const store_header  *h = &f->header;
    const store_section *s = &h->e.sections[i];
    uint8_t              sum[STORE_SUM_BYTES];
    if (h->offsets[i] % STORE_ALIGN != 0 || h->offsets[i] > size || s->bytes > size - h->offsets[i]) abort();
    if (store_sha256(sum, data + h->offsets[i], s->bytes, NULL) != WEIR_OK) abort();
    const bool     sound = memcmp(sum, h->sums[i], sizeof sum) == 0;
    uint8_t *const to    = malloc(s->bytes);
    if (to == NULL) abort();
    if (store_file_section(f, s->type, to, s->bytes, NULL) != (sound ? WEIR_OK : WEIR_FORMAT)) abort();
    if (sound && memcmp(to, data + h->offsets[i], s->bytes) != 0) abort();
    free(to);
}

static void run_file(const uint8_t *namespace, const uint8_t *data, size_t size)
{
    store_file f;
    weir_error err;
    err.text[0] = '\0';
    if (store_file_open(&f, path, namespace, &err) != WEIR_OK) {
        if (err.text[0] == '\0') abort(); /* every failure says why */
        return;
    }
    const store_entry *e = &f.header.e;
    if (e->n_tokens == 0 || e->n_tokens > size / 4 || e->position + e->n_tokens < e->position) abort();
    uint32_t sum = 0;
    for (uint32_t i = 0; i < e->n_tokens; i++) sum += e->tokens[i];
    for (uint32_t i = 0; i < e->n_sections; i++) check_section(&f, i, data, size);
    *(volatile uint32_t *)&sum = sum;
    store_file_close(&f);
}

static void visit(void *user, const store_found *found)
{
    if (memcmp(found->entry->key, user, STORE_KEY_BYTES) != 0) abort(); /* no other name is there */
}

static void run_store(const uint8_t *namespace, uint8_t *key)
{
    store              *s;
    uint8_t             to[100];
    const store_options o = {folder, namespace, 1 << 20, 1 << 20, visit, key};
    if (store_open(&s, &o, NULL) != WEIR_OK) abort(); /* whatever is in it */
    const bool             there = store_bytes(s) > 0;
    const store_get_status st    = store_get(s, key, 1, to, sizeof to);
    if (there ? st != STORE_OK && st != STORE_DAMAGED : st != STORE_GONE) abort();
    if ((st == STORE_OK) != (access(path, F_OK) == 0)) abort(); /* what is not sound is removed */
    store_close(s);
}

static void run(const uint8_t *data, size_t size)
{
    uint8_t namespace[STORE_KEY_BYTES], key[STORE_KEY_BYTES];
    set_up(namespace, key);
    put(data, size);
    run_file(namespace, data, size);
    run_store(namespace, key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size);
    const uint32_t n = size >= STORE_FIXED_BYTES ? load_u32(data + 12) : 0;
    if (n <= STORE_FIXED_BYTES + STORE_SUM_BYTES || n > size) return 0;
    uint8_t *copy = malloc(size);
    if (copy == NULL) return 0;
    memcpy(copy, data, size);
    if (store_sha256(copy + n - STORE_SUM_BYTES, copy, n - STORE_SUM_BYTES, NULL) != WEIR_OK) abort();
    run(copy, size);
    free(copy);
    return 0;
}
