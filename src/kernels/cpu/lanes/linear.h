/* kernels/cpu/lanes/linear.h - scalar/linear.c on 16 lanes; linear_layout.h has
 * the order of operations.
 *
 * Lanes meet in the last sum alone, so everything here walks one register's lanes
 * (a part) at a time: DOT_R(M) weight rows by M rows of x, or TILE_N by up to
 * TILE_ROWS, are then as many chains of sums as the registers hold, however many
 * registers make 16 lanes.
 *
 * lin_dot decodes weights on the fly.  It prefetches about PREFETCH_BYTES ahead:
 * nearer or not at all costs up to half of the read bandwidth.  lin_tile multiplies
 * decoded panels. */
#ifndef KERNELS_CPU_LANES_LINEAR_H
#define KERNELS_CPU_LANES_LINEAR_H

#include <string.h>

enum { PREFETCH_BYTES = 8192, LINE = 64, WORD_NIBBLES = 8, BLOCK_BYTES = 64, PART_LANES = LANES / PARTS };
enum { CHUNK_SCALES = LANES + 4 }; /* vp_scale looks at four */

INLINE vf load_float(const uint8_t *p, const dtype type, size_t i, size_t n)
{
    const size_t left = n > i ? n - i : 0;
    if (left >= LANES) {
        if (type == DTYPE_BF16) return vf_load_bf16(p + 2 * i);
        if (type == DTYPE_F16) return vf_load_f16(p + 2 * i);
        return vf_load_f32(p + 4 * i);
    }
    if (left == 0) return vf_zero();
    if (type == DTYPE_BF16) return vf_load_bf16_n(p + 2 * i, left);
    if (type == DTYPE_F16) return vf_load_f16_n(p + 2 * i, left);
    return vf_load_f32_n(p + 4 * i, left);
}

INLINE vp load_part(const uint8_t *p, const dtype type)
{
    return type == DTYPE_BF16 ? vp_load_bf16(p) : type == DTYPE_F16 ? vp_load_f16(p) : vp_load_f32(p);
}

/* The 16 words of block b of a row of 4-bit codes, zero beyond it. */
INLINE void block_words(uint32_t *words, const lin_weight *w, size_t row, size_t b)
{
    const size_t n = w->cols / WORD_NIBBLES - b * LANES;
    memset(words, 0, BLOCK_BYTES);
    memcpy(words, w->data + row * w->row_bytes + b * BLOCK_BYTES, (n < LANES ? n : LANES) * sizeof *words);
}

/* The first of a chunk's scales that a part of its block i has. */
INLINE size_t scale_at(const lin_layout *lo, const bool four, size_t i, size_t part)
{
    return four ? (i * LANES + part * PART_LANES) * WORD_NIBBLES >> lo->group_shift : i;
}

INLINE vp part_scale(const float *scales, const bool four, uint32_t group)
{
    return four ? vp_scale(scales, group) : vp_set1(*scales);
}

/* ---- dot: the inner loops, R weight rows times M rows of x, one part ---- */

enum { DOT_TILE = 4 }; /* most weight rows at once */

/* A stretch of R rows of storage: n blocks (dense: vectors of 16). */
typedef struct dot_run {
    const uint8_t *data; /* the part's first code or float in row 0; the next row is row_bytes on */
    size_t         row_bytes;
    const float   *scales; /* affine: of row 0; the next row's are CHUNK_SCALES on */
    uint32_t       group, nv;
    size_t         step;        /* 4 bits: scales of a block */
    size_t         n, ahead;    /* ahead: bytes to what is fetched meanwhile; 0: nothing */
    const float   *x[DOT_ROWS]; /* the part's first element of the stretch */
    float         *acc;         /* [R][M][16], the part's lanes of it */
} dot_run;

/* sum[r][m] += q[r] times x[m][at]. */
INLINE void dot_step(vp sum[DOT_TILE][DOT_ROWS], const vp *q, const int R, const float *const *x, const int M,
                     size_t at)
{
    UNROLL for (int m = 0; m < M; m++)
    {
        const vp xv                                  = vp_hold(vp_load(x[m] + at));
        UNROLL for (int r = 0; r < R; r++) sum[r][m] = vp_fma(q[r], xv, sum[r][m]);
    }
}

