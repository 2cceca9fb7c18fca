/* checkpoint/checkpoint.c - the normalised view: sorted tensors of all files, found by part and name. */
#include "checkpoint/checkpoint.h"

#include "base/mem.h"
#include "base/str.h"
#include "checkpoint/convention.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/names.h"
#include "checkpoint/shards.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    checkpoint_tensor view;
    char             *owned; /* the name, where it is no part of a file's */
} entry;

struct checkpoint {
    char                 *path;
    config                cfg;
    checkpoint_convention convention;
    shards                shards;         /* all zero in memory and with GGUF */
    gguf_set              gguf, gguf_mtp; /* all zero without */
    bool                  in_memory;
    bool                  skipped[CHECKPOINT_PARTS];
    size_t                n, cap;
    entry                *entries; /* sorted by part, then name */
};

static int compare(checkpoint_part part_a, const char *a, checkpoint_part part_b, const char *b)
{
    if (part_a != part_b) return part_a < part_b ? -1 : 1;
    return strcmp(a, b);
}

/* Equal names keep a fixed order, so that messages do too. */
static int by_part_and_name(const void *a, const void *b)
{
    const checkpoint_tensor *x = &((const entry *)a)->view, *y = &((const entry *)b)->view;
    int                      order = compare(x->part, x->name, y->part, y->name);
    if (order == 0) order = strcmp(x->raw_name, y->raw_name);
    return order != 0 ? order : strcmp(x->file, y->file);
}

