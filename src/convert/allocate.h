/* convert/allocate.h - which width each module gets, so that a budget of bytes does least damage.
 *
 * Each module has some choices (bytes, damage), and the damages of modules add up.  From
 * the smallest choice of each the allocation climbs: again and again the step that saves
 * most damage a byte, of those that still fit.  On the modules' convex hulls that is the
 * optimum for every number of bytes at which it stops; between two of them it is at most one step
 * away. */
#ifndef CONVERT_ALLOCATE_H
#define CONVERT_ALLOCATE_H

#include <stddef.h>
#include <stdint.h>

enum { ALLOCATE_CHOICES = 6 };

typedef struct allocate_choice {
    uint64_t bytes;
    double   damage;
} allocate_choice;

typedef struct allocate_module {
    size_t          n;                         /* 1 and up */
    allocate_choice choices[ALLOCATE_CHOICES]; /* bytes rising */
    size_t          chosen;                    /* the result */
} allocate_module;

/* Chooses for all modules; returns the bytes of the choices, which are more than `budget`
 * only where the smallest ones are.  The first of equal steps is taken. */
uint64_t allocate(allocate_module *modules, size_t n, uint64_t budget);

#endif
