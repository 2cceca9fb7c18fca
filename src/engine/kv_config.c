/* engine/kv_config.c - see kv_config.h. */
#include "engine/kv_config.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

static weir_status read_form(k_kv_form *out, const json_at *at, const char *key, uint32_t bits, uint32_t group,
                             weir_error *err)
{
    switch (bits) {
    case 4: *out = (k_kv_form){K_KV_AFFINE4, group}; return WEIR_OK;
    case 8: *out = (k_kv_form){K_KV_AFFINE8, group}; return WEIR_OK;
    case 16: *out = (k_kv_form){K_KV_BF16, 0}; return WEIR_OK;
    default:
        return status_fail(err, WEIR_FORMAT, "%s: %s.%s: expected 4, 8 or 16, found %u", at->file, at->where, key,
                           bits);
    }
}

static weir_status check_group(const k_kv_layer *layer, const json_at *at, uint32_t group, uint32_t head_dim,
                               weir_error *err)
{
    if (group != 32 && group != 64 && group != 128)
        return status_fail(err, WEIR_FORMAT, "%s: %s.group_size: expected 32, 64 or 128, found %u", at->file, at->where,
                           group);
    if ((layer->keys.group == 0 && layer->values.group == 0) || head_dim % group == 0) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: %s.group_size: expected a group that divides head_dim = %u, found %u",
                       at->file, at->where, head_dim, group);
}

/* One entry: the layer that it is for, and the form. */
static weir_status read_entry(uint32_t *index, k_kv_layer *layer, const json_at *at, const config *c, weir_error *err)
{
    uint32_t bits = 0, k_bits = 0, v_bits = 0, group = 64;
    if (!json_is_object(at->obj))
        return status_fail(err, WEIR_FORMAT, "%s: %s: expected an object, found %s", at->file, at->where,
                           json_kind(at->obj));
    TRY(json_get_u32(at, "layer_idx", true, 0, c->n_layers - 1, index, err));
    TRY(json_get_u32(at, "k_bits", false, 1, UINT32_MAX, &k_bits, err));
    TRY(json_get_u32(at, "v_bits", false, 1, UINT32_MAX, &v_bits, err));
    TRY(json_get_u32(at, "bits", k_bits == 0 || v_bits == 0, 1, UINT32_MAX, &bits, err));
    TRY(json_get_u32(at, "group_size", false, 1, UINT32_MAX, &group, err));
    if (k_bits == 0 || v_bits == 0) TRY(read_form(&layer->keys, at, "bits", bits, group, err));
    layer->values = layer->keys;
    if (k_bits != 0) TRY(read_form(&layer->keys, at, "k_bits", k_bits, group, err));
    if (v_bits != 0) TRY(read_form(&layer->values, at, "v_bits", v_bits, group, err));
    return check_group(layer, at, group, c->head_dim, err);
}

/* The forms of all layers, with a cache or without. */
typedef struct listed {
    bool       is[CONFIG_MAX_LAYERS];
    k_kv_layer layer[CONFIG_MAX_LAYERS];
} listed;

static weir_status read_list(listed *l, const json_doc *doc, const config *c, weir_error *err)
{
    if (!json_is_array(doc->root))
        return status_fail(err, WEIR_FORMAT, "%s: expected an array of layers, found %s", doc->name,
                           json_kind(doc->root));
    for (size_t i = 0; i < json_array_size(doc->root); i++) {
        char          where[32];
        const json_at at = {doc->name, where, json_array_get(doc->root, i)};
        uint32_t      index;
        k_kv_layer    layer = {0};
        (void)snprintf(where, sizeof where, "[%zu]", i);
        TRY(read_entry(&index, &layer, &at, c, err));
        if (l->is[index])
            return status_fail(err, WEIR_FORMAT, "%s: %s.layer_idx: expected every layer once, found %u again",
                               doc->name, where, index);
        l->is[index]    = true;
        l->layer[index] = layer;
    }
    return WEIR_OK;
}

weir_status kv_config_parse(kv_forms *out, const char *text, size_t len, const char *name, const config *c, bool mtp,
                            weir_error *err)
{
    json_doc doc = {0};
    listed  *l   = mem_zalloc(1, sizeof *l); /* all zero: bfloat16 */
    if (l == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name);
    weir_status st = json_parse(&doc, text, len, name, MAX_DEPTH, err);
    if (st == WEIR_OK) st = read_list(l, &doc, c, err);
    out->n = 0;
    for (uint32_t i = 0; st == WEIR_OK && i < c->n_layers; i++)
        if (c->layers[i] == CONFIG_FULL) out->layer[out->n++] = l->layer[i];
    if (mtp) out->layer[out->n++] = (k_kv_layer){0};
    json_doc_free(&doc);
    mem_free(l);
    return st;
}

weir_status kv_config_load(kv_forms *out, const char *path, const config *c, bool mtp, weir_error *err)
{
    char  *text;
    size_t len;
    TRY(file_read(&text, &len, path, CONFIG_MAX_FILE, err));
    const weir_status st = kv_config_parse(out, text, len, path, c, mtp, err);
    mem_free(text);
    return st;
}
