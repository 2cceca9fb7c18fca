/* engine/verify_draw.c - random schedules: where paths differ most, they go most often. */
#include "engine/verify_parts.h"

/* One of so many schedules saves and loads, another one has a disk: both wait for it. */
enum { FILES_EVERY = 12 };

/* ---- the engine ---- */

void verify_draw_engine(verifier *v, verify_schedule *c)
{
    static const draft_source sources[] = {DRAFT_OFF, DRAFT_NGRAM, DRAFT_NGRAM, DRAFT_MTP, DRAFT_MTP, DRAFT_MODEL};
    static const uint32_t     threads[] = {1, 1, 1, 1, 2, 2, 3, VERIFY_THREADS};
    c->isa                              = below(&v->seed, v->n_isas);
    c->threads                          = threads[below(&v->seed, sizeof threads / sizeof *threads)];
    /* Scalar code is many times slower; now and then is enough. */
    if (c->isa == 0 && v->n_isas > 1 && below(&v->seed, 12) != 0) c->isa = 1 + below(&v->seed, v->n_isas - 1);
    c->draft = sources[below(&v->seed, sizeof sources / sizeof *sources)];
    if (c->draft == DRAFT_MTP && !v->has_mtp) c->draft = DRAFT_NGRAM;
    if (c->draft == DRAFT_MODEL && !v->may_draft_itself) c->draft = DRAFT_NGRAM;
}

/* The rest of what an engine may be set to. */
static void draw_settings(verifier *v, verify_schedule *c)
{
    static const uint32_t most_chunk[] = {4, 12, 12, 40, VERIFY_CHUNK};
    c->chunk        = 1 + below(&v->seed, most_chunk[below(&v->seed, sizeof most_chunk / sizeof *most_chunk)]);
    c->max_drafts   = c->draft == DRAFT_OFF ? 0 : 1 + below(&v->seed, below(&v->seed, 4) == 0 ? VERIFY_DRAFTS : 4);
    c->snapshots    = 1 + below(&v->seed, VERIFY_SNAPSHOTS);
    c->fixed_drafts = below(&v->seed, 2) == 0;
    c->pre_norm     = below(&v->seed, 2) == 0;
    c->disk         = below(&v->seed, FILES_EVERY) == 0 && verify_files_ready(v);
    c->n_ops        = 0;
}

static verify_op *add(verify_schedule *c, verify_kind kind, uint32_t who)
{
    verify_op *op = &c->ops[c->n_ops++];
    *op           = (verify_op){.kind = kind, .who = who};
    return op;
}

/* ---- steps ---- */

/* What a sequence will be like when the schedule is run, as far as that can be
 * told before. */
typedef struct sketch {
    bool     alive;
    uint32_t text, length;
    uint32_t snapshot; /* length */
} sketch;

typedef struct drawing {
    verifier        *v;
    verify_schedule *c;
    uint32_t         n; /* sequences that come by themselves; forks besides */
    sketch           q[VERIFY_SEQUENCES];
    bool             deep;   /* about the long text */
    bool             files;  /* saves and loads */
    bool             stored; /* something, in the prefix tree, */
    uint32_t         stored_text;
    sketch           saved; /* length 0: nothing */
} drawing;

/* Scalar code, while there is something faster. */
static bool slow(const verifier *v, const verify_schedule *c)
{
    return c->isa == 0 && v->n_isas > 1;
}

static uint32_t draw_length(verifier *v)
{
    switch (below(&v->seed, 8)) {
    case 0:
    case 1:
    case 2: return 1;
    case 3: return 1 + below(&v->seed, K_PAGE + 6);
    default: return 1 + below(&v->seed, 12);
    }
}

static uint32_t draw_text(const drawing *d)
{
    verifier      *v    = d->v;
    const uint32_t last = VERIFY_TEXTS - 1; /* the long one */
    const uint32_t t    = d->deep && below(&v->seed, 3) != 0 ? last : below(&v->seed, last);
    return v->texts[t].length > 0 ? t : 0;
}

