/* serve/adapter_shelf.c - see adapter_shelf.h. */
#include "serve/adapter_shelf.h"

#include "base/mem.h"
#include "serve/engine_loop.h"
#include "serve/server.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64 };

struct adapter_entry {
    adapter_entry      *next;
    adapter_shelf      *of;
    adapter_view        v; /* v.name and v.path are owned */
    const weir_adapter *adapter;
    weir_adapter       *opened; /* the same where the shelf opened it, and has to close it */
    engine_task         task;   /* one at a time: mounting, or taking out */
    adapter_answer      answer; /* out: NULL, or somebody waits */
};

struct adapter_shelf {
    const serve_options *o;
    engine_loop         *loop;
    char                *dir; /* resolved; NULL: nothing is loaded */
    pthread_t            thread;
    bool                 started;

    pthread_mutex_t lock; /* guards what follows, and the entries' views */
    pthread_cond_t  news;
    adapter_entry  *all; /* rising ids */
    uint32_t        next_id;
    adapter_entry  *to_load[64]; /* a ring */
    uint32_t        first, waiting;
    bool            stop;
};

static void lock(adapter_shelf *s)
{
    (void)pthread_mutex_lock(&s->lock);
}

static void unlock(adapter_shelf *s)
{
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- entries; with the lock held ---- */

static adapter_entry *find(const adapter_shelf *s, const char *name, size_t n)
{
    adapter_entry *a = s->all;
    while (a != NULL && (strlen(a->v.name) != n || strncmp(a->v.name, name, n) != 0)) a = a->next;
    return a;
}

static adapter_entry *find_id(const adapter_shelf *s, int64_t id)
{
    adapter_entry *a = s->all;
    while (a != NULL && a->v.id != id) a = a->next;
    return a;
}

static void entry_free(adapter_entry *a)
{
    outlet_release(a->answer.out);
    weir_adapter_close(a->opened);
    mem_free((char *)(uintptr_t)a->v.name);
    mem_free((char *)(uintptr_t)a->v.path);
    mem_free(a);
}

/* Appends an entry with copies of the texts; NULL without memory. */
static adapter_entry *add(adapter_shelf *s, const char *name, const char *path, float scale)
{
    adapter_entry *a = mem_zalloc(1, sizeof *a), **end = &s->all;
    if (a == NULL) return NULL;
    a->of = s;
    a->v  = (adapter_view){.name = mem_strdup(name), .path = mem_strdup(path), .scale = scale};
    if (a->v.name == NULL || a->v.path == NULL) {
        entry_free(a);
        return NULL;
    }
    a->v.id = s->next_id++;
    while (*end != NULL) end = &(*end)->next;
    *end = a;
    return a;
}

static void take_out(adapter_shelf *s, adapter_entry *a)
{
    adapter_entry **at = &s->all;
    while (*at != a) at = &(*at)->next;
    *at = a->next;
}

static bool take(adapter_entry *a, adapter_taken *out)
{
    if (a == NULL || a->v.state != ADAPTER_READY) return false;
    a->v.refs++;
    *out = (adapter_taken){a, {a->adapter, a->v.scale}};
    return true;
}

/* ---- answers ---- */

static void set_answer(adapter_entry *a, const adapter_answer *from)
{
    a->answer     = *from;
    a->answer.out = outlet_share(from->out);
}

/* The entry is gone from the list, and nobody else looks at it. */
static void end_with_error(adapter_entry *a, const api_error *e)
{
    if (a->answer.out != NULL) answer_error(a->answer.out, e, API_OPENAI, a->answer.request_id);
    entry_free(a);
}

static void give_up(adapter_entry *a, const api_error *e)
{
    lock(a->of);
    take_out(a->of, a);
    unlock(a->of);
    end_with_error(a, e);
}

/* What the files of an adapter, or its size, are wrong about is the request's fault. */
static void describe(api_error *e, const weir_error *err)
{
    weir_error told = *err;
    if (told.status == WEIR_IO) told.status = WEIR_INVALID;
    (void)api_fail_status(e, &told);
}

static void say_unavailable(api_error *e)
{
    (void)api_fail(e, API_UNAVAILABLE, NULL, "the server is shutting down");
    e->retry_after = 1;
}

/* ---- on the engine's thread ---- */

static void mount(engine_task *t, weir_engine *e)
{
    adapter_entry *a = t->user;
    weir_error     err;
    api_error      told;
    if (weir_engine_add_adapter(e, a->adapter, &err) != WEIR_OK) {
        describe(&told, &err);
        give_up(a, &told);
        return;
    }
    lock(a->of);
    a->v.state               = ADAPTER_READY;
    const adapter_view   now = a->v; /* its texts stay: only this thread frees the entry */
    const adapter_answer to  = a->answer;
    a->answer.out            = NULL;
    unlock(a->of);
    to.tell(to.out, &now);
    outlet_release(to.out);
}

static void unmount(engine_task *t, weir_engine *e)
{
    adapter_entry *a = t->user;
    weir_error     err;
    /* Nobody holds it, so that no request has it: it cannot fail. */
    (void)weir_engine_remove_adapter(e, a->adapter, &err);
    lock(a->of);
    take_out(a->of, a);
    unlock(a->of);
    if (a->answer.out != NULL) a->answer.tell(a->answer.out, &a->v);
    entry_free(a);
}

/* ---- the thread that loads ---- */

static void load(adapter_shelf *s, adapter_entry *a)
{
    weir_error err;
    api_error  told;
    if (weir_adapter_open(&a->opened, s->o->model, a->v.path, &err) != WEIR_OK) {
        describe(&told, &err);
        give_up(a, &told);
        return;
    }
    weir_adapter_info info;
    weir_adapter_get_info(a->opened, &info);
    lock(s);
    a->adapter = a->opened;
    a->v.info  = info;
    unlock(s);
    a->task = (engine_task){.run = mount, .user = a};
    if (engine_loop_call(s->loop, &a->task)) return;
    say_unavailable(&told);
    give_up(a, &told);
}

static void *run(void *user)
{
    adapter_shelf *s = user;
    lock(s);
    while (!s->stop) {
        if (s->waiting == 0) {
            (void)pthread_cond_wait(&s->news, &s->lock);
            continue;
        }
        adapter_entry *a = s->to_load[s->first];
        s->first         = (s->first + 1) % (sizeof s->to_load / sizeof *s->to_load);
        s->waiting--;
        unlock(s);
        load(s, a);
        lock(s);
    }
    while (s->waiting > 0) {
        adapter_entry *a = s->to_load[s->first];
        api_error      told;
        s->first = (s->first + 1) % (sizeof s->to_load / sizeof *s->to_load);
        s->waiting--;
        take_out(s, a);
        say_unavailable(&told);
        end_with_error(a, &told);
    }
    unlock(s);
    return NULL;
}

/* ---- opening ---- */

static weir_status add_listed(adapter_shelf *s, weir_error *err)
{
    for (size_t i = 0; i < s->o->n_adapters; i++) {
        const serve_adapter *from = &s->o->adapters[i];
        weir_adapter_info    info;
        weir_adapter_get_info(from->choice.adapter, &info);
        adapter_entry *a = add(s, from->name, info.path, from->choice.scale);
        if (a == NULL) return status_fail(err, WEIR_NO_MEMORY, "--adapter: out of memory");
        a->v.info  = info;
        a->v.state = ADAPTER_READY;
        a->adapter = from->choice.adapter;
    }
    return WEIR_OK;
}

weir_status adapter_shelf_open(adapter_shelf **out, const serve_options *o, engine_loop *loop, weir_error *err)
{
    adapter_shelf *s = mem_zalloc(1, sizeof *s);
    *out             = NULL;
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "adapters: out of memory");
    s->o    = o;
    s->loop = loop;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->news, NULL);
    weir_status st = add_listed(s, err);
    if (st == WEIR_OK && o->adapter_dir != NULL) {
        s->dir = realpath(o->adapter_dir, NULL);
        if (s->dir == NULL) st = status_fail(err, WEIR_IO, "--adapter-dir: %s: expected a folder", o->adapter_dir);
    }
    if (st == WEIR_OK && s->dir != NULL) {
        s->started = pthread_create(&s->thread, NULL, run, s) == 0;
        if (!s->started) st = status_fail(err, WEIR_IO, "the adapters' thread: cannot be started");
    }
    if (st == WEIR_OK)
        *out = s;
    else
        adapter_shelf_close(s);
    return st;
}

