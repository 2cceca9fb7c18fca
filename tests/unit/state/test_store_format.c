/* tests/unit/state/test_store_format.c - one state file: its bytes, and every way to damage them. */
#include "base/file.h"
#include "base/mem.h"
#include "made_entries.h"
#include "state/store_file.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AT_SECTION = 136, MAX_FILE = 2048 };

static char  folder[] = "/tmp/weir-state-XXXXXX";
static char *path;

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) return 1;
    path = path_join(folder, "file");
    return path == NULL;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    mem_free(path);
    return rmdir(folder); /* fails when something was left behind */
}

/* The files of tools/make-store-goldens.py as entries. */
static store_entry *golden_block(void)
{
    return made_entry(&(made_shape){.kind = STORE_BLOCK, .n_tokens = 5, .bytes = {100}});
}

static store_entry *golden_snapshot(void)
{
    store_entry *block = golden_block();
    store_entry *e =
        made_entry(&(made_shape){STORE_SNAPSHOT, .position = 5, .n_tokens = 3, .parent = block->key, .bytes = {64, 1}});
    made_set_type(e, 1, 3);
    made_set_type(e, 0, 2);
    made_free(block);
    return e;
}

static store_entry *golden_sequence(void)
{
    store_entry *e = made_entry(&(made_shape){.kind = STORE_SEQUENCE, .n_tokens = 70, .bytes = {130, 64, 63, 65}});
    made_set_type(e, 3, 9);
    return e;
}

typedef struct image {
    uint8_t bytes[MAX_FILE];
    size_t  n;
} image;

static image load(const char *from)
{
    char  *text;
    image  m;
    size_t n;
    assert_int_equal(file_read(&text, &n, from, MAX_FILE, NULL), WEIR_OK);
    memcpy(m.bytes, text, n);
    m.n = n;
    mem_free(text);
    return m;
}

static void save(const image *m)
{
    (void)unlink(path); /* some file systems sync a file that is cut and written again */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(m->bytes, 1, m->n, f), m->n);
    assert_int_equal(fclose(f), 0);
}

static image written(const store_entry *e)
{
    weir_error err;
    if (store_file_write(path, made_namespace, e, NULL, &err) != WEIR_OK) fail_msg("%s", err.text);
    return load(path);
}

static uint32_t header_bytes(const image *m)
{
    uint32_t n;
    memcpy(&n, m->bytes + 12, sizeof n);
    return n;
}

/* Makes the header's checksum right again, as a writer that lies would. */
static void seal(image *m)
{
    const uint32_t n = header_bytes(m);
    assert_true(n > 32 && n <= m->n);
    assert_int_equal(store_sha256(m->bytes + n - 32, m->bytes, n - 32, NULL), WEIR_OK);
}

static void opens(const store_entry *e)
{
    store_file f;
    weir_error err;
    if (store_file_open(&f, path, made_namespace, &err) != WEIR_OK) fail_msg("%s", err.text);
    const store_entry *got = &f.header.e;
    assert_memory_equal(got->key, e->key, STORE_KEY_BYTES);
    assert_memory_equal(got->parent, e->parent, STORE_KEY_BYTES);
    assert_memory_equal(f.header.namespace, made_namespace, STORE_KEY_BYTES);
    assert_int_equal(got->kind, e->kind);
    assert_int_equal(got->position, e->position);
    assert_int_equal(got->n_tokens, e->n_tokens);
    assert_memory_equal(got->tokens, e->tokens, 4 * e->n_tokens);
    assert_int_equal(got->n_sections, e->n_sections);
    for (uint32_t i = 0; i < e->n_sections; i++) {
        uint8_t *to = malloc(e->sections[i].bytes);
        assert_non_null(to);
        assert_int_equal(got->sections[i].type, e->sections[i].type);
        assert_int_equal(got->sections[i].bytes, e->sections[i].bytes);
        assert_null(got->sections[i].data);
        if (store_file_section(&f, e->sections[i].type, to, e->sections[i].bytes, &err) != WEIR_OK)
            fail_msg("%s", err.text);
        assert_memory_equal(to, e->sections[i].data, e->sections[i].bytes);
        free(to);
    }
    store_file_close(&f);
}

