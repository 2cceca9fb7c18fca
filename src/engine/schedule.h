/* engine/schedule.h - who joins, and what each takes part in the next step with.
 *
 * Replies come first, each with its last token and the drafts after it; what
 * is left of the step, at most `chunk` tokens, reads prompts.  So a running
 * reply waits for one chunk at most, however long the prompts beside it are.
 * Among prompts the higher priority goes first, then what is nearly done; waiting
 * makes a prompt count as shorter, so that its equals do not overtake it for ever. */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "engine/request_parts.h"

/* Lets waiting requests in while there is room.  A request that does not fit may
 * be overtaken by smaller ones a few times. */
void schedule_admit(weir_engine *e);
/* Fills the batch; request->item tells who takes part. */
weir_status schedule_compose(weir_engine *e, weir_error *err);

#endif
