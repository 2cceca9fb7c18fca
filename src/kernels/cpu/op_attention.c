/* kernels/cpu/op_attention.c - gated softmax attention over the paged cache.
 *
 * Keys and values are stored first, in the cache's format, and always read
 * from there, those of this step too: a token never sees its neighbour at a
 * precision that depends on how the prompt was cut.
 *
 * A query's keys are visited in blocks of K_PAGE at absolute positions, with
 * the online softmax's rescaling at block ends, and in partitions of
 * K_PARTITION positions whose results are merged in order.  One unit of work
 * walks its partitions one after the other, or, when a step has few queries,
 * threads take a partition each and the merge follows: the same operations. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/kv_turbo.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { PARTITION_BLOCKS = K_PARTITION / K_PAGE };

/* One query's softmax so far: max, sum, and the weighted sum of values. */
typedef struct partial {
    float max, sum, *out; /* out [head_dim] */
} partial;

typedef struct attention_job {
    cpu_backend   *b;
    const k_span  *span; /* of a tile or a split query */
    float         *y;
    const float   *qg; /* [T, heads*2*head_dim] */
    const k_cache *cache;
    uint32_t       row; /* of a split query */
    uint32_t       n_partitions;
    atomic_size_t  next; /* tile of all spans' */
} attention_job;

/* The keys (or values) of one head in a page; `form` of pages that are not early. */
static kv_rows rows_of(const cpu_backend *b, const k_buf *buf, k_kv_form form, uint32_t early, uint32_t page,
                       size_t kv_head)
{
    const k_attention_shape *s      = &b->limits.attention;
    const k_kv_form          mine   = page < early ? k_kv_early(form) : form;
    const size_t             behind = page < early ? 0 : (size_t)early * s->kv_heads * K_PAGE;
    const size_t             rows   = ((size_t)page * s->kv_heads + kv_head) * K_PAGE - behind;
    uint8_t                 *at     = (uint8_t *)buf->data + rows * k_kv_row_bytes(mine, s->head_dim) +
                  behind * k_kv_row_bytes(k_kv_early(form), s->head_dim);
    return (kv_rows){.at = at, .form = mine, .dim = s->head_dim};
}

/* ---- queries, keys, values of the step ---- */

typedef struct store_job {
    cpu_backend   *b;
    float         *qg, *keys;
    const float   *values, *q_gain, *k_gain;
    const k_cache *cache;
} store_job;

/* Norm, then rotate the pairs (i, i + rotary/2). */
static void norm_rotate(const cpu_backend *b, float *x, const float *gain, const float *cs)
{
    const k_attention_shape *s    = &b->limits.attention;
    const size_t             half = s->rotary_dim / 2;
    b->isa.rmsnorm(x, x, gain, s->head_dim, s->eps);
    for (size_t i = 0; i < half; i++) {
        const float lo = x[i], hi = x[half + i], c = cs[i], sn = cs[half + i];
        x[i]        = lo * c - hi * sn;
        x[half + i] = hi * c + lo * sn;
    }
}

static void store_vector(const kv_rows *page, size_t slot, const float *x)
{
    kv_row_write(page->at + slot * k_kv_row_bytes(page->form, page->dim), page->form, x, page->dim);
}

/* `form` of the layer: what it rotates is rotated in early pages, too. */
static void store_value(const kv_rows *page, k_kv_form form, size_t slot, const float *x)
{
    float rotated[CPU_MAX_HEAD_DIM];
    if (form.kind != K_KV_TURBO3) {
        store_vector(page, slot, x);
        return;
    }
    memcpy(rotated, x, page->dim * sizeof *x);
    kv_rotate(rotated, page->dim);
    store_vector(page, slot, rotated);
}

