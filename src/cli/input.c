/* cli/input.c - what a command reads; see input.h. */
#include "cli/input.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "weir/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { STDIN_MAX = 1 << 30, TEXT_MAX = 1 << 30, IDS_MAX = 256 << 20 };

weir_status input_stdin(char **out, size_t *len, weir_error *err)
{
    str s;
    str_init(&s, STDIN_MAX);
    weir_status st = WEIR_OK;
    for (;;) {
        char          buf[65536];
        const ssize_t n = read(STDIN_FILENO, buf, sizeof buf);
        if (n == 0) break;
        if (n < 0) {
            st = errno == EINTR ? status_fail(err, WEIR_CANCELLED, "stdin: interrupted")
                                : status_fail(err, WEIR_IO, "stdin: %s", strerror(errno));
            break;
        }
        str_put(&s, buf, (size_t)n);
    }
    if (st == WEIR_OK) st = str_status(&s, "stdin", err);
    if (st == WEIR_OK) {
        *len = s.len;
        *out = str_take(&s);
        if (*out == NULL) st = status_fail(err, WEIR_NO_MEMORY, "stdin: out of memory");
    }
    str_free(&s);
    return st;
}

/* One element of the array, checked. */
static weir_status read_id(const json_t *v, uint32_t vocab, const char *path, size_t i, uint32_t *out, weir_error *err)
{
    if (!json_is_integer(v))
        return status_fail(err, WEIR_FORMAT, "%s: [%zu]: expected a token id, found %s", path, i, json_kind(v));
    const json_int_t id = json_integer_value(v);
    if (id < 0 || id >= (json_int_t)vocab)
        return status_fail(err, WEIR_FORMAT,
                           "%s: [%zu]: expected a token id below %" PRIu32 ", found %" JSON_INTEGER_FORMAT, path, i,
                           vocab, id);
    *out = (uint32_t)id;
    return WEIR_OK;
}

weir_status input_ids(const weir_model *m, const char *path, uint32_t **ids, size_t *n, weir_error *err)
{
    weir_model_info info;
    weir_model_get_info(m, &info);
    json_doc doc;
    TRY(json_load(&doc, path, IDS_MAX, 2, err));
    weir_status st = WEIR_OK;
    *ids           = NULL;
    *n             = json_array_size(doc.root);
    if (!json_is_array(doc.root) || *n == 0) {
        st = status_fail(err, WEIR_FORMAT, "%s: expected a JSON array of at least one token id, found %s", path,
                         json_is_array(doc.root) ? "an empty array" : json_kind(doc.root));
    } else if ((*ids = mem_alloc(*n, sizeof **ids)) == NULL) {
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; st == WEIR_OK && i < *n; i++)
        st = read_id(json_array_get(doc.root, i), info.vocab_size, path, i, &(*ids)[i], err);
    if (st != WEIR_OK) {
        mem_free(*ids);
        *ids = NULL;
    }
    json_doc_free(&doc);
    return st;
}

weir_status input_text(const weir_model *m, const char *path, uint32_t **ids, size_t *n, weir_error *err)
{
    char    *text;
    size_t   len;
    weir_ids list = {0};
    TRY(file_read(&text, &len, path, TEXT_MAX, err));
    weir_status st = weir_tokenize(m, text, len, true, &list, err);
    if (st == WEIR_INVALID) st = status_prefix(err, WEIR_FORMAT, "%s", path);
    mem_free(text);
    if (st == WEIR_OK && (*ids = mem_alloc(list.n + 1, sizeof **ids)) == NULL)
        st = status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; st == WEIR_OK && i < list.n; i++) (*ids)[i] = list.data[i];
    *n = list.n;
    weir_ids_free(&list);
    return st;
}