void adapter_shelf_stop(adapter_shelf *s)
{
    if (s == NULL) return;
    lock(s);
    s->stop = true;
    (void)pthread_cond_signal(&s->news);
    unlock(s);
    if (s->started) (void)pthread_join(s->thread, NULL);
    s->started = false;
}

void adapter_shelf_close(adapter_shelf *s)
{
    weir_error err;
    if (s == NULL) return;
    adapter_shelf_stop(s);
    while (s->all != NULL) {
        adapter_entry *a = s->all;
        s->all           = a->next;
        if (a->opened != NULL) (void)weir_engine_remove_adapter(s->o->engine, a->opened, &err);
        entry_free(a);
    }
    free(s->dir); /* realpath's */
    (void)pthread_cond_destroy(&s->news);
    (void)pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

/* ---- for requests ---- */

bool adapter_take(adapter_shelf *s, const char *name, size_t n, adapter_taken *out)
{
    if (s == NULL) return false;
    lock(s);
    const bool ok = take(find(s, name, n), out);
    unlock(s);
    return ok;
}

bool adapter_take_id(adapter_shelf *s, int64_t id, adapter_taken *out)
{
    if (s == NULL) return false;
    lock(s);
    const bool ok = take(find_id(s, id), out);
    unlock(s);
    return ok;
}

size_t adapter_take_usual(adapter_shelf *s, adapter_taken out[WEIR_MAX_ADAPTERS])
{
    size_t n = 0;
    if (s == NULL) return 0;
    lock(s);
    for (adapter_entry *a = s->all; a != NULL && n < WEIR_MAX_ADAPTERS; a = a->next) {
        if (!(a->v.usual < 0 || a->v.usual > 0) || !take(a, &out[n])) continue;
        out[n++].choice.scale = a->v.usual;
    }
    unlock(s);
    return n;
}

void adapter_release(adapter_entry *a)
{
    if (a == NULL) return;
    lock(a->of);
    const bool leaves = --a->v.refs == 0 && a->v.state == ADAPTER_LEAVING;
    unlock(a->of);
    if (!leaves) return;
    a->task = (engine_task){.run = unmount, .user = a};
    (void)engine_loop_call(a->of->loop, &a->task); /* after the loop's end adapter_shelf_close does it */
}

/* ---- for the administrator ---- */

void adapter_shelf_each(adapter_shelf *s, void (*fn)(void *user, const adapter_view *v), void *user)
{
    if (s == NULL) return;
    lock(s);
    for (const adapter_entry *a = s->all; a != NULL; a = a->next) fn(user, &a->v);
    unlock(s);
}

/* The folder that `path` means, resolved, if it lies under the one that is allowed.  What else is
 * wrong with it is not told: a client learns nothing of other folders. */
static bool resolve(const adapter_shelf *s, const char *path, char *out, api_error *err)
{
    char         joined[PATH_MAX];
    const size_t n      = strlen(s->dir);
    const int    length = snprintf(joined, sizeof joined, "%s/%s", path[0] == '/' ? "" : s->dir, path);
    if (length < 0 || (size_t)length >= sizeof joined || path[0] == '\0' || realpath(joined, out) == NULL ||
        strncmp(out, s->dir, n) != 0 || out[n] != '/')
        return api_fail(err, API_INVALID, "path", "path: expected a folder in --adapter-dir, found \"%.200s\"", path);
    return true;
}

static bool check_name(const char *name, api_error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t      n         = strlen(name);
    if (n == 0 || n > MAX_NAME || strspn(name, allowed) != n || strcmp(name, "none") == 0)
        return api_fail(err, API_INVALID, "id",
                        "id: expected up to %d of A-Z a-z 0-9 . _ - and not \"none\", found \"%.80s\"", MAX_NAME, name);
    return true;
}

static bool enqueue(adapter_shelf *s, const char *name, const char *path, float scale, const adapter_answer *answer,
                    api_error *err)
{
    const uint32_t most = sizeof s->to_load / sizeof *s->to_load;
    if (find(s, name, strlen(name)) != NULL)
        return api_fail(err, API_CONFLICT, "id", "id: an adapter \"%s\" is there already", name);
    if (s->waiting == most) return api_fail(err, API_QUEUE_FULL, NULL, "%u adapters wait to be loaded", most);
    if (s->stop) {
        say_unavailable(err);
        return false;
    }
    adapter_entry *a = add(s, name, path, scale);
    if (a == NULL) return api_fail(err, API_INTERNAL, NULL, "out of memory");
    set_answer(a, answer);
    s->to_load[(s->first + s->waiting++) % most] = a;
    (void)pthread_cond_signal(&s->news);
    return true;
}

bool adapter_shelf_load(adapter_shelf *s, const char *name, const char *path, float scale, const adapter_answer *a,
                        api_error *err)
{
    char resolved[PATH_MAX];
    if (s == NULL || s->dir == NULL)
        return api_fail(err, API_FORBIDDEN, NULL, "adapters are loaded where the server has an --adapter-dir");
    if (!check_name(name, err) || !resolve(s, path, resolved, err)) return false;
    lock(s);
    const bool ok = enqueue(s, name, resolved, scale, a, err);
    unlock(s);
    return ok;
}

static bool begin_unload(adapter_shelf *s, const char *name, const adapter_answer *answer, adapter_entry **out,
                         api_error *err)
{
    adapter_entry *a = find(s, name, strlen(name));
    *out             = NULL;
    if (a == NULL) return api_fail(err, API_NOT_FOUND, "id", "id: no adapter \"%.80s\"", name);
    if (a->v.state == ADAPTER_LOADING)
        return api_fail(err, API_CONFLICT, "id", "adapter \"%s\" is still being loaded", name);
    if (a->v.refs == 0 && a->v.state == ADAPTER_READY) {
        set_answer(a, answer);
        *out = a;
    } else {
        (void)api_fail(err, API_CONFLICT, "id",
                       "adapter \"%s\" is in use: no further request gets it, and it goes with the last of %u", name,
                       a->v.refs);
    }
    a->v.state = ADAPTER_LEAVING;
    a->v.usual = 0;
    return *out != NULL;
}

bool adapter_shelf_unload(adapter_shelf *s, const char *name, const adapter_answer *answer, api_error *err)
{
    adapter_entry *a;
    if (s == NULL) return api_fail(err, API_NOT_FOUND, "id", "id: no adapter \"%.80s\"", name);
    lock(s);
    const bool ok = begin_unload(s, name, answer, &a, err);
    unlock(s);
    if (!ok) return false;
    a->task = (engine_task){.run = unmount, .user = a};
    if (engine_loop_call(s->loop, &a->task)) return true;
    say_unavailable(err); /* the loop has ended; adapter_shelf_close does the rest */
    return false;
}

bool adapter_shelf_set_usual(adapter_shelf *s, const adapter_scale *scales, size_t n, api_error *err)
{
    size_t used = 0;
    bool   ok   = true;
    for (size_t i = 0; i < n; i++) used += scales[i].scale < 0 || scales[i].scale > 0;
    if (used > WEIR_MAX_ADAPTERS)
        return api_fail(err, API_INVALID, "scale", "scale: expected at most %d other than 0, found %zu",
                        WEIR_MAX_ADAPTERS, used);
    if (s == NULL) return n == 0 || api_fail(err, API_INVALID, "id", "id: there are no adapters");
    lock(s);
    for (size_t i = 0; ok && i < n; i++) {
        const adapter_entry *a = find_id(s, scales[i].id);
        if (a == NULL || a->v.state != ADAPTER_READY)
            ok = api_fail(err, API_INVALID, "id", "id: no adapter %lld", (long long)scales[i].id);
    }
    for (adapter_entry *a = s->all; ok && a != NULL; a = a->next) a->v.usual = 0;
    for (size_t i = 0; ok && i < n; i++) find_id(s, scales[i].id)->v.usual = scales[i].scale;
    unlock(s);
    return ok;
}