/* The image must not open, for the reason given. */
static void refused(const image *m, weir_status st, const char *reason)
{
    store_file f;
    weir_error err;
    save(m);
    err.text[0]           = '\0';
    const weir_status got = store_file_open(&f, path, made_namespace, &err);
    if (got != st || strstr(err.text, reason) == NULL || strstr(err.text, path) == NULL)
        fail_msg("expected status %d and '%s', found %d and '%s'", (int)st, reason, (int)got, err.text);
}

static void files_are_what_the_description_says(void **state)
{
    (void)state;
    static const char *const names[]    = {"block", "snapshot", "sequence"};
    store_entry *const       entries[3] = {golden_block(), golden_snapshot(), golden_sequence()};
    for (size_t i = 0; i < 3; i++) {
        char golden[256];
        (void)snprintf(golden, sizeof golden, WEIR_SOURCE_DIR "/tests/fuzz/corpus/store/%s", names[i]);
        const image expected = load(golden), found = written(entries[i]);
        assert_int_equal(found.n, expected.n);
        assert_memory_equal(found.bytes, expected.bytes, expected.n);
        opens(entries[i]);
        made_free(entries[i]);
    }
}

/* hashlib.sha256(bytes(32) + struct.pack("<4I", 3, 1, 2, 3)), and with itself as parent. */
static void keys_are_hashes_of_parent_and_tokens(void **state)
{
    (void)state;
    static const uint8_t  expected[2][4] = {{0xFA, 0x11, 0x08, 0xA6}, {0xD6, 0xAD, 0x5A, 0xB5}};
    static const uint32_t tokens[]       = {1, 2, 3};
    uint8_t               key[STORE_KEY_BYTES], child[STORE_KEY_BYTES];
    assert_int_equal(store_key(key, made_no_parent, tokens, 3, NULL), WEIR_OK);
    assert_memory_equal(key, expected[0], 4);
    assert_int_equal(store_key(child, key, tokens, 3, NULL), WEIR_OK);
    assert_memory_equal(child, expected[1], 4);
}

typedef struct damage {
    uint32_t    at, bytes;
    uint64_t    value;
    const char *raw;    /* the reason with the old checksum */
    const char *sealed; /* with a checksum that fits; NULL: not tried */
} damage;

static void each_field_is_checked(void **state)
{
    (void)state;
    static const char   sum[]   = "header: its checksum does not match";
    static const damage table[] = {
        {0, 1, 'w', "magic", NULL},
        {7, 1, 'Q', "magic", NULL},
        {12, 4, 0, "header length: expected 216..356 bytes, found 0", NULL},
        {12, 4, 215, "header length: expected 216..356 bytes, found 215", NULL},
        {12, 4, 357, "header length: expected 216..356 bytes, found 357", NULL},
        {12, 4, UINT32_MAX, "header length: expected 216..356 bytes", NULL},
        {12, 4, 236, "header length: expected 232 bytes for its counts, found 236", NULL},
        {16, 1, 1, sum, NULL},
        {48, 4, 0, "kind: expected 1..3, found 0", "kind"},
        {48, 4, 4, "kind: expected 1..3, found 4", "kind"},
        {48, 4, 3, sum, NULL},
        {52, 4, 0, "tokens: expected 1..4194304, found 0", "tokens"},
        {52, 4, 4194305, "tokens: expected 1..4194304, found 4194305", "tokens"},
        {52, 4, 6, "header length: expected 236 bytes for its counts, found 232", "header length"},
        {56, 4, UINT32_MAX - 4, "position: expected at most 4294967290, found 4294967291", "position"},
        {56, 4, 1, sum, NULL},
        {60, 4, 0, "sections: expected 1..4, found 0", "sections"},
        {60, 4, 5, "sections: expected 1..4, found 5", "sections"},
        {60, 4, 2, "header length: expected 276 bytes for its counts, found 232", "header length"},
        {64, 1, 0, sum, NULL},
        {127, 1, 1, sum, NULL},
        {128, 8, 357, "file length: expected 357 bytes, found 356", "file length"},
        {128, 8, UINT64_MAX, "file length", "file length"},
        {AT_SECTION, 4, 2, sum, NULL},
        {AT_SECTION + 4, 8, 0, sum, "section 0: bytes: expected some, found 0"},
        {AT_SECTION + 4, 8, 99, sum, "sections: expected them to end at byte 356, found 355"},
        {AT_SECTION + 4, 8, 101, sum, "section 0: bytes: expected at most 100, found 101"},
        {AT_SECTION + 4, 8, UINT64_MAX, sum, "section 0: bytes: expected at most 100"},
        {AT_SECTION + 12, 1, 0, sum, NULL},
        {AT_SECTION + 44, 1, 0, sum, NULL}, /* a token */
        {AT_SECTION + 64, 1, 0, sum, NULL}, /* the checksum itself */
        {AT_SECTION + 95, 1, 0, sum, NULL},
    };
    store_entry *e     = golden_block();
    const image  sound = written(e);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const damage *d = &table[i];
        image         m = sound;
        memcpy(m.bytes + d->at, &d->value, d->bytes);
        assert_memory_not_equal(m.bytes, sound.bytes, sound.n); /* or the row changes nothing */
        refused(&m, WEIR_FORMAT, d->raw);
        if (d->sealed == NULL) continue;
        seal(&m);
        refused(&m, WEIR_FORMAT, d->sealed);
    }
    made_free(e);
}

