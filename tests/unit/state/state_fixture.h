/* tests/unit/state/state_fixture.h - a small state with known bytes, for the tests of
 * pages, sequences and windows. */
#ifndef STATE_STATE_FIXTURE_H
#define STATE_STATE_FIXTURE_H

#include "state/state_parts.h"

enum { SEQUENCES = 3, WINDOWS = 2, POSITIONS = 200, PAGES = 12, RECORDED = 6 };
enum { TAIL = 48, RECURRENT = 96, PAGE = 2 * K_PAGE, CARRY = 32, CHANNELS = 20, GATES = 8 };
enum { SLOT_BYTES = 2 * (TAIL + RECURRENT) + CARRY, PAGE_BYTES = 2 * 2 * PAGE };

extern const state_limits fixture_limits; /* without carry */

typedef struct fixture {
    kernels   *k;
    state     *s;
    sequence  *q[SEQUENCES];
    uint32_t   kept[PAGES], n_kept; /* pages that the test holds, as a cache would */
    uint32_t   reclaims;
    uint8_t   *lent; /* bytes that are lost when something is given up; NULL: none */
    uint32_t   ids[POSITIONS];
    weir_error err;
} fixture;

void ok(const fixture *f, weir_status st);

/* For cmocka: a state without and with carry.  Closing it sees that nothing got lost. */
int open_state(void **given);
int open_carry(void **given);
int close_state(void **given);

/* Sequence i: new, gone, n tokens longer. */
void make(fixture *f, int i, uint32_t positions);
void drop(fixture *f, int i);
void grow(fixture *f, int i, uint32_t n);

/* All bytes of a page or slot. */
void page_fill(fixture *f, uint32_t page, uint8_t byte);
bool page_is(fixture *f, uint32_t page, uint8_t byte);
void slot_fill(fixture *f, uint32_t slot, uint8_t byte);
bool slot_is(fixture *f, uint32_t slot, uint8_t byte);
/* Sequence i is saved as that byte, and its slot holds it. */
bool saved_is(fixture *f, int i, uint8_t byte);

/* Keeps a page as a cache would; gives up the one that is kept longest (state_reclaim_fn). */
void keep(fixture *f, uint32_t page);
bool reclaim(void *given);

#endif
