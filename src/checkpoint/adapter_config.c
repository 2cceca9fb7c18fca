/* checkpoint/adapter_config.c - see adapter_config.h. */
#include "checkpoint/adapter_config.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <string.h>

enum { MAX_FILE = 4 << 20, MAX_DEPTH = 16, MAX_PATTERNS = 4096, MAX_KEY = 512 };
/* Beyond this a scale is a mistake, and products of it no use. */
static const double scale_most = 1e6;

/* ---- what is refused ---- */

/* Whether a member says nothing: absent, null, false, "none" or empty. */
static bool says_nothing(const json_t *v)
{
    if (v == NULL || json_is_null(v) || json_is_false(v)) return true;
    if (json_is_string(v)) return strcmp(json_string_value(v), "none") == 0 || json_string_length(v) == 0;
    return (json_is_array(v) && json_array_size(v) == 0) || (json_is_object(v) && json_object_size(v) == 0);
}

static weir_status refuse(const json_at *at, const char *key, const char *expected, const json_t *v, weir_error *err)
{
    return status_fail(err, WEIR_UNSUPPORTED, "%s: %s: expected %s, found %.60s", at->file, key, expected,
                       json_is_string(v) ? json_string_value(v) : json_kind(v));
}

static weir_status refuse_members(const json_at *at, weir_error *err)
{
    static const char *const unknown[] = {
        "use_dora",
        "bias",
        "lora_bias",
        "fan_in_fan_out",
        "layer_replication",
        "target_parameters",
        "modules_to_save",
        "use_qalora",
        "trainable_token_indices",
        "alora_invocation_tokens",
        "arrow_config",
        "use_bdlora",
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        const json_t *v = json_object_get(at->obj, unknown[i]);
        if (!says_nothing(v)) return refuse(at, unknown[i], "nothing, since it is not implemented", v, err);
    }
    return WEIR_OK;
}

/* ---- PEFT ---- */

static weir_status check_scale(const json_at *at, const char *key, double value, weir_error *err)
{
    if (fabs(value) <= scale_most) return WEIR_OK;
    return status_fail(err, WEIR_FORMAT, "%s: %s: expected a number of at most %g, found %g", at->file, key, scale_most,
                       value);
}

/* A key is a regular expression; names, and dots between them, are what is written. */
static weir_status check_key(const json_at *at, const char *key, weir_error *err)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const size_t      n       = strlen(key);
    if (n > 0 && n <= MAX_KEY && strspn(key, known) == n) return WEIR_OK;
    return status_fail(err, WEIR_UNSUPPORTED, "%s: alpha_pattern: expected names of modules, found \"%.80s\"", at->file,
                       key);
}