static void store_row(void *arg, size_t row)
{
    const store_job         *j    = arg;
    const k_attention_shape *s    = &j->b->limits.attention;
    const k_span            *span = j->b->step->spans;
    while (row >= (size_t)span->row + span->n) span++;
    const size_t position = j->b->positions[row];
    const float *cs       = j->b->rope + row * s->rotary_dim;
    for (size_t h = 0; h < s->heads; h++)
        norm_rotate(j->b, j->qg + (row * s->heads + h) * 2 * s->head_dim, j->q_gain, cs);
    const uint32_t page = span->pages[position / K_PAGE];
    const k_cache *c    = j->cache;
    for (size_t h = 0; h < s->kv_heads; h++) {
        const size_t at = (row * s->kv_heads + h) * s->head_dim;
        norm_rotate(j->b, j->keys + at, j->k_gain, cs);
        const kv_rows keys   = rows_of(j->b, c->keys, c->form.keys, c->early, page, h);
        const kv_rows values = rows_of(j->b, c->values, c->form.values, c->early, page, h);
        store_vector(&keys, position % K_PAGE, j->keys + at);
        store_value(&values, c->form.values, position % K_PAGE, j->values + at);
    }
}

/* ---- attending ---- */

/* Up to ATTENTION_TILE queries of one kv head over one partition: p[i] gets
 * the result.  last[i]: the query's own position, the last key it sees. */
static void attend_partition(const attention_job *j, size_t kv_head, uint32_t partition, unsigned nq,
                             const float *const *q, const uint32_t *last, partial *p)
{
    const cpu_backend       *b     = j->b;
    const k_attention_shape *s     = &b->limits.attention;
    const float              scale = (float)(1.0 / __builtin_sqrt((double)s->head_dim));
    float                    scores[ATTENTION_TILE * K_PAGE];
    for (unsigned i = 0; i < nq; i++) p[i].max = -INFINITY, p[i].sum = 0.0f;
    for (uint32_t block = partition * PARTITION_BLOCKS; block < (partition + 1) * PARTITION_BLOCKS; block++) {
        const uint32_t first = block * K_PAGE;
        size_t         nk[ATTENTION_TILE], most = 0;
        for (unsigned i = 0; i < nq; i++) {
            nk[i] = last[i] < first ? 0 : last[i] - first >= K_PAGE ? K_PAGE : last[i] - first + 1;
            most  = nk[i] > most ? nk[i] : most;
        }
        if (most == 0) return;
        const uint32_t page   = j->span->pages[block];
        const k_cache *c      = j->cache;
        const kv_rows  keys   = rows_of(b, c->keys, c->form.keys, c->early, page, kv_head);
        const kv_rows  values = rows_of(b, c->values, c->form.values, c->early, page, kv_head);
        float         *out[ATTENTION_TILE], rescale[ATTENTION_TILE];
        b->isa.scores(scores, q, nq, &keys, most, scale);
        for (unsigned i = 0; i < nq; i++) {
            out[i]     = p[i].out;
            rescale[i] = p[i].max == -INFINITY ? 0.0f : 1.0f; /* without keys in this block it keeps what it has */
            if (nk[i] == 0) continue;
            const float sum = b->isa.softmax_block(scores + i * K_PAGE, nk[i], &p[i].max, &rescale[i]);
            p[i].sum        = fmaf(p[i].sum, rescale[i], sum);
        }
        b->isa.values(out, rescale, scores, nq, nk, &values);
    }
}

/* a = a merged with b, in this order. */
static void merge(const cpu_isa *isa, partial *a, const partial *b, size_t n)
{
    const float max     = a->max > b->max ? a->max : b->max;
    float       diff[2] = {a->max - max, b->max - max}, w[2];
    isa->exp(w, diff, 2);
    a->sum = fmaf(b->sum, w[1], a->sum * w[0]);
    a->max = max;
    for (size_t i = 0; i < n; i++) a->out[i] *= w[0];
    isa->axpy(a->out, w[1], b->out, n);
}

