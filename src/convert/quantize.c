/* convert/quantize.c - a checkpoint quantised file by file. */
#include "convert/quantize.h"

#include "base/mem.h"
#include "checkpoint/companions.h"
#include "convert/encode.h"
#include "convert/side_files.h"
#include "convert/target.h"
#include "quant/affine.h"
#include "quant/trellis_encode.h"

#include <string.h>

/* Small enough to lose little when stopped, large enough to be few. */
static const uint64_t default_file_bytes = (uint64_t)2 << 30;

typedef struct conversion {
    const char                  *target;
    const weir_quantize_options *opt;
    checkpoint                  *source;
    json_doc                     config;
    recipe                       recipe;
    plan                         plan;
    encoder                      encoder;
    pool                        *pool;
    uint64_t                     done; /* bytes of the source */
} conversion;

static bool on_bytes(void *user, uint64_t bytes)
{
    conversion *c = user;
    c->done += bytes;
    return c->opt->on_progress == NULL || c->opt->on_progress(c->opt->user, c->done, c->plan.source_bytes);
}

/* ---- before anything is written ---- */

static bool is_trellis(const weir_quantize_options *o)
{
    return o->format != NULL && strcmp(o->format, "trellis") == 0;
}

static weir_status check_options(const char *source, const weir_quantize_options *o, weir_error *err)
{
    if (!affine_is(o->bits, 32))
        return status_fail(err, WEIR_INVALID, "quantize: bits: expected 2, 3, 4, 5, 6 or 8, found %u", o->bits);
    if (!affine_is(4, o->group))
        return status_fail(err, WEIR_INVALID, "quantize: group: expected 32, 64 or 128, found %u", o->group);
    if (!is_trellis(o) && o->format != NULL && strcmp(o->format, "affine") != 0)
        return status_fail(err, WEIR_INVALID, "quantize: format: expected affine or trellis, found %s", o->format);
    if (is_trellis(o) && !trellis_encode_is(o->bits))
        return status_fail(err, WEIR_INVALID, "quantize: bits: expected 2, 3 or 4 with format trellis, found %u",
                           o->bits);
    if (file_is_dir(source)) return WEIR_OK;
    return status_fail(err, WEIR_IO, "%s: expected a folder with a checkpoint, found %s", source,
                       file_exists(source) ? "a file" : "nothing");
}

static weir_status prepare(conversion *c, const char *source, uint64_t file_bytes, weir_error *err)
{
    plan_request r   = {.recipe = &c->recipe, .file_bytes = file_bytes};
    c->recipe.bits   = c->opt->bits;
    c->recipe.group  = c->opt->group;
    c->recipe.format = is_trellis(c->opt) ? RECIPE_TRELLIS : RECIPE_AFFINE;
    if (c->opt->recipe != NULL) TRY(recipe_load(&c->recipe, c->opt->recipe, err));
    TRY(checkpoint_open(&c->source, source, err));
    c->recipe.tied_head = checkpoint_config(c->source)->tie_word_embeddings;
    TRY(side_config_load(&c->config, source, &r.scale_type, err));
    r.source = c->source;
    TRY(plan_open(&c->plan, &r, err));
    TRY(pool_new(&c->pool, c->opt->threads, err));
    TRY(encoder_new(&c->encoder, &c->plan, c->pool, err));
    c->encoder.progress = on_bytes;
    c->encoder.user     = c;
    return WEIR_OK;
}

static void tell_tensors(const conversion *c)
{
    for (size_t k = 0; c->opt->on_tensor != NULL && k < c->plan.n; k++) {
        const plan_item     *i     = &c->plan.items[k];
        weir_quantize_tensor t     = {.name = i->name, .parameters = i->mats * i->rows * i->cols};
        const bool           coded = i->kind == PLAN_AFFINE || i->kind == PLAN_TRELLIS;
        t.bits                     = coded ? i->bits : 0;
        t.group                    = coded ? i->group : 0;
        t.format                   = i->kind == PLAN_TRELLIS ? "trellis" : coded ? "affine" : NULL;
        t.dtype = dtype_table[coded ? i->scale_type : i->kind == PLAN_GAIN ? DTYPE_F32 : i->type].name;
        c->opt->on_tensor(c->opt->user, &t);
    }
}

