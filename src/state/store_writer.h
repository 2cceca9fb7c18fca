/* state/store_writer.h - the thread that writes and removes a store's files.
 *
 * Jobs are done in the order they came, so a removal reaches the file of the
 * put before it and not that of the put after it. */
#ifndef STATE_STORE_WRITER_H
#define STATE_STORE_WRITER_H

#include "state/store_format.h"

#include <stdbool.h>

enum { STORE_NAME_BYTES = 16 + 1 + 2 * STORE_KEY_BYTES + sizeof ".state" };

#define STORE_TMP_PREFIX "weir-"
#define STORE_TMP_SUFFIX ".tmp"

/* The directory, borrowed for as long as the writer lives. */
typedef struct store_place {
    int         dir;  /* file descriptor */
    const char *path; /* for messages */
    uint8_t namespace[STORE_KEY_BYTES];
} store_place;

/* The name of the entry's file in the directory. */
void store_name(char          out[STORE_NAME_BYTES], const uint8_t namespace[STORE_KEY_BYTES],
                const uint8_t key[STORE_KEY_BYTES]);

typedef struct store_writer store_writer;

/* queue_bytes: of tokens and sections that may wait. */
weir_status store_writer_start(store_writer **out, const store_place *place, uint64_t queue_bytes, weir_error *err);
/* Does all jobs, then ends.  NULL is allowed. */
void store_writer_stop(store_writer *w);

/* Bytes of an entry in the queue, and whether they fit now. */
uint64_t store_writer_cost(const store_entry *e);
bool     store_writer_has_room(store_writer *w, uint64_t cost);
/* Queues a copy of a sound entry of file_bytes.  False without memory. */
bool store_writer_put(store_writer *w, const store_entry *e, uint64_t file_bytes);
/* Takes the put of this key back.  False when there may be a file to remove;
 * store_writer_next will not tell of it in any case. */
bool store_writer_cancel(store_writer *w, const uint8_t key[STORE_KEY_BYTES]);
/* Queues the removal of a file; it need not exist. */
void store_writer_remove(store_writer *w, const char name[STORE_NAME_BYTES]);

/* Takes one finished put from the list.  False when there is none. */
bool store_writer_next(store_writer *w, uint8_t key[STORE_KEY_BYTES], bool *durable);
/* Waits until no job is left. */
void store_writer_wait(store_writer *w);

#endif
