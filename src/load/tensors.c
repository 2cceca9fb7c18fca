/* load/tensors.c - tensors of a checkpoint as weights and vectors of a backend. */
#include "load/tensors.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "quant/blocks.h"
#include "quant/dense.h"
#include "quant/microscale.h"
#include "quant/trellis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NAMED = 8, NAME_MAX_LEN = 256, MEMBER_MAX_LEN = NAME_MAX_LEN + 16 }; /* of a module; of "module.weight" */

static bool failed(const binder *b)
{
    return b->st != WEIR_OK;
}

static void note_missing(binder *b, checkpoint_part part, const char *name)
{
    char         spelled[CHECKPOINT_MAX_SPELLED];
    const size_t len = strlen(b->missing);
    if (b->n_missing++ >= NAMED) return;
    checkpoint_spell(b->c, part, name, spelled, sizeof spelled);
    (void)snprintf(b->missing + len, sizeof b->missing - len, "%s%s", len > 0 ? ", " : "", spelled);
}

weir_status bind_finish(binder *b)
{
    if (failed(b)) return b->st;
    if (b->n_missing > 0)
        return b->st = status_fail(b->err, WEIR_FORMAT, "%s: %zu tensors are missing: %s%s", checkpoint_path(b->c),
                                   b->n_missing, b->missing, b->n_missing > NAMED ? ", ..." : "");
    return b->st = checkpoint_unexpected(b->c, b->taken, b->skipped, b->err);
}

bool bind_exists(const binder *b, checkpoint_part part, const char *name)
{
    char weight[MEMBER_MAX_LEN];
    (void)snprintf(weight, sizeof weight, "%s.weight", name);
    return checkpoint_find(b->c, part, name) != NULL || checkpoint_find(b->c, part, weight) != NULL;
}

/* Takes a tensor of the given shape; NULL (and a note or a failure) otherwise. */
static const checkpoint_tensor *take(binder *b, checkpoint_part part, const char *name, int rank, const uint64_t *shape)
{
    if (failed(b)) return NULL;
    if (checkpoint_find(b->c, part, name) == NULL) {
        note_missing(b, part, name);
        return NULL;
    }
    const checkpoint_tensor *t = NULL;
    b->st                      = checkpoint_require(b->c, part, name, rank, shape, &t, b->err);
    if (failed(b)) return NULL;
    b->taken[checkpoint_index(b->c, t)] = true;
    return t;
}

static weir_status wrong_type(binder *b, const checkpoint_tensor *t, const char *expected)
{
    return b->st = status_fail(b->err, WEIR_UNSUPPORTED, "%s: tensor %s: expected %s, found %s", t->file, t->raw_name,
                               expected, t->type_name);
}

/* ---- matrices ---- */

/* Form and bytes of a [mats, rows, cols] tensor (rank 2 when mats is 0). */
typedef struct source {
    k_weight_desc d; /* without mat */
    k_matrix      first;
    size_t        row_bytes, scale_row_bytes;
} source;

static void plain_source(binder *b, checkpoint_part part, const char *name, uint32_t mats, uint32_t rows, uint32_t cols,
                         source *out)
{
    const uint64_t           shape[] = {mats, rows, cols};
    const checkpoint_tensor *t       = take(b, part, name, mats == 0 ? 2 : 3, mats == 0 ? shape + 1 : shape);
    if (t == NULL) return;
    if (blocks_is(t->type)) {
        out->d          = (k_weight_desc){.format = k_block_format(t->type), .cols = cols};
        out->row_bytes  = blocks_bytes(t->type, cols);
        out->first.data = t->data;
        return;
    }
    if (!dense_is(t->type)) {
        (void)wrong_type(b, t, "F32, F16 or BF16 (or MLX's codes with .scales)");
        return;
    }
    static const k_format formats[] = {[DTYPE_F32] = K_F32, [DTYPE_F16] = K_F16, [DTYPE_BF16] = K_BF16};
    out->d                          = (k_weight_desc){.format = formats[t->type], .cols = cols};
    out->row_bytes                  = dtype_table[t->type].bytes * (size_t)cols;
    out->first.data                 = t->data;
}

