/* tests/fuzz/fuzz_tokenizer.c - any bytes as tokenizer.json.
 *
 * What is accepted must encode any text, and give it back. */
#include "base/str.h"
#include "text/detok.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "The fox  said:\r\n\"caf\u00e9 1234\" <|im_end|> \u0928\u092e\u0938\u094d\u0924\u0947";

static void check(const tokenizer *t)
{
    token_ids  ids = {0};
    str        out;
    weir_error err;
    str_init(&out, 1 << 16);
    err.text[0] = '\0';
    /* A pattern may give up on a text; nothing else may fail. */
    const weir_status st = tokenizer_encode(t, text, sizeof text - 1, NULL, false, &ids, &err);
    if (st != WEIR_OK && (st != WEIR_UNSUPPORTED || err.text[0] == '\0')) abort();
    if (st == WEIR_OK) {
        if (detok_all(t, ids.ids, ids.n, false, &out, &err) != WEIR_OK || strcmp(out.data, text) != 0) abort();
        for (size_t i = 0; i < ids.n; i++)
            if (ids.ids[i] >= tokenizer_size(t)) abort();
        ids.n = 0;
        if (tokenizer_encode(t, text, sizeof text - 1, NULL, true, &ids, &err) != WEIR_OK) abort();
    }
    for (uint32_t id = 0; id < tokenizer_size(t); id++) {
        size_t len;
        if ((tokenizer_bytes(t, id, &len) == NULL) != (len == 0)) abort();
    }
    str_free(&out);
    token_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tokenizer *t;
    weir_error err;
    char      *copy = mem_strndup((const char *)data, size); /* a NUL stands behind the text */
    if (copy == NULL) return 0;
    err.text[0] = '\0';
    if (tokenizer_parse(&t, copy, size, "fuzz.json", &err) == WEIR_OK) {
        check(t);
        tokenizer_free(t);
    } else if (t != NULL || err.text[0] == '\0') {
        abort(); /* every failure says why */
    }
    mem_free(copy);
    return 0;
}
