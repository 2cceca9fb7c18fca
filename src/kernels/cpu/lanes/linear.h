/* kernels/cpu/lanes/linear.h - scalar/linear.c on 16 lanes; linear_layout.h has
 * the order of operations.
 *
 * lin_dot decodes weights on the fly, some rows at a time with separate
 * accumulators: 4 bits once for up to 8 rows of x, the others, which are cheap
 * to decode, for up to FEW.  It prefetches PREFETCH_BYTES ahead of every row:
 * nearer or not at all costs up to half of the read bandwidth.  lin_tile multiplies
 * decoded panels; its accumulators stay in registers within a block. */
#ifndef KERNELS_CPU_LANES_LINEAR_H
#define KERNELS_CPU_LANES_LINEAR_H

#include <string.h>

enum { PREFETCH_BYTES = 8192, WORD_NIBBLES = 8, BLOCK_BYTES = 64, FEW = 4, PART_LANES = LANES / PARTS };

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

/* ---- dot: R weight rows times M <= FEW prepared rows ---- */

INLINE void dot_dense(const lin_weight *w, size_t row, const int R, const float *const *x, const int M,
                      const dtype type, float *const *y, size_t out)
{
    const size_t size = type == DTYPE_F32 ? 4 : 2, cols = w->cols;
    vf           acc[FEW][FEW];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_zero();
    for (size_t i = 0; i < cols; i += LANES) {
        UNROLL for (int r = 0; r < R; r++)
        {
            const uint8_t *p = w->data + (row + (size_t)r) * w->row_bytes;
            if (i % (64 / size) == 0) PREFETCH(p + i * size + PREFETCH_BYTES);
            const vf v                                   = load_float(p, type, i, cols);
            UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_fma(v, vf_load(x[m] + i), acc[r][m]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) y[m][out + (size_t)r] = vf_sum(acc[r][m]);
}

/* The 16 words (or, with 8 bits, nothing) of block b. */
INLINE vi block_words(const lin_weight *w, const uint8_t *row, size_t b)
{
    const size_t words = w->cols / WORD_NIBBLES, at = b * LANES;
    return words - at >= LANES ? vi_load(row + 4 * at) : vi_load_n(row + 4 * at, words - at);
}

INLINE void dot_affine(const lin_weight *w, size_t row, const int R, const float *const *x, const int M,
                       const bool four, const dtype type, float *const *y, size_t out)
{
    const lin_layout lo       = lin_layout_of(w->format, w->group, w->cols);
    const size_t     n_groups = w->cols / w->group;
    const vi         lane     = vi_scale_lanes(four, w->group);
    const int        step     = four ? (int)(LANES * WORD_NIBBLES / w->group) : 1;
    vf               acc[FEW][FEW];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_zero();
    const float *xc[FEW];
    UNROLL for (int m = 0; m < M; m++) xc[m] = x[m];

    for (size_t c = 0; c < lo.n_chunks; c++) {
        vf scale[FEW];
        UNROLL for (int r = 0; r < R; r++)
        {
            const size_t at                              = (row + (size_t)r) * w->scale_row_bytes;
            scale[r]                                     = load_float(w->scales + at, type, c * LANES, n_groups);
            const vf bias                                = load_float(w->biases + at, type, c * LANES, n_groups);
            UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_fma(bias, vf_load(xc[m]), acc[r][m]);
        }
        UNROLL for (int m = 0; m < M; m++) xc[m] += LANES;
        const uint32_t n_blocks = lin_chunk_blocks(&lo, c);
        for (uint32_t i = 0; i < n_blocks; i++) {
            const size_t b = c * lo.chunk_blocks + i;
            vf           tmp[FEW][FEW];
            UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) tmp[r][m] = vf_zero();
            if (four) {
                vi words[FEW];
                UNROLL for (int r = 0; r < R; r++)
                {
                    const uint8_t *p = w->data + (row + (size_t)r) * w->row_bytes;
                    PREFETCH(p + b * BLOCK_BYTES + PREFETCH_BYTES);
                    words[r] = block_words(w, p, b);
                }
                UNROLL for (int s = 0; s < WORD_NIBBLES; s++)
                {
                    UNROLL for (int r = 0; r < R; r++)
                    {
                        const vf q                                   = vf_nibble(words[r], s);
                        UNROLL for (int m = 0; m < M; m++) tmp[r][m] = vf_fma(q, vf_load(xc[m] + s * LANES), tmp[r][m]);
                    }
                }
            } else {
                for (uint32_t v = 0; v < lo.nv; v++) UNROLL for (int r = 0; r < R; r++)
                    {
                        const uint8_t *p = w->data + (row + (size_t)r) * w->row_bytes + b * w->group + v * LANES;
                        if (v % 4 == 0) PREFETCH(p + PREFETCH_BYTES);
                        const vf q                                   = vf_bytes(p);
                        UNROLL for (int m = 0; m < M; m++) tmp[r][m] = vf_fma(q, vf_load(xc[m] + v * LANES), tmp[r][m]);
                    }
            }
            UNROLL for (int r = 0; r < R; r++)
            {
                const vf s                                   = vf_pick(scale[r], lane, (int)i * step);
                UNROLL for (int m = 0; m < M; m++) acc[r][m] = vf_fma(tmp[r][m], s, acc[r][m]);
            }
            UNROLL for (int m = 0; m < M; m++) xc[m] += lo.nv * LANES;
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int m = 0; m < M; m++) y[m][out + (size_t)r] = vf_sum(acc[r][m]);
}

INLINE void dot_block(const lin_weight *w, size_t row, const int R, const float *const *x, const int M,
                      const k_format format, const dtype type, float *const *y, size_t out)
{
    switch (format) {
    case K_AFFINE4: dot_affine(w, row, R, x, M, true, type, y, out); break;
    case K_AFFINE8: dot_affine(w, row, R, x, M, false, type, y, out); break;
    default: dot_dense(w, row, R, x, M, type, y, out); break;
    }
}

/* All rows, R at a time: 4 with one x, 2 with more, so that all accumulators
 * stay in registers. */
INLINE void dot_rows(const lin_weight *w, size_t row0, size_t n, const float *const *x, const int M,
                     const k_format format, const dtype type, float *const *y)
{
    const int R = M == 1 ? DOT_R1 : DOT_RM;
    size_t    r = 0;
    for (; r + (size_t)R <= n; r += (size_t)R) dot_block(w, row0 + r, R, x, M, format, type, y, r);
    for (; r < n; r++) dot_block(w, row0 + r, 1, x, M, format, type, y, r);
}

/* ---- dot: 4 bits and more rows than FEW ---- */

/* Block b of R rows, one part: the lanes of one register.  Lanes meet in the
 * last sum alone, so each part can walk the block by itself, and R*M chains fit
 * the registers however many of them make 16 lanes. */
INLINE void words_part(const uint8_t *const *words, const int R, const float *const *x, const int M, size_t at,
                       const float *scale, float *acc)
{
    vp tmp[2][DOT_ROWS];
    vq codes[2];
    UNROLL for (int r = 0; r < R; r++)
    {
        codes[r]                                     = vq_load(words[r]);
        UNROLL for (int m = 0; m < M; m++) tmp[r][m] = vp_zero();
    }
    UNROLL for (int s = 0; s < WORD_NIBBLES; s++)
    {
        vp q[2];
        UNROLL for (int r = 0; r < R; r++) q[r] = vq_nibble(codes[r], s);
        UNROLL for (int m = 0; m < M; m++)
        {
            const vp xv                                  = vp_load(x[m] + at + s * LANES);
            UNROLL for (int r = 0; r < R; r++) tmp[r][m] = vp_fma(q[r], xv, tmp[r][m]);
        }
    }
    UNROLL for (int r = 0; r < R; r++)
    {
        const vp s = vp_load(scale + r * LANES);
        UNROLL for (int m = 0; m < M; m++)
        {
            float *a = acc + (r * M + m) * LANES;
            vp_store(a, vp_fma(tmp[r][m], s, vp_load(a)));
        }
    }
}

/* Blocks first .. first+n-1, all of one chunk, of R rows; acc [R][M][16]. */
INLINE void words_piece(const lin_weight *w, const lin_layout *lo, size_t row, const int R, const float *const *x,
                        const int M, const dtype type, float *acc, size_t first, size_t n, size_t ahead)
{
    const size_t c = first / lo->chunk_blocks, n_groups = w->cols / w->group, n_words = w->cols / WORD_NIBBLES;
    const vi     lane = vi_scale_lanes(true, w->group);
    const int    step = (int)(LANES * WORD_NIBBLES / w->group);
    size_t       at   = c * lo->x_chunk + LANES + (first - c * lo->chunk_blocks) * WORD_NIBBLES * LANES;
    vf           scales[2];
    UNROLL for (int r = 0; r < R; r++)
    {
        const size_t from = (row + (size_t)r) * w->scale_row_bytes;
        scales[r]         = load_float(w->scales + from, type, c * LANES, n_groups);
        if (first % lo->chunk_blocks != 0) continue;
        const vf bias = load_float(w->biases + from, type, c * LANES, n_groups);
        UNROLL for (int m = 0; m < M; m++)
        {
            float *a = acc + (r * M + m) * LANES;
            vf_store(a, vf_fma(bias, vf_load(x[m] + c * lo->x_chunk), vf_load(a)));
        }
    }
    for (size_t b = first; b < first + n; b++, at += WORD_NIBBLES * LANES) {
        _Alignas(64) float   scale[2 * LANES];
        _Alignas(64) uint8_t end[2][BLOCK_BYTES]; /* a short last block, the rest zero */
        const uint8_t       *words[2];
        UNROLL for (int r = 0; r < R; r++)
        {
            words[r] = w->data + (row + (size_t)r) * w->row_bytes + b * BLOCK_BYTES;
            PREFETCH(words[r] + ahead);
            vf_store(scale + r * LANES, vf_pick(scales[r], lane, (int)(b - c * lo->chunk_blocks) * step));
            if (n_words - b * LANES >= LANES) continue;
            vi_store(end[r], block_words(w, words[r] - b * BLOCK_BYTES, b));
            words[r] = end[r];
        }
        _Pragma("GCC unroll 1") for (int part = 0; part < PARTS; part++)
        {
            words_part(words, R, x, M, at + (size_t)part * PART_LANES, scale + part * PART_LANES,
                       acc + part * PART_LANES);
            UNROLL for (int r = 0; r < R; r++) words[r] += PART_LANES * 4;
        }
    }
}

/* The same of one row where a register holds all lanes: the sums stay in registers
 * for the whole piece. */
INLINE void words_row(const lin_weight *w, const lin_layout *lo, size_t row, const float *const *x, const int M,
                      const dtype type, float *acc, size_t first, size_t n, size_t ahead)
{
    const size_t   c = first / lo->chunk_blocks, n_groups = w->cols / w->group;
    const vi       lane  = vi_scale_lanes(true, w->group);
    const int      step  = (int)(LANES * WORD_NIBBLES / w->group);
    const uint8_t *p     = w->data + row * w->row_bytes;
    const size_t   from  = row * w->scale_row_bytes;
    const vf       scale = load_float(w->scales + from, type, c * LANES, n_groups);
    size_t         at    = c * lo->x_chunk + LANES + (first - c * lo->chunk_blocks) * WORD_NIBBLES * LANES;
    vf             a[DOT_ROWS];
    UNROLL for (int m = 0; m < M; m++) a[m] = vf_load(acc + m * LANES);
    if (first % lo->chunk_blocks == 0) {
        const vf bias                           = load_float(w->biases + from, type, c * LANES, n_groups);
        UNROLL for (int m = 0; m < M; m++) a[m] = vf_fma(bias, vf_load(x[m] + c * lo->x_chunk), a[m]);
    }
    for (size_t b = first; b < first + n; b++, at += WORD_NIBBLES * LANES) {
        PREFETCH(p + b * BLOCK_BYTES + ahead);
        const vi words = block_words(w, p, b);
        vf       tmp[DOT_ROWS];
        UNROLL for (int m = 0; m < M; m++) tmp[m] = vf_zero();
        UNROLL for (int s = 0; s < WORD_NIBBLES; s++)
        {
            const vf q                                = vf_nibble(words, s);
            UNROLL for (int m = 0; m < M; m++) tmp[m] = vf_fma(q, vf_load(x[m] + at + s * LANES), tmp[m]);
        }
        const vf sc                             = vf_pick(scale, lane, (int)(b - c * lo->chunk_blocks) * step);
        UNROLL for (int m = 0; m < M; m++) a[m] = vf_fma(tmp[m], sc, a[m]);
    }
    UNROLL for (int m = 0; m < M; m++) vf_store(acc + m * LANES, a[m]);
}

/* Rows in groups, K in pieces: a piece of all x stays in L1 while a group's rows
 * pass over it, and the sums wait in memory.  What is fetched ahead is the next
 * group's, at about PREFETCH_BYTES. */
INLINE void words_rows(const lin_weight *w, size_t row0, size_t n, const float *const *x, const int M, const dtype type,
                       float *const *y)
{
    enum { LEAST = 4, MOST = 16 }; /* weight rows */
    const lin_layout   lo    = lin_layout_of(K_AFFINE4, w->group, w->cols);
    const size_t       piece = lo.chunk_blocks < DOT_PIECE ? lo.chunk_blocks : DOT_PIECE; /* of one chunk */
    const size_t       near  = PREFETCH_BYTES / w->row_bytes / LEAST * LEAST;
    const size_t       group = near < LEAST ? LEAST : near > MOST ? MOST : near;
    _Alignas(64) float acc[MOST * DOT_ROWS * LANES], sums[MOST * DOT_ROWS];
    for (size_t r0 = 0; r0 < n; r0 += group) {
        const size_t rows = n - r0 < group ? n - r0 : group;
        memset(acc, 0, (rows * (size_t)M + 7) / 8 * 8 * LANES * sizeof *acc); /* eight are added together */
        for (size_t b = 0; b < lo.n_blocks; b += piece) {
            const size_t blocks = lo.n_blocks - b < piece ? lo.n_blocks - b : piece;
            size_t       r      = 0;
            for (; PARTS == 1 && r < rows; r++)
                words_row(w, &lo, row0 + r0 + r, x, M, type, acc + r * (size_t)M * LANES, b, blocks,
                          group * w->row_bytes);
            for (; r + DOT_R8 <= rows; r += DOT_R8)
                words_piece(w, &lo, row0 + r0 + r, DOT_R8, x, M, type, acc + r * (size_t)M * LANES, b, blocks,
                            group * w->row_bytes);
            if (r < rows)
                words_piece(w, &lo, row0 + r0 + r, 1, x, M, type, acc + r * (size_t)M * LANES, b, blocks,
                            group * w->row_bytes);
        }
        for (size_t i = 0; i < rows * (size_t)M; i += 8) vf_sum8(sums + i, acc + i * LANES);
        for (size_t r = 0; r < rows; r++)
            UNROLL for (int m = 0; m < M; m++) y[m][r0 + r] = sums[r * (size_t)M + (size_t)m];
    }
}

#define DOT_FUNCTION(name, M, format, type) \
    static void name(const lin_weight *w, size_t row0, size_t n, const float *const *x, float *const *y) \
    { \
        dot_rows(w, row0, n, x, M, format, type, y); \
    }
#define DOT_FUNCTIONS(name, format, type) \
    DOT_FUNCTION(name##_1, 1, format, type) \
    DOT_FUNCTION(name##_2, 2, format, type) \
    DOT_FUNCTION(name##_3, 3, format, type) \
    DOT_FUNCTION(name##_4, 4, format, type)
#define WORDS_FUNCTION(name, M, type) \
    static void name(const lin_weight *w, size_t row0, size_t n, const float *const *x, float *const *y) \
    { \
        words_rows(w, row0, n, x, M, type, y); \
    }
#define WORDS_FUNCTIONS(name, type) \
    WORDS_FUNCTION(name##_5, 5, type) \
    WORDS_FUNCTION(name##_6, 6, type) \
    WORDS_FUNCTION(name##_7, 7, type) \
    WORDS_FUNCTION(name##_8, 8, type)
typedef void dot_fn(const lin_weight *w, size_t row0, size_t n, const float *const *x, float *const *y);

DOT_FUNCTIONS(dot_f32, K_F32, DTYPE_F32)
DOT_FUNCTIONS(dot_f16, K_F16, DTYPE_F16)
DOT_FUNCTIONS(dot_bf16, K_BF16, DTYPE_BF16)
DOT_FUNCTIONS(dot_a4_f32, K_AFFINE4, DTYPE_F32)
DOT_FUNCTIONS(dot_a4_f16, K_AFFINE4, DTYPE_F16)
DOT_FUNCTIONS(dot_a4_bf16, K_AFFINE4, DTYPE_BF16)
WORDS_FUNCTIONS(dot_a4_f32, DTYPE_F32)
WORDS_FUNCTIONS(dot_a4_f16, DTYPE_F16)
WORDS_FUNCTIONS(dot_a4_bf16, DTYPE_BF16)
DOT_FUNCTIONS(dot_a8_f32, K_AFFINE8, DTYPE_F32)
DOT_FUNCTIONS(dot_a8_f16, K_AFFINE8, DTYPE_F16)
DOT_FUNCTIONS(dot_a8_bf16, K_AFFINE8, DTYPE_BF16)

static void lin_dot(const lin_weight *w, size_t row0, size_t n, const float *const *x, unsigned m, float *const *y)
{
#define DOT_CASES(name) \
    { \
        name##_1, name##_2, name##_3, name##_4 \
    }
#define WORDS_CASES(name) \
    { \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8 \
    }
    static dot_fn *const dense[][FEW] = {
        [K_F32] = DOT_CASES(dot_f32), [K_F16] = DOT_CASES(dot_f16), [K_BF16] = DOT_CASES(dot_bf16)};
    static dot_fn *const affine4[][DOT_ROWS] = {[DTYPE_F32]  = WORDS_CASES(dot_a4_f32),
                                                [DTYPE_F16]  = WORDS_CASES(dot_a4_f16),
                                                [DTYPE_BF16] = WORDS_CASES(dot_a4_bf16)};
    static dot_fn *const affine8[][FEW]      = {[DTYPE_F32]  = DOT_CASES(dot_a8_f32),
                                                [DTYPE_F16]  = DOT_CASES(dot_a8_f16),
                                                [DTYPE_BF16] = DOT_CASES(dot_a8_bf16)};
#undef DOT_CASES
#undef WORDS_CASES
    dot_fn *const *fn   = w->format == K_AFFINE4   ? affine4[w->scale_type]
                          : w->format == K_AFFINE8 ? affine8[w->scale_type]
                                                   : dense[w->format];
    const unsigned most = w->format == K_AFFINE4 ? DOT_ROWS : FEW;
    for (unsigned j = 0; j < m; j += most) fn[(m - j < most ? m - j : most) - 1](w, row0, n, x + j, y + j);
}

/* ---- panels ---- */

INLINE void expand_dense(const lin_weight *w, size_t row0, size_t n, float *panel, const dtype type)
{
    for (size_t i = 0; i < w->cols; i += LANES)
        for (size_t r = 0; r < PANEL_ROWS; r++, panel += LANES)
            vf_store(panel, r < n ? load_float(w->data + (row0 + r) * w->row_bytes, type, i, w->cols) : vf_zero());
}

INLINE void expand_affine(const lin_weight *w, size_t row0, size_t n, float *panel, const bool four, const dtype type)
{
    const lin_layout lo       = lin_layout_of(w->format, w->group, w->cols);
    const size_t     n_groups = w->cols / w->group;
    const vi         lane     = vi_scale_lanes(four, w->group);
    const int        step     = four ? (int)(LANES * WORD_NIBBLES / w->group) : 1;
    for (size_t c = 0; c < lo.n_chunks; c++) {
        vf scale[PANEL_ROWS];
        for (size_t r = 0; r < PANEL_ROWS; r++, panel += LANES) {
            const size_t at = (row0 + r) * w->scale_row_bytes;
            scale[r]        = r < n ? load_float(w->scales + at, type, c * LANES, n_groups) : vf_zero();
            vf_store(panel, r < n ? load_float(w->biases + at, type, c * LANES, n_groups) : vf_zero());
        }
        for (uint32_t i = 0; i < lin_chunk_blocks(&lo, c); i++) {
            const size_t b = c * lo.chunk_blocks + i;
            for (size_t r = 0; r < PANEL_ROWS; r++) vf_store(panel + r * LANES, vf_pick(scale[r], lane, (int)i * step));
            panel += PANEL_ROWS * LANES;
            for (size_t r = 0; r < PANEL_ROWS; r++) {
                const uint8_t *p  = w->data + (row0 + r) * w->row_bytes;
                float         *to = panel + r * LANES;
                if (r >= n) {
                    for (uint32_t v = 0; v < lo.nv; v++, to += PANEL_ROWS * LANES) vf_store(to, vf_zero());
                } else if (four) {
                    const vi words = block_words(w, p, b);
                    UNROLL for (int s = 0; s < WORD_NIBBLES; s++, to += PANEL_ROWS * LANES)
                        vf_store(to, vf_nibble(words, s));
                } else {
                    for (uint32_t v = 0; v < lo.nv; v++, to += PANEL_ROWS * LANES)
                        vf_store(to, vf_bytes(p + b * w->group + v * LANES));
                }
            }
            panel += (size_t)lo.nv * PANEL_ROWS * LANES;
        }
    }
}

INLINE void expand_typed(const lin_weight *w, size_t row0, size_t n, float *panel, const dtype type)
{
    if (w->format == K_AFFINE4)
        expand_affine(w, row0, n, panel, true, type);
    else
        expand_affine(w, row0, n, panel, false, type);
}

static void lin_expand(const lin_weight *w, size_t row0, size_t n, float *panel)
{
    switch (w->format) {
    case K_F32: expand_dense(w, row0, n, panel, DTYPE_F32); return;
    case K_F16: expand_dense(w, row0, n, panel, DTYPE_F16); return;
    case K_BF16: expand_dense(w, row0, n, panel, DTYPE_BF16); return;
    case K_AFFINE4:
    case K_AFFINE8:
    default: break;
    }
    switch (w->scale_type) {
    case DTYPE_F32: expand_typed(w, row0, n, panel, DTYPE_F32); break;
    case DTYPE_F16: expand_typed(w, row0, n, panel, DTYPE_F16); break;
    default: expand_typed(w, row0, n, panel, DTYPE_BF16); break;
    }
}

/* ---- tiles: M prepared rows times N of the panel's 4 rows, one chunk ---- */

INLINE void tile_dense(const lin_layout *lo, float *acc, const float *const *x, const int M, const float *panel,
                       const int N, size_t chunk)
{
    vf           a[TILE_ROWS][PANEL_ROWS];
    const float *xs[TILE_ROWS];
    UNROLL for (int m = 0; m < M; m++)
    {
        xs[m] = x[m] + chunk * lo->x_chunk;
        UNROLL for (int n = 0; n < N; n++) a[m][n] =
            chunk == 0 ? vf_zero() : vf_load(acc + (m * PANEL_ROWS + n) * LANES);
    }
    panel += chunk * lo->panel_chunk;
    const uint32_t n_vectors = lin_chunk_blocks(lo, chunk);
    for (uint32_t v = 0; v < n_vectors; v++, panel += PANEL_ROWS * LANES) {
        vf b[PANEL_ROWS];
        UNROLL for (int n = 0; n < N; n++) b[n] = vf_load(panel + n * LANES);
        UNROLL for (int m = 0; m < M; m++)
        {
            const vf xv                                = vf_load(xs[m] + v * LANES);
            UNROLL for (int n = 0; n < N; n++) a[m][n] = vf_fma(b[n], xv, a[m][n]);
        }
    }
    UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < N; n++)
        vf_store(acc + (m * PANEL_ROWS + n) * LANES, a[m][n]);
}

/* The sums live on the stack between blocks: one load, one store and one FMA
 * each per block.  (Adding through `acc` makes gcc keep a copy there as well.) */
INLINE void tile_affine(const lin_layout *lo, float *acc, const float *const *x, const int M, const float *panel,
                        const int N, size_t chunk, const uint32_t nv)
{
    vf           sum[TILE_ROWS][PANEL_ROWS];
    const float *xs[TILE_ROWS];
    panel += chunk * lo->panel_chunk;
    UNROLL for (int m = 0; m < M; m++)
    {
        xs[m]       = x[m] + chunk * lo->x_chunk;
        const vf xv = vf_load(xs[m]);
        UNROLL for (int n = 0; n < N; n++)
        {
            const vf before = chunk == 0 ? vf_zero() : vf_load(acc + (m * PANEL_ROWS + n) * LANES);
            sum[m][n]       = vf_fma(vf_load(panel + n * LANES), xv, before);
        }
        xs[m] += LANES;
    }
    panel += PANEL_ROWS * LANES;
    const uint32_t n_blocks = lin_chunk_blocks(lo, chunk);
    size_t         at       = 0;
    for (uint32_t b = 0; b < n_blocks; b++) {
        const float *scale = panel;
        panel += PANEL_ROWS * LANES;
        vf a[TILE_ROWS][PANEL_ROWS];
        UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < N; n++) a[m][n] = vf_zero();
        for (uint32_t v = 0; v < nv; v++, panel += PANEL_ROWS * LANES, at += LANES) {
            vf q[PANEL_ROWS];
            UNROLL for (int n = 0; n < N; n++) q[n] = vf_load(panel + n * LANES);
            UNROLL for (int m = 0; m < M; m++)
            {
                const vf xv                                = vf_load(xs[m] + at);
                UNROLL for (int n = 0; n < N; n++) a[m][n] = vf_fma(q[n], xv, a[m][n]);
            }
        }
        UNROLL for (int n = 0; n < N; n++)
        {
            const vf s                                   = vf_load(scale + n * LANES);
            UNROLL for (int m = 0; m < M; m++) sum[m][n] = vf_fma(a[m][n], s, sum[m][n]);
        }
    }
    UNROLL for (int m = 0; m < M; m++) UNROLL for (int n = 0; n < N; n++)
        vf_store(acc + (m * PANEL_ROWS + n) * LANES, sum[m][n]);
}

INLINE void tile_m(const lin_layout *lo, float *acc, const float *const *x, const int M, const float *panel,
                   size_t chunk)
{
    UNROLL for (int n = 0; n < PANEL_ROWS; n += TILE_N)
    {
        if (!lo->affine)
            tile_dense(lo, acc + n * LANES, x, M, panel + n * LANES, TILE_N, chunk);
        else if (lo->nv == WORD_NIBBLES)
            tile_affine(lo, acc + n * LANES, x, M, panel + n * LANES, TILE_N, chunk, WORD_NIBBLES);
        else
            tile_affine(lo, acc + n * LANES, x, M, panel + n * LANES, TILE_N, chunk, lo->nv);
    }
}

static void lin_tile(const lin_layout *lo, float *acc, const float *const *x, unsigned m, const float *panel,
                     size_t chunk)
{
    unsigned j = 0;
    for (; j + TILE_M <= m; j += TILE_M) tile_m(lo, acc + j * PANEL_ROWS * LANES, x + j, TILE_M, panel, chunk);
    if (TILE_M > 3 && j + 3 <= m) {
        tile_m(lo, acc + j * PANEL_ROWS * LANES, x + j, 3, panel, chunk);
        j += 3;
    }
    if (TILE_M > 2 && j + 2 <= m) {
        tile_m(lo, acc + j * PANEL_ROWS * LANES, x + j, 2, panel, chunk);
        j += 2;
    }
    if (j < m) tile_m(lo, acc + j * PANEL_ROWS * LANES, x + j, 1, panel, chunk);
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
