/* tests/unit/text_tokenizer/test_tokenizer_file.c - tokenizer.json: what is read and what is refused. */
#include "support/cmocka.h"

#include "base/str.h"
#include "text/detok.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

/* A file in parts, so that a test changes one.  vocab stands behind the 256
 * bytes, which have ids 0-255. */
typedef struct parts {
    const char *added, *normalizer, *pre_tokenizer, *post, *decoder, *type, *vocab, *merges, *model, *end;
} parts;

#define SPLIT \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{L}+|\\\\s\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,\"use_regex\":false}"
#define ADDED(id, text, special) \
    "{\"id\":" id ",\"content\":\"" text "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false," \
    "\"normalized\":false,\"special\":" special "}"
#define SEQUENCE(list) "{\"type\":\"Sequence\",\"pretokenizers\":[" list "]}"

static const parts sound = {
    .added         = ADDED("300", "<x>", "true") "," ADDED("301", "<y>", "false"),
    .normalizer    = "{\"type\":\"NFC\"}",
    .pre_tokenizer = SEQUENCE(SPLIT "," BYTES),
    .post          = "null",
    .decoder       = "{\"type\":\"ByteLevel\"}",
    .type          = "\"BPE\"",
    .vocab         = ",\"ab\":256,\"abc\":257,\"\\u0120a\":258",
    .merges        = "[\"a\",\"b\"],[\"ab\",\"c\"]",
    .model         = "",
    .end           = "",
};

static void put_vocab(str *s, const char *more)
{
    for (unsigned b = 0; b < 256; b++) {
        const bool     plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const unsigned cp    = plain ? b : 0x100 + (b < 33 ? b : b <= 160 ? b - 127 + 33 : 67);
        str_printf(s, "%s\"\\u%04x\":%u", b == 0 ? "" : ",", cp, b);
    }
    str_puts(s, more);
}

static void put_file(str *s, const parts *p)
{
    str_printf(s,
               "{\"version\":\"1.0\",\"truncation\":{\"max_length\":1},\"added_tokens\":[%s],\n\"normalizer\":%s,"
               "\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,\"model\":{\"type\":%s,%s\"vocab\":{",
               p->added, p->normalizer, p->pre_tokenizer, p->post, p->decoder, p->type, p->model);
    put_vocab(s, p->vocab);
    str_printf(s, "},\"merges\":[%s]}}%s", p->merges, p->end);
}

static weir_status parse(tokenizer **t, const parts *p, weir_error *err)
{
    str s;
    str_init(&s, 1 << 20);
    put_file(&s, p);
    err->text[0]         = '\0';
    const weir_status st = tokenizer_parse(t, s.data, s.len, "made.json", err);
    str_free(&s);
    return st;
}

static tokenizer *parse_sound(const parts *p)
{
    tokenizer *t;
    weir_error err;
    if (parse(&t, p, &err) != WEIR_OK) fail_msg("%s", err.text);
    return t;
}

static void expect_ids(const tokenizer *t, const char *text, const uint32_t *expected, size_t n)
{
    token_ids ids = {0};
    assert_int_equal(tokenizer_encode(t, text, strlen(text), NULL, true, &ids, NULL), WEIR_OK);
    assert_int_equal(ids.n, n);
    assert_memory_equal(ids.ids, expected, n * sizeof *expected);
    token_ids_free(&ids);
}

static void a_sound_file_is_read(void **state)
{
    (void)state;
    static const uint32_t expected[] = {257, 300, 256, 'd', ' ', 'a', 301};
    tokenizer            *t          = parse_sound(&sound);
    size_t                len;
    expect_ids(t, "abc<x>abd a<y>", expected, sizeof expected / sizeof expected[0]);
    assert_int_equal(tokenizer_size(t), 302);
    assert_memory_equal(tokenizer_bytes(t, 258, &len), " a", 2);
    assert_int_equal(len, 2);
    assert_null(tokenizer_bytes(t, 259, &len)); /* a hole */
    assert_true(tokenizer_is_special(t, 300));
    assert_true(tokenizer_is_added(t, 301));
    assert_false(tokenizer_is_special(t, 301));
    assert_false(tokenizer_is_added(t, 257));
    tokenizer_free(t);
}

