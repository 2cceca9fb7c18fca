/* tests/unit/text_tokenizer/test_tokenizer_lists.c - tokenizers out of lists: what they make of text, and
 * which lists are refused. */
#include "support/cmocka.h"

#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { BYTES = 256, MORE = 9, N_TOKENS = BYTES + MORE };

/* 256 bytes, then these. */
static const struct {
    const char *text;
    int32_t     type;
} more[MORE] = {
    {"ab", 1},
    {"abc", 1},
    {"\xC4\xA0"
     "a",
     1},
    {"<|im_end|>", 3},
    {"<think>", 4},
    {"</think>", 4},
    {"[PAD262]", 5},
    {"\xC3\x83\xC2\xA9", 1} /* U+00E9 */,
    {"e\xCC\x81", 4} /* e and an accent: added tokens are found before text is composed */,
};

typedef struct lists {
    char             bytes[BYTES][4];
    tokenizer_string tokens[N_TOKENS], merges[4];
    int32_t          types[N_TOKENS];
    tokenizer_lists  l;
} lists;

static tokenizer_string string(const char *text)
{
    return (tokenizer_string){text, strlen(text)};
}

static void make(lists *x)
{
    for (unsigned b = 0; b < BYTES; b++) {
        const bool     plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const unsigned cp    = plain ? b : 0x100 + (b < 33 ? b : b <= 160 ? b - 127 + 33 : 67);
        char          *s     = x->bytes[b];
        if (cp < 0x80)
            (void)snprintf(s, 4, "%c", (int)cp);
        else
            (void)snprintf(s, 4, "%c%c", (int)(0xC0 | cp >> 6), (int)(0x80 | (cp & 63)));
        x->tokens[b] = string(s);
        x->types[b]  = 1;
    }
    for (size_t i = 0; i < MORE; i++) {
        x->tokens[BYTES + i] = string(more[i].text);
        x->types[BYTES + i]  = more[i].type;
    }
    x->merges[0] = string("a b");
    x->merges[1] = string("ab c");
    x->merges[2] = string("\xC4\xA0 a");
    x->merges[3] = string("\xC3\x83 \xC2\xA9");
    x->l         = (tokenizer_lists){.name     = "m.gguf",
                                     .pre      = {"qwen35", 6},
                                     .tokens   = x->tokens,
                                     .types    = x->types,
                                     .merges   = x->merges,
                                     .n_tokens = N_TOKENS,
                                     .n_merges = 4};
}

static tokenizer *must_make(const lists *x)
{
    tokenizer *t;
    weir_error err;
    if (tokenizer_from_lists(&t, &x->l, &err) != WEIR_OK) fail_msg("%s", err.text);
    return t;
}

