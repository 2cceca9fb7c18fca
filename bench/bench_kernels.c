/* bench/bench_kernels.c - the CPU's inner loops, one by one, on one thread; then, on all
 * cores or as many threads as the first argument says, linears of the 0.8b shape with few
 * rows of x, and its head in every format with one row.
 *
 * Prints tab-separated: kernel, instruction set, size, minimum and median
 * nanoseconds a call, and GB/s and GFLOP/s at the median.  The sets (of a
 * linear: the numbers of rows) take turns within a round, so that a neighbour's
 * noise hits all of them.  Minimum and median both, because on a shared machine
 * the minimum is the code and the gap is the neighbour. */
#include "base/clock.h"
#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "quant/blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15, MAX_SETS = 4, COLS = 1024, ROWS = 512, HEAD = 128, KEY_DIM = 256 };
static const double ROUND_NS = 2e6; /* a round calls each kernel for about so long */

typedef struct buffers {
    float       *x, *y, *z, *w, *panel, *acc;
    uint8_t     *codes, *scales, *biases;
    lin_weight   weight;
    const float *rows[TILE_ROWS];
    float       *results[DOT_ROWS];
} buffers;

/* `bytes`: the traffic a call cannot avoid; `flops`: its multiplies and adds. */
typedef struct bench_entry {
    const char *name;
    const char *size;
    double      bytes, flops;
    k_format    format;
    void (*run)(const cpu_isa *t, buffers *b);
} bench_entry;

static void run_rmsnorm(const cpu_isa *t, buffers *b)
{
    t->rmsnorm(b->y, b->x, b->w, COLS, 1e-6f);
}

static void run_swiglu(const cpu_isa *t, buffers *b)
{
    t->swiglu(b->y, b->x, b->z, COLS);
}

static void run_dot1(const cpu_isa *t, buffers *b)
{
    t->lin_dot(&b->weight, 0, ROWS, b->rows, 1, b->results);
}

static void run_dot4(const cpu_isa *t, buffers *b)
{
    t->lin_dot(&b->weight, 0, ROWS, b->rows, 4, b->results);
}

static void run_decoded1(const cpu_isa *t, buffers *b)
{
    t->block_dot(&b->weight, 0, ROWS, b->rows, 1, b->results);
}

static void run_decoded_panel(const cpu_isa *t, buffers *b)
{
    t->block_expand(&b->weight, 0, PANEL_ROWS, b->panel);
}

/* Trellis codes of three bits: the same numbers of weights along their columns and across them. */
static lin_weight trellis(const buffers *b, k_format f)
{
    const uint32_t coded = f == K_TRELLIS ? COLS : ROWS;
    lin_weight     w     = b->weight;
    w.bits               = 3;
    w.run                = coded / TRELLIS_BLOCK;
    w.row_bytes          = coded * 3 / 8;
    w.run_bytes          = w.row_bytes * COLS;
    w.scale_type         = DTYPE_F16;
    w.scale_row_bytes    = 2;
    return w;
}

static void run_trellis1(const cpu_isa *t, buffers *b)
{
    const lin_weight w = trellis(b, b->weight.format);
    t->block_dot(&w, 0, ROWS, b->rows, 1, b->results);
}

static void run_trellis4(const cpu_isa *t, buffers *b)
{
    const lin_weight w = trellis(b, b->weight.format);
    t->block_dot(&w, 0, ROWS, b->rows, 4, b->results);
}

static void run_trellis_panels(const cpu_isa *t, buffers *b)
{
    const lin_weight w = trellis(b, b->weight.format);
    t->block_expand(&w, 0, 4 * PANEL_ROWS, b->panel);
}

static void run_expand(const cpu_isa *t, buffers *b)
{
    t->lin_expand(&b->weight, 0, PANEL_ROWS, b->panel);
}