/* Merges as "left right", and before the vocabulary; unknown members; escapes. */
static void other_spellings_of_the_file_are_read(void **state)
{
    (void)state;
    static const uint32_t abc[] = {257};
    parts                 p     = sound;
    p.merges                    = "\"a b\" , \"ab c\"";
    tokenizer *t                = parse_sound(&p);
    expect_ids(t, "abc", abc, 1);
    tokenizer_free(t);

    p       = sound;
    p.vocab = ",\"\\u0061b\":256,\"abc\":257";
    t       = parse_sound(&p);
    expect_ids(t, "abc", abc, 1);
    tokenizer_free(t);

    str        s;
    weir_error err;
    str_init(&s, 1 << 20);
    str_puts(&s,
             "\t{ \"model\" : { \"merges\" : [ [ \"a\" , \"b\" ] , \"ab c\" ] , \"x\" : {\"vocab\": 1}, \"vocab\" : {");
    put_vocab(&s, sound.vocab);
    str_printf(&s, "} , \"type\" : \"BPE\" } , \"y\":[[{}]], \"pre_tokenizer\":%s,\"decoder\":%s}\n",
               sound.pre_tokenizer, sound.decoder);
    if (tokenizer_parse(&t, s.data, s.len, "made.json", &err) != WEIR_OK) fail_msg("%s", err.text);
    expect_ids(t, "abc", abc, 1);
    tokenizer_free(t);
    str_free(&s);
}

