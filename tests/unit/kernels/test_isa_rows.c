/* Every instruction set gives the scalar bits: norms, activations, the
 * convolution and the gated delta rule, without a read past any array. */
#include "isa_case.h"

#include <math.h>

/* Inputs and outputs of an operation on rows; every array ends at a fence. */
typedef struct row_case {
    size_t       n;
    const float *a, *b, *c, *d;
    const float *unit; /* within 0..1 */
    float       *y, *z;
} row_case;

typedef void row_op(const cpu_isa *t, const row_case *io);

static void op_rmsnorm(const cpu_isa *t, const row_case *io)
{
    t->rmsnorm(io->y, io->a, io->b, io->n, 1e-6f);
}
static void op_rmsnorm_in_place(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->a, io->n * sizeof(float));
    t->rmsnorm(io->y, io->y, io->b, io->n, 1e-5f);
}
static void op_l2norm(const cpu_isa *t, const row_case *io)
{
    t->l2norm(io->y, io->a, io->n, 1e-6f, 0.08838834764f);
}
static void op_l2norm_in_place(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->a, io->n * sizeof(float));
    t->l2norm(io->y, io->y, io->n, 1e-6f, 1.0f);
}
static void op_add(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->a, io->n * sizeof(float));
    t->add(io->y, io->b, io->n);
}
static void op_swiglu(const cpu_isa *t, const row_case *io)
{
    t->swiglu(io->y, io->a, io->b, io->n);
}
static void op_swiglu_over_gate(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->a, io->n * sizeof(float));
    t->swiglu(io->y, io->y, io->b, io->n);
}
static void op_swiglu_over_up(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->b, io->n * sizeof(float));
    t->swiglu(io->y, io->a, io->y, io->n);
}
static void op_gate(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->a, io->n * sizeof(float));
    t->gate(io->y, io->b, io->n);
}
static void op_axpy(const cpu_isa *t, const row_case *io)
{
    memcpy(io->y, io->a, io->n * sizeof(float));
    t->axpy(io->y, io->c[0], io->b, io->n);
}
static void op_delta_gates(const cpu_isa *t, const row_case *io)
{
    t->delta_gates(io->y, io->z, io->a, io->b, io->c, io->d, io->n);
}
static void op_exp(const cpu_isa *t, const row_case *io)
{
    t->exp(io->y, io->a, io->n);
}
static void op_sigmoid(const cpu_isa *t, const row_case *io)
{
    t->sigmoid(io->y, io->a, io->n);
}
static void op_silu(const cpu_isa *t, const row_case *io)
{
    t->silu(io->y, io->a, io->n);
}
static void op_softplus(const cpu_isa *t, const row_case *io)
{
    t->softplus(io->y, io->a, io->n);
}
static void op_log1p(const cpu_isa *t, const row_case *io)
{
    t->log1p(io->y, io->unit, io->n);
}

static const struct {
    const char *name;
    row_op     *run;
} row_ops[] = {
    {"rmsnorm", op_rmsnorm},
    {"rmsnorm in place", op_rmsnorm_in_place},
    {"l2norm", op_l2norm},
    {"l2norm in place", op_l2norm_in_place},
    {"add", op_add},
    {"swiglu", op_swiglu},
    {"swiglu over gate", op_swiglu_over_gate},
    {"swiglu over up", op_swiglu_over_up},
    {"gate", op_gate},
    {"axpy", op_axpy},
    {"delta_gates", op_delta_gates},
    {"exp", op_exp},
    {"sigmoid", op_sigmoid},
    {"silu", op_silu},
    {"softplus", op_softplus},
    {"log1p", op_log1p},
};

/* Some numbers of every magnitude: zeros, subnormals, the ends of exp's range,
 * the largest ones and what is not a number. */
static const float specials[] = {
    0.0f,   -0.0f,    0x1p-149f, -0x1p-149f, 0x1.8p-130f, -0x1.8p-130f, 0x1p-126f, 0x1p-30f, 88.7f,   88.73f,
    -87.4f, -88.8f,   -90.0f,    -103.9f,    -104.1f,     -108.0f,      104.5f,    150.0f,   -151.0f, 1e10f,
    -1e10f, 0x1p127f, -0x1p127f, 3.4e38f,    -3.4e38f,    INFINITY,     -INFINITY, NAN,
};

enum { PLAIN, WIDE, SPECIAL, N_FLAVOURS };

