/* serve/adapter_shelf.h - the adapters that requests may name, while they come and go.
 *
 * Those of the command line are there from the start.  Others are loaded by a thread of the
 * shelf's own, so that neither a listener nor a step waits for files, and mounted by the engine's
 * thread between two steps.  Who takes an adapter holds it until adapter_release; one that is to
 * leave is given to nobody any more, and leaves when the last holder is done.
 *
 * All functions may be called from any thread; a NULL shelf has no adapters. */
#ifndef SERVE_ADAPTER_SHELF_H
#define SERVE_ADAPTER_SHELF_H

#include "serve/api_error.h"
#include "serve/outlet.h"
#include "serve/serve.h"

typedef struct adapter_shelf adapter_shelf;
typedef struct adapter_entry adapter_entry;
struct engine_loop;

/* What o lists, and a thread for those that come.  WEIR_IO: o->adapter_dir is no folder. */
weir_status adapter_shelf_open(adapter_shelf **out, const serve_options *o, struct engine_loop *loop, weir_error *err);
/* Loads no more, and waits for what is being read.  To be called while the loop still runs.  NULL is allowed. */
void adapter_shelf_stop(adapter_shelf *s);
/* Once the loop has ended and nobody holds an adapter: takes out of the engine what came later.  NULL is allowed. */
void adapter_shelf_close(adapter_shelf *s);

/* ---- for requests ---- */

typedef struct adapter_taken {
    adapter_entry      *held;
    weir_adapter_choice choice; /* with the adapter's own scale */
} adapter_taken;

/* By name (n bytes), or by the id that the list tells.  False: there is none, or it is not to be had. */
bool adapter_take(adapter_shelf *s, const char *name, size_t n, adapter_taken *out);
bool adapter_take_id(adapter_shelf *s, int64_t id, adapter_taken *out);
/* Those that hold where a request chooses none, with the scales that were set; returns how many. */
size_t adapter_take_usual(adapter_shelf *s, adapter_taken out[WEIR_MAX_ADAPTERS]);
void   adapter_release(adapter_entry *a); /* NULL is allowed */

/* ---- for the administrator ---- */

typedef enum adapter_state { ADAPTER_LOADING, ADAPTER_READY, ADAPTER_LEAVING } adapter_state;

typedef struct adapter_view {
    uint32_t          id; /* never given twice */
    const char       *name, *path;
    float             scale, usual; /* usual: where a request chooses none; 0: not at all */
    adapter_state     state;
    uint32_t          refs;
    weir_adapter_info info; /* not while it loads */
} adapter_view;

/* Calls fn for each, in the order of their ids; it must not call back. */
void adapter_shelf_each(adapter_shelf *s, void (*fn)(void *user, const adapter_view *v), void *user);

/* How an answer that comes later is made: of the adapter as it is then, or of what went wrong. */
typedef struct adapter_answer {
    outlet *out; /* a share is taken */
    void (*tell)(outlet *out, const adapter_view *v);
    char request_id[129];
} adapter_answer;

/* Begins to load the adapter in the folder `path`, from --adapter-dir, which must stay under it.
 * False with *err filled: nothing was begun.  Otherwise the answer comes. */
bool adapter_shelf_load(adapter_shelf *s, const char *name, const char *path, float scale, const adapter_answer *a,
                        api_error *err);
/* Gives the adapter to no further request.  True: nobody has it, and the answer comes when it is gone.
 * False with *err filled: there is none, or (API_CONFLICT) requests have it: it goes with the last one. */
bool adapter_shelf_unload(adapter_shelf *s, const char *name, const adapter_answer *a, api_error *err);

/* Sets what holds where a request chooses none: n scales by id, 0 for all others.  All or nothing. */
typedef struct adapter_scale {
    int64_t id;
    float   scale;
} adapter_scale;
bool adapter_shelf_set_usual(adapter_shelf *s, const adapter_scale *scales, size_t n, api_error *err);

#endif
