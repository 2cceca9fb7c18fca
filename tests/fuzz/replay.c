/* tests/fuzz/replay.c - runs a fuzz target without a fuzzer.
 *
 *   <target> corpus-folder [mutations-per-file [seed]]
 *
 * Every file of the folder goes through LLVMFuzzerTestOneInput as it is, then
 * changed in small random ways.  The seed is fixed, so a failure repeats.
 * Inputs are heap blocks of their exact size, so that a sanitizer sees a read
 * past the end.  The work stops after a few seconds in any case. */
#include "support/rng.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FILES = 1000, MAX_BYTES = 1 << 20, MUTATIONS = 1500, SECONDS = 3, GROWTH = 64 };

typedef struct input {
    uint8_t *bytes;
    size_t   size;
} input;

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Reads a regular file of at most MAX_BYTES; size 0 and NULL otherwise. */
static input read_input(const char *dir, const char *name)
{
    char  path[4096];
    input in = {0};
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) return in;
    in.bytes = malloc(MAX_BYTES);
    if (in.bytes != NULL) in.size = fread(in.bytes, 1, MAX_BYTES, f);
    (void)fclose(f);
    return in;
}

static void run_exact(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size != 0 ? size : 1);
    if (copy == NULL) return;
    memcpy(copy, bytes, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Numbers and pieces of syntax on which parsers tend to fall. */
static const char *const pieces[] = {"-1",
                                     "0",
                                     "1e999",
                                     "9007199254740993",
                                     "18446744073709551615",
                                     "null",
                                     "true",
                                     "false",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "[[[[[[[[[[[[",
                                     "\\u0000",
                                     ",",
                                     "\xff",
                                     "4294967296",
                                     "1.5",
                                     "\"../x\""};

static size_t insert(uint8_t *b, size_t size, size_t at, const void *p, size_t n)
{
    memmove(b + at + n, b + at, size - at);
    memcpy(b + at, p, n);
    return size + n;
}

static size_t erase(uint8_t *b, size_t size, size_t at, size_t n)
{
    if (n > size - at) n = size - at;
    memmove(b + at, b + at + n, size - at - n);
    return size - n;
}

/* One small change; b has room for GROWTH more bytes. */
static size_t mutate(uint8_t *b, size_t size, uint64_t *seed)
{
    if (size == 0) return insert(b, size, 0, "{", 1);
    const size_t at = rng_below(seed, (uint32_t)size);
    switch (rng_below(seed, 6)) {
    case 0: b[at] ^= (uint8_t)(1u << rng_below(seed, 8)); return size;
    case 1: b[at] = (uint8_t)rng_below(seed, 256); return size;
    case 2: return at; /* cut off */
    case 3: return erase(b, size, at, 1 + rng_below(seed, 16));
    case 4: {
        const char *p = pieces[rng_below(seed, sizeof pieces / sizeof pieces[0])];
        return insert(b, size, at, p, strlen(p));
    }
    default: {
        /* A digit becomes another: sizes and offsets that lie. */
        for (size_t i = at; i < size; i++)
            if (b[i] >= '0' && b[i] <= '9') {
                b[i] = (uint8_t)('0' + rng_below(seed, 10));
                break;
            }
        return size;
    }
    }
}

static void run_mutations(const input *in, unsigned n, uint64_t *seed, double deadline)
{
    enum { CHANGES = 4 };
    uint8_t *b = malloc(in->size + (size_t)CHANGES * GROWTH);
    if (b == NULL) return;
    for (unsigned i = 0; i < n && seconds() < deadline; i++) {
        memcpy(b, in->bytes, in->size);
        size_t size = in->size;
        for (uint32_t k = 0, changes = 1 + rng_below(seed, CHANGES); k < changes; k++) size = mutate(b, size, seed);
        run_exact(b, size);
    }
    free(b);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in `dir`, sorted, since the order of a directory is not fixed. */
static size_t list(char **names, const char *dir)
{
    size_t n = 0;
    DIR   *d = opendir(dir);
    if (d == NULL) return 0;
    for (const struct dirent *e; n < MAX_FILES && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && (names[n] = strdup(e->d_name)) != NULL) n++;
    (void)closedir(d);
    qsort(names, n, sizeof names[0], by_name);
    return n;
}

int main(int argc, char **argv)
{
    static char *names[MAX_FILES];
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s corpus-folder [mutations-per-file [seed]]\n", argv[0]);
        return 2;
    }
    const unsigned n_mutations = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : MUTATIONS;
    uint64_t       seed        = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const size_t   n           = list(names, argv[1]);
    const double   start       = seconds();
    for (size_t i = 0; i < n; i++) {
        const input in = read_input(argv[1], names[i]);
        if (in.bytes != NULL) {
            run_exact(in.bytes, in.size);
            run_mutations(&in, n_mutations, &seed, start + SECONDS * (double)(i + 1) / (double)n);
        }
        free(in.bytes);
        free(names[i]);
    }
    (void)printf("%zu files, %.1f s\n", n, seconds() - start);
    return n > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
