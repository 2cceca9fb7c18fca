/* tests/unit/text_tokenizer/test_normalise.c - form C against utf8proc's own, which is slower and simpler. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "text/normalise.h"
#include "text/unicode_tables.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool is_newer(uint32_t c)
{
    for (size_t i = 0; i < sizeof unicode_newer_nfc / sizeof unicode_newer_nfc[0]; i++)
        if (c >= unicode_newer_nfc[i].first && c <= unicode_newer_nfc[i].last) return true;
    return false;
}

/* Half of it from where something happens: marks, Hangul, Indic, ideographs
 * that are another's double. */
static uint32_t random_character(uint64_t *seed)
{
    static const uint32_t blocks[][2] = {{0x20, 0x7F},     {0xC0, 0x250},      {0x300, 0x370},     {0x900, 0xE00},
                                         {0x1100, 0x1200}, {0x1E00, 0x2000},   {0xAC00, 0xAD00},   {0xF900, 0xFB00},
                                         {0x591, 0x660},   {0x11000, 0x11A00}, {0x1D15E, 0x1D1C0}, {0x2F800, 0x2FA20}};
    for (;;) {
        uint32_t c;
        if (rng_below(seed, 8) == 0) {
            c = 1 + rng_below(seed, 0x10FFFF);
        } else {
            const uint32_t *b = blocks[rng_below(seed, sizeof blocks / sizeof blocks[0])];
            c                 = b[0] + rng_below(seed, b[1] - b[0]);
        }
        if ((c < 0xD800 || c >= 0xE000) && !is_newer(c)) return c;
    }
}

/* The normaliser's answer: `s` itself when that is in form C. */
static const char *normalise(const normaliser *n, const str *s, normalised *out)
{
    bool       is_nfc;
    weir_error err;
    str_clear(&out->text);
    str_clear(&out->untrusted);
    if (normalise_nfc(n, s->data, s->len, NULL, out, &is_nfc, &err) != WEIR_OK) fail_msg("%s", err.text);
    return is_nfc ? s->data : out->text.data;
}

static void random_text_is_normalised_as_by_the_library(void **state)
{
    (void)state;
    static normaliser n;
    normaliser_init(&n);
    uint64_t   seed = 5;
    str        s;
    normalised out;
    str_init(&s, 1000);
    str_init(&out.text, 10000);
    str_init(&out.untrusted, 10000);
    for (int round = 0; round < 20000; round++) {
        str_clear(&s);
        for (uint32_t k = 1 + rng_below(&seed, 24); k > 0; k--) {
            utf8proc_uint8_t bytes[4];
            str_put(&s, bytes, (size_t)utf8proc_encode_char((utf8proc_int32_t)random_character(&seed), bytes));
        }
        utf8proc_uint8_t *expected = utf8proc_NFC((const utf8proc_uint8_t *)s.data);
        const char       *got      = normalise(&n, &s, &out);
        if (strcmp(got, (const char *)expected) != 0)
            fail_msg("'%s': expected '%s', found '%s'", s.data, (const char *)expected, got);
        free(expected);
    }
    str_free(&s);
    normalised_free(&out);
}

static void text_in_the_form_is_not_copied(void **state)
{
    (void)state;
    static normaliser        n;
    static const char *const texts[] = {"",
                                        "plain",
                                        "se\u00f1or",
                                        "\u4eca\u5929",
                                        "\uc548\ub155",
                                        "\U0001f98a",
                                        "\u0928\u092e\u0938\u094d\u0924\u0947",
                                        "\u0e2a\u0e27\u0e31\u0e2a",
                                        "x\u0334\u0316"};
    normaliser_init(&n);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        bool       is_nfc = false;
        normalised out;
        str_init(&out.text, 0); /* any write would fail */
        str_init(&out.untrusted, 0);
        assert_int_equal(normalise_nfc(&n, texts[i], strlen(texts[i]), NULL, &out, &is_nfc, NULL), WEIR_OK);
        assert_true(is_nfc);
    }
}

static void trust_follows_the_bytes(void **state)
{
    (void)state;
    static normaliser n;
    normaliser_init(&n);
    /* "ae", acute, "bo", diaeresis, "u": the first mark is a user's, the second letter, the last u */
    const char    text[]               = "ae\u0301bo\u0308u";
    const uint8_t untrusted[]          = {0, 0, 1, 1, 0, 1, 0, 0, 1};
    const char    expected[]           = "a\u00e9b\u00f6u";
    const uint8_t expected_untrusted[] = {0, 1, 1, 0, 1, 1, 1};
    bool          is_nfc;
    normalised    out;
    str_init(&out.text, 100);
    str_init(&out.untrusted, 100);
    assert_int_equal(normalise_nfc(&n, text, sizeof text - 1, untrusted, &out, &is_nfc, NULL), WEIR_OK);
    assert_false(is_nfc);
    assert_string_equal(out.text.data, expected);
    assert_int_equal(out.untrusted.len, sizeof expected - 1);
    assert_memory_equal(out.untrusted.data, expected_untrusted, sizeof expected - 1);
    normalised_free(&out);
}

/* 100,000 marks in the worst order; by swapping neighbours this takes minutes. */
static void a_long_run_of_marks_is_ordered_in_no_time(void **state)
{
    (void)state;
    enum { PAIRS = 50000 };
    static normaliser n;
    normaliser_init(&n);
    str        s;
    normalised out;
    str_init(&s, 1 << 20);
    str_init(&out.text, 1 << 20);
    str_init(&out.untrusted, 1 << 20);
    str_puts(&s, "a");
    for (int i = 0; i < PAIRS; i++) str_puts(&s, "\u0302\u0316");
    const char *got = normalise(&n, &s, &out);
    str_clear(&s); /* a and the first circumflex make one; marks below come first */
    str_puts(&s, "\u00e2");
    for (int i = 0; i < PAIRS; i++) str_puts(&s, "\u0316");
    for (int i = 1; i < PAIRS; i++) str_puts(&s, "\u0302");
    assert_int_equal(out.text.len, s.len);
    assert_memory_equal(got, s.data, s.len);
    str_free(&s);
    normalised_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_text_is_normalised_as_by_the_library),
        cmocka_unit_test(text_in_the_form_is_not_copied),
        cmocka_unit_test(trust_follows_the_bytes),
        cmocka_unit_test(a_long_run_of_marks_is_ordered_in_no_time),
    };
    return cmocka_run_group_tests_name("normalise", tests, NULL, NULL);
}
