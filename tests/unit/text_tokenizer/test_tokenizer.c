/* tests/unit/text_tokenizer/test_tokenizer.c - text to ids, against the reference tokenizer. */
#include "support/cmocka.h"

#include "golden.h"

#include "base/file.h"
#include "base/str.h"
#include "text/detok.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEMO "models/demo/tokenizer.json"
#define FLAGS "tests/data/tokenizer/flags.json"

static void encode(const tokenizer *t, const char *text, size_t len, const uint8_t *untrusted, token_ids *out)
{
    weir_error err;
    out->n = 0;
    if (tokenizer_encode(t, text, len, untrusted, true, out, &err) != WEIR_OK) fail_msg("%s", err.text);
}

static void expect_text(const char *what, const tokenizer *t, const token_ids *ids, bool skip, const char *expected)
{
    str        out;
    weir_error err;
    str_init(&out, 1 << 20);
    if (detok_all(t, ids->ids, ids->n, skip, &out, &err) != WEIR_OK) fail_msg("%s: %s", what, err.text);
    if (strcmp(out.data, expected) != 0) fail_msg("%s: expected '%s', found '%s'", what, expected, out.data);
    str_free(&out);
}

/* Texts of all kinds, and random ones: the ids, and back with and without
 * special tokens. */
static void ids_and_text_are_the_references(void **state)
{
    (void)state;
    json_doc  doc = golden_load("tests/data/tokenizer/encode.json");
    token_ids ids = {0};
    size_t    i, k, n = 0;
    json_t   *file, *c;
    json_array_foreach(doc.root, i, file)
    {
        tokenizer *t = golden_tokenizer(golden_text(file, "tokenizer"));
        json_array_foreach(json_object_get(file, "cases"), k, c)
        {
            const char *name = golden_text(c, "name"), *text = golden_text(c, "text");
            encode(t, text, strlen(text), NULL, &ids);
            golden_ids_equal(name, &ids, json_object_get(c, "ids"));
            expect_text(name, t, &ids, false, golden_text(c, "decoded"));
            expect_text(name, t, &ids, true, golden_text(c, "skipped"));
            n++;
        }
        tokenizer_free(t);
    }
    assert_true(n > 600);
    token_ids_free(&ids);
    json_doc_free(&doc);
}

/* Whole held-out files of the demo model. */
static void long_texts_have_the_references_ids(void **state)
{
    (void)state;
    static const char *const names[] = {"val-tales", "val-stories", "val-chat"};
    tokenizer               *t       = golden_tokenizer(DEMO);
    token_ids                ids     = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char       path[512], *text;
        size_t     len;
        weir_error err;
        (void)snprintf(path, sizeof path, "tests/data/demo/%s.ids.json", names[i]);
        json_doc doc = golden_load(path);
        (void)snprintf(path, sizeof path, WEIR_SOURCE_DIR "/tests/data/demo/%s.txt", names[i]);
        if (file_read(&text, &len, path, 1 << 24, &err) != WEIR_OK) fail_msg("%s", err.text);
        encode(t, text, len, NULL, &ids);
        golden_ids_equal(names[i], &ids, doc.root);
        mem_free(text);
        json_doc_free(&doc);
    }
    token_ids_free(&ids);
    tokenizer_free(t);
}

/* 100,000 of one letter are one piece: merging must not be quadratic, nor
 * ordering 60,000 marks on one letter. */
static void long_runs_have_the_references_ids(void **state)
{
    (void)state;
    json_doc   doc   = golden_load("tests/data/tokenizer/runs.json");
    tokenizer *demo  = golden_tokenizer(DEMO);
    tokenizer *flags = golden_tokenizer(FLAGS);
    token_ids  ids   = {0};
    str        text;
    size_t     i;
    json_t    *c;
    str_init(&text, 1 << 24);
    json_array_foreach(doc.root, i, c)
    {
        char hash[17];
        str_clear(&text);
        for (size_t k = golden_size(c, "count"); k > 0; k--) str_puts(&text, golden_text(c, "unit"));
        const bool is_demo = strcmp(golden_text(c, "tokenizer"), DEMO) == 0;
        encode(is_demo ? demo : flags, text.data, text.len, NULL, &ids);
        assert_int_equal(ids.n, golden_size(c, "ids"));
        (void)snprintf(hash, sizeof hash, "%016" PRIx64, golden_hash(&ids));
        assert_string_equal(hash, golden_text(c, "hash"));
    }
    str_free(&text);
    token_ids_free(&ids);
    tokenizer_free(demo);
    tokenizer_free(flags);
    json_doc_free(&doc);
}

