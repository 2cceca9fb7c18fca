/* engine/verify.c - weir_verify: random schedules against the dullest run, until
 * time is up; the first that differs is shrunk. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/verify_parts.h"
#include "kernels/open.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_MAX_LENGTH = 32, ENGINE_SHARED_BY = 4 /* schedules in a row */, TRIES = 8 };

static const char *const invariant_names[VERIFY_INVARIANTS] = {[VERIFY_CHUNKING]      = "chunking",
                                                               [VERIFY_PREFILL]       = "prefill",
                                                               [VERIFY_DECODE]        = "decode",
                                                               [VERIFY_THREADED]      = "threads",
                                                               [VERIFY_ISA]           = "isa",
                                                               [VERIFY_BATCH]         = "batch",
                                                               [VERIFY_WINDOW_ALL]    = "window_all",
                                                               [VERIFY_WINDOW_PART]   = "window_part",
                                                               [VERIFY_WINDOW_NONE]   = "window_none",
                                                               [VERIFY_FORK]          = "fork",
                                                               [VERIFY_REWIND]        = "rewind",
                                                               [VERIFY_RESET]         = "reset",
                                                               [VERIFY_REUSE]         = "reuse",
                                                               [VERIFY_CACHE]         = "cache",
                                                               [VERIFY_DISK]          = "disk",
                                                               [VERIFY_SAVE_LOAD]     = "save_load",
                                                               [VERIFY_MTP]           = "mtp",
                                                               [VERIFY_NGRAM]         = "ngram",
                                                               [VERIFY_DRAFT_MODEL]   = "draft_model",
                                                               [VERIFY_REQUESTS]      = "requests",
                                                               [VERIFY_SAMPLING]      = "sampling",
                                                               [VERIFY_CANCEL]        = "cancel",
                                                               [VERIFY_ADAPTED]       = "adapters",
                                                               [VERIFY_ADAPTED_MIXED] = "adapters_mixed"};
_Static_assert((int)VERIFY_INVARIANTS <= (int)WEIR_VERIFY_MAX_INVARIANTS, "all have a place in the result");

bool verify_over(verifier *v)
{
    const uint64_t now = clock_ns();
    if (!v->stopped && v->progress != NULL) v->stopped = !v->progress(v->user, (double)(now - v->start) * 1e-9, v->out);
    return v->stopped || now >= v->end;
}

void verify_differs(verify_outcome *o, uint32_t op, const char *fmt, ...)
{
    va_list args;
    if (o->differs) return;
    o->differs = true;
    o->op      = op;
    va_start(args, fmt);
    (void)vsnprintf(o->what, sizeof o->what, fmt, args);
    va_end(args);
}

weir_status verify_run(verifier *v, const verify_schedule *c, verify_outcome *out, weir_error *err)
{
    weir_engine *e;
    weir_error   own;
    *out = (verify_outcome){.differs = false};
    TRY(verify_engine_for(v, c, &e, err));
    const weir_status st = (c->requests ? verify_run_requests : verify_run_steps)(v, e, c, out, &own);
    if (st != WEIR_OK) {
        verify_differs(out, 0, "failed: %s", own.text);
        verify_engine_drop(v, c);
    } else {
        verify_engine_leave(e, c);
    }
    verify_files_clear(v);
    out->used[VERIFY_THREADED] = c->threads > 1;
    out->used[VERIFY_ISA]      = c->isa > 0;
    return WEIR_OK;
}

/* ---- the first difference ---- */

typedef struct retrial {
    verifier      *v;
    verify_outcome last; /* of those that differed */
} retrial;

static bool still_fails(void *user, const verify_schedule *c)
{
    retrial       *r = user;
    verify_outcome o;
    if (verify_over(r->v) || verify_run(r->v, c, &o, NULL) != WEIR_OK || !o.differs) return false;
    r->last = o;
    return true;
}