INLINE void dot_scale(vp sum[DOT_TILE][DOT_ROWS], vp tmp[DOT_TILE][DOT_ROWS], const vp scale, const int r, const int M)
{
    UNROLL for (int m = 0; m < M; m++) sum[r][m] = vp_fma(tmp[r][m], scale, sum[r][m]);
}

INLINE void dot_floats(const dot_run *d, const int R, const float *const *x, const int M, const dtype type,
                       vp sum[DOT_TILE][DOT_ROWS])
{
    const size_t   bytes = LANES * (type == DTYPE_F32 ? 4 : 2), row_bytes = d->row_bytes, ahead = d->ahead;
    const uint8_t *data = d->data;
    for (size_t v = 0; v < d->n; v++, data += bytes) {
        vp q[DOT_TILE];
        UNROLL for (int r = 0; r < R; r++)
        {
            q[r] = load_part(data + (size_t)r * row_bytes, type);
            if (ahead != 0 && v * bytes % LINE == 0) PREFETCH(data + (size_t)r * row_bytes + ahead);
        }
        dot_step(sum, q, R, x, M, v * LANES);
    }
}

INLINE void dot_words(const dot_run *d, const int R, const float *const *x, const int M, vp sum[DOT_TILE][DOT_ROWS])
{
    const size_t   row_bytes = d->row_bytes, ahead = d->ahead, step = d->step;
    const uint32_t group  = d->group;
    const uint8_t *codes  = d->data;
    const float   *scales = d->scales;
    for (size_t i = 0; i < d->n; i++, codes += BLOCK_BYTES, scales += step) {
        vp tmp[DOT_TILE][DOT_ROWS];
        vq words[DOT_TILE];
        UNROLL for (int r = 0; r < R; r++)
        {
            words[r] = vq_load(codes + (size_t)r * row_bytes);
            if (ahead != 0) PREFETCH(codes + (size_t)r * row_bytes + ahead);
            UNROLL for (int m = 0; m < M; m++) tmp[r][m] = vp_zero();
        }
        UNROLL for (int s = 0; s < WORD_NIBBLES; s++)
        {
            vp q[DOT_TILE];
            UNROLL for (int r = 0; r < R; r++) q[r] = vq_nibble(words[r], s);
            dot_step(tmp, q, R, x, M, (i * WORD_NIBBLES + (size_t)s) * LANES);
        }
        UNROLL for (int r = 0; r < R; r++) dot_scale(sum, tmp, vp_scale(scales + r * CHUNK_SCALES, group), r, M);
    }
}

INLINE void dot_bytes(const dot_run *d, const int R, const float *const *x, const int M, vp sum[DOT_TILE][DOT_ROWS])
{
    const size_t   row_bytes = d->row_bytes, ahead = d->ahead, nv = d->nv;
    const uint8_t *codes  = d->data;
    const float   *scales = d->scales;
    for (size_t i = 0; i < d->n; i++, codes += nv * LANES, scales++) {
        vp tmp[DOT_TILE][DOT_ROWS];
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) tmp[r][m] = vp_zero();
        for (size_t v = 0; v < nv; v++) {
            vp q[DOT_TILE];
            UNROLL for (int r = 0; r < R; r++)
            {
                const uint8_t *c = codes + (size_t)r * row_bytes + v * LANES;
                q[r]             = vp_bytes(c);
                if (ahead != 0 && v % (LINE / LANES) == 0) PREFETCH(c + ahead);
            }
            dot_step(tmp, q, R, x, M, (i * nv + v) * LANES);
        }
        UNROLL for (int r = 0; r < R; r++) dot_scale(sum, tmp, vp_set1(scales[r * CHUNK_SCALES]), r, M);
    }
}

