/* cli/cli.c - exit codes, messages and JSON output; see cli.h. */
#include "cli/cli.h"

#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cli_usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)fputs("weir: ", stderr);
    (void)vfprintf(stderr, fmt, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
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
