/* convert/target.h - the folder that is written, and what an earlier run left there. */
#ifndef CONVERT_TARGET_H
#define CONVERT_TARGET_H

#include "base/str.h"

/* Makes the folder, or finds it empty, and writes the plan's text into it; or finds
 * this very text, and removes what was half written when that run ended.
 * WEIR_INVALID for a folder that holds anything else. */
weir_status target_begin(const char *target, const str *plan_text, weir_error *err);

/* Removes the plan: the folder is complete. */
weir_status target_end(const char *target, weir_error *err);

#endif
