/* convert/plan_parts.h - between plan.c and plan_files.c. */
#ifndef CONVERT_PLAN_PARTS_H
#define CONVERT_PLAN_PARTS_H

#include "convert/plan.h"

/* Cuts the items into files; ends[class] is the end of its items.  Fills the
 * files, the items' specs and the sums of *p. */
weir_status plan_files_make(plan *p, const size_t *ends, uint64_t file_bytes, weir_error *err);

/* Fills p->text: the source's files with size and time, and all headers. */
weir_status plan_text_make(plan *p, const checkpoint *source, weir_error *err);

#endif