static void put_utf8(str *s, uint32_t c)
{
    if (c < 0x80)
        str_printf(s, "%c", (int)c);
    else if (c < 0x800)
        str_printf(s, "%c%c", (int)(0xC0 | c >> 6), (int)(0x80 | (c & 63)));
    else if (c < 0x10000)
        str_printf(s, "%c%c%c", (int)(0xE0 | c >> 12), (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
    else
        str_printf(s, "%c%c%c%c", (int)(0xF0 | c >> 18), (int)(0x80 | (c >> 12 & 63)), (int)(0x80 | (c >> 6 & 63)),
                   (int)(0x80 | (c & 63)));
}

/* The neighbourhoods of tools/tokenizer-goldens.py: sweep(). */
static void put_neighbourhoods(str *s, uint32_t c)
{
    static const char *const before[] = {"a", "b  ", "'", "1", "\u0301!", "\u0316\n"};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        str_puts(s, before[i]);
        put_utf8(s, c);
    }
    str_putc(s, '\n');
}

/* Letter, mark, number, space; composition and combining class: every
 * character that Unicode has given any of these is treated as the reference
 * does, whatever versions of the libraries are installed. */
static void every_character_is_cut_and_normalised_as_by_the_reference(void **state)
{
    (void)state;
    json_doc    doc = golden_load("tests/data/tokenizer/characters.json");
    tokenizer  *t   = golden_tokenizer(DEMO);
    token_ids   ids = {0};
    const char *block;
    json_t     *expected;
    str         text;
    str_init(&text, 1 << 24);
    json_object_foreach(doc.root, block, expected)
    {
        char           hash[17];
        const uint32_t first = (uint32_t)strtoul(block, NULL, 16);
        str_clear(&text);
        for (uint32_t c = first; c < first + 0x1000; c++)
            if (c != 0 && (c < 0xD800 || c >= 0xE000)) put_neighbourhoods(&text, c);
        encode(t, text.data, text.len, NULL, &ids);
        (void)snprintf(hash, sizeof hash, "%016" PRIx64, golden_hash(&ids));
        if (strcmp(hash, json_string_value(expected)) != 0) fail_msg("the block of 4096 from U+%s differs", block);
    }
    str_free(&text);
    token_ids_free(&ids);
    tokenizer_free(t);
    json_doc_free(&doc);
}

/* Control spellings in user text stay text, and cutting and merging do not
 * see where a user's text begins. */
static void untrusted_text_makes_no_added_tokens(void **state)
{
    (void)state;
    json_doc   doc = golden_load("tests/data/tokenizer/trust.json");
    tokenizer *t   = golden_tokenizer(DEMO);
    token_ids  ids = {0};
    size_t     i, k;
    json_t    *c, *segment;
    json_array_foreach(doc.root, i, c)
    {
        str text, untrusted;
        str_init(&text, 1000);
        str_init(&untrusted, 1000);
        json_array_foreach(json_object_get(c, "segments"), k, segment)
        {
            const char *part = json_string_value(json_array_get(segment, 0));
            const bool  user = strcmp(json_string_value(json_array_get(segment, 1)), "user") == 0;
            str_puts(&text, part);
            for (size_t n = strlen(part); n > 0; n--) str_putc(&untrusted, user);
        }
        encode(t, text.data, text.len, (const uint8_t *)untrusted.data, &ids);
        golden_ids_equal(text.data, &ids, json_object_get(c, "ids"));
        str_free(&text);
        str_free(&untrusted);
    }
    token_ids_free(&ids);
    tokenizer_free(t);
    json_doc_free(&doc);
}

/* A mark typed by a user joins the template's letter; a token that is looked
 * for in normalised text is then a user's. */
static void a_composed_character_is_a_users_if_a_part_is(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer(FLAGS);
    uint32_t   cafe;
    assert_true(tokenizer_id(t, "cafe\u0301", &cafe));
    const char    text[]                    = "cafe\u0301";
    const uint8_t trusted[sizeof text]      = {0};
    const uint8_t users_mark[sizeof text]   = {0, 0, 0, 0, 1, 1};
    const uint8_t users_letter[sizeof text] = {0, 1};
    token_ids     ids                       = {0};
    encode(t, text, sizeof text - 1, trusted, &ids);
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.ids[0], cafe);
    encode(t, text, sizeof text - 1, users_mark, &ids);
    for (size_t i = 0; i < ids.n; i++) assert_int_not_equal(ids.ids[i], cafe);
    encode(t, text, sizeof text - 1, users_letter, &ids);
    for (size_t i = 0; i < ids.n; i++) assert_int_not_equal(ids.ids[i], cafe);
    token_ids_free(&ids);
    tokenizer_free(t);
}