INLINE void dot_kernel(const dot_run *d, const int R, const int M, const k_format format)
{
    vp           sum[DOT_TILE][DOT_ROWS];
    const float *x[DOT_ROWS];
    UNROLL for (int m = 0; m < M; m++) x[m] = d->x[m];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) sum[r][m] =
        vp_load(d->acc + (r * M + m) * LANES);
    switch (format) {
    case K_AFFINE4: dot_words(d, R, x, M, sum); break;
    case K_AFFINE8: dot_bytes(d, R, x, M, sum); break;
    case K_F16: dot_floats(d, R, x, M, DTYPE_F16, sum); break;
    case K_BF16: dot_floats(d, R, x, M, DTYPE_BF16, sum); break;
    default: dot_floats(d, R, x, M, DTYPE_F32, sum); break;
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++)
        vp_store(d->acc + (r * M + m) * LANES, sum[r][m]);
}

/* Functions of their own: inlined into one another they run out of registers. */
typedef void dot_fn(const dot_run *d);
#define DOT_KERNEL(format, M) \
    static NOINLINE void dot_##format##_##M(const dot_run *d) \
    { \
        dot_kernel(d, DOT_R(M), M, format); \
    } \
    static NOINLINE void dot1_##format##_##M(const dot_run *d) \
    { \
        dot_kernel(d, 1, M, format); \
    }
#define DOT_KERNELS(format) \
    DOT_KERNEL(format, 1) \
    DOT_KERNEL(format, 2) \
    DOT_KERNEL(format, 3) \
    DOT_KERNEL(format, 4) \
    DOT_KERNEL(format, 5) \
    DOT_KERNEL(format, 6) \
    DOT_KERNEL(format, 7) \
    DOT_KERNEL(format, 8)
DOT_KERNELS(K_F32)
DOT_KERNELS(K_F16)
DOT_KERNELS(K_BF16)
DOT_KERNELS(K_AFFINE4)
DOT_KERNELS(K_AFFINE8)

/* For R = DOT_R(M) rows and for one. */
static dot_fn *dot_function(k_format format, unsigned m, bool one)
{
#define DOT_PAIR(format, M) \
    { \
        dot_##format##_##M, dot1_##format##_##M \
    }
#define DOT_PAIRS(format) \
    [format] = {DOT_PAIR(format, 1), DOT_PAIR(format, 2), DOT_PAIR(format, 3), DOT_PAIR(format, 4), \
                DOT_PAIR(format, 5), DOT_PAIR(format, 6), DOT_PAIR(format, 7), DOT_PAIR(format, 8)}
    static dot_fn *const fn[][DOT_ROWS][2] = {DOT_PAIRS(K_F32), DOT_PAIRS(K_F16), DOT_PAIRS(K_BF16),
                                              DOT_PAIRS(K_AFFINE4), DOT_PAIRS(K_AFFINE8)};
    return fn[format][m - 1][one];
#undef DOT_PAIR
#undef DOT_PAIRS
}

/* ---- dot: rows, pieces, parts ---- */

/* Some rows of a weight in one piece, with m rows of x. */
typedef struct dot_piece {
    const lin_weight   *w;
    const lin_layout   *lo;
    const float *const *x;
    unsigned            m;
    size_t              row, n_rows;
    lin_piece           k;
    size_t              ahead;
    float              *acc; /* [n_rows][m][16] */
} dot_piece;

static void dot_parts(dot_run *d, const dot_piece *p, size_t x_at, size_t element, const float *scales)
{
    dot_fn *const  fn    = dot_function(p->w->format, p->m, p->n_rows == 1);
    const uint8_t *data  = d->data;
    const size_t   ahead = d->ahead;
    for (size_t part = 0; part < PARTS; part++) {
        const size_t lane = part * PART_LANES;
        d->data           = data + lane * element;
        d->acc            = p->acc + lane;
        d->ahead          = part == 0 ? ahead : 0;
        if (scales != NULL) d->scales = scales + scale_at(p->lo, p->w->format == K_AFFINE4, 0, part);
        for (unsigned m = 0; m < p->m; m++) d->x[m] = p->x[m] + x_at + lane;
        fn(d);
    }
}

