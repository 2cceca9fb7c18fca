/* cli/cli.c - exit codes, messages and JSON output; see cli.h. */
#include "cli/cli.h"

#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cli_usage(const char *fmt, ...)
{
    char    text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)fputs("weir: ", stderr);
    (void)cli_put_clean(stderr, text, strlen(text));
    (void)fputc('\n', stderr);
    return CLI_USAGE;
}

int cli_fail(const weir_error *err)
{
    (void)fprintf(stderr, "weir: %s\n", err->text);
    switch (err->status) {
    case WEIR_INVALID: return CLI_USAGE;
    case WEIR_NO_MEMORY: return CLI_MEMORY;
    case WEIR_IO:
    case WEIR_FORMAT:
    case WEIR_UNSUPPORTED: return CLI_INPUT;
    case WEIR_OK:
    case WEIR_NUMERICS:
    case WEIR_CANCELLED: break;
    }
    return CLI_FAILED;
}

int cli_fail_output(const weir_error *err)
{
    (void)fprintf(stderr, "weir: %s\n", err->text);
    return CLI_FAILED;
}

int cli_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_OK;
    (void)fprintf(stderr, "weir: stdout: cannot write: %s\n", strerror(errno));
    return CLI_FAILED;
}

int cli_print_json(json_t *object)
{
    const bool printed = object != NULL && json_dumpf(object, stdout, JSON_REAL_PRECISION(17)) == 0;
    json_decref(object);
    if (!printed) {
        (void)fprintf(stderr, "weir: cannot write the JSON result\n");
        return CLI_FAILED;
    }
    (void)fputc('\n', stdout);
    return cli_flush();
}

/* The code of a control character, or of a byte that is none; -1: as it is. */
static int control_code(const char *s, size_t len)
{
    const unsigned char first = (unsigned char)s[0];
    if (len == 0 || first == 0x7F || (first < 0x20 && first != '\n' && first != '\t')) return first;
    return first == 0xC2 && (unsigned char)s[1] < 0xA0 ? (unsigned char)s[1] : -1;
}

size_t cli_put_clean(FILE *f, const char *bytes, size_t n)
{
    size_t written = 0;
    for (size_t i = 0; i < n;) {
        const size_t len  = utf8_sequence(bytes + i, n - i);
        const int    code = control_code(bytes + i, len);
        if (code < 0)
            written += fwrite(bytes + i, 1, len, f);
        else if (fprintf(f, "\\x%02x", (unsigned)code) > 0)
            written += 4;
        i += len > 0 ? len : 1;
    }
    return written;
}

json_t *cli_json_text(const char *bytes, size_t n)
{
    if (utf8_valid(bytes, n)) return json_stringn(bytes, n);
    str s;
    str_init(&s, 3 * n);
    for (size_t i = 0; i < n;) {
        const size_t len = utf8_sequence(bytes + i, n - i);
        if (len > 0)
            str_put(&s, bytes + i, len);
        else
            str_puts(&s, "\xEF\xBF\xBD");
        i += len > 0 ? len : 1;
    }
    json_t *v = s.failed ? NULL : json_stringn(s.data, s.len);
    str_free(&s);
    return v;
}
