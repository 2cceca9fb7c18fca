/* engine/stop.c - one Knuth-Morris-Pratt automaton a stop string, side by side.
 *
 * D. E. Knuth, J. H. Morris and V. R. Pratt, "Fast Pattern Matching in Strings",
 * SIAM J. Comput. 6 (1977).  `matched` is the length of the longest prefix of
 * the pattern that is a suffix of the text so far.  The longest of these over
 * all patterns is exactly the tail that must be held back, and its bytes are the
 * beginning of that pattern: so nothing is ever copied or buffered.  With at most
 * 16 patterns this is smaller than one joint automaton (Aho-Corasick) and as fast. */
#include "engine/stop.h"

#include "base/mem.h"

#include <string.h>

/* border[i]: length of the longest proper prefix of bytes[0..i) that is also its suffix. */
static void find_borders(uint16_t *border, const uint8_t *bytes, size_t len)
{
    border[0] = 0;
    border[1] = 0;
    for (size_t i = 1; i < len; i++) {
        uint16_t k = border[i];
        while (k > 0 && bytes[k] != bytes[i]) k = border[k];
        border[i + 1] = (uint16_t)(k + (bytes[k] == bytes[i]));
    }
}

static weir_status check_strings(const stop_string *strings, size_t n, size_t *total, weir_error *err)
{
    if (n > STOP_MAX_STRINGS)
        return status_fail(err, WEIR_INVALID, "stop: expected at most %d strings, found %zu", STOP_MAX_STRINGS, n);
    *total = 0;
    for (size_t i = 0; i < n; i++) {
        if (strings[i].len > STOP_MAX_BYTES)
            return status_fail(err, WEIR_INVALID, "stop[%zu]: expected at most %d bytes, found %zu", i, STOP_MAX_BYTES,
                               strings[i].len);
        *total += strings[i].len;
    }
    return WEIR_OK;
}

weir_status stop_init(stop_matcher *m, const stop_string *strings, size_t n, bool include, weir_error *err)
{
    *m           = (stop_matcher){.include = include};
    size_t total = 0;
    TRY(check_strings(strings, n, &total, err));
    if (total == 0) return WEIR_OK;

    /* First all borders, len + 1 each, then all bytes. */
    m->memory = mem_alloc(1, (total + n) * sizeof(uint16_t) + total);
    if (m->memory == NULL) return status_fail(err, WEIR_NO_MEMORY, "stop: no memory for %zu bytes", total);
    uint16_t *border = m->memory;
    uint8_t  *bytes  = (uint8_t *)(border + total + n);
    for (size_t i = 0; i < n; i++) {
        const size_t len = strings[i].len;
        if (len == 0) continue;
        memcpy(bytes, strings[i].bytes, len);
        find_borders(border, bytes, len);
        m->pattern[m->n++] =
            (stop_pattern){.bytes = bytes, .border = border, .len = (uint16_t)len, .index = (uint32_t)i};
        bytes += len;
        border += len + 1;
    }
    return WEIR_OK;
}

void stop_free(stop_matcher *m)
{
    mem_free(m->memory);
    *m = (stop_matcher){0};
}

void stop_reset(stop_matcher *m)
{
    for (uint32_t i = 0; i < m->n; i++) m->pattern[i].matched = 0;
    m->stopped = false;
}

/* The pattern with the longest partial match: what is held back; NULL: nothing. */
static const stop_pattern *longest_partial(const stop_matcher *m)
{
    const stop_pattern *best = NULL;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->pattern[i].matched > (best == NULL ? 0 : best->matched)) best = &m->pattern[i];
    return best;
}

/* Advances all patterns by one byte; the longest that is now complete, or NULL. */
static const stop_pattern *advance(stop_matcher *m, uint8_t byte)
{
    const stop_pattern *found = NULL;
    for (uint32_t i = 0; i < m->n; i++) {
        stop_pattern *p = &m->pattern[i];
        uint16_t      k = p->matched;
        while (k > 0 && p->bytes[k] != byte) k = p->border[k];
        if (p->bytes[k] == byte) k++;
        p->matched = k;
        if (k == p->len && (found == NULL || k > found->len)) found = p;
    }
    return found;
}

/* The first n bytes of held + piece. */
static stop_output give_out(const char *held, size_t n_held, size_t n)
{
    return (stop_output){.held = held, .n_held = n < n_held ? n : n_held, .n_piece = n < n_held ? 0 : n - n_held};
}

stop_output stop_push(stop_matcher *m, const char *piece, size_t n)
{
    if (m->stopped) return (stop_output){.held = "", .stopped = true};
    const stop_pattern *before = longest_partial(m);
    const char         *held   = before == NULL ? "" : (const char *)before->bytes;
    const size_t        n_held = before == NULL ? 0 : before->matched;

    for (size_t i = 0; i < n; i++) {
        const stop_pattern *found = advance(m, (uint8_t)piece[i]);
        if (found == NULL) continue;
        m->stopped       = true;
        const size_t end = n_held + i + 1;
        stop_output  out = give_out(held, n_held, m->include ? end : end - found->len);
        out.stopped      = true;
        out.which        = found->index;
        return out;
    }
    const stop_pattern *after = longest_partial(m);
    return give_out(held, n_held, n_held + n - (after == NULL ? 0 : after->matched));
}

stop_output stop_finish(stop_matcher *m)
{
    if (m->stopped) return (stop_output){.held = "", .stopped = true};
    const stop_pattern *partial = longest_partial(m);
    const stop_output   out     = partial == NULL
                                      ? give_out("", 0, 0)
                                      : give_out((const char *)partial->bytes, partial->matched, partial->matched);
    stop_reset(m);
    return out;
}