static void run_tile(const cpu_isa *t, buffers *b)
{
    const lin_layout lo = lin_layout_of(b->weight.format, b->weight.group, COLS);
    for (size_t p = 0; p < lo.n_pieces; p++) t->lin_tile(&lo, b->acc, b->rows, TILE_ROWS, b->panel, p);
}

static void run_delta(const cpu_isa *t, buffers *b)
{
    t->delta_token(b->y, b->w, HEAD, b->x, b->x + HEAD, b->x + 2 * HEAD, 0.5f, 0.5f, HEAD, HEAD);
}

static void scores_of(const cpu_isa *t, buffers *b, k_kv_form form)
{
    const kv_rows keys = {b->codes, form, KEY_DIM};
    t->scores(b->y, b->rows, ATTENTION_TILE, &keys, K_PAGE, 0.0625f);
}

static void values_of(const cpu_isa *t, buffers *b, k_kv_form form)
{
    const float   rescale[ATTENTION_TILE] = {0.5f, 0.5f, 0.5f, 0.5f};
    const size_t  nk[ATTENTION_TILE]      = {K_PAGE, K_PAGE, K_PAGE, K_PAGE};
    const kv_rows values                  = {b->codes, form, KEY_DIM};
    t->values(b->results, rescale, b->x, ATTENTION_TILE, nk, &values);
}

static const k_kv_form bf16 = {K_KV_BF16, 0}, affine8 = {K_KV_AFFINE8, 64}, affine4 = {K_KV_AFFINE4, 64};

static void run_scores(const cpu_isa *t, buffers *b)
{
    scores_of(t, b, bf16);
}
static void run_scores8(const cpu_isa *t, buffers *b)
{
    scores_of(t, b, affine8);
}
static void run_scores4(const cpu_isa *t, buffers *b)
{
    scores_of(t, b, affine4);
}
static void run_values(const cpu_isa *t, buffers *b)
{
    values_of(t, b, bf16);
}
static void run_values8(const cpu_isa *t, buffers *b)
{
    values_of(t, b, affine8);
}
static void run_values4(const cpu_isa *t, buffers *b)
{
    values_of(t, b, affine4);
}

