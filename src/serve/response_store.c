/* serve/response_store.c - see response_store.h. */
#include "serve/response_store.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The number of the table's form: a file of another is set aside. */
#define FORM "1"
enum { FORM_NUMBER = 1, BUSY_MS = 2000, MAX_WAITING = 64 << 20 };

typedef struct waiting waiting;
struct waiting {
    waiting        *next;
    stored_response r;
    size_t          bytes;
};

struct response_store {
    response_store_options o;
    char                  *path; /* NULL: in memory */

    pthread_mutex_t db_lock; /* guards db */
    sqlite3        *db;      /* NULL: could not be opened again; nothing is kept */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t  news, done;
    waiting        *first, **end;
    size_t          waiting_bytes;
    bool            writing, stop;
    pthread_t       thread;
};

static int64_t clock_now(void)
{
    return (int64_t)time(NULL);
}

void stored_response_free(stored_response *r)
{
    mem_free(r->id);
    mem_free(r->previous);
    mem_free(r->items);
    mem_free(r->response);
    *r = (stored_response){0};
}

void stored_responses_free(stored_response *r, size_t n)
{
    for (size_t i = 0; i < n; i++) stored_response_free(&r[i]);
    mem_free(r);
}

/* ---- the file ---- */

static void close_db(response_store *s)
{
    (void)sqlite3_close_v2(s->db);
    s->db = NULL;
}

/* `used` counts up with every use, so that the least of it was used longest ago. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS responses(id TEXT PRIMARY KEY, previous TEXT, expires INTEGER, "
    "used INTEGER, bytes INTEGER, items TEXT, response TEXT);"
    "CREATE INDEX IF NOT EXISTS by_use ON responses(used, bytes);"
    "CREATE INDEX IF NOT EXISTS by_end ON responses(expires);"
    "PRAGMA user_version=" FORM ";";

static int form_of(sqlite3 *db)
{
    sqlite3_stmt *q    = NULL;
    int           form = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        form = sqlite3_column_int(q, 0);
    (void)sqlite3_finalize(q);
    return form;
}

/* True when the database reads and has our table. */
static bool try_open(response_store *s)
{
    const char *name = s->path != NULL ? s->path : ":memory:";
    if (s->path != NULL) { /* for its owner's eyes, from its first byte on */
        const int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) return false;
        (void)close(fd);
    }
    bool ok = sqlite3_open_v2(name, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, NULL) == SQLITE_OK;
    if (ok) {
        (void)sqlite3_busy_timeout(s->db, BUSY_MS);
        const int form = form_of(s->db);
        ok =
            (form == 0 || form == FORM_NUMBER) &&
            sqlite3_exec(s->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL, NULL, NULL) == SQLITE_OK &&
            sqlite3_exec(s->db, schema, NULL, NULL, NULL) == SQLITE_OK;
    }
    if (!ok) close_db(s);
    return ok;
}

/* The broken file keeps its bytes under another name; what belongs to it goes. */
static void set_aside(response_store *s)
{
    static const char *const with[] = {"-wal", "-shm", "-journal"};
    char                     other[4200];
    close_db(s);
    if (s->path == NULL) return;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        (void)snprintf(other, sizeof other, "%s%s", s->path, with[i]);
        (void)unlink(other);
    }
    (void)snprintf(other, sizeof other, "%s.broken", s->path);
    if (rename(s->path, other) != 0) (void)unlink(s->path);
    log_line(WEIR_LOG_WARN, "%s: cannot be read as stored responses; set aside as %s", s->path, other);
}

