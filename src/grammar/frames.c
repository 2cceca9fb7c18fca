/* grammar/frames.c - the calls that are open. */
#include "grammar/frames.h"

#include <string.h>

void frames_init(frames *s, frame *memory, uint32_t most)
{
    s->f    = memory;
    s->most = most;
    s->n    = 1;
    s->full = false;
    s->f[0] = (frame){.next = FRAME_NONE};
    memset(s->heads, 0xFF, sizeof s->heads);
}

static uint32_t hash(uint32_t back, uint64_t data, uint32_t below)
{
    uint64_t h = (data ^ ((uint64_t)back << 32 | below)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    h = (h ^ below) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)(h >> 40) % FRAME_HEADS;
}

uint32_t frames_push(frames *s, uint32_t back, uint64_t data, uint32_t below)
{
    uint32_t *head = &s->heads[hash(back, data, below)];
    for (uint32_t i = *head; i != FRAME_NONE; i = s->f[i].next)
        if (s->f[i].back == back && s->f[i].data == data && s->f[i].below == below) return i;
    if (s->f[below].depth == FRAME_DEPTH_MOST) return FRAME_NONE;
    if (s->n == s->most) {
        s->full = true;
        return FRAME_NONE;
    }
    s->f[s->n] = (frame){.data = data, .back = back, .below = below, .next = *head, .depth = s->f[below].depth + 1};
    *head      = s->n;
    return s->n++;
}

void frames_cut(frames *s, uint32_t n)
{
    while (s->n > n) {
        const frame *f                             = &s->f[--s->n];
        s->heads[hash(f->back, f->data, f->below)] = f->next;
    }
}

void frames_copy(frames *to, const frames *from)
{
    memcpy(to->f, from->f, from->n * sizeof *from->f);
    memcpy(to->heads, from->heads, sizeof from->heads);
    to->n    = from->n;
    to->full = from->full;
}
