/* fetch/name.c - names of models: ORG/NAME[:FILE][@REVISION].
 *
 * What passes here becomes a part of paths and of URLs, so nothing does that
 * could lead out of the cache's folder or of the hub's address. */
#include "fetch/name.h"

#include "base/status.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
enum { PART_MAX = 96, COMPONENT_MAX = 255 };

/* One of the two parts of ORG/NAME.  The hub has no "--" and ".." in names, and
 * the folder's name could not be taken apart again with them. */
static bool is_part(const char *text, size_t n)
{
    if (n == 0 || n > PART_MAX || text[0] == '.' || strspn(text, LETTERS) < n) return false;
    for (size_t i = 0; i + 1 < n; i++)
        if ((text[i] == '-' || text[i] == '.') && text[i + 1] == text[i]) return false;
    return true;
}

static bool is_repository(const char *text, size_t n)
{
    const char *slash = memchr(text, '/', n);
    return slash != NULL && is_part(text, (size_t)(slash - text)) && is_part(slash + 1, n - (size_t)(slash + 1 - text));
}

bool name_is_path(const char *path, size_t max)
{
    const size_t n = strnlen(path, max + 1);
    if (n == 0 || n > max) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)path[i] < 0x20 || path[i] == 0x7F || path[i] == '\\') return false;
    for (const char *at = path;;) {
        const size_t len = strcspn(at, "/");
        if (len == 0 || len > COMPONENT_MAX || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        if (at[len] == '\0') return true;
        at += len + 1;
    }
}

bool name_is_revision(const char *text)
{
    if (strspn(text, LETTERS "/") != strlen(text) || !name_is_path(text, FETCH_REVISION_BYTES - 1)) return false;
    /* As git has it: no component begins with a dot, no "..". */
    return text[0] != '.' && strstr(text, "/.") == NULL && strstr(text, "..") == NULL;
}

bool name_is_hash(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static const char *without_scheme(const char *text)
{
    return strncmp(text, "hf:", 3) == 0 ? text + 3 : text;
}

bool fetch_is_name(const char *text)
{
    const char *at = without_scheme(text);
    return is_repository(at, strcspn(at, ":@"));
}

/* Copies what stands behind ':' or '@' up to the next of them. */
static weir_status take(char *out, size_t size, const char *from, size_t n, const char *text, weir_error *err)
{
    if (n == 0 || n >= size)
        return status_fail(err, WEIR_INVALID, "%s: expected 1 to %zu characters behind ':' or '@'", text, size - 1);
    memcpy(out, from, n);
    out[n] = '\0';
    return WEIR_OK;
}

weir_status fetch_parse_name(fetch_name *out, const char *text, weir_error *err)
{
    const char *at = without_scheme(text);
    size_t      n  = strcspn(at, ":@");
    *out           = (fetch_name){.revision = "main"};
    if (!is_repository(at, n))
        return status_fail(err, WEIR_INVALID, "%.300s: expected ORG/NAME, :FILE and @REVISION behind it or not", text);
    memcpy(out->repo, at, n);
    for (at += n; *at != '\0'; at += n) {
        const char what = *at++;
        n               = strcspn(at, ":@");
        if (what == ':' ? out->file[0] != '\0' : out->revision_given)
            return status_fail(err, WEIR_INVALID, "%.300s: expected one '%c'", text, what);
        if (what == ':') {
            TRY(take(out->file, sizeof out->file, at, n, text, err));
        } else {
            TRY(take(out->revision, sizeof out->revision, at, n, text, err));
            out->revision_given = true;
        }
    }
    if (!name_is_revision(out->revision))
        return status_fail(err, WEIR_INVALID, "%.300s: expected a branch, a tag or a commit behind '@'", text);
    if (out->file[0] != '\0' && !name_is_path(out->file, sizeof out->file - 1))
        return status_fail(err, WEIR_INVALID, "%.300s: expected a file or a quantisation behind ':'", text);
    return WEIR_OK;
}
