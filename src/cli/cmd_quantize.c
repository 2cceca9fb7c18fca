/* cli/cmd_quantize.c - `weir quantize`: a smaller checkpoint made from a full one. */
#include "cli/cli.h"
#include "cli/find_model.h"
#include "cli/progress.h"
#include "cli/terminal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "weir/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const arg_option quantize_options[] = {
    {"--bits", NULL, ARG_U32, offsetof(options, bits), 0, "N", 2, 8,
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
    (void)cli_put_clean(stdout, target, strlen(target));
    (void)fputc('\n', stdout);
    return cli_flush();
}

static int print_json(making *m, const weir_quantize_result *r, const char *source, const char *target, double seconds)
{
    json_t *list = m->list;
    m->list      = NULL;
    return cli_print_json(json_pack(
        "{s:o, s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "source", cli_json_text(source, strlen(source)), "out",
        cli_json_text(target, strlen(target)), "bits_per_weight", bits_per_weight(r), "bytes", (json_int_t)r->bytes,
        "parameters", (json_int_t)r->parameters, "tensors", (json_int_t)r->tensors, "files", (json_int_t)r->files,
        "files_kept", (json_int_t)r->files_kept, "seconds", seconds, "stored", list));
}

/* Tells of a failure; one of a file in DST is no bad input. */
static int fail(const weir_error *err, const char *target)
{
    if (err->status == WEIR_IO && strncmp(err->text, target, strlen(target)) == 0) return cli_fail_output(err);
    const int code = cli_fail(err);
    if (err->status == WEIR_CANCELLED) (void)fputs("weir: the same command goes on where this one ended\n", stderr);
    return code;
}

static int make(const options *o, making *m, const char *source)
{
    weir_quantize_options opt = WEIR_QUANTIZE_OPTIONS_INIT;
    opt.bits                  = o->bits;
    opt.group                 = o->group;
    opt.format                = o->format;
    opt.recipe                = o->recipe;
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
    if (st != WEIR_OK) return fail(&err, o->target);
    const double seconds = (double)(clock_ns() - start) * 1e-9;
    return o->json ? print_json(m, &r, source, o->target, seconds) : print_table(m, &r, o->target, seconds);
}

static int quantize_command(const options *o)
{
    weir_error err;
    char      *source;
    if (find_model(o->model, &source, &err) != WEIR_OK) return cli_fail(&err);
    making m = {.lines = mem_zalloc(MAX_LINES, sizeof(line)), .list = o->json ? json_array() : NULL};
    int    code;
    if (m.lines == NULL) {
        (void)status_fail(&err, WEIR_NO_MEMORY, "quantize: out of memory");
        code = cli_fail(&err);
    } else {
        code = make(o, &m, source);
    }
    json_decref(m.list);
    mem_free(m.lines);
    mem_free(source);
    return code;
}

const command cmd_quantize = {
    .name    = "quantize",
    .summary = "make a smaller checkpoint from a full one",
    .usage   = "SRC DST [--bits N] [--group N] [--format F] [--recipe FILE] [options]",
    .details = "Writes the BF16, F16 or F32 checkpoint SRC to the folder DST in MLX's affine form, which weir and\n"
               "mlx-lm open.  DST must be new or empty, or what an earlier run with the same arguments left.\n"
               "Memory stays small whatever the size of the model.\n",
    .model   = CLI_MODEL_AND_TARGET,
    .groups  = groups,
    .run     = quantize_command,
};
