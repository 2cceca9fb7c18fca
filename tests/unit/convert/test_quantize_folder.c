/* The folder that weir_quantize writes: the same bytes on any number of threads
 * and after any interruption, and what it will not touch. */
#include "quantized.h"

#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/str.h"
#include "convert/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL = 200000 }; /* bytes of a file, so that there are some */

static void threads_and_runs(void **unused)
{
    (void)unused;
    static const char *const sources[] = {"tiny-dense", "tiny-moe"};
    for (size_t i = 0; i < 2; i++) {
        const char *from = fixture_path(sources[i]);
        char       *a    = quantized(from, (weir_quantize_options){.bits = 3, .group = 64, .threads = 1}, SMALL);
        char       *b    = quantized(from, (weir_quantize_options){.bits = 3, .group = 64, .threads = 2}, SMALL);
        char       *c    = quantized(from, (weir_quantize_options){.bits = 3, .group = 64, .threads = 2}, SMALL);
        check_same_folder(a, b);
        check_same_folder(b, c);
        made_remove(a);
        made_remove(b);
        made_remove(c);
    }
}

/* ---- interruption ---- */

typedef struct stopper {
    int      calls_left;
    uint64_t last, total;
} stopper;

static bool stop_later(void *user, uint64_t done, uint64_t total)
{
    stopper *s = user;
    assert_true(done > s->last && done <= total);
    s->last  = done;
    s->total = total;
    return --s->calls_left > 0;
}

static size_t count_files(const char *dir, const char *fragment)
{
    size_t      n, found = 0;
    char       *names = names_in(dir, &n);
    const char *p     = names;
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1) found += strstr(p, fragment) != NULL;
    free(names);
    return found;
}

static void stopped_and_gone_on(void **unused)
{
    (void)unused;
    const char          *from  = fixture_path("tiny-dense");
    char                *whole = quantized(from, (weir_quantize_options){.bits = 4, .group = 64, .threads = 1}, SMALL);
    char                *dir   = made_dir();
    uint32_t             kept  = 0;
    weir_error           err;
    weir_quantize_result r;
    weir_status          st   = WEIR_CANCELLED;
    unsigned             runs = 0;
    while (st == WEIR_CANCELLED) {
        stopper               s   = {.calls_left = 20 + 10 * (int)runs};
        weir_quantize_options opt = {
            .size = sizeof opt, .bits = 4, .group = 64, .threads = 2, .on_progress = stop_later, .user = &s};
        st = quantize(from, dir, &opt, SMALL, &r, &err);
        assert_true(r.files_kept >= kept);
        kept = r.files_kept;
        runs++;
        if (st != WEIR_CANCELLED) {
            assert_int_equal(s.last, s.total); /* kept files count as done */
            break;
        }
        assert_int_equal(count_files(dir, "weir-quantize.plan"), 1);
        assert_int_equal(count_files(dir, "config.json"), 0);
        /* No file that is not complete: names end in .safetensors, or are the plan. */
        size_t n;
        free(names_in(dir, &n));
        assert_int_equal(count_files(dir, ".safetensors") + 1, n);
        /* What a killed run would leave. */
        made_text(dir, "model-00001-of-00009.safetensors.0123abcd", "half");
        assert_true(runs < 50);
    }
    must(st, &err);
    assert_true(runs > 2 && kept > 1);
    check_same_folder(whole, dir);
    made_remove(whole);
    made_remove(dir);
}

/* ---- refusals ---- */

static void refused(const char *source, const char *target, const weir_quantize_options *opt, weir_status status,
                    const char *says)
{
    weir_error           err;
    weir_quantize_result r;
    const weir_status    st          = weir_quantize(source, target, opt, &r, &err);
    const char *const    fragments[] = {says, NULL};
    check_failure(st, status, &err, target, fragments);
}

