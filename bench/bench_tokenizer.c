/* bench/bench_tokenizer.c - speed of text/tokenizer.h.
 *
 *   bench_tokenizer [tokenizer.json [text ...]]      default: the demo model and its texts
 *
 * One line a measurement: what, bytes, min and median milliseconds, MB/s at the
 * minimum.  "open 250k" is a made-up file of the size and layout of the family's
 * (248,000 tokens, pretty-printed, about 20 MB); "jansson 250k" parses the same
 * file into the JSON library's tree, which is what text/json_scan.h avoids. */
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "support/rng.h"
#include "text/detok.h"
#include "text/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 15, MAX_TEXT = 1 << 26, VOCAB = 248044, TOKEN_MAX = 15 };

/* Prints the error and leaves: a benchmark has nobody to report to. */
static void must(weir_status st, const weir_error *err)
{
    if (st == WEIR_OK) return;
    (void)fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

typedef void run_fn(void *arg);

static void measure(const char *what, size_t bytes, run_fn *run, void *arg)
{
    uint64_t ns[REPEATS];
    run(arg); /* warms caches and clocks */
    for (int r = 0; r < REPEATS; r++) {
        const uint64_t start = clock_ns();
        run(arg);
        ns[r] = clock_ns() - start;
    }
    qsort(ns, REPEATS, sizeof ns[0], by_value);
    (void)printf("%s\t%zu\t%.2f\t%.2f\t%.1f\n", what, bytes, (double)ns[0] * 1e-6, (double)ns[REPEATS / 2] * 1e-6,
                 (double)bytes * 1e3 / (double)ns[0]);
    (void)fflush(stdout);
}

typedef struct encode_run {
    const tokenizer *t;
    const char      *text;
    size_t           len;
    token_ids        ids;
} encode_run;

static void run_encode(void *arg)
{
    encode_run *e = arg;
    weir_error  err;
    e->ids.n = 0;
    must(tokenizer_encode(e->t, e->text, e->len, NULL, true, &e->ids, &err), &err);
}

static void run_decode(void *arg)
{
    encode_run *e = arg;
    weir_error  err;
    str         out;
    str_init(&out, MAX_TEXT);
    must(detok_all(e->t, e->ids.ids, e->ids.n, false, &out, &err), &err);
    str_free(&out);
}

static void bench_text(const tokenizer *t, const char *name, const char *text, size_t len)
{
    char       label[256];
    encode_run e = {.t = t, .text = text, .len = len};
    (void)snprintf(label, sizeof label, "encode %s", name);
    measure(label, len, run_encode, &e);
    (void)snprintf(label, sizeof label, "decode %s (%zu ids)", name, e.ids.n);
    measure(label, len, run_decode, &e);
    token_ids_free(&e.ids);
}

static void bench_made_up_texts(const tokenizer *t)
{
    static const struct {
        const char *name, *unit;
    } texts[] = {{"one letter", "a"},
                 {"spaces", " "},
                 {"devanagari", "\u0928\u092E\u0938\u094D\u0924\u0947 \u0926\u0941\u0928\u093F\u092F\u093E "},
                 {"chinese", "\u4ECA\u5929\u5929\u6C14\u5F88\u597D\uFF0C\u6211\u4EEC\u53BB\u516C\u56ED\u3002"},
                 {"decomposed", "sen\u0303or cafe\u0301 "},
                 {"marks", "\u0301\u0316"},
                 {"json", "{\"key\": [1, 2.5, \"value\"], \"other_key\": null},\n"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        enum { LENGTH = 100000 };
        str s;
        str_init(&s, LENGTH + 1000);
        while (s.len < LENGTH) str_puts(&s, texts[i].unit);
        bench_text(t, texts[i].name, s.data, s.len);
        str_free(&s);
    }
}

/* A token of the made-up file. */
typedef struct made_token {
    uint8_t bytes[TOKEN_MAX + 1];
    uint8_t len;
} made_token;

/* Writes bytes in the alphabet of the file, as a JSON string. */
static void put_token(str *s, const made_token *t)
{
    str_putc(s, '"');
    for (unsigned i = 0; i < t->len; i++) {
        const unsigned b     = t->bytes[i];
        const bool     plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        const unsigned cp    = plain ? b : 0x100 + (b < 33 ? b : b <= 160 ? b - 127 + 33 : 67);
        if (b == '"' || b == '\\') str_putc(s, '\\');
        if (cp < 0x80)
            str_putc(s, (char)cp);
        else
            str_printf(s, "%c%c", (int)(0xC0 | cp >> 6), (int)(0x80 | (cp & 0x3F)));
    }
    str_putc(s, '"');
}

/* Tokens are made as training makes them: two earlier ones of one script (here
 * ASCII or not) joined.  Which pair is new is asked of a table of what has been
 * made. */
static bool make_token(made_token *all, uint32_t n, uint32_t *table, uint32_t mask, uint32_t pair[2], uint64_t *seed)
{
    pair[0]      = rng_below(seed, rng_below(seed, 4) == 0 ? n : n < 4000 ? n : 4000);
    pair[1]      = rng_below(seed, n < 4000 ? n : 4000);
    made_token t = all[pair[0]];
    if ((t.bytes[0] ^ all[pair[1]].bytes[0]) >= 0x80) return false;
    if (t.len + all[pair[1]].len > TOKEN_MAX) return false;
    memcpy(t.bytes + t.len, all[pair[1]].bytes, all[pair[1]].len);
    t.len      = (uint8_t)(t.len + all[pair[1]].len);
    uint64_t h = 1469598103934665603u;
    for (unsigned i = 0; i < t.len; i++) h = (h ^ t.bytes[i]) * 1099511628211u;
    uint32_t i = (uint32_t)(h >> 20) & mask;
    for (; table[i] != 0; i = (i + 1) & mask)
        if (all[table[i] - 1].len == t.len && memcmp(all[table[i] - 1].bytes, t.bytes, t.len) == 0) return false;
    table[i] = n + 1;
    all[n]   = t;
    return true;
}

static void make_file(str *s)
{
    enum { SLOTS = 1 << 20 };
    made_token *all   = calloc(VOCAB, sizeof *all);
    uint32_t   *table = calloc(SLOTS, sizeof *table), (*pairs)[2] = calloc(VOCAB, sizeof *pairs);
    uint64_t    seed = 1;
    if (all == NULL || table == NULL || pairs == NULL) exit(1);
    for (unsigned b = 0; b < 256; b++) all[b] = (made_token){.bytes = {(uint8_t)b}, .len = 1};
    for (uint32_t n = 256; n < VOCAB;)
        if (make_token(all, n, table, SLOTS - 1, pairs[n], &seed)) n++;
    str_puts(s,
             "{\n  \"version\": \"1.0\",\n  \"added_tokens\": [],\n  \"normalizer\": {\"type\": \"NFC\"},\n"
             "  \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
             "{\"Regex\": \"\\\\p{L}+|\\\\P{L}\"}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": "
             "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, \"use_regex\": false}]},\n"
             "  \"decoder\": {\"type\": \"ByteLevel\"},\n  \"model\": {\n    \"type\": \"BPE\",\n    \"vocab\": {\n");
    for (uint32_t n = 0; n < VOCAB; n++) {
        str_puts(s, n == 0 ? "      " : ",\n      ");
        put_token(s, &all[n]);
        str_printf(s, ": %" PRIu32, n);
    }
    str_puts(s, "\n    },\n    \"merges\": [\n");
    for (uint32_t n = 256; n < VOCAB; n++) {
        str_puts(s, n == 256 ? "      [\n        " : ",\n      [\n        ");
        put_token(s, &all[pairs[n][0]]);
        str_puts(s, ",\n        ");
        put_token(s, &all[pairs[n][1]]);
        str_puts(s, "\n      ]");
    }
    str_puts(s, "\n    ]\n  }\n}\n");
    free(all);
    free(table);
    free(pairs);
}

static void run_open(void *path)
{
    tokenizer *t;
    weir_error err;
    must(tokenizer_open(&t, path, &err), &err);
    tokenizer_free(t);
}

static void run_jansson(void *path)
{
    json_doc   doc;
    weir_error err;
    must(json_load(&doc, path, MAX_TEXT, JSON_MAX_DEPTH, &err), &err);
    json_doc_free(&doc);
}

static void bench_open(void)
{
    str  s;
    char path[] = "/tmp/bench-tokenizer-XXXXXX";
    str_init(&s, MAX_TEXT);
    make_file(&s);
    const int fd = mkstemp(path);
    FILE     *f  = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f == NULL || fwrite(s.data, 1, s.len, f) != s.len || fclose(f) != 0) exit(1);
    measure("open 250k", s.len, run_open, path);
    measure("jansson 250k", s.len, run_jansson, path);
    (void)remove(path);
    str_free(&s);
}

int main(int argc, char **argv)
{
    static const char *const texts[] = {WEIR_SOURCE_DIR "/tests/data/demo/val-tales.txt",
                                        WEIR_SOURCE_DIR "/tests/data/demo/val-stories.txt"};
    const char              *path    = argc > 1 ? argv[1] : WEIR_SOURCE_DIR "/models/demo/tokenizer.json";
    const size_t             n_texts = argc > 1 ? (size_t)argc - 2 : sizeof texts / sizeof texts[0];
    tokenizer               *t;
    weir_error               err;
    must(tokenizer_open(&t, path, &err), &err);
    (void)printf("what\tbytes\tmin ms\tmedian ms\tMB/s\n");
    for (size_t i = 0; i < n_texts; i++) {
        const char *name = argc > 1 ? argv[i + 2] : texts[i];
        char       *text;
        size_t      len;
        must(file_read(&text, &len, name, MAX_TEXT, &err), &err);
        bench_text(t, strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name, text, len);
        mem_free(text);
    }
    bench_made_up_texts(t);
    tokenizer_free(t);
    bench_open();
    return 0;
}