/* What the config leaves open, the shapes tell: columns per scale, bits per column. */
static void fill_from_shapes(const binder *b, checkpoint_part part, const char *module, uint32_t cols,
                             config_quant_form *form)
{
    char name[MEMBER_MAX_LEN];
    (void)snprintf(name, sizeof name, "%s.scales", module);
    const checkpoint_tensor *s = checkpoint_find(b->c, part, name);
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const checkpoint_tensor *w = checkpoint_find(b->c, part, name);
    if (s == NULL || w == NULL || s->rank == 0 || w->rank == 0 || s->shape[s->rank - 1] == 0) return;
    if (form->group == 0) form->group = (uint32_t)(cols / s->shape[s->rank - 1]);
    if (form->bits == 0) form->bits = (uint32_t)(w->shape[w->rank - 1] * 32 / cols);
}

/* The kernels' name of a form; K_FORMATS for none. */
static k_format grouped_format(const config_quant_form *f)
{
    static const struct {
        config_quant_mode mode;
        k_format          format;
        uint32_t          group_min, group_max;
    } forms[] = {
        {CONFIG_QUANT_AFFINE, K_AFFINE2, 32, 128}, {CONFIG_QUANT_AFFINE, K_AFFINE3, 32, 128},
        {CONFIG_QUANT_AFFINE, K_AFFINE4, 32, 128}, {CONFIG_QUANT_AFFINE, K_AFFINE5, 32, 128},
        {CONFIG_QUANT_AFFINE, K_AFFINE6, 32, 128}, {CONFIG_QUANT_AFFINE, K_AFFINE8, 32, 128},
        {CONFIG_QUANT_MXFP4, K_MLX_MXFP4, 32, 32}, {CONFIG_QUANT_MXFP8, K_MLX_MXFP8, 32, 32},
        {CONFIG_QUANT_NVFP4, K_MLX_NVFP4, 16, 16},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].mode == f->mode && k_code_bits(forms[i].format) == f->bits && f->group >= forms[i].group_min &&
            f->group <= forms[i].group_max && (f->group & (f->group - 1)) == 0)
            return forms[i].format;
    return K_FORMATS;
}

static weir_status wrong_form(binder *b, const char *module, const config_quant_form *f)
{
    static const char *const expected[] = {
        [CONFIG_QUANT_AFFINE] = "2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128",
        [CONFIG_QUANT_MXFP4]  = "4 bits in groups of 32",
        [CONFIG_QUANT_MXFP8]  = "8 bits in groups of 32",
        [CONFIG_QUANT_NVFP4]  = "4 bits in groups of 16",
    };
    return b->st = status_fail(
               b->err, WEIR_UNSUPPORTED, "%s: module %s: expected %s (mode %s), found %u bits in groups of %u",
               checkpoint_path(b->c), module, expected[f->mode], config_quant_mode_name(f->mode), f->bits, f->group);
}

/* Types of the three; an E8M0 scale must be one.  `biases` NULL: the mode has none. */
static weir_status check_grouped(binder *b, k_format format, const checkpoint_tensor *w, const checkpoint_tensor *s,
                                 const checkpoint_tensor *biases)
{
    if (w->type != DTYPE_U32) return wrong_type(b, w, "U32");
    if (biases != NULL) {
        if (!dense_is(s->type)) return wrong_type(b, s, "F32, F16 or BF16");
        return biases->type == s->type ? WEIR_OK : wrong_type(b, biases, s->type_name);
    }
    if (s->type != DTYPE_U8) return wrong_type(b, s, "U8");
    if (format != K_MLX_NVFP4 && memchr(s->data, E8M0_NONE, s->bytes) != NULL)
        return b->st = status_fail(b->err, WEIR_FORMAT, "%s: tensor %s: expected scales below %d, found %d", s->file,
                                   s->raw_name, E8M0_NONE, E8M0_NONE);
    return WEIR_OK;
}

static weir_status wrong_size(binder *b, const char *module, const char *expected, uint64_t found)
{
    return b->st = status_fail(b->err, WEIR_FORMAT, "%s: module %s: expected %s, found %" PRIu64, checkpoint_path(b->c),
                               module, expected, found);
}