static bool is_broken(int code)
{
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

/* ---- statements; db_lock is held ---- */

/* NULL when it cannot be made; the broken file has then been replaced. */
static sqlite3_stmt *prepare(response_store *s, const char *sql)
{
    sqlite3_stmt *q = NULL;
    if (s->db == NULL) return NULL;
    const int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    if (code == SQLITE_OK) return q;
    if (is_broken(code)) {
        set_aside(s);
        (void)try_open(s);
    }
    return NULL;
}

/* Steps; true for a row.  *q is finalized, and NULL, unless it is one. */
static bool row(response_store *s, sqlite3_stmt **q)
{
    const int code = sqlite3_step(*q);
    if (code == SQLITE_ROW) return true;
    (void)sqlite3_finalize(*q);
    *q = NULL;
    if (is_broken(code)) {
        set_aside(s);
        (void)try_open(s);
    } else if (code != SQLITE_DONE) {
        log_line(WEIR_LOG_WARN, "stored responses: %s", sqlite3_errstr(code));
    }
    return false;
}

static void bind(sqlite3_stmt *q, int at, const char *text)
{
    if (text == NULL)
        (void)sqlite3_bind_null(q, at);
    else
        (void)sqlite3_bind_text64(q, at, text, strlen(text), SQLITE_STATIC, SQLITE_UTF8);
}

/* Runs a statement of a number and maybe a text to its end. */
static void change(response_store *s, const char *sql, int64_t number, const char *text)
{
    sqlite3_stmt *q = prepare(s, sql);
    if (q == NULL) return;
    (void)sqlite3_bind_int64(q, 1, number);
    if (text != NULL) bind(q, 2, text);
    while (row(s, &q)) continue;
}

/* The oldest of use go until `bytes` are free. */
static void make_room(response_store *s, uint64_t bytes)
{
    static const char oldest[] = "DELETE FROM responses WHERE used <= (SELECT used FROM (SELECT used, SUM(bytes) OVER "
                                 "(ORDER BY used DESC) AS sum "
                                 "FROM responses) WHERE sum > ?1 ORDER BY used DESC LIMIT 1)";
    change(s, oldest, (int64_t)(s->o.max_bytes - bytes), NULL);
}

static void write_one(response_store *s, const waiting *w)
{
    static const char insert[] = "INSERT OR REPLACE INTO responses VALUES(?1, ?2, ?3, (SELECT COALESCE(MAX(used), 0) + "
                                 "1 FROM responses), ?4, ?5, "
                                 "?6)";
    const int64_t     now      = s->o.now();
    change(s, "DELETE FROM responses WHERE expires <= ?1", now, NULL);
    make_room(s, w->bytes);
    sqlite3_stmt *q = prepare(s, insert);
    if (q == NULL) return;
    bind(q, 1, w->r.id);
    bind(q, 2, w->r.previous);
    (void)sqlite3_bind_int64(q, 3, now + s->o.seconds);
    (void)sqlite3_bind_int64(q, 4, (int64_t)w->bytes);
    bind(q, 5, w->r.items);
    bind(q, 6, w->r.response);
    while (row(s, &q)) continue;
}

static char *copied(sqlite3_stmt *q, int column)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    return text != NULL ? mem_strndup(text, (size_t)sqlite3_column_bytes(q, column)) : NULL;
}

static bool read_one(response_store *s, const char *id, stored_response *out)
{
    *out            = (stored_response){0};
    sqlite3_stmt *q = prepare(s, "SELECT previous, items, response FROM responses WHERE expires > ?1 AND id = ?2");
    if (q == NULL) return false;
    (void)sqlite3_bind_int64(q, 1, s->o.now());
    bind(q, 2, id);
    if (!row(s, &q)) return false;
    const bool continues = sqlite3_column_type(q, 0) != SQLITE_NULL;
    *out                 = (stored_response){
                        .id = mem_strdup(id), .previous = copied(q, 0), .items = copied(q, 1), .response = copied(q, 2)};
    (void)sqlite3_finalize(q);
    if (out->id != NULL && out->items != NULL && out->response != NULL && (out->previous != NULL) == continues)
        return true;
    stored_response_free(out);
    return false;
}

/* ---- the thread ---- */

