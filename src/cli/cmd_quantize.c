/* cli/cmd_quantize.c - `weir quantize`: a smaller checkpoint made from a full one. */
#include "cli/calibration.h"
#include "cli/cli.h"
#include "cli/find_model.h"
#include "cli/progress.h"
#include "cli/terminal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "weir/convert.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const arg_option quantize_options[] = {
    {"--bits", NULL, ARG_U32, offsetof(options, bits), offsetof(options, bits_given), "N", 2, 8,
     "bits of a weight: 2, 3, 4, 5, 6 or 8 (default: 4); what suffers most gets at\nleast 6, what is small and "
     "decisive stays as it is"},
    {"--group", NULL, ARG_U32, offsetof(options, group), 0, "N", 32, 128,
     "weights that share a scale: 32, 64 or 128 (default: 64)"},
    {"--format", NULL, ARG_CHOICE, offsetof(options, format), 0, "affine|trellis", 0, 0,
     "of the MLPs of dense layers (default: affine); trellis, with 2, 3\n"
     "or 4 bits, has a smaller error, takes long, and mlx-lm does not\n"
     "open it"},
    {"--recipe", NULL, ARG_STRING, offsetof(options, recipe), 0, "FILE", 0, 0,
     "JSON rules for modules, which go before the default:\n"
     "[{\"pattern\": \"layers.*.mlp.*\", \"bits\": 3, \"group\": 32}]"},
    {"--bpw", NULL, ARG_REAL, offsetof(options, bpw), offsetof(options, bpw_given), "X", 1, 32,
     "instead of --bits: bits per weight over all that is written; each\nmodule's width follows from how much it "
     "matters on a text"},
    {"--calibration", NULL, ARG_STRING, offsetof(options, calibration), 0, "TEXT", 0, 0,
     "the text for --bpw, UTF-8, of which 1024 tokens are read"},
    {"--ids", NULL, ARG_STRING, offsetof(options, ids), 0, "FILE", 0, 0, "or: a JSON array of token ids"},
};
static const arg_group        quantize_group = ARG_GROUP("Options", quantize_options);
static const arg_group *const groups[]       = {&quantize_group, &options_common, NULL};

/* Tensors of all layers with one name and one form are one line. */
typedef struct line {
    char     name[512]; /* numbers between dots as * */
    char     form[32];
    uint64_t n, parameters;
} line;

enum { MAX_LINES = 400 };
typedef struct making {
    progress bar;
    bool     failed; /* without memory */
    size_t   n;
    line    *lines; /* [MAX_LINES] */
    json_t  *list;  /* all tensors, with --json */

    char       *recipe; /* that --bpw made; NULL: none */
    calibration calibration;
} making;

/* "a.12.b" -> "a.*.b" */
static void general_name(char *out, size_t size, const char *name)
{
    size_t n = 0;
    for (const char *p = name; *p != '\0' && n + 2 < size;) {
        const size_t digits = p > name && p[-1] == '.' ? strspn(p, "0123456789") : 0;
        if (digits > 0 && p[digits] == '.') {
            out[n++] = '*';
            p += digits;
        } else {
            out[n++] = *p++;
        }
    }
    out[n] = '\0';
}

static void add_line(making *m, const weir_quantize_tensor *t)
{
    line one = {.n = 1, .parameters = t->parameters};
    general_name(one.name, sizeof one.name, t->name);
    if (t->bits != 0 && strcmp(t->format, "affine") != 0)
        (void)snprintf(one.form, sizeof one.form, "%" PRIu32 " bits, %s", t->bits, t->format);
    else if (t->bits != 0)
        (void)snprintf(one.form, sizeof one.form, "%" PRIu32 " bits, group %" PRIu32, t->bits, t->group);
    else
        (void)snprintf(one.form, sizeof one.form, "%s", t->dtype);
    size_t i = 0;
    while (i < m->n && (strcmp(m->lines[i].name, one.name) != 0 || strcmp(m->lines[i].form, one.form) != 0)) i++;
    if (i == MAX_LINES) return;
    if (i == m->n) {
        m->lines[m->n++] = one;
        return;
    }
    m->lines[i].n++;
    m->lines[i].parameters += t->parameters;
}

