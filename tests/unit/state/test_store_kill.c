/* tests/unit/state/test_store_kill.c - a process that writes a store is killed, over and over.
 *
 *   test_store_kill [kills [seed]]
 *
 * A child puts and drops entries without pause, tells over a pipe what the store
 * told it, and gets SIGKILL at a random moment.  Each time the store must open
 * without a complaint; what it reports must be whole; what was durable and not
 * dropped must be there; and no other file may be left. */
#include "state/store.h"
#include "support/rng.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 40, IDS = 200, MAX_BYTES = 400000, STATE = 1, SMALL = 2, SMALL_BYTES = 64 };
enum { BUDGET = 16 << 20, QUEUE = 1 << 20, LONGEST_US = 80000 };

static const uint8_t namespace[STORE_KEY_BYTES] = "test_store_kill";

static void check(bool ok, const char *what, uint32_t id)
{
    if (ok) return;
    (void)fprintf(stderr, "FAILED: %s (entry %u)\n", what, id);
    exit(1);
}

/* -- entries: all of it follows from the id */

typedef struct made {
    store_entry e;
    uint32_t    tokens[64];
    uint8_t     small[SMALL_BYTES], state[MAX_BYTES];
} made;

static void fill(uint8_t *to, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i += 8) {
        const uint64_t r = rng_next(&seed);
        memcpy(to + i, &r, n - i < 8 ? n - i : 8);
    }
}

static void make(made *m, uint32_t id)
{
    m->e = (store_entry){.kind = STORE_BLOCK, .n_tokens = 1 + id % 64, .tokens = m->tokens, .n_sections = 2};
    for (uint32_t i = 0; i < 64; i++) m->tokens[i] = id + i;
    check(store_key(m->e.key, m->e.parent, m->tokens, m->e.n_tokens, NULL) == WEIR_OK, "a key", id);
    m->e.sections[0] = (store_section){STATE, 1 + 7919 * id % MAX_BYTES, m->state};
    m->e.sections[1] = (store_section){SMALL, SMALL_BYTES, m->small};
    fill(m->state, m->e.sections[0].bytes, id);
    fill(m->small, SMALL_BYTES, ~(uint64_t)id);
}

/* -- the child */

typedef struct message {
    char     what; /* 'o' opened, '+' durable, '-' about to be dropped */
    uint32_t id;
} message;

typedef struct child {
    int      pipe;
    store   *s;
    bool     known[IDS];
    uint8_t  keys[IDS][STORE_KEY_BYTES];
    uint64_t seed;
} child;

static void tell(const child *c, char what, uint32_t id)
{
    const message m = {what, id};
    if (write(c->pipe, &m, sizeof m) != (ssize_t)sizeof m) _exit(2);
}

static uint32_t id_of(const child *c, const uint8_t *key)
{
    for (uint32_t id = 0; id < IDS; id++)
        if (memcmp(c->keys[id], key, STORE_KEY_BYTES) == 0) return id;
    _exit(2);
}

static void child_finds(void *user, const store_found *found)
{
    child *c                          = user;
    c->known[found->entry->tokens[0]] = true;
}

static void child_hears(void *user, const uint8_t *key, bool durable)
{
    child *c = user;
    if (!durable) _exit(3);
    tell(c, '+', id_of(c, key));
}

static void drop_something(child *c)
{
    uint32_t id = rng_below(&c->seed, IDS);
    while (!c->known[id]) id = (id + 1) % IDS;
    tell(c, '-', id);
    store_drop(c->s, c->keys[id]);
    c->known[id] = false;
}

/* Until someone kills it. */
static void child_main(child *c, const char *dir, made *m)
{
    const store_options o = {dir, namespace, BUDGET, QUEUE, child_finds, c};
    weir_log_set(NULL, NULL);
    if (store_open(&c->s, &o, NULL) != WEIR_OK) _exit(4);
    tell(c, 'o', 0);
    for (;;) {
        const uint32_t id = rng_below(&c->seed, IDS);
        make(m, id);
        store_put_status st;
        while ((st = store_put(c->s, &m->e)) == STORE_BUSY) {
            store_poll(c->s, child_hears, c);
            (void)usleep(100);
        }
        if (st == STORE_FULL)
            drop_something(c);
        else if (st == STORE_QUEUED)
            c->known[id] = true;
        else if (st != STORE_PRESENT)
            _exit(5);
        store_poll(c->s, child_hears, c);
    }
}

/* -- the parent */

typedef struct parent {
    char     dir[64];
    made    *m;
    uint8_t  keys[IDS][STORE_KEY_BYTES];
    bool     expected[IDS], found[IDS];
    size_t   n_found, n_read, n_leftovers;
    uint64_t found_bytes, seed;
} parent;

static void complain(void *user, weir_log_level level, const char *line)
{
    (void)user;
    (void)level;
    (void)fprintf(stderr, "the store says: %s\n", line);
    check(false, "opening takes no complaint", 0);
}