static void dense_piece(const dot_piece *p)
{
    const lin_weight *w    = p->w;
    const dtype       type = w->format == K_F32 ? DTYPE_F32 : w->format == K_F16 ? DTYPE_F16 : DTYPE_BF16;
    const size_t      size = type == DTYPE_F32 ? 4 : 2, whole = w->cols / LANES;
    const size_t      first = p->k.chunk * p->lo->chunk_blocks + p->k.first;
    const uint8_t    *data  = w->data + p->row * w->row_bytes;
    dot_run           d; /* x and acc come later; zeros there take longer than some rows */
    d.data      = data + first * LANES * size;
    d.row_bytes = w->row_bytes;
    d.ahead     = p->ahead;
    d.n         = whole < first ? 0 : whole - first < p->k.n ? whole - first : p->k.n;
    dot_parts(&d, p, first * LANES, size, NULL);
    if (d.n == p->k.n) return;
    _Alignas(64) float last[DOT_TILE][LANES]; /* the last columns */
    lin_weight         floats = *w;
    dot_piece          q      = *p;
    for (size_t r = 0; r < p->n_rows; r++)
        vf_store(last[r], load_float(data + r * w->row_bytes, type, whole * LANES, w->cols));
    floats.format = K_F32;
    q.w           = &floats;
    d.data        = (const uint8_t *)last;
    d.row_bytes   = sizeof last[0];
    d.n           = 1;
    d.ahead       = 0;
    dot_parts(&d, &q, whole * LANES, sizeof(float), NULL);
}

/* acc[r][m] += bias times the sums of x's groups, from zero in the first chunk. */
static void dot_biases(const dot_piece *p)
{
    const lin_weight *w = p->w;
    float            *a = p->acc;
    for (size_t r = 0; r < p->n_rows; r++) {
        const uint8_t *row  = w->biases + (p->row + r) * w->scale_row_bytes;
        const vf       bias = load_float(row, w->scale_type, p->k.chunk * LANES, w->cols / w->group);
        for (unsigned m = 0; m < p->m; m++, a += LANES)
            vf_store(a, vf_fma(bias, vf_load(p->x[m] + p->k.chunk * p->lo->x_chunk),
                               p->k.chunk == 0 ? vf_zero() : vf_load(a)));
    }
}

static void affine_piece(const dot_piece *p)
{
    const lin_weight  *w     = p->w;
    const bool         four  = w->format == K_AFFINE4;
    const size_t       first = p->k.chunk * p->lo->chunk_blocks + p->k.first, bytes = four ? BLOCK_BYTES : w->group;
    const size_t       x_at = p->k.chunk * p->lo->x_chunk + LANES + p->k.first * p->lo->nv * LANES;
    _Alignas(64) float scales[DOT_TILE][CHUNK_SCALES];
    for (size_t r = 0; r < p->n_rows; r++)
        vf_store(scales[r], load_float(w->scales + (p->row + r) * w->scale_row_bytes, w->scale_type, p->k.chunk * LANES,
                                       w->cols / w->group));
    if (p->k.first == 0) dot_biases(p);
    dot_run d; /* as above */
    d.data             = w->data + p->row * w->row_bytes + first * bytes;
    d.row_bytes        = w->row_bytes;
    d.group            = w->group;
    d.nv               = p->lo->nv;
    d.step             = LANES * WORD_NIBBLES >> p->lo->group_shift;
    d.ahead            = p->ahead;
    const size_t whole = four ? w->row_bytes / BLOCK_BYTES : p->lo->n_blocks;
    d.n                = first + p->k.n > whole ? whole - first : p->k.n;
    dot_parts(&d, p, x_at, four ? 4 : 1, scales[0] + scale_at(p->lo, four, p->k.first, 0));
    if (d.n == p->k.n) return;
    _Alignas(64) uint32_t end[DOT_TILE][LANES]; /* a short last block */
    const size_t          n = d.n;
    for (size_t r = 0; r < p->n_rows; r++) block_words(end[r], w, p->row + r, whole);
    d.data      = (const uint8_t *)end;
    d.row_bytes = sizeof end[0];
    d.n         = 1;
    d.ahead     = 0;
    dot_parts(&d, p, x_at + n * WORD_NIBBLES * LANES, 4, scales[0] + scale_at(p->lo, true, p->k.first + n, 0));
}

/* Rows in groups, K in pieces: a piece of all x stays in L1 while a group's rows
 * pass over it, and the sums wait in memory.  What is fetched ahead is the next
 * group's. */
