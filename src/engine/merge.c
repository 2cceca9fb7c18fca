/* engine/merge.c - weir_model_merge: a checkpoint with adapters in its weights.
 *
 * One safetensors file with all tensors under their own names, those that an adapter
 * adds to summed in double precision and rounded to their type.  One tensor at a time is in memory. */
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/companions.h"
#include "checkpoint/safetensors_write.h"
#include "engine/engine_parts.h"
#include "quant/dense.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is merged with what. */
typedef struct merging {
    const checkpoint          *c;
    const weir_adapter_choice *choices;
    size_t                     n;
    safetensors_writer         w;
    uint64_t                   at; /* where the next bytes go */
} merging;

/* ---- which tensors change ---- */

/* The layer and the target of a tensor that adapters may add to. */
static bool target_of(const merging *m, const checkpoint_tensor *t, uint32_t *number, lora_target *target)
{
    static const char suffix[] = ".weight";
    const size_t      n = strlen(t->name), s = sizeof suffix - 1;
    adapter_module    module;
    if (t->part != CHECKPOINT_TRUNK || n <= s || strcmp(t->name + n - s, suffix) != 0) return false;
    char      *name  = mem_strndup(t->name, n - s);
    const bool found = name != NULL && adapter_find_module(&module, checkpoint_config(m->c), name, NULL) == WEIR_OK &&
                       module.n_parts == 1 && module.expert == ADAPTER_NONE;
    mem_free(name);
    if (!found) return false;
    *number = module.layer;
    *target = module.parts[0].target;
    return true;
}

static const adapter_pair *pair_at(const adapter *a, uint32_t number, lora_target target)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->pairs[i].layer == number && a->pairs[i].target == target) return &a->pairs[i];
    return NULL;
}

static bool changes(const merging *m, const checkpoint_tensor *t)
{
    uint32_t    number;
    lora_target target;
    if (!target_of(m, t, &number, &target)) return false;
    for (size_t i = 0; i < m->n; i++)
        if (pair_at(m->choices[i].adapter->a, number, target) != NULL) return true;
    return false;
}

/* Every matrix that an adapter adds to is a plain tensor of its shape. */
static weir_status check_tensors(const merging *m, weir_error *err)
{
    size_t pairs = 0, found = 0;
    for (size_t i = 0; i < m->n; i++) pairs += m->choices[i].adapter->a->n;
    for (size_t i = 0; i < checkpoint_count(m->c); i++) {
        const checkpoint_tensor *t = checkpoint_at(m->c, i);
        uint32_t                 number, in, out;
        lora_target              target;
        if (!changes(m, t) || !target_of(m, t, &number, &target)) continue;
        if (!dense_is(t->type))
            return status_fail(err, WEIR_UNSUPPORTED, "%s: %s: merge: expected F32, F16 or BF16, found %s", t->file,
                               t->raw_name, t->type_name);
        adapter_target_size(checkpoint_config(m->c), target, &in, &out);
        if (t->rank != 2 || t->shape[0] != out || t->shape[1] != in)
            return status_fail(err, WEIR_FORMAT, "%s: %s: merge: expected the shape [%u, %u]", t->file, t->raw_name,
                               out, in);
        for (size_t j = 0; j < m->n; j++) found += pair_at(m->choices[j].adapter->a, number, target) != NULL;
    }
    if (found == pairs) return WEIR_OK;
    return status_fail(err, WEIR_UNSUPPORTED,
                       "%s: merge: expected a plain matrix for all %zu of the adapters' modules, found %zu",
                       checkpoint_path(m->c), pairs, found);
}

/* ---- sums ---- */

/* sum [in] += scale * B[row] A, A as floats. */
static void add_row(double *sum, const adapter_pair *p, const float *a, double scale, uint32_t row)
{
    for (uint32_t r = 0; r < p->rank; r++) {
        const double b = scale * (double)dense_at(p->b, p->b_type, (size_t)row * p->rank + r);
        for (uint32_t j = 0; j < p->in; j++) sum[j] += b * (double)a[(size_t)r * p->in + j];
    }
}

static void round_row(uint8_t *to, dtype type, const double *sum, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++) {
        const float    x = (float)sum[j];
        const uint16_t h = type == DTYPE_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
        if (type == DTYPE_F32)
            memcpy(to + 4 * (size_t)j, &x, sizeof x);
        else
            memcpy(to + 2 * (size_t)j, &h, sizeof h);
    }
}

/* What the adapters make of a tensor, in data and sums of the caller. */
typedef struct sums {
    uint8_t *row;
    double  *sum;
    float   *old, *a[WEIR_MAX_ADAPTERS]; /* the weights of a row; A of each adapter, NULL where it has none */
} sums;

static weir_status sums_new(sums *s, const merging *m, uint32_t number, lora_target target, uint32_t in,
                            weir_error *err)
{
    *s      = (sums){.row = mem_alloc(in, sizeof(float)),
                     .sum = mem_alloc(in, sizeof *s->sum),
                     .old = mem_alloc(in, sizeof *s->old)};
    bool ok = s->row != NULL && s->sum != NULL && s->old != NULL;
    for (size_t i = 0; i < m->n && ok; i++) {
        const adapter_pair *p = pair_at(m->choices[i].adapter->a, number, target);
        if (p == NULL) continue;
        s->a[i] = mem_alloc((size_t)p->rank * in, sizeof *s->a[i]);
        ok      = s->a[i] != NULL;
        if (ok) dense_decode(s->a[i], p->a, p->a_type, (size_t)p->rank * in);
    }
    return ok ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "merge: out of memory");
}

