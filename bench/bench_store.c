/* bench/bench_store.c - writing, reading and opening a store of state files.
 *
 *   bench_store DIR [entries [MB]]
 *
 * DIR is a folder that does not exist yet, on the disk to be measured; 16
 * entries of 20 MB unless told otherwise.  "put" is what the caller waits for;
 * reads come from the disk, since the store leaves nothing in the system's
 * memory.  Then 2,000 small entries, for what opening takes per entry. */
#include "base/clock.h"
#include "state/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 2000, TOKENS = 256 };

static const uint8_t namespace[STORE_KEY_BYTES] = "bench_store";

static void check(bool ok, const char *what)
{
    if (ok) return;
    (void)fprintf(stderr, "bench_store: %s\n", what);
    exit(1);
}

static void visit(void *user, const store_found *found)
{
    *(uint64_t *)user += found->file_bytes;
}

static store *open_store(const char *dir, uint64_t queue)
{
    store              *s;
    weir_error          err;
    uint64_t            found = 0;
    const store_options o     = {dir, namespace, UINT64_MAX, queue, visit, &found};
    check(store_open(&s, &o, &err) == WEIR_OK, err.text);
    check(found == store_bytes(s), "the files add up");
    return s;
}

static void make(store_entry *e, uint32_t *tokens, uint32_t id, const uint8_t *data, uint64_t bytes)
{
    for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = id + i;
    *e             = (store_entry){.kind = STORE_BLOCK, .n_tokens = TOKENS, .tokens = tokens, .n_sections = 1};
    e->sections[0] = (store_section){1, bytes, data};
    check(store_key(e->key, e->parent, tokens, TOKENS, NULL) == WEIR_OK, "out of memory");
}

static void count_durable(void *user, const uint8_t *key, bool durable)
{
    (void)key;
    *(uint32_t *)user += durable;
}

/* Seconds until all are durable; *in_put: the most that one put took. */
static double write_all(store *s, uint32_t n, const uint8_t *data, uint64_t bytes, double *in_put)
{
    uint32_t       tokens[TOKENS], durable = 0;
    store_entry    e;
    const uint64_t start = clock_ns();
    *in_put              = 0;
    for (uint32_t i = 0; i < n; i++) {
        make(&e, tokens, i, data, bytes);
        store_put_status st = STORE_BUSY;
        while (st == STORE_BUSY) {
            const uint64_t before = clock_ns();
            st                    = store_put(s, &e);
            const double took     = (double)(clock_ns() - before) * 1e-9;
            if (took > *in_put) *in_put = took;
            if (st == STORE_BUSY) (void)usleep(200);
        }
        check(st == STORE_QUEUED, "an entry was not taken");
    }
    store_flush(s);
    const double seconds = (double)(clock_ns() - start) * 1e-9;
    store_poll(s, count_durable, &durable);
    check(durable == n, "an entry was not written");
    return seconds;
}

static double read_all(store *s, uint32_t n, uint8_t *to, uint64_t bytes)
{
    uint32_t       tokens[TOKENS];
    store_entry    e;
    const uint64_t start = clock_ns();
    for (uint32_t i = 0; i < n; i++) {
        make(&e, tokens, i, to, bytes);
        check(store_get(s, e.key, 1, to, bytes) == STORE_OK, "an entry was not read");
    }
    return (double)(clock_ns() - start) * 1e-9;
}

static void drop_all(store *s, uint32_t n)
{
    uint32_t    tokens[TOKENS];
    store_entry e;
    for (uint32_t i = 0; i < n; i++) {
        make(&e, tokens, i, NULL, 1);
        store_drop(s, e.key);
    }
}

static void measure_opening(const char *dir)
{
    static const uint8_t data[64];
    double               in_put;
    store               *s       = open_store(dir, 1 << 24);
    const double         writing = write_all(s, SMALL, data, sizeof data, &in_put);
    store_close(s);
    const uint64_t start = clock_ns();
    s                    = open_store(dir, 1 << 24);
    (void)printf("small\t%d entries\twritten %.0f/s\topened %.0f/s\n", SMALL, SMALL / writing,
                 SMALL / ((double)(clock_ns() - start) * 1e-9));
    drop_all(s, SMALL);
    store_close(s);
}

int main(int argc, char **argv)
{
    check(argc > 1, "usage: bench_store DIR [entries [MB]]");
    const uint32_t n     = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16;
    const uint64_t bytes = 1000000 * (argc > 3 ? strtoull(argv[3], NULL, 10) : 20);
    uint8_t       *data  = malloc(bytes);
    check(data != NULL && access(argv[1], F_OK) != 0, "out of memory, or the folder exists already");
    for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 2654435761u >> 24);
    double       in_put;
    store       *s       = open_store(argv[1], 2 * bytes + 4 * 2 * TOKENS);
    const double writing = write_all(s, n, data, bytes, &in_put), reading = read_all(s, n, data, bytes);
    const double mb = (double)n * (double)bytes * 1e-6;
    (void)printf("large\t%u entries of %.0f MB\twrite %.0f MB/s\tread %.0f MB/s\tput at most %.1f ms\n", n,
                 (double)bytes * 1e-6, mb / writing, mb / reading, in_put * 1e3);
    drop_all(s, n);
    store_close(s);
    measure_opening(argv[1]);
    (void)rmdir(argv[1]);
    free(data);
    return 0;
}
