/* load/adapter.c - see adapter.h.
 *
 * The spelling of a key tells the form of its matrix, and the module's sizes check it: a
 * matrix that fits only the other way round is turned, with a line in the log. */
#include "load/adapter.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "checkpoint/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MODULE = 300 };

/* One tensor of the file. */
typedef struct key {
    const safetensors_tensor *t;
    char                     *module;       /* its path in the base model; owned */
    const char               *name;         /* the same in our words, a tail of it */
    bool                      is_b, turned; /* turned: [in, r] or [r, out], as mlx-lm has it */
} key;

/* What one adapter is read from. */
typedef struct reading {
    adapter              *a;
    const adapter_config *ac;
    const safetensors    *file;
    const config         *c;
    key                  *keys; /* [n] by name, A before B */
    size_t                n;
    weir_error           *err;
} reading;

/* ---- keys ---- */

static weir_status wrong_key(const reading *r, const char *name, const char *found)
{
    return status_fail(r->err, WEIR_UNSUPPORTED, "%s: \"%s\": expected lora_A or lora_B of a projection, found %s",
                       r->file->path, name, found);
}

/* Kinds of tensors that other programs write, and what they are. */
static const char *known_otherwise(const char *name)
{
    if (strstr(name, "lora_magnitude_vector") != NULL) return "DoRA";
    if (strstr(name, "lora_embedding_") != NULL) return "an embedding's";
    const size_t n = strlen(name);
    if (n > 2 && strcmp(name + n - 2, ".m") == 0) return "DoRA";
    if (n > 5 && strcmp(name + n - 5, ".bias") == 0) return "a bias";
    return "something else";
}

static weir_status read_key(const reading *r, const safetensors_tensor *t, key *out)
{
    static const struct {
        const char *suffix;
        bool        is_b, turned;
    } spellings[] = {
        {".lora_A.weight", false, false}, {".lora_B.weight", true, false}, {".lora_a", false, true},
        {".lora_b", true, true},          {".lora_A", false, true},        {".lora_B", true, true},
    };
    static const char wrapped[] = "base_model.model.";
    const size_t      n         = strlen(t->name),
                 skip           = strncmp(t->name, wrapped, sizeof wrapped - 1) == 0 ? sizeof wrapped - 1 : 0;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const size_t s = strlen(spellings[i].suffix);
        if (n <= s + skip || strcmp(t->name + n - s, spellings[i].suffix) != 0) continue;
        if (n - s - skip > MAX_MODULE) return wrong_key(r, t->name, "a name that is too long");
        *out = (key){.t      = t,
                     .module = mem_strndup(t->name + skip, n - s - skip),
                     .is_b   = spellings[i].is_b,
                     .turned = spellings[i].turned};
        if (out->module == NULL) return status_fail(r->err, WEIR_NO_MEMORY, "%s: out of memory", r->file->path);
        /* The file's own key: the rules want the dot behind "lm_head". */
        const checkpoint_part part = names_split(t->name + skip, &out->name);
        out->name                  = out->module + (out->name - (t->name + skip));
        switch (part) {
        case CHECKPOINT_TRUNK: return WEIR_OK;
        case CHECKPOINT_MTP: return wrong_key(r, t->name, "one of the multi-token-prediction head");
        case CHECKPOINT_VISION: return wrong_key(r, t->name, "one of the vision tower");
        case CHECKPOINT_HEAD:
        case CHECKPOINT_PARTS: break;
        }
        return wrong_key(r, t->name, "one of lm_head");
    }
    return wrong_key(r, t->name, known_otherwise(t->name));
}

static int by_name(const void *a, const void *b)
{
    const key *x = a, *y = b;
    const int  d = strcmp(x->name, y->name);
    return d != 0 ? d : (int)x->is_b - (int)y->is_b;
}