/* Halves that are numbers: a row of codes has no other bound. */
static weir_status check_trellis(binder *b, const checkpoint_tensor *w, const checkpoint_tensor *s)
{
    if (w->type != DTYPE_U32) return wrong_type(b, w, "U32");
    if (s->type != DTYPE_F16) return wrong_type(b, s, "F16");
    for (uint64_t i = 0; i < s->shape[0]; i++)
        if ((load_u16(s->data + 2 * i) & 0x7C00u) == 0x7C00u)
            return b->st =
                       status_fail(b->err, WEIR_FORMAT, "%s: tensor %s: expected finite scales, found %s at %" PRIu64,
                                   s->file, s->raw_name, "infinity or NaN", i);
    return WEIR_OK;
}

/* Stored rows are the matrix's (axis 1), or those of its transpose (axis 0); the latter also in
 * pairs of blocks, all stored rows of one pair before the next pair. */
static void trellis_source(binder *b, checkpoint_part part, const char *module, uint32_t rows, uint32_t cols,
                           const config_quant_form *stated, source *out)
{
    enum { PAIRED_BITS = 3, PAIR = 2 * TRELLIS_BLOCK };
    char           name[MEMBER_MAX_LEN];
    const bool     across = stated->axis == 0;
    const uint32_t stored = across ? cols : rows, coded = across ? rows : cols;
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const checkpoint_tensor *w      = checkpoint_find(b->c, part, name);
    const bool               paired = across && w != NULL && w->rank == 3;
    uint32_t                 bits   = stated->bits;
    if (bits == 0 && w != NULL && w->rank > 0) /* what the config leaves open, the shape tells */
        bits = paired ? PAIRED_BITS : (uint32_t)(w->shape[w->rank - 1] * 32 / coded);
    if (bits < 1 || bits > TRELLIS_MAX_BITS) {
        (void)wrong_size(b, module, "trellis codes of 1 to 8 bits", bits);
        return;
    }
    if (paired && bits != PAIRED_BITS) {
        (void)wrong_size(b, module, "trellis codes of 3 bits in pairs of blocks", bits);
        return;
    }
    if (coded % (paired ? PAIR : TRELLIS_BLOCK) != 0) {
        (void)wrong_size(b, module,
                         paired   ? "output features in whole pairs of trellis blocks, 512"
                         : across ? "output features in whole trellis blocks of 256"
                                  : "input features in whole trellis blocks of 256",
                         coded);
        return;
    }
    const uint64_t plain[] = {stored, (uint64_t)coded * bits / 32}, scales[] = {stored};
    const uint64_t pairs[] = {coded / PAIR, stored, PAIR * PAIRED_BITS / 32};
    w                      = take(b, part, name, paired ? 3 : 2, paired ? pairs : plain);
    (void)snprintf(name, sizeof name, "%s.scales", module);
    const checkpoint_tensor *s = take(b, part, name, 1, scales);
    if (w == NULL || s == NULL || check_trellis(b, w, s) != WEIR_OK) return;
    out->d     = (k_weight_desc){.format     = across ? K_TRELLIS_ACROSS : K_TRELLIS,
                                 .cols       = cols,
                                 .scale_type = DTYPE_F16,
                                 .bits       = bits,
                                 .paired     = paired};
    out->first = (k_matrix){w->data, s->data, NULL};
}

