/* engine/kv_forms.c - see kv_forms.h. */
#include "engine/kv_forms.h"

#include <stdio.h>
#include <string.h>

enum { USUAL_GROUP = 64 };

/* All forms there are; a group of 0 divides everything. */
static const k_kv_form forms[] = {{K_KV_BF16, 0},      {K_KV_F32, 0},      {K_KV_AFFINE8, 32}, {K_KV_AFFINE8, 64},
                                  {K_KV_AFFINE8, 128}, {K_KV_AFFINE4, 32}, {K_KV_AFFINE4, 64}, {K_KV_AFFINE4, 128}};
enum { FORMS = sizeof forms / sizeof *forms, FORM_NAME_MAX = KV_NAME_MAX / 2 };

static bool fits(k_kv_form f, uint32_t head_dim)
{
    return f.group == 0 || head_dim % f.group == 0;
}

/* With the group unless it is `usual`. */
static void form_name(char out[FORM_NAME_MAX], k_kv_form f, uint32_t usual)
{
    static const char *const kinds[] = {
        [K_KV_BF16] = "bf16", [K_KV_F32] = "f32", [K_KV_AFFINE8] = "affine8", [K_KV_AFFINE4] = "affine4"};
    if (f.group == 0 || f.group == usual)
        (void)snprintf(out, FORM_NAME_MAX, "%s", kinds[f.kind]);
    else
        (void)snprintf(out, FORM_NAME_MAX, "%s-%u", kinds[f.kind], f.group);
}

static bool is_named(k_kv_form f, uint32_t usual, const char *name, size_t n)
{
    char known[FORM_NAME_MAX];
    form_name(known, f, usual);
    return strlen(known) == n && memcmp(known, name, n) == 0;
}

/* The form whose name are the n bytes; the usual group may stand there. */
static bool find_form(k_kv_form *out, const char *name, size_t n, uint32_t head_dim)
{
    for (size_t i = 0; i < FORMS; i++) {
        if (!fits(forms[i], head_dim)) continue;
        if (!is_named(forms[i], USUAL_GROUP, name, n) && !is_named(forms[i], 0, name, n)) continue;
        *out = forms[i];
        return true;
    }
    return false;
}

static const k_kv_layer turbo = {{K_KV_TURBO8, K_KV_TURBO_GROUP}, {K_KV_TURBO3, K_KV_TURBO_GROUP}};

static bool turbo_fits(uint32_t head_dim)
{
    return head_dim == 64 || head_dim == 128 || head_dim == 256 || head_dim == 512;
}

static bool find_layer(k_kv_layer *out, const char *name, uint32_t head_dim)
{
    if (strcmp(name, "turbo") == 0) {
        *out = turbo;
        return turbo_fits(head_dim);
    }
    const char  *comma = strchr(name, ',');
    const size_t n     = comma != NULL ? (size_t)(comma - name) : strlen(name);
    if (!find_form(&out->keys, name, n, head_dim)) return false;
    out->values = out->keys;
    return comma == NULL || find_form(&out->values, comma + 1, strlen(comma + 1), head_dim);
}

weir_status kv_forms_named(kv_forms *out, const char *name, uint32_t n, uint32_t head_dim, weir_error *err)
{
    k_kv_layer layer;
    if (find_layer(&layer, name != NULL ? name : "bf16", head_dim)) {
        out->n = n;
        for (uint32_t i = 0; i < n; i++) out->layer[i] = layer;
        return WEIR_OK;
    }
    char   known[FORMS * FORM_NAME_MAX] = "";
    size_t len                          = 0;
    for (size_t i = 0; i < FORMS; i++) {
        char one[FORM_NAME_MAX];
        form_name(one, forms[i], USUAL_GROUP);
        if (fits(forms[i], head_dim))
            len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", len > 0 ? ", " : "", one);
    }
    return status_fail(err, WEIR_INVALID,
                       "kv: expected %sa form, or KEYS,VALUES, of %s with this model's heads of %u, found \"%s\"",
                       turbo_fits(head_dim) ? "turbo, " : "", known, head_dim, name);
}

bool kv_forms_coded(const kv_forms *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->layer[i].keys.group != 0 || f->layer[i].values.group != 0) return true;
    return false;
}

void kv_layer_name(char out[KV_NAME_MAX], k_kv_layer layer)
{
    char keys[FORM_NAME_MAX], values[FORM_NAME_MAX];
    if (layer.keys.kind == K_KV_TURBO8) {
        (void)snprintf(out, KV_NAME_MAX, "turbo");
        return;
    }
    form_name(keys, layer.keys, USUAL_GROUP);
    form_name(values, layer.values, USUAL_GROUP);
    if (strcmp(keys, values) == 0)
        (void)snprintf(out, KV_NAME_MAX, "%s", keys);
    else
        (void)snprintf(out, KV_NAME_MAX, "%s,%s", keys, values);
}

void kv_forms_name(char out[KV_NAME_MAX], const kv_forms *f)
{
    char other[KV_NAME_MAX];
    kv_layer_name(out, f->n > 0 ? f->layer[0] : (k_kv_layer){0});
    for (uint32_t i = 1; i < f->n; i++) {
        kv_layer_name(other, f->layer[i]);
        if (strcmp(out, other) != 0) (void)snprintf(out, KV_NAME_MAX, "mixed");
    }
}
