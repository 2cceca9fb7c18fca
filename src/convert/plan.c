/* convert/plan.c - what becomes of each tensor; plan_files.c puts them into files. */
#include "convert/plan.h"

#include "base/mem.h"
#include "convert/plan_parts.h"
#include "quant/dense.h"
#include "quant/trellis_encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 1200 };

typedef struct planner {
    plan               *p;
    const plan_request *r;
    bool               *taken; /* [checkpoint_count] */
    bool                add_one;
} planner;

static bool ends_in(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static weir_status out_of_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "quantize: out of memory");
}

uint64_t plan_item_bytes(const plan_item *i)
{
    return i->mats * i->rows * i->cols * dtype_table[i->type].bytes;
}

/* ---- adding items ---- */

/* A new item that has `t`'s type and `mats` empty matrices; NULL without memory. */
static plan_item *add(planner *b, const checkpoint_tensor *t, uint64_t mats, const char *name)
{
    plan *p = b->p;
    if (p->n == p->cap) {
        const size_t cap   = p->cap == 0 ? 256 : 2 * p->cap;
        plan_item   *items = mem_realloc(p->items, cap, sizeof *items);
        if (items == NULL) return NULL;
        p->items = items;
        p->cap   = cap;
    }
    plan_item *i = &p->items[p->n++];
    *i           = (plan_item){.kind = PLAN_COPY, .source = t->raw_name, .type = t->type, .mats = mats};
    i->name      = mem_strdup(name);
    i->mat       = mem_zalloc(mats, sizeof *i->mat);
    return i->name != NULL && i->mat != NULL ? i : NULL;
}

/* The name in the output of what is called `name` in its part. */
static const char *full_name(char *buf, checkpoint_part part, const char *name)
{
    static const char *const prefixes[] = {[CHECKPOINT_TRUNK]  = "language_model.model.",
                                           [CHECKPOINT_HEAD]   = "language_model.",
                                           [CHECKPOINT_MTP]    = "mtp.",
                                           [CHECKPOINT_VISION] = ""};
    (void)snprintf(buf, NAME_MAX_LEN, "%s%s", prefixes[part], name);
    return buf;
}

static weir_status add_whole(planner *b, const checkpoint_tensor *t, plan_kind kind, weir_error *err)
{
    char buf[NAME_MAX_LEN];
    if (t->type == DTYPE_COUNT)
        return status_fail(err, WEIR_UNSUPPORTED, "%s: %s: dtype: expected a known type, found %s", t->file,
                           t->raw_name, t->type_name);
    const char *name = t->part == CHECKPOINT_VISION ? t->raw_name : t->name;
    plan_item  *i    = add(b, t, 1, full_name(buf, t->part, name));
    if (i == NULL) return out_of_memory(err);
    i->kind = kind;
    i->rows = 1;
    i->cols = t->bytes / dtype_table[t->type].bytes;
    i->rank = t->rank;
    memcpy(i->shape, t->shape, sizeof i->shape);
    i->mat[0] = t->data;
    if (t->part == CHECKPOINT_TRUNK && ends_in(t->name, ".linear_attn.conv1d.weight")) {
        i->shape[1] = i->cols / i->shape[0]; /* [C,1,K] and [C,K,1] have the same order; the shape was checked */
        i->shape[2] = 1;
    }
    return WEIR_OK;
}

/* ---- modules ---- */

/* Makes the module a trellis one, coded along the residual stream.  Without a
 * rule that says so, one whose size is not whole blocks becomes affine. */
static weir_status choose_trellis(plan_item *i, recipe_choice *c, const checkpoint_tensor *t, weir_error *err)
{
    const bool known    = recipe_is_dense_mlp(i->module);
    i->axis             = ends_in(i->module, ".down_proj") ? 0 : 1;
    const uint64_t cols = plan_coded_cols(i);
    if (known && i->mats == 1 && cols > 0 && cols % TRELLIS_BLOCK == 0) {
        i->kind       = PLAN_TRELLIS;
        i->group      = TRELLIS_BLOCK;
        i->scale_type = DTYPE_F16;
        return WEIR_OK;
    }
    if (!c->named) {
        *c = recipe_as_affine(*c, i->cols);
        return WEIR_OK;
    }
    if (!known)
        return status_fail(err, WEIR_INVALID,
                           "%s: %s: format trellis: expected a dense layer's mlp.gate_proj, mlp.up_proj or "
                           "mlp.down_proj, found %s",
                           t->file, t->raw_name, i->module);
    return status_fail(err, WEIR_INVALID, "%s: %s: format trellis: expected a multiple of %d %s, found %" PRIu64,
                       t->file, t->raw_name, TRELLIS_BLOCK, i->axis == 1 ? "columns" : "rows", cols);
}

