/* convert/mixed.c - weir_quantize_allocate: a width for each module, by what each does to the model.
 *
 * The damage of a small error is near to quadratic in it.  So one measurement of a module, at
 * one width, tells its factor between squared error of the weights and damage, and the
 * errors of the other widths, which need no model, tell the rest. */
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "checkpoint/checkpoint.h"
#include "convert/allocate.h"
#include "convert/plan.h"
#include "convert/side_files.h"
#include "quant/affine.h"
#include "weir/convert.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { WIDTHS = ALLOCATE_CHOICES, MEASURED_BITS = 3, LEAST_BITS = 2, MTP_BITS = 4, MAX_BITS = 8 };
static const uint32_t widths[WIDTHS] = {2, 3, 4, 5, 6, 8};

typedef struct mixing {
    const weir_allocate_options *opt;
    checkpoint                  *source;
    json_doc                     config;
    recipe                       recipe;
    plan                         plan; /* at LEAST_BITS */
    pool                        *pool;
    float                       *rows;    /* a row and its decoded form, of each thread */
    uint8_t                     *scratch; /* codes, scales, biases of a row, of each thread */
    uint64_t                     cols;    /* of the widest module */
    size_t                       n;       /* modules to choose for */
    size_t                      *items;   /* [n] which of the plan's, */
    allocate_module             *modules; /* [n] and their choices */
} mixing;

static weir_status out_of_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
}

/* The width of choice j: the choices are those from some floor up. */
static uint32_t width_of(const allocate_module *m, size_t j)
{
    return widths[WIDTHS - m->n + j];
}

/* ---- errors of the widths ---- */

/* One module at one width. */
typedef struct coding {
    const mixing    *x;
    const plan_item *i;
    uint32_t         bits;
    uint8_t         *codes, *scales, *biases; /* of the whole module; NULL: only the errors are wanted */
    double          *errors;                  /* [mats * rows] squares, summed over a row */
    atomic_bool      odd;
} coding;

static uint64_t code_row(const plan_item *i, uint32_t bits)
{
    return i->cols / 8 * bits;
}

static uint64_t scale_row(const plan_item *i)
{
    return i->cols / i->group * dtype_table[i->scale_type].bytes;
}

/* Of a thread: a row's codes of 8 bits, its scales and its biases, of 4 bytes per 32 columns at most. */
static uint64_t scratch_bytes(uint64_t cols)
{
    return cols + 2 * (cols / 32 * sizeof(float));
}

static affine_target target_of(const coding *c, uint64_t row, uint32_t thread)
{
    affine_target t = {.bits = c->bits, .group = c->i->group, .scale_type = c->i->scale_type};
    if (c->codes != NULL) {
        t.codes  = c->codes + row * code_row(c->i, c->bits);
        t.scales = c->scales + row * scale_row(c->i);
        t.biases = c->biases + row * scale_row(c->i);
    } else {
        t.codes  = c->x->scratch + thread * scratch_bytes(c->x->cols);
        t.scales = t.codes + code_row(c->i, MAX_BITS);
        t.biases = t.scales + scale_row(c->i);
    }
    return t;
}

static void code_rows(void *arg, uint32_t thread, uint32_t n_threads)
{
    coding          *c = arg;
    const plan_item *i = c->i;
    float           *w = c->x->rows + 2 * thread * c->x->cols, *q = w + i->cols;
    size_t           begin, end;
    pool_cut(i->mats * i->rows, 1, thread, n_threads, &begin, &end);
    for (size_t row = begin; row < end; row++) {
        const affine_target t = target_of(c, row, thread);
        dense_decode(w, i->mat[row / i->rows] + row % i->rows * i->cols * dtype_table[i->type].bytes, i->type, i->cols);
        if (i->scale_type != i->type)
            for (uint64_t j = 0; j < i->cols; j++) w[j] = dense_round(i->scale_type, w[j]);
        if (!affine_encode(&t, w, i->cols)) {
            atomic_store(&c->odd, true);
            continue;
        }
        affine_decode(q, &(affine_row){t.bits, t.group, t.codes, t.scales, t.biases, t.scale_type}, i->cols);
        double sum = 0.0;
        for (uint64_t j = 0; j < i->cols; j++) sum += ((double)w[j] - (double)q[j]) * ((double)w[j] - (double)q[j]);
        c->errors[row] = sum;
    }
}

/* *error = the module's squared error at c->bits; rows are added in order, whatever thread had them. */
static weir_status code_module(coding *c, double *error, weir_error *err)
{
    *error = 0.0;
    pool_run(c->x->pool, code_rows, c);
    if (atomic_load(&c->odd))
        return status_fail(err, WEIR_FORMAT, "%s: expected finite numbers of a moderate size, found others",
                           c->i->source);
    for (uint64_t row = 0; row < c->i->mats * c->i->rows; row++) *error += c->errors[row];
    return WEIR_OK;
}

/* ---- damages ---- */