static void moved(drawing *d, uint32_t who, uint32_t n)
{
    d->q[who].length = least(d->q[who].length + n, d->v->texts[d->q[who].text].length);
}

static void draw_part(drawing *d, uint32_t who, bool beside)
{
    uint64_t  *seed   = &d->v->seed;
    const bool window = d->c->draft != DRAFT_OFF && below(seed, 3) != 0;
    verify_op *op     = add(d->c, window ? OP_WINDOW : OP_READ, who);
    op->beside        = beside;
    op->known         = below(seed, 2) == 0;
    op->n             = draw_length(d->v);
    if (window) {
        op->n     = 2 + below(seed, below(seed, 3) == 0 ? VERIFY_DRAFTS : 4);
        op->right = below(seed, 3) == 0 ? op->n : 1 + below(seed, op->n);
        /* As a reply does, or fewer: a stop string may end it early. */
        op->keep = below(seed, 4) != 0 ? op->right : 1 + below(seed, op->right);
    }
    moved(d, who, window ? op->keep : op->n);
}

/* One step of one or several, in any order. */
static void draw_step(drawing *d, uint32_t who)
{
    uint64_t  *seed  = &d->v->seed;
    const bool alone = below(seed, 3) == 0;
    draw_part(d, who, false);
    for (uint32_t i = 1; i < VERIFY_SEQUENCES && !alone; i++) {
        const uint32_t other = (who + i) % VERIFY_SEQUENCES;
        if (d->q[other].alive && below(seed, 4) != 0) draw_part(d, other, true);
    }
}

/* A text for a sequence that begins; often one that the prefix tree knows. */
static uint32_t draw_first_text(drawing *d)
{
    return d->stored && below(&d->v->seed, 2) == 0 ? d->stored_text : draw_text(d);
}

/* Near a border of blocks or partitions, or anywhere. */
static uint32_t draw_depth(drawing *d)
{
    static const uint32_t borders[] = {PREFIX_BLOCK, 2 * PREFIX_BLOCK, K_PARTITION, K_PARTITION};
    enum { NEAR = 6 };
    uint64_t      *seed = &d->v->seed;
    const uint32_t all  = d->v->texts[VERIFY_TEXTS - 1].length,
                   at   = borders[below(seed, sizeof borders / sizeof *borders)];
    return below(seed, 4) != 0 && at + NEAR < all ? at - NEAR + below(seed, 2 * NEAR) : 1 + below(seed, all);
}

/* Some tokens at once: past the first pages, or deep into the long text. */
static void draw_first_read(drawing *d, uint32_t who)
{
    enum { SOME_PAGES = K_PAGE + 20 };
    uint64_t  *seed = &d->v->seed;
    const bool deep = d->q[who].text == VERIFY_TEXTS - 1;
    verify_op *op   = add(d->c, below(seed, 2) == 0 ? OP_APPEND : OP_SCORE, who);
    op->n           = deep ? draw_depth(d) : 1 + below(seed, SOME_PAGES);
    if (deep) d->c->chunk = VERIFY_CHUNK / 2 + below(seed, VERIFY_CHUNK / 2);
    moved(d, who, op->n);
}

static void draw_beginning(drawing *d, uint32_t who, verify_kind kind)
{
    uint64_t      *seed = &d->v->seed;
    const uint32_t text = draw_first_text(d), all = d->v->texts[text].length;
    add(d->c, kind, who)->text = text;
    d->q[who]                  = (sketch){.alive = true, .text = text};
    if (d->stored && below(seed, 4) != 0)
        add(d->c, OP_ADOPT, who)->n = below(seed, 3) == 0 ? 1 + below(seed, all) : all;
    else if (text == VERIFY_TEXTS - 1 || (!slow(d->v, d->c) && below(seed, 2) == 0))
        draw_first_read(d, who);
}

/* Another one begins, or this one again: perhaps with what the tree knows by now. */
static void draw_somebody(drawing *d)
{
    const uint32_t who = below(&d->v->seed, VERIFY_SEQUENCES);
    draw_beginning(d, who, d->q[who].alive ? OP_RESET : OP_JOIN);
}

