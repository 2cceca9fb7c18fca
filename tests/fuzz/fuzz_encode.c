/* tests/fuzz/fuzz_encode.c - any bytes as text to encode.
 *
 * The first byte chooses what is untrusted: bit k is about the k-th eighth of
 * the text, over and over.  The ids must give the text back in form C, where no
 * added token takes white space along, and none may come from a user. */
#include "base/str.h"
#include "text/detok.h"
#include "text/normalise.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct setup {
    tokenizer *plain, *flags; /* of the demo model; with all kinds of added tokens */
    normaliser normaliser;
} setup;

/* Made at the first input, kept until the process ends. */
static const setup *get_setup(void)
{
    static setup *s;
    weir_error    err;
    if (s != NULL) return s;
    s = malloc(sizeof *s);
    if (s == NULL) abort();
    if (tokenizer_open(&s->plain, WEIR_SOURCE_DIR "/models/demo/tokenizer.json", &err) != WEIR_OK) abort();
    if (tokenizer_open(&s->flags, WEIR_SOURCE_DIR "/tests/data/tokenizer/flags.json", &err) != WEIR_OK) abort();
    normaliser_init(&s->normaliser);
    return s;
}

static void expect_text(const setup *s, const token_ids *ids, const char *text, size_t len)
{
    normalised n;
    str        out;
    bool       is_nfc;
    str_init(&n.text, 1 << 24);
    str_init(&n.untrusted, 1 << 24);
    str_init(&out, 1 << 24);
    if (normalise_nfc(&s->normaliser, text, len, NULL, &n, &is_nfc, NULL) != WEIR_OK) abort();
    if (detok_all(s->plain, ids->ids, ids->n, false, &out, NULL) != WEIR_OK) abort();
    const size_t expected = is_nfc ? len : n.text.len;
    if (out.len != expected || memcmp(out.data, is_nfc ? text : n.text.data, expected) != 0) abort();
    normalised_free(&n);
    str_free(&out);
}

/* No added tokens where nothing is trusted; those of `flags` are excepted, since
 * one of them is a word that merging makes as well. */
static void run_trust(const tokenizer *t, const char *text, size_t len, uint8_t choice, bool check)
{
    uint8_t  *untrusted = mem_alloc(len, 1);
    token_ids ids       = {0};
    if (untrusted == NULL) return;
    for (size_t i = 0; i < len; i++) untrusted[i] = (uint8_t)(choice >> (i * 8 / len) & 1);
    if (tokenizer_encode(t, text, len, untrusted, true, &ids, NULL) != WEIR_OK) abort();
    for (size_t i = 0; i < ids.n && choice == 0xFF && check; i++)
        if (tokenizer_is_added(t, ids.ids[i])) abort();
    mem_free(untrusted);
    token_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const setup *s    = get_setup();
    const char  *text = (const char *)data + 1;
    const size_t len  = size - 1;
    token_ids    ids  = {0};
    weir_error   err;
    err.text[0]          = '\0';
    const weir_status st = tokenizer_encode(s->plain, text, len, NULL, false, &ids, &err);
    if ((st == WEIR_OK) != utf8_valid(text, len)) abort();
    if (st != WEIR_OK) {
        if (st != WEIR_INVALID || ids.n != 0 || err.text[0] == '\0') abort();
    } else {
        expect_text(s, &ids, text, len);
        run_trust(s->flags, text, len, data[0], false);
        run_trust(s->plain, text, len, data[0], true);
        run_trust(s->plain, text, len, 0xFF, true);
    }
    token_ids_free(&ids);
    return 0;
}
