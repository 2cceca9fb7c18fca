/* grammar/places.h - where in a grammar a text may have come to, and one byte further.
 *
 * A text may be read in several ways at once, so it has come to a set of places; sets
 * get numbers, and where a byte leads from a set is kept: an automaton without a stack
 * that is made as it is needed and forgotten when its table is full.
 *
 * PLACE_POPPED is the place where the rule at the bottom has ended: the text is
 * complete.  Masks are made without knowing the calls below (mask.h): there it means
 * that something unknown follows, and PLACE_ASK | node is where an edge asks for data
 * that are not known. */
#ifndef GRAMMAR_PLACES_H
#define GRAMMAR_PLACES_H

#include "grammar/automaton.h"
#include "grammar/frames.h"

#define PLACE_POPPED UINT32_MAX
/* Not a place: somewhere on the way to this set nothing more could be counted.  Kept
 * where masks are made, which look whether a limit was felt. */
#define PLACE_LIMITED (UINT32_MAX - 1)
#define PLACE_ASK 0x80000000u

typedef struct place {
    uint64_t data;
    uint32_t node, frame;
} place;

enum {
    PLACES_MOST  = 1024, /* of a set, steps that read nothing included */
    PLACES_SLOTS = 4096, /* of the table that finds equal ones */
    SETS_MOST    = 2048,
    SETS_HEADS   = 1024,
    SET_DEAD     = 0,          /* the empty set */
    SET_NONE     = UINT32_MAX, /* the table is full, or the grammar too ambiguous */
    SETS_POOL    = 1 << 16,
};

typedef struct place_set {
    uint32_t first, n; /* in the pool */
    uint32_t next;     /* of the same hash */
    bool     asks;     /* has PLACE_POPPED or PLACE_ASK */
} place_set;

/* What closing a set needs; one for all that happens under one lock. */
typedef struct place_list {
    uint32_t n, kept_n;
    bool     failed;            /* too many places or frames; sticks */
    bool     ended;             /* the rule at the bottom has */
    bool     limited;           /* for PLACE_LIMITED */
    uint64_t work;              /* places closed so far */
    place    all[PLACES_MOST];  /* met on the way */
    place    kept[PLACES_MOST]; /* that read a byte, or end */
    uint32_t slot[PLACES_SLOTS], stamp[PLACES_SLOTS], now;
} place_list;

void place_list_start(place_list *l);
void place_list_add(place_list *l, uint32_t at, uint64_t data, uint32_t top);
/* Follows all that reads nothing; what stays is in kept[kept_n]. */
void place_list_close(place_list *l, const automaton *a, frames *f);
/* Starts it with what `byte` makes of n places, not closed yet. */
void place_list_step(place_list *l, const automaton *a, const place *p, uint32_t n, uint8_t byte);

/* The place of a text that is complete. */
static inline bool place_is_end(const place *p)
{
    return p->node == PLACE_POPPED;
}

typedef struct place_table {
    const automaton *a;
    frames          *f;
    place_list      *list;
    bool             keeps_limited;
    place           *pool; /* [SETS_POOL] */
    place_set       *sets; /* [SETS_MOST] */
    uint32_t (*step)[256]; /* [SETS_MOST] SET_NONE: not asked yet */
    uint32_t n, pool_n, heads[SETS_HEADS];
} place_table;

void place_table_clear(place_table *t); /* leaves SET_DEAD alone */
/* The number of a set of places, closed. */
uint32_t place_table_set(place_table *t, const place *p, uint32_t n);
uint32_t place_table_miss(place_table *t, uint32_t set, uint8_t byte);

static inline uint32_t place_table_step(place_table *t, uint32_t set, uint8_t byte)
{
    const uint32_t to = t->step[set][byte];
    return to != SET_NONE ? to : place_table_miss(t, set, byte);
}

#endif
