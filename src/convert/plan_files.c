/* convert/plan_files.c - the plan's tensors in files, and the plan as text. */
#include "base/mem.h"
#include "convert/plan_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_MAX_LEN = 1300, MAX_FILES = 99999 };

uint64_t plan_output_bytes(const plan_item *i)
{
    const uint64_t n = i->mats * i->rows * i->cols;
    if (i->kind == PLAN_COPY) return n * dtype_table[i->type].bytes;
    if (i->kind == PLAN_GAIN) return n * sizeof(float);
    if (i->kind == PLAN_TRELLIS) return n / 8 * i->bits + plan_coded_rows(i) * dtype_table[i->scale_type].bytes;
    return n / 8 * i->bits + n / i->group * 2 * dtype_table[i->scale_type].bytes;
}

/* One tensor of a file: the item's shape with `last` for its last dimension. */
static weir_status add_spec(plan_file *f, const plan_item *i, const char *tail, dtype type, uint64_t last,
                            weir_error *err)
{
    char              name[NAME_MAX_LEN];
    safetensors_spec *s = &f->specs[f->n_specs];
    (void)snprintf(name, sizeof name, "%s%s", i->name, tail);
    *s = (safetensors_spec){.name = mem_strdup(name), .type = type, .rank = i->rank};
    memcpy(s->shape, i->shape, sizeof s->shape);
    if (i->rank > 0) s->shape[i->rank - 1] = last;
    if (s->name == NULL) return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
    f->n_specs++;
    return WEIR_OK;
}

/* The output's rows and columns, and one scale a row. */
static weir_status add_trellis_specs(plan_file *f, const plan_item *i, weir_error *err)
{
    const uint64_t rows  = plan_coded_rows(i);
    plan_item      coded = *i;
    coded.shape[0]       = rows;
    TRY(add_spec(f, &coded, ".weight", DTYPE_U32, plan_coded_cols(i) / 32 * i->bits, err));
    coded.rank = 1;
    return add_spec(f, &coded, ".scales", i->scale_type, rows, err);
}

static weir_status add_specs(plan_file *f, plan_item *i, weir_error *err)
{
    const uint64_t last = i->rank > 0 ? i->shape[i->rank - 1] : 0;
    i->spec             = f->n_specs;
    if (i->kind == PLAN_COPY) return add_spec(f, i, "", i->type, last, err);
    if (i->kind == PLAN_GAIN) return add_spec(f, i, "", DTYPE_F32, last, err);
    if (i->kind == PLAN_TRELLIS) return add_trellis_specs(f, i, err);
    TRY(add_spec(f, i, ".weight", DTYPE_U32, i->cols / 32 * i->bits, err));
    TRY(add_spec(f, i, ".scales", i->scale_type, i->cols / i->group, err));
    return add_spec(f, i, ".biases", i->scale_type, i->cols / i->group, err);
}

/* The end of the file that begins with item `begin`. */
static size_t file_end(const plan *p, size_t begin, size_t class_end, uint64_t file_bytes)
{
    uint64_t bytes = 0;
    size_t   i     = begin;
    for (; i < class_end; i++) {
        const uint64_t more = plan_output_bytes(&p->items[i]);
        if (i > begin && (bytes >= file_bytes || more > file_bytes - bytes)) break;
        bytes += more;
    }
    return i;
}

static void name_files(plan_file *files, size_t n, plan_class class)
{
    static const char *const stems[] = {[PLAN_MODEL] = "model", [PLAN_MTP] = "mtp", [PLAN_VISION] = "vision"};
    for (size_t i = 0; i < n; i++)
        if (n == 1)
            (void)snprintf(files[i].name, sizeof files[i].name, "%s.safetensors", stems[class]);
        else
            (void)snprintf(files[i].name, sizeof files[i].name, "%s-%05zu-of-%05zu.safetensors", stems[class], i + 1,
                           n);
}

static weir_status fill_file(plan *p, plan_file *f, weir_error *err)
{
    f->specs = mem_zalloc(3 * (f->end - f->begin), sizeof *f->specs);
    if (f->specs == NULL) return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
    for (size_t i = f->begin; i < f->end; i++) {
        TRY(add_specs(f, &p->items[i], err));
        p->source_bytes += plan_item_bytes(&p->items[i]);
        p->bytes += plan_output_bytes(&p->items[i]);
        p->parameters += p->items[i].mats * p->items[i].rows * p->items[i].cols;
    }
    return safetensors_layout(&f->header, f->specs, f->n_specs, f->name, err);
}

weir_status plan_files_make(plan *p, const size_t *ends, uint64_t file_bytes, weir_error *err)
{
    p->files = mem_zalloc(p->n, sizeof *p->files); /* at most one an item */
    if (p->files == NULL) return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
    size_t begin = 0;
    for (plan_class k = 0; k < PLAN_CLASSES; k++) {
        const size_t first = p->n_files;
        for (; begin < ends[k]; begin = p->files[p->n_files++].end)
            p->files[p->n_files] =
                (plan_file){.class = k, .begin = begin, .end = file_end(p, begin, ends[k], file_bytes)};
        if (p->n_files - first > MAX_FILES)
            return status_fail(err, WEIR_INVALID, "quantize: expected at most %d files", MAX_FILES);
        name_files(p->files + first, p->n_files - first, k);
    }
    for (size_t i = 0; i < p->n_files; i++) TRY(fill_file(p, &p->files[i], err));
    return WEIR_OK;
}

static weir_status put_source(str *text, const char *path, weir_error *err)
{
    struct stat sb;
    const char *slash = strrchr(path, '/'); /* the folder may be called otherwise the next time */
    if (stat(path, &sb) != 0) return status_fail(err, WEIR_IO, "%s: %s", path, strerror(errno));
    str_printf(text, "source %s %lld bytes, changed %lld.%09ld\n", slash != NULL ? slash + 1 : path,
               (long long)sb.st_size, (long long)sb.st_mtim.tv_sec, sb.st_mtim.tv_nsec);
    return WEIR_OK;
}

static weir_status put_sources(str *text, const checkpoint *source, weir_error *err)
{
    const size_t n     = checkpoint_count(source);
    size_t       seen  = 0;
    const char **files = mem_alloc(n, sizeof *files);
    if (files == NULL) return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < n && st == WEIR_OK; i++) {
        const char *file = checkpoint_at(source, i)->file;
        size_t      k    = 0;
        while (k < seen && files[k] != file && strcmp(files[k], file) != 0) k++;
        if (k < seen) continue;
        files[seen++] = file;
        st            = put_source(text, file, err);
    }
    mem_free(files);
    return st;
}

weir_status plan_text_make(plan *p, const checkpoint *source, weir_error *err)
{
    str_puts(&p->text, "weir quantize, form 1\n");
    TRY(put_sources(&p->text, source, err));
    for (size_t i = 0; i < p->n_files; i++) {
        const str *h = &p->files[i].header.text;
        str_printf(&p->text, "%s %.*s\n", p->files[i].name, (int)(h->len - sizeof(uint64_t)),
                   h->data + sizeof(uint64_t));
    }
    return str_status(&p->text, "quantize", err);
}
