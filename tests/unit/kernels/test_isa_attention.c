/* Every instruction set gives the scalar bits: a block of keys and values of the
 * online softmax, without a read past the last key, value or score. */
#include "isa_case.h"

#include <math.h>

static const size_t dims[] = {1, 7, 16, 20, 32, 33, 64, 100, 128, 256};

enum { N_DIMS = sizeof dims / sizeof *dims, MAX_NQ = ATTENTION_TILE, NK_STEP = 7 };

/* All forms; heads that are no multiple of the group cannot have an affine one. */
static const k_kv_form forms[] = {{K_KV_BF16, 0},      {K_KV_F32, 0},      {K_KV_AFFINE8, 32}, {K_KV_AFFINE8, 64},
                                  {K_KV_AFFINE8, 128}, {K_KV_AFFINE4, 32}, {K_KV_AFFINE4, 64}, {K_KV_AFFINE4, 128}};
enum { FORMS = sizeof forms / sizeof *forms };
static const k_kv_form turbo8 = {K_KV_TURBO8, 32}, turbo3 = {K_KV_TURBO3, 32};

static bool possible(k_kv_form f, size_t dim)
{
    return f.group == 0 || dim % f.group == 0;
}

static void put_bf16(uint8_t *p, float x)
{
    const uint16_t h = bf16_from_f32(x);
    memcpy(p, &h, sizeof h);
}