static weir_status read_keys(reading *r)
{
    r->keys = mem_zalloc(r->file->n, sizeof *r->keys);
    if (r->keys == NULL) return status_fail(r->err, WEIR_NO_MEMORY, "%s: out of memory", r->file->path);
    for (size_t i = 0; i < r->file->n; i++) {
        const weir_status st = read_key(r, &r->file->tensors[i], &r->keys[i]);
        r->n += r->keys[i].module != NULL;
        if (st != WEIR_OK) return st;
    }
    if (r->n == 0)
        return status_fail(r->err, WEIR_FORMAT, "%s: expected at least one lora_A and lora_B, found no tensor",
                           r->file->path);
    qsort(r->keys, r->n, sizeof *r->keys, by_name);
    for (size_t i = 0; i < r->n; i++) {
        const key *k = &r->keys[i], *other = k->is_b ? k - 1 : k + 1;
        const bool inside = k->is_b ? i > 0 : i + 1 < r->n;
        if (inside && other->is_b != k->is_b && strcmp(other->name, k->name) == 0) continue;
        return status_fail(r->err, WEIR_FORMAT,
                           "%s: \"%s\": expected one A and one B for a module, found another number", r->file->path,
                           k->t->name);
    }
    return WEIR_OK;
}

/* ---- matrices ---- */

/* Two dimensions, or three where the experts' are stacked. */
static weir_status check_matrix(const reading *r, const key *k, const adapter_module *m)
{
    const safetensors_tensor *t = k->t;
    if (t->type != DTYPE_F32 && t->type != DTYPE_F16 && t->type != DTYPE_BF16)
        return status_fail(r->err, WEIR_UNSUPPORTED, "%s: \"%s\": expected F32, F16 or BF16, found %s", r->file->path,
                           t->name, t->type_name);
    const bool stack = m->expert == ADAPTER_ALL;
    if (t->rank != (stack ? 3u : 2u))
        return status_fail(r->err, WEIR_UNSUPPORTED, "%s: \"%s\": expected a matrix%s, found %u dimensions",
                           r->file->path, t->name, stack ? " for each expert" : "", t->rank);
    if (!stack || t->shape[0] == r->c->n_experts) return WEIR_OK;
    return status_fail(r->err, WEIR_FORMAT, "%s: \"%s\": expected %u experts, found %" PRIu64, r->file->path, t->name,
                       r->c->n_experts, t->shape[0]);
}

/* The rank, if the two fit the module in the form that `turned` tells; else 0. */
static uint64_t rank_of(const key *a, const key *b, const adapter_module *m, bool turned)
{
    const uint64_t *of_a = a->t->shape + a->t->rank - 2, *of_b = b->t->shape + b->t->rank - 2;
    const uint64_t  rank = of_a[turned ? 1 : 0], in = of_a[turned ? 0 : 1];
    const uint64_t  out = of_b[turned ? 1 : 0], same = of_b[turned ? 0 : 1];
    return in == m->in && out == m->out && rank == same ? rank : 0;
}

static weir_status settle_form(const reading *r, key *a, key *b, const adapter_module *m, uint32_t *rank)
{
    /* mlx-lm's stacks are not turned, whatever they are called. */
    const bool stack = m->expert == ADAPTER_ALL, spelled = a->turned && !stack;
    uint64_t   n = rank_of(a, b, m, spelled);
    a->turned    = spelled;
    if (n == 0 && !stack) {
        n = rank_of(a, b, m, !spelled);
        if (n != 0) log_line(WEIR_LOG_WARN, "%s: \"%s\": the matrix is transposed", r->file->path, a->t->name);
        a->turned = !spelled;
    }
    if (n == 0)
        return status_fail(r->err, WEIR_FORMAT,
                           "%s: \"%s\": expected A [r, %u] and B [%u, r], found [%" PRIu64 ", %" PRIu64
                           "] and [%" PRIu64 ", %" PRIu64 "]",
                           r->file->path, a->t->name, m->in, m->out, a->t->shape[a->t->rank - 2],
                           a->t->shape[a->t->rank - 1], b->t->shape[b->t->rank - 2], b->t->shape[b->t->rank - 1]);
    b->turned = a->turned;
    if (n > ADAPTER_MAX_RANK)
        return status_fail(r->err, WEIR_UNSUPPORTED, "%s: \"%s\": expected a rank of at most %d, found %" PRIu64,
                           r->file->path, a->t->name, ADAPTER_MAX_RANK, n);
    *rank = (uint32_t)n;
    return WEIR_OK;
}

