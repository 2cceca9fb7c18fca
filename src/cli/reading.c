/* cli/reading.c - reading in pieces; see reading.h. */
#include "cli/reading.h"

#include "base/clock.h"
#include "base/status.h"

/* Tokens of a piece: the first is short, for the speed is not known yet.  Past
 * the engine's own chunk there is nothing to gain. */
enum { FIRST_PIECE = 32, SHORTEST_PIECE = 8, LONGEST_PIECE = 512 };
static const double piece_seconds = 0.5;

/* The next piece's length, when the last had `n` tokens and took that long. */
static size_t next_piece(size_t n, double seconds)
{
    const double fitting = (double)n * piece_seconds / (seconds > 1e-6 ? seconds : 1e-6);
    if (fitting >= LONGEST_PIECE) return LONGEST_PIECE;
    return fitting > SHORTEST_PIECE ? (size_t)fitting : SHORTEST_PIECE;
}

/* Remembers that `fn` wanted to stop: also when no rows were left to stop. */
typedef struct watched_rows {
    weir_rows_fn *fn;
    void         *user;
    bool          stopped;
} watched_rows;

static bool watch_rows(void *user, const weir_rows *rows)
{
    watched_rows *w = user;
    if (!w->fn(w->user, rows)) w->stopped = true;
    return !w->stopped;
}

weir_status reading_score(weir_sequence *s, const uint32_t *ids, size_t n, bool hidden, weir_rows_fn *rows, void *user,
                          weir_error *err)
{
    watched_rows watched = {.fn = rows, .user = user};
    size_t       piece   = FIRST_PIECE;
    for (size_t at = 0; at < n;) {
        const size_t   now   = n - at < piece ? n - at : piece;
        const uint64_t start = clock_ns();
        TRY(weir_sequence_score(s, ids + at, now, hidden, watch_rows, &watched, err));
        if (watched.stopped) return status_fail(err, WEIR_CANCELLED, "interrupted");
        piece = next_piece(now, (double)(clock_ns() - start) * 1e-9);
        at += now;
    }
    return WEIR_OK;
}
