/* kernels/cpu/op_delta.c - the convolution and the gated delta rule.
 *
 * A unit of work is a block of state columns of one value head: it walks all
 * tokens of a span while its part of the state stays in L1, span after span.
 * One run of the pool serves all spans, and threads share it evenly however
 * long each is; a slot that one span leaves and a later one reads needs no
 * care, since both parts belong to one thread.  Prefill and decode run the same
 * token-by-token recurrence. */
#include "kernels/cpu/cpu.h"

#include <string.h>

enum { CONV_COLUMNS = 512, STATE_COLUMNS = 64, GATE_HEADS = 16 };

typedef struct conv_job {
    const cpu_backend *b;
    float             *y, *tail;
    const float       *qkv, *taps;
    size_t             channels;
} conv_job;

typedef struct delta_job {
    const cpu_backend *b;
    float             *y, *qkv, *a, *b_gate, *state;
    const float       *decay_rate, *dt_bias;
    size_t             channels;
} delta_job;

/* Channels c .. c+n-1 of one span. */
static void conv_columns(const conv_job *j, const k_span *span, size_t c, size_t n)
{
    const size_t kernel = j->b->limits.delta.conv_kernel, C = j->channels, slot = (kernel - 1) * C;
    const float *x = j->qkv + (size_t)span->row * C, *tail_in = j->tail + span->slot_in * slot;
    float       *tail_out = j->tail + span->slot_out * slot;
    for (size_t t = 0; t < span->n; t++) {
        const float *rows[CPU_MAX_CONV];
        for (size_t i = 0; i < kernel; i++) {
            const size_t at = t + i; /* row of [tail ; x] */
            rows[i]         = at < kernel - 1 ? tail_in + at * C + c : x + (at - (kernel - 1)) * C + c;
        }
        j->b->isa.conv(j->y + ((size_t)span->row + t) * C + c, rows, j->taps + c, kernel, C, n);
    }
    /* The last kernel-1 rows of [tail ; x], oldest first: in place is safe. */
    for (size_t i = 0; i < kernel - 1; i++) {
        const size_t at   = span->n + i;
        const float *from = at < kernel - 1 ? tail_in + at * C + c : x + (at - (kernel - 1)) * C + c;
        memmove(tail_out + i * C + c, from, n * sizeof(float));
    }
}

static void conv_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const conv_job *j    = arg;
    const k_step   *step = j->b->step;
    size_t          begin, end;
    pool_cut(j->channels, CONV_COLUMNS, thread, n_threads, &begin, &end);
    for (uint32_t i = 0; i < step->n_spans; i++)
        for (size_t c = begin; c < end; c += CONV_COLUMNS)
            conv_columns(j, &step->spans[i], c, end - c < CONV_COLUMNS ? end - c : CONV_COLUMNS);
}

void cpu_conv(kernels *k, k_buf *y, const k_buf *qkv, const k_buf *taps, k_buf *tail)
{
    enum { SERIAL = 16384 };
    cpu_backend *b   = cpu_of(k);
    conv_job     job = {.b        = b,
                        .y        = buf_f32(y),
                        .tail     = buf_f32(tail),
                        .qkv      = buf_f32(qkv),
                        .taps     = buf_f32(taps),
                        .channels = k_delta_channels(&b->limits.delta)};
    if (b->step->n_rows * job.channels <= SERIAL)
        conv_part(&job, 0, 1);
    else
        pool_run(b->pool, conv_part, &job);
}