/* `mats` matrices of `rows` rows as the module `name`; the caller fills in where they are. */
static weir_status add_module(planner *b, const checkpoint_tensor *t, const char *name, uint64_t mats, uint64_t rows,
                              uint64_t cols, plan_item **out, weir_error *err)
{
    char buf[NAME_MAX_LEN], module[NAME_MAX_LEN];
    (void)snprintf(module, sizeof module, "%s%s", t->part == CHECKPOINT_MTP ? "mtp." : "", name);
    if (!dense_is(t->type))
        return status_fail(err, WEIR_UNSUPPORTED, "%s: %s: dtype: expected F32, F16 or BF16, found %s", t->file,
                           t->raw_name, t->type_name);
    recipe_choice c = recipe_choose(b->r->recipe, module, cols);
    plan_item    *i = *out = add(b, t, mats, full_name(buf, t->part, name));
    if (i == NULL || (i->module = mem_strdup(module)) == NULL) return out_of_memory(err);
    i->rows       = rows;
    i->cols       = cols;
    i->rank       = t->rank;
    i->scale_type = b->r->scale_type != DTYPE_COUNT ? b->r->scale_type : t->type;
    if (c.format == RECIPE_TRELLIS) TRY(choose_trellis(i, &c, t, err));
    i->bits = c.bits;
    if (i->kind == PLAN_TRELLIS) return WEIR_OK;
    i->group = c.group;
    if (c.bits != RECIPE_KEEP) {
        i->kind = PLAN_AFFINE;
        return WEIR_OK;
    }
    mem_free(i->name);
    i->name = mem_alloc(strlen(buf) + sizeof ".weight", 1);
    if (i->name == NULL) return out_of_memory(err);
    (void)snprintf(i->name, strlen(buf) + sizeof ".weight", "%s.weight", buf);
    return WEIR_OK;
}