static void both_spellings_of_a_letter_give_the_same_ids(void **state)
{
    (void)state;
    tokenizer *t        = golden_tokenizer(DEMO);
    token_ids  composed = {0}, decomposed = {0};
    encode(t, "se\u00F1or", strlen("se\u00F1or"), NULL, &composed);
    encode(t, "sen\u0303or", strlen("sen\u0303or"), NULL, &decomposed);
    assert_int_equal(composed.n, decomposed.n);
    assert_memory_equal(composed.ids, decomposed.ids, composed.n * sizeof composed.ids[0]);
    token_ids_free(&composed);
    token_ids_free(&decomposed);
    tokenizer_free(t);
}

static void added_tokens_can_be_off(void **state)
{
    (void)state;
    tokenizer    *t                = golden_tokenizer(DEMO);
    const char    text[]           = "a<think>b<|im_end|>";
    const uint8_t all[sizeof text] = {[0 ... sizeof text - 1] = 1};
    token_ids     off = {0}, untrusted = {0};
    assert_int_equal(tokenizer_encode(t, text, strlen(text), NULL, false, &off, NULL), WEIR_OK);
    encode(t, text, strlen(text), all, &untrusted);
    assert_int_equal(off.n, untrusted.n);
    assert_memory_equal(off.ids, untrusted.ids, off.n * sizeof off.ids[0]);
    for (size_t i = 0; i < off.n; i++) assert_false(tokenizer_is_added(t, off.ids[i]));
    token_ids_free(&off);
    token_ids_free(&untrusted);
    tokenizer_free(t);
}

static void tokens_are_found_by_id_and_by_spelling(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer(DEMO);
    static const struct {
        const char *text;
        uint32_t    id;
        bool        added, special;
    } known[] = {{"<|endoftext|>", 8166, true, true},
                 {"<|im_start|>", 8167, true, true},
                 {"<|im_end|>", 8168, true, true},
                 {"<tool_call>", 8180, true, false},
                 {"!", 0, false, false},
                 {" ", 220, false, false},
                 {"\n", 198, false, false},
                 {" t", 256, false, false}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t id;
        size_t   len;
        if (!tokenizer_id(t, known[i].text, &id)) fail_msg("'%s' is not found", known[i].text);
        assert_int_equal(id, known[i].id);
        const uint8_t *bytes = tokenizer_bytes(t, id, &len);
        assert_int_equal(len, strlen(known[i].text));
        assert_memory_equal(bytes, known[i].text, len);
        assert_int_equal(tokenizer_is_added(t, id), known[i].added);
        assert_int_equal(tokenizer_is_special(t, id), known[i].special);
    }
    uint32_t id = 77;
    size_t   len;
    assert_false(tokenizer_id(t, "<|im_end", &id));
    assert_false(tokenizer_id(t, "", &id));
    assert_int_equal(id, 77);
    const uint32_t size = tokenizer_size(t);
    assert_int_equal(size, 8192);
    assert_non_null(tokenizer_bytes(t, size - 1, &len));
    assert_null(tokenizer_bytes(t, size, &len));
    assert_int_equal(len, 0);
    assert_null(tokenizer_bytes(t, UINT32_MAX, &len));
    assert_false(tokenizer_is_special(t, UINT32_MAX));
    tokenizer_free(t);
}

static void text_that_is_not_utf8_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *place;
    } bad[]        = {{"\xff", "0xFF at offset 0"},
                      {"ab\xc3", "0xC3 at offset 2"},
                      {"0123456789\x80 x", "0x80 at offset 10"},
                      {"\xed\xa0\x80", "0xED at offset 0"},
                      {"\xc3\xa9\xc0\x80", "0xC0 at offset 2"},
                      {"\xf4\x90\x80\x80", "0xF4 at offset 0"}};
    tokenizer *t   = golden_tokenizer(DEMO);
    token_ids  ids = {0};
    encode(t, "before", 6, NULL, &ids);
    const size_t n = ids.n;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weir_error err;
        assert_int_equal(tokenizer_encode(t, bad[i].text, strlen(bad[i].text), NULL, true, &ids, &err), WEIR_INVALID);
        if (strstr(err.text, bad[i].place) == NULL) fail_msg("expected '%s' in '%s'", bad[i].place, err.text);
        assert_int_equal(ids.n, n);
    }
    token_ids_free(&ids);
    tokenizer_free(t);
}