static void *run(void *user)
{
    response_store *s = user;
    (void)pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->first == NULL && !s->stop) (void)pthread_cond_wait(&s->news, &s->lock);
        waiting *w = s->first;
        if (w == NULL) break;
        s->first = w->next;
        if (s->first == NULL) s->end = &s->first;
        s->writing = true;
        (void)pthread_mutex_unlock(&s->lock);

        (void)pthread_mutex_lock(&s->db_lock);
        write_one(s, w);
        (void)pthread_mutex_unlock(&s->db_lock);

        (void)pthread_mutex_lock(&s->lock);
        s->writing = false;
        s->waiting_bytes -= w->bytes;
        stored_response_free(&w->r);
        mem_free(w);
        (void)pthread_cond_broadcast(&s->done);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void wait_for_writer(response_store *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->first != NULL || s->writing) (void)pthread_cond_wait(&s->done, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- for the others ---- */

static weir_status open_first(response_store *s, weir_error *err)
{
    if (s->o.dir != NULL) {
        if (mkdir(s->o.dir, 0700) != 0 && errno != EEXIST)
            return status_fail(err, WEIR_IO, "%s: %s", s->o.dir, strerror(errno));
        if ((s->path = path_join(s->o.dir, RESPONSE_STORE_FILE)) == NULL)
            return status_fail(err, WEIR_NO_MEMORY, "stored responses: out of memory");
    }
    if (try_open(s)) return WEIR_OK;
    set_aside(s);
    if (try_open(s)) return WEIR_OK;
    return status_fail(err, WEIR_IO, "%s: cannot be written", s->path != NULL ? s->path : "stored responses");
}

weir_status response_store_open(response_store **out, const response_store_options *o, weir_error *err)
{
    response_store *s = mem_zalloc(1, sizeof *s);
    *out              = NULL;
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "stored responses: out of memory");
    s->o   = *o;
    s->end = &s->first;
    if (s->o.now == NULL) s->o.now = clock_now;
    weir_status st = open_first(s, err);
    (void)pthread_mutex_init(&s->db_lock, NULL);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->news, NULL);
    (void)pthread_cond_init(&s->done, NULL);
    if (st == WEIR_OK && pthread_create(&s->thread, NULL, run, s) != 0)
        st = status_fail(err, WEIR_IO, "stored responses: their thread cannot be started");
    if (st != WEIR_OK) {
        close_db(s);
        mem_free(s->path);
        mem_free(s);
        return st;
    }
    *out = s;
    return WEIR_OK;
}

void response_store_close(response_store *s)
{
    if (s == NULL) return;
    (void)pthread_mutex_lock(&s->lock);
    s->stop = true;
    (void)pthread_cond_signal(&s->news);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->thread, NULL);
    close_db(s);
    (void)pthread_cond_destroy(&s->news);
    (void)pthread_cond_destroy(&s->done);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->db_lock);
    mem_free(s->path);
    mem_free(s);
}

void response_store_put(response_store *s, stored_response *r)
{
    waiting *w = mem_zalloc(1, sizeof *w);
    if (w == NULL) {
        stored_response_free(r);
        return;
    }
    w->bytes = strlen(r->items) + strlen(r->response);
    w->r     = *r;
    *r       = (stored_response){0};
    (void)pthread_mutex_lock(&s->lock);
    const bool fits = w->bytes <= s->o.max_bytes && s->waiting_bytes + w->bytes <= MAX_WAITING;
    if (fits) {
        s->waiting_bytes += w->bytes;
        *s->end = w;
        s->end  = &w->next;
        (void)pthread_cond_signal(&s->news);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (fits) return;
    stored_response_free(&w->r);
    mem_free(w);
}

bool response_store_get(response_store *s, const char *id, stored_response *out)
{
    wait_for_writer(s);
    (void)pthread_mutex_lock(&s->db_lock);
    const bool found = read_one(s, id, out);
    (void)pthread_mutex_unlock(&s->db_lock);
    return found;
}

bool response_store_delete(response_store *s, const char *id)
{
    wait_for_writer(s);
    (void)pthread_mutex_lock(&s->db_lock);
    change(s, "DELETE FROM responses WHERE expires > ?1 AND id = ?2", s->o.now(), id);
    const bool was = s->db != NULL && sqlite3_changes(s->db) > 0;
    (void)pthread_mutex_unlock(&s->db_lock);
    return was;
}

/* All of a chain stays as long as its last. */
static void touch(response_store *s, const stored_response *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        change(s, "UPDATE responses SET used = (SELECT MAX(used) + 1 FROM responses), expires = ?1 WHERE id = ?2",
               s->o.now() + s->o.seconds, r[i].id);
}

bool response_store_chain(response_store *s, const char *id, stored_response **out, size_t *n)
{
    stored_response *all = mem_zalloc(RESPONSE_CHAIN_MAX, sizeof *all);
    const char      *at  = id;
    *n                   = 0;
    *out                 = NULL;
    if (all == NULL) return false;
    wait_for_writer(s);
    (void)pthread_mutex_lock(&s->db_lock);
    while (at != NULL && *n < RESPONSE_CHAIN_MAX && read_one(s, at, &all[*n])) at = all[(*n)++].previous;
    const bool whole = at == NULL;
    if (whole) touch(s, all, *n);
    (void)pthread_mutex_unlock(&s->db_lock);
    for (size_t i = 0; i < *n / 2; i++) { /* the oldest first */
        const stored_response r = all[i];
        all[i]                  = all[*n - 1 - i];
        all[*n - 1 - i]         = r;
    }
    if (!whole) {
        stored_responses_free(all, *n);
        *n = 0;
        return false;
    }
    *out = all;
    return true;
}
