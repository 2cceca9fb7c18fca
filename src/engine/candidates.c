/* engine/candidates.c - maximum, selection and sorting of logits.
 *
 * A vocabulary has a quarter of a million entries and usually only a few dozen
 * matter: the few best come from one pass with a heap, larger sets from Hoare's
 * quickselect, and only what was selected is sorted. */
#include "engine/candidates.h"

#include <float.h>

enum { LANES = 16, SMALL_SORT = 16 };

/* Independent lanes let the compiler use vector registers; a maximum has no
 * rounding, so their number does not show in the result. */
bool logits_max(const float *z, uint32_t n, float *max)
{
    float    best[LANES];
    uint32_t bad[LANES];
    for (uint32_t j = 0; j < LANES; j++) {
        best[j] = -__builtin_inff();
        bad[j]  = 0;
    }
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (uint32_t j = 0; j < LANES; j++) {
            const float v = z[i + j];
            best[j]       = v > best[j] ? v : best[j];
            bad[j] |= v <= FLT_MAX ? 0u : 1u;
        }
    }
    for (uint32_t j = 0; i < n; i++, j++) {
        best[j] = z[i] > best[j] ? z[i] : best[j];
        bad[j] |= z[i] <= FLT_MAX ? 0u : 1u;
    }
    uint32_t any_bad = 0;
    *max             = best[0];
    for (uint32_t j = 0; j < LANES; j++) {
        if (best[j] > *max) *max = best[j];
        any_bad |= bad[j];
    }
    return any_bad == 0;
}

uint32_t logits_find(const float *z, uint32_t n, float max)
{
    uint32_t i = 0;
    while (i < n && z[i] != max) i++;
    return i;
}

uint32_t candidates_all(candidate *c, const float *z, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        c[kept] = (candidate){z[i], i};
        kept += z[i] >= -FLT_MAX; /* without a branch: bans come in any pattern */
    }
    return kept;
}

/* Moves c[at] down until no child is worse: the root is the worst of the heap. */
static void sift_down(candidate *c, uint32_t n, uint32_t at)
{
    const candidate moving = c[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && candidate_better(c[child], c[child + 1])) child++;
        if (!candidate_better(moving, c[child])) break;
        c[at] = c[child];
        at    = child;
    }
    c[at] = moving;
}

static void heap_build(candidate *c, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;) sift_down(c, n, i);
}

uint32_t candidates_best(candidate *c, uint32_t k, const float *z, uint32_t n)
{
    uint32_t kept = 0, i = 0;
    for (; i < n && kept < k; i++)
        if (z[i] >= -FLT_MAX) c[kept++] = (candidate){z[i], i};
    heap_build(c, kept);
    if (kept == k && k > 0) {
        /* Ids grow, so an equal logit is never better than one already in. */
        for (; i < n; i++) {
            if (z[i] > c[0].z) {
                c[0] = (candidate){z[i], i};
                sift_down(c, k, 0);
            }
        }
    }
    candidates_sort(c, kept);
    return kept;
}

static void swap(candidate *a, candidate *b)
{
    const candidate t = *a;
    *a                = *b;
    *b                = t;
}

/* Hoare's partition around a pivot of the range: returns m, 0 < m < n, with
 * everything in c[0..m) at least as good as everything in c[m..n).  n >= 2. */
static uint32_t split(candidate *c, uint32_t n, uint32_t random)
{
    /* The pivot must not be the last one, or m could be n. */
    const candidate pivot = c[(uint32_t)((uint64_t)random * (n - 1) >> 32)];
    uint32_t        i = 0, j = n - 1;
    for (;;) {
        while (candidate_better(c[i], pivot)) i++;
        while (candidate_better(pivot, c[j])) j--;
        if (i >= j) return j + 1;
        swap(&c[i++], &c[j--]);
    }
}

void candidates_partition(candidate *c, uint32_t n, uint32_t k)
{
    uint32_t random = n * 2654435761u + k;
    /* Invariant: the border between the best k and the rest lies inside c[0..n). */
    while (k > 0 && k < n) {
        random           = random * 1664525u + 1013904223u;
        const uint32_t m = split(c, n, random);
        if (m <= k) {
            c += m;
            n -= m;
            k -= m;
        } else {
            n = m;
        }
    }
}

static void heap_sort(candidate *c, uint32_t n)
{
    heap_build(c, n);
    while (n > 1) {
        swap(&c[0], &c[--n]);
        sift_down(c, n, 0);
    }
}

static void insertion_sort(candidate *c, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const candidate moving = c[i];
        uint32_t        j      = i;
        for (; j > 0 && candidate_better(moving, c[j - 1]); j--) c[j] = c[j - 1];
        c[j] = moving;
    }
}

/* Quicksort; a range that keeps splitting badly is left to heapsort, so the
 * worst case stays n log n. */
static void sort_range(candidate *c, uint32_t n, uint32_t random, uint32_t depth)
{
    while (n > SMALL_SORT) {
        if (depth == 0) {
            heap_sort(c, n);
            return;
        }
        depth--;
        random           = random * 1664525u + 1013904223u;
        const uint32_t m = split(c, n, random);
        sort_range(c, m, random, depth);
        c += m;
        n -= m;
    }
    insertion_sort(c, n);
}

void candidates_sort(candidate *c, uint32_t n)
{
    sort_range(c, n, n, 64);
}