/* y = out / sum * sigmoid(gate), out rotated back if the values are rotated */
static void emit(const attention_job *j, size_t row, size_t head, const partial *p)
{
    const k_attention_shape *s = &j->b->limits.attention;
    float                   *y = j->y + (row * s->heads + head) * s->head_dim;
    for (size_t i = 0; i < s->head_dim; i++) y[i] = p->out[i] / p->sum;
    if (j->cache->form.values.kind == K_KV_TURBO3) kv_rotate_back(y, s->head_dim);
    j->b->isa.gate(y, j->qg + ((row * s->heads + head) * 2 + 1) * s->head_dim, s->head_dim);
}

/* Queries first .. first+nq-1 of one kv head over all their partitions.
 * Queries are numbered row by row, the heads of the group within. */
static void attend_tile(const attention_job *j, size_t kv_head, size_t first, unsigned nq)
{
    const k_attention_shape *s     = &j->b->limits.attention;
    const size_t             group = s->heads / s->kv_heads;
    float                    out[2][ATTENTION_TILE][CPU_MAX_HEAD_DIM];
    const float             *q[ATTENTION_TILE];
    uint32_t                 last[ATTENTION_TILE], farthest = 0;
    size_t                   row[ATTENTION_TILE], head[ATTENTION_TILE];
    partial                  total[ATTENTION_TILE], part[ATTENTION_TILE];
    for (unsigned i = 0; i < nq; i++) {
        const uint32_t t = (uint32_t)((first + i) / group);
        row[i]           = j->span->row + t;
        head[i]          = kv_head * group + (first + i) % group;
        q[i]             = j->qg + (row[i] * s->heads + head[i]) * 2 * s->head_dim;
        last[i]          = j->span->position + t;
        farthest         = last[i] > farthest ? last[i] : farthest;
        total[i].out     = out[0][i];
        part[i].out      = out[1][i];
    }
    attend_partition(j, kv_head, 0, nq, q, last, total);
    for (uint32_t p = 1; p <= farthest / K_PARTITION; p++) {
        attend_partition(j, kv_head, p, nq, q, last, part);
        for (unsigned i = 0; i < nq; i++)
            if (last[i] / K_PARTITION >= p) merge(&j->b->isa, &total[i], &part[i], s->head_dim);
    }
    for (unsigned i = 0; i < nq; i++) emit(j, row[i], head[i], &total[i]);
}

/* Are the rows of a span worth a partition a unit?  Not when the step's rows
 * keep all threads busy or the first partition is all there is. */
static bool is_split(const cpu_backend *b, const k_span *span)
{
    const uint32_t threads = pool_threads(b->pool);
    return threads > 1 && (size_t)b->step->n_rows * b->limits.attention.kv_heads < 2 * (size_t)threads &&
           span->position + span->n > K_PARTITION;
}

static size_t span_queries(const k_attention_shape *s, const k_span *span)
{
    return (size_t)span->n * (s->heads / s->kv_heads);
}

/* The tiles of all spans that are not split, numbered through.  Contexts differ
 * in length, and later rows see more keys: a thread takes the next tile when it
 * is done with one. */
static void tiles_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    (void)thread, (void)n_threads;
    attention_job           *all  = arg;
    const k_attention_shape *s    = &all->b->limits.attention;
    const k_step            *step = all->b->step;
    attention_job            mine = {.b = all->b, .y = all->y, .qg = all->qg, .cache = all->cache};
    size_t u = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed), before = 0; /* tiles of earlier spans */
    for (uint32_t i = 0; i < step->n_spans; i++) {
        if (is_split(all->b, &step->spans[i])) continue;
        mine.span            = &step->spans[i];
        const size_t queries = span_queries(s, mine.span);
        const size_t tiles   = (queries + ATTENTION_TILE - 1) / ATTENTION_TILE * s->kv_heads;
        for (; u - before < tiles; u = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed)) {
            const size_t first = (u - before) / s->kv_heads * ATTENTION_TILE, left = queries - first;
            attend_tile(&mine, (u - before) % s->kv_heads, first,
                        left < ATTENTION_TILE ? (unsigned)left : ATTENTION_TILE);
        }
        before += tiles;
    }
}