static void grouped_source(binder *b, checkpoint_part part, const char *module, uint32_t mats, uint32_t rows,
                           uint32_t cols, const config_quant_form *stated, source *out)
{
    char              name[MEMBER_MAX_LEN];
    config_quant_form form = *stated;
    fill_from_shapes(b, part, module, cols, &form);
    const k_format format = grouped_format(&form);
    if (format == K_FORMATS) {
        (void)wrong_form(b, module, &form);
        return;
    }
    if (cols % form.group != 0) {
        b->st = status_fail(b->err, WEIR_FORMAT, "%s: module %s: expected columns in whole groups of %u, found %u",
                            checkpoint_path(b->c), module, form.group, cols);
        return;
    }
    const int      rank     = mats == 0 ? 2 : 3;
    const uint64_t codes[]  = {mats, rows, (uint64_t)cols * form.bits / 32};
    const uint64_t groups[] = {mats, rows, cols / form.group};
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const checkpoint_tensor *w = take(b, part, name, rank, codes + (3 - rank));
    (void)snprintf(name, sizeof name, "%s.scales", module);
    const checkpoint_tensor *s = take(b, part, name, rank, groups + (3 - rank)), *z = NULL;
    (void)snprintf(name, sizeof name, "%s.biases", module);
    if (k_is_affine(format)) z = take(b, part, name, rank, groups + (3 - rank));
    if (w == NULL || s == NULL || (z == NULL && k_is_affine(format))) return;
    if (check_grouped(b, format, w, s, z) != WEIR_OK) return;
    out->d               = (k_weight_desc){.format = format, .cols = cols, .group = form.group, .scale_type = s->type};
    out->row_bytes       = (size_t)cols * form.bits / 8;
    out->scale_row_bytes = cols / form.group * dtype_table[s->type].bytes;
    out->first           = (k_matrix){w->data, s->data, z != NULL ? z->data : NULL};
}

/* `name` is a module's (name.weight exists or it is quantised) or a bare tensor's. */
static void find_source(binder *b, checkpoint_part part, const char *name, uint32_t mats, uint32_t rows, uint32_t cols,
                        source *out)
{
    config_quant_form form      = {0};
    bool              quantised = false;
    memset(out, 0, sizeof *out);
    if (failed(b)) return;
    b->st = checkpoint_quant(b->c, part, name, &quantised, &form, b->err);
    if (failed(b)) return;
    if (quantised && form.mode == CONFIG_QUANT_TRELLIS) {
        if (mats == 0)
            trellis_source(b, part, name, rows, cols, &form, out);
        else
            b->st = status_fail(b->err, WEIR_UNSUPPORTED, "%s: module %s: expected no stack of experts in mode trellis",
                                checkpoint_path(b->c), name);
        return;
    }
    if (quantised) {
        grouped_source(b, part, name, mats, rows, cols, &form, out);
        return;
    }
    char weight[MEMBER_MAX_LEN];
    (void)snprintf(weight, sizeof weight, "%s.weight", name);
    const bool bare = checkpoint_find(b->c, part, name) != NULL;
    plain_source(b, part, bare ? name : weight, mats, rows, cols, out);
}

static k_weight *make(binder *b, const k_weight_desc *d)
{
    k_weight *w = NULL;
    if (!failed(b)) b->st = b->k->weight_new(b->k, d, &w, b->err);
    return w;
}

k_weight *bind_matrix(binder *b, checkpoint_part part, const char *module, uint32_t rows, uint32_t cols)
{
    source s;
    find_source(b, part, module, 0, rows, cols, &s);
    if (s.first.data == NULL) return NULL;
    s.d.mats = 1;
    s.d.rows = rows;
    s.d.mat  = &s.first;
    return make(b, &s.d);
}

/* The bytes `rows` further on. */
static k_matrix advance(const source *s, size_t rows)
{
    const uint8_t *data = s->first.data, *scales = s->first.scales, *biases = s->first.biases;
    const size_t   step = rows * s->scale_row_bytes;
    return (k_matrix){data + rows * s->row_bytes, scales == NULL ? NULL : scales + step,
                      biases == NULL ? NULL : biases + step};
}

k_weight *bind_stack(binder *b, checkpoint_part part, const char *name, const stack_shape *shape)
{
    source s;
    find_source(b, part, name, shape->mats, shape->all_rows, shape->cols, &s);
    if (s.first.data == NULL) return NULL;
    k_matrix *mat = mem_alloc(shape->mats, sizeof *mat);
    if (mat == NULL) {
        b->st = status_fail(b->err, WEIR_NO_MEMORY, "%s: out of memory", name);
        return NULL;
    }
    for (uint32_t i = 0; i < shape->mats; i++) mat[i] = advance(&s, (size_t)i * shape->all_rows + shape->row0);
    s.d.mats    = shape->mats;
    s.d.rows    = shape->rows;
    s.d.mat     = mat;
    k_weight *w = make(b, &s.d);
    mem_free(mat);
    return w;
}

