/* kernels/cpu/cpu.c - the CPU backend: buffers, workspaces, the table.
 *
 * Buffers are plain memory, so operations finish before they return and
 * finish() has nothing to wait for. */
#include "kernels/cpu/cpu.h"

#include "base/mem.h"

#include <string.h>

static uint32_t threads(const kernels *k)
{
    return pool_threads(((const cpu_backend *)k)->pool);
}

static weir_status buf_new(kernels *k, uint64_t bytes, k_buf **out, weir_error *err)
{
    (void)k;
    *out     = NULL;
    k_buf *b = mem_zalloc(1, sizeof *b);
    if (b != NULL) {
        b->bytes = bytes;
        b->data  = mem_pages(bytes);
    }
    if (b == NULL || b->data == NULL) {
        mem_free(b);
        return status_fail(err, WEIR_NO_MEMORY, "buffer: %llu bytes are not to be had", (unsigned long long)bytes);
    }
    *out = b;
    return WEIR_OK;
}

static void buf_free(kernels *k, k_buf *b)
{
    (void)k;
    if (b == NULL) return;
    mem_pages_free(b->data, b->bytes);
    mem_free(b);
}

static void buf_write(kernels *k, k_buf *b, uint64_t offset, const void *from, uint64_t bytes)
{
    (void)k;
    memcpy((uint8_t *)b->data + offset, from, bytes);
}

static void buf_read(kernels *k, const k_buf *b, uint64_t offset, void *to, uint64_t bytes)
{
    (void)k;
    memcpy(to, (const uint8_t *)b->data + offset, bytes);
}

static void buf_zero(kernels *k, k_buf *b, uint64_t offset, uint64_t bytes)
{
    (void)k;
    memset((uint8_t *)b->data + offset, 0, bytes);
}

static void buf_copy(kernels *k, k_buf *to, uint64_t to_offset, const k_buf *from, uint64_t from_offset, uint64_t bytes)
{
    (void)k;
    memcpy((uint8_t *)to->data + to_offset, (const uint8_t *)from->data + from_offset, bytes);
}

static const void *buf_host(kernels *k, const k_buf *b)
{
    (void)k;
    return b->data;
}

/* Floats that each workspace needs. */
typedef struct workspace_sizes {
    size_t prepared, panel, rope, partials, slots, route;
} workspace_sizes;

static workspace_sizes sizes_of(const k_limits *l)
{
    enum { PANEL_BUDGET = 128 * 1024 }; /* floats: a thread's panels stay in its L2 */
    workspace_sizes s;
    const size_t    slots      = (size_t)l->max_rows * l->experts_per_token;
    const size_t    partitions = ((size_t)l->max_positions + K_PARTITION - 1) / K_PARTITION;
    const size_t rows = lin_x_stride_max(l->max_cols) * l->max_rows, experts = lin_x_stride_max(l->expert_cols) * slots;
    const size_t panel = lin_panel_floats_max(l->max_cols > l->expert_cols ? l->max_cols : l->expert_cols);
    s.prepared         = rows > experts ? rows : experts;
    s.panel            = panel > PANEL_BUDGET ? panel : PANEL_BUDGET;
    s.rope             = (size_t)l->max_rows * l->attention.rotary_dim;
    s.partials         = (size_t)l->attention.heads * partitions * (l->attention.head_dim + 2);
    s.route            = (size_t)l->max_rows * l->experts_per_token;
    s.slots            = slots + l->experts + 1;
    return s;
}

static uint64_t workspace_bytes(const kernels *k, const k_limits *limits)
{
    const workspace_sizes s = sizes_of(limits);
    return sizeof(float) * (s.prepared + s.panel * threads(k) + s.rope + s.partials + 2 * s.route + 2 * s.slots +
                            limits->max_rows) +
           sizeof(lin_job) * K_MAX_JOBS * (uint64_t)limits->experts;
}

static weir_status reserve(kernels *k, const k_limits *limits, weir_error *err)
{
    cpu_backend          *b      = cpu_of(k);
    const workspace_sizes s      = sizes_of(limits);
    const size_t          n_freq = limits->attention.rotary_dim / 2;
    if (limits->attention.head_dim > CPU_MAX_HEAD_DIM || limits->delta.conv_kernel > CPU_MAX_CONV)
        return status_fail(err, WEIR_UNSUPPORTED,
                           "CPU backend: expected heads of at most %d and convolutions of at most %d, found %u and %u",
                           CPU_MAX_HEAD_DIM, CPU_MAX_CONV, limits->attention.head_dim, limits->delta.conv_kernel);
    b->limits        = *limits;
    b->panel_size    = s.panel;
    b->inv_freq      = mem_alloc(n_freq, sizeof *b->inv_freq);
    b->prepared      = mem_pages(s.prepared * sizeof(float));
    b->panels        = mem_pages(s.panel * threads(k) * sizeof(float));
    b->rope          = mem_aligned(s.rope, sizeof(float));
    b->positions     = mem_aligned(limits->max_rows, sizeof *b->positions);
    b->partials      = mem_pages(s.partials * sizeof(float));
    b->route_ids     = mem_aligned(s.route, sizeof *b->route_ids);
    b->route_weights = mem_aligned(s.route, sizeof *b->route_weights);
    b->slots         = mem_aligned(s.slots, sizeof *b->slots);
    b->slot_rows     = mem_aligned(s.slots, sizeof *b->slot_rows);
    b->expert_jobs   = mem_alloc((size_t)limits->experts * K_MAX_JOBS, sizeof *b->expert_jobs);
    if (b->expert_jobs == NULL || b->inv_freq == NULL || b->prepared == NULL || b->panels == NULL || b->rope == NULL ||
        b->positions == NULL || b->partials == NULL || b->route_ids == NULL || b->route_weights == NULL ||
        b->slots == NULL || b->slot_rows == NULL)
        return status_fail(err, WEIR_NO_MEMORY, "workspaces: %llu bytes are not to be had",
                           (unsigned long long)workspace_bytes(k, limits));
    memcpy(b->inv_freq, limits->inv_freq, n_freq * sizeof *b->inv_freq);
    b->limits.inv_freq = b->inv_freq;
    return WEIR_OK;
}