static weir_status read_patterns(adapter_config *c, const json_at *at, weir_error *err)
{
    const json_t *list;
    const char   *key;
    json_t       *v;
    TRY(json_get_object(at, "alpha_pattern", false, &list, err));
    if (list == NULL) return WEIR_OK;
    const size_t n = json_object_size(list);
    if (n > MAX_PATTERNS)
        return status_fail(err, WEIR_FORMAT, "%s: alpha_pattern: expected at most %d entries, found %zu", at->file,
                           MAX_PATTERNS, n);
    c->patterns = mem_zalloc(n, sizeof *c->patterns);
    if (c->patterns == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", at->file);
    const json_at in = {at->file, "alpha_pattern", list};
    json_object_foreach((json_t *)(uintptr_t)list, key, v)
    {
        adapter_pattern *p = &c->patterns[c->n_patterns];
        TRY(check_key(at, key, err));
        TRY(json_get_double(&in, key, true, &p->alpha, err));
        TRY(check_scale(&in, key, p->alpha, err));
        p->key = mem_strdup(key);
        if (p->key == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", at->file);
        c->n_patterns++;
    }
    return WEIR_OK;
}

static weir_status read_peft(adapter_config *c, const json_at *at, weir_error *err)
{
    const char *type = "";
    TRY(json_get_string(at, "peft_type", true, &type, err));
    if (strcmp(type, "LORA") != 0) return refuse(at, "peft_type", "LORA", json_object_get(at->obj, "peft_type"), err);
    TRY(json_get_bool(at, "use_rslora", false, &c->rslora, err));
    TRY(json_get_double(at, "lora_alpha", true, &c->alpha, err));
    TRY(check_scale(at, "lora_alpha", c->alpha, err));
    return read_patterns(c, at, err);
}

/* ---- mlx-lm ---- */

static weir_status read_mlx(adapter_config *c, const json_at *at, weir_error *err)
{
    const char   *type = "lora";
    const json_t *parameters;
    c->form  = ADAPTER_MLX;
    c->scale = 20.0; /* where the file does not say */
    TRY(json_get_string(at, "fine_tune_type", false, &type, err));
    if (strcmp(type, "lora") != 0)
        return refuse(at, "fine_tune_type", "lora", json_object_get(at->obj, "fine_tune_type"), err);
    TRY(json_get_object(at, "lora_parameters", false, &parameters, err));
    if (parameters == NULL)
        return status_fail(err, WEIR_FORMAT, "%s: expected peft_type (PEFT) or lora_parameters (mlx-lm), found neither",
                           at->file);
    const json_at in = {at->file, "lora_parameters", parameters};
    TRY(json_get_double(&in, "scale", false, &c->scale, err));
    return check_scale(&in, "lora_parameters.scale", c->scale, err);
}

/* ---- both ---- */

static weir_status read(adapter_config *c, const json_doc *doc, weir_error *err)
{
    const json_at at = {doc->name, "", doc->root};
    if (!json_is_object(doc->root))
        return status_fail(err, WEIR_FORMAT, "%s: expected an object, found %s", doc->name, json_kind(doc->root));
    TRY(refuse_members(&at, err));
    return json_object_get(doc->root, "peft_type") != NULL ? read_peft(c, &at, err) : read_mlx(c, &at, err);
}

static weir_status take(adapter_config *out, json_doc *doc, weir_error *err)
{
    *out                 = (adapter_config){0};
    const weir_status st = read(out, doc, err);
    json_doc_free(doc);
    if (st != WEIR_OK) adapter_config_free(out);
    return st;
}

weir_status adapter_config_load(adapter_config *out, const char *path, weir_error *err)
{
    json_doc doc;
    *out = (adapter_config){0};
    TRY(json_load(&doc, path, MAX_FILE, MAX_DEPTH, err));
    return take(out, &doc, err);
}

weir_status adapter_config_parse(adapter_config *out, const char *name, const char *text, size_t len, weir_error *err)
{
    json_doc doc;
    *out = (adapter_config){0};
    TRY(json_parse(&doc, text, len, name, MAX_DEPTH, err));
    return take(out, &doc, err);
}

void adapter_config_free(adapter_config *c)
{
    for (size_t i = 0; i < c->n_patterns; i++) mem_free(c->patterns[i].key);
    mem_free(c->patterns);
    *c = (adapter_config){0};
}

/* (.*\.)?(key)$ from the path's start. */
static bool fits(const char *key, const char *module)
{
    const size_t n = strlen(key), m = strlen(module);
    if (n > m || (n < m && module[m - n - 1] != '.')) return false;
    for (size_t i = 0; i < n; i++)
        if (key[i] != '.' && key[i] != module[m - n + i]) return false;
    return true;
}

double adapter_config_scale(const adapter_config *c, const char *module, uint32_t rank)
{
    if (c->form == ADAPTER_MLX) return c->scale;
    double alpha = c->alpha;
    for (size_t i = 0; i < c->n_patterns; i++)
        if (fits(c->patterns[i].key, module)) {
            alpha = c->patterns[i].alpha;
            break;
        }
    return c->rslora ? alpha / sqrt(rank) : alpha / rank;
}