#define MACS (2.0 * ROWS * COLS)
#define ATTENTION_FLOPS (2.0 * ATTENTION_TILE * K_PAGE * KEY_DIM)
static const bench_entry entries[] = {
    {"rmsnorm", "1024", 3.0 * COLS * 4, 4.0 * COLS, K_F32, run_rmsnorm},
    {"swiglu", "1024", 3.0 * COLS * 4, 0, K_F32, run_swiglu},
    {"dot bf16 1 row", "512x1024", ROWS *COLS * 2.0, MACS, K_BF16, run_dot1},
    {"dot affine8 1 row", "512x1024", ROWS *COLS * 1.0625, MACS, K_AFFINE8, run_dot1},
    {"dot affine4 1 row", "512x1024", ROWS *COLS * 0.5625, MACS, K_AFFINE4, run_dot1},
    {"dot affine4 4 rows", "512x1024", ROWS *COLS * 0.5625, 4 * MACS, K_AFFINE4, run_dot4},
    {"dot affine2 1 row", "512x1024", ROWS *COLS * 0.3125, MACS, K_AFFINE2, run_decoded1},
    {"dot affine3 1 row", "512x1024", ROWS *COLS * 0.4375, MACS, K_AFFINE3, run_decoded1},
    {"dot affine5 1 row", "512x1024", ROWS *COLS * 0.6875, MACS, K_AFFINE5, run_decoded1},
    {"dot affine6 1 row", "512x1024", ROWS *COLS * 0.8125, MACS, K_AFFINE6, run_decoded1},
    {"dot mxfp4 1 row", "512x1024", ROWS *COLS * 0.53125, MACS, K_MLX_MXFP4, run_decoded1},
    {"dot mxfp8 1 row", "512x1024", ROWS *COLS * 1.03125, MACS, K_MLX_MXFP8, run_decoded1},
    {"dot nvfp4 1 row", "512x1024", ROWS *COLS * 0.5625, MACS, K_MLX_NVFP4, run_decoded1},
    {"dot q8_0 1 row", "512x1024", ROWS *COLS * 272 / 256.0, MACS, K_Q8_0, run_decoded1},
    {"dot q4_0 1 row", "512x1024", ROWS *COLS * 144 / 256.0, MACS, K_Q4_0, run_decoded1},
    {"dot q5_0 1 row", "512x1024", ROWS *COLS * 176 / 256.0, MACS, K_Q5_0, run_decoded1},
    {"dot q4_k 1 row", "512x1024", ROWS *COLS * 144 / 256.0, MACS, K_Q4_K, run_decoded1},
    {"dot q5_k 1 row", "512x1024", ROWS *COLS * 176 / 256.0, MACS, K_Q5_K, run_decoded1},
    {"dot q6_k 1 row", "512x1024", ROWS *COLS * 210 / 256.0, MACS, K_Q6_K, run_decoded1},
    {"dot q3_k 1 row", "512x1024", ROWS *COLS * 110 / 256.0, MACS, K_Q3_K, run_decoded1},
    {"dot q2_k 1 row", "512x1024", ROWS *COLS * 84 / 256.0, MACS, K_Q2_K, run_decoded1},
    {"dot iq4_xs 1 row", "512x1024", ROWS *COLS * 136 / 256.0, MACS, K_IQ4_XS, run_decoded1},
    {"dot trellis3 1 row", "512x1024", ROWS *COLS * 0.375, MACS, K_TRELLIS, run_trellis1},
    {"dot trellis3 4 rows", "512x1024", ROWS *COLS * 0.375, 4 * MACS, K_TRELLIS, run_trellis4},
    {"across trellis3 1 row", "512x1024", ROWS *COLS * 0.375, MACS, K_TRELLIS_ACROSS, run_trellis1},
    {"across trellis3 4 rows", "512x1024", ROWS *COLS * 0.375, 4 * MACS, K_TRELLIS_ACROSS, run_trellis4},
    {"expand trellis3", "16x1024", 4 * PANEL_ROWS *COLS * 4.375, 0, K_TRELLIS, run_trellis_panels},
    {"expand trellis3 across", "16x1024", 4 * PANEL_ROWS *COLS * 4.375, 0, K_TRELLIS_ACROSS, run_trellis_panels},
    {"expand affine5", "4x1024", PANEL_ROWS *COLS * 4.6875, 0, K_AFFINE5, run_decoded_panel},
    {"expand affine4", "4x1024", PANEL_ROWS *COLS * 4.5, 0, K_AFFINE4, run_expand},
    {"tile bf16", "6x4x1024", 0, 2.0 * TILE_ROWS *PANEL_ROWS *COLS, K_BF16, run_tile},
    {"tile affine4", "6x4x1024", 0, 2.0 * TILE_ROWS *PANEL_ROWS *COLS, K_AFFINE4, run_tile},
    {"delta token", "128x128", 2.0 * HEAD *HEAD * 4, 7.0 * HEAD *HEAD, K_F32, run_delta},
    {"scores bf16", "4x64x256", K_PAGE *KEY_DIM * 2.0, ATTENTION_FLOPS, K_F32, run_scores},
    {"scores affine8", "4x64x256", K_PAGE *KEY_DIM * 1.0625, ATTENTION_FLOPS, K_F32, run_scores8},
    {"scores affine4", "4x64x256", K_PAGE *KEY_DIM * 0.5625, ATTENTION_FLOPS, K_F32, run_scores4},
    {"values bf16", "4x64x256", K_PAGE *KEY_DIM * 2.0, ATTENTION_FLOPS, K_F32, run_values},
    {"values affine8", "4x64x256", K_PAGE *KEY_DIM * 1.0625, ATTENTION_FLOPS, K_F32, run_values8},
    {"values affine4", "4x64x256", K_PAGE *KEY_DIM * 0.5625, ATTENTION_FLOPS, K_F32, run_values4},
};