/* Columns c .. c+n-1 of value head h over one span. */
static void delta_block(const delta_job *j, const k_span *span, size_t h, size_t c, size_t n)
{
    const k_delta_shape *s        = &j->b->limits.delta;
    const cpu_isa       *isa      = &j->b->isa;
    const size_t         kh       = s->heads_tiled ? h % s->key_heads : h / (s->value_heads / s->key_heads);
    const size_t         key_size = (size_t)s->key_heads * s->key_dim;
    const size_t         slot     = (size_t)s->value_heads * s->key_dim * s->value_dim;
    const size_t         at       = h * s->key_dim * s->value_dim + c;
    const float         *from     = j->state + span->slot_in * slot + at;
    float               *state    = j->state + span->slot_out * slot + at;
    if (from != state)
        for (size_t i = 0; i < s->key_dim; i++)
            memcpy(state + i * s->value_dim, from + i * s->value_dim, n * sizeof(float));
    for (size_t t = span->row; t < (size_t)span->row + span->n; t++) {
        const float *row = j->qkv + t * j->channels;
        const size_t g   = t * s->value_heads + h;
        isa->delta_token(j->y + (t * s->value_heads + h) * s->value_dim + c, state, s->value_dim, row + kh * s->key_dim,
                         row + key_size + kh * s->key_dim, row + 2 * key_size + h * s->value_dim + c, j->a[g],
                         j->b_gate[g], s->key_dim, n);
    }
}

static void delta_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const delta_job     *j      = arg;
    const k_delta_shape *s      = &j->b->limits.delta;
    const size_t         blocks = (s->value_dim + STATE_COLUMNS - 1) / STATE_COLUMNS;
    size_t               begin, end;
    pool_cut(s->value_heads * blocks, 1, thread, n_threads, &begin, &end);
    for (size_t u = begin; u < end; u++) {
        const size_t c = u % blocks * STATE_COLUMNS, left = s->value_dim - c;
        for (uint32_t i = 0; i < j->b->step->n_spans; i++)
            delta_block(j, &j->b->step->spans[i], u / blocks, c, left < STATE_COLUMNS ? left : STATE_COLUMNS);
    }
}

/* Normalises queries and keys in place and turns a, b into decay and beta in
 * place: each is read once per row here and many times by the blocks. */
static void prepare_row(void *arg, size_t t)
{
    const delta_job     *j       = arg;
    const k_delta_shape *s       = &j->b->limits.delta;
    const cpu_isa       *isa     = &j->b->isa;
    float               *row     = j->qkv + t * j->channels;
    const float          eps     = 1e-6f; /* of this normalisation, whatever rms_norm_eps is */
    const float          q_scale = (float)(1.0 / __builtin_sqrt((double)s->key_dim));
    for (size_t h = 0; h < s->key_heads; h++) {
        float *q = row + h * s->key_dim, *key = q + (size_t)s->key_heads * s->key_dim;
        isa->l2norm(q, q, s->key_dim, eps, q_scale);
        isa->l2norm(key, key, s->key_dim, eps, 1.0f);
    }
    float *a = j->a + t * s->value_heads, *b = j->b_gate + t * s->value_heads;
    for (size_t h = 0; h < s->value_heads; h += GATE_HEADS) {
        const size_t n = s->value_heads - h < GATE_HEADS ? s->value_heads - h : GATE_HEADS;
        isa->delta_gates(a + h, b + h, a + h, b + h, j->decay_rate + h, j->dt_bias + h, n);
    }
}

void cpu_delta(kernels *k, k_buf *y, k_buf *qkv, k_buf *a, k_buf *b, const k_buf *decay_rate, const k_buf *dt_bias,
               k_buf *state)
{
    cpu_backend         *c   = cpu_of(k);
    const k_delta_shape *s   = &c->limits.delta;
    delta_job            job = {.b          = c,
                                .y          = buf_f32(y),
                                .qkv        = buf_f32(qkv),
                                .a          = buf_f32(a),
                                .b_gate     = buf_f32(b),
                                .state      = buf_f32(state),
                                .decay_rate = buf_f32(decay_rate),
                                .dt_bias    = buf_f32(dt_bias),
                                .channels   = k_delta_channels(s)};
    for_rows(c, prepare_row, &job, c->step->n_rows, 3 * (size_t)s->key_heads * s->key_dim);
    pool_run(c->pool, delta_part, &job);
}
