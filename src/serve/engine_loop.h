/* serve/engine_loop.h - the one thread that uses the engine.
 *
 * It takes jobs from a queue, submits their choices, and steps while any is not done.  Between
 * two steps it looks who has hung up.  Listeners' threads submit and never wait for a step. */
#ifndef SERVE_ENGINE_LOOP_H
#define SERVE_ENGINE_LOOP_H

#include "serve/job.h"
#include "serve/metrics.h"

typedef struct engine_loop engine_loop;

typedef struct engine_loop_options {
    weir_engine *engine; /* used by the loop's thread alone until engine_loop_stop */
    metrics     *metrics;
    uint32_t     max_queue; /* choices that may wait beside those that run */
    /* One line about a job that is over; called from the loop's thread.  NULL: nothing is told. */
    void (*say)(void *user, const char *line);
    void *user;
} engine_loop_options;

weir_status engine_loop_start(engine_loop **out, const engine_loop_options *o, weir_error *err);

/* Hands the job over, which belongs to the loop afterwards.  False, with the job as it was:
 * API_QUEUE_FULL, or API_UNAVAILABLE once the loop drains. */
bool engine_loop_submit(engine_loop *l, job *j, api_error *err);

/* Something that needs the engine between two steps.  It is the caller's, and stays where it is
 * until `run` is called, once, from the loop's thread: `run` may free it. */
typedef struct engine_task engine_task;
struct engine_task {
    engine_task *next;
    void (*run)(engine_task *t, weir_engine *e);
    void *user;
};
/* False: the loop has ended, and `run` is not called. */
bool engine_loop_call(engine_loop *l, engine_task *t);

/* Ends the jobs of this request id before the next step: who waits for them gets API_CANCELLED.
 * `out` is answered with how many there were, or with API_NOT_FOUND. */
bool engine_loop_cancel(engine_loop *l, const char *id, const char *own_id, outlet *out, api_error *err);

/* Takes no more jobs. */
void engine_loop_drain(engine_loop *l);
/* No job is left. */
bool engine_loop_idle(engine_loop *l);
/* Fails the jobs that are left and ends the thread; what is called afterwards is refused.  NULL is allowed. */
void engine_loop_stop(engine_loop *l);
/* After engine_loop_stop, once no other thread can call.  NULL is allowed. */
void engine_loop_free(engine_loop *l);

#endif