static void on_tensor(void *user, const weir_quantize_tensor *t)
{
    making *m = user;
    add_line(m, t);
    if (m->list == NULL) return;
    json_t *v = t->bits != 0 ? json_pack("{s:s, s:s, s:I, s:I, s:s, s:I}", "name", t->name, "format", t->format, "bits",
                                         (json_int_t)t->bits, "group", (json_int_t)t->group, "dtype", t->dtype,
                                         "parameters", (json_int_t)t->parameters)
                             : json_pack("{s:s, s:s, s:I}", "name", t->name, "dtype", t->dtype, "parameters",
                                         (json_int_t)t->parameters);
    if (json_array_append_new(m->list, v) != 0) m->failed = true;
}

static bool on_progress(void *user, uint64_t done, uint64_t total)
{
    making *m = user;
    if (total > 0) progress_show(&m->bar, (double)done, (double)total);
    return !terminal_interrupted();
}

static double bits_per_weight(const weir_quantize_result *r)
{
    return r->parameters > 0 ? 8.0 * (double)r->bytes / (double)r->parameters : 0.0;
}

static int print_table(const making *m, const weir_quantize_result *r, const char *target, double seconds)
{
    (void)printf("%-64s %-20s %7s %14s\n", "tensor", "stored as", "number", "parameters");
    for (size_t i = 0; i < m->n; i++) {
        const line  *l     = &m->lines[i];
        const size_t width = cli_put_clean(stdout, l->name, strlen(l->name));
        (void)printf("%*s %-20s %7" PRIu64 " %14" PRIu64 "\n", (int)(width < 64 ? 64 - width : 0), "", l->form, l->n,
                     l->parameters);
    }
    if (m->n == MAX_LINES) (void)printf("... (--json lists all)\n");
    (void)printf("%.2f M parameters in %.1f MB, %.2f bits per weight, %" PRIu64 " tensors in %" PRIu32 " files",
                 (double)r->parameters * 1e-6, (double)r->bytes * 1e-6, bits_per_weight(r), r->tensors, r->files);
    if (r->files_kept > 0) (void)printf(" (%" PRIu32 " from before)", r->files_kept);
    (void)printf(", %.1f s\n", seconds);
    if (m->recipe != NULL) {
        (void)printf("widths by %" PRIu32 " modules on %" PRIu32 " tokens, expected divergence %.3g nats: ",
                     m->calibration.result.modules, m->calibration.tokens, m->calibration.result.damage);
        (void)cli_put_clean(stdout, m->recipe, strlen(m->recipe));
        (void)fputc('\n', stdout);
    }
    (void)cli_put_clean(stdout, target, strlen(target));
    (void)fputc('\n', stdout);
    return cli_flush();
}

static int print_json(making *m, const weir_quantize_result *r, const char *source, const char *target, double seconds)
{
    json_t *list = m->list;
    m->list      = NULL;
    json_t *all  = json_pack("{s:o, s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "source",
                             cli_json_text(source, strlen(source)), "out", cli_json_text(target, strlen(target)),
                             "bits_per_weight", bits_per_weight(r), "bytes", (json_int_t)r->bytes, "parameters",
                             (json_int_t)r->parameters, "tensors", (json_int_t)r->tensors, "files", (json_int_t)r->files,
                             "files_kept", (json_int_t)r->files_kept, "seconds", seconds, "stored", list);
    if (m->recipe != NULL)
        (void)json_object_update_new(
            all, json_pack("{s:o, s:{s:I, s:I, s:f}}", "recipe", cli_json_text(m->recipe, strlen(m->recipe)),
                           "calibration", "tokens", (json_int_t)m->calibration.tokens, "modules",
                           (json_int_t)m->calibration.result.modules, "divergence", m->calibration.result.damage));
    return cli_print_json(all);
}

/* Tells of a failure; one of a file in DST is no bad input. */
static int fail(const weir_error *err, const making *m, const char *target)
{
    if (err->status == WEIR_IO && strncmp(err->text, target, strlen(target)) == 0) return cli_fail_output(err);
    const int code = cli_fail(err);
    if (err->status != WEIR_CANCELLED) return code;
    if (m->recipe == NULL) {
        (void)fputs("weir: the same command goes on where this one ended\n", stderr);
    } else {
        (void)fputs("weir: --recipe ", stderr);
        (void)cli_put_clean(stderr, m->recipe, strlen(m->recipe));
        (void)fputs(" in place of --bpw goes on where this one ended\n", stderr);
    }
    return code;
}