k_weight *bind_each(binder *b, checkpoint_part part, const char *prefix, const char *suffix, uint32_t mats,
                    uint32_t rows, uint32_t cols)
{
    k_matrix *mat = mem_zalloc(mats, sizeof *mat);
    if (mat == NULL) {
        b->st = status_fail(b->err, WEIR_NO_MEMORY, "%s: out of memory", prefix);
        return NULL;
    }
    source first = {0};
    for (uint32_t i = 0; i < mats && !failed(b); i++) {
        char   name[NAME_MAX_LEN];
        source s;
        (void)snprintf(name, sizeof name, "%s.%u.%s", prefix, i, suffix);
        find_source(b, part, name, 0, rows, cols, &s);
        if (i == 0) first = s;
        mat[i] = s.first;
        if (s.first.data != NULL &&
            (s.d.format != first.d.format || s.d.group != first.d.group || s.d.scale_type != first.d.scale_type ||
             s.d.bits != first.d.bits || s.d.paired != first.d.paired))
            b->st = status_fail(b->err, WEIR_UNSUPPORTED, "%s: %s: expected the format of the other experts",
                                checkpoint_path(b->c), name);
    }
    k_weight *w = NULL;
    if (b->n_missing == 0) {
        first.d.mats = mats;
        first.d.rows = rows;
        first.d.mat  = mat;
        w            = make(b, &first.d);
    }
    mem_free(mat);
    return w;
}

/* ---- vectors ---- */

/* The tensor's n numbers as f32 (mem_free), or NULL. */
static float *numbers(binder *b, checkpoint_part part, const char *name, int rank, const uint64_t *shape, size_t n)
{
    const checkpoint_tensor *t = take(b, part, name, rank, shape);
    if (t == NULL) return NULL;
    if (!dense_is(t->type)) {
        (void)wrong_type(b, t, "F32, F16 or BF16");
        return NULL;
    }
    float *x = mem_alloc(n, sizeof *x);
    if (x == NULL) {
        b->st = status_fail(b->err, WEIR_NO_MEMORY, "%s: out of memory", name);
        return NULL;
    }
    dense_decode(x, t->data, t->type, n);
    return x;
}

/* Uploads and frees x. */
static k_buf *upload(binder *b, float *x, size_t n)
{
    k_buf *buf = NULL;
    if (x != NULL && !failed(b)) b->st = b->k->buf_new(b->k, n * sizeof *x, &buf, b->err);
    if (buf != NULL) b->k->buf_write(b->k, buf, 0, x, n * sizeof *x);
    mem_free(x);
    return buf;
}

k_buf *bind_vector(binder *b, checkpoint_part part, const char *name, uint32_t n, float shift)
{
    const uint64_t shape[] = {n};
    float         *x       = numbers(b, part, name, 1, shape, n);
    for (uint32_t i = 0; x != NULL && i < n; i++) x[i] += shift;
    return upload(b, x, n);
}

k_buf *bind_mapped(binder *b, checkpoint_part part, const char *name, uint32_t n, void (*f)(float *x, uint32_t n))
{
    const uint64_t shape[] = {n};
    float         *x       = numbers(b, part, name, 1, shape, n);
    if (x != NULL) f(x, n);
    return upload(b, x, n);
}

k_buf *bind_taps(binder *b, checkpoint_part part, const char *name, uint32_t channels, uint32_t kernel)
{
    const bool     last    = checkpoint_conventions(b->c)->conv_channel_last;
    const uint64_t shape[] = {channels, last ? kernel : 1, last ? 1 : kernel};
    const size_t   n       = (size_t)channels * kernel;
    float         *x       = numbers(b, part, name, 3, shape, n); /* [C, K] in both conventions */
    if (x == NULL) return NULL;
    float *taps = mem_alloc(n, sizeof *taps);
    if (taps == NULL) {
        mem_free(x);
        b->st = status_fail(b->err, WEIR_NO_MEMORY, "%s: out of memory", name);
        return NULL;
    }
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < kernel; i++) taps[i * channels + c] = x[c * kernel + i];
    mem_free(x);
    return upload(b, taps, n);
}