/* A NUL is a character like others; the reference's id of byte 0 in this file. */
static void a_nul_is_text(void **state)
{
    (void)state;
    tokenizer *t   = golden_tokenizer(DEMO);
    token_ids  ids = {0};
    uint32_t   a, b;
    assert_true(tokenizer_id(t, "a", &a));
    assert_true(tokenizer_id(t, "b", &b));
    encode(t, "a\0b", 3, NULL, &ids);
    assert_int_equal(ids.n, 3);
    size_t         len;
    const uint8_t *nul = tokenizer_bytes(t, ids.ids[1], &len);
    assert_int_equal(ids.ids[0], a);
    assert_int_equal(ids.ids[2], b);
    assert_int_equal(len, 1);
    assert_int_equal(nul[0], 0);
    token_ids_free(&ids);
    tokenizer_free(t);
}

/* Every allocation of a call fails once: the call says so and leaves `out`. */
static void failing_memory_is_reported(void **state)
{
    (void)state;
    tokenizer *t   = golden_tokenizer(FLAGS);
    token_ids  ids = {0};
    str        text;
    weir_error err;
    str_init(&text, 10000);
    for (int i = 0; i < 200; i++) str_puts(&text, "aaaa");
    str_puts(&text, " cafe\u0301 [R] e\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301"
                    "\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301\u0316\u0301");
    uint8_t    *untrusted = mem_zalloc(text.len, 1);
    uint64_t    n         = 0;
    weir_status st        = WEIR_NO_MEMORY;
    while (st != WEIR_OK) {
        token_ids_free(&ids);
        mem_fail_at(++n);
        st = tokenizer_encode(t, text.data, text.len, untrusted, true, &ids, &err);
        mem_fail_at(0);
        if (st == WEIR_OK) break;
        assert_int_equal(st, WEIR_NO_MEMORY);
        assert_int_equal(ids.n, 0);
        assert_true(n < 1000);
    }
    assert_true(n > 8);
    mem_free(untrusted);
    str_free(&text);
    token_ids_free(&ids);
    tokenizer_free(t);
}

typedef struct worker {
    const tokenizer *t;
    const char      *text;
    size_t           len;
    uint64_t         hash;
} worker;

static void *work(void *arg)
{
    worker   *w   = arg;
    token_ids ids = {0};
    for (int i = 0; i < 3; i++) {
        ids.n = 0;
        if (tokenizer_encode(w->t, w->text, w->len, NULL, true, &ids, NULL) != WEIR_OK) return NULL;
    }
    w->hash = golden_hash(&ids);
    token_ids_free(&ids);
    return NULL;
}

/* A fresh tokenizer, so that the threads also race for its memo. */
static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    tokenizer *t = golden_tokenizer(DEMO), *other = golden_tokenizer(DEMO);
    char      *text;
    size_t     len;
    assert_int_equal(file_read(&text, &len, WEIR_SOURCE_DIR "/tests/data/demo/val-chat.txt", 1 << 24, NULL), WEIR_OK);
    worker    alone = {.t = other, .text = text, .len = len}, shared[THREADS];
    pthread_t threads[THREADS];
    (void)work(&alone);
    for (size_t i = 0; i < THREADS; i++) {
        shared[i]      = alone;
        shared[i].t    = t;
        shared[i].hash = 0;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &shared[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(shared[i].hash == alone.hash);
    }
    mem_free(text);
    tokenizer_free(t);
    tokenizer_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_text_are_the_references),
        cmocka_unit_test(long_texts_have_the_references_ids),
        cmocka_unit_test(long_runs_have_the_references_ids),
        cmocka_unit_test(every_character_is_cut_and_normalised_as_by_the_reference),
        cmocka_unit_test(untrusted_text_makes_no_added_tokens),
        cmocka_unit_test(a_composed_character_is_a_users_if_a_part_is),
        cmocka_unit_test(both_spellings_of_a_letter_give_the_same_ids),
        cmocka_unit_test(added_tokens_can_be_off),
        cmocka_unit_test(tokens_are_found_by_id_and_by_spelling),
        cmocka_unit_test(text_that_is_not_utf8_is_refused_with_its_place),
        cmocka_unit_test(a_nul_is_text),
        cmocka_unit_test(failing_memory_is_reported),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
