/* grammar/char_set.c - ranges of characters. */
#include "base/mem.h"
#include "grammar/regex.h"

#include <stdlib.h>

enum { CHAR_SET_MOST = 1 << 14 };

void char_set_free(char_set *s)
{
    mem_free(s->r);
    *s = (char_set){0};
}

weir_status char_set_add(char_set *s, uint32_t lo, uint32_t hi, weir_error *err)
{
    if (s->n == s->cap) {
        const uint32_t more = s->cap == 0 ? 8 : s->cap * 2;
        if (more > CHAR_SET_MOST)
            return status_fail(err, WEIR_INVALID, "class: expected at most %d ranges", CHAR_SET_MOST);
        void *p = mem_realloc(s->r, more, sizeof *s->r);
        if (p == NULL) return status_fail(err, WEIR_NO_MEMORY, "class: out of memory");
        s->r   = p;
        s->cap = more;
    }
    s->r[s->n].lo   = lo;
    s->r[s->n++].hi = hi;
    return WEIR_OK;
}

static int by_low(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

weir_status char_set_finish(char_set *s, bool inverted, weir_error *err)
{
    if (s->n > 0) qsort(s->r, s->n, sizeof *s->r, by_low); /* lo comes first in a range */
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (n > 0 && s->r[i].lo <= s->r[n - 1].hi + 1) {
            if (s->r[i].hi > s->r[n - 1].hi) s->r[n - 1].hi = s->r[i].hi;
        } else {
            s->r[n++] = s->r[i];
        }
    }
    s->n = n;
    if (!inverted) return WEIR_OK;
    char_set    rest = {0};
    uint32_t    next = 0;
    weir_status st   = WEIR_OK;
    for (uint32_t i = 0; i < n && st == WEIR_OK; i++) {
        if (s->r[i].lo > next) st = char_set_add(&rest, next, s->r[i].lo - 1, err);
        next = s->r[i].hi + 1;
    }
    if (st == WEIR_OK && next <= CODE_POINT_MOST) st = char_set_add(&rest, next, CODE_POINT_MOST, err);
    char_set_free(s);
    *s = rest;
    return st;
}

/* ECMA-262's white space. */
static const uint32_t space[][2] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                    {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const uint32_t digit[][2] = {{'0', '9'}};
static const uint32_t word[][2]  = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};

bool char_set_class(char_set *s, char letter, weir_status *st, weir_error *err)
{
    static const struct {
        char letter;
        const uint32_t (*r)[2];
        uint32_t n;
    } classes[]      = {{'d', digit, 1}, {'w', word, 4}, {'s', space, sizeof space / sizeof *space}};
    const char lower = (char)(letter | 32);
    for (unsigned i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].letter != lower) continue;
        char_set one = {0};
        *st          = WEIR_OK;
        for (uint32_t j = 0; j < classes[i].n && *st == WEIR_OK; j++)
            *st = char_set_add(&one, classes[i].r[j][0], classes[i].r[j][1], err);
        if (*st == WEIR_OK) *st = char_set_finish(&one, letter != lower, err);
        for (uint32_t j = 0; j < one.n && *st == WEIR_OK; j++) *st = char_set_add(s, one.r[j].lo, one.r[j].hi, err);
        char_set_free(&one);
        return true;
    }
    return false;
}