/* Row i of `cols` columns of the matrix, of a stack the one `mat`, as it is in memory. */
static void copy_row(uint8_t *to, const reading *r, const key *k, uint32_t mat, uint64_t rows, uint64_t cols,
                     uint64_t i)
{
    const size_t   size = dtype_table[k->t->type].bytes;
    const uint8_t *from = r->file->data + k->t->begin + mat * rows * cols * size;
    if (!k->turned)
        memcpy(to, from + i * cols * size, cols * size);
    else
        for (uint64_t j = 0; j < cols; j++) memcpy(to + j * size, from + (j * rows + i) * size, size);
}

/* The columns of a row of A move to where the model has them (adapter_place). */
static void place_columns(uint8_t *row, uint8_t *scratch, const config *c, uint32_t cols, size_t size)
{
    memcpy(scratch, row, cols * size);
    for (uint32_t j = 0; j < cols; j++) memcpy(row + adapter_place(c, LORA_OUT, j) * size, scratch + j * size, size);
}

/* ---- pairs ---- */

static adapter_pair *pair_of(adapter *a, uint32_t at, lora_target target)
{
    for (size_t i = a->n; i-- > 0;)
        if (a->pairs[i].layer == at && a->pairs[i].target == target) return &a->pairs[i];
    return NULL;
}

/* A pair with memory for its matrices, A as in the file, B all zero; of the experts all zero. */
static weir_status pair_new(const reading *r, const key *a, const key *b, uint32_t at, lora_target target,
                            uint32_t rank)
{
    adapter_pair *p = &r->a->pairs[r->a->n];
    *p = (adapter_pair){.layer = at, .target = target, .rank = rank, .a_type = a->t->type, .b_type = b->t->type};
    adapter_target_size(r->c, target, &p->in, &p->out);
    p->mats             = adapter_target_mats(r->c, target);
    p->scale            = adapter_config_scale(r->ac, a->module, rank);
    const size_t a_size = dtype_table[p->a_type].bytes, b_size = dtype_table[p->b_type].bytes;
    p->a = mem_aligned((size_t)p->mats * rank * p->in, a_size);
    p->b = mem_aligned((size_t)p->mats * p->out * rank, b_size);
    r->a->n++;
    if (p->a == NULL || p->b == NULL) return status_fail(r->err, WEIR_NO_MEMORY, "%s: out of memory", r->file->path);
    for (uint32_t i = 0; i < rank && target < LORA_EXPERT_GATE; i++)
        copy_row(p->a + i * p->in * a_size, r, a, 0, rank, p->in, i);
    if (target == LORA_OUT) {
        uint8_t *scratch = mem_alloc(p->in, a_size);
        if (scratch == NULL) return status_fail(r->err, WEIR_NO_MEMORY, "%s: out of memory", r->file->path);
        for (uint32_t i = 0; i < rank; i++) place_columns(p->a + i * p->in * a_size, scratch, r->c, p->in, a_size);
        mem_free(scratch);
    }
    r->a->bytes += p->mats * ((uint64_t)rank * p->in * a_size + (uint64_t)p->out * rank * b_size);
    r->a->max_rank = rank > r->a->max_rank ? rank : r->a->max_rank;
    r->a->max_in   = p->in > r->a->max_in ? p->in : r->a->max_in;
    r->a->max_out  = p->out > r->a->max_out ? p->out : r->a->max_out;
    return WEIR_OK;
}

/* Expert `to` of the pair gets what is in the file, of a stack at `from`. */
static void copy_expert(const reading *r, adapter_pair *p, uint32_t to, const key *a, const key *b, uint32_t from)
{
    const size_t a_row = p->in * dtype_table[p->a_type].bytes, b_row = p->rank * dtype_table[p->b_type].bytes;
    for (uint32_t i = 0; i < p->rank; i++)
        copy_row(p->a + ((size_t)to * p->rank + i) * a_row, r, a, from, p->rank, p->in, i);
    for (uint32_t i = 0; i < p->out; i++)
        copy_row(p->b + ((size_t)to * p->out + i) * b_row, r, b, from, p->out, p->rank, i);
}