/* Someone goes on with what the disk has. */
static void draw_restart(drawing *d)
{
    const uint32_t who = below(&d->v->seed, VERIFY_SEQUENCES), text = d->stored_text;
    add(d->c, OP_RESTART, 0);
    add(d->c, d->q[who].alive ? OP_RESET : OP_JOIN, who)->text = text;
    add(d->c, OP_ADOPT, who)->n                                = d->v->texts[text].length;
    d->q[who]                                                  = (sketch){.alive = true, .text = text};
}

static void draw_store(drawing *d, uint32_t who)
{
    add(d->c, OP_STORE, who);
    d->stored      = true;
    d->stored_text = d->q[who].text;
    if (d->c->disk && below(&d->v->seed, 3) != 0) draw_restart(d);
}

static void draw_save(drawing *d, uint32_t who)
{
    add(d->c, OP_SAVE, who);
    d->saved = d->q[who];
}

static void draw_load(drawing *d, uint32_t who)
{
    if (!d->q[who].alive) add(d->c, OP_JOIN, who)->text = d->saved.text;
    add(d->c, OP_LOAD, who);
    d->q[who] = (sketch){.alive = true, .text = d->saved.text, .length = d->saved.length};
}

static void draw_abroad(drawing *d, uint32_t who)
{
    const verifier *v = d->v;
    verify_schedule c;
    verify_draw_engine(d->v, &c);
    verify_op *op = add(d->c, OP_ABROAD, who);
    op->n         = draw_length(d->v);
    op->isa       = c.isa;
    op->threads   = c.threads;
    /* Not the engine that it is on. */
    if (op->isa == d->c->isa && op->threads == d->c->threads) op->isa = (op->isa + 1) % v->n_isas;
    if (slow(v, d->c) || (op->isa == 0 && v->n_isas > 1)) op->n = 1;
    moved(d, who, op->n);
    d->saved = d->q[who];
}

/* Through a file: into another one, that perhaps has yet to come, or to another engine. */
static void draw_file(drawing *d, uint32_t who)
{
    uint64_t      *seed = &d->v->seed;
    const uint32_t to   = below(seed, VERIFY_SEQUENCES);
    if (d->q[who].length == 0)
        draw_step(d, who);
    else if (below(seed, 3) == 0)
        draw_abroad(d, who);
    else if (d->saved.length == 0 || below(seed, 2) == 0)
        draw_save(d, who);
    if (d->saved.length > 0 && below(seed, 2) == 0) draw_load(d, to);
}

static void draw_snapshot(drawing *d, uint32_t who)
{
    add(d->c, OP_SNAPSHOT, who);
    d->q[who].snapshot = d->q[who].length;
}

static void draw_detour(drawing *d, uint32_t who)
{
    add(d->c, OP_DETOUR, who)->n = 1 + below(&d->v->seed, VERIFY_DETOUR);
}

static void draw_leave(drawing *d, uint32_t who)
{
    add(d->c, OP_LEAVE, who);
    d->q[who].alive = false;
}

static void draw_fork(drawing *d, uint32_t who)
{
    const uint32_t to   = (who + 1 + below(&d->v->seed, VERIFY_SEQUENCES - 1)) % VERIFY_SEQUENCES;
    const sketch  *q    = &d->q[who];
    uint32_t       text = draw_text(d);
    if (d->q[to].alive) draw_leave(d, to);
    if (verify_shared(d->v, text, q->text) < q->length || d->v->texts[text].length < q->length) text = q->text;
    verify_op *op  = add(d->c, OP_FORK, who);
    op->to         = to;
    op->text       = text;
    d->q[to]       = *q;
    d->q[to].alive = true;
    d->q[to].text  = text;
}

/* Back to a place from which another text may go on, or other tokens be read for a while:
 * they come to stand where others, or the prefix tree, may still look. */