static void merges_are_ignored_where_the_file_says_so(void **state)
{
    (void)state;
    static const uint32_t whole[] = {258}, merged[] = {' ', 'a'};
    parts                 p = sound;
    p.pre_tokenizer         = SEQUENCE(
                "{\"type\":\"Split\",\"pattern\":{\"Regex\":\" a\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTES);
    tokenizer *t = parse_sound(&p);
    expect_ids(t, " a", merged, 2);
    tokenizer_free(t);
    p.model = "\"ignore_merges\":true,";
    t       = parse_sound(&p);
    expect_ids(t, " a", whole, 1);
    tokenizer_free(t);
}

static void without_a_normalizer_text_is_as_it_is(void **state)
{
    (void)state;
    static const uint32_t decomposed[] = {'e', 0xCC, 0x81}, composed[] = {0xC3, 0xA9};
    parts                 p = sound;
    tokenizer            *t = parse_sound(&p);
    expect_ids(t, "e\u0301", composed, 2);
    tokenizer_free(t);
    p.normalizer = "null";
    t            = parse_sound(&p);
    expect_ids(t, "e\u0301", decomposed, 3);
    tokenizer_free(t);
}

/* An added token gives its text, though the byte alphabet has U+00E9 too. */
static void added_tokens_are_text(void **state)
{
    (void)state;
    parts p      = sound;
    p.added      = ADDED("300", "\u00e9!", "false") "," ADDED("256", "ab", "true");
    tokenizer *t = parse_sound(&p);
    str        out;
    str_init(&out, 100);
    static const uint32_t ids[] = {300};
    assert_int_equal(detok_all(t, ids, 1, false, &out, NULL), WEIR_OK);
    assert_string_equal(out.data, "\u00e9!");
    str_free(&out);
    static const uint32_t as_added[] = {256, 'c'}; /* found before merging could make 257 */
    assert_true(tokenizer_is_special(t, 256));
    expect_ids(t, "abc", as_added, 2);
    tokenizer_free(t);
}

typedef struct refusal {
    parts       change; /* members that are not NULL replace those of `sound` */
    weir_status status;
    const char *text; /* in the message */
} refusal;

static const refusal refusals[] = {
    /* other kinds */
    {{.type = "\"Unigram\""}, WEIR_UNSUPPORTED, "model.type: expected \"BPE\", found \"Unigram\""},
    {{.type = "\"WordPiece\""}, WEIR_UNSUPPORTED, "WordPiece"},
    {{.type = "3"}, WEIR_UNSUPPORTED, "found 3"},
    {{.normalizer = "{\"type\":\"NFKC\"}"},
     WEIR_UNSUPPORTED,
     "normalizer.type: expected NFC or no normalizer, found NFKC"},
    {{.normalizer = "{\"type\":\"Sequence\"}"}, WEIR_UNSUPPORTED, "Sequence"},
    {{.normalizer = "{}"}, WEIR_FORMAT, "normalizer.type"},
    {{.normalizer = "\"NFC\""}, WEIR_FORMAT, "expected an object, found a string"},
    {{.decoder = "{\"type\":\"Metaspace\"}"}, WEIR_UNSUPPORTED, "decoder.type: expected ByteLevel, found Metaspace"},
    {{.decoder = "null"}, WEIR_UNSUPPORTED, "decoder.type: expected ByteLevel, found null"},
    {{.post = "{\"type\":\"TemplateProcessing\"}"}, WEIR_UNSUPPORTED, "TemplateProcessing"},
    {{.pre_tokenizer = "null"}, WEIR_UNSUPPORTED, "pre_tokenizer.type: expected Sequence, found null"},
    {{.pre_tokenizer = "{\"type\":\"Whitespace\"}"}, WEIR_UNSUPPORTED, "Whitespace"},
    {{.pre_tokenizer = SEQUENCE(BYTES "," SPLIT)}, WEIR_UNSUPPORTED, "expected Split, found ByteLevel"},
    {{.pre_tokenizer = SEQUENCE(SPLIT)}, WEIR_UNSUPPORTED, "found 1 parts"},
    {{.pre_tokenizer = SEQUENCE(SPLIT ",{\"type\":\"Digits\"}")}, WEIR_UNSUPPORTED, "expected ByteLevel, found Digits"},
    {{.pre_tokenizer = SEQUENCE(SPLIT ",{\"type\":\"ByteLevel\"}")}, WEIR_UNSUPPORTED, "add_prefix_space"},
    {{.pre_tokenizer = SEQUENCE(SPLIT ",{\"type\":\"ByteLevel\",\"add_prefix_space\":false}")},
     WEIR_UNSUPPORTED,
     "use_regex"},
    {{.pre_tokenizer = SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Removed\"}," BYTES)},
     WEIR_UNSUPPORTED,
     "expected Isolated, found Removed"},
    {{.pre_tokenizer =
          SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Isolated\"}," BYTES)},
     WEIR_FORMAT,
     "Regex"},
    {{.pre_tokenizer =
          SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\w\"},\"behavior\":\"Isolated\"}," BYTES)},
     WEIR_UNSUPPORTED,
     "made.json: pre_tokenizer.Split.pattern: pattern: the escape '\\w'"},
    {{.pre_tokenizer = SEQUENCE("3,4")}, WEIR_FORMAT, "found an integer"},
    {{.model = "\"dropout\":0.1,"}, WEIR_UNSUPPORTED, "dropout"},
    {{.model = "\"end_of_word_suffix\":\"</w>\","}, WEIR_UNSUPPORTED, "end_of_word_suffix"},
    {{.model = "\"continuing_subword_prefix\":\"##\","}, WEIR_UNSUPPORTED, "##"},
    /* damaged tables */
    {{.vocab = ",\"ab\":256,\"abc\":257,\"ab\":258"}, WEIR_FORMAT, "ids 256 and 258: the same token twice"},
    {{.vocab = ",\"ab\":256,\"abc\":256"}, WEIR_FORMAT, "id 256: two tokens have it"},
    {{.vocab = ",\"ab\":256,\"abc\":4194304"}, WEIR_FORMAT, "id 4194304"},
    {{.vocab = ",\"ab\":256,\"abc\":4294967296"}, WEIR_FORMAT, "an integer of 32 bits"},
    {{.vocab = ",\"ab\":256,\"abc\":-1"}, WEIR_FORMAT, "an integer of 32 bits"},
    {{.vocab = ",\"ab\":256,\"abc\":900.5"}, WEIR_FORMAT, "',' or '}'"},
    {{.vocab = ",\"ab\":256,\"abc\":\"1\""}, WEIR_FORMAT, "an integer of 32 bits"},
    {{.vocab = ",\"ab\":256,\"abc\":0257"}, WEIR_FORMAT, "an integer of 32 bits"},
    {{.vocab = ",\"ab\":256,\"\":257"}, WEIR_FORMAT, "found an empty one"},
    {{.vocab = ",\"ab\":256,\"a b\":257"}, WEIR_FORMAT, "byte-level alphabet, found byte 0x20"},
    {{.vocab = ",\"ab\":256,\"\u4e2d\":257"}, WEIR_FORMAT, "byte-level alphabet"},
    {{.vocab = ",\"ab\":256,\"\\u4e2d\":257"}, WEIR_FORMAT, "byte-level alphabet"},
    {{.vocab = ",\"ab\":256,\"\xc3\":257"}, WEIR_FORMAT, "UTF-8"},
    {{.vocab = ",\"ab\":256,\"\xc0\x80\":257"}, WEIR_FORMAT, "UTF-8"},
    {{.vocab = ",\"ab\":256,\"\\u12\":257"}, WEIR_FORMAT, "hexadecimal"},
    {{.vocab = ",\"ab\":256,\"a\nb\":257"}, WEIR_FORMAT, "byte-level alphabet, found byte 0x0A"},
    {{.vocab = ",\"ab\":256,\"\\n\":257"}, WEIR_FORMAT, "byte-level alphabet"},
    {{.vocab = ",\"ab\":256,"}, WEIR_FORMAT, "expected '\"'"},
    {{.vocab = ",\"ab\" 256"}, WEIR_FORMAT, "expected ':'"},
    {{.merges = "[\"a\",\"b\"],[\"a\",\"b\"]"}, WEIR_FORMAT, "merges 0 and 1: the same pair twice"},
    {{.merges = "[\"zz\",\"b\"]"}, WEIR_FORMAT, "merge 0 (before byte"},
    {{.merges = "[\"a\",\"zz\"]"}, WEIR_FORMAT, "its right token"},
    {{.merges = "[\"a\",\"d\"]"}, WEIR_FORMAT, "what it makes is not in the vocabulary"},
    {{.merges = "\"ab\""}, WEIR_FORMAT, "a space between two tokens"},
    {{.merges = "\"a b c\""}, WEIR_FORMAT, "byte-level alphabet"},
    {{.merges = "[\"a\"]"}, WEIR_FORMAT, "expected ','"},
    {{.merges = "[\"a\",\"b\",\"c\"]"}, WEIR_FORMAT, "expected ']'"},
    {{.merges = "[\"\",\"ab\"]"}, WEIR_FORMAT, "its left token"},
    {{.merges = "3"}, WEIR_FORMAT, "expected '['"},
    {{.merges = "],\"merges\":["}, WEIR_FORMAT, "model.merges: it is there twice"},
    {{.model = "\"vocab\":{},"}, WEIR_FORMAT, "model.vocab: it is there twice"},
    {{.model = "\"type\":\"BPE\","}, WEIR_FORMAT, "duplicate"},
    {{.end = "x"}, WEIR_FORMAT, "expected the end of the file"},
    /* added tokens */
    {{.added = ADDED("257", "<x>", "true")}, WEIR_FORMAT, "added_tokens[0]: id 257: two tokens have it"},
    {{.added = ADDED("300", "<x>", "true") "," ADDED("300", "<y>", "true")}, WEIR_FORMAT, "added_tokens[1]: id 300"},
    {{.added = ADDED("300", "<x>", "true") "," ADDED("301", "<x>", "true")}, WEIR_FORMAT, "the same text '<x>'"},
    {{.added = ADDED("300", "ab", "true")}, WEIR_FORMAT, "the vocabulary has 'ab' as another token, 256"},
    {{.added = ADDED("256", "ab", "true") "," ADDED("256", "ab", "true")}, WEIR_FORMAT, "two tokens"},
    {{.added = ADDED("300", "", "true")}, WEIR_FORMAT, "found an empty one"},
    {{.added = ADDED("4194304", "<x>", "true")}, WEIR_FORMAT, "added_tokens[0].id"},
    {{.added = ADDED("300", "<x>", "1")}, WEIR_FORMAT, "added_tokens[0].special: expected true or false"},
    {{.added = "{\"id\":300,\"content\":\"<x>\"}"}, WEIR_FORMAT, "single_word"},
    {{.added = "3"}, WEIR_FORMAT, "added_tokens[0]: expected an object"},
    {{.added = "\"\xff\""}, WEIR_FORMAT, "UTF-8"},
};