static void dot_rows(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    enum { LEAST = 4, MOST = 16 }; /* weight rows */
    const lin_layout   lo   = lin_layout_of(w->format, w->group, w->cols);
    const size_t       near = PREFETCH_BYTES / w->row_bytes / LEAST * LEAST, R = DOT_R(m);
    const size_t       group = near < LEAST ? LEAST : near > MOST ? MOST : near;
    _Alignas(64) float acc[MOST * DOT_ROWS * LANES], sums[MOST * DOT_ROWS];
    const bool         whole = m <= 4; /* chunks of so few rows of x stay in L1 as well */
    dot_piece          p     = {.w = w, .lo = &lo, .x = x, .m = m, .ahead = group * w->row_bytes};
    for (size_t r0 = 0; r0 < n; r0 += group) {
        const size_t rows = n - r0 < group ? n - r0 : group,
                     all  = (rows * m + 7) / 8 * 8; /* eight are added together */
        for (size_t i = lo.affine ? rows * m : 0; i < all; i++) vf_store(acc + i * LANES, vf_zero());
        for (size_t i = 0; i < (whole ? lo.n_chunks : lo.n_pieces); i++) {
            p.k = whole ? (lin_piece){.chunk = i, .n = lin_chunk_blocks(&lo, i)} : lin_piece_of(&lo, i);
            for (size_t r = 0; r < rows; r += p.n_rows) {
                p.row    = row0 + r0 + r;
                p.n_rows = r + R <= rows ? R : 1;
                p.acc    = acc + r * m * LANES;
                if (lo.affine)
                    affine_piece(&p);
                else
                    dense_piece(&p);
            }
        }
        for (size_t i = 0; i < all; i += 8) vf_sum8(sums + i, acc + i * LANES);
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < m; j++) y[j][r0 + r] = sums[r * m + j];
    }
}

/* More rows of x than the registers have chains for go in halves. */
static void lin_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
    const unsigned size = m <= DOT_MOST ? m : (m + 1) / 2;
    for (unsigned j = 0; j < m; j += size) dot_rows(w, row0, n, x + j, m - j < size ? m - j : size, y + j);
}

/* ---- panels ---- */

INLINE void expand_dense(const lin_weight *w, size_t row0, size_t n, float *panel, const dtype type)
{
    for (size_t i = 0; i < w->cols; i += LANES)
        for (size_t r = 0; r < PANEL_ROWS; r++, panel += LANES)
            vf_store(panel, r < n ? load_float(w->data + (row0 + r) * w->row_bytes, type, i, w->cols) : vf_zero());
}

/* One block of one row: its scales, then its codes, a vector in every 4 of the panel. */
INLINE void expand_block(const lin_weight *w, const lin_layout *lo, size_t row, size_t b, const float *scales,
                         const bool four, float *panel)
{
    const size_t   bytes = four ? BLOCK_BYTES : w->group;
    const uint8_t *codes = w->data + row * w->row_bytes + b * bytes;
    uint32_t       end[LANES];
    if (four && (b + 1) * BLOCK_BYTES > w->row_bytes) {
        block_words(end, w, row, b);
        codes = (const uint8_t *)end;
    }
    for (size_t part = 0; part < PARTS; part++) {
        const size_t at = scale_at(lo, four, b % lo->chunk_blocks, part);
        float       *to = panel + part * PART_LANES;
        vp_store(to, part_scale(scales + at, four, w->group));
        to += PANEL_ROWS * LANES;
        if (four) {
            const vq words = vq_load(codes + part * PART_LANES * 4);
            UNROLL for (int s = 0; s < WORD_NIBBLES; s++, to += PANEL_ROWS * LANES) vp_store(to, vq_nibble(words, s));
        } else {
            for (uint32_t v = 0; v < lo->nv; v++, to += PANEL_ROWS * LANES)
                vp_store(to, vp_bytes(codes + v * LANES + part * PART_LANES));
        }
    }
}