static bool buffers_new(buffers *b)
{
    enum { FLOATS = 1 << 16 };
    memset(b, 0, sizeof *b);
    float **floats[] = {&b->x, &b->y, &b->z, &b->w, &b->panel, &b->acc};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        *floats[i] = mem_aligned(FLOATS, sizeof(float));
        if (*floats[i] == NULL) return false;
        for (size_t j = 0; j < FLOATS; j++) (*floats[i])[j] = 0.001f * (float)(j % 17);
    }
    b->codes  = mem_aligned((size_t)ROWS * COLS * 4, 1);
    b->scales = mem_aligned((size_t)ROWS * COLS, 1);
    b->biases = mem_aligned((size_t)ROWS * COLS, 1);
    if (b->codes == NULL || b->scales == NULL || b->biases == NULL) return false;
    for (size_t j = 0; j < (size_t)ROWS * COLS; j++)
        b->codes[j] = j % 2 != 0 ? 0x3D : (uint8_t)(j * 7); /* about 0.04 as bf16: no subnormals */
    memset(b->scales, 0x3D, (size_t)ROWS * COLS);           /* likewise; 2^-66 and 0.2 where a scale is a byte */
    memset(b->biases, 0x3D, (size_t)ROWS * COLS);
    for (size_t i = 0; i < TILE_ROWS; i++) b->rows[i] = b->x + i * (COLS + 80);
    for (size_t i = 0; i < DOT_ROWS; i++) b->results[i] = b->y + i * COLS;
    return true;
}

static void buffers_free(buffers *b)
{
    void *all[] = {b->x, b->y, b->z, b->w, b->panel, b->acc, b->codes, b->scales, b->biases};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
}

/* Everything about a matrix but where it is. */
static lin_weight weight_of(k_format f, uint32_t rows, uint32_t cols)
{
    const uint32_t bits  = f == K_F32 ? 32 : k_is_grouped(f) ? k_code_bits(f) : 16;
    const uint32_t group = f == K_MLX_NVFP4 ? 16 : f == K_MLX_MXFP4 || f == K_MLX_MXFP8 ? 32 : 64;
    const dtype    type  = k_is_affine(f) ? DTYPE_BF16 : DTYPE_U8;
    return (lin_weight){.format     = f,
                        .rows       = rows,
                        .cols       = cols,
                        .group      = group,
                        .scale_type = type,
                        .row_bytes  = k_is_block(f) ? blocks_bytes(k_block_type(f), cols) : (size_t)cols * bits / 8,
                        .scale_row_bytes = k_is_grouped(f) ? (size_t)cols / group * dtype_table[type].bytes : 0};
}