static parts changed(const parts *change)
{
    parts              p    = sound;
    const char *const *from = (const char *const *)change;
    const char       **to   = (const char **)&p;
    for (size_t i = 0; i < sizeof p / sizeof *to; i++)
        if (from[i] != NULL) to[i] = from[i];
    return p;
}

static void other_kinds_and_damage_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal    *r = &refusals[i];
        const parts       p = changed(&r->change);
        tokenizer        *t = NULL;
        weir_error        err;
        const weir_status st = parse(&t, &p, &err);
        if (st != r->status || strstr(err.text, r->text) == NULL || strncmp(err.text, "made.json: ", 11) != 0)
            fail_msg("refusal %zu: expected %d '%s', found %d '%s'", i, (int)r->status, r->text, (int)st, err.text);
        assert_null(t);
    }
}

static void a_byte_without_a_token_is_refused(void **state)
{
    (void)state;
    tokenizer  *t;
    weir_error  err;
    const char *text = "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":" SEQUENCE(
        SPLIT "," BYTES) ",\"decoder\":{\"type\":\"ByteLevel\"}}";
    assert_int_equal(tokenizer_parse(&t, text, strlen(text), "f", &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "expected a token for every byte, found none for 0x00"));
    text = "{\"model\":{\"vocab\":{\"a\":0}}}";
    assert_int_equal(tokenizer_parse(&t, text, strlen(text), "f", &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "expected model.merges"));
    assert_int_equal(tokenizer_parse(&t, "{}", 2, "f", &err), WEIR_FORMAT);
    assert_int_equal(tokenizer_parse(&t, "[]", 2, "f", &err), WEIR_FORMAT);
    assert_int_equal(tokenizer_parse(&t, "", 0, "f", &err), WEIR_FORMAT);
    assert_int_equal(tokenizer_open(&t, WEIR_SOURCE_DIR "/no such file", &err), WEIR_IO);
}

