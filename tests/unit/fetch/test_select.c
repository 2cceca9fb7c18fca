/* tests/unit/fetch/test_select.c - which files of a repository are wanted. */
#include "fetch/select.h"
#include "support/cmocka.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* `paths` with blanks between. */
static listing make(const char *paths)
{
    listing l = {0};
    char    copy[2000];
    (void)snprintf(copy, sizeof copy, "%s", paths);
    for (char *p = strtok(copy, " "); p != NULL; p = strtok(NULL, " "))
        assert_int_equal(listing_add(&l, p, "", 1, NULL), WEIR_OK);
    assert_int_equal(listing_finish(&l, "test", NULL), WEIR_OK);
    return l;
}

/* The wanted ones, sorted, with blanks between; releases the listing. */
static void assert_wanted(listing *l, const char *expected)
{
    str s;
    str_init(&s, 2000);
    for (size_t i = 0; i < l->n; i++)
        if (l->files[i].wanted) str_printf(&s, "%s%s", s.len > 0 ? " " : "", l->files[i].path);
    assert_string_equal(s.data, expected);
    str_free(&s);
    listing_free(l);
}

static void weights_without_an_index(void **state)
{
    (void)state;
    static const struct {
        const char *there, *wanted;
    } cases[] = {
        {"model.safetensors", "model.safetensors"},
        {"model.safetensors model.fp16.safetensors", "model.safetensors"},
        {"Qwen3.5-4B.safetensors mtp.safetensors", "Qwen3.5-4B.safetensors mtp.safetensors"},
        {"model.safetensors-00001-of-00002.safetensors model.safetensors-00002-of-00002.safetensors",
         "model.safetensors-00001-of-00002.safetensors model.safetensors-00002-of-00002.safetensors"},
        {"model.fp16.safetensors model.fp32.safetensors", "model.fp16.safetensors"},
        {"a.fp16-00001-of-00002.safetensors a.bf16-00001-of-00002.safetensors a.bf16-00002-of-00002.safetensors",
         "a.bf16-00001-of-00002.safetensors a.bf16-00002-of-00002.safetensors"},
        {"model.safetensors consolidated.safetensors", "model.safetensors"},
        {"consolidated.safetensors", "consolidated.safetensors"},
        {"unet/model.safetensors pytorch_model.bin model.pt", ""},
        {".safetensors x.safetensors", ".safetensors x.safetensors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        listing l = make(cases[i].there);
        assert_int_equal(select_weights(&l, NULL, "test", NULL, NULL), WEIR_OK);
        assert_wanted(&l, cases[i].wanted);
    }
}

static void weights_of_an_index(void **state)
{
    (void)state;
    char      path[] = "/tmp/weir-test-index-XXXXXX";
    const int fd     = mkstemp(path);
    FILE     *f      = fdopen(fd, "w");
    assert_non_null(f);
    (void)fputs("{\"weight_map\":{\"a\":\"x-1.safetensors\",\"b\":\"x-2.safetensors\",\"c\":\"x-1.safetensors\"}}", f);
    (void)fclose(f);
    listing l = make("x-1.safetensors x-2.safetensors model.safetensors mtp.safetensors");
    assert_int_equal(select_weights(&l, path, "test", NULL, NULL), WEIR_OK);
    assert_wanted(&l, "mtp.safetensors x-1.safetensors x-2.safetensors");

    weir_error err;
    l = make("x-2.safetensors");
    assert_int_equal(select_weights(&l, path, "test", NULL, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "x-1.safetensors"));
    listing_free(&l);
    str missing;
    str_init(&missing, 100);
    l = make("other.safetensors");
    assert_int_equal(select_weights(&l, path, "test", &missing, &err), WEIR_OK);
    assert_string_equal(missing.data, "x-1.safetensors, x-2.safetensors");
    listing_free(&l);

    static const char *const bad[] = {"[]", "{}", "{\"weight_map\":{\"a\":5}}", "{\"weight_map\":{\"a\":\"../x\"}}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        f = fopen(path, "w");
        assert_non_null(f);
        (void)fputs(bad[i], f);
        (void)fclose(f);
        l = make("x.safetensors");
        assert_int_equal(select_weights(&l, path, "test", &missing, &err), WEIR_FORMAT);
        listing_free(&l);
    }
    str_free(&missing);
    (void)remove(path);
}

static void gguf(void **state)
{
    (void)state;
    static const char there[] =
        "M-Q4_K_M.gguf M-Q8_0.gguf M-UD-Q4_K_XL.gguf M.gguf-notes mmproj-F16.gguf mtp-M-Q8_0.gguf "
        "BF16/M-BF16-00001-of-00002.gguf BF16/M-BF16-00002-of-00002.gguf IQ2/odd.gguf";
    static const struct {
        const char *what, *wanted, *first;
    } cases[] = {
        {"", "M-Q4_K_M.gguf", "M-Q4_K_M.gguf"},
        {"q4_k_m", "M-Q4_K_M.gguf", "M-Q4_K_M.gguf"},
        {"Q8_0", "M-Q8_0.gguf mtp-M-Q8_0.gguf", "M-Q8_0.gguf"},
        {"Q4_K_XL", "M-UD-Q4_K_XL.gguf", "M-UD-Q4_K_XL.gguf"},
        {"UD-Q4_K_XL", "M-UD-Q4_K_XL.gguf", "M-UD-Q4_K_XL.gguf"},
        {"BF16", "BF16/M-BF16-00001-of-00002.gguf BF16/M-BF16-00002-of-00002.gguf", "BF16/M-BF16-00001-of-00002.gguf"},
        {"BF16/M-BF16-00002-of-00002.gguf", "BF16/M-BF16-00001-of-00002.gguf BF16/M-BF16-00002-of-00002.gguf",
         "BF16/M-BF16-00001-of-00002.gguf"},
        {"IQ2", "IQ2/odd.gguf", "IQ2/odd.gguf"},
    };
    size_t first;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        listing l = make(there);
        assert_int_equal(select_gguf(&l, cases[i].what, "test", &first, NULL), WEIR_OK);
        assert_string_equal(l.files[first].path, cases[i].first);
        assert_wanted(&l, cases[i].wanted);
    }
    static const struct {
        const char *there, *what, *says;
        weir_status st;
    } refused[] = {
        {"M-Q4_K_M.gguf M-Q8_0.gguf", "K_M.gguf", "there are Q4_K_M, Q8_0", WEIR_INVALID},
        {"M-Q4_K_M.gguf M-Q8_0.gguf", "4_K_M", "there are Q4_K_M, Q8_0", WEIR_INVALID},
        {"M-Q5_0.gguf M-Q8_0.gguf", "", "there are Q5_0, Q8_0", WEIR_INVALID},
        {"A-Q8_0.gguf B-Q8_0.gguf", "Q8_0", "there are A-Q8_0.gguf, B-Q8_0.gguf", WEIR_INVALID},
        {"README.md mmproj-F16.gguf", "", "has no .gguf file", WEIR_UNSUPPORTED},
        {"M-Q8_0-00001-of-00003.gguf M-Q8_0-00003-of-00003.gguf", "Q8_0", "expected 3 parts, found 2", WEIR_FORMAT},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        weir_error err;
        listing    l = make(refused[i].there);
        assert_int_equal(select_gguf(&l, refused[i].what, "test", &first, &err), refused[i].st);
        if (strstr(err.text, refused[i].says) == NULL) fail_msg("%s", err.text);
        listing_free(&l);
    }
}

static void gguf_described(void **state)
{
    (void)state;
    str names, missing;
    str_init(&names, 200);
    str_init(&missing, 200);
    listing l =
        make("Qwen3.5-4B-Q4_K_M.gguf x.gguf B/Y-BF16-00002-of-00003.gguf B/Y-BF16-00003-of-00003.gguf config.json");
    select_describe_gguf(&l, &names, &missing);
    assert_string_equal(names.data, "BF16, Q4_K_M, x");
    assert_string_equal(missing.data, "1 of 3 parts of B/Y-BF16");
    listing_free(&l);
    str_free(&names);
    str_free(&missing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_without_an_index),
        cmocka_unit_test(weights_of_an_index),
        cmocka_unit_test(gguf),
        cmocka_unit_test(gguf_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
