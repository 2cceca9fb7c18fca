/* checkpoint/companions.c - see companions.h. */
#include "checkpoint/companions.h"

#include "base/file.h"
#include "base/mem.h"

enum { MAX_FILE = 1 << 29 };

static const char *const names[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "kv_config.json",
    "LICENSE",
};

static weir_status copy_bytes(const char *from, const char *to, weir_error *err)
{
    file_writer w;
    char       *bytes;
    size_t      n;
    if (!file_exists(from)) return WEIR_OK;
    TRY(file_read(&bytes, &n, from, MAX_FILE, err));
    weir_status st = file_create(&w, to, err);
    if (st == WEIR_OK) {
        st = file_write(&w, bytes, n, err);
        if (st == WEIR_OK)
            st = file_commit(&w, err);
        else
            file_abandon(&w);
    }
    mem_free(bytes);
    return st;
}

weir_status companion_copy(const char *from, const char *to, const char *name, weir_error *err)
{
    char             *source = path_join(from, name), *target = path_join(to, name);
    const weir_status st = source != NULL && target != NULL ? copy_bytes(source, target, err)
                                                            : status_fail(err, WEIR_NO_MEMORY, "%s: out of memory", to);
    mem_free(source);
    mem_free(target);
    return st;
}

weir_status companions_copy(const char *from, const char *to, weir_error *err)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) TRY(companion_copy(from, to, names[i], err));
    return WEIR_OK;
}