static void other_versions_and_namespaces_are_named(void **state)
{
    (void)state;
    store_entry *e     = golden_block();
    const image  sound = written(e);
    image        m     = sound;
    m.bytes[8]         = 2;
    refused(&m, WEIR_UNSUPPORTED, "version: expected 1, found 2");
    m           = sound;
    m.bytes[47] = 0;
    seal(&m);
    refused(&m, WEIR_UNSUPPORTED, "namespace: expected state of this model");
    made_free(e);
}

static void section_types_do_not_repeat(void **state)
{
    (void)state;
    store_entry *e           = golden_snapshot();
    image        m           = written(e);
    m.bytes[AT_SECTION + 44] = 2;
    seal(&m);
    refused(&m, WEIR_FORMAT, "section 1: type: expected one section of type 2, found two");
    made_free(e);
}

static void every_length_but_its_own_is_refused(void **state)
{
    (void)state;
    store_entry *e     = golden_block();
    const image  sound = written(e);
    for (size_t n = 0; n < sound.n; n++) {
        image m = sound;
        m.n     = n;
        refused(&m, WEIR_FORMAT,
                n < 12    ? "magic"
                : n < 136 ? "size: expected at least"
                : n < 232 ? "header length"
                          : "file length");
    }
    image m        = sound;
    m.bytes[m.n++] = 0;
    refused(&m, WEIR_FORMAT, "file length: expected 356 bytes, found 357");
    made_free(e);
}

static void every_bit_of_the_header_matters(void **state)
{
    (void)state;
    store_entry   *e     = golden_block();
    const image    sound = written(e);
    const uint32_t n     = header_bytes(&sound);
    for (size_t bit = 0; bit < 8 * (size_t)n; bit++) {
        store_file f;
        image      m = sound;
        m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        save(&m);
        if (store_file_open(&f, path, made_namespace, NULL) == WEIR_OK) fail_msg("bit %zu went unseen", bit);
    }
    made_free(e);
}

static void every_bit_of_a_section_matters(void **state)
{
    (void)state;
    store_entry *e     = golden_snapshot(); /* the sections are the last 65 bytes */
    const image  sound = written(e);
    for (size_t bit = 8 * (sound.n - 65); bit < 8 * sound.n; bit++) {
        store_file f;
        weir_error err;
        uint8_t    to[64];
        image      m = sound;
        m.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        save(&m);
        const bool last = bit / 8 == sound.n - 1;
        assert_int_equal(store_file_open(&f, path, made_namespace, NULL), WEIR_OK);
        assert_int_equal(store_file_section(&f, 2, to, 64, &err), last ? WEIR_OK : WEIR_FORMAT);
        assert_int_equal(store_file_section(&f, 3, to, 1, last ? &err : NULL), last ? WEIR_FORMAT : WEIR_OK);
        assert_non_null(strstr(err.text, last ? "section of type 3: its checksum does not match"
                                              : "section of type 2: its checksum does not match"));
        store_file_close(&f);
    }
    made_free(e);
}

static void sections_are_asked_for_by_type_and_size(void **state)
{
    (void)state;
    store_entry *e = golden_block();
    store_file   f;
    weir_error   err;
    uint8_t      to[101];
    (void)written(e);
    assert_int_equal(store_file_open(&f, path, made_namespace, NULL), WEIR_OK);
    assert_int_equal(store_file_section(&f, 2, to, 100, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "expected a section of type 2, found none"));
    assert_int_equal(store_file_section(&f, 1, to, 101, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "section of type 1: expected 101 bytes, found 100"));
    /* A file that becomes shorter while it is read. */
    assert_int_equal(truncate(path, 300), 0);
    assert_int_equal(store_file_section(&f, 1, to, 100, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "file became shorter"));
    store_file_close(&f);
    store_file_close(&f);
    made_free(e);
}

