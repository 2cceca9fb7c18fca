/* cli/cmd_eval.c - `weir eval`: perplexity of a text.
 *
 * The protocol: encode the whole file, cut it into windows, drop the rest; in
 * each window predict tokens 1 .. w-1 from an empty state; the mean over all
 * of them of -log p, its softmax computed in double. */
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/reading.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const arg_option eval_options[] = {
    {"--text", NULL, ARG_STRING, offsetof(options, text), 0, "FILE", 0, 0, "the text, UTF-8"},
    {"--ids", NULL, ARG_STRING, offsetof(options, ids), 0, "FILE", 0, 0, "or: a JSON array of token ids"},
    {"--window", NULL, ARG_U32, offsetof(options, window), 0, "N", 2, 1 << 24, "tokens of a window (default: 1024)"},
    {"--windows", NULL, ARG_U32, offsetof(options, windows), 0, "N", 1, 1 << 30,
     "score the first N windows only (default: all)"},
};
static const arg_group        eval_group = ARG_GROUP("Options", eval_options);
static const arg_group *const groups[]   = {&eval_group, &options_adapters, &options_common, NULL};

typedef struct scoring {
    const uint32_t *window; /* its ids */
    uint32_t        vocab;
    double          loss; /* sum of -log p */
    uint64_t        tokens, total;
    progress        bar;
} scoring;

/* -log p of `id` in double, from f32 logits. */
static double negative_log_probability(const float *logits, uint32_t vocab, uint32_t id)
{
    float  most = logits[0];
    double sum  = 0.0;
    for (uint32_t i = 1; i < vocab; i++) most = logits[i] > most ? logits[i] : most;
    for (uint32_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - (double)most);
    return log(sum) - ((double)logits[id] - (double)most);
}

static bool on_rows(void *user, const weir_rows *r)
{
    scoring *s = user;
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t next = s->window[r->first_position + i + 1];
        s->loss += negative_log_probability(r->logits + (size_t)i * s->vocab, s->vocab, next);
        s->tokens++;
    }
    progress_show(&s->bar, (double)s->tokens, (double)s->total);
    return !terminal_interrupted();
}

/* The ids to score, from either file; *ids is released with mem_free. */
static weir_status read_ids(const weir_model *m, const options *o, uint32_t **ids, size_t *n, weir_error *err)
{
    return o->ids != NULL ? input_ids(m, o->ids, ids, n, err) : input_text(m, o->text, ids, n, err);
}

static weir_status score_windows(session *s, const uint32_t *ids, uint32_t window, uint64_t windows, scoring *out,
                                 weir_error *err)
{
    weir_status st = WEIR_OK;
    progress_start(&out->bar, "scoring");
    for (uint64_t w = 0; st == WEIR_OK && w < windows; w++) {
        out->window = ids + w * window;
        weir_sequence_reset(s->sequence);
        st = reading_score(s->sequence, out->window, window - 1, false, on_rows, out, err);
    }
    progress_end(&out->bar);
    if (st == WEIR_OK && !isfinite(out->loss)) st = status_fail(err, WEIR_NUMERICS, "the loss is not a finite number");
    return st;
}

static int print_result(const options *o, const scoring *r, uint64_t windows, double seconds)
{
    const double loss = r->loss / (double)r->tokens;
    if (o->json)
        return cli_print_json(json_pack("{s:f, s:f, s:I, s:I, s:I, s:f}", "perplexity", exp(loss), "loss", loss,
                                        "tokens", (json_int_t)r->tokens, "windows", (json_int_t)windows, "window",
                                        (json_int_t)o->window, "seconds", seconds));
    (void)printf("perplexity %.4f   loss %.6f   tokens %" PRIu64 "   windows %" PRIu64 " of %" PRIu32 "   %.1f s\n",
                 exp(loss), loss, r->tokens, windows, o->window, seconds);
    return cli_flush();
}

static int eval(const options *o)
{
    if ((o->text == NULL) == (o->ids == NULL)) return cli_usage("eval: expected either --text FILE or --ids FILE");
    session    s;
    weir_error err;
    uint32_t  *ids = NULL;
    size_t     n   = 0;
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);
    weir_model_info info;
    weir_model_get_info(s.model, &info);

    weir_status st      = read_ids(s.model, o, &ids, &n, &err);
    uint64_t    windows = n / o->window;
    if (o->windows != 0 && windows > o->windows) windows = o->windows;
    if (st == WEIR_OK && windows == 0)
        st = status_fail(&err, WEIR_FORMAT, "%s: expected at least one window of %" PRIu32 " tokens, found %zu tokens",
                         o->text != NULL ? o->text : o->ids, o->window, n);
    if (st == WEIR_OK) st = session_sequence(&s, o, o->window, &err);

    scoring        r     = {.vocab = info.vocab_size, .total = windows * (o->window - 1)};
    const uint64_t start = clock_ns();
    if (st == WEIR_OK) st = score_windows(&s, ids, o->window, windows, &r, &err);
    const int code = st != WEIR_OK ? cli_fail(&err) : print_result(o, &r, windows, (double)(clock_ns() - start) * 1e-9);
    mem_free(ids);
    session_close(&s);
    return code;
}

const command cmd_eval = {
    .name    = "eval",
    .summary = "measure the perplexity of a text",
    .usage   = "MODEL --text FILE [options]",
    .details = "Encodes the whole file (added tokens recognised), cuts it into windows, drops the rest, and\n"
               "in each window predicts every token but the first from those before it in the window.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = groups,
    .run     = eval,
};
