/* fetch/workers.c - four threads take files from one list; see workers.h.
 *
 * The calling thread waits, tells the progress, and asks whether to stop. */
#include "fetch/workers.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { N_WORKERS = 4, TICK_NS = 100 * 1000 * 1000, URL_BYTES = 8192 };

typedef struct crew {
    const workers_job *job;
    fetch_settings     settings; /* the threads': they are stopped by `halt` alone */
    blob_place         place;
    atomic_bool        halt;
    pthread_mutex_t    mutex; /* of what is below */
    pthread_cond_t     ended;
    size_t             next; /* file */
    unsigned           running;
    weir_status        st;
    weir_error         err;
} crew;

/* The next wanted file, or NULL. */
static const listing_file *take(crew *c)
{
    const listing      *l = c->job->files;
    const listing_file *f = NULL;
    (void)pthread_mutex_lock(&c->mutex);
    while (f == NULL && c->next < l->n && c->st == WEIR_OK) {
        if (l->files[c->next].wanted) f = &l->files[c->next];
        c->next++;
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return f;
}

static weir_status fetch_one(crew *c, http *h, const listing_file *f, weir_error *err)
{
    const workers_job *j = c->job;
    str                url;
    str_init(&url, URL_BYTES);
    str_printf(&url, "%s/%s/resolve/%s/", j->s->endpoint, j->name->repo, j->commit);
    http_put_escaped(&url, f->path, true);
    weir_status st = str_status(&url, f->path, err);
    if (st == WEIR_OK) st = blob_fetch(&c->place, h, f, url.data, j->counts, err);
    str_free(&url);
    return st;
}

static void *work(void *user)
{
    crew       *c = user;
    http       *h;
    weir_error  err;
    weir_status st = http_open(&h, &c->settings, c->job->name, &c->halt, &err);
    for (const listing_file *f; st == WEIR_OK && (f = take(c)) != NULL;) st = fetch_one(c, h, f, &err);
    http_close(h);
    (void)pthread_mutex_lock(&c->mutex);
    /* The first failure is the reason; the others are stopped by it. */
    if (st != WEIR_OK && c->st == WEIR_OK) {
        c->st  = st;
        c->err = err;
        atomic_store(&c->halt, true);
    }
    c->running--;
    (void)pthread_cond_signal(&c->ended);
    (void)pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* What the calling thread does meanwhile. */
static void tell_and_ask(crew *c)
{
    const workers_job *j = c->job;
    if (j->s->stopped != NULL && j->s->stopped(j->s->user)) {
        (void)pthread_mutex_lock(&c->mutex);
        if (c->st == WEIR_OK) c->st = status_fail(&c->err, WEIR_CANCELLED, "%s: stopped", j->name->repo);
        atomic_store(&c->halt, true);
        (void)pthread_mutex_unlock(&c->mutex);
    }
    if (j->progress == NULL) return;
    const fetch_progress p = {
        .done = atomic_load(&j->counts->done), .total = j->total, .received = atomic_load(&j->counts->received)};
    j->progress(j->user, &p);
}

static void wait_for_all(crew *c)
{
    (void)pthread_mutex_lock(&c->mutex);
    while (c->running > 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&c->ended, &c->mutex, &until);
        (void)pthread_mutex_unlock(&c->mutex);
        tell_and_ask(c);
        (void)pthread_mutex_lock(&c->mutex);
    }
    (void)pthread_mutex_unlock(&c->mutex);
}

weir_status workers_run(const workers_job *job, weir_error *err)
{
    crew      c = {.job = job, .settings = *job->s, .place = job->place};
    pthread_t threads[N_WORKERS];
    unsigned  n        = 0;
    c.place.halt       = &c.halt;
    c.place.s          = &c.settings;
    c.settings.stopped = NULL;
    (void)pthread_mutex_init(&c.mutex, NULL);
    (void)pthread_cond_init(&c.ended, NULL);
    for (; n < N_WORKERS; n++) {
        (void)pthread_mutex_lock(&c.mutex);
        const int e = pthread_create(&threads[n], NULL, work, &c);
        c.running += e == 0;
        if (e != 0 && n == 0)
            c.st = status_fail(&c.err, WEIR_NO_MEMORY, "%s: no thread: %s", job->name->repo, strerror(e));
        (void)pthread_mutex_unlock(&c.mutex);
        if (e != 0) break;
    }
    wait_for_all(&c);
    for (unsigned i = 0; i < n; i++) (void)pthread_join(threads[i], NULL);
    (void)pthread_cond_destroy(&c.ended);
    (void)pthread_mutex_destroy(&c.mutex);
    if (c.st != WEIR_OK && err != NULL) *err = c.err;
    return c.st;
}