static void close_backend(kernels *k)
{
    if (k == NULL) return;
    cpu_backend          *b = cpu_of(k);
    const workspace_sizes s = sizes_of(&b->limits);
    mem_free(b->inv_freq);
    mem_pages_free(b->prepared, s.prepared * sizeof(float));
    if (b->pool != NULL) mem_pages_free(b->panels, s.panel * pool_threads(b->pool) * sizeof(float));
    mem_free(b->rope);
    mem_free(b->positions);
    mem_pages_free(b->partials, s.partials * sizeof(float));
    mem_free(b->route_ids);
    mem_free(b->route_weights);
    mem_free(b->slots);
    mem_free(b->slot_rows);
    mem_free(b->expert_jobs);
    pool_free(b->pool);
    mem_free(b);
}

static void begin(kernels *k, const k_step *s)
{
    cpu_backend *b = cpu_of(k);
    b->step        = s;
    for (uint32_t i = 0; i < s->n_spans; i++)
        for (uint32_t j = 0; j < s->spans[i].n; j++) b->positions[s->spans[i].row + j] = s->spans[i].position + j;
    rope_fill(b);
}

static weir_status finish(kernels *k, weir_error *err)
{
    cpu_backend *b = cpu_of(k);
    if (!b->failed) return WEIR_OK;
    b->failed = false;
    return status_fail(err, WEIR_INVALID, "CPU backend: a linear of more than %d matrices", K_MAX_JOBS);
}

/* The flags for an instruction set by name; false when this machine lacks it. */
static bool isa_flags(const char *name, unsigned *flags)
{
    const unsigned have = cpu_flags();
    if (name == NULL)
        *flags = have;
    else if (strcmp(name, "scalar") == 0)
        *flags = 0;
    else if (strcmp(name, "avx2") == 0)
        *flags = CPU_AVX2;
    else if (strcmp(name, "avx512") == 0)
        *flags = CPU_AVX2 | CPU_AVX512;
    else if (strcmp(name, "neon") == 0)
        *flags = CPU_NEON;
    else
        return false;
    return (*flags & ~have) == 0;
}

weir_status cpu_open(kernels **out, uint32_t n_threads, const char *isa, weir_error *err)
{
    *out = NULL;
    unsigned flags;
    if (!isa_flags(isa, &flags))
        return status_fail(err, WEIR_INVALID,
                           "isa: expected scalar, avx2, avx512 or neon as this CPU has, found \"%s\"", isa);
    cpu_backend *b = mem_zalloc(1, sizeof *b);
    if (b == NULL) return status_fail(err, WEIR_NO_MEMORY, "CPU backend: out of memory");
    const weir_status st = pool_new(&b->pool, n_threads, err);
    if (st != WEIR_OK) {
        mem_free(b);
        return st;
    }
    cpu_isa_init(&b->isa, flags);
    b->table = (kernels){
        .name            = "cpu",
        .isa             = b->isa.name,
        .threads         = threads,
        .buf_new         = buf_new,
        .buf_free        = buf_free,
        .buf_write       = buf_write,
        .buf_read        = buf_read,
        .buf_zero        = buf_zero,
        .buf_copy        = buf_copy,
        .buf_host        = buf_host,
        .weight_new      = cpu_weight_new,
        .weight_free     = cpu_weight_free,
        .reserve         = reserve,
        .workspace_bytes = workspace_bytes,
        .begin           = begin,
        .finish          = finish,
        .embed           = cpu_embed,
        .rmsnorm         = cpu_rmsnorm,
        .linear          = cpu_linear,
        .add             = cpu_add,
        .add_scaled      = cpu_add_scaled,
        .swiglu          = cpu_swiglu,
        .copy_rows       = cpu_copy_rows,
        .concat          = cpu_concat,
        .conv            = cpu_conv,
        .delta           = cpu_delta,
        .gated_norm      = cpu_gated_norm,
        .attention       = cpu_attention,
        .route           = cpu_route,
        .expert_linear   = cpu_expert_linear,
        .combine         = cpu_combine,
        .close           = close_backend,
    };
    *out = &b->table;
    return WEIR_OK;
}
