/* load/adapter_random.c - adapters with random matrices, made in memory to be checked with. */
#include "base/mem.h"
#include "load/adapter.h"

#include <string.h>

/* splitmix64, as in Steele, Lea and Flood, 2014 */
static uint64_t next(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9E3779B97F4A7C15u);
    z          = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z          = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Floats of either sign from 2^-5 to 2^-3, so that what is added is of the size of what is there. */
static uint8_t *random_matrix(uint64_t *seed, uint64_t n, dtype type)
{
    const bool     wide  = type == DTYPE_F32;
    const uint64_t mask  = wide ? 0x80FFFFFF80FFFFFFu : 0x80FF80FF80FF80FFu;
    const uint64_t bits  = wide ? 0x3D0000003D000000u : 0x3D003D003D003D00u;
    const size_t   size  = (size_t)n * dtype_table[type].bytes;
    uint8_t       *bytes = mem_aligned(n, dtype_table[type].bytes);
    for (size_t i = 0; bytes != NULL && i < size; i += 8) {
        const uint64_t w = (next(seed) & mask) | bits;
        memcpy(bytes + i, &w, size - i < 8 ? size - i : 8);
    }
    return bytes;
}

static bool add_pair(adapter *a, const config *c, uint32_t number, lora_target target, uint32_t rank, dtype type,
                     uint64_t *seed)
{
    adapter_pair *p = &a->pairs[a->n++];
    *p = (adapter_pair){.layer = number, .target = target, .rank = rank, .scale = 1.0, .a_type = type, .b_type = type};
    adapter_target_size(c, target, &p->in, &p->out);
    p->mats            = adapter_target_mats(c, target);
    const uint64_t n_a = (uint64_t)p->mats * rank * p->in, n_b = (uint64_t)p->mats * p->out * rank;
    p->a = random_matrix(seed, n_a, type);
    p->b = random_matrix(seed, n_b, type);
    a->bytes += (n_a + n_b) * dtype_table[type].bytes;
    a->max_in  = p->in > a->max_in ? p->in : a->max_in;
    a->max_out = p->out > a->max_out ? p->out : a->max_out;
    return p->a != NULL && p->b != NULL;
}

/* Is it one of the experts', and all of these together more than is worth checking with? */
static bool too_large(const config *c, lora_target target, uint32_t rank)
{
    static const uint64_t most = 64 << 20;
    const uint64_t        each = (uint64_t)rank * (c->hidden_size + c->moe_intermediate_size) * sizeof(float);
    return target >= LORA_EXPERT_GATE && 3 * each * c->n_experts * c->n_layers > most;
}

weir_status adapter_random(adapter **out, const config *c, uint32_t rank, dtype type, uint64_t seed, weir_error *err)
{
    adapter *a = mem_zalloc(1, sizeof *a);
    bool     ok;
    *out = NULL;
    if (a == NULL) return status_fail(err, WEIR_NO_MEMORY, "adapter: out of memory");
    a->n_layers = c->n_layers;
    a->max_rank = rank;
    a->path     = mem_strdup("random");
    a->pairs    = mem_zalloc(c->n_layers, sizeof *a->pairs * LORA_TARGETS);
    ok          = a->path != NULL && a->pairs != NULL;
    for (uint32_t i = 0; i < c->n_layers; i++)
        for (int t = 0; t < LORA_TARGETS && ok; t++)
            if (adapter_layer_has(c, i, (lora_target)t) && !too_large(c, (lora_target)t, rank))
                ok = add_pair(a, c, i, (lora_target)t, rank, type, &seed);
    if (ok)
        *out = a;
    else
        adapter_close(a);
    return ok ? WEIR_OK : status_fail(err, WEIR_NO_MEMORY, "adapter: out of memory");
}