static void set_weight(buffers *b, k_format f)
{
    b->weight        = weight_of(f, ROWS, COLS);
    b->weight.data   = b->codes;
    b->weight.scales = b->scales;
    b->weight.biases = b->biases;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double time_calls(const bench_entry *e, const cpu_isa *t, buffers *b, size_t calls)
{
    const uint64_t start = clock_ns();
    for (size_t i = 0; i < calls; i++) e->run(t, b);
    return (double)(clock_ns() - start) / (double)calls;
}

static void measure(const bench_entry *e, const cpu_isa *sets, size_t n_sets, buffers *b)
{
    double ns[MAX_SETS][ROUNDS];
    size_t calls[MAX_SETS];
    set_weight(b, e->format);
    for (size_t s = 0; s < n_sets; s++) { /* warms up and finds how many calls fill a round */
        const double one = time_calls(e, &sets[s], b, 3);
        calls[s]         = one < ROUND_NS ? (size_t)(ROUND_NS / one) : 1;
    }
    for (int r = 0; r < ROUNDS; r++)
        for (size_t s = 0; s < n_sets; s++) ns[s][r] = time_calls(e, &sets[s], b, calls[s]);
    for (size_t s = 0; s < n_sets; s++) {
        qsort(ns[s], ROUNDS, sizeof ns[s][0], by_value);
        const double median = ns[s][ROUNDS / 2];
        printf("%s\t%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\n", e->name, sets[s].name, e->size, ns[s][0], median,
               e->bytes / median, e->flops / median);
    }
}

/* ---- linears: the operation, over weights that come from memory ---- */

static const uint32_t linear_shapes[][2] = {{6144, 1024}, {2048, 1024}, {1024, 2048},
                                            {3584, 1024}, {1024, 3584}, {248320, 1024}};
static const uint32_t linear_rows[]      = {1, 2, 3, 4, 6, 8, 12, 16, 24};
enum { N_LINEAR_ROWS = sizeof linear_rows / sizeof *linear_rows, MAX_M = 24, MAX_K = 3584, MAX_N = 248320 };

typedef struct linear_bench {
    kernels *k;
    uint8_t *codes, *scales; /* of the largest matrix; smaller ones take turns through it */
    float   *x, *y;
    size_t   turn;
} linear_bench;

/* Matrix number `turn` of as many as fit: the caches have lost it since its last turn. */
static lin_weight next_matrix(linear_bench *b, uint32_t rows, uint32_t cols)
{
    const size_t mats = (size_t)MAX_N * COLS / ((size_t)rows * cols), at = b->turn++ % mats * rows;
    lin_weight   w = weight_of(K_AFFINE4, rows, cols);
    w.data         = b->codes + at * w.row_bytes;
    w.scales       = b->scales + at * w.scale_row_bytes;
    w.biases       = w.scales;
    return w;
}

static void measure_linear(linear_bench *b, uint32_t rows, uint32_t cols)
{
    double       ns[N_LINEAR_ROWS][ROUNDS];
    const double macs  = (double)rows * cols;
    const size_t calls = macs < 1e8 ? 4 : 1;
    for (int r = -1; r < ROUNDS; r++) /* the first round warms up */
        for (size_t i = 0; i < N_LINEAR_ROWS; i++) {
            const uint64_t start = clock_ns();
            for (size_t c = 0; c < calls; c++) {
                const lin_job job = {.w = next_matrix(b, rows, cols), .y = b->y, .n = linear_rows[i]};
                linear_run(cpu_of(b->k), b->x, linear_rows[i], &job, 1);
            }
            ns[i][r < 0 ? 0 : r] = (double)(clock_ns() - start) / (double)calls;
        }
    for (size_t i = 0; i < N_LINEAR_ROWS; i++) {
        qsort(ns[i], ROUNDS, sizeof ns[i][0], by_value);
        const double median = ns[i][ROUNDS / 2];
        printf("linear affine4 %u rows\t%s\t%ux%u\t%.1f\t%.1f\t%.1f\t%.1f\n", linear_rows[i], b->k->isa, rows, cols,
               ns[i][0], median, macs * 0.5625 / median, 2 * macs * linear_rows[i] / median);
    }
}

static void measure_head(linear_bench *b, const char *name, k_format format)
{
    double       ns[ROUNDS];
    lin_weight   w     = weight_of(format, MAX_N, COLS);
    const double macs  = (double)MAX_N * COLS;
    const double bytes = (double)MAX_N * (double)(w.row_bytes + w.scale_row_bytes * (k_is_affine(format) ? 2u : 1u));
    w.data             = b->codes;
    w.scales = w.biases = b->scales;
    for (int r = -1; r < ROUNDS; r++) {
        const lin_job  job   = {.w = w, .y = b->y, .n = 1};
        const uint64_t start = clock_ns();
        linear_run(cpu_of(b->k), b->x, 1, &job, 1);
        ns[r < 0 ? 0 : r] = (double)(clock_ns() - start);
    }
    qsort(ns, ROUNDS, sizeof ns[0], by_value);
    printf("head %s 1 row\t%s\t%ux%u\t%.1f\t%.1f\t%.1f\t%.1f\n", name, b->k->isa, MAX_N, COLS, ns[0], ns[ROUNDS / 2],
           bytes / ns[ROUNDS / 2], 2 * macs / ns[ROUNDS / 2]);
}

static const struct {
    const char *name;
    k_format    format;
} heads[] = {{"bf16", K_BF16},           {"affine4", K_AFFINE4},     {"affine8", K_AFFINE8}, {"affine2", K_AFFINE2},
             {"affine3", K_AFFINE3},     {"affine5", K_AFFINE5},     {"affine6", K_AFFINE6}, {"mlx-mxfp4", K_MLX_MXFP4},
             {"mlx-mxfp8", K_MLX_MXFP8}, {"mlx-nvfp4", K_MLX_NVFP4}, {"q4_0", K_Q4_0},       {"q4_1", K_Q4_1},
             {"q5_0", K_Q5_0},           {"q5_1", K_Q5_1},           {"q8_0", K_Q8_0},       {"q2_k", K_Q2_K},
             {"q3_k", K_Q3_K},           {"q4_k", K_Q4_K},           {"q5_k", K_Q5_K},       {"q6_k", K_Q6_K},
             {"iq4_nl", K_IQ4_NL},       {"iq4_xs", K_IQ4_XS},       {"mxfp4", K_MXFP4}};

static bool measure_linears(const char *isa, uint32_t threads)
{
    const k_limits limits = {.max_rows = MAX_M, .max_cols = MAX_K, .inv_freq = &(double){0}};
    const size_t   n      = (size_t)MAX_N * COLS;
    weir_error     err;
    linear_bench   b  = {.codes  = mem_pages(2 * n),
                         .scales = mem_pages(n / 8),
                         .x      = mem_aligned((size_t)MAX_M * MAX_K, sizeof(float)),
                         .y      = mem_pages((size_t)MAX_M * MAX_N * sizeof(float))};
    bool           ok = b.codes != NULL && b.scales != NULL && b.x != NULL && b.y != NULL &&
              cpu_open(&b.k, threads, isa, &err) == WEIR_OK && b.k->reserve(b.k, &limits, &err) == WEIR_OK;
    if (ok) {
        for (size_t i = 0; i < 2 * n; i++) b.codes[i] = i % 2 != 0 ? 0x3B : (uint8_t)(i * 7);
        for (size_t i = 0; i < n / 8; i++) b.scales[i] = i % 2 != 0 ? 0x3B : (uint8_t)i;
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) measure_head(&b, heads[i].name, heads[i].format);
        for (size_t i = 0; i < (size_t)MAX_M * MAX_K; i++) b.x[i] = 0.001f * (float)(i % 17);
        for (size_t i = 0; i < sizeof linear_shapes / sizeof *linear_shapes; i++)
            measure_linear(&b, linear_shapes[i][0], linear_shapes[i][1]);
    }
    if (b.k != NULL) b.k->close(b.k);
    mem_pages_free(b.codes, 2 * n);
    mem_pages_free(b.scales, n / 8);
    mem_free(b.x);
    mem_pages_free(b.y, (size_t)MAX_M * MAX_N * sizeof(float));
    return ok;
}

int main(int argc, char **argv)
{
    const uint32_t threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    const unsigned have = cpu_flags(), steps[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512, CPU_NEON};
    cpu_isa        sets[MAX_SETS];
    size_t         n_sets = 0;
    buffers        b;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if ((steps[i] & ~have) == 0) cpu_isa_init(&sets[n_sets++], steps[i]);
    if (!buffers_new(&b)) {
        buffers_free(&b);
        fputs("bench_kernels: out of memory\n", stderr);
        return 1;
    }
    puts("kernel\tisa\tsize\tns min\tns median\tGB/s\tGFLOP/s");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) measure(&entries[i], sets, n_sets, &b);
    buffers_free(&b);
    for (size_t s = 1; s < n_sets; s++) /* scalar code would take minutes */
        if (!measure_linears(sets[s].name, threads)) {
            fputs("bench_kernels: out of memory\n", stderr);
            return 1;
        }
    return 0;
}