static void draw_rewind(drawing *d, uint32_t who)
{
    uint64_t *seed = &d->v->seed;
    sketch   *q    = &d->q[who];
    if (q->snapshot == 0 || q->snapshot >= q->length) {
        draw_snapshot(d, who);
        draw_step(d, who);
        return;
    }
    const bool store = below(seed, 2) == 0;
    if (store) draw_store(d, who);
    verify_op *op = add(d->c, OP_REWIND, who);
    op->to        = below(seed, 4) == 0 ? below(seed, VERIFY_SEQUENCES) : who;
    if (d->q[op->to].snapshot < q->length) q->length = d->q[op->to].snapshot;
    if (below(seed, 2) == 0) {
        draw_detour(d, who);
        if (store) draw_somebody(d);
        return;
    }
    const uint32_t text = draw_text(d);
    if (verify_shared(d->v, text, q->text) < q->length) return;
    add(d->c, OP_TURN, who)->text = text;
    q->text                       = text;
}

static void draw_reading(drawing *d, uint32_t who, verify_kind kind)
{
    verify_op *op = add(d->c, kind, who);
    op->n         = draw_length(d->v);
    moved(d, who, op->n);
}

/* What is done to a living sequence. */
typedef enum deed { STEP, APPEND, SCORE, DETOUR, SNAPSHOT, REWIND, FORK, STORE, RESET, LEAVE, DEEDS } deed;

/* A schedule has a theme, so that what belongs together meets in a short one. */
enum { THEMES = 4, STORING = 2 };
static const uint8_t weights[THEMES][DEEDS] = {
    {[STEP]     = 20,
     [APPEND]   = 2,
     [SCORE]    = 2,
     [DETOUR]   = 1,
     [SNAPSHOT] = 1,
     [REWIND]   = 1,
     [FORK]     = 1,
     [RESET]    = 1,
     [LEAVE]    = 1},
    {[STEP]     = 9,
     [APPEND]   = 1,
     [SCORE]    = 1,
     [DETOUR]   = 2,
     [SNAPSHOT] = 2,
     [REWIND]   = 3,
     [FORK]     = 3,
     [STORE]    = 2,
     [RESET]    = 2,
     [LEAVE]    = 2},
    {[STEP]     = 6,
     [APPEND]   = 1,
     [DETOUR]   = 1,
     [SNAPSHOT] = 3,
     [REWIND]   = 5,
     [FORK]     = 1,
     [STORE]    = 6,
     [RESET]    = 6,
     [LEAVE]    = 1},
    {[STEP] = 8, [DETOUR] = 1, [SNAPSHOT] = 4, [REWIND] = 6, [FORK] = 8, [STORE] = 1, [RESET] = 1, [LEAVE] = 2},
};

static deed draw_deed(uint64_t *seed, const uint8_t *weight, bool at_end)
{
    uint32_t sum = 0;
    for (int i = at_end ? DETOUR : 0; i < DEEDS; i++) sum += weight[i];
    uint32_t at = below(seed, sum), i = at_end ? DETOUR : 0;
    for (; at >= weight[i]; i++) at -= weight[i];
    return (deed)i;
}

static void draw_op(drawing *d, const uint8_t *weight)
{
    uint64_t      *seed = &d->v->seed;
    const uint32_t who  = below(seed, d->n);
    const sketch  *q    = &d->q[who];
    if (!q->alive) {
        draw_beginning(d, who, OP_JOIN);
        return;
    }
    if (d->files && below(seed, 3) == 0) {
        draw_file(d, who);
        return;
    }
    switch (draw_deed(seed, weight, q->length == d->v->texts[q->text].length)) {
    case APPEND: draw_reading(d, who, OP_APPEND); break;
    case SCORE: draw_reading(d, who, OP_SCORE); break;
    case DETOUR: draw_detour(d, who); break;
    case SNAPSHOT: draw_snapshot(d, who); break;
    case REWIND: draw_rewind(d, who); break;
    case FORK: draw_fork(d, who); break;
    case STORE:
        draw_store(d, who);
        if (below(seed, 2) == 0) draw_somebody(d);
        break;
    case RESET: draw_beginning(d, who, OP_RESET); break;
    case LEAVE: draw_leave(d, who); break;
    case STEP:
    case DEEDS: draw_step(d, who);
    }
}