/* The first entry that is not before (part, name). */
static size_t lower_bound(const checkpoint *c, checkpoint_part part, const char *name)
{
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        const size_t             mid = lo + (hi - lo) / 2;
        const checkpoint_tensor *t   = &c->entries[mid].view;
        if (compare(t->part, t->name, part, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static entry *find_entry(const checkpoint *c, checkpoint_part part, const char *name)
{
    const size_t i = lower_bound(c, part, name);
    if (i == c->n) return NULL;
    entry *e = &c->entries[i];
    return compare(e->view.part, e->view.name, part, name) == 0 ? e : NULL;
}

static weir_status no_memory(const checkpoint *c, weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", c->path);
}

static void fill_view(checkpoint_tensor *v, const safetensors *file, const safetensors_tensor *t)
{
    *v = (checkpoint_tensor){.raw_name  = t->name,
                             .file      = file->path,
                             .type      = t->type,
                             .type_name = t->type_name,
                             .rank      = t->rank,
                             .data      = file->data + t->begin,
                             .bytes     = t->bytes};
    memcpy(v->shape, t->shape, sizeof v->shape);
    v->part = names_split(t->name, &v->name);
}

static weir_status check_unique(const checkpoint *c, weir_error *err)
{
    for (size_t i = 1; i < c->n; i++) {
        const checkpoint_tensor *a = &c->entries[i - 1].view, *b = &c->entries[i].view;
        if (compare(a->part, a->name, b->part, b->name) != 0) continue;
        return status_fail(err, WEIR_FORMAT, "%s: %s: expected one tensor of this meaning, found also %s in %s",
                           b->file, b->raw_name, a->raw_name, a->file);
    }
    return WEIR_OK;
}

static weir_status index_tensors(checkpoint *c, weir_error *err)
{
    size_t n = 0;
    for (size_t f = 0; f < c->shards.n; f++) n += c->shards.files[f].n;
    c->entries = mem_zalloc(n, sizeof c->entries[0]);
    if (c->entries == NULL) return no_memory(c, err);
    c->cap = n;
    for (size_t f = 0; f < c->shards.n; f++) {
        const safetensors *file = &c->shards.files[f];
        for (size_t i = 0; i < file->n; i++) fill_view(&c->entries[c->n++].view, file, &file->tensors[i]);
    }
    qsort(c->entries, c->n, sizeof c->entries[0], by_part_and_name);
    return check_unique(c, err);
}

/* ---- GGUF ---- */

static weir_status add_gguf_tensor(checkpoint *c, const gguf *file, const gguf_tensor *t, weir_error *err)
{
    char               name[GGUF_MAX_CANONICAL];
    entry             *e = &c->entries[c->n];
    checkpoint_tensor *v = &e->view;
    *v                   = (checkpoint_tensor){.part      = gguf_canonical(t->name, c->cfg.n_layers, name),
                                               .raw_name  = t->name,
                                               .file      = file->path,
                                               .type      = t->type,
                                               .type_name = t->type_name,
                                               .rank      = t->rank,
                                               .data      = file->data + t->begin,
                                               .bytes     = t->bytes};
    memcpy(v->shape, t->shape, sizeof t->shape);
    e->owned = mem_strdup(name);
    if (e->owned == NULL) return no_memory(c, err);
    v->name = e->owned;
    gguf_canonical_shape(v);
    c->n++;
    return WEIR_OK;
}

/* All tensors, of a file beside the model's those of the MTP head alone: the
 * rest of it is there once more for programs that load it by itself. */
static weir_status add_gguf_tensors(checkpoint *c, const gguf_set *s, bool beside, weir_error *err)
{
    for (size_t f = 0; f < s->n; f++)
        for (size_t i = 0; i < s->files[f].n_tensors; i++) {
            char               name[GGUF_MAX_CANONICAL];
            const gguf_tensor *t = &s->files[f].tensors[i];
            if (beside && gguf_canonical(t->name, c->cfg.n_layers, name) != CHECKPOINT_MTP) continue;
            TRY(add_gguf_tensor(c, &s->files[f], t, err));
        }
    return WEIR_OK;
}

static size_t count_gguf(const gguf_set *s)
{
    size_t n = 0;
    for (size_t f = 0; f < s->n; f++) n += s->files[f].n_tensors;
    return n;
}

/* An MTP head without a norm of its own before the output uses the trunk's. */
static weir_status share_norm(checkpoint *c, weir_error *err)
{
    const entry *norm = find_entry(c, CHECKPOINT_TRUNK, "norm.weight");
    if (norm == NULL || find_entry(c, CHECKPOINT_MTP, "fc.weight") == NULL ||
        find_entry(c, CHECKPOINT_MTP, "norm.weight") != NULL)
        return WEIR_OK;
    entry shared = *norm;
    shared.owned = mem_strdup(norm->view.name);
    if (shared.owned == NULL) return no_memory(c, err);
    shared.view.name   = shared.owned;
    shared.view.part   = CHECKPOINT_MTP;
    c->entries[c->n++] = shared;
    qsort(c->entries, c->n, sizeof c->entries[0], by_part_and_name);
    return WEIR_OK;
}

/* A head beside the model must be this model's. */
static weir_status read_gguf_mtp(checkpoint *c, weir_error *err)
{
    config beside;
    TRY(gguf_set_open_mtp(&c->gguf_mtp, c->path, err));
    if (c->gguf_mtp.n == 0) return WEIR_OK;
    TRY(gguf_read_config(&beside, &c->gguf_mtp, err));
    const bool same = beside.mtp_layers > 0 && beside.n_layers == c->cfg.n_layers &&
                      beside.hidden_size == c->cfg.hidden_size && beside.vocab_size == c->cfg.vocab_size;
    c->cfg.mtp_layers = beside.mtp_layers;
    config_free(&beside);
    if (same) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT,
                       "%s: expected the MTP head of %s, found another number of layers, width or vocabulary",
                       c->gguf_mtp.files[0].path, c->path);
}

static weir_status open_gguf(checkpoint *c, weir_error *err)
{
    TRY(gguf_set_open(&c->gguf, c->path, err));
    TRY(gguf_read_config(&c->cfg, &c->gguf, err));
    if (c->cfg.mtp_layers == 0) TRY(read_gguf_mtp(c, err));
    c->cap     = count_gguf(&c->gguf) + count_gguf(&c->gguf_mtp) + 1; /* and a shared norm */
    c->entries = mem_zalloc(c->cap, sizeof c->entries[0]);
    if (c->entries == NULL) return no_memory(c, err);
    TRY(add_gguf_tensors(c, &c->gguf, false, err));
    TRY(add_gguf_tensors(c, &c->gguf_mtp, true, err));
    qsort(c->entries, c->n, sizeof c->entries[0], by_part_and_name);
    TRY(check_unique(c, err));
    TRY(share_norm(c, err));
    return convention_gguf(&c->convention, c, err);
}

/* ---- opening ---- */

static void skip_unwanted(checkpoint *c)
{
    c->skipped[CHECKPOINT_VISION] = true;
    c->skipped[CHECKPOINT_HEAD]   = c->cfg.tie_word_embeddings; /* some exports have a redundant copy */
    c->skipped[CHECKPOINT_MTP]    = c->cfg.mtp_layers == 0;
}

static checkpoint *new_checkpoint(const char *path)
{
    checkpoint *c = mem_zalloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->path = mem_strdup(path);
    if (c->path != NULL) return c;
    mem_free(c);
    return NULL;
}

static weir_status open_shards(checkpoint *c, weir_error *err)
{
    TRY(shards_open(&c->shards, c->path, err));
    TRY(config_load(&c->cfg, c->shards.dir, err));
    TRY(index_tensors(c, err));
    return convention_detect(&c->convention, c, err);
}

/* A folder may stand for the one GGUF file in it. */
static weir_status find_gguf(checkpoint *c, weir_error *err)
{
    char *file;
    TRY(gguf_set_in_folder(&file, c->path, err));
    if (file == NULL) return WEIR_OK;
    mem_free(c->path);
    c->path = file;
    return WEIR_OK;
}

static weir_status open_parts(checkpoint *c, weir_error *err)
{
    TRY(find_gguf(c, err));
    TRY(gguf_recognise(c->path) ? open_gguf(c, err) : open_shards(c, err));
    skip_unwanted(c);
    return WEIR_OK;
}

weir_status checkpoint_open(checkpoint **out, const char *path, weir_error *err)
{
    *out          = NULL;
    checkpoint *c = new_checkpoint(path);
    if (c == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    const weir_status st = open_parts(c, err);
    if (st == WEIR_OK)
        *out = c;
    else
        checkpoint_close(c);
    return st;
}

weir_status checkpoint_new_memory(checkpoint **out, const config *cfg, const checkpoint_convention *convention,
                                  weir_error *err)
{
    *out          = NULL;
    checkpoint *c = new_checkpoint("memory");
    if (c == NULL) return status_fail(err, WEIR_NO_MEMORY, "memory: out of memory");
    c->in_memory         = true;
    c->cfg               = *cfg;
    c->convention        = *convention;
    const weir_status st = config_quant_copy(&c->cfg.quant, &cfg->quant, err);
    if (st != WEIR_OK) {
        checkpoint_close(c);
        return st;
    }
    skip_unwanted(c);
    *out = c;
    return WEIR_OK;
}

static weir_status describe(checkpoint_tensor *v, dtype type, uint32_t rank, const uint64_t *shape, weir_error *err)
{
    if ((unsigned)type >= DTYPE_COUNT || rank > CHECKPOINT_MAX_RANK)
        return status_fail(err, WEIR_INVALID, "memory: expected a known type and rank up to %d", CHECKPOINT_MAX_RANK);
    v->type              = type;
    v->type_name         = dtype_table[type].name;
    v->rank              = rank;
    v->bytes             = dtype_table[type].bytes;
    const uint32_t block = dtype_table[type].elements;
    if (block > 1 && (rank == 0 || shape[rank - 1] % block != 0))
        return status_fail(err, WEIR_INVALID, "memory: shape: expected rows of whole blocks of %u", block);
    for (uint32_t i = 0; i < rank; i++) {
        v->shape[i] = shape[i];
        if (__builtin_mul_overflow(v->bytes, i + 1 < rank ? shape[i] : shape[i] / block, &v->bytes) ||
            v->bytes > PTRDIFF_MAX)
            return status_fail(err, WEIR_INVALID, "memory: shape: expected a product that fits into memory");
    }
    return WEIR_OK;
}

static weir_status grow(checkpoint *c, weir_error *err)
{
    if (c->n < c->cap) return WEIR_OK;
    const size_t cap = c->cap == 0 ? 64 : c->cap * 2;
    entry       *p   = mem_realloc(c->entries, cap, sizeof *p);
    if (p == NULL) return no_memory(c, err);
    c->entries = p;
    c->cap     = cap;
    return WEIR_OK;
}

weir_status checkpoint_add(checkpoint *c, checkpoint_part part, const char *name, dtype type, uint32_t rank,
                           const uint64_t *shape, void *data, weir_error *err)
{
    checkpoint_tensor v = {.part = part, .file = c->path, .data = data};
    if (!c->in_memory || (unsigned)part >= CHECKPOINT_PARTS)
        return status_fail(err, WEIR_INVALID, "%s: %s: expected a checkpoint in memory and a part of it", c->path,
                           name);
    TRY(describe(&v, type, rank, shape, err));
    if (find_entry(c, part, name) != NULL)
        return status_fail(err, WEIR_INVALID, "memory: %s: expected a new name, found one that is there", name);
    TRY(grow(c, err));
    char *owned = mem_strdup(name);
    if (owned == NULL) return no_memory(c, err);
    v.name = v.raw_name = owned;
    const size_t i      = lower_bound(c, part, name);
    memmove(&c->entries[i + 1], &c->entries[i], (c->n - i) * sizeof c->entries[0]);
    c->entries[i] = (entry){.view = v, .owned = owned};
    c->n++;
    return WEIR_OK;
}

void checkpoint_close(checkpoint *c)
{
    if (c == NULL) return;
    for (size_t i = 0; i < c->n; i++) {
        const checkpoint_tensor *v = &c->entries[i].view;
        if (c->in_memory) mem_pages_free((void *)(uintptr_t)v->data, (size_t)v->bytes);
        mem_free(c->entries[i].owned);
    }
    mem_free(c->entries);
    config_free(&c->cfg);
    shards_close(&c->shards);
    gguf_set_close(&c->gguf);
    gguf_set_close(&c->gguf_mtp);
    mem_free(c->path);
    mem_free(c);
}

const config *checkpoint_config(const checkpoint *c)
{
    return &c->cfg;
}

const checkpoint_convention *checkpoint_conventions(const checkpoint *c)
{
    return &c->convention;
}

const gguf *checkpoint_gguf(const checkpoint *c)
{
    return c->gguf.n != 0 ? &c->gguf.files[0] : NULL;
}

const char *checkpoint_path(const checkpoint *c)
{
    return c->path;
}

const checkpoint_tensor *checkpoint_find(const checkpoint *c, checkpoint_part part, const char *name)
{
    const entry *e = find_entry(c, part, name);
    return e != NULL ? &e->view : NULL;
}

static void put_shape(str *s, uint32_t rank, const uint64_t *shape)
{
    str_putc(s, '[');
    for (uint32_t i = 0; i < rank; i++) str_printf(s, "%s%" PRIu64, i > 0 ? ", " : "", shape[i]);
    str_putc(s, ']');
}

static weir_status wrong_shape(const checkpoint_tensor *t, uint32_t rank, const uint64_t *shape, weir_error *err)
{
    str expected, found;
    str_init(&expected, 256);
    str_init(&found, 256);
    put_shape(&expected, rank, shape);
    put_shape(&found, t->rank, t->shape);
    const weir_status st = status_fail(err, WEIR_FORMAT, "%s: %s: shape: expected %s, found %s", t->file, t->raw_name,
                                       expected.data, found.data);
    str_free(&expected);
    str_free(&found);
    return st;
}

static const char *part_prefix(checkpoint_part part)
{
    return part == CHECKPOINT_MTP ? "mtp." : part == CHECKPOINT_VISION ? "visual." : "";
}

void checkpoint_spell(const checkpoint *c, checkpoint_part part, const char *name, char *out, size_t size)
{
    char raw[GGUF_MAX_CANONICAL];
    if (c->gguf.n != 0 && gguf_raw(part, name, c->cfg.n_layers, raw))
        (void)snprintf(out, size, "%s (%s%s)", raw, part_prefix(part), name);
    else
        (void)snprintf(out, size, "%s%s", part_prefix(part), name);
}

static weir_status missing(const checkpoint *c, checkpoint_part part, const char *name, weir_error *err)
{
    char spelled[CHECKPOINT_MAX_SPELLED];
    checkpoint_spell(c, part, name, spelled, sizeof spelled);
    return status_fail(err, WEIR_FORMAT, "%s: %s: expected the tensor, found none", c->path, spelled);
}

weir_status checkpoint_require(const checkpoint *c, checkpoint_part part, const char *name, int rank,
                               const uint64_t *shape, const checkpoint_tensor **out, weir_error *err)
{
    const checkpoint_tensor *t = checkpoint_find(c, part, name);
    *out                       = NULL;
    if (t == NULL) return missing(c, part, name, err);
    if (t->type == DTYPE_COUNT)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: %s: dtype: expected %s, found %s", t->file, t->raw_name,
                           c->gguf.n != 0 ? gguf_usable_types() : "a known type", t->type_name);
    if (rank >= 0 && (t->rank != (uint32_t)rank || memcmp(t->shape, shape, (size_t)rank * sizeof *shape) != 0))
        return wrong_shape(t, (uint32_t)rank, shape, err);
    *out = t;
    return WEIR_OK;
}

size_t checkpoint_count(const checkpoint *c)
{
    return c->n;
}

size_t checkpoint_index(const checkpoint *c, const checkpoint_tensor *t)
{
    return (size_t)((const entry *)t - c->entries); /* the view is an entry's first member */
}

const checkpoint_tensor *checkpoint_at(const checkpoint *c, size_t i)
{
    return &c->entries[i].view;
}

weir_status checkpoint_unexpected(const checkpoint *c, const bool *taken, const bool *skipped, weir_error *err)
{
    enum { NAMED = 5 };
    str    names;
    size_t n = 0;
    str_init(&names, 800);
    for (size_t i = 0; i < c->n; i++) {
        const entry *e = &c->entries[i];
        if (taken[i] || skipped[e->view.part] || c->skipped[e->view.part]) continue;
        if (n < NAMED) str_printf(&names, "%s%.120s", n > 0 ? ", " : "", e->view.raw_name);
        n++;
    }
    weir_status st = WEIR_OK;
    if (n > 0)
        st = status_fail(err, WEIR_FORMAT, "%s: expected no further tensors, found %zu: %s%s", c->path, n, names.data,
                         n > NAMED ? ", ..." : "");
    str_free(&names);
    return st;
}

weir_status checkpoint_quant(const checkpoint *c, checkpoint_part part, const char *module, bool *quantised,
                             config_quant_form *form, weir_error *err)
{
    str name;
    *quantised = false;
    str_init(&name, 2048);
    str_printf(&name, "%s.scales", module);
    weir_status              st     = str_status(&name, module, err);
    const checkpoint_tensor *scales = st == WEIR_OK ? checkpoint_find(c, part, name.data) : NULL;
    if (scales != NULL) {
        str_clear(&name);
        str_put(&name, scales->raw_name, strlen(scales->raw_name) - strlen(".scales"));
        st         = str_status(&name, module, err);
        *quantised = true;
    }
    if (st == WEIR_OK && *quantised) {
        st = config_quant_for(&c->cfg, name.data, form, err);
        if (st != WEIR_OK) (void)status_prefix(err, st, "%s", scales->file);
    }
    str_free(&name);
    return st;
}