/* Cut anywhere it is refused, and nothing is read past its end. */
static void a_truncated_file_is_refused(void **state)
{
    (void)state;
    str s;
    str_init(&s, 1 << 20);
    put_file(&s, &sound);
    for (size_t n = 0; n < s.len; n++) {
        tokenizer *t;
        weir_error err;
        char      *part = mem_strndup(s.data, n); /* exactly as long: a sanitizer sees a read past it */
        if (tokenizer_parse(&t, part, n, "cut.json", &err) != WEIR_FORMAT) fail_msg("%zu bytes: not refused", n);
        assert_non_null(strstr(err.text, "cut.json: "));
        mem_free(part);
    }
    str_free(&s);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    tokenizer *t;
    weir_error err;
    str        s;
    str_init(&s, 1 << 20);
    str_puts(&s, "{\"x\":");
    for (int i = 0; i < 100000; i++) str_putc(&s, '[');
    assert_int_equal(tokenizer_parse(&t, s.data, s.len, "deep.json", &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "nested deeper"));
    str_free(&s);
}

static void failing_memory_is_reported(void **state)
{
    (void)state;
    parts p = sound;
    p.added =
        ADDED("300", "<x>", "true") ",{\"id\":301,\"content\":\"e\\u0301\",\"single_word\":false,\"lstrip\":false,"
                                    "\"rstrip\":false,\"normalized\":true,\"special\":false}";
    str s;
    str_init(&s, 1 << 20);
    put_file(&s, &p);
    tokenizer  *t  = NULL;
    weir_status st = WEIR_NO_MEMORY;
    uint64_t    n  = 0;
    while (st != WEIR_OK) {
        weir_error err;
        mem_fail_at(++n);
        st = tokenizer_parse(&t, s.data, s.len, "made.json", &err);
        mem_fail_at(0);
        if (st != WEIR_OK && st != WEIR_NO_MEMORY) fail_msg("allocation %llu: %s", (unsigned long long)n, err.text);
        if (st != WEIR_OK) assert_null(t);
        assert_true(n < 2000);
    }
    assert_true(n > 20);
    tokenizer_free(t);
    str_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_file_is_read),
        cmocka_unit_test(other_spellings_of_the_file_are_read),
        cmocka_unit_test(merges_are_ignored_where_the_file_says_so),
        cmocka_unit_test(without_a_normalizer_text_is_as_it_is),
        cmocka_unit_test(added_tokens_are_text),
        cmocka_unit_test(other_kinds_and_damage_are_refused_by_name),
        cmocka_unit_test(a_byte_without_a_token_is_refused),
        cmocka_unit_test(a_truncated_file_is_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(failing_memory_is_reported),
    };
    return cmocka_run_group_tests_name("tokenizer_file", tests, NULL, NULL);
}
