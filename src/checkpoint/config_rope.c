/* checkpoint/config_rope.c - rotary position parameters.
 *
 * Published files have rope_parameters {rope_type, rope_theta,
 * partial_rotary_factor, mrope_section}; older flat ones have rope_theta and
 * partial_rotary_factor beside the sizes and scaling in rope_scaling.  A file
 * with neither is refused: loaders disagree about the theta to assume. */
#include "base/pmath.h"
#include "checkpoint/config_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static weir_status ranged(const json_at *at, const char *key, bool required, double min, double max, double *out,
                          weir_error *err)
{
    double v = *out;
    TRY(json_get_double(at, key, required, &v, err));
    if (v < min || v > max) {
        char expected[64], found[32];
        (void)snprintf(expected, sizeof expected, "%g..%g", min, max);
        (void)snprintf(found, sizeof found, "%g", v);
        return config_wrong(at, key, expected, found, err);
    }
    *out = v;
    return WEIR_OK;
}

static weir_status read_type(config_rope *r, const json_at *at, weir_error *err)
{
    /* "type" is the older name of the key. */
    const char *key  = json_object_get(at->obj, "rope_type") != NULL ? "rope_type" : "type";
    const char *type = "default";
    TRY(json_get_string(at, key, false, &type, err));
    if (strcmp(type, "default") == 0)
        r->type = CONFIG_ROPE_DEFAULT;
    else if (strcmp(type, "linear") == 0)
        r->type = CONFIG_ROPE_LINEAR;
    else if (strcmp(type, "yarn") == 0)
        r->type = CONFIG_ROPE_YARN;
    else
        return config_unsupported(at, key, "default, linear or yarn", type, err);
    return WEIR_OK;
}

static weir_status read_yarn(config_rope *r, const json_at *at, weir_error *err)
{
    TRY(json_get_u32(at, "original_max_position_embeddings", true, 1, 1u << 30, &r->original_max_position, err));
    r->beta_fast = 32.0;
    r->beta_slow = 1.0;
    TRY(ranged(at, "beta_fast", false, 1e-3, 1e6, &r->beta_fast, err));
    TRY(ranged(at, "beta_slow", false, 1e-3, 1e6, &r->beta_slow, err));
    if (r->beta_slow > r->beta_fast) return config_wrong(at, "beta_slow", "at most beta_fast", "a larger number", err);
    r->attention_factor = 0.1 * pmath_log(r->factor) + 1.0;
    TRY(ranged(at, "attention_factor", false, 1e-3, 1e3, &r->attention_factor, err));

    static const char *const other_forms[] = {"mscale", "mscale_all_dim"};
    for (size_t i = 0; i < sizeof other_forms / sizeof other_forms[0]; i++) {
        const json_t *v = json_object_get(at->obj, other_forms[i]);
        if (v != NULL && !json_is_null(v))
            return config_unsupported(at, other_forms[i], "no such key", json_kind(v), err);
    }
    bool truncate = true;
    TRY(json_get_bool(at, "truncate", false, &truncate, err));
    return truncate ? WEIR_OK : config_unsupported(at, "truncate", "true", "false", err);
}

static weir_status read_scaling(config_rope *r, const json_at *at, weir_error *err)
{
    TRY(read_type(r, at, err));
    r->factor           = 1.0;
    r->attention_factor = 1.0;
    if (r->type == CONFIG_ROPE_DEFAULT) return WEIR_OK;
    TRY(ranged(at, "factor", true, 1.0, 1e4, &r->factor, err));
    return r->type == CONFIG_ROPE_YARN ? read_yarn(r, at, err) : WEIR_OK;
}

static weir_status read_sections(config_rope *r, const json_at *at, weir_error *err)
{
    const json_t *list;
    TRY(json_get_array(at, "mrope_section", false, &list, err));
    if (list == NULL) return WEIR_OK;
    json_int_t sum = 0;
    bool       ok  = json_array_size(list) == 3;
    for (size_t i = 0; ok && i < 3; i++) {
        const json_t *v = json_array_get(list, i);
        ok              = json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= CONFIG_MAX_DIM;
        if (!ok) break;
        r->mrope_section[i] = (uint32_t)json_integer_value(v);
        sum += json_integer_value(v);
    }
    if (!ok || sum != r->rotary_dim / 2) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "3 non-negative integers of sum %u", r->rotary_dim / 2);
        return config_wrong(at, "mrope_section", expected, "another list", err);
    }
    return json_get_bool(at, "mrope_interleaved", false, &r->mrope_interleaved, err);
}

static weir_status read_rotary_dim(config *c, const json_at *at, weir_error *err)
{
    config_rope *r = &c->rope;
    r->rotary_dim  = (uint32_t)floor((double)c->head_dim * r->partial_rotary_factor);
    if (r->rotary_dim >= 2 && r->rotary_dim % 2 == 0) return WEIR_OK;
    char found[64];
    (void)snprintf(found, sizeof found, "%u (head_dim %u times %g)", r->rotary_dim, c->head_dim,
                   r->partial_rotary_factor);
    return config_wrong(at, "partial_rotary_factor", "an even number of rotary dimensions", found, err);
}

weir_status config_read_rope(config *c, const json_at *text, weir_error *err)
{
    config_section parameters, scaling;
    TRY(config_open_section(&parameters, text, "rope_parameters", err));
    TRY(config_open_section(&scaling, text, "rope_scaling", err));
    if (parameters.at.obj != NULL && scaling.at.obj != NULL)
        return config_unsupported(text, "rope_scaling", "nothing beside rope_parameters", "an object", err);

    config_rope *r           = &c->rope;
    r->partial_rotary_factor = 0.25;
    TRY(ranged(text, "partial_rotary_factor", false, 1e-3, 1.0, &r->partial_rotary_factor, err));
    r->theta = 0.0;
    if (parameters.at.obj == NULL) {
        if (json_object_get(text->obj, "rope_theta") == NULL)
            return config_wrong(text, "rope_parameters", "an object (theta differs between loaders)", "nothing", err);
        TRY(ranged(text, "rope_theta", true, 1.5, 1e12, &r->theta, err));
        parameters = scaling; /* where the type is, if anywhere */
    } else {
        const bool own = json_object_get(parameters.at.obj, "rope_theta") != NULL;
        TRY(ranged(own ? &parameters.at : text, "rope_theta", true, 1.5, 1e12, &r->theta, err));
        TRY(ranged(&parameters.at, "partial_rotary_factor", false, 1e-3, 1.0, &r->partial_rotary_factor, err));
    }
    const json_at *at = parameters.at.obj != NULL ? &parameters.at : text;
    TRY(read_rotary_dim(c, at, err));
    if (parameters.at.obj == NULL) {
        r->factor = r->attention_factor = 1.0;
        return WEIR_OK;
    }
    TRY(read_scaling(r, at, err));
    return read_sections(r, at, err);
}