/* All experts of a layer, or one; what comes one by one must be of one rank, type and scale. */
static weir_status add_experts(const reading *r, const adapter_module *m, const key *a, const key *b, uint32_t rank)
{
    const lora_target target = m->parts[0].target;
    const bool        one    = m->expert != ADAPTER_ALL;
    adapter_pair     *p      = pair_of(r->a, m->layer, target);
    if (p != NULL && !(one && p->by_expert))
        return status_fail(r->err, WEIR_FORMAT,
                           "%s: \"%s\": expected every matrix once, found one that is a part of another", r->file->path,
                           a->t->name);
    if (p == NULL) TRY(pair_new(r, a, b, m->layer, target, rank));
    p            = pair_of(r->a, m->layer, target);
    p->by_expert = one;
    if (p->rank != rank || p->a_type != a->t->type || p->b_type != b->t->type ||
        (one && p->scale != adapter_config_scale(r->ac, a->module, rank)))
        return status_fail(r->err, WEIR_UNSUPPORTED,
                           "%s: \"%s\": expected one rank, type and scale for all experts of a layer", r->file->path,
                           a->t->name);
    if (one)
        copy_expert(r, p, (uint32_t)m->expert, a, b, 0);
    else
        for (uint32_t e = 0; e < p->mats; e++) copy_expert(r, p, e, a, b, e);
    return WEIR_OK;
}

/* One module's A and B become the pairs of its parts. */
static weir_status add_module(const reading *r, key *a, key *b)
{
    adapter_module m;
    uint32_t       rank   = 0;
    const size_t   before = r->a->n;
    weir_status    st     = adapter_find_module(&m, r->c, a->name, r->err);
    if (st != WEIR_OK) return status_prefix(r->err, st, "%s: \"%s\"", r->file->path, a->t->name);
    TRY(check_matrix(r, a, &m));
    TRY(check_matrix(r, b, &m));
    TRY(settle_form(r, a, b, &m, &rank));
    if (m.expert != ADAPTER_NONE) return add_experts(r, &m, a, b, rank);
    for (uint32_t i = 0; i < m.n_parts; i++) {
        const adapter_part *p    = &m.parts[i];
        adapter_pair       *pair = pair_of(r->a, m.layer, p->target);
        if (pair != NULL && pair < r->a->pairs + before)
            return status_fail(r->err, WEIR_FORMAT,
                               "%s: \"%s\": expected every matrix once, found one that is a part of another",
                               r->file->path, a->t->name);
        if (pair == NULL) TRY(pair_new(r, a, b, m.layer, p->target, rank));
        pair              = pair_of(r->a, m.layer, p->target);
        const size_t size = (size_t)rank * dtype_table[pair->b_type].bytes;
        for (uint32_t j = 0; j < p->n; j++)
            copy_row(pair->b + (p->target == LORA_OUT ? j : adapter_place(r->c, p->target, p->first + j)) * size, r, b,
                     0, m.out, rank, p->offset + (uint64_t)(j / p->group) * p->stride + j % p->group);
    }
    return WEIR_OK;
}

static int by_place(const void *a, const void *b)
{
    const adapter_pair *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return (int)x->target - (int)y->target;
}

/* Whether all A, or all B, are zero: nothing that is added can differ from zero. */
static bool adds_nothing(const adapter *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const adapter_pair *p    = &a->pairs[i];
        const size_t        n_a  = (size_t)p->mats * p->rank * p->in * dtype_table[p->a_type].bytes;
        const size_t        n_b  = (size_t)p->mats * p->out * p->rank * dtype_table[p->b_type].bytes;
        bool                in_a = false, in_b = false;
        for (size_t j = 0; j < n_a && !in_a; j++) in_a = p->a[j] != 0;
        for (size_t j = 0; j < n_b && !in_b; j++) in_b = p->b[j] != 0;
        if (in_a && in_b && p->scale != 0.0) return false;
    }
    return true;
}

static weir_status read_all(reading *r)
{
    TRY(read_keys(r));
    r->a->pairs = mem_zalloc(r->n / 2 * ADAPTER_MAX_PARTS, sizeof *r->a->pairs);
    if (r->a->pairs == NULL) return status_fail(r->err, WEIR_NO_MEMORY, "%s: out of memory", r->file->path);
    for (size_t i = 0; i < r->n; i += 2) TRY(add_module(r, &r->keys[i], &r->keys[i + 1]));
    qsort(r->a->pairs, r->a->n, sizeof *r->a->pairs, by_place);
    if (adds_nothing(r->a))
        log_line(WEIR_LOG_WARN, "%s: the adapter changes nothing: A, B or the scale of every module is zero",
                 r->file->path);
    return WEIR_OK;
}

/* ---- the folder ---- */