static int make(const options *o, making *m, const char *source)
{
    weir_quantize_options opt = WEIR_QUANTIZE_OPTIONS_INIT;
    opt.bits                  = o->bits;
    opt.group                 = o->group;
    opt.format                = o->format;
    opt.recipe                = m->recipe != NULL ? m->recipe : o->recipe;
    opt.threads               = o->threads;
    opt.on_tensor             = on_tensor;
    opt.on_progress           = on_progress;
    opt.user                  = m;
    weir_quantize_result r;
    weir_error           err;
    const uint64_t       start = clock_ns();
    progress_start(&m->bar, "quantizing");
    const weir_status st = weir_quantize(source, o->target, &opt, &r, &err);
    progress_end(&m->bar);
    if (st != WEIR_OK) return fail(&err, m, o->target);
    const double seconds = (double)(clock_ns() - start) * 1e-9;
    return o->json ? print_json(m, &r, source, o->target, seconds) : print_table(m, &r, o->target, seconds);
}

/* ---- widths by a text ---- */

static bool is_free(const char *target)
{
    DIR *d = opendir(target);
    if (d == NULL) return !file_exists(target);
    bool empty = true;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0);
    (void)closedir(d);
    return empty;
}

/* "out/" -> "out.recipe.json": beside the folder, whose bytes a second run with it repeats. */
static char *recipe_name(const char *target)
{
    size_t n = strlen(target);
    while (n > 1 && target[n - 1] == '/') n--;
    char *name = mem_alloc(n + sizeof ".recipe.json", 1);
    if (name != NULL) (void)snprintf(name, n + sizeof ".recipe.json", "%.*s.recipe.json", (int)n, target);
    return name;
}

/* Makes the recipe of --bpw; returns an exit code. */
static int calibrate(const options *o, making *m, const char *source)
{
    weir_error err;
    char      *recipe = recipe_name(o->target);
    int        code   = CLI_OK;
    if (recipe == NULL) {
        (void)status_fail(&err, WEIR_NO_MEMORY, "quantize: out of memory");
        code = cli_fail(&err);
    } else if (!is_free(o->target)) {
        (void)status_fail(
            &err, WEIR_INVALID,
            "%s: expected an empty folder or none (--recipe, in place of --bpw, goes on with an unfinished "
            "one)",
            o->target);
        code = cli_fail(&err);
    } else if (calibration_run(o, source, recipe, &m->calibration, &err) != WEIR_OK) {
        code = err.status == WEIR_IO && strncmp(err.text, recipe, strlen(recipe)) == 0 ? cli_fail_output(&err)
                                                                                       : cli_fail(&err);
    }
    m->recipe = recipe;
    return code;
}

static int check_usage(const options *o)
{
    const bool text = o->calibration != NULL, ids = o->ids != NULL;
    if (!o->bpw_given && (text || ids)) return cli_usage("quantize: --calibration and --ids need --bpw");
    if (o->bpw_given && o->bits_given) return cli_usage("quantize: expected either --bits or --bpw");
    if (o->bpw_given && o->format != NULL && strcmp(o->format, "affine") != 0)
        return cli_usage("quantize: --bpw chooses widths of format affine");
    if (o->bpw_given && text == ids)
        return cli_usage("quantize: --bpw: expected either --calibration TEXT or --ids FILE");
    return CLI_OK;
}

static int quantize_command(const options *o)
{
    weir_error err;
    char      *source;
    int        code = check_usage(o);
    if (code != CLI_OK) return code;
    if (find_model(o->model, &source, &err) != WEIR_OK) return cli_fail(&err);
    making m = {.lines = mem_zalloc(MAX_LINES, sizeof(line)), .list = o->json ? json_array() : NULL};
    if (m.lines == NULL) {
        (void)status_fail(&err, WEIR_NO_MEMORY, "quantize: out of memory");
        code = cli_fail(&err);
    }
    if (code == CLI_OK && o->bpw_given) code = calibrate(o, &m, source);
    if (code == CLI_OK) code = make(o, &m, source);
    json_decref(m.list);
    mem_free(m.recipe);
    mem_free(m.lines);
    mem_free(source);
    return code;
}

const command cmd_quantize = {
    .name    = "quantize",
    .summary = "make a smaller checkpoint from a full one",
    .usage   = "SRC DST [--bits N | --bpw X --calibration TEXT] [--group N] [--format F] [--recipe FILE] [options]",
    .details = "Writes the BF16, F16 or F32 checkpoint SRC to the folder DST in MLX's affine form, which weir and\n"
               "mlx-lm open.  DST must be new or empty, or what an earlier run with the same arguments left.\n"
               "Memory stays small whatever the size of the model.  With --bpw the model is run over a text before,\n"
               "once for each module, and the widths go to DST.recipe.json, for --recipe.\n",
    .model   = CLI_MODEL_AND_TARGET,
    .groups  = groups,
    .run     = quantize_command,
};
