/* engine/candidates.h - the tokens still in the running, and finding the best.
 *
 * "Best" is the higher logit and on ties the lower id: a total order, so every
 * selection below has one right answer.  Nothing here allocates; any thread may
 * call with its own arrays. */
#ifndef ENGINE_CANDIDATES_H
#define ENGINE_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct candidate {
    float    z; /* logit; never NaN */
    uint32_t id;
} candidate;

static inline bool candidate_better(candidate a, candidate b)
{
    return a.z > b.z || (a.z == b.z && a.id < b.id);
}

/* Largest of n values into *max.  False when one of them is NaN or +inf. */
bool logits_max(const float *z, uint32_t n, float *max);

/* Lowest index with z[i] == max; n when there is none. */
uint32_t logits_find(const float *z, uint32_t n, float max);

/* All of n logits that are not -inf, in the order of their ids, into c[n]. */
uint32_t candidates_all(candidate *c, const float *z, uint32_t n);

/* The best k (or fewer) of n logits that are not -inf into c[k], best first, in
 * one pass over z; meant for small k.  Returns how many. */
uint32_t candidates_best(candidate *c, uint32_t k, const float *z, uint32_t n);

/* Reorders c[0..n) so that c[0..k) are the best k, unordered.  O(n) expected,
 * with pivots that do not depend on anything but n and k. */
void candidates_partition(candidate *c, uint32_t n, uint32_t k);

/* Sorts best first, in place. */
void candidates_sort(candidate *c, uint32_t n);

#endif
