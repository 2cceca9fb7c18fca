/* cli/sampling.h - how tokens are drawn: the checkpoint's advice, then the flags. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/options.h"
#include "weir/generate.h"

/* The flags go before generation_config.json's values.  A seed that was not
 * given is drawn here, so that it can be told afterwards.  WEIR_INVALID names
 * what is out of range. */
weir_status sampling_from(const weir_model *m, const options *o, weir_sample_params *out, weir_error *err);

#endif