/* Floats of a flavour; SPECIAL has a special number in every fifth place. */
static void fill(uint64_t *seed, float *x, size_t n, int flavour)
{
    rng_fill(seed, x, n, -4.0f, 4.0f);
    if (flavour == WIDE) rng_fill(seed, x, n, -115.0f, 115.0f);
    if (flavour != SPECIAL) return;
    for (size_t i = rng_below(seed, 5); i < n; i += 5)
        x[i] = specials[rng_below(seed, sizeof specials / sizeof *specials)];
}

static size_t next_length(size_t n)
{
    if (n < 200) return n + 1;
    return n < 1000 ? n * 2 + 1 : n < 5000 ? 5120 : 0; /* 0: the end */
}

static void rows_of_every_length(void **state)
{
    (void)state;
    uint64_t seed = 1, h = DIGEST_START;
    for (size_t n = 1; n != 0; n = next_length(n))
        for (int flavour = 0; flavour < N_FLAVOURS; flavour++) {
            float *in[4], *unit = fence_floats(4, n);
            for (size_t i = 0; i < 4; i++) fill(&seed, in[i] = fence_floats(i, n), n, flavour);
            rng_fill(&seed, unit, n, 0.0f, 1.0f);
            unit[0]     = (float[]){0.0f, 1.0f, 0x1p-140f}[flavour];
            row_case io = {.n = n, .a = in[0], .b = in[1], .c = in[2], .d = in[3], .unit = unit};
            for (size_t o = 0; o < sizeof row_ops / sizeof *row_ops; o++) {
                float *want[2] = {io.y = fence_floats(5, n), io.z = fence_floats(6, n)};
                row_ops[o].run(&tables[0], &io);
                digest(&h, want[0], n);
                digest(&h, want[1], n);
                for (size_t t = 1; t < n_tables; t++) {
                    io.y = fence_floats(7, n);
                    io.z = fence_floats(8, n);
                    row_ops[o].run(&tables[t], &io);
                    check_floats(row_ops[o].name, &tables[t], n, want[0], io.y, n);
                    check_floats(row_ops[o].name, &tables[t], n, want[1], io.z, n);
                }
            }
        }
    check_digest("rows", h, 0x9DF35AFFA643E8CDu);
}

static void conv_of_every_kernel(void **state)
{
    (void)state;
    enum { MAX_KERNEL = 16 };
    uint64_t seed = 2, h = DIGEST_START;
    for (size_t kernel = 2; kernel <= MAX_KERNEL; kernel++)
        for (size_t n = 1; n <= 130; n += n < 36 ? 1 : 31) {
            const size_t stride = n + (n % 3) * 5;
            float       *taps = fence_floats(0, (kernel - 1) * stride + n), *x = fence_floats(1, kernel * n);
            fill(&seed, taps, (kernel - 1) * stride + n, PLAIN);
            fill(&seed, x, kernel * n, kernel == 4 ? SPECIAL : PLAIN);
            const float *rows[MAX_KERNEL];
            for (size_t i = 0; i < kernel; i++) rows[i] = x + (i * 7 % kernel) * n; /* in any order */
            float *want = fence_floats(2, n);
            tables[0].conv(want, rows, taps, kernel, stride, n);
            digest(&h, want, n);
            for (size_t t = 1; t < n_tables; t++) {
                float *got = fence_floats(3, n);
                tables[t].conv(got, rows, taps, kernel, stride, n);
                check_floats("conv", &tables[t], kernel * 1000 + n, want, got, n);
            }
        }
    check_digest("conv", h, 0x35582E91D9E9B563u);
}

static void delta_of_every_width(void **state)
{
    (void)state;
    static const size_t key_dims[] = {1, 3, 4, 6, 32, 129};
    uint64_t            seed = 3, h = DIGEST_START;
    for (size_t d = 0; d < sizeof key_dims / sizeof *key_dims; d++)
        for (size_t n = 1; n <= 130; n++) {
            const size_t key_dim = key_dims[d], stride = n + (n % 2) * 3, size = (key_dim - 1) * stride + n;
            float       *q = fence_floats(0, key_dim), *k = fence_floats(1, key_dim), *v = fence_floats(2, n);
            float       *start = fence_floats(3, size), *want_state = fence_floats(4, size);
            rng_fill(&seed, q, key_dim, -0.2f, 0.2f);
            rng_fill(&seed, k, key_dim, -0.5f, 0.5f);
            rng_fill(&seed, v, n, -2.0f, 2.0f);
            rng_fill(&seed, start, size, -1.0f, 1.0f);
            memcpy(want_state, start, size * sizeof(float));
            const float decay = n % 7 == 0 ? 0.0f : rng_float(&seed, 0.2f, 1.0f), beta = rng_float(&seed, 0.0f, 1.0f);
            float      *want = fence_floats(5, n);
            tables[0].delta_token(want, want_state, stride, q, k, v, decay, beta, key_dim, n);
            digest(&h, want, n);
            digest(&h, want_state, size);
            for (size_t t = 1; t < n_tables; t++) {
                float *got = fence_floats(6, n), *got_state = fence_floats(7, size);
                memcpy(got_state, start, size * sizeof(float));
                tables[t].delta_token(got, got_state, stride, q, k, v, decay, beta, key_dim, n);
                check_floats("delta_token", &tables[t], key_dim * 1000 + n, want, got, n);
                check_floats("delta_token's state", &tables[t], key_dim * 1000 + n, want_state, got_state, size);
            }
        }
    check_digest("delta_token", h, 0x4296D5A90DB96F24u);
}

