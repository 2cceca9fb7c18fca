/* grammar/shelf.c - grammars that were compiled lately. */
#include "grammar/shelf.h"

#include "base/mem.h"

#include <pthread.h>
#include <string.h>

typedef struct shelf_entry {
    grammar             *g;
    char                *text;
    size_t               len;
    weir_grammar_kind    kind;
    weir_grammar_options opt;
    uint64_t             hash, used;
} shelf_entry;

struct shelf {
    pthread_mutex_t lock;
    trie            t; /* nodes NULL: not made yet */
    uint32_t        n_ids;
    trie_bytes_fn  *bytes;
    const void     *user;
    shelf_entry     entries[SHELF_GRAMMARS_MOST];
    uint32_t        n;
    uint64_t        clock;
};

weir_status shelf_new(shelf **out, uint32_t n_ids, trie_bytes_fn *bytes, const void *user, weir_error *err)
{
    shelf *s = mem_zalloc(1, sizeof *s);
    *out     = s;
    if (s == NULL) return status_fail(err, WEIR_NO_MEMORY, "grammar: out of memory");
    (void)pthread_mutex_init(&s->lock, NULL);
    s->n_ids = n_ids;
    s->bytes = bytes;
    s->user  = user;
    return WEIR_OK;
}

static void drop(shelf *s, uint32_t i)
{
    grammar_release(s->entries[i].g);
    mem_free(s->entries[i].text);
    s->entries[i] = s->entries[--s->n];
}

void shelf_free(shelf *s)
{
    if (s == NULL) return;
    while (s->n > 0) drop(s, s->n - 1);
    trie_free(&s->t);
    (void)pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t h = len;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)text[i]) * 0x100000001B3u;
    return h;
}

static shelf_entry *find(shelf *s, const shelf_entry *key)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const shelf_entry *e = &s->entries[i];
        if (e->hash == key->hash && e->len == key->len && e->kind == key->kind && e->opt.ordered == key->opt.ordered &&
            e->opt.any_space == key->opt.any_space && memcmp(e->text, key->text, key->len) == 0)
            return &s->entries[i];
    }
    return NULL;
}

/* What was not used for longest goes, until one more fits. */
static void make_room(shelf *s)
{
    for (;;) {
        size_t   bytes  = 0;
        uint32_t oldest = 0;
        for (uint32_t i = 0; i < s->n; i++) {
            bytes += grammar_bytes(s->entries[i].g) + s->entries[i].len;
            if (s->entries[i].used < s->entries[oldest].used) oldest = i;
        }
        if (s->n == 0 || (bytes <= SHELF_BYTES_MOST && s->n < SHELF_GRAMMARS_MOST)) return;
        drop(s, oldest);
    }
}

/* Keeping it is a favour: without memory it is not kept. */
static void keep(shelf *s, const shelf_entry *key, grammar *g)
{
    char *text = mem_strndup(key->text, key->len);
    if (text == NULL) return;
    make_room(s);
    grammar_hold(g);
    s->entries[s->n]      = *key;
    s->entries[s->n].text = text;
    s->entries[s->n].g    = g;
    s->entries[s->n].used = ++s->clock;
    s->n++;
}

static weir_status make_trie(shelf *s, weir_error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    const weir_status st = s->t.nodes != NULL ? WEIR_OK : trie_make(&s->t, s->n_ids, s->bytes, s->user, err);
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

weir_status shelf_compile(shelf *s, grammar **out, weir_grammar_kind kind, const char *text, size_t len,
                          const weir_grammar_options *opt, weir_error *err)
{
    /* The text of a key is only read here, and copied when it is kept. */
    shelf_entry key = {
        .text = (char *)(uintptr_t)text, .len = len, .kind = kind, .opt = *opt, .hash = hash_text(text, len)};
    *out = NULL;
    TRY(make_trie(s, err));
    (void)pthread_mutex_lock(&s->lock);
    shelf_entry *e = find(s, &key);
    if (e != NULL) {
        e->used = ++s->clock;
        *out    = e->g;
        grammar_hold(e->g);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (*out != NULL) return WEIR_OK;
    TRY(grammar_compile(out, &s->t, kind, text, len, opt, err)); /* others need not wait for it */
    (void)pthread_mutex_lock(&s->lock);
    if (find(s, &key) == NULL) keep(s, &key, *out);
    (void)pthread_mutex_unlock(&s->lock);
    return WEIR_OK;
}
