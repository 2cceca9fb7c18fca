/* fetch/workers.h - several files at once. */
#ifndef FETCH_WORKERS_H
#define FETCH_WORKERS_H

#include "fetch/blob.h"

typedef struct workers_job {
    const fetch_settings *s;
    const fetch_name     *name;
    const char           *commit;
    blob_place            place; /* halt is filled here */
    const listing        *files; /* those that are wanted */
    uint64_t              total; /* for `progress` */
    fetch_progress_fn    *progress;
    void                 *user;
    blob_counts          *counts;
} workers_job;

/* Fetches the blobs of all wanted files.  The first failure stops the rest, and is told. */
weir_status workers_run(const workers_job *job, weir_error *err);

#endif
