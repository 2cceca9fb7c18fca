/* tests/unit/text_tokenizer/test_detok.c - ids to text as a stream. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "golden.h"

#include "base/str.h"
#include "text/detok.h"

#include <string.h>

#define DEMO "models/demo/tokenizer.json"

/* The token of each byte; the file's vocabulary begins with all of them. */
static void byte_tokens(const tokenizer *t, uint32_t id_of[256])
{
    size_t found = 0;
    for (uint32_t id = 0; id < 256; id++) {
        size_t         len;
        const uint8_t *bytes = tokenizer_bytes(t, id, &len);
        if (len != 1) continue;
        id_of[bytes[0]] = id;
        found++;
    }
    assert_int_equal(found, 256);
}

/* Pushes ids one by one; every piece must be whole characters. */
static void stream(const tokenizer *t, const uint32_t *ids, size_t n, bool skip, str *out)
{
    detok d;
    str   piece;
    str_init(&piece, 1000);
    str_clear(out);
    detok_init(&d, t, skip);
    for (size_t i = 0; i < n; i++) {
        str_clear(&piece);
        assert_int_equal(detok_push(&d, ids[i], &piece, NULL), WEIR_OK);
        assert_true(utf8_valid(piece.data, piece.len));
        assert_true(d.n_held <= 3);
        str_put(out, piece.data, piece.len);
    }
    str_clear(&piece);
    detok_flush(&d, &piece);
    assert_true(utf8_valid(piece.data, piece.len));
    str_put(out, piece.data, piece.len);
    str_free(&piece);
}

static void an_emoji_comes_when_it_is_whole(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer(DEMO);
    uint32_t   id_of[256];
    detok      d;
    str        out;
    byte_tokens(t, id_of);
    str_init(&out, 100);
    detok_init(&d, t, false);
    static const uint8_t bytes[] = {0xF0, 0x9F, 0xA6, 0x8A};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(out.len, 0);
        assert_int_equal(detok_push(&d, id_of[bytes[i]], &out, NULL), WEIR_OK);
    }
    assert_string_equal(out.data, "\U0001f98a");
    str_clear(&out); /* cut off after two bytes: one mark for the two */
    for (size_t i = 0; i < 2; i++) assert_int_equal(detok_push(&d, id_of[bytes[i]], &out, NULL), WEIR_OK);
    detok_flush(&d, &out);
    assert_string_equal(out.data, "\uFFFD");
    detok_flush(&d, &out);
    assert_string_equal(out.data, "\uFFFD");
    str_free(&out);
    tokenizer_free(t);
}

static uint8_t hex_digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Byte by byte, as Python's bytes.decode(errors="replace") of the whole. */
static void damaged_text_is_replaced_as_by_python(void **state)
{
    (void)state;
    json_doc   doc = golden_load("tests/data/tokenizer/replacement.json");
    tokenizer *t   = golden_tokenizer(DEMO);
    uint32_t   id_of[256], ids[64];
    size_t     i;
    json_t    *c;
    str        out;
    byte_tokens(t, id_of);
    str_init(&out, 1000);
    json_array_foreach(doc.root, i, c)
    {
        const char *hex = golden_text(c, "bytes");
        size_t      n   = 0;
        for (; hex[2 * n] != '\0'; n++) ids[n] = id_of[hex_digit(hex[2 * n]) << 4 | hex_digit(hex[2 * n + 1])];
        stream(t, ids, n, false, &out);
        if (strcmp(out.data, golden_text(c, "text")) != 0) fail_msg("%s: found '%s'", hex, out.data);
    }
    str_free(&out);
    tokenizer_free(t);
    json_doc_free(&doc);
}

/* The promise of streaming: deltas joined are the text of all ids. */
static void deltas_joined_are_the_text_of_all_ids(void **state)
{
    (void)state;
    enum { ROUNDS = 3000, MAX_IDS = 40 };
    tokenizer     *t    = golden_tokenizer(DEMO);
    const uint32_t size = tokenizer_size(t);
    uint64_t       seed = 2;
    str            joined, whole;
    str_init(&joined, 10000);
    str_init(&whole, 10000);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t     ids[MAX_IDS];
        const size_t n    = 1 + rng_below(&seed, MAX_IDS);
        const bool   skip = rng_below(&seed, 2) == 0;
        for (size_t i = 0; i < n; i++) { /* bytes, added tokens and all others in equal parts */
            const uint32_t kind = rng_below(&seed, 3);
            ids[i]              = kind == 0   ? rng_below(&seed, 256)
                                  : kind == 1 ? size - 1 - rng_below(&seed, 26)
                                              : rng_below(&seed, size);
        }
        str_clear(&whole);
        stream(t, ids, n, skip, &joined);
        assert_int_equal(detok_all(t, ids, n, skip, &whole, NULL), WEIR_OK);
        assert_string_equal(joined.data, whole.data);
    }
    str_free(&joined);
    str_free(&whole);
    tokenizer_free(t);
}

/* A hidden token is as if it were not there, even inside a character; one that
 * is shown ends the character. */
static void special_tokens_can_be_skipped(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer(DEMO);
    uint32_t   id_of[256], end, think;
    str        out;
    byte_tokens(t, id_of);
    str_init(&out, 1000);
    assert_true(tokenizer_id(t, "<|im_end|>", &end));
    assert_true(tokenizer_id(t, "<think>", &think));
    const uint32_t ids[] = {id_of['a'], end, think, id_of[0xC3], end, id_of[0xA9]};
    stream(t, ids, 6, true, &out);
    assert_string_equal(out.data, "a<think>\u00e9");
    stream(t, ids, 6, false, &out);
    assert_string_equal(out.data, "a<|im_end|><think>\uFFFD<|im_end|>\uFFFD");
    str_free(&out);
    tokenizer_free(t);
}

static void an_id_without_a_token_is_refused(void **state)
{
    (void)state;
    tokenizer *t = golden_tokenizer(DEMO);
    detok      d;
    str        out;
    weir_error err;
    str_init(&out, 100);
    detok_init(&d, t, false);
    assert_int_equal(detok_push(&d, tokenizer_size(t), &out, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "8192"));
    assert_int_equal(out.len, 0);
    str_free(&out);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_emoji_comes_when_it_is_whole),
        cmocka_unit_test(damaged_text_is_replaced_as_by_python),
        cmocka_unit_test(deltas_joined_are_the_text_of_all_ids),
        cmocka_unit_test(special_tokens_can_be_skipped),
        cmocka_unit_test(an_id_without_a_token_is_refused),
    };
    return cmocka_run_group_tests_name("detok", tests, NULL, NULL);
}
