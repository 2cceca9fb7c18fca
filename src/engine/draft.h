/* engine/draft.h - where guesses of the next tokens come from.
 *
 * After every step each reply is given guesses of what follows its last token;
 * the next step computes them along with it and keeps those that are right
 * (step.c).  A guess is right when it is the token that is drawn in any case:
 * draws depend on the position, not on the path.  So a source changes how fast
 * text comes and nothing else, and may be as wrong as it likes.
 *
 * The sources draw with the same random numbers as the reply will. */
#ifndef ENGINE_DRAFT_H
#define ENGINE_DRAFT_H

#include "engine/budget.h"
#include "engine/request_parts.h"

const char *draft_source_name(draft_source s); /* "off", "mtp", ...; static */

/* What the engine needs for its source; before the first request. */
weir_status draft_open(weir_engine *e, const plan *p, weir_error *err);
void        draft_close(weir_engine *e);
/* What a request needs for it, from admission to its end; where that is not to be
 * had, the request goes without guesses. */
void draft_join(weir_request *r);
void draft_leave(weir_request *r); /* also when draft_join never was */

/* Between the rows of a step, which took `seconds`, and batch_commit: learns what
 * drafts cost and brought, and settles how many there will be (r->n_wanted). */
void draft_choose(weir_engine *e, double seconds);
/* Makes them, for the next step, after batch_commit. */
void draft_make(weir_engine *e);

/* The guess that these logits make becomes r's next; none, and no further ones,
 * where they make no sense. */
void draft_take(weir_request *r, const float *logits);

/* One file a source; each fills r->drafts for the requests with n_wanted > 0. */
weir_status draft_mtp(weir_engine *e, weir_error *err);
weir_status draft_from_text(weir_engine *e, weir_error *err);
weir_status draft_from_model(weir_engine *e, weir_engine *drafter, weir_error *err);
weir_status draft_model_join(weir_request *r, weir_engine *drafter, weir_error *err);

#endif
