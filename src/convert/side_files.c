/* convert/side_files.c - config.json, the index, and files that are copied. */
#include "convert/side_files.h"

#include "base/file.h"
#include "base/mem.h"
#include "quant/trellis_encode.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

weir_status side_write(const char *path, const char *bytes, size_t n, weir_error *err)
{
    file_writer w;
    TRY(file_create(&w, path, err));
    const weir_status st = file_write(&w, bytes, n, err);
    if (st == WEIR_OK) return file_commit(&w, err);
    file_abandon(&w);
    return st;
}

/* ---- config.json ---- */

/* The type that `o` names under one of the keys in use. */
static dtype named_type(const json_t *o)
{
    static const char *const keys[] = {"dtype", "torch_dtype"};
    for (size_t i = 0; i < 2; i++) {
        const char *name = json_string_value(json_object_get(o, keys[i]));
        if (name == NULL) continue;
        if (strcmp(name, "bfloat16") == 0) return DTYPE_BF16;
        if (strcmp(name, "float16") == 0) return DTYPE_F16;
        if (strcmp(name, "float32") == 0) return DTYPE_F32;
    }
    return DTYPE_COUNT;
}

weir_status side_config_load(json_doc *out, const char *source, dtype *scale_type, weir_error *err)
{
    char *path = path_join(source, "config.json");
    if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", source);
    weir_status st = json_load(out, path, CONFIG_MAX_FILE, MAX_DEPTH, err);
    if (st == WEIR_OK) {
        *scale_type = named_type(out->root);
        if (*scale_type == DTYPE_COUNT) *scale_type = named_type(json_object_get(out->root, "text_config"));
    }
    mem_free(path);
    return st;
}

static json_t *trellis_entry(const plan_item *i)
{
    return json_pack("{s:I, s:I, s:s, s:{s:I, s:s, s:I}}", "bits", (json_int_t)i->bits, "group_size",
                     (json_int_t)i->group, "mode", "trellis", "trellis", "L", (json_int_t)TRELLIS_STATE_BITS, "code",
                     "1mad", "axis", (json_int_t)i->axis);
}

static json_t *make_block(const plan *p, const recipe *r)
{
    json_t *block =
        json_pack("{s:I, s:I, s:s}", "group_size", (json_int_t)r->group, "bits", (json_int_t)r->bits, "mode", "affine");
    for (size_t k = 0; k < p->n; k++) {
        const plan_item *i = &p->items[k];
        if (i->kind == PLAN_TRELLIS) (void)json_object_set_new(block, i->name, trellis_entry(i));
        if (i->kind != PLAN_AFFINE || (i->bits == r->bits && i->group == r->group)) continue;
        /* No mode: it is affine without one, and older readers know only these two. */
        (void)json_object_set_new(
            block, i->name, json_pack("{s:I, s:I}", "group_size", (json_int_t)i->group, "bits", (json_int_t)i->bits));
    }
    return block;
}

/* mlx-lm has modules for the composite models alone, and puts a flat config
 * under one of them by this name. */
static void name_composite(json_t *top)
{
    static const char tail[] = "_text";
    const char       *type   = json_string_value(json_object_get(top, "model_type"));
    if (type == NULL || json_object_get(top, "text_config") != NULL) return;
    const size_t n = strlen(type), m = sizeof tail - 1;
    if (n > m && strcmp(type + n - m, tail) == 0)
        (void)json_object_set_new(top, "model_type", json_stringn(type, n - m));
}

static weir_status write_json(json_t *v, size_t flags, const char *path, weir_error *err)
{
    char *text = v != NULL ? json_dumps(v, flags) : NULL;
    if (text == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    const weir_status st = side_write(path, text, strlen(text), err);
    free(text); /* jansson's */
    return st;
}

weir_status side_config_write(const json_doc *doc, const plan *p, const recipe *r, const char *path, weir_error *err)
{
    json_t *top = json_copy(doc->root), *block = make_block(p, r);
    (void)json_object_del(top, "_name_or_path");
    name_composite(top);
    (void)json_object_set(top, "quantization", block);
    (void)json_object_set_new(top, "quantization_config", block);
    const weir_status st = write_json(top, JSON_INDENT(4) | JSON_SORT_KEYS, path, err);
    json_decref(top);
    return st;
}

/* ---- the index ---- */

weir_status side_index_write(const plan *p, const char *path, weir_error *err)
{
    json_t *map = json_object();
    for (size_t i = 0; i < p->n_files; i++)
        for (size_t k = 0; k < p->files[i].n_specs; k++)
            (void)json_object_set_new(map, p->files[i].specs[k].name, json_string(p->files[i].name));
    json_t *index = json_pack("{s:{s:I, s:I}, s:o}", "metadata", "total_size", (json_int_t)p->bytes, "total_parameters",
                              (json_int_t)p->parameters, "weight_map", map);
    const weir_status st = write_json(index, JSON_INDENT(4) | JSON_SORT_KEYS, path, err);
    json_decref(index);
    return st;
}