static weir_status add_matrix(planner *b, const checkpoint_tensor *t, weir_error *err)
{
    char       name[NAME_MAX_LEN];
    plan_item *i;
    (void)snprintf(name, sizeof name, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
    TRY(add_module(b, t, name, 1, t->shape[0], t->shape[1], &i, err));
    memcpy(i->shape, t->shape, sizeof i->shape);
    i->mat[0] = t->data;
    return WEIR_OK;
}

/* Rows row0 .. row0 + rows - 1 of every matrix of the stack `t` as `stem` + `tail`. */
static weir_status add_stack(planner *b, const checkpoint_tensor *t, const char *stem, const char *tail, uint64_t row0,
                             uint64_t rows, weir_error *err)
{
    char       name[NAME_MAX_LEN];
    plan_item *i;
    (void)snprintf(name, sizeof name, "%s%s", stem, tail);
    TRY(add_module(b, t, name, t->shape[0], rows, t->shape[2], &i, err));
    const uint64_t row = t->shape[2] * dtype_table[t->type].bytes;
    i->rank            = 3;
    i->shape[0]        = t->shape[0];
    i->shape[1]        = rows;
    i->shape[2]        = t->shape[2];
    for (uint64_t m = 0; m < i->mats; m++) i->mat[m] = t->data + (m * t->shape[1] + row0) * row;
    return WEIR_OK;
}

/* experts.0.up_proj.weight, experts.1.up_proj.weight ... as the stack switch_mlp.up_proj. */
static weir_status add_experts(planner *b, const checkpoint_tensor *first, const char *experts, weir_error *err)
{
    static const char zero[] = ".experts.0.";
    const int         stem   = (int)(experts - first->name);
    const char       *rest   = experts + strlen(zero);
    const checkpoint *c      = b->r->source;
    char              name[NAME_MAX_LEN];
    uint64_t          n = 0;
    for (;; n++) {
        (void)snprintf(name, sizeof name, "%.*s.experts.%" PRIu64 ".%s", stem, first->name, n, rest);
        if (checkpoint_find(c, first->part, name) == NULL) break;
    }
    plan_item *i;
    (void)snprintf(name, sizeof name, "%.*s.switch_mlp.%.*s", stem, first->name,
                   (int)(strlen(rest) - strlen(".weight")), rest);
    TRY(add_module(b, first, name, n, first->shape[0], first->shape[1], &i, err));
    i->rank     = 3;
    i->shape[0] = n;
    i->shape[1] = first->shape[0];
    i->shape[2] = first->shape[1];
    for (uint64_t m = 0; m < n; m++) {
        const checkpoint_tensor *t;
        (void)snprintf(name, sizeof name, "%.*s.experts.%" PRIu64 ".%s", stem, first->name, m, rest);
        TRY(checkpoint_require(c, first->part, name, 2, first->shape, &t, err));
        if (t->type != first->type)
            return status_fail(err, WEIR_FORMAT, "%s: %s: dtype: expected %s like the other experts, found %s", t->file,
                               t->raw_name, first->type_name, t->type_name);
        b->taken[checkpoint_index(c, t)] = true;
        i->mat[m]                        = t->data;
    }
    return WEIR_OK;
}

/* ---- which is which ---- */

static bool is_gain(const char *name)
{
    static const char *const tails[] = {".input_layernorm.weight", ".post_attention_layernorm.weight", ".q_norm.weight",
                                        ".k_norm.weight"};
    if (strcmp(name, "norm.weight") == 0) return true;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        if (ends_in(name, tails[i])) return true;
    return false;
}

/* The length of the module's name without ".weight" that ends in `tail`, or 0. */
static size_t stem_before(const char *name, const char *tail)
{
    size_t       n = strlen(name);
    const size_t m = strlen(tail), w = strlen(".weight");
    if (ends_in(name, ".weight")) n -= w;
    return n > m && strncmp(name + n - m, tail, m) == 0 ? n - m : 0;
}

static weir_status add_rank3(planner *b, const checkpoint_tensor *t, weir_error *err)
{
    char         stem[NAME_MAX_LEN];
    const size_t fused = stem_before(t->name, ".experts.gate_up_proj"),
                 down  = stem_before(t->name, ".experts.down_proj");
    if (fused != 0 && t->shape[1] % 2 == 0) {
        const uint64_t half = t->shape[1] / 2;
        (void)snprintf(stem, sizeof stem, "%.*s.switch_mlp.", (int)fused, t->name);
        TRY(add_stack(b, t, stem, "gate_proj", 0, half, err));
        return add_stack(b, t, stem, "up_proj", half, half, err);
    }
    if (down != 0) {
        (void)snprintf(stem, sizeof stem, "%.*s.switch_mlp.", (int)down, t->name);
        return add_stack(b, t, stem, "down_proj", 0, t->shape[1], err);
    }
    if (strstr(t->name, ".switch_mlp.") != NULL && ends_in(t->name, ".weight")) {
        (void)snprintf(stem, sizeof stem, "%.*s", (int)(strlen(t->name) - strlen(".weight")), t->name);
        return add_stack(b, t, stem, "", 0, t->shape[1], err);
    }
    return add_whole(b, t, PLAN_COPY, err);
}

static weir_status add_tensor(planner *b, const checkpoint_tensor *t, weir_error *err)
{
    if (ends_in(t->name, ".scales") || ends_in(t->name, "_scale_inv") || ends_in(t->name, ".qweight"))
        return status_fail(err, WEIR_INVALID, "%s: %s: expected an unquantised checkpoint, found a quantised one",
                           t->file, t->raw_name);
    if (t->part == CHECKPOINT_VISION) return add_whole(b, t, PLAN_COPY, err);
    if (t->part == CHECKPOINT_TRUNK && is_gain(t->name) && b->add_one) {
        if (dense_is(t->type)) return add_whole(b, t, PLAN_GAIN, err);
        return status_fail(err, WEIR_UNSUPPORTED, "%s: %s: dtype: expected F32, F16 or BF16, found %s", t->file,
                           t->raw_name, t->type_name);
    }
    const char *experts = strstr(t->name, ".experts.0.");
    if (t->rank == 2 && ends_in(t->name, ".weight"))
        return experts != NULL ? add_experts(b, t, experts, err) : add_matrix(b, t, err);
    if (t->rank == 3) return add_rank3(b, t, err);
    return add_whole(b, t, PLAN_COPY, err);
}

static plan_class class_of(checkpoint_part part)
{
    return part == CHECKPOINT_MTP ? PLAN_MTP : part == CHECKPOINT_VISION ? PLAN_VISION : PLAN_MODEL;
}

weir_status plan_open(plan *out, const plan_request *r, weir_error *err)
{
    *out = (plan){0};
    str_init(&out->text, 1u << 30);
    const checkpoint *c = r->source;
    if (checkpoint_config(c)->quant.present)
        return status_fail(err, WEIR_INVALID, "%s: config.json: quantization: expected an unquantised checkpoint",
                           checkpoint_path(c));
    planner b = {.p = out, .r = r, .add_one = checkpoint_conventions(c)->gain_minus_one};
    b.taken   = mem_zalloc(checkpoint_count(c), sizeof *b.taken);
    if (b.taken == NULL) return out_of_memory(err);
    size_t      ends[PLAN_CLASSES];
    weir_status st = WEIR_OK;
    for (plan_class k = 0; k < PLAN_CLASSES; k++) {
        for (size_t i = 0; i < checkpoint_count(c) && st == WEIR_OK; i++) {
            const checkpoint_tensor *t = checkpoint_at(c, i);
            if (class_of(t->part) == k && !b.taken[i]) st = add_tensor(&b, t, err);
        }
        ends[k] = out->n;
    }
    mem_free(b.taken);
    if (st == WEIR_OK) st = recipe_all_used(r->recipe, err);
    if (st == WEIR_OK) st = plan_files_make(out, ends, r->file_bytes, err);
    if (st == WEIR_OK) st = plan_text_make(out, c, err);
    return st;
}

void plan_close(plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        mem_free(p->items[i].module);
        mem_free(p->items[i].name);
        mem_free(p->items[i].mat);
    }
    for (size_t i = 0; i < p->n_files; i++) {
        for (size_t k = 0; k < p->files[i].n_specs; k++)
            mem_free((char *)(uintptr_t)p->files[i].specs[k].name); /* this plan's own */
        mem_free(p->files[i].specs);
        if (p->files[i].header.text.data != NULL) str_free(&p->files[i].header.text);
    }
    mem_free(p->items);
    mem_free(p->files);
    if (p->text.data != NULL) str_free(&p->text);
    *p = (plan){0};
}