static void folders_that_are_taken(void **unused)
{
    (void)unused;
    char        source[1024];
    const char *files[] = {"notes.txt", ".hidden", "config.json"};
    (void)snprintf(source, sizeof source, "%s", fixture_path("tiny-dense"));
    for (size_t i = 0; i < 3; i++) {
        char *dir = made_dir();
        made_text(dir, files[i], "mine");
        refused(source, dir, NULL, WEIR_INVALID, "expected an empty folder or none");
        assert_int_equal(count_files(dir, ".safetensors"), 0);
        made_remove(dir);
    }
    refused(source, source, NULL, WEIR_INVALID, "expected an empty folder or none");
    char *dir  = made_dir();
    char *file = path_join(dir, "file"), *below = path_join(file, "below");
    made_text(dir, "file", "mine");
    refused(source, file, NULL, WEIR_IO, "file: ");
    refused(source, below, NULL, WEIR_IO, "cannot make the folder");
    mem_free(file);
    mem_free(below);
    made_remove(dir);
    /* A finished result is no beginning. */
    dir = quantized(source, (weir_quantize_options){.bits = 4, .group = 64}, 0);
    refused(source, dir, NULL, WEIR_INVALID, "expected an empty folder or none");
    made_remove(dir);
}

static void another_plan(void **unused)
{
    (void)unused;
    const char           *from = fixture_path("tiny-dense");
    char                 *dir  = made_dir();
    stopper               s    = {.calls_left = 1};
    weir_quantize_options opt  = {.size = sizeof opt, .bits = 4, .group = 64, .on_progress = stop_later, .user = &s};
    refused(from, dir, &opt, WEIR_CANCELLED, "stopped");
    opt.on_progress = NULL;
    opt.bits        = 8;
    refused(from, dir, &opt, WEIR_INVALID, "weir-quantize.plan: expected the beginning of this conversion");
    opt.bits  = 4;
    opt.group = 32;
    refused(from, dir, &opt, WEIR_INVALID, "weir-quantize.plan");
    opt.group = 64;
    weir_error           err;
    weir_quantize_result r;
    must(weir_quantize(from, dir, &opt, &r, &err), &err);
    made_remove(dir);
}

static void with_a_nan(made_tensors *out, const checkpoint_tensor *t, const void *user)
{
    if (strcmp(t->name, user) != 0) {
        emit_same(out, t);
        return;
    }
    uint8_t *copy = malloc(t->bytes);
    assert_non_null(copy);
    memcpy(copy, t->data, t->bytes);
    memset(copy + t->bytes / 4 * 2, 0xFF, 2);
    emit(out, t->raw_name, t, t->rank, t->shape, copy, t->bytes);
    free(copy);
}

static void sources_that_do_not_do(void **unused)
{
    (void)unused;
    char *dir = made_dir(), *target = path_join(dir, "out");
    refused(fixture_path("mlx-q8"), target, NULL, WEIR_INVALID, "expected an unquantised checkpoint");
    refused("/does/not/exist", target, NULL, WEIR_IO, "/does/not/exist: expected a folder");
    refused(fixture_path("tiny-moe/config.json"), target, NULL, WEIR_IO, "found a file");
    refused(fixture_path("mlx-kernels"), target, NULL, WEIR_FORMAT, "expected model.safetensors.index.json");
    assert_false(file_is_dir(target)); /* nothing was begun */
    char *odd = rewrite("tiny-dense", with_a_nan, "layers.1.mlp.down_proj.weight");
    refused(odd, target, NULL, WEIR_FORMAT, "layers.1.mlp.down_proj.weight: expected finite numbers");
    assert_int_equal(count_files(target, ".safetensors"), 0);
    made_remove(odd);
    mem_free(target);
    made_remove(dir);
}

