/* tests/fuzz/fuzz_toolcall.c - any bytes as a reply: one that says the same however it is
 * cut, that loses no text where there are no calls, and whose arguments are JSON.
 *
 * The first byte says which options there are; the rest is a script (support/transcript.h)
 * in which the bytes 16 to 31 stand for pieces of calls. */
#include "support/transcript.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tools[] =
    "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},"
    "\"o\":{\"type\":[\"object\",\"array\",\"null\"]},\"b\":{\"type\":[\"boolean\",\"string\"]}}}},{\"name\":\"g\"}]";

enum { THINKING = 1, NO_TOOLS = 2, UNDECLARED_TEXT = 4, MOST = 4096 };

static const char *const pieces[16] = {"\n<function=f>\n",
                                       "<parameter=s>\n",
                                       "\n</parameter>\n",
                                       "</function>\n",
                                       "<parameter=n>",
                                       "\n<parameter=b>\n",
                                       "</parameter>",
                                       "<function=g>",
                                       "<parameter = 'o' >\n",
                                       "{\"name\":\"f\",\"arguments\":",
                                       "{\"a\":[1,",
                                       "null",
                                       "\n",
                                       OPEN "\n",
                                       CLOSE "\n",
                                       "<function=h>"};

static void require(bool truth)
{
    if (!truth) abort();
}

/* What a reply without calls is: its text. */
static void require_kept(const transcript *t, const char *script, size_t n)
{
    str text;
    str_init(&text, MOST * 64);
    for (size_t i = 0; i < n; i++) { /* as the parser reads it */
        if ((uint8_t)script[i] >= 0xf8)
            str_puts(&text, "\xef\xbf\xbd");
        else
            script_spell(&text, script + i, 1);
    }
    require(t->content.len == text.len && memcmp(t->content.data, text.data, text.len) == 0);
    str_free(&text);
}

static void require_json(const transcript *t, size_t calls)
{
    const char *at = t->arguments.data;
    for (size_t i = 0; i < calls; i++) {
        const size_t n = strcspn(at, "\n");
        json_t      *v = json_loadb(at, n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
        require(json_is_object(v));
        json_decref(v);
        at += n + 1;
    }
}

static bool has(const char *s, size_t n, const char *bytes)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != '\0' && strchr(bytes, s[i]) != NULL) return true;
    return false;
}

/* Numbers that JSON has and a machine has not, and escapes of half a character, are no mistakes. */
static bool jansson_reads(const char *s, size_t n)
{
    return utf8_valid(s, n) && !has(s, n, "eE\\") && memchr(s, 0, n) == NULL && n < 300;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST) return 0;
    const uint8_t how = data[0];
    str           text;
    str_init(&text, MOST * 64);
    for (size_t i = 1; i < size; i++) {
        if (data[i] >= 16 && data[i] < 32)
            str_puts(&text, pieces[data[i] - 16]);
        else
            str_putc(&text, (char)data[i]);
    }
    const char  *script = text.data;
    const size_t n      = text.len;
    uint64_t     seed   = 1 + how;
    for (size_t i = 0; i < size; i++) seed = seed * 31 + data[i];
    const cutting ways[] = {{.split = SIZE_MAX},
                            {.split = SIZE_MAX, .every = 1},
                            {.split = SIZE_MAX, .random = seed | 1, .ids = true},
                            {.split = SIZE_MAX, .random = (seed >> 7) | 1}};
    transcript    first;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        transcript t;
        transcript_play(&t, how & NO_TOOLS ? NULL : tools, how & THINKING, how & UNDECLARED_TEXT, script, n, &ways[i]);
        require(!t.wrong);
        if (i == 0) {
            first = t;
            continue;
        }
        require(t.line.len == first.line.len && memcmp(t.line.data, first.line.data, t.line.len) == 0);
        require(t.unfinished.len == first.unfinished.len);
        require(memcmp(&t.info, &first.info, sizeof t.info) == 0);
        transcript_free(&t);
    }
    const bool plain = !(how & THINKING) && !has(script, n, THINK THINK_CLOSE CUT);
    if (plain && first.begun == 0 && first.info.repairs == 0) require_kept(&first, script, n);
    if (first.info.calls > 0 && jansson_reads(script, n)) require_json(&first, first.info.calls);
    transcript_free(&first);
    str_free(&text);
    return 0;
}
