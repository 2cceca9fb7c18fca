/* tests/unit/load/rewrite.c - a fixture written anew with other tensors. */
#include "rewrite.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void copy_config(const char *from, const char *to)
{
    char       path[2048], *text;
    size_t     n;
    weir_error err;
    (void)snprintf(path, sizeof path, "%s/config.json", from);
    must(file_read(&text, &n, path, 1 << 20, &err), &err);
    made_file(to, "config.json", text, n);
    mem_free(text);
}

char *rewrite(const char *fixture, rewrite_fn *fn, const void *user)
{
    char         path[1024];
    weir_error   err;
    checkpoint  *c;
    made_tensors out;
    char        *dir = made_dir();
    (void)snprintf(path, sizeof path, "%s/tests/fixtures/%s", WEIR_SOURCE_DIR, fixture);
    must(checkpoint_open(&c, path, &err), &err);
    made_begin(&out);
    for (size_t i = 0; i < checkpoint_count(c); i++)
        if (checkpoint_at(c, i)->part != CHECKPOINT_VISION) fn(&out, checkpoint_at(c, i), user);
    made_write(&out, dir, "model.safetensors");
    copy_config(path, dir);
    checkpoint_close(c);
    return dir;
}

void emit(made_tensors *out, const char *name, const checkpoint_tensor *like, uint32_t rank, const uint64_t *shape,
          const void *data, size_t n)
{
    str text;
    str_init(&text, 256);
    for (uint32_t i = 0; i < rank; i++) str_printf(&text, "%s%llu", i > 0 ? ", " : "[", (unsigned long long)shape[i]);
    str_puts(&text, "]");
    made_raw(out, name, like->type_name, text.data, data, n);
    str_free(&text);
}

void emit_same(made_tensors *out, const checkpoint_tensor *t)
{
    emit(out, t->raw_name, t, t->rank, t->shape, t->data, t->bytes);
}

bool ends_in(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

float *logits_of(const char *dir, uint32_t *vocab)
{
    enum { TOKENS = 12 };
    weir_error  err;
    weir_model *m;
    must(weir_model_open(&m, dir, &err), &err);
    weir_engine   *e   = engine_with(m, (weir_engine_options){.threads = 1, .max_context = TOKENS});
    weir_sequence *s   = sequence_on(e);
    uint32_t      *ids = random_ids(m, TOKENS, 81);
    append(s, ids, TOKENS);
    *vocab        = e->m.config.vocab_size;
    float *logits = malloc(*vocab * sizeof *logits);
    assert_non_null(logits);
    memcpy(logits, weir_sequence_logits(s), *vocab * sizeof *logits);
    free(ids);
    weir_sequence_free(s);
    weir_engine_close(e);
    weir_model_close(m);
    return logits;
}

void check_same_logits(const char *dir_a, const char *dir_b)
{
    uint32_t na, nb;
    float   *a = logits_of(dir_a, &na), *b = logits_of(dir_b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na * sizeof *a);
    free(a);
    free(b);
}

/* MTP's output [TOKENS, H] after some tokens; free(). */
static float *guesses_of(const char *dir, size_t *n)
{
    enum { TOKENS = 6 };
    weir_error  err;
    weir_model *m;
    mtp_rig     r;
    must(weir_model_open(&m, dir, &err), &err);
    rig_open(&r, m, (rig_options){.threads = 1, .max_rows = TOKENS, .max_sequences = 1, .max_positions = TOKENS});
    sequence *q   = rig_sequence(&r);
    uint32_t *ids = random_ids(m, TOKENS + 1, 82);
    rig_read(&r, q, ids, TOKENS);
    rig_guess(&r, q, 0, ids + 1, TOKENS, r.w.hidden, NULL);
    *n       = (size_t)TOKENS * r.m.config.hidden_size;
    float *x = malloc(*n * sizeof *x);
    assert_non_null(x);
    memcpy(x, rig_floats(&r, r.w.drafted), *n * sizeof *x);
    free(ids);
    sequence_free(q);
    rig_close(&r);
    weir_model_close(m);
    return x;
}

void check_same_guesses(const char *dir_a, const char *dir_b)
{
    size_t na, nb;
    float *a = guesses_of(dir_a, &na), *b = guesses_of(dir_b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, na * sizeof *a);
    free(a);
    free(b);
}

void check_refused(const char *dir, weir_status status, const char *const *fragments)
{
    weir_error   err;
    weir_model  *m;
    weir_engine *e  = NULL;
    weir_status  st = weir_model_open(&m, dir, &err);
    if (st == WEIR_OK) {
        const weir_engine_options opt = {.size = sizeof opt, .threads = 1, .max_context = 8};
        st                            = weir_engine_open(&e, m, &opt, &err);
    }
    weir_engine_close(e);
    weir_model_close(m);
    check_failure(st, status, &err, dir, fragments);
}
