/* fetch/select.c - the files of a model in Hugging Face's form; see select.h. */
#include "fetch/select.h"

#include "fetch/name.h"

#include <string.h>
#include <strings.h>

enum { INDEX_BYTES = 64 << 20 };

static bool ends_with(const char *text, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

/* What a model may need beside its weights.  Only at the top: a folder holds
 * another form of the same model. */
static bool is_side_file(const char *path)
{
    static const char *const names[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "preprocessor_config.json",
                                        "video_preprocessor_config.json",
                                        "processor_config.json",
                                        "kv_config.json",
                                        "adapter_config.json",
                                        SELECT_INDEX};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(path, names[i]) == 0) return true;
    return false;
}

static bool is_weights(const char *path)
{
    return strchr(path, '/') == NULL && ends_with(path, strlen(path), ".safetensors");
}

bool select_has_safetensors(const listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_weights(l->files[i].path)) return true;
    return false;
}

void select_side_files(listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_side_file(l->files[i].path)) l->files[i].wanted = true;
}

/* The precision that a name spells before its end, as in model.fp16.safetensors
 * and model.fp16-00001-of-00002.safetensors; *len 0: none. */
static const char *precision(const char *path, size_t *len)
{
    static const char *const known[] = {"bf16", "fp16", "fp32", "fp8", "float16", "bfloat16", "float32", "int8"};
    size_t                   n       = strlen(path) - (sizeof ".safetensors" - 1);
    unsigned                 a, b;
    enum { PART = sizeof "-00001-of-00002" - 1 };
    if (n > PART && sscanf(path + n - PART, "-%5u-of-%5u", &a, &b) == 2) n -= PART;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        *len = strlen(known[i]);
        if (n > *len && path[n - *len - 1] == '.' && memcmp(path + n - *len, known[i], *len) == 0)
            return path + n - *len;
    }
    *len = 0;
    return path;
}

/* Without an index: all safetensors of one precision, that without a name before the others. */
static void select_one_precision(listing *l)
{
    const char *chosen = NULL;
    size_t      n      = 0;
    const bool  whole  = listing_find(l, "model.safetensors") != NULL;
    for (size_t i = 0; i < l->n; i++) {
        size_t len;
        if (!is_weights(l->files[i].path)) continue;
        const char *p = precision(l->files[i].path, &len);
        if (chosen == NULL || len == 0 || (n > 0 && strncmp(p, "bf16", 4) == 0)) {
            chosen = p;
            n      = len;
        }
    }
    for (size_t i = 0; i < l->n; i++) {
        size_t len;
        if (!is_weights(l->files[i].path)) continue;
        const char *p = precision(l->files[i].path, &len);
        /* Another program's copy of the same weights in one file. */
        const bool copy = whole && strncmp(l->files[i].path, "consolidated", 12) == 0;
        l->files[i].wanted |= !copy && len == n && strncmp(p, chosen, len * (n > 0)) == 0;
    }
}

static void put_name(str *list, const char *name)
{
    if (list == NULL) return;
    if (list->len > 0) str_puts(list, ", ");
    str_puts(list, name);
}

weir_status select_weights(listing *l, const char *index, const char *where, str *missing, weir_error *err)
{
    if (index == NULL) {
        select_one_precision(l);
        return WEIR_OK;
    }
    json_doc      doc;
    const json_t *map = NULL, *v;
    const char   *tensor;
    TRY(json_load(&doc, index, INDEX_BYTES, 8, err));
    const json_at at = {.file = index, .where = "", .obj = doc.root};
    weir_status   st = json_get_object(&at, "weight_map", true, &map, err);
    json_object_foreach((json_t *)map, tensor, v)
    {
        const char *shard = json_string_value(v);
        if (shard == NULL || !name_is_path(shard, LISTING_PATH_MAX)) {
            st = status_fail(err, WEIR_FORMAT, "%s: weight_map.%.100s: expected the name of a file, found %s", index,
                             tensor, json_kind(v));
            break;
        }
        listing_file *f = listing_find(l, shard);
        if (f != NULL)
            f->wanted = true;
        else if (missing == NULL && st == WEIR_OK)
            st = status_fail(err, WEIR_FORMAT, "%s: %s is named by %s and not there", where, shard, SELECT_INDEX);
        else if (missing != NULL && strstr(missing->data, shard) == NULL)
            put_name(missing, shard);
    }
    json_doc_free(&doc);
    /* The multi-token head may have a file that no index names. */
    listing_file *mtp = listing_find(l, "mtp.safetensors");
    if (mtp != NULL) mtp->wanted = true;
    return st;
}