/* ---- the files ---- */

static weir_status write_items(conversion *c, const plan_file *f, safetensors_writer *w, weir_error *err)
{
    for (size_t k = f->begin; k < f->end; k++) {
        const plan_item *i = &c->plan.items[k];
        TRY(encoder_put(&c->encoder, i, f->specs + i->spec, w, err));
    }
    return WEIR_OK;
}

static weir_status write_file(conversion *c, const plan_file *f, const char *path, weir_error *err)
{
    safetensors_writer w;
    TRY(safetensors_create(&w, path, &f->header, err));
    const weir_status st = write_items(c, f, &w, err);
    if (st == WEIR_OK) return safetensors_commit(&w, &f->header, err);
    safetensors_abandon(&w);
    return st;
}

static weir_status write_files(conversion *c, weir_quantize_result *out, weir_error *err)
{
    for (size_t k = 0; k < c->plan.n_files; k++) {
        const plan_file *f    = &c->plan.files[k];
        char            *path = path_join(c->target, f->name);
        if (path == NULL) return status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", c->target);
        weir_status st = WEIR_OK;
        if (!safetensors_is_written(path, &f->header)) {
            st = write_file(c, f, path, err);
        } else {
            out->files_kept++;
            uint64_t bytes = 0;
            for (size_t i = f->begin; i < f->end; i++) bytes += plan_item_bytes(&c->plan.items[i]);
            if (!on_bytes(c, bytes)) st = status_fail(err, WEIR_CANCELLED, "quantize: stopped");
        }
        mem_free(path);
        TRY(st);
        out->files++;
        out->tensors += f->n_specs;
    }
    return WEIR_OK;
}

/* The config comes last: without it the folder is no checkpoint. */
static weir_status write_sides(const conversion *c, const char *source, weir_error *err)
{
    char *index = path_join(c->target, "model.safetensors.index.json"), *json = path_join(c->target, "config.json");
    weir_status st = WEIR_OK;
    if (index == NULL || json == NULL) st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", c->target);
    if (st == WEIR_OK) st = side_index_write(&c->plan, index, err);
    if (st == WEIR_OK) st = companions_copy(source, c->target, err);
    if (st == WEIR_OK) st = side_config_write(&c->config, &c->plan, &c->recipe, json, err);
    mem_free(index);
    mem_free(json);
    return st;
}

/* Reads the result's headers as any reader would, as far as this one knows the format. */
static weir_status check_result(const conversion *c, weir_error *err)
{
    checkpoint *written = NULL;
    TRY(checkpoint_open(&written, c->target, err));
    checkpoint_close(written);
    return target_end(c->target, err);
}

weir_status quantize(const char *source, const char *target, const weir_quantize_options *opt, uint64_t file_bytes,
                     weir_quantize_result *out, weir_error *err)
{
    const weir_quantize_options defaults = WEIR_QUANTIZE_OPTIONS_INIT;
    conversion                  c        = {.target = target, .opt = opt != NULL ? opt : &defaults};
    *out                                 = (weir_quantize_result){0};
    TRY(check_options(source, c.opt, err));
    weir_status st = prepare(&c, source, file_bytes, err);
    if (st == WEIR_OK) st = target_begin(target, &c.plan.text, err);
    if (st == WEIR_OK) tell_tensors(&c);
    if (st == WEIR_OK) st = write_files(&c, out, err);
    if (st == WEIR_OK) st = write_sides(&c, source, err);
    if (st == WEIR_OK) st = check_result(&c, err);
    out->parameters = c.plan.parameters;
    out->bytes      = c.plan.bytes;
    encoder_free(&c.encoder);
    pool_free(c.pool);
    plan_close(&c.plan);
    recipe_free(&c.recipe);
    json_doc_free(&c.config);
    checkpoint_close(c.source);
    return st;
}

weir_status weir_quantize(const char *source, const char *target, const weir_quantize_options *opt,
                          weir_quantize_result *out, weir_error *err)
{
    if (source == NULL || target == NULL || out == NULL)
        return status_fail(err, WEIR_INVALID, "quantize: expected a source, a target and a result, found NULL");
    if (opt != NULL && opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "quantize: options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    return quantize(source, target, opt, default_file_bytes, out, err);
}