static void entries_without_room_in_the_format_are_refused(void **state)
{
    (void)state;
    static const uint8_t     byte       = 7;
    store_entry             *sound      = golden_block();
    store_entry              bad[8]     = {*sound, *sound, *sound, *sound, *sound, *sound, *sound, *sound};
    static const char *const reasons[8] = {"kind",     "tokens",   "tokens", "position",
                                           "sections", "sections", "two",    "2^62"};
    bad[0].kind                         = 0;
    bad[1].n_tokens                     = 0;
    bad[2].n_tokens                     = STORE_MAX_TOKENS + 1;
    bad[3].position                     = UINT32_MAX - 4;
    bad[4].n_sections                   = 0;
    bad[5].n_sections                   = 5;
    bad[6].n_sections                   = 2;
    bad[6].sections[1]                  = (store_section){1, 1, &byte};
    bad[7].sections[0].bytes            = UINT64_MAX;
    (void)unlink(path);
    for (size_t i = 0; i < 8; i++) {
        weir_error err;
        assert_int_equal(store_file_write(path, made_namespace, &bad[i], NULL, &err), WEIR_INVALID);
        if (strstr(err.text, reasons[i]) == NULL) fail_msg("expected '%s', found '%s'", reasons[i], err.text);
    }
    assert_false(file_exists(path));
    made_free(sound);
}

