/* state/store_parts.h - the struct behind store.h, for this room. */
#ifndef STATE_STORE_PARTS_H
#define STATE_STORE_PARTS_H

#include "state/store.h"
#include "state/store_file.h"
#include "state/store_index.h"
#include "state/store_writer.h"

enum { STORE_MAX_FILES = 1 << 20 };

/* A file of another namespace. */
typedef struct store_foreign {
    char     name[STORE_NAME_BYTES];
    uint64_t bytes;
    int64_t  used; /* ns since 1970 */
} store_foreign;

struct store {
    char          *path;
    store_place    place;
    uint64_t       budget, queue_bytes;
    uint64_t       bytes; /* of all files, queued ones included */
    store_index    index; /* entries of this namespace */
    store_foreign *foreign;
    size_t         n_foreign, foreign_capacity;
    uint64_t       foreign_bytes;
    store_file     file; /* for reading; its memory is kept */
    store_writer  *writer;
};

/* Reads the directory: fills index, foreign and bytes, visits the entries, and
 * removes what is of no use.  foreign ends up with the longest unused last. */
weir_status store_scan(store *s, store_visit_fn *visit, void *user, weir_error *err);

/* The file just read by s->file must be the one that its name says. */
weir_status store_check_name(const store *s, const char *name, weir_error *err);

/* True for errors of a system short of memory or descriptors, which say nothing
 * about the file. */
bool store_is_shortage(int error);

#endif
