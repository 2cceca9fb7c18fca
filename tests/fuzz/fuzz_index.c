/* tests/fuzz/fuzz_index.c - any bytes as model.safetensors.index.json beside two sound shards.
 *
 * What is accepted may name these two files and no other. */
#include "base/mem.h"
#include "checkpoint/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/weir-fuzz-index-XXXXXX";

static void put(const char *name, const void *bytes, size_t n)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static void put_shard(const char *name, const char *tensor)
{
    char     file[256];
    uint64_t len = (uint64_t)snprintf(file + 8, sizeof file - 8,
                                      "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", tensor);
    memcpy(file, &len, sizeof len);
    file[8 + len] = 7;
    put(name, file, (size_t)len + 9);
}

static void clean_up(void)
{
    static const char *const names[] = {"a.safetensors", "b.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)remove(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        if (mkdtemp(folder) == NULL) abort();
        (void)atexit(clean_up);
        put_shard("a.safetensors", "x");
        put_shard("b.safetensors", "y");
        ready = true;
    }
    put("model.safetensors.index.json", data, size);
    shards     s;
    weir_error err;
    err.text[0] = '\0';
    if (shards_open(&s, folder, &err) != WEIR_OK) {
        if (err.text[0] == '\0') abort(); /* every failure says why */
    } else {
        if (s.n == 0 || s.n > 2) abort();
        for (size_t i = 0; i < s.n; i++) {
            const char *name = strrchr(s.files[i].path, '/');
            if (name == NULL || (strcmp(name, "/a.safetensors") != 0 && strcmp(name, "/b.safetensors") != 0)) abort();
        }
    }
    shards_close(&s);
    return 0;
}