/* ---- one row, a partition a unit ---- */

static partial *split_partial(const attention_job *j, partial *p, size_t head, uint32_t partition)
{
    const size_t size = (size_t)j->b->limits.attention.head_dim + 2;
    float       *at   = j->b->partials + (head * j->n_partitions + partition) * size;
    *p                = (partial){.max = at[0], .sum = at[1], .out = at + 2};
    return p;
}

static void split_unit(const attention_job *j, size_t kv_head, uint32_t partition)
{
    const k_attention_shape *s     = &j->b->limits.attention;
    const size_t             group = s->heads / s->kv_heads;
    const uint32_t           mine  = j->span->position + (j->row - j->span->row);
    for (size_t g = 0; g < group; g += ATTENTION_TILE) {
        const unsigned nq = group - g < ATTENTION_TILE ? (unsigned)(group - g) : ATTENTION_TILE;
        const float   *q[ATTENTION_TILE];
        uint32_t       last[ATTENTION_TILE];
        partial        p[ATTENTION_TILE];
        for (unsigned i = 0; i < nq; i++) {
            const size_t head = kv_head * group + g + i;
            q[i]              = j->qg + ((size_t)j->row * s->heads + head) * 2 * s->head_dim;
            last[i]           = mine;
            (void)split_partial(j, &p[i], head, partition);
        }
        attend_partition(j, kv_head, partition, nq, q, last, p);
        for (unsigned i = 0; i < nq; i++) p[i].out[-2] = p[i].max, p[i].out[-1] = p[i].sum;
    }
}

static void split_part(void *arg, uint32_t thread, uint32_t n_threads)
{
    const attention_job     *j = arg;
    const k_attention_shape *s = &j->b->limits.attention;
    size_t                   begin, end;
    pool_cut((size_t)s->kv_heads * j->n_partitions, 1, thread, n_threads, &begin, &end);
    for (size_t u = begin; u < end; u++) split_unit(j, u / j->n_partitions, (uint32_t)(u % j->n_partitions));
    pool_barrier(j->b->pool);
    pool_cut(s->heads, 1, thread, n_threads, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        partial total, part;
        (void)split_partial(j, &total, h, 0);
        for (uint32_t p = 1; p < j->n_partitions; p++)
            merge(&j->b->isa, &total, split_partial(j, &part, h, p), s->head_dim);
        emit(j, j->row, h, &total);
    }
}

void cpu_attention(kernels *k, k_buf *y, k_buf *qg, k_buf *keys, const k_buf *values, const k_buf *q_gain,
                   const k_buf *k_gain, const k_cache *cache)
{
    cpu_backend             *b     = cpu_of(k);
    const k_attention_shape *s     = &b->limits.attention;
    store_job                store = {.b      = b,
                                      .qg     = buf_f32(qg),
                                      .keys   = buf_f32(keys),
                                      .values = buf_f32(values),
                                      .q_gain = buf_f32(q_gain),
                                      .k_gain = buf_f32(k_gain),
                                      .cache  = cache};
    attention_job            job   = {.b = b, .y = buf_f32(y), .qg = buf_f32(qg), .cache = cache};
    for_rows(b, store_row, &store, b->step->n_rows, 4 * (size_t)(s->heads + s->kv_heads) * s->head_dim);
    uint32_t n_split = 0;
    for (uint32_t i = 0; i < b->step->n_spans; i++) n_split += is_split(b, &b->step->spans[i]);
    if (n_split < b->step->n_spans) pool_run(b->pool, tiles_part, &job);
    for (uint32_t i = 0; i < b->step->n_spans; i++) {
        job.span = &b->step->spans[i];
        if (!is_split(b, job.span)) continue;
        for (job.row = job.span->row; job.row < job.span->row + job.span->n; job.row++) {
            job.n_partitions = (job.span->position + (job.row - job.span->row)) / K_PARTITION + 1;
            pool_run(b->pool, split_part, &job);
        }
    }
}