weir_status adapter_read(adapter **out, const char *dir, const adapter_config *ac, const safetensors *file,
                         const config *c, weir_error *err)
{
    *out      = NULL;
    reading r = {.a = mem_zalloc(1, sizeof *r.a), .ac = ac, .file = file, .c = c, .err = err};
    if (r.a == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    r.a->form      = ac->form;
    r.a->n_layers  = c->n_layers;
    r.a->path      = mem_strdup(dir);
    weir_status st = r.a->path != NULL ? read_all(&r) : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    for (size_t i = 0; r.keys != NULL && i < file->n; i++) mem_free(r.keys[i].module);
    mem_free(r.keys);
    if (st != WEIR_OK)
        adapter_close(r.a);
    else
        *out = r.a;
    return st;
}

static weir_status read_folder(adapter **out, const char *dir, const adapter_config *ac, const config *c,
                               weir_error *err)
{
    safetensors file;
    char       *path = path_join(dir, ac->form == ADAPTER_PEFT ? "adapter_model.safetensors" : "adapters.safetensors");
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    weir_status st = safetensors_open(&file, path, err);
    if (st == WEIR_OK) st = adapter_read(out, dir, ac, &file, c, err);
    safetensors_close(&file);
    mem_free(path);
    return st;
}

weir_status adapter_open(adapter **out, const char *dir, const config *c, weir_error *err)
{
    adapter_config ac;
    *out       = NULL;
    char *path = path_join(dir, "adapter_config.json");
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    weir_status st = adapter_config_load(&ac, path, err);
    mem_free(path);
    if (st != WEIR_OK) return st;
    st = read_folder(out, dir, &ac, c, err);
    adapter_config_free(&ac);
    return st;
}

void adapter_close(adapter *a)
{
    if (a == NULL) return;
    for (size_t i = 0; i < a->n; i++) {
        mem_free(a->pairs[i].a);
        mem_free(a->pairs[i].b);
    }
    mem_free(a->pairs);
    mem_free(a->path);
    mem_free(a);
}

/* ---- on a backend ---- */

static weir_status weight_of(k_weight **out, kernels *k, dtype type, const k_weight_desc *shape, const uint8_t *data,
                             weir_error *err)
{
    const size_t  bytes = (size_t)shape->rows * shape->cols * dtype_table[type].bytes;
    k_weight_desc d     = *shape;
    k_matrix     *mats  = mem_zalloc(d.mats, sizeof *mats);
    if (mats == NULL) return status_fail(err, WEIR_NO_MEMORY, "adapter: out of memory");
    for (uint32_t i = 0; i < d.mats; i++) mats[i].data = data + i * bytes;
    d.format             = type == DTYPE_F32 ? K_F32 : type == DTYPE_F16 ? K_F16 : K_BF16;
    d.mat                = mats;
    const weir_status st = k->weight_new(k, &d, out, err);
    mem_free(mats);
    return st;
}

weir_status load_lora(lora *out, kernels *k, const adapter *a, weir_error *err)
{
    *out = (lora){.n_layers = a->n_layers, .layers = mem_zalloc(a->n_layers, sizeof *out->layers)};
    if (out->layers == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", a->path);
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < a->n && st == WEIR_OK; i++) {
        const adapter_pair *p       = &a->pairs[i];
        lora_pair          *to      = &out->layers[p->layer][p->target];
        *to                         = (lora_pair){.in = p->in, .out = p->out, .scale = (float)p->scale};
        const k_weight_desc a_shape = {.mats = p->mats, .rows = p->rank, .cols = p->in};
        const k_weight_desc b_shape = {.mats = p->mats, .rows = p->out, .cols = p->rank};
        st                          = weight_of(&to->a, k, p->a_type, &a_shape, p->a, err);
        if (st == WEIR_OK) st = weight_of(&to->b, k, p->b_type, &b_shape, p->b, err);
    }
    if (st != WEIR_OK) load_lora_free(out, k);
    return st;
}

void load_lora_free(lora *l, kernels *k)
{
    for (uint32_t i = 0; l->layers != NULL && i < l->n_layers; i++)
        for (int t = 0; t < LORA_TARGETS; t++) {
            k->weight_free(k, l->layers[i][t].a);
            k->weight_free(k, l->layers[i][t].b);
        }
    mem_free(l->layers);
    *l = (lora){0};
}
