/* convert/quantize.h - weir_quantize with the file size as a parameter, for tests. */
#ifndef CONVERT_QUANTIZE_H
#define CONVERT_QUANTIZE_H

#include "weir/convert.h"

/* As weir_quantize, whose files end before the tensor that would pass file_bytes. */
weir_status quantize(const char *source, const char *target, const weir_quantize_options *opt, uint64_t file_bytes,
                     weir_quantize_result *out, weir_error *err);

#endif