/* Codes the module at MEASURED_BITS and asks what that does. */
static weir_status measure(coding *c, double *error, double *damage, weir_error *err)
{
    const plan_item *i    = c->i;
    const uint64_t   rows = i->mats * i->rows;
    c->bits               = MEASURED_BITS;
    c->codes              = mem_alloc(rows, code_row(i, c->bits));
    c->scales             = mem_alloc(rows, scale_row(i));
    c->biases             = mem_alloc(rows, scale_row(i));
    weir_status st =
        c->codes != NULL && c->scales != NULL && c->biases != NULL ? code_module(c, error, err) : out_of_memory(err);
    if (st == WEIR_OK) {
        const weir_quantized_module m = {.name        = i->module,
                                         .bits        = c->bits,
                                         .group       = i->group,
                                         .mats        = (uint32_t)i->mats,
                                         .rows        = (uint32_t)i->rows,
                                         .cols        = (uint32_t)i->cols,
                                         .scale_dtype = dtype_table[i->scale_type].name,
                                         .codes       = c->codes,
                                         .scales      = c->scales,
                                         .biases      = c->biases};
        st                            = c->x->opt->damage(c->x->opt->user, &m, damage, err);
    }
    mem_free(c->codes);
    mem_free(c->scales);
    mem_free(c->biases);
    c->codes = c->scales = c->biases = NULL;
    if (st == WEIR_OK && !(*damage >= 0.0 && isfinite(*damage)))
        st = status_fail(err, WEIR_NUMERICS, "quantize: %s: expected a finite damage, found %g", i->module, *damage);
    return st;
}

/* Fills the damages of choice after choice of module k. */
static weir_status weigh(mixing *x, size_t k, weir_error *err)
{
    const plan_item *i        = &x->plan.items[x->items[k]];
    allocate_module *m        = &x->modules[k];
    coding           c        = {.x = x, .i = i, .errors = mem_alloc(i->mats * i->rows, sizeof(double))};
    double           measured = 0.0, damage = 0.0, error = 0.0;
    if (c.errors == NULL) return out_of_memory(err);
    weir_status st = measure(&c, &measured, &damage, err);
    for (size_t j = 0; j < m->n && st == WEIR_OK; j++) {
        c.bits = width_of(m, j);
        st     = code_module(&c, &error, err);
        if (st == WEIR_OK) m->choices[j].damage = measured > 0.0 ? damage * (error / measured) : 0.0;
    }
    mem_free(c.errors);
    return st;
}

static weir_status weigh_all(mixing *x, weir_error *err)
{
    for (size_t k = 0; k < x->n; k++) {
        TRY(weigh(x, k, err));
        if (x->opt->on_progress != NULL && !x->opt->on_progress(x->opt->user, (uint32_t)k + 1, (uint32_t)x->n))
            return status_fail(err, WEIR_CANCELLED, "quantize: stopped");
    }
    return WEIR_OK;
}

/* ---- what there is to choose ---- */

/* The widths from the fewest bits up that a rule gives the module.  The 6 bits of the default are a
 * guess at what is measured here. */
static void add_module(mixing *x, size_t item)
{
    plan_item        i     = x->plan.items[item];
    allocate_module *m     = &x->modules[x->n];
    const uint32_t   floor = recipe_names(&x->recipe, i.module) ? i.bits : LEAST_BITS;
    x->items[x->n++]       = item;
    for (size_t j = 0; j < WIDTHS; j++) {
        if (widths[j] < floor) continue;
        i.bits                   = widths[j];
        m->choices[m->n++].bytes = plan_output_bytes(&i);
    }
}

static weir_status list_modules(mixing *x, weir_error *err)
{
    x->items   = mem_alloc(x->plan.n, sizeof *x->items);
    x->modules = mem_zalloc(x->plan.n, sizeof *x->modules);
    if (x->items == NULL || x->modules == NULL) return out_of_memory(err);
    x->recipe.bits = MTP_BITS;
    for (size_t k = 0; k < x->plan.n; k++) {
        plan_item *i = &x->plan.items[k];
        if (i->kind != PLAN_AFFINE) continue;
        if (i->mats > UINT32_MAX || i->rows > UINT32_MAX || i->cols > UINT32_MAX)
            return status_fail(err, WEIR_UNSUPPORTED, "%s: expected sizes below 2^32", i->source);
        if (strncmp(i->module, "mtp.", 4) == 0)
            i->bits = recipe_choose(&x->recipe, i->module, i->cols).bits;
        else
            add_module(x, k);
        if (i->cols > x->cols) x->cols = i->cols;
    }
    return WEIR_OK;
}

/* *budget = bytes for the modules that are chosen for, *fixed = those of all else. */
static weir_status find_budget(const mixing *x, uint64_t *fixed, uint64_t *budget, weir_error *err)
{
    uint64_t least = 0, most = 0;
    *fixed = 0;
    for (size_t k = 0; k < x->plan.n; k++) *fixed += plan_output_bytes(&x->plan.items[k]);
    for (size_t k = 0; k < x->n; k++) {
        const allocate_module *m = &x->modules[k];
        *fixed -= plan_output_bytes(&x->plan.items[x->items[k]]);
        least += m->choices[0].bytes;
        most += m->choices[m->n - 1].bytes;
    }
    const double bits = 8.0 / (double)x->plan.parameters, low = (double)(*fixed + least) * bits,
                 high = (double)(*fixed + most) * bits, wanted = x->opt->bits_per_weight;
    if (!(wanted >= low && wanted <= high))
        return status_fail(err, WEIR_INVALID,
                           "quantize: bits per weight: expected %.3f to %.3f for this model and recipe, found %g",
                           ceil(low * 1e3) * 1e-3, floor(high * 1e3) * 1e-3, wanted);
    const uint64_t bytes = (uint64_t)(wanted / bits);
    *budget              = bytes > *fixed ? bytes - *fixed : 0;
    return WEIR_OK;
}