static size_t count_files(const char *dir, const char *ending)
{
    size_t n = 0;
    DIR   *d = opendir(dir);
    check(d != NULL, "reading the folder", 0);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *dot = strrchr(e->d_name, '.');
        n += e->d_name[0] != '.' && dot != NULL && (ending == NULL || strcmp(dot, ending) == 0);
    }
    (void)closedir(d);
    return n;
}

static void parent_finds(void *user, const store_found *found)
{
    parent        *p  = user;
    const uint32_t id = found->entry->tokens[0];
    check(id < IDS && memcmp(p->keys[id], found->entry->key, STORE_KEY_BYTES) == 0, "an entry of the child's", id);
    check(!p->found[id], "each entry once", id);
    p->found[id] = true;
    p->n_found++;
    p->found_bytes += found->file_bytes;
}

static void read_back(parent *p, store *s, uint32_t id)
{
    static uint8_t to[MAX_BYTES];
    make(p->m, id);
    for (size_t i = 0; i < 2; i++) {
        const store_section *x = &p->m->e.sections[i];
        check(store_get(s, p->m->e.key, x->type, to, x->bytes) == STORE_OK, "an entry is whole", id);
        check(memcmp(to, x->data, x->bytes) == 0, "an entry has its own bytes", id);
    }
    p->n_read++;
}

static void inspect(parent *p)
{
    const store_options o = {p->dir, namespace, BUDGET, QUEUE, parent_finds, p};
    store              *s;
    weir_error          err;
    p->n_leftovers += count_files(p->dir, ".tmp");
    p->n_found     = 0;
    p->found_bytes = 0;
    memset(p->found, 0, sizeof p->found);
    check(store_open(&s, &o, &err) == WEIR_OK, err.text, 0);
    check(store_bytes(s) == p->found_bytes && p->found_bytes <= BUDGET + QUEUE, "the sum of the bytes", 0);
    check(count_files(p->dir, NULL) == p->n_found, "no file but the entries", 0);
    for (uint32_t id = 0; id < IDS; id++) {
        check(p->found[id] || !p->expected[id], "what was durable is there", id);
        if (p->found[id]) read_back(p, s, id);
        p->expected[id] = p->found[id];
    }
    store_close(s);
}

static void hear(parent *p, const message *m)
{
    if (m->what != 'o') p->expected[m->id] = m->what == '+';
}

/* One child's life. */
static void run_and_kill(parent *p)
{
    int     ends[2], status;
    message m;
    child   c = {.seed = rng_next(&p->seed)};
    memcpy(c.keys, p->keys, sizeof c.keys);
    check(pipe(ends) == 0, "a pipe", 0);
    const pid_t pid = fork();
    check(pid >= 0, "a process", 0);
    if (pid == 0) {
        (void)close(ends[0]);
        c.pipe = ends[1];
        child_main(&c, p->dir, p->m);
    }
    (void)close(ends[1]);
    /* Most die while they write, some while they open. */
    if (rng_below(&p->seed, 8) != 0 && read(ends[0], &m, sizeof m) == (ssize_t)sizeof m) hear(p, &m);
    (void)usleep(rng_below(&p->seed, LONGEST_US));
    (void)kill(pid, SIGKILL);
    check(waitpid(pid, &status, 0) == pid, "the child", 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "nothing else ends the child", 0);
    while (read(ends[0], &m, sizeof m) == (ssize_t)sizeof m) hear(p, &m);
    (void)close(ends[0]);
}

static void clean_up(const char *dir)
{
    char path[512];
    DIR *d = opendir(dir);
    if (d == NULL) return;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path) (void)unlink(path);
    (void)closedir(d);
    (void)rmdir(dir);
}

int main(int argc, char **argv)
{
    const unsigned long kills = argc > 1 ? strtoul(argv[1], NULL, 10) : KILLS;
    static parent       p     = {.dir = "/tmp/weir-kill-XXXXXX"};
    p.seed                    = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    p.m                       = malloc(sizeof *p.m);
    check(p.m != NULL && mkdtemp(p.dir) != NULL, "memory and a folder", 0);
    weir_log_set(complain, NULL);
    for (uint32_t id = 0; id < IDS; id++) {
        make(p.m, id);
        memcpy(p.keys[id], p.m->e.key, STORE_KEY_BYTES);
    }
    for (unsigned long i = 0; i < kills; i++) {
        run_and_kill(&p);
        inspect(&p);
    }
    (void)printf("%lu kills, %zu of them within a write, %zu entries read back, %zu at the end\n", kills, p.n_leftovers,
                 p.n_read, p.n_found);
    check(kills < KILLS || p.n_leftovers > 0, "some kills hit a write", 0);
    clean_up(p.dir);
    free(p.m);
    return 0;
}