static void sums_free(sums *s)
{
    mem_free(s->row);
    mem_free(s->sum);
    mem_free(s->old);
    for (int i = 0; i < WEIR_MAX_ADAPTERS; i++) mem_free(s->a[i]);
}

static weir_status put(merging *m, const void *bytes, size_t n, weir_error *err)
{
    TRY(safetensors_put(&m->w, m->at, bytes, n, err));
    m->at += n;
    return WEIR_OK;
}

static weir_status write_rows(merging *m, const checkpoint_tensor *t, uint32_t number, lora_target target, sums *s,
                              weir_error *err)
{
    const uint32_t in  = (uint32_t)t->shape[1];
    const size_t   row = (size_t)in * dtype_table[t->type].bytes;
    for (uint32_t i = 0; i < t->shape[0]; i++) {
        dense_decode(s->old, t->data + i * row, t->type, in);
        for (uint32_t j = 0; j < in; j++) s->sum[j] = (double)s->old[j];
        for (size_t k = 0; k < m->n; k++) {
            const adapter_pair *p = pair_at(m->choices[k].adapter->a, number, target);
            if (p != NULL) add_row(s->sum, p, s->a[k], p->scale * (double)m->choices[k].scale, i);
        }
        round_row(s->row, t->type, s->sum, in);
        TRY(put(m, s->row, row, err));
    }
    return WEIR_OK;
}

static weir_status write_tensor(merging *m, const checkpoint_tensor *t, weir_error *err)
{
    uint32_t    number;
    lora_target target;
    sums        s;
    if (!changes(m, t) || !target_of(m, t, &number, &target)) return put(m, t->data, t->bytes, err);
    weir_status st = sums_new(&s, m, number, target, (uint32_t)t->shape[1], err);
    if (st == WEIR_OK) st = write_rows(m, t, number, target, &s, err);
    sums_free(&s);
    return st;
}

/* ---- files ---- */

static weir_status write_tensors(merging *m, const safetensors_spec *specs, weir_error *err)
{
    for (size_t i = 0; i < checkpoint_count(m->c); i++) {
        m->at = specs[i].begin;
        TRY(write_tensor(m, checkpoint_at(m->c, i), err));
    }
    return WEIR_OK;
}

static weir_status write_file(merging *m, const char *dir, weir_error *err)
{
    const size_t       n     = checkpoint_count(m->c);
    char              *path  = path_join(dir, "model.safetensors");
    safetensors_spec  *specs = mem_zalloc(n, sizeof *specs);
    safetensors_header h     = {0};
    weir_status        st =
        path != NULL && specs != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    for (size_t i = 0; st == WEIR_OK && i < n; i++) {
        const checkpoint_tensor *t = checkpoint_at(m->c, i);
        specs[i]                   = (safetensors_spec){.name = t->raw_name, .type = t->type, .rank = t->rank};
        memcpy(specs[i].shape, t->shape, t->rank * sizeof *t->shape);
    }
    if (st == WEIR_OK) st = safetensors_layout(&h, specs, n, path, err);
    if (st == WEIR_OK) st = safetensors_create(&m->w, path, &h, err);
    if (st == WEIR_OK) st = write_tensors(m, specs, err);
    if (st == WEIR_OK) st = safetensors_commit(&m->w, &h, err);
    safetensors_abandon(&m->w);
    str_free(&h.text);
    mem_free(specs);
    mem_free(path);
    return st;
}

/* What stands beside the weights; config.json makes it a checkpoint. */
static weir_status copy_files(const checkpoint *c, const char *dir, weir_error *err)
{
    const char *path     = checkpoint_path(c);
    const char *slash    = strrchr(path, '/');
    char       *from     = file_is_dir(path) ? mem_strdup(path)
                           : slash == NULL   ? mem_strdup(".")
                                             : mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    weir_status st = from != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", dir);
    if (st == WEIR_OK) st = companions_copy(from, dir, err);
    if (st == WEIR_OK) st = companion_copy(from, dir, "config.json", err);
    mem_free(from);
    return st;
}

weir_status weir_model_merge(const weir_model *m, const weir_adapter_choice *adapters, size_t n, const char *dir,
                             weir_error *err)
{
    merging x = {.c = m->c, .choices = adapters, .n = n};
    if (n == 0 || n > WEIR_MAX_ADAPTERS)
        return status_fail(err, WEIR_INVALID, "merge: expected 1 to %d adapters, found %zu", WEIR_MAX_ADAPTERS, n);
    for (size_t i = 0; i < n; i++) TRY(adapters_check(&adapters[i].adapter, 1, m, err));
    if (checkpoint_gguf(m->c) != NULL)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: merge: expected a checkpoint of safetensors, found GGUF",
                           checkpoint_path(m->c));
    TRY(check_tensors(&x, err));
    if (mkdir(dir, 0777) != 0) return status_fail(err, WEIR_IO, "%s: cannot make the folder: %s", dir, strerror(errno));
    weir_status st = write_file(&x, dir, err);
    if (st == WEIR_OK) st = copy_files(m->c, dir, err);
    if (st != WEIR_OK) (void)rmdir(dir); /* where nothing came into it */
    return st;
}
