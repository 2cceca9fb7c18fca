/* convert/allocate.c - climbing from the smallest choices. */
#include "convert/allocate.h"

typedef struct step {
    size_t module, choice;
    double gain; /* damage saved a byte */
} step;

/* The best step of module `i` that costs at most `room` goes to *best, if it is better. */
static void look_at(step *best, const allocate_module *m, size_t i, uint64_t room)
{
    const allocate_choice *now = &m->choices[m->chosen];
    for (size_t c = m->chosen + 1; c < m->n; c++) {
        const uint64_t more = m->choices[c].bytes - now->bytes;
        const double   gain = (now->damage - m->choices[c].damage) / (double)more;
        if (more <= room && gain > best->gain) *best = (step){i, c, gain};
    }
}

uint64_t allocate(allocate_module *modules, size_t n, uint64_t budget)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        modules[i].chosen = 0;
        bytes += modules[i].choices[0].bytes;
    }
    while (bytes < budget) {
        step best = {0};
        for (size_t i = 0; i < n; i++) look_at(&best, &modules[i], i, budget - bytes);
        if (!(best.gain > 0.0)) break;
        allocate_module *m = &modules[best.module];
        bytes += m->choices[best.choice].bytes - m->choices[m->chosen].bytes;
        m->chosen = best.choice;
    }
    return bytes;
}
