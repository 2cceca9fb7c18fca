/* convert/recipe.c - reading recipes, and the default. */
#include "convert/recipe.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "quant/affine.h"
#include "quant/trellis_encode.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 4, SENSITIVE_BITS = 6 };

static bool fits(const char *pattern, const char *name)
{
    /* Where the last * stands, and how much of the name it has taken. */
    const char *star = NULL, *taken = NULL;
    while (*name != '\0') {
        if (*pattern == '*') {
            star  = pattern++;
            taken = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name    = ++taken;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

static weir_status wrong(const json_at *at, const char *key, const char *expected, const char *found, weir_error *err)
{
    return status_fail(err, WEIR_FORMAT, "%s: %s.%s: expected %s, found %s", at->file, at->where, key, expected, found);
}

static weir_status check_keys(const json_at *at, weir_error *err)
{
    const char *key;
    json_t     *v;
    json_object_foreach((json_t *)(uintptr_t)at->obj, key, v)
    {
        if (strcmp(key, "pattern") != 0 && strcmp(key, "bits") != 0 && strcmp(key, "group") != 0 &&
            strcmp(key, "format") != 0)
            return wrong(at, key, "only pattern, bits, group and format", "this key", err);
    }
    return WEIR_OK;
}

static weir_status read_format(recipe_rule *out, const json_at *at, weir_error *err)
{
    const char *name = "affine";
    char        found[64];
    TRY(json_get_string(at, "format", false, &name, err));
    if (strcmp(name, "affine") == 0) return WEIR_OK;
    if (strcmp(name, "trellis") != 0) return wrong(at, "format", "affine or trellis", name, err);
    out->format = RECIPE_TRELLIS;
    (void)snprintf(found, sizeof found, "%u", out->bits);
    return trellis_encode_is(out->bits) ? WEIR_OK : wrong(at, "bits", "2, 3 or 4 with format trellis", found, err);
}

static weir_status read_rule(recipe_rule *out, uint32_t group, const json_at *at, weir_error *err)
{
    const char *pattern = NULL;
    char        found[64];
    TRY(check_keys(at, err));
    TRY(json_get_string(at, "pattern", true, &pattern, err));
    if (pattern[0] == '\0' || strlen(pattern) > RECIPE_MAX_PATTERN)
        return wrong(at, "pattern", "1 to 1000 bytes", pattern[0] == '\0' ? "none" : "more", err);
    TRY(json_get_u32(at, "bits", true, 0, UINT32_MAX, &out->bits, err));
    out->group = group;
    TRY(json_get_u32(at, "group", false, 0, UINT32_MAX, &out->group, err));
    (void)snprintf(found, sizeof found, "%u", out->bits);
    if (out->bits != RECIPE_KEEP && !affine_is(out->bits, 32))
        return wrong(at, "bits", "2, 3, 4, 5, 6, 8, or 16 (as it is)", found, err);
    (void)snprintf(found, sizeof found, "%u", out->group);
    if (!affine_is(4, out->group)) return wrong(at, "group", "32, 64 or 128", found, err);
    TRY(read_format(out, at, err));
    out->pattern = mem_strdup(pattern);
    return out->pattern != NULL ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", at->file);
}

static weir_status read_rules(recipe *r, const json_t *list, weir_error *err)
{
    if (!json_is_array(list))
        return status_fail(err, WEIR_FORMAT, "%s: expected a list of rules, found %s", r->file, json_kind(list));
    r->rules = mem_zalloc(json_array_size(list), sizeof *r->rules);
    if (r->rules == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", r->file);
    size_t  i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        char where[32];
        (void)snprintf(where, sizeof where, "[%zu]", i);
        const json_at at = {.file = r->file, .where = where, .obj = v};
        if (!json_is_object(v))
            return status_fail(err, WEIR_FORMAT, "%s: %s: expected an object, found %s", r->file, where, json_kind(v));
        TRY(read_rule(&r->rules[i], r->group, &at, err));
        r->n++;
    }
    return WEIR_OK;
}

weir_status recipe_parse(recipe *r, const char *text, size_t len, const char *name, weir_error *err)
{
    json_doc doc;
    TRY(json_parse(&doc, text, len, name, MAX_DEPTH, err));
    r->file = mem_strdup(name);
    const weir_status st =
        r->file != NULL ? read_rules(r, doc.root, err) : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", name);
    json_doc_free(&doc);
    return st;
}

weir_status recipe_load(recipe *r, const char *path, weir_error *err)
{
    char  *text;
    size_t len;
    TRY(file_read(&text, &len, path, RECIPE_MAX_FILE, err));
    const weir_status st = recipe_parse(r, text, len, path, err);
    mem_free(text);
    return st;
}

void recipe_free(recipe *r)
{
    for (size_t i = 0; i < r->n; i++) mem_free(r->rules[i].pattern);
    mem_free(r->rules);
    mem_free(r->file);
    *r = (recipe){0};
}

/* Errors of the decay and of the write strength multiply along the sequence,
 * and a wrong expert is another network: these small matrices stay. */
static const char *const kept[] = {"*.linear_attn.in_proj_a", "*.linear_attn.in_proj_b", "*.mlp.gate",
                                   "*.mlp.shared_expert_gate"};
/* What writes into the stream from the mixers, and what attention reads by. */
static const char *const sensitive[] = {"*.self_attn.*_proj", "*.linear_attn.out_proj", "lm_head", "mtp.fc"};

/* What the trellis format is for. */
static const char *const dense_mlp[] = {"layers.*.mlp.gate_proj", "layers.*.mlp.up_proj", "layers.*.mlp.down_proj"};

bool recipe_is_dense_mlp(const char *module)
{
    for (size_t i = 0; i < sizeof dense_mlp / sizeof *dense_mlp; i++)
        if (fits(dense_mlp[i], module)) return true;
    return false;
}

static uint32_t default_bits(const recipe *r, const char *module)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (fits(kept[i], module)) return RECIPE_KEEP;
    bool more = r->tied_head && strcmp(module, "embed_tokens") == 0;
    for (size_t i = 0; i < sizeof sensitive / sizeof *sensitive; i++) more = more || fits(sensitive[i], module);
    return more && r->bits < SENSITIVE_BITS ? SENSITIVE_BITS : r->bits;
}

recipe_choice recipe_as_affine(recipe_choice c, uint64_t cols)
{
    c.format = RECIPE_AFFINE;
    while (c.group > 32 && cols % c.group != 0) c.group /= 2;
    if (cols == 0 || cols % c.group != 0) c.bits = RECIPE_KEEP;
    return c;
}

static recipe_rule *find_rule(const recipe *r, const char *module)
{
    for (size_t i = 0; i < r->n; i++)
        if (fits(r->rules[i].pattern, module)) return &r->rules[i];
    return NULL;
}

bool recipe_names(const recipe *r, const char *module)
{
    return find_rule(r, module) != NULL;
}

recipe_choice recipe_choose(recipe *r, const char *module, uint64_t cols)
{
    recipe_choice c    = {.bits = r->bits, .group = r->group};
    recipe_rule  *rule = find_rule(r, module);
    if (rule != NULL) {
        rule->used = true;
        c          = (recipe_choice){rule->bits, rule->group, rule->format, true};
    } else {
        c.bits   = default_bits(r, module);
        c.format = recipe_is_dense_mlp(module) ? r->format : RECIPE_AFFINE;
    }
    return c.format == RECIPE_AFFINE ? recipe_as_affine(c, cols) : c;
}

weir_status recipe_all_used(const recipe *r, weir_error *err)
{
    for (size_t i = 0; i < r->n; i++)
        if (!r->rules[i].used)
            return status_fail(err, WEIR_FORMAT,
                               "%s: [%zu].pattern: expected a module that this rule is the first to fit, found none "
                               "for \"%.200s\"",
                               r->file, i, r->rules[i].pattern);
    return WEIR_OK;
}