void verify_draw_steps(verifier *v, verify_schedule *c)
{
    enum { ENDING = 2 * VERIFY_SEQUENCES, MOST_AT_ONCE = VERIFY_SEQUENCES + 4 };
    drawing d           = {.v = v, .c = c, .n = 1 + below(&v->seed, VERIFY_SEQUENCES)};
    d.deep              = below(&v->seed, 12) == 0 && !slow(v, c);
    const uint32_t most = slow(v, c) ? 4 : below(&v->seed, 6) == 0 ? VERIFY_OPS - ENDING - MOST_AT_ONCE - 3 : 14;
    const uint32_t n    = 3 + below(&v->seed, most);
    c->requests         = false;
    draw_settings(v, c);
    d.files               = below(&v->seed, FILES_EVERY) == 0;
    const uint8_t *weight = weights[c->disk ? STORING : below(&v->seed, THEMES)];
    while (c->n_ops < n) draw_op(&d, weight);
    /* Whatever was done to a sequence, it shows in what comes after. */
    for (uint32_t i = 0; i < VERIFY_SEQUENCES; i++)
        if (d.q[i].alive) draw_part(&d, i, i > 0);
}

/* ---- requests ---- */

/* The wish drawn, or when there is no time for what it says alone, the first that there is. */
static weir_status draw_wish(verifier *v, uint32_t *wish, bool *known, weir_error *err)
{
    TRY(verify_wish_alone(v, *wish, known, err));
    for (uint32_t i = 0; !*known && i < VERIFY_WISHES; i++) {
        *wish = i;
        TRY(verify_wish_alone(v, i, known, err));
    }
    return WEIR_OK;
}

/* Once, and half of those that come before it come back afterwards. */
static void draw_late_restart(verifier *v, verify_schedule *c, uint32_t late)
{
    const uint32_t n = c->n_ops, at = 1 + below(&v->seed, late);
    for (uint32_t i = 0; i < n; i++) {
        if (c->ops[i].at >= at || below(&v->seed, 2) == 0) continue;
        verify_op *again = add(c, OP_SUBMIT, c->ops[i].who);
        again->at        = at + below(&v->seed, 4);
    }
    add(c, OP_RESTART, 0)->at = at;
}

/* Two to five wishes; the same one often. */
weir_status verify_draw_requests(verifier *v, verify_schedule *c, bool *out, weir_error *err)
{
    const uint32_t n     = 2 + below(&v->seed, 4);
    const uint32_t first = below(&v->seed, VERIFY_WISHES);
    const uint32_t late  = 1 + below(&v->seed, 40);
    c->requests          = true;
    draw_settings(v, c);
    *out = true;
    for (uint32_t i = 0; *out && i < n; i++) {
        uint32_t wish = below(&v->seed, 3) == 0 ? first : below(&v->seed, VERIFY_WISHES);
        TRY(draw_wish(v, &wish, out, err));
        verify_op *op = add(c, OP_SUBMIT, wish);
        op->at        = below(&v->seed, late);
        op->priority  = (int32_t)below(&v->seed, 3) - 1;
        op->no_cache  = below(&v->seed, 8) == 0;
        op->no_drafts = below(&v->seed, 8) == 0;
        op->off   = below(&v->seed, 4) != 0 ? OFF_NEVER : below(&v->seed, 2) == 0 ? OFF_BETWEEN_STEPS : OFF_BY_TOKEN;
        op->until = op->off == OFF_BY_TOKEN ? 1 + below(&v->seed, VERIFY_WISH_TOKENS) : op->at + below(&v->seed, 12);
    }
    if (*out && c->disk) draw_late_restart(v, c, late);
    return WEIR_OK;
}