static void check_ids(const tokenizer *t, const char *text, const uint32_t *expected, size_t n)
{
    token_ids  ids = {0};
    weir_error err;
    if (tokenizer_encode(t, text, strlen(text), NULL, true, &ids, &err) != WEIR_OK) fail_msg("%s", err.text);
    if (ids.n != n) fail_msg("\"%s\": expected %zu ids, found %zu", text, n, ids.n);
    for (size_t i = 0; i < n; i++)
        if (ids.ids[i] != expected[i]) fail_msg("\"%s\"[%zu]: expected %u, found %u", text, i, expected[i], ids.ids[i]);
    token_ids_free(&ids);
}
#define CHECK_IDS(t, text, ...) \
    check_ids(t, text, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void text_becomes_ids(void **state)
{
    (void)state;
    lists x;
    make(&x);
    tokenizer *t = must_make(&x);
    assert_int_equal(tokenizer_size(t), N_TOKENS);
    CHECK_IDS(t, "abc", 257);
    CHECK_IDS(t, "ab ac", 256, 258, 'c');
    CHECK_IDS(t, "a<think>b</think><|im_end|>", 'a', 260, 'b', 261, 259);
    CHECK_IDS(t, "<thin k>", '<', 't', 'h', 'i', 'n', ' ', 'k', '>');
    CHECK_IDS(t, "\xC3\xA9", 263);
    CHECK_IDS(t, "E\xCC\x81", 0xC3, 0x89); /* composed: E and an accent are U+00C9 */
    CHECK_IDS(t, "e\xCC\x81", 264);
    assert_true(tokenizer_is_special(t, 259) && !tokenizer_is_special(t, 260));
    assert_true(tokenizer_is_added(t, 260) && !tokenizer_is_added(t, 256));
    size_t len;
    assert_null(tokenizer_bytes(t, 262, &len));
    assert_memory_equal(tokenizer_bytes(t, 258, &len), " a", 2);
    tokenizer_free(t);
}

/* The pattern of the generation before cuts in front of marks: "x", then a mark. */
static void the_pattern_is_the_named_one(void **state)
{
    (void)state;
    lists x;
    make(&x);
    x.tokens[262]    = string("x\xC3\x8C"); /* x and the first byte of a mark, 0xCC */
    x.types[262]     = 1;
    x.merges[3]      = string("x \xC3\x8C");
    tokenizer *young = must_make(&x);
    x.l.pre          = string("qwen2");
    tokenizer *old   = must_make(&x);
    CHECK_IDS(young, "x\xCC\xB2", 262, 0xB2);
    CHECK_IDS(old, "x\xCC\xB2", 'x', 0xCC, 0xB2);
    tokenizer_free(young);
    tokenizer_free(old);
}

static void check_refused(const lists *x, weir_status expected, const char *fragment)
{
    tokenizer        *t;
    weir_error        err;
    const weir_status st = tokenizer_from_lists(&t, &x->l, &err);
    if (st != expected)
        fail_msg("\"%s\": expected \"%s\", found \"%s\"", fragment, weir_status_text(expected), weir_status_text(st));
    if (strstr(err.text, fragment) == NULL || strstr(err.text, "m.gguf: tokenizer.ggml.") == NULL)
        fail_msg("expected \"%s\" in the message, found: %s", fragment, err.text);
    assert_null(t);
}

static void unsound_lists_are_named(void **state)
{
    (void)state;
    lists x;
    make(&x);
    x.l.pre = string("llama-bpe");
    check_refused(&x, WEIR_UNSUPPORTED, "pre: expected qwen35 or qwen2, found \"llama-bpe\"");
    make(&x);
    x.types[262] = 6;
    check_refused(&x, WEIR_UNSUPPORTED, "token_type[262]: expected 1, 3, 4 or 5, found 6");
    make(&x);
    x.tokens[257] = string("a b");
    check_refused(&x, WEIR_FORMAT, "tokens[257]: expected characters of the byte alphabet");
    make(&x);
    x.tokens[257] = string("\xFF");
    check_refused(&x, WEIR_FORMAT, "tokens[257]: expected characters of the byte alphabet");
    make(&x);
    x.tokens[257] = string("");
    check_refused(&x, WEIR_FORMAT, "tokens[257]: id 257: expected a token");
    make(&x);
    x.tokens[257] = string("ab");
    check_refused(&x, WEIR_FORMAT, "tokens: ids 256 and 257: the same token twice");
    make(&x);
    x.tokens[260] = string("\xFF");
    check_refused(&x, WEIR_FORMAT, "tokens[260]: expected UTF-8");
    make(&x);
    x.tokens[260] = (tokenizer_string){"a\0b", 3};
    check_refused(&x, WEIR_FORMAT, "tokens[260]: expected UTF-8");
    make(&x);
    x.tokens[260] = x.tokens[261];
    check_refused(&x, WEIR_FORMAT, "tokens");
    make(&x);
    x.types['a'] = 5;
    check_refused(&x, WEIR_FORMAT, "merges[0]");
    make(&x);
    x.types[0] = 5;
    check_refused(&x, WEIR_FORMAT, "merges: ");
    static const char *const merges[] = {"ab", "", " ab", "ab ", "a z9", "a b c", "q r"};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        make(&x);
        x.merges[1] = string(merges[i]);
        check_refused(&x, WEIR_FORMAT, "merges[1]: expected two tokens whose join is one");
    }
    make(&x);
    x.merges[1] = x.merges[0];
    check_refused(&x, WEIR_FORMAT, "merges: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_ids),
        cmocka_unit_test(the_pattern_is_the_named_one),
        cmocka_unit_test(unsound_lists_are_named),
    };
    return cmocka_run_group_tests_name("tokenizer lists", tests, NULL, NULL);
}
