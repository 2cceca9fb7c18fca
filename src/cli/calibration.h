/* cli/calibration.h - widths by a text: what `weir quantize --bpw` does before it quantises. */
#ifndef CLI_CALIBRATION_H
#define CLI_CALIBRATION_H

#include "cli/options.h"
#include "weir/convert.h"

enum { CALIBRATION_TOKENS = 1024 }; /* of the text, at most */

typedef struct calibration {
    uint32_t             tokens;
    weir_allocate_result result;
} calibration;

/* Measures every module of the checkpoint in folder `source` on the text of the options, and
 * writes widths for o->bpw bits per weight to the recipe file.  Shows progress and hears Ctrl-C. */
weir_status calibration_run(const options *o, const char *source, const char *recipe_file, calibration *out,
                            weir_error *err);

#endif
