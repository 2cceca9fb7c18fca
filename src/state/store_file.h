/* state/store_file.h - one state file: written as a whole, read section by section.
 *
 * The format is in store_format.h.  A file for one sequence is written and read
 * with these alone; a directory of them is store.h. */
#ifndef STATE_STORE_FILE_H
#define STATE_STORE_FILE_H

#include "state/store_format.h"

/* A section that need not be in memory as a whole: it is n pieces, one after another, of
 * piece_bytes each but for the first n_first, which have first_bytes. */
typedef struct store_stream {
    uint32_t type;
    uint64_t n, piece_bytes;
    uint64_t n_first, first_bytes;
    uint8_t *piece;                           /* the one on its way */
    void (*move)(void *user, uint64_t index); /* fills `piece` with it when writing, takes it when reading */
    void *user;
} store_stream;

/* Bytes of all pieces; UINT64_MAX when these are too many. */
uint64_t store_stream_bytes(const store_stream *s);

/* Writes the entry to `path`, all or nothing (base/file.h), and returns when it
 * is on the disk.  stream: its one section without data, of n pieces, each
 * piece of which is asked for twice, and must be the same; NULL: all have data. */
weir_status store_file_write(const char *path, const uint8_t namespace[STORE_KEY_BYTES], const store_entry *e,
                             const store_stream *stream, weir_error *err);

/* A file open for reading, its header checked. */
typedef struct store_file {
    int          fd; /* -1: none */
    char        *name;
    uint8_t     *memory; /* the header */
    size_t       capacity;
    uint64_t     bytes;
    store_header header;
} store_file;

/* Opens and checks the header.  WEIR_UNSUPPORTED when the namespace is another:
 * the state is of another model, storage or adapter.  On failure *f needs no
 * closing. */
weir_status store_file_open(store_file *f, const char *path, const uint8_t namespace[STORE_KEY_BYTES], weir_error *err);
void        store_file_close(store_file *f);

/* The same, in the steps that a directory of files takes: *f is begun once and
 * may read one file after another, keeping its memory.  store_file_read takes
 * over `fd`; `name` is for messages.  store_file_done closes the one file. */
#define STORE_FILE_NONE ((store_file){.fd = -1})
weir_status store_file_read(store_file *f, int fd, const char *name, weir_error *err);
void        store_file_done(store_file *f);

/* Reads the section of that type into `to` and verifies it.  WEIR_FORMAT: there
 * is none, it is not of exactly `bytes`, or it is damaged; `to` then holds
 * bytes that must not be used. */
weir_status store_file_section(const store_file *f, uint32_t type, void *to, uint64_t bytes, weir_error *err);
/* The same in pieces.  These are handed over before the checksum is known: after a failure
 * nothing that was moved may be used. */
weir_status store_file_stream(const store_file *f, const store_stream *stream, weir_error *err);

#endif
