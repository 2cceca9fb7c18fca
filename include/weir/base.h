/* include/weir/base.h - status codes, error text, version and the log.
 *
 * Every function of the library that can fail returns a weir_status and, when
 * it fails, fills the weir_error its caller passed.  The library never ends
 * the process and never prints: log lines go to the one sink set here. */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEIR_EXTERN extern "C"
#else
#define WEIR_EXTERN extern
#endif
/* Marks a function of the public interface: exported, C linkage. */
#define WEIR_API WEIR_EXTERN __attribute__((visibility("default")))

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/* The list of statuses, from which the enum and the texts are made. */
#define WEIR_STATUS_LIST(X) \
    X(OK, "ok") \
    X(INVALID, "an argument is not allowed") \
    X(NO_MEMORY, "out of memory or over the limit") \
    X(IO, "a file could not be read or written") \
    X(FORMAT, "a file is damaged or of another kind") \
    X(UNSUPPORTED, "well formed, but not known here") \
    X(NUMERICS, "a computation gave no usable number") \
    X(CANCELLED, "the caller asked to stop")

typedef enum weir_status {
#define X(name, text) WEIR_##name,
    WEIR_STATUS_LIST(X)
#undef X
} weir_status;

/* What went wrong, for people.  Lives in the caller's memory; `text` is always
 * a string after a failure.  Pass NULL where it is not wanted. */
typedef struct weir_error {
    weir_status status;
    char        text[1000];
} weir_error;

/* The sentence that belongs to `st`; static, never NULL. */
WEIR_API const char *weir_status_text(weir_status st);

/* "major.minor.patch" of the library in use; static. */
WEIR_API const char *weir_version(void);

typedef enum weir_log_level { WEIR_LOG_ERROR, WEIR_LOG_WARN, WEIR_LOG_INFO, WEIR_LOG_DEBUG } weir_log_level;

/* Receives one line without a newline.  May be called from any thread. */
typedef void weir_log_fn(void *user, weir_log_level level, const char *line);

/* Sets the one log sink of the process; NULL (the default) drops all lines.
 * Call it before other threads use the library. */
WEIR_API void weir_log_set(weir_log_fn *fn, void *user);

#endif
