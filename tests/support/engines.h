/* tests/support/engines.h - the fixture models and engines on them, opened for
 * a test: every failure fails the test with the message of the library. */
#ifndef SUPPORT_ENGINES_H
#define SUPPORT_ENGINES_H

#include "engine/engine_parts.h"

enum { FIXTURES = 10, MAX_ISAS = 4, MAX_THREADS = 4 };

/* The folders of tests/fixtures that hold a text model with kernels for all its formats. */
extern const char *const fixture_names[FIXTURES];

/* tests/fixtures/<name>, or the bundled model for "demo". */
weir_model *model_named(const char *name);

/* `opt` without its size; the caller closes it with weir_engine_close. */
weir_engine   *engine_with(const weir_model *m, weir_engine_options opt);
weir_sequence *sequence_on(weir_engine *e);

/* Reads n tokens, in the engine's own chunks. */
void append(weir_sequence *s, const uint32_t *ids, size_t n);

/* Instruction sets of this machine, scalar first. */
size_t isas(const char *names[MAX_ISAS]);

/* n ids below the model's vocabulary, all from the seed; free(). */
uint32_t *random_ids(const weir_model *m, size_t n, uint64_t seed);

/* Fails the test unless st is WEIR_OK. */
void must(weir_status st, const weir_error *err);

#endif