static void check_close(const char *what, size_t i, float found, double expected, double tolerance)
{
    if (!(fabs((double)found - expected) <= tolerance))
        fail_msg("%s %zu: expected %.9g, found %.9g", what, i, expected, (double)found);
}

/* The rule itself, written as the paper has it, in double precision: one head of
 * 2 x 3 by hand would prove the same; random ones of 8 x 5 prove more. */
static void delta_follows_the_rule(void **state)
{
    (void)state;
    enum { K = 8, V = 5 };
    uint64_t seed = 4;
    float    q[K], k[K], v[V], s[K * V], y[V];
    rng_fill(&seed, q, K, -1.0f, 1.0f);
    rng_fill(&seed, k, K, -0.5f, 0.5f);
    rng_fill(&seed, v, V, -1.0f, 1.0f);
    rng_fill(&seed, s, K * V, -1.0f, 1.0f);
    const float decay = 0.75f, beta = 0.5f;
    double      expected_state[K * V], expected[V];
    for (size_t c = 0; c < V; c++) {
        double read = 0;
        for (size_t i = 0; i < K; i++) read += (double)decay * (double)s[i * V + c] * (double)k[i];
        expected[c] = 0;
        for (size_t i = 0; i < K; i++) {
            expected_state[i * V + c] =
                (double)decay * (double)s[i * V + c] + (double)k[i] * (double)beta * ((double)v[c] - read);
            expected[c] += expected_state[i * V + c] * (double)q[i];
        }
    }
    tables[0].delta_token(y, s, V, q, k, v, decay, beta, K, V);
    for (size_t c = 0; c < V; c++) check_close("delta output", c, y[c], expected[c], 2e-6);
    for (size_t i = 0; i < (size_t)K * V; i++) check_close("delta state", i, s[i], expected_state[i], 1e-6);
}

static void norms_and_conv_follow_their_formulas(void **state)
{
    (void)state;
    enum { N = 37, KERNEL = 3 };
    uint64_t seed = 5;
    float    x[KERNEL * N], gain[N], y[N], taps[KERNEL * N];
    rng_fill(&seed, x, (size_t)KERNEL * N, -2.0f, 2.0f);
    rng_fill(&seed, gain, N, 0.5f, 1.5f);
    rng_fill(&seed, taps, (size_t)KERNEL * N, -1.0f, 1.0f);
    double squares = 0;
    for (size_t i = 0; i < N; i++) squares += (double)x[i] * (double)x[i];
    tables[0].rmsnorm(y, x, gain, N, 1e-3f);
    for (size_t i = 0; i < N; i++)
        check_close("rmsnorm", i, y[i], (double)x[i] / sqrt(squares / N + (double)1e-3f) * (double)gain[i], 1e-6);
    tables[0].l2norm(y, x, N, 1e-3f, 3.0f);
    for (size_t i = 0; i < N; i++)
        check_close("l2norm", i, y[i], (double)x[i] * 3.0 / sqrt(squares + (double)1e-3f), 1e-6);
    const float *rows[KERNEL] = {x, x + N, x + 2 * N};
    tables[0].conv(y, rows, taps, KERNEL, N, N);
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t j = 0; j < KERNEL; j++) sum += (double)taps[j * N + i] * (double)rows[j][i];
        check_close("conv", i, y[i], sum / (1 + exp(-sum)), 2e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_length),
        cmocka_unit_test(conv_of_every_kernel),
        cmocka_unit_test(delta_of_every_width),
        cmocka_unit_test(delta_follows_the_rule),
        cmocka_unit_test(norms_and_conv_follow_their_formulas),
    };
    return cmocka_run_group_tests_name("isa_rows", tests, isa_setup, isa_teardown);
}
