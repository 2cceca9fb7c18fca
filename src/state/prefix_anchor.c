/* state/prefix_anchor.c - anchors, and which of them is worth least.
 *
 * An anchor saves the tokens between the next shallower anchor and itself, to
 * whoever continues from it.  How likely that is, is told by how lately its path was
 * used; many conversations right below it count each for themselves, so the end of
 * a system prompt outlives them.  Using a path makes all of it recent: within one
 * conversation the gap alone decides, the smallest goes, and the anchors thin out
 * evenly.  When pages are short, value is counted per page. */
#include "state/prefix_parts.h"

#include <math.h>
#include <string.h>

/* In adoptions and stores.  A turn of a conversation makes three or four (it is adopted, stored
 * before the reply and after it), so this is eight to ten turns of anybody: a conversation
 * that rests while a few others talk keeps its place, a gap of 1000 tokens unused for
 * a hundred turns is worth one token. */
enum { HALF_LIFE = 32 };

void *anchor_snapshot(const prefix_tree *t, const prefix_anchor *a)
{
    return t->snapshots + (uint64_t)(a - t->anchors) * state_size(t->s);
}

void anchor_touch(const prefix_tree *t, prefix_anchor *a)
{
    for (; a != NULL; a = a->shallower) a->used = t->now;
}

void anchor_return(prefix_tree *t, prefix_anchor *a)
{
    a->shallower    = t->free_anchors;
    t->free_anchors = a;
}

/* Whether the tokens up to the end of `node` begin with all those up to the end of `up`. */
static bool passes(const prefix_node *node, const prefix_node *up)
{
    if (node->end <= up->end) return false;
    while (node->end - node->n > up->end - up->n) node = node->parent;
    return node->parent == up->parent && memcmp(node->origin, up->origin, sizeof up->origin) == 0 &&
           prefix_common(node->tokens, up->tokens, up->n) == up->n;
}

void anchor_place(prefix_tree *t, prefix_anchor *a, prefix_node *node, prefix_anchor *shallower)
{
    /* Those that are now below it. */
    for (uint32_t i = 0; i < t->n_snapshots; i++) {
        prefix_anchor *d = &t->anchors[i];
        if (d->at != NULL && d->shallower == shallower && passes(d->at, node)) d->shallower = a;
    }
    *a           = (prefix_anchor){.at = node, .shallower = shallower, .stored = t->now, .used = t->now};
    node->anchor = a;
    t->n_anchors++;
}

void anchor_drop(prefix_tree *t, prefix_anchor *a)
{
    for (uint32_t i = 0; i < t->n_snapshots; i++)
        if (t->anchors[i].at != NULL && t->anchors[i].shallower == a) t->anchors[i].shallower = a->shallower;
    prefix_node *node = a->at;
    node->anchor      = NULL;
    a->at             = NULL;
    t->n_anchors--;
    anchor_return(t, a);
    prefix_prune(t, node);
}

/* ---- value ---- */

double prefix_recency(uint64_t age)
{
    enum { FORGOTTEN = 1000 };
    const uint64_t halvings = age / HALF_LIFE;
    const double   part     = (double)(age % HALF_LIFE) / HALF_LIFE;
    return ldexp(1.0 - part / 2, halvings < FORGOTTEN ? -(int)halvings : -FORGOTTEN);
}

static double recency(const prefix_tree *t, const prefix_anchor *a)
{
    return prefix_recency(t->now - a->used);
}

/* Tokens that an anchor can be expected to save. */
static double value(const prefix_tree *t, const prefix_anchor *a)
{
    const uint32_t from = a->shallower == NULL ? 0 : a->shallower->at->end;
    const double   self = recency(t, a);
    return (a->at->end - from) * (a->below > self ? a->below : self);
}

static void sum_below(const prefix_tree *t)
{
    for (uint32_t i = 0; i < t->n_snapshots; i++) t->anchors[i].below = 0;
    for (uint32_t i = 0; i < t->n_snapshots; i++) {
        const prefix_anchor *a = &t->anchors[i];
        if (a->at != NULL && a->shallower != NULL) a->shallower->below += recency(t, a);
    }
}

/* Pages that nothing but the tree holds and that are kept for an anchor in a leaf; of one
 * that n blocks hold, 1/n. */
static double pages_kept(const prefix_tree *t, const prefix_anchor *a)
{
    double             kept = 0;
    const prefix_node *node = a->at;
    bool               alone;
    do {
        for (uint32_t i = 0; i * K_PAGE < node->n; i++) {
            const uint32_t page = node->pages[i];
            if (t->s->page_refs[page] == t->holds[page]) kept += 1.0 / t->holds[page];
        }
        alone = node->parent->children == node && node->next == NULL;
        node  = node->parent;
    } while (alone && node != &t->root && node->anchor == NULL);
    return kept;
}

/* The order in which anchors go: by class, in it by value, then the shallowest. */
typedef struct rank {
    int class;
    double value;
} rank;

enum { NEVER = 3 };

static rank rank_for_snapshot(const prefix_tree *t, const prefix_anchor *a)
{
    return (rank){0, value(t, a)};
}

/* Only an anchor in a leaf keeps pages.  Where sequences hold them all, giving it up
 * helps only in that others become leaves. */
static rank rank_for_page(const prefix_tree *t, const prefix_anchor *a)
{
    if (a->at->children != NULL) return (rank){NEVER, 0};
    const double kept = pages_kept(t, a);
    const int    last = a == t->pinned ? 2 : kept > 0 ? 0 : 1;
    return (rank){last, value(t, a) / (kept > 0 ? kept : 1)};
}

/* The anchor that goes first; NULL: none. */
static prefix_anchor *least(const prefix_tree *t, rank (*rank_of)(const prefix_tree *, const prefix_anchor *))
{
    prefix_anchor *best = NULL;
    rank           low  = {NEVER, 0};
    sum_below(t);
    for (uint32_t i = 0; i < t->n_snapshots; i++) {
        prefix_anchor *a = &t->anchors[i];
        if (a->at == NULL) continue;
        const rank r = rank_of(t, a);
        if (r.class > low.class || r.class == NEVER) continue;
        if (r.class == low.class && (r.value > low.value || (r.value == low.value && a->at->end >= best->at->end)))
            continue;
        best = a;
        low  = r;
    }
    return best;
}

prefix_anchor *anchor_take(prefix_tree *t)
{
    if (t->free_anchors == NULL) {
        prefix_anchor *a = least(t, rank_for_snapshot);
        if (a == NULL) return NULL;
        anchor_drop(t, a);
    }
    prefix_anchor *a = t->free_anchors;
    t->free_anchors  = a->shallower;
    return a;
}

bool anchor_reclaim(void *tree)
{
    prefix_tree   *t = tree;
    prefix_anchor *a = least(t, rank_for_page);
    if (a == NULL) return false;
    anchor_drop(t, a);
    return true;
}