static void what_is_no_file(void **state)
{
    (void)state;
    store_file f;
    weir_error err;
    (void)unlink(path);
    assert_int_equal(store_file_open(&f, path, made_namespace, &err), WEIR_IO);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(store_file_open(&f, folder, made_namespace, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "expected a regular file"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(store_file_open(&f, path, made_namespace, &err), WEIR_FORMAT);
    assert_int_equal(unlink(path), 0);
    store_entry *e = golden_block();
    assert_int_equal(store_file_write("/nowhere/at/all", made_namespace, e, NULL, &err), WEIR_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    made_free(e);
}

static void without_memory(void **state)
{
    (void)state;
    store_entry *e = golden_sequence();
    store_file   f;
    weir_error   err;
    weir_status  st = WEIR_NO_MEMORY;
    (void)unlink(path);
    for (uint64_t n = 1; st != WEIR_OK; n++) {
        mem_fail_at(n);
        st = store_file_write(path, made_namespace, e, NULL, &err);
        mem_fail_at(0);
        assert_true(st == WEIR_OK || st == WEIR_NO_MEMORY);
        assert_int_equal(file_exists(path), st == WEIR_OK);
    }
    st = WEIR_NO_MEMORY;
    for (uint64_t n = 1; st != WEIR_OK; n++) {
        mem_fail_at(n);
        st = store_file_open(&f, path, made_namespace, &err);
        mem_fail_at(0);
        assert_true(st == WEIR_OK || st == WEIR_NO_MEMORY);
    }
    store_file_close(&f);
    made_free(e);
}

static void long_headers(void **state)
{
    (void)state;
    /* Around the size of the first read, and far beyond it. */
    static const uint32_t counts[] = {970, 971, 972, 973, 100000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        store_entry *e = made_entry(&(made_shape){.kind = STORE_SEQUENCE, .n_tokens = counts[i], .bytes = {1, 2, 3}});
        weir_error   err;
        if (store_file_write(path, made_namespace, e, NULL, &err) != WEIR_OK) fail_msg("%s", err.text);
        opens(e);
        made_free(e);
    }
}

/* ---- in pieces ---- */

enum { SECTION = 333 };

/* Two ways to cut the section. */
static const struct {
    uint64_t    n, bytes, n_first, first_bytes;
    const char *one_less; /* bytes without the last */
} cuts[] = {{9, 37, 0, 0, "expected 296 bytes, found 333"}, {6, 61, 3, 50, "expected 272 bytes, found 333"}};

typedef struct pieces {
    size_t  cut, n_moved;
    uint8_t bytes[SECTION], piece[SECTION];
} pieces;

static uint8_t *place_of(pieces *p, uint64_t i, uint64_t *n)
{
    const uint64_t first = cuts[p->cut].n_first;
    *n                   = i < first ? cuts[p->cut].first_bytes : cuts[p->cut].bytes;
    return p->bytes + (i < first ? i * *n : first * cuts[p->cut].first_bytes + (i - first) * *n);
}

static void give(void *user, uint64_t i)
{
    pieces  *p = user;
    uint64_t n;
    uint8_t *at = place_of(p, i, &n);
    memcpy(p->piece, at, n);
    p->n_moved++;
}

static void take(void *user, uint64_t i)
{
    pieces  *p = user;
    uint64_t n;
    uint8_t *at = place_of(p, i, &n);
    memcpy(at, p->piece, n);
    p->n_moved++;
}

static store_stream stream_of(pieces *p, void (*move)(void *user, uint64_t index))
{
    return (store_stream){.type        = 2,
                          .n           = cuts[p->cut].n,
                          .piece_bytes = cuts[p->cut].bytes,
                          .n_first     = cuts[p->cut].n_first,
                          .first_bytes = cuts[p->cut].first_bytes,
                          .piece       = p->piece,
                          .move        = move,
                          .user        = p};
}

/* The file is that of the section as a whole, and what is read is what was written. */
static void check_pieces(size_t cut)
{
    store_entry   *e = made_entry(&(made_shape){.kind = STORE_SEQUENCE, .n_tokens = 5, .bytes = {11, SECTION, 500}});
    const image    whole = written(e);
    store_entry    part  = *e;
    pieces         p = {.cut = cut}, q = {.cut = cut};
    store_stream   out = stream_of(&p, give), in = stream_of(&q, take);
    const uint64_t n = cuts[cut].n;
    store_file     f;
    weir_error     err;
    assert_int_equal(store_stream_bytes(&out), SECTION);
    memcpy(p.bytes, e->sections[1].data, sizeof p.bytes);
    part.sections[1].data = NULL;
    assert_int_equal(store_file_write(path, made_namespace, &part, &out, &err), WEIR_OK);
    image m = load(path);
    assert_int_equal(m.n, whole.n);
    assert_memory_equal(m.bytes, whole.bytes, m.n);
    assert_int_equal(p.n_moved, 2 * n);

    assert_int_equal(store_file_open(&f, path, made_namespace, &err), WEIR_OK);
    assert_int_equal(store_file_stream(&f, &in, &err), WEIR_OK);
    assert_memory_equal(q.bytes, p.bytes, sizeof p.bytes);
    assert_int_equal(q.n_moved, n);
    in.n = n - 1;
    assert_int_equal(store_file_stream(&f, &in, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, cuts[cut].one_less));
    in.n = n;
    m.bytes[f.header.offsets[1] + sizeof p.bytes - 1] ^= 1;
    store_file_close(&f);
    save(&m);
    assert_int_equal(store_file_open(&f, path, made_namespace, &err), WEIR_OK);
    assert_int_equal(store_file_stream(&f, &in, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "checksum"));
    store_file_close(&f);
    made_free(e);
}

static void a_section_goes_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) check_pieces(i);
    /* More bytes than can be counted are those of no section. */
    assert_int_equal(store_stream_bytes(&(store_stream){.n = 3, .piece_bytes = UINT64_MAX / 2}), UINT64_MAX);
    assert_int_equal(store_stream_bytes(&(store_stream){.n = 3, .n_first = 3, .first_bytes = UINT64_MAX / 2}),
                     UINT64_MAX);
    assert_int_equal(store_stream_bytes(&(store_stream){.n = 2, .piece_bytes = 5, .n_first = 7, .first_bytes = 3}), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_what_the_description_says),
        cmocka_unit_test(keys_are_hashes_of_parent_and_tokens),
        cmocka_unit_test(each_field_is_checked),
        cmocka_unit_test(other_versions_and_namespaces_are_named),
        cmocka_unit_test(section_types_do_not_repeat),
        cmocka_unit_test(every_length_but_its_own_is_refused),
        cmocka_unit_test(every_bit_of_the_header_matters),
        cmocka_unit_test(every_bit_of_a_section_matters),
        cmocka_unit_test(sections_are_asked_for_by_type_and_size),
        cmocka_unit_test(entries_without_room_in_the_format_are_refused),
        cmocka_unit_test(what_is_no_file),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(long_headers),
        cmocka_unit_test(a_section_goes_in_pieces),
    };
    return cmocka_run_group_tests_name("store_format", tests, setup, teardown);
}