static void describe(verifier *v, verify_schedule *c, const verify_outcome *first)
{
    const uint64_t end = v->end;
    retrial        r   = {v, *first};
    str            text;
    v->end = clock_ns() + (end - v->start) / 2;
    /* What was done before on the engine, or who came first, may have had a part in it. */
    bool again = false;
    for (int i = 0; i < TRIES && !again; i++) again = still_fails(&r, c);
    if (again) verify_shrink(c, still_fails, &r);
    v->end = end;
    /* What is too long is cut: the builder stops at its maximum. */
    str_init(&text, sizeof v->out->first_difference - 1);
    str_printf(&text, "%s%s\n", r.last.what, again ? "" : "; not seen again when repeated");
    verify_print(&text, v, c);
    memcpy(v->out->first_difference, text.data, text.len + 1);
    str_free(&text);
}

/* ---- all of them ---- */

static weir_status one_schedule(verifier *v, verify_schedule *c, weir_error *err)
{
    verify_outcome o;
    bool           requests = below(&v->seed, 4) == 0;
    if (v->out->schedules % ENGINE_SHARED_BY == 0) verify_draw_engine(v, c);
    if (requests) TRY(verify_draw_requests(v, c, &requests, err));
    if (!requests) verify_draw_steps(v, c);
    TRY(verify_run(v, c, &o, err));
    v->out->schedules++;
    for (int i = 0; i < VERIFY_INVARIANTS; i++) v->out->invariants[i].count += o.used[i];
    v->out->differing += o.differs;
    if (o.differs && v->out->differing == 1) describe(v, c, &o);
    return WEIR_OK;
}

static weir_status run_all(verifier *v, weir_error *err)
{
    TRY(verify_adapters_new(v, err));
    TRY(verify_engines_plan(v, err));
    TRY(verify_texts_new(v, err));
    TRY(verify_wishes_new(v, err));
    v->start = clock_ns();
    v->end   = v->start + (uint64_t)(v->opt.budget_seconds * 1e9);
    TRY(verify_texts_run(v, err));
    verify_schedule c;
    while (!v->stopped && v->texts[0].length > 0) {
        TRY(one_schedule(v, &c, err));
        if (verify_over(v) || v->out->schedules == v->opt.max_schedules) break;
    }
    return WEIR_OK;
}

static weir_status check_options(const weir_verify_options *o, weir_error *err)
{
    if (o->size != sizeof *o)
        return status_fail(err, WEIR_INVALID, "weir_verify_options.size: expected %zu, found %zu", sizeof *o, o->size);
    if (!(o->budget_seconds > 0 && o->budget_seconds < 1e6))
        return status_fail(err, WEIR_INVALID, "budget: expected 0 to 1e6 seconds, found %g", o->budget_seconds);
    if (o->max_length != 0 && (o->max_length < LEAST_MAX_LENGTH || o->max_length > VERIFY_LENGTH))
        return status_fail(err, WEIR_INVALID, "max_length: expected %d to %d, found %u", LEAST_MAX_LENGTH,
                           VERIFY_LENGTH, o->max_length);
    return WEIR_OK;
}

weir_status weir_verify(const weir_model *m, const weir_verify_options *opt, weir_verify_progress_fn *progress,
                        void *user, weir_verify_result *out, weir_error *err)
{
    const weir_verify_options usual = WEIR_VERIFY_OPTIONS_INIT;
    *out                            = (weir_verify_result){.n_invariants = VERIFY_INVARIANTS};
    for (int i = 0; i < VERIFY_INVARIANTS; i++) out->invariants[i].name = invariant_names[i];
    if (opt == NULL) opt = &usual;
    TRY(check_options(opt, err));
    verifier *v = mem_zalloc(1, sizeof *v);
    if (v == NULL) return status_fail(err, WEIR_NO_MEMORY, "verify: out of memory");
    v->m        = m;
    v->opt      = *opt;
    v->vocab    = checkpoint_config(m->c)->vocab_size;
    v->has_mtp  = load_has_mtp(m->c);
    v->seed     = opt->seed;
    v->out      = out;
    v->progress = progress;
    v->user     = user;
    v->n_isas   = (uint32_t)kernels_isas(v->isas, VERIFY_ISAS);
    if (v->opt.max_length == 0) v->opt.max_length = VERIFY_LENGTH;
    const weir_status st = run_all(v, err);
    verify_engines_close(v);
    verify_files_free(v);
    verify_texts_free(v);
    verify_wishes_free(v);
    verify_adapters_free(v);
    mem_free(v);
    return st;
}
