/* grammar/schema_integer.c - integers within bounds, digit by digit. */
#include "grammar/schema_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MOST = 20 };

/* from --numbers of n digits from lo to hi, in order--> to */
static void digit_range(automaton *a, uint32_t from, const char *lo, const char *hi, unsigned n, uint32_t to)
{
    static const char least[] = "00000000000000000000", most[] = "99999999999999999999";
    if (a->failed) return;
    if (n == 0) {
        automaton_free_edge(a, from, to);
        return;
    }
    const uint32_t rule_id = a->nodes[from].rule;
    char           first = lo[0], last = hi[0];
    if (first == last) {
        const uint32_t next = automaton_node(a, rule_id);
        automaton_bytes_edge(a, from, (uint8_t)first, (uint8_t)first, next);
        digit_range(a, next, lo + 1, hi + 1, n - 1, to);
        return;
    }
    if (memcmp(lo + 1, least, n - 1) != 0) {
        const uint32_t next = automaton_node(a, rule_id);
        automaton_bytes_edge(a, from, (uint8_t)first, (uint8_t)first, next);
        digit_range(a, next, lo + 1, most, n - 1, to);
        first++;
    }
    if (memcmp(hi + 1, most, n - 1) != 0) {
        const uint32_t next = automaton_node(a, rule_id);
        automaton_bytes_edge(a, from, (uint8_t)last, (uint8_t)last, next);
        digit_range(a, next, least, hi + 1, n - 1, to);
        last--;
    }
    if (first > last) return;
    const uint32_t next = automaton_node(a, rule_id);
    automaton_bytes_edge(a, from, (uint8_t)first, (uint8_t)last, next);
    digit_range(a, next, least, most, n - 1, to);
}

static unsigned text_of(uint64_t v, char out[DIGITS_MOST + 1])
{
    return (unsigned)snprintf(out, DIGITS_MOST + 1, "%" PRIu64, v);
}

/* from --numbers with more than n digits--> to */
static void longer(automaton *a, uint32_t from, unsigned n, uint32_t to)
{
    for (unsigned i = 0; i <= n && !a->failed; i++) {
        const uint32_t next = automaton_node(a, a->nodes[from].rule);
        automaton_bytes_edge(a, from, i == 0 ? '1' : '0', '9', next);
        from = next;
    }
    automaton_bytes_edge(a, from, '0', '9', from);
    automaton_free_edge(a, from, to);
}

/* from --lo to hi, without a sign--> to; hi UINT64_MAX: no bound. */
static void put_range(automaton *a, uint32_t from, uint64_t lo, uint64_t hi, uint32_t to)
{
    char           low[DIGITS_MOST + 1], high[DIGITS_MOST + 1], l[DIGITS_MOST + 1], h[DIGITS_MOST + 1];
    const unsigned n_low = text_of(lo, low), n_high = hi == UINT64_MAX ? n_low : text_of(hi, high);
    for (unsigned n = n_low; n <= n_high; n++) {
        memset(l, '0', n);
        memset(h, '9', n);
        if (n > 1) l[0] = '1';
        digit_range(a, from, n == n_low ? low : l, n == n_high && hi != UINT64_MAX ? high : h, n, to);
    }
    if (hi == UINT64_MAX) longer(a, from, n_low, to);
}

/* The tighter of two bounds, of which one excludes its value; false: none. */
static bool bound(const json_t *flat, const char *with, const char *without, bool lower, int64_t *out)
{
    bool        any     = false;
    const char *keys[2] = {with, without};
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(flat, keys[i]);
        if (v == NULL) continue;
        int64_t n = json_integer_value(v);
        if (json_is_real(v)) n = (int64_t)(lower ? ceil(json_real_value(v)) : floor(json_real_value(v)));
        const bool whole = json_is_integer(v) || (double)n == json_real_value(v);
        if (i == 1 && whole && n != (lower ? INT64_MAX : INT64_MIN)) n += lower ? 1 : -1;
        if (!any || (lower ? n > *out : n < *out)) *out = n;
        any = true;
    }
    return any;
}

weir_status schema_put_integer(schema_compiler *c, const json_t *flat, uint32_t from, uint32_t to, weir_error *err)
{
    automaton *a  = c->a;
    int64_t    lo = 0, hi = 0;
    const bool low  = bound(flat, "minimum", "exclusiveMinimum", true, &lo);
    const bool high = bound(flat, "maximum", "exclusiveMaximum", false, &hi);
    if (low && high && lo > hi) return WEIR_OK;
    const uint32_t plain = automaton_node(a, a->nodes[from].rule), minus = automaton_node(a, a->nodes[from].rule);
    TRY(automaton_status(a, err));
    automaton_free_edge(a, from, plain);
    if (!high || hi >= 0) put_range(a, plain, low && lo > 0 ? (uint64_t)lo : 0, high ? (uint64_t)hi : UINT64_MAX, to);
    if (low && lo >= 0) return automaton_status(a, err);
    automaton_bytes_edge(a, from, '-', '-', minus);
    /* -x for x from -hi to -lo; the negative of the least integer is no integer. */
    put_range(a, minus, high && hi < 0 ? 0 - (uint64_t)hi : 1, low ? 0 - (uint64_t)lo : UINT64_MAX, to);
    return automaton_status(a, err);
}
