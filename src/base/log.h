/* base/log.h - the one log sink (weir_log_set). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "weir/base.h"

__attribute__((format(printf, 2, 3))) void log_line(weir_log_level level, const char *fmt, ...);

#endif
