/* engine/verify_print.c - a schedule in words, a line for each operation or step. */
#include "engine/draft.h"
#include "engine/verify_parts.h"

#include <inttypes.h>

static char name(uint32_t who)
{
    return (char)('a' + who);
}

static void print_reading(str *to, const verify_op *op)
{
    if (op->kind == OP_READ)
        str_printf(to, "%c reads %u", name(op->who), op->n);
    else
        str_printf(to, "%c tries %u, %u of them right, and keeps %u", name(op->who), op->n, op->right, op->keep);
    if (op->known) str_puts(to, " (and knows what follows)");
}

static void print_abroad(str *to, const verifier *v, const verify_op *op)
{
    str_printf(to, "%c goes through a file to an engine with isa %s and threads %u, reads %u there and comes back",
               name(op->who), v->isas[op->isa], op->threads, op->n);
}

static void print_op(str *to, const verifier *v, const verify_op *op)
{
    const char who = name(op->who);
    switch (op->kind) {
    case OP_JOIN: str_printf(to, "%c joins with text %u", who, op->text); break;
    case OP_READ:
    case OP_WINDOW: print_reading(to, op); break;
    case OP_APPEND: str_printf(to, "%c appends %u", who, op->n); break;
    case OP_SCORE: str_printf(to, "%c scores %u", who, op->n); break;
    case OP_DETOUR: str_printf(to, "%c reads %u others and comes back", who, op->n); break;
    case OP_SNAPSHOT: str_printf(to, "%c takes a snapshot", who); break;
    case OP_REWIND: str_printf(to, "%c goes back to the snapshot of %c", who, name(op->to)); break;
    case OP_FORK: str_printf(to, "%c forks to %c, which follows text %u", who, name(op->to), op->text); break;
    case OP_TURN: str_printf(to, "%c follows text %u from here", who, op->text); break;
    case OP_STORE: str_printf(to, "%c is stored in the prefix tree", who); break;
    case OP_ADOPT: str_printf(to, "%c adopts up to %u from the prefix tree", who, op->n); break;
    case OP_RESTART: str_puts(to, "the prefix tree goes to disk, and memory forgets it"); break;
    case OP_SAVE: str_printf(to, "%c is saved to a file", who); break;
    case OP_LOAD: str_printf(to, "%c becomes what was saved", who); break;
    case OP_ABROAD: print_abroad(to, v, op); break;
    case OP_RESET: str_printf(to, "%c is reset and follows text %u", who, op->text); break;
    case OP_LEAVE: str_printf(to, "%c leaves", who); break;
    case OP_SUBMIT: break;
    }
}

static void print_chosen(str *to, verify_chosen chosen)
{
    if (chosen != VERIFY_NONE) str_puts(to, chosen == VERIFY_ONE ? ", under an adapter" : ", under two adapters");
}

static void print_wish(str *to, const verify_wish *w)
{
    str_printf(to, "a prompt of %u", w->n_prompt);
    if (w->after >= 0)
        str_printf(to, " (wish %d, its reply, %u more)", (int)w->after, w->n_own);
    else
        str_printf(to, " (%u of text %u, %u more)", w->n_from, w->text, w->n_own);
    str_printf(to, ", at most %u tokens, temperature %g, seed %" PRIu64, w->generate.max_tokens, w->sample.temperature,
               w->sample.seed);
    print_chosen(to, w->chosen);
}

static void print_submit(str *to, const verifier *v, const verify_op *op)
{
    str_printf(to, "before step %u: wish %u, ", op->at, op->who);
    print_wish(to, &v->wishes[op->who]);
    if (op->priority != 0) str_printf(to, ", priority %d", (int)op->priority);
    if (op->no_cache) str_puts(to, ", no cache");
    if (op->no_drafts) str_puts(to, ", no drafts");
    if (op->off == OFF_BETWEEN_STEPS) str_printf(to, ", called off before step %u", op->until);
    if (op->off == OFF_BY_TOKEN) str_printf(to, ", called off by token %u", op->until);
}

static bool same_step(const verify_op *before, const verify_op *op)
{
    return op->beside && (op->kind == OP_READ || op->kind == OP_WINDOW) &&
           (before->kind == OP_READ || before->kind == OP_WINDOW);
}

static void print_texts(str *to, const verifier *v)
{
    str_puts(to, "texts:");
    for (uint32_t i = 0; i < VERIFY_TEXTS; i++) {
        const verify_text *t = &v->texts[i];
        str_printf(to, "%s %u has %u tokens", i > 0 ? ";" : "", i, t->length);
        const uint32_t shared = least(t->shared, t->length);
        if (shared > 0) str_printf(to, ", the first %u those of %u", shared, t->parent);
        print_chosen(to, t->chosen);
    }
    str_putc(to, '\n');
}

void verify_print(str *to, const verifier *v, const verify_schedule *c)
{
    str_printf(to, "isa %s, threads %u, chunk %u, drafts %s", v->isas[c->isa], c->threads, c->chunk,
               draft_source_name(c->draft));
    if (c->max_drafts > 0) str_printf(to, " (at most %u)", c->max_drafts);
    str_printf(to, ", room for %u snapshots%s\n", c->snapshots, c->disk ? " and more on disk" : "");
    if (!c->requests) print_texts(to, v);
    for (uint32_t i = 0; i < c->n_ops; i++) {
        const verify_op *op = &c->ops[i];
        if (i > 0) str_puts(to, same_step(op - 1, op) ? "; " : "\n");
        if (c->requests && op->kind == OP_RESTART) str_printf(to, "before step %u: ", op->at);
        if (op->kind == OP_SUBMIT)
            print_submit(to, v, op);
        else
            print_op(to, v, op);
    }
    str_putc(to, '\n');
}
