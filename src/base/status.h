/* base/status.h - failing in one line.  See weir/base.h for the convention. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "weir/base.h"

/* Fills `err` (may be NULL) and returns `st`, so that failing is one line.
 * Control characters in the message, which may quote a file, become '?'. */
__attribute__((cold, format(printf, 3, 4))) weir_status status_fail(weir_error *err, weir_status st, const char *fmt,
                                                                    ...);

/* Puts "where: " in front of the text already in `err`; for callers that know
 * the file or field which a lower room could not know.  Returns `st`. */
__attribute__((cold, format(printf, 3, 4))) weir_status status_prefix(weir_error *err, weir_status st, const char *fmt,
                                                                      ...);

/* Passes a failure up unchanged.  Only where there is nothing to release. */
#define TRY(call) \
    do { \
        const weir_status try_st_ = (call); \
        if (try_st_ != WEIR_OK) return try_st_; \
    } while (0)

#endif
