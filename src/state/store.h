/* state/store.h - a directory of state files: entries that outlive the process.
 *
 * An entry never changes once it is written and is found by its key; the caller
 * decides what is kept, this decides nothing but which entries of other
 * namespaces go first.  Files are whole or absent (written beside, synced,
 * renamed), and everything read is verified, so any number of processes may
 * share a directory, and any of them may end at any time.
 *
 * Writing and removing happen on a thread of the store's own.  The caller waits
 * for the disk in store_open, store_get, store_flush and store_close, nowhere
 * else.  All calls come from one thread at a time.
 *
 * In the directory:
 *   NAMESPACE-KEY.state   an entry (store_format.h); 16 and 64 hex digits
 *   weir-*.tmp            being written, and locked (flock) as long as it is
 * Names of another form, links, devices and what may not be read are left alone. */
#ifndef STATE_STORE_H
#define STATE_STORE_H

#include "state/store_format.h"

#include <stdbool.h>

typedef struct store store;

/* An entry found at opening, borrowed during the call; sections have no data. */
typedef struct store_found {
    const store_entry *entry;
    uint64_t           file_bytes;
    int64_t            used; /* last written or read, seconds since 1970 */
} store_found;
typedef void store_visit_fn(void *user, const store_found *found);

typedef struct store_options {
    const char *dir;              /* made (for this user alone) when it is missing; the folder above is not */
    const uint8_t *namespace;     /* [STORE_KEY_BYTES] */
    uint64_t        budget_bytes; /* of files in the directory */
    uint64_t        queue_bytes;  /* of tokens and sections waiting to be written; an entry above it is refused */
    store_visit_fn *visit;
    void           *user;
} store_options;

/* Opens the directory and visits each entry of the namespace, in no order.
 * Headers are checked here, sections when they are read.  Removed on the way:
 * damaged files and those of another version (one log line each), what dead
 * writers left, and as long as the directory is over its budget the files of
 * other namespaces, longest unused first.  Entries of this namespace stay, even
 * over the budget: which ones to drop is the caller's choice. */
weir_status store_open(store **out, const store_options *o, weir_error *err);
/* Writes what is queued, then closes.  NULL is allowed. */
void store_close(store *s);

typedef enum store_put_status {
    STORE_QUEUED,
    STORE_PRESENT, /* there is an entry with this key, or it is queued */
    STORE_BUSY,    /* the queue is full: try again later */
    STORE_FULL,    /* over the budget: drop entries first */
    STORE_REFUSED, /* never: larger than queue or budget, or not in the format; or out of memory */
} store_put_status;

/* Copies the entry into the queue; file entries of other namespaces make room
 * for it.  store_poll tells what became of it. */
store_put_status store_put(store *s, const store_entry *e);

/* Reports, and forgets, the puts that are finished.  Durable: the entry is on
 * the disk and can be read.  Otherwise it could not be written, the store does
 * not know it any more, and the log says why (once until a write succeeds
 * again).  `fn` may call any function of the store but close. */
typedef void store_written_fn(void *user, const uint8_t key[STORE_KEY_BYTES], bool durable);
void         store_poll(store *s, store_written_fn *fn, void *user);

/* Waits until everything queued is on the disk or given up; then store_poll. */
void store_flush(store *s);

typedef enum store_get_status {
    STORE_OK,
    STORE_GONE,    /* no such entry (any more): forget it */
    STORE_DAMAGED, /* not what was asked for, or not what was written: removed and logged; forget it */
    STORE_FAILED,  /* out of memory or file descriptors, or not durable yet: the entry stays */
} store_get_status;

/* Reads and verifies the section of type `type`, of exactly `bytes`, into `to`,
 * whose bytes may be used after STORE_OK alone.  Counts as a use of the entry. */
store_get_status store_get(store *s, const uint8_t key[STORE_KEY_BYTES], uint32_t type, void *to, uint64_t bytes);

/* Forgets the entry at once and removes its file soon; store_poll will not
 * report it.  A key that is not there is allowed. */
void store_drop(store *s, const uint8_t key[STORE_KEY_BYTES]);

/* Bytes of all files, queued ones and those of other namespaces included, as far
 * as this process knows: what others wrote since the opening is not in it. */
uint64_t store_bytes(const store *s);
uint64_t store_budget(const store *s);

#endif