static void put_u16(uint8_t *p, unsigned h)
{
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* What stands behind the codes of a row, so that numbers are about -2 .. 2; scales of both signs. */
static void put_scales(uint8_t *p, size_t groups, k_kv_kind kind, uint64_t *seed)
{
    for (size_t g = 0; g < groups; g++) {
        const float scale = rng_float(seed, -4.0f, 4.0f);
        switch (kind) {
        case K_KV_TURBO8: /* up to 1/64 and a whole number of up to 128, in f16 */
            put_u16(p + 4 * g, 0x2000 + rng_below(seed, 0x400));
            put_u16(p + 4 * g + 2, (0x5000 + rng_below(seed, 32) * 32) | (scale < 0.0f ? 0x8000 : 0));
            break;
        case K_KV_TURBO3: put_u16(p + 2 * g, 0x3800 + rng_below(seed, 0x400)); break;
        default:
            put_bf16(p + 4 * g, scale / (kind == K_KV_AFFINE8 ? 255.0f : 15.0f));
            put_bf16(p + 4 * g + 2, scale < 0.0f ? 2.0f : -2.0f);
        }
    }
}

/* n rows with numbers of about -2 .. 2, at the fence. */
static kv_rows cached_rows(size_t which, uint64_t *seed, size_t n, size_t dim, k_kv_form form)
{
    const size_t row = k_kv_row_bytes(form, (uint32_t)dim);
    uint8_t     *all = fence_place(which, n * row, 0);
    for (uint8_t *p = all; p < all + n * row; p += row) {
        const size_t pairs = form.group == 0 ? 0 : dim / form.group;
        const size_t codes = row - (form.kind == K_KV_TURBO3 ? 2 : 4) * pairs;
        for (size_t i = 0; i < codes && pairs > 0; i++) p[i] = (uint8_t)rng_below(seed, 256);
        put_scales(p + codes, pairs, form.kind, seed);
        for (size_t i = 0; i < dim && pairs == 0; i++) {
            const float x = rng_float(seed, -2.0f, 2.0f);
            if (form.kind == K_KV_BF16)
                put_bf16(p + 2 * i, x);
            else
                memcpy(p + 4 * i, &x, sizeof x);
        }
    }
    return (kv_rows){.at = all, .form = form, .dim = (uint32_t)dim};
}

static void run_scores(const cpu_isa *t, float *s, const float *const *q, unsigned nq, const kv_rows *keys, size_t nk)
{
    t->scores(s, q, nq, keys, nk, 0.0883883461f);
}

static void check_scores(unsigned nq, size_t nk, size_t dim, k_kv_form form, uint64_t *seed, uint64_t *h)
{
    const kv_rows keys = cached_rows(0, seed, nk, dim, form);
    const float  *q[MAX_NQ];
    for (unsigned i = 0; i < nq; i++) {
        float *qi = fence_floats(1 + i, dim);
        rng_fill(seed, qi, dim, -1.0f, 1.0f);
        q[i] = qi;
    }
    const size_t n    = (nq - 1) * (size_t)K_PAGE + nk;
    float       *want = fence_floats(5, n);
    run_scores(&tables[0], want, q, nq, &keys, nk);
    digest(h, want, n); /* with the untouched places between the queries */
    for (size_t t = 1; t < n_tables; t++) {
        float *got = fence_floats(6, n);
        run_scores(&tables[t], got, q, nq, &keys, nk);
        check_floats("scores", &tables[t], nq * 100 + nk, want, got, n);
    }
}

static void scores_of_every_shape(void **state)
{
    (void)state;
    uint64_t seed = 20, h = DIGEST_START;
    for (size_t d = 0; d < N_DIMS; d++)
        for (unsigned nq = 1; nq <= MAX_NQ; nq++)
            for (size_t nk = 1 + (d + nq) % NK_STEP; nk <= K_PAGE; nk += NK_STEP) {
                check_scores(nq, nk, dims[d], forms[0], &seed, &h);
                check_scores(nq, nk, dims[d], forms[1], &seed, &h);
            }
    check_scores(1, K_PAGE, 128, forms[0], &seed, &h);
    check_digest("scores", h, 0xD2373C92B0132CA6u);
}

static void scores_of_every_affine_form(void **state)
{
    (void)state;
    uint64_t seed = 24, h = DIGEST_START;
    for (size_t d = 0; d < N_DIMS; d++)
        for (size_t f = 2; f < FORMS; f++)
            for (unsigned nq = 1; possible(forms[f], dims[d]) && nq <= MAX_NQ; nq++)
                for (size_t nk = 1 + (d + nq) % NK_STEP; nk <= K_PAGE; nk += NK_STEP)
                    check_scores(nq, nk, dims[d], forms[f], &seed, &h);
    check_digest("affine scores", h, 0x13411D0D10F0FC8Au);
}

static void scores_of_turbo(void **state)
{
    (void)state;
    uint64_t seed = 26, h = DIGEST_START;
    for (size_t d = 0; d < N_DIMS; d++)
        for (unsigned nq = 1; possible(turbo8, dims[d]) && nq <= MAX_NQ; nq++)
            for (size_t nk = 1 + (d + nq) % NK_STEP; nk <= K_PAGE; nk += NK_STEP)
                check_scores(nq, nk, dims[d], turbo8, &seed, &h);
    check_digest("turbo scores", h, 0xBF37AE9F3729FEB9u);
}

static void softmax_of_every_length(void **state)
{
    (void)state;
    uint64_t seed = 21, h = DIGEST_START;
    /* What was seen before: nothing, less, more, far less, far more. */
    static const float before[] = {-INFINITY, -1.0f, 9.0f, -300.0f, 200.0f, 0.0f};
    for (size_t n = 1; n <= K_PAGE; n++)
        for (size_t b = 0; b < sizeof before / sizeof *before; b++) {
            float *s = fence_floats(0, n), *want = fence_floats(1, n), result[3], other[3];
            rng_fill(&seed, s, n, -8.0f, 8.0f);
            if (b == 5) rng_fill(&seed, s, n, -3e38f, 3e38f); /* differences that overflow */
            if (b == 1 && n > 2) s[n / 2] = -INFINITY;
            memcpy(want, s, n * sizeof *s);
            result[1] = before[b];
            result[0] = tables[0].softmax_block(want, n, &result[1], &result[2]);
            digest(&h, want, n);
            digest(&h, result, 3);
            for (size_t t = 1; t < n_tables; t++) {
                float *got = fence_floats(2, n);
                memcpy(got, s, n * sizeof *s);
                other[1] = before[b];
                other[0] = tables[t].softmax_block(got, n, &other[1], &other[2]);
                check_floats("softmax_block", &tables[t], n * 10 + b, want, got, n);
                if (first_difference(result, other, 3) < 3)
                    fail_msg("%s softmax_block of %zu: sum, maximum or rescale differ", tables[t].name, n);
            }
        }
    check_digest("softmax", h, 0x7C2B7239C303C57Du);
}

/* Queries see different numbers of keys, as in a causal block. */
static void check_values(unsigned nq, size_t most, size_t dim, k_kv_form form, uint64_t *seed, uint64_t *h)
{
    size_t nk[MAX_NQ];
    float  rescale[MAX_NQ], *start[MAX_NQ], *want[MAX_NQ];
    for (unsigned i = 0; i < nq; i++) {
        nk[i]      = i == most % nq ? most : 1 + rng_below(seed, (uint32_t)most);
        rescale[i] = (float[]){0.0f, 1.0f, rng_float(seed, 0.0f, 1.0f)}[rng_below(seed, 3)];
        start[i]   = fence_floats(2 + i, dim);
        want[i]    = fence_floats(6 + i, dim);
        rng_fill(seed, start[i], dim, -1.0f, 1.0f);
        if (rescale[i] == 0.0f) start[i][0] = NAN; /* is overwritten, whatever it was */
        memcpy(want[i], start[i], dim * sizeof(float));
    }
    const size_t  n = (nq - 1) * (size_t)K_PAGE + nk[nq - 1];
    const kv_rows v = cached_rows(0, seed, most, dim, form);
    float        *p = fence_floats(1, n);
    rng_fill(seed, p, n, 0.0f, 1.0f);
    tables[0].values(want, rescale, p, nq, nk, &v);
    for (unsigned i = 0; i < nq; i++) {
        if (rescale[i] == 0.0f) assert_true(want[i][0] == want[i][0]);
        digest(h, want[i], dim);
    }
    for (size_t t = 1; t < n_tables; t++) {
        float *got[MAX_NQ];
        for (unsigned i = 0; i < nq; i++) {
            got[i] = fence_floats(10 + i, dim);
            memcpy(got[i], start[i], dim * sizeof(float));
        }
        tables[t].values(got, rescale, p, nq, nk, &v);
        for (unsigned i = 0; i < nq; i++) check_floats("values", &tables[t], dim * 100 + most, want[i], got[i], dim);
    }
}

static void values_of_every_shape(void **state)
{
    (void)state;
    uint64_t seed = 22, h = DIGEST_START;
    for (size_t d = 0; d < N_DIMS; d++)
        for (unsigned nq = 1; nq <= MAX_NQ; nq++)
            for (size_t nk = 1 + (d + nq) % NK_STEP; nk <= K_PAGE; nk += NK_STEP) {
                check_values(nq, nk, dims[d], forms[0], &seed, &h);
                check_values(nq, nk, dims[d], forms[1], &seed, &h);
            }
    check_digest("values", h, 0xD06A1048F5769D17u);
}

static void values_of_every_affine_form(void **state)
{
    (void)state;
    uint64_t seed = 25, h = DIGEST_START;
    for (size_t d = 0; d < N_DIMS; d++)
        for (size_t f = 2; f < FORMS; f++)
            for (unsigned nq = 1; possible(forms[f], dims[d]) && nq <= MAX_NQ; nq++)
                for (size_t nk = 1 + (d + nq) % NK_STEP; nk <= K_PAGE; nk += NK_STEP)
                    check_values(nq, nk, dims[d], forms[f], &seed, &h);
    check_digest("affine values", h, 0x9A174681E9BBA02Du);
}

static void values_of_turbo(void **state)
{
    (void)state;
    uint64_t seed = 27, h = DIGEST_START;
    for (size_t d = 0; d < N_DIMS; d++)
        for (unsigned nq = 1; possible(turbo3, dims[d]) && nq <= MAX_NQ; nq++)
            for (size_t nk = 1 + (d + nq) % NK_STEP; nk <= K_PAGE; nk += NK_STEP)
                check_values(nq, nk, dims[d], turbo3, &seed, &h);
    check_digest("turbo values", h, 0x8654023C9A9FA78Bu);
}

/* Two blocks put together are the softmax over both, as double precision has it. */
static void blocks_make_attention(void **state)
{
    (void)state;
    enum { DIM = 24, N = 90 };
    uint64_t seed = 23;
    float    q[DIM], keys[N * DIM], values[N * DIM], o[DIM], s[K_PAGE], max = -INFINITY, rescale, sum = 0.0f;
    rng_fill(&seed, q, DIM, -1.0f, 1.0f);
    rng_fill(&seed, keys, (size_t)N * DIM, -2.0f, 2.0f);
    rng_fill(&seed, values, (size_t)N * DIM, -2.0f, 2.0f);
    const float *queries[] = {q};
    float *const outputs[] = {o};
    for (size_t at = 0; at < N; at += K_PAGE) {
        const size_t  n = N - at < K_PAGE ? N - at : K_PAGE;
        const kv_rows k = {(uint8_t *)(keys + at * DIM), {K_KV_F32, 0}, DIM};
        const kv_rows v = {(uint8_t *)(values + at * DIM), {K_KV_F32, 0}, DIM};
        tables[0].scores(s, queries, 1, &k, n, 0.5f);
        const float block = tables[0].softmax_block(s, n, &max, &rescale);
        sum               = sum * rescale + block;
        tables[0].values(outputs, &rescale, s, 1, &n, &v);
    }
    double expected[DIM] = {0}, all = 0;
    for (size_t j = 0; j < N; j++) {
        double score = 0;
        for (size_t d = 0; d < DIM; d++) score += (double)q[d] * (double)keys[j * DIM + d];
        const double p = exp(0.5 * score);
        all += p;
        for (size_t d = 0; d < DIM; d++) expected[d] += p * (double)values[j * DIM + d];
    }
    for (size_t d = 0; d < DIM; d++)
        if (!(fabs((double)(o[d] / sum) - expected[d] / all) <= 2e-6))
            fail_msg("output %zu: expected %.9g, found %.9g", d, expected[d] / all, (double)(o[d] / sum));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_every_shape), cmocka_unit_test(scores_of_every_affine_form),
        cmocka_unit_test(scores_of_turbo),       cmocka_unit_test(softmax_of_every_length),
        cmocka_unit_test(values_of_every_shape), cmocka_unit_test(values_of_every_affine_form),
        cmocka_unit_test(values_of_turbo),       cmocka_unit_test(blocks_make_attention),
    };
    return cmocka_run_group_tests_name("isa_attention", tests, isa_setup, isa_teardown);
}
