/* engine/sequence_file.c - a sequence in a file of its own.
 *
 * One entry of kind `sequence` (docs/STATE-FILES.md): all tokens, and sections for the
 * state, the pages and the logits of the next token.  The key is that of its tokens. */
#include "base/mem.h"
#include "engine/sequence_parts.h"
#include "state/store_file.h"

#include <string.h>

enum { SECTION_STATE = 1, SECTION_KV = 2, SECTION_LOGITS = 3 };

/* What a file holds beside the tokens: of s, at a length.  Pages go one by one. */
typedef struct parts {
    const weir_sequence *s;
    store_stream         kv;
    uint64_t             state_bytes, logits_bytes;
    uint8_t             *page, *state;
} parts;

static void read_page(void *user, uint64_t i)
{
    const parts *p = user;
    page_read(p->s->e->st, sequence_pages(p->s->q)[i], p->page);
}

static void write_page(void *user, uint64_t i)
{
    const parts *p = user;
    page_write(p->s->e->st, sequence_pages(p->s->q)[i], p->page);
}

static weir_status parts_new(parts *p, const weir_sequence *s, uint32_t length, weir_error *err)
{
    const weir_engine *e = s->e;
    *p                   = (parts){.s            = s,
                                   .state_bytes  = state_size(e->st),
                                   .logits_bytes = e->m.config.vocab_size * sizeof(float),
                                   .page         = mem_alloc(e->early_page_bytes, 1), /* none is larger */
                                   .state        = mem_alloc(state_size(e->st), 1)};
    p->kv                = (store_stream){.type        = SECTION_KV,
                                          .n           = (length + K_PAGE - 1) / K_PAGE,
                                          .piece_bytes = e->page_bytes,
                                          .n_first     = e->early_pages,
                                          .first_bytes = e->early_page_bytes,
                                          .piece       = p->page,
                                          .user        = p};
    if (p->page != NULL && p->state != NULL) return WEIR_OK;
    return status_fail(err, WEIR_NO_MEMORY, "sequence: out of memory");
}

static void parts_free(parts *p)
{
    mem_free(p->page);
    mem_free(p->state);
}

/* The namespace of a sequence's files: the engine's, and with adapters a hash of it and them. */
static weir_status namespace_of(uint8_t out[STORE_KEY_BYTES], const weir_sequence *s, weir_error *err)
{
    uint8_t both[2 * STORE_KEY_BYTES];
    memcpy(out, s->e->identity, STORE_KEY_BYTES);
    if (s->adapters.n == 0) return WEIR_OK;
    memcpy(both, s->e->identity, STORE_KEY_BYTES);
    memcpy(both + STORE_KEY_BYTES, s->adapters.origin, STORE_KEY_BYTES);
    return store_sha256(out, both, sizeof both, err);
}

static weir_status save(const weir_sequence *s, parts *p, const char *path, weir_error *err)
{
    TRY(parts_new(p, s, sequence_length(s->q), err));
    sequence_save(s->q, p->state);
    p->kv.move    = read_page;
    store_entry f = {.kind       = STORE_SEQUENCE,
                     .n_tokens   = sequence_length(s->q),
                     .tokens     = sequence_tokens(s->q),
                     .n_sections = 3,
                     .sections   = {{SECTION_STATE, p->state_bytes, p->state},
                                    {SECTION_KV, store_stream_bytes(&p->kv), NULL},
                                    {SECTION_LOGITS, p->logits_bytes, s->logits}}};
    TRY(store_key(f.key, f.parent, f.tokens, f.n_tokens, err));
    uint8_t namespace[STORE_KEY_BYTES];
    TRY(namespace_of(namespace, s, err));
    return store_file_write(path, namespace, &f, &p->kv, err);
}

weir_status weir_sequence_save(const weir_sequence *s, const char *path, weir_error *err)
{
    TRY(engine_idle(s->e, "save", err));
    if (s->broken) return status_fail(err, WEIR_INVALID, "save: a step of the sequence failed");
    if (sequence_length(s->q) == 0) return status_fail(err, WEIR_INVALID, "save: the sequence is empty");
    parts             p  = {0};
    const weir_status st = save(s, &p, path, err);
    parts_free(&p);
    return st;
}

/* What the header says can become this sequence. */
static weir_status check(const weir_sequence *s, const store_entry *f, const char *path, weir_error *err)
{
    const uint32_t room = sequence_room(s->q), vocab = s->e->m.config.vocab_size;
    if (f->kind != STORE_SEQUENCE || f->position != 0)
        return status_fail(err, WEIR_FORMAT, "%s: expected a sequence, found an entry of kind %d at position %u", path,
                           (int)f->kind, f->position);
    if (f->n_tokens > room)
        return status_fail(err, WEIR_INVALID, "%s: expected at most %u tokens (max_context), found %u", path, room,
                           f->n_tokens);
    for (uint32_t i = 0; i < f->n_tokens; i++)
        if (f->tokens[i] >= vocab)
            return status_fail(err, WEIR_FORMAT, "%s: id %u at index %u: expected less than vocab_size = %u", path,
                               f->tokens[i], i, vocab);
    return WEIR_OK;
}

/* On failure s has some of it. */
static weir_status load(weir_sequence *s, const store_file *f, parts *p, const char *path, weir_error *err)
{
    const store_entry *h = &f->header.e;
    k_span             span;
    TRY(check(s, h, path, err));
    TRY(parts_new(p, s, h->n_tokens, err));
    TRY(store_file_section(f, SECTION_STATE, p->state, p->state_bytes, err));
    TRY(store_file_section(f, SECTION_LOGITS, s->logits, p->logits_bytes, err));
    TRY(sequence_span(s->q, h->tokens, h->n_tokens, 0, &span, err));
    p->kv.move = write_page;
    TRY(store_file_stream(f, &p->kv, err));
    sequence_restore(s->q, h->n_tokens, p->state);
    s->mtp_made = mtp_made_at(h->n_tokens);
    return WEIR_OK;
}

weir_status weir_sequence_load(weir_sequence *s, const char *path, weir_error *err)
{
    store_file f;
    parts      p = {0};
    TRY(engine_idle(s->e, "load", err));
    weir_sequence_reset(s);
    uint8_t namespace[STORE_KEY_BYTES];
    TRY(namespace_of(namespace, s, err));
    weir_status st = store_file_open(&f, path, namespace, err);
    if (st == WEIR_UNSUPPORTED)
        return status_prefix(err, WEIR_FORMAT, "of another model, adapters, cache format or version");
    if (st != WEIR_OK) return st;
    st = load(s, &f, &p, path, err);
    if (st != WEIR_OK) weir_sequence_reset(s);
    parts_free(&p);
    store_file_close(&f);
    return st;
}