static void options_that_do_not_do(void **unused)
{
    (void)unused;
    char                 *dir = made_dir(), *target = path_join(dir, "out"), *rules = path_join(dir, "rules");
    const char           *from = fixture_path("tiny-dense");
    weir_quantize_options opt  = {.size = sizeof opt, .bits = 7, .group = 64};
    refused(from, target, &opt, WEIR_INVALID, "bits: expected 2, 3, 4, 5, 6 or 8, found 7");
    opt.bits  = 4;
    opt.group = 48;
    refused(from, target, &opt, WEIR_INVALID, "group: expected 32, 64 or 128, found 48");
    opt.group  = 64;
    opt.recipe = rules;
    refused(from, target, &opt, WEIR_IO, "rules: ");
    made_text(dir, "rules", "[{\"pattern\": \"layers.*.mlp.upproj\", \"bits\": 8}]");
    refused(from, target, &opt, WEIR_FORMAT, "rules: [0].pattern");
    opt.recipe = NULL;
    opt.size   = 8;
    refused(from, target, &opt, WEIR_INVALID, "options.size");
    assert_false(file_is_dir(target));
    mem_free(target);
    mem_free(rules);
    made_remove(dir);
}

/* ---- what is told ---- */

typedef struct told {
    size_t   n, kept, six, four;
    uint64_t parameters;
} told;

static void on_tensor(void *user, const weir_quantize_tensor *t)
{
    static const char *const kept[] = {
        "A_log", "dt_bias", "norm", "conv1d", "in_proj_a", "in_proj_b", ".mlp.gate.", "shared_expert_gate", "visual"};
    static const char *const six[] = {"self_attn.q_proj",
                                      "self_attn.k_proj",
                                      "self_attn.v_proj",
                                      "self_attn.o_proj",
                                      "linear_attn.out_proj",
                                      "lm_head",
                                      "mtp.fc"};
    told                    *all   = user;
    bool                     keep = false, more = false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) keep = keep || strstr(t->name, kept[i]) != NULL;
    for (size_t i = 0; i < sizeof six / sizeof *six; i++) more = more || strstr(t->name, six[i]) != NULL;
    if (t->bits != (keep ? 0u : more ? 6u : 4u) || t->group != (keep ? 0u : 64u))
        fail_msg("%s: %u bits in groups of %u", t->name, t->bits, t->group);
    if (strstr(t->name, "A_log") != NULL || strstr(t->name, "layernorm") != NULL)
        assert_string_equal(t->dtype, strncmp(t->name, "mtp.", 4) == 0 ? "BF16" : "F32");
    all->n++;
    all->kept += keep;
    all->six += more;
    all->four += !keep && !more;
    all->parameters += t->parameters;
}

static void the_default_says_what_it_does(void **unused)
{
    (void)unused;
    weir_error            err;
    weir_quantize_result  r;
    told                  t   = {0};
    weir_quantize_options opt = WEIR_QUANTIZE_OPTIONS_INIT;
    char                 *dir = made_dir();
    opt.on_tensor             = on_tensor;
    opt.user                  = &t;
    must(weir_quantize(fixture_path("tiny-moe"), dir, &opt, &r, &err), &err);
    assert_int_equal(t.six, 3 + 4 + 1 + 4 + 1); /* out_proj, attention, head; MTP's attention, and fc */
    assert_int_equal(t.four, 1 + 3 * 2 + 5 * 6);
    assert_int_equal(t.parameters, r.parameters);
    assert_int_equal(r.tensors, t.kept + 3 * (t.six + t.four));
    assert_int_equal(r.files, 3);
    weir_model *m;
    must(weir_model_open(&m, dir, &err), &err);
    weir_model_close(m);
    made_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_and_runs),
        cmocka_unit_test(stopped_and_gone_on),
        cmocka_unit_test(folders_that_are_taken),
        cmocka_unit_test(another_plan),
        cmocka_unit_test(sources_that_do_not_do),
        cmocka_unit_test(options_that_do_not_do),
        cmocka_unit_test(the_default_says_what_it_does),
    };
    return cmocka_run_group_tests_name("quantize_folder", tests, NULL, NULL);
}