/* ---- the recipe ---- */

/* A rule for every module, so that no default is left to change. */
static weir_status write_recipe(const plan *p, const char *path, weir_error *err)
{
    str text;
    str_init(&text, RECIPE_MAX_FILE);
    const char *before = "[";
    for (size_t k = 0; k < p->n; k++) {
        const plan_item *i = &p->items[k];
        if (i->module == NULL) continue;
        str_printf(&text, "%s{\"pattern\": \"%s\", \"bits\": %u", before, i->module, i->bits);
        if (i->bits != RECIPE_KEEP) str_printf(&text, ", \"group\": %u", i->group);
        str_putc(&text, '}');
        before = ",\n ";
    }
    str_puts(&text, "]\n");
    weir_status st = str_status(&text, path, err);
    if (st == WEIR_OK) st = side_write(path, text.data, text.len, err);
    str_free(&text);
    return st;
}

static weir_status check_options(const char *source, const weir_allocate_options *o, weir_error *err)
{
    if (!affine_is(MEASURED_BITS, o->group))
        return status_fail(err, WEIR_INVALID, "quantize: group: expected 32, 64 or 128, found %u", o->group);
    if (o->damage == NULL) return status_fail(err, WEIR_INVALID, "quantize: damage: expected a function, found NULL");
    if (file_is_dir(source)) return WEIR_OK;
    return status_fail(err, WEIR_IO, "%s: expected a folder with a checkpoint, found %s", source,
                       file_exists(source) ? "a file" : "nothing");
}

static weir_status prepare(mixing *x, const char *source, weir_error *err)
{
    plan_request r  = {.recipe = &x->recipe, .file_bytes = UINT64_MAX};
    x->recipe.bits  = LEAST_BITS;
    x->recipe.group = x->opt->group;
    if (x->opt->recipe != NULL) TRY(recipe_load(&x->recipe, x->opt->recipe, err));
    TRY(checkpoint_open(&x->source, source, err));
    x->recipe.tied_head = checkpoint_config(x->source)->tie_word_embeddings;
    TRY(side_config_load(&x->config, source, &r.scale_type, err));
    r.source = x->source;
    TRY(plan_open(&x->plan, &r, err));
    TRY(pool_new(&x->pool, x->opt->threads, err));
    TRY(list_modules(x, err));
    x->rows    = mem_alloc(pool_threads(x->pool), 2 * x->cols * sizeof *x->rows);
    x->scratch = mem_alloc(pool_threads(x->pool), scratch_bytes(x->cols));
    return x->rows != NULL && x->scratch != NULL ? WEIR_OK : out_of_memory(err);
}

static weir_status mix(mixing *x, const char *source, const char *recipe_file, weir_allocate_result *out,
                       weir_error *err)
{
    uint64_t fixed = 0, budget = 0;
    TRY(prepare(x, source, err));
    TRY(find_budget(x, &fixed, &budget, err));
    TRY(weigh_all(x, err));
    out->modules         = (uint32_t)x->n;
    out->bytes           = fixed + allocate(x->modules, x->n, budget);
    out->bits_per_weight = 8.0 * (double)out->bytes / (double)x->plan.parameters;
    for (size_t k = 0; k < x->n; k++) {
        const allocate_module *m        = &x->modules[k];
        x->plan.items[x->items[k]].bits = width_of(m, m->chosen);
        out->damage += m->choices[m->chosen].damage;
    }
    return write_recipe(&x->plan, recipe_file, err);
}

weir_status weir_quantize_allocate(const char *source, const char *recipe_file, const weir_allocate_options *opt,
                                   weir_allocate_result *out, weir_error *err)
{
    if (source == NULL || recipe_file == NULL || opt == NULL || out == NULL)
        return status_fail(err, WEIR_INVALID,
                           "quantize: expected a source, a recipe, options and a result, found NULL");
    if (opt->size != sizeof *opt)
        return status_fail(err, WEIR_INVALID, "quantize: options.size: expected %zu, found %zu", sizeof *opt,
                           opt->size);
    *out     = (weir_allocate_result){0};
    mixing x = {.opt = opt};
    TRY(check_options(source, opt, err));
    const weir_status st = mix(&x, source, recipe_file, out, err);
    mem_free(x.items);
    mem_free(x.modules);
    mem_free(x.rows);
    mem_free(x.scratch);
    pool_free(x.pool);
    plan_close(&x.plan);
    recipe_free(&x.recipe);
    json_doc_free(&x.config);
    checkpoint_close(x.source);
    return st;
}
