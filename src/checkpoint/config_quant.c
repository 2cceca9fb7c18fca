/* checkpoint/config_quant.c - the quantization block of MLX exports.
 *
 *   {"group_size": 64, "bits": 4, "mode": "affine",
 *    "<path>": {"group_size": 64, "bits": 8}, "<path>": false, "<path>": true,
 *    "<path>": {"bits": 3, "group_size": 256, "mode": "trellis",
 *               "trellis": {"L": 12, "code": "1mad", "axis": 0}}}
 *
 * An object without a mode is affine whatever the block's mode is: exporters
 * write the 8-bit routers of 4-bit floating-point models like that.  Numbers
 * that an object leaves out are not filled in, since exporters differ in where
 * they take them from; shapes tell them anyway. */
#include "base/mem.h"
#include "checkpoint/config_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a mode may have: bit b of `bits` / `groups` for width or group size b. */
typedef struct mode_rule {
    const char *name, *widths;
    uint32_t    bits;
    uint32_t    group_min, group_max;
} mode_rule;

static const mode_rule mode_rules[] = {
    [CONFIG_QUANT_AFFINE]  = {"affine", "2, 3, 4, 5, 6 or 8", 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 8,
                              32, 128},
    [CONFIG_QUANT_MXFP4]   = {"mxfp4", "4", 1u << 4, 32, 32},
    [CONFIG_QUANT_MXFP8]   = {"mxfp8", "8", 1u << 8, 32, 32},
    [CONFIG_QUANT_NVFP4]   = {"nvfp4", "4", 1u << 4, 16, 16},
    [CONFIG_QUANT_TRELLIS] = {"trellis", "1 to 8", 0x1FE, 256, 256},
};

const char *config_quant_mode_name(config_quant_mode mode)
{
    return mode_rules[mode].name;
}

static weir_status read_mode(config_quant_mode *out, const json_at *at, weir_error *err)
{
    const char *name = "affine";
    TRY(json_get_string(at, "mode", false, &name, err));
    for (size_t i = 0; i < sizeof mode_rules / sizeof mode_rules[0]; i++)
        if (strcmp(name, mode_rules[i].name) == 0) {
            *out = (config_quant_mode)i;
            return WEIR_OK;
        }
    return config_unsupported(at, "mode", "affine, mxfp4, mxfp8, nvfp4 or trellis", name, err);
}

static weir_status trellis_wrong(const json_at *at, const char *key, const char *expected, uint32_t n, weir_error *err)
{
    char found[16];
    (void)snprintf(found, sizeof found, "%u", n);
    return config_unsupported(at, key, expected, found, err);
}

/* The one trellis there is; along which axis is what the file must say. */
static weir_status read_trellis(config_quant_form *out, const json_at *at, weir_error *err)
{
    config_section s;
    const char    *code  = "1mad";
    uint32_t       state = 12;
    TRY(config_open_section(&s, at, "trellis", err));
    if (s.at.obj == NULL) return config_wrong(at, "trellis", "an object", "none", err);
    TRY(json_get_u32(&s.at, "L", false, 1, 32, &state, err));
    TRY(json_get_string(&s.at, "code", false, &code, err));
    TRY(json_get_u32(&s.at, "axis", true, 0, 1u << 16, &out->axis, err));
    if (state != 12) return trellis_wrong(&s.at, "L", "12", state, err);
    if (strcmp(code, "1mad") != 0) return config_unsupported(&s.at, "code", "1mad", code, err);
    if (out->axis > 1) return trellis_wrong(&s.at, "axis", "0 or 1", out->axis, err);
    return WEIR_OK;
}

static weir_status read_form(config_quant_form *out, const json_at *at, weir_error *err)
{
    *out = (config_quant_form){0};
    TRY(read_mode(&out->mode, at, err));
    TRY(json_get_u32(at, "bits", false, 1, 16, &out->bits, err));
    TRY(json_get_u32(at, "group_size", false, 1, 1u << 16, &out->group, err));
    const mode_rule *rule = &mode_rules[out->mode];
    char             expected[96], found[16];
    if (out->bits != 0 && (rule->bits >> out->bits & 1u) == 0) {
        (void)snprintf(expected, sizeof expected, "%s (mode %s)", rule->widths, rule->name);
        (void)snprintf(found, sizeof found, "%u", out->bits);
        return config_unsupported(at, "bits", expected, found, err);
    }
    const uint32_t g = out->group;
    if (g != 0 && (g < rule->group_min || g > rule->group_max || (g & (g - 1)) != 0)) {
        (void)snprintf(expected, sizeof expected, "a power of two in %u..%u (mode %s)", rule->group_min,
                       rule->group_max, rule->name);
        (void)snprintf(found, sizeof found, "%u", g);
        return config_unsupported(at, "group_size", expected, found, err);
    }
    return out->mode == CONFIG_QUANT_TRELLIS ? read_trellis(out, at, err) : WEIR_OK;
}