INLINE void expand_affine(const lin_weight *w, size_t row0, size_t n, float *panel, const bool four)
{
    const lin_layout lo       = lin_layout_of(w->format, w->group, w->cols);
    const size_t     n_groups = w->cols / w->group, block = (lo.nv + 1) * PANEL_ROWS * LANES;
    if (n < PANEL_ROWS) memset(panel, 0, lin_panel_floats(&lo) * sizeof *panel);
    for (size_t c = 0; c < lo.n_chunks; c++)
        for (size_t r = 0; r < n; r++) {
            const size_t       from = (row0 + r) * w->scale_row_bytes;
            float             *to   = panel + c * lo.panel_chunk + r * LANES;
            _Alignas(64) float scales[CHUNK_SCALES];
            vf_store(scales, load_float(w->scales + from, w->scale_type, c * LANES, n_groups));
            vf_store(to, load_float(w->biases + from, w->scale_type, c * LANES, n_groups));
            to += PANEL_ROWS * LANES;
            for (uint32_t i = 0; i < lin_chunk_blocks(&lo, c); i++)
                expand_block(w, &lo, row0 + r, c * lo.chunk_blocks + i, scales, four, to + i * block);
        }
}

static void lin_expand(const lin_weight *w, size_t row0, size_t n, float *panel)
{
    switch (w->format) {
    case K_F32: expand_dense(w, row0, n, panel, DTYPE_F32); break;
    case K_F16: expand_dense(w, row0, n, panel, DTYPE_F16); break;
    case K_BF16: expand_dense(w, row0, n, panel, DTYPE_BF16); break;
    case K_AFFINE4: expand_affine(w, row0, n, panel, true); break;
    default: expand_affine(w, row0, n, panel, false); break;
    }
}

/* ---- tiles: M prepared rows times TILE_N of the panel's 4 rows, one piece of one part ---- */

enum { TILE_M = 4 };

typedef struct tile_run {
    const float *x[TILE_M]; /* the chunk's first element */
    const float *panel;     /* the same */
    float       *acc;       /* [M][PANEL_ROWS][16] */
    lin_piece    k;
    uint32_t     nv;
    bool         fresh; /* acc holds nothing yet */
} tile_run;

INLINE void tile_step(vp sum[TILE_M][TILE_N], const float *panel, const float *const *x, const int M, size_t at)
{
    vp q[TILE_N];
    UNROLL for (int n = 0; n < TILE_N; n++) q[n] = vp_hold(vp_load(panel + n * LANES));
    UNROLL for (int m = 0; m < M; m++)
    {
        const vp xv                                       = vp_hold(vp_load(x[m] + at));
        UNROLL for (int n = 0; n < TILE_N; n++) sum[m][n] = vp_fma(q[n], xv, sum[m][n]);
    }
}

INLINE void tile_dense(const tile_run *t, const float *panel, const float *const *x, const int M,
                       vp sum[TILE_M][TILE_N])
{
    panel += t->k.first * PANEL_ROWS * LANES;
    size_t at = t->k.first * LANES;
    for (size_t v = 0; v < t->k.n; v++, panel += PANEL_ROWS * LANES, at += LANES) tile_step(sum, panel, x, M, at);
}

INLINE void tile_affine(const tile_run *t, const float *panel, const float *const *x, const int M, const uint32_t nv,
                        vp sum[TILE_M][TILE_N])
{
    enum { ROW = PANEL_ROWS * LANES };
    if (t->k.first == 0) tile_step(sum, panel, x, M, 0); /* biases */
    panel += (1 + t->k.first * (nv + 1)) * ROW;
    size_t at = LANES + t->k.first * nv * LANES;
    for (size_t i = 0; i < t->k.n; i++, panel += (nv + 1) * ROW) {
        vp tmp[TILE_M][TILE_N];
        UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < TILE_N; n++) tmp[m][n] = vp_zero();
        UNROLL for (uint32_t v = 0; v < nv; v++, at += LANES) tile_step(tmp, panel + (v + 1) * ROW, x, M, at);
        UNROLL for (int n = 0; n < TILE_N; n++)
        {
            const vp scale                               = vp_load(panel + n * LANES);
            UNROLL for (int m = 0; m < M; m++) sum[m][n] = vp_fma(tmp[m][n], scale, sum[m][n]);
        }
    }
}

