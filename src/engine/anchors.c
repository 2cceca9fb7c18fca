/* engine/anchors.c - see anchors.h. */
#include "engine/anchors.h"

#include "base/mem.h"
#include "base/status.h"

#include <string.h>

enum { ROOM = 8 }; /* for anchors_add */

static uint32_t last_boundary(const uint32_t *prompt, uint32_t n, uint32_t message_start)
{
    for (uint32_t i = n; i-- > 1;)
        if (prompt[i] == message_start) return i;
    return 0;
}

weir_status anchors_plan(anchors *a, const uint32_t *prompt, uint32_t n_prompt, uint32_t from, uint32_t parted,
                         uint32_t message_start, weir_error *err)
{
    const uint32_t capacity = n_prompt / ANCHOR_SPACING + n_prompt / ANCHOR_STRIDE + ROOM;
    *a                      = (anchors){.capacity = capacity};
    a->at                   = mem_alloc(capacity, sizeof *a->at);
    if (a->at == NULL) return status_fail(err, WEIR_NO_MEMORY, "request: out of memory");

    const uint32_t last   = last_boundary(prompt, n_prompt, message_start);
    uint32_t       before = from;
    for (uint32_t i = from + 1; i < n_prompt; i++) {
        const bool boundary = prompt[i] == message_start && i - before >= ANCHOR_SPACING;
        if (i % ANCHOR_STRIDE != 0 && i != parted && i != last && !boundary) continue;
        if (a->n < capacity) a->at[a->n++] = i;
        before = i;
    }
    /* The same prompt again is to be read from near its end; one token has to be read for its logits. */
    if (n_prompt > 1 && n_prompt - 1 - before >= ANCHOR_SPACING) anchors_add(a, n_prompt - 1);
    return WEIR_OK;
}

void anchors_add(anchors *a, uint32_t at)
{
    uint32_t i = a->n;
    while (i > a->next && a->at[i - 1] > at) i--;
    if (a->n == a->capacity || (i > 0 && a->at[i - 1] == at)) return;
    memmove(a->at + i + 1, a->at + i, (a->n - i) * sizeof *a->at);
    a->at[i] = at;
    a->n++;
}

void anchors_free(anchors *a)
{
    mem_free(a->at);
    *a = (anchors){0};
}

uint32_t anchors_distance(const anchors *a, uint32_t length)
{
    for (uint32_t i = a->next; i < a->n; i++)
        if (a->at[i] > length) return a->at[i] - length;
    return UINT32_MAX;
}

bool anchors_reached(anchors *a, uint32_t length)
{
    while (a->next < a->n && a->at[a->next] < length) a->next++;
    return a->next < a->n && a->at[a->next] == length;
}