static weir_status read_override(config_quant_override *out, const config_quant *q, const json_at *block,
                                 const char *key, const json_t *v, weir_error *err)
{
    out->quantised = !json_is_false(v);
    out->form      = q->form;
    if (json_is_object(v)) {
        char where[256];
        (void)snprintf(where, sizeof where, "%s.%s", block->where, key);
        const json_at at = {.file = block->file, .where = where, .obj = v};
        TRY(read_form(&out->form, &at, err));
    }
    out->path = mem_strdup(key);
    if (out->path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", block->file);
    return WEIR_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const config_quant_override *)a)->path, ((const config_quant_override *)b)->path);
}

static bool is_form_key(const char *key)
{
    return strcmp(key, "bits") == 0 || strcmp(key, "group_size") == 0 || strcmp(key, "mode") == 0 ||
           strcmp(key, "trellis") == 0;
}

static weir_status read_block(config_quant *q, const json_at *block, weir_error *err)
{
    const char *method = NULL;
    TRY(json_get_string(block, "quant_method", false, &method, err));
    if (method != NULL) return config_unsupported(block, "quant_method", "no such key (the MLX form)", method, err);
    TRY(read_form(&q->form, block, err));
    q->present   = true;
    q->overrides = mem_zalloc(json_object_size(block->obj), sizeof q->overrides[0]);
    if (q->overrides == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", block->file);

    const char *key;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)block->obj, key, v)
    {
        if (is_form_key(key) || json_is_null(v)) continue;
        if (!json_is_object(v) && !json_is_boolean(v))
            return config_unsupported(block, key, "an object, true or false", json_kind(v), err);
        TRY(read_override(&q->overrides[q->n_overrides], q, block, key, v, err));
        q->n_overrides++;
    }
    qsort(q->overrides, q->n_overrides, sizeof q->overrides[0], by_path);
    return WEIR_OK;
}

weir_status config_quant_copy(config_quant *to, const config_quant *from, weir_error *err)
{
    *to           = (config_quant){.present = from->present, .form = from->form};
    to->overrides = mem_zalloc(from->n_overrides, sizeof to->overrides[0]);
    if (to->overrides == NULL) return status_fail(err, WEIR_NO_MEMORY, "quantization: out of memory");
    for (; to->n_overrides < from->n_overrides; to->n_overrides++) {
        config_quant_override *o = &to->overrides[to->n_overrides];
        *o                       = from->overrides[to->n_overrides];
        o->path                  = mem_strdup(o->path);
        if (o->path == NULL) return status_fail(err, WEIR_NO_MEMORY, "quantization: out of memory");
    }
    qsort(to->overrides, to->n_overrides, sizeof to->overrides[0], by_path);
    return WEIR_OK;
}

weir_status config_read_quant(config *c, const json_at *top, const json_at *text, weir_error *err)
{
    config_section block, copy;
    TRY(config_open_section(&block, top, "quantization", err));
    TRY(config_open_section(&copy, top, "quantization_config", err));
    if (block.at.obj != NULL && copy.at.obj != NULL && !json_equal(block.at.obj, copy.at.obj))
        return config_wrong(top, "quantization_config", "what quantization says", "something else", err);
    if (block.at.obj != NULL) return read_block(&c->quant, &block.at, err);
    if (copy.at.obj != NULL) return read_block(&c->quant, &copy.at, err);
    if (text->obj == top->obj) return WEIR_OK;
    TRY(config_open_section(&block, text, "quantization", err));
    if (block.at.obj == NULL) TRY(config_open_section(&block, text, "quantization_config", err));
    return block.at.obj != NULL ? read_block(&c->quant, &block.at, err) : WEIR_OK;
}

static const config_quant_override *find_override(const config_quant *q, char *path)
{
    if (q->n_overrides == 0) return NULL;
    const config_quant_override key = {.path = path};
    return bsearch(&key, q->overrides, q->n_overrides, sizeof q->overrides[0], by_path);
}

weir_status config_quant_for(const config *c, const char *module, config_quant_form *out, weir_error *err)
{
    static const char *const prefixes[] = {"language_model.model.", "model.language_model.", "language_model.",
                                           "model.", ""};
    enum { N_PREFIXES = sizeof prefixes / sizeof prefixes[0] };
    if (!c->quant.present)
        return status_fail(err, WEIR_FORMAT, "%s.scales: expected a quantization block in config.json, found none",
                           module);
    char path[1200];
    (void)snprintf(path, sizeof path, "%s", module);
    const config_quant_override *o    = find_override(&c->quant, path);
    const char                  *stem = module;
    for (size_t i = 0; i < N_PREFIXES && stem == module; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(module, prefixes[i], n) == 0) stem = module + n;
    }
    for (size_t i = 0; o == NULL && i < N_PREFIXES; i++) {
        (void)snprintf(path, sizeof path, "%s%s", prefixes[i], stem);
        o = find_override(&c->quant, path);
    }
    if (o != NULL && !o->quantised)
        return status_fail(err, WEIR_FORMAT,
                           "config.json: quantization.%s: expected a quantised module (%s.scales exist), found false",
                           o->path, module);
    *out = o != NULL ? o->form : c->quant.form;
    return WEIR_OK;
}