enum tile_kind { TILE_DENSE, TILE_WORDS, TILE_BYTES };

INLINE void tile_kernel(const tile_run *t, const int M, const enum tile_kind kind)
{
    _Pragma("GCC unroll 1") for (int i = 0; i < PARTS * PANEL_ROWS / TILE_N; i++)
    {
        const int lane = i / (PANEL_ROWS / TILE_N) * PART_LANES, at = i % (PANEL_ROWS / TILE_N) * TILE_N * LANES + lane;
        const float *panel = t->panel + at;
        float       *acc   = t->acc + at;
        vp           sum[TILE_M][TILE_N];
        const float *x[TILE_M];
        UNROLL for (int m = 0; m < M; m++)
        {
            x[m] = t->x[m] + lane;
            UNROLL for (int n = 0; n < TILE_N; n++) sum[m][n] =
                t->fresh ? vp_zero() : vp_load(acc + (m * PANEL_ROWS + n) * LANES);
        }
        switch (kind) {
        case TILE_DENSE: tile_dense(t, panel, x, M, sum); break;
        case TILE_WORDS: tile_affine(t, panel, x, M, WORD_NIBBLES, sum); break;
        case TILE_BYTES: tile_affine(t, panel, x, M, t->nv, sum); break;
        }
        UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < TILE_N; n++)
            vp_store(acc + (m * PANEL_ROWS + n) * LANES, sum[m][n]);
    }
}

typedef void tile_fn(const tile_run *t);
#define TILE_KERNEL(kind, M) \
    static NOINLINE void tile_##kind##_##M(const tile_run *t) \
    { \
        tile_kernel(t, M, kind); \
    }
#define TILE_KERNELS(kind) TILE_KERNEL(kind, 1) TILE_KERNEL(kind, 2) TILE_KERNEL(kind, 3) TILE_KERNEL(kind, 4)
TILE_KERNELS(TILE_DENSE)
TILE_KERNELS(TILE_WORDS)
TILE_KERNELS(TILE_BYTES)

/* Up to TILE_M rows of x, all lanes and panel rows. */
static void tile_rows(const lin_layout *lo, float *acc, const float *const *x, unsigned m, const float *panel,
                      size_t piece)
{
#define TILE_FUNCTIONS(kind) \
    { \
        tile_##kind##_1, tile_##kind##_2, tile_##kind##_3, tile_##kind##_4 \
    }
    static tile_fn *const fns[][TILE_M] = {[TILE_DENSE] = TILE_FUNCTIONS(TILE_DENSE),
                                           [TILE_WORDS] = TILE_FUNCTIONS(TILE_WORDS),
                                           [TILE_BYTES] = TILE_FUNCTIONS(TILE_BYTES)};
#undef TILE_FUNCTIONS
    const enum tile_kind kind = !lo->affine ? TILE_DENSE : lo->nv == WORD_NIBBLES ? TILE_WORDS : TILE_BYTES;
    tile_run             t    = {.k = lin_piece_of(lo, piece), .nv = lo->nv, .fresh = piece == 0, .acc = acc};
    t.panel                   = panel + t.k.chunk * lo->panel_chunk;
    for (unsigned j = 0; j < m; j++) t.x[j] = x[j] + t.k.chunk * lo->x_chunk;
    fns[kind][m - 1](&t);
}

static void lin_tile(const lin_layout *lo, float *acc, const float *const *x, unsigned m, const float *panel,
                     size_t piece)
{
    for (unsigned j = 0; j < m; j += TILE_M)
        tile_rows(lo, acc + (size_t)j * PANEL_ROWS * LANES, x + j, m - j < TILE_M ? m - j : TILE_M, panel, piece);
}

static void lin_reduce(float *sums, const float *acc, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) vf_sum8(sums + i, acc + i * LANES);
    for (; i < n; i++) sums[i] = vf_sum(vf_load(acc + i * LANES));
}

INLINE void lanes_linear(cpu_isa *t)
{
    t->lin_dot    = lin_dot;
    t->lin_expand = lin_expand;
    t->lin_tile   = lin_tile;
    t->lin_reduce = lin_reduce;
}

#endif
