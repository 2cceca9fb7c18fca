/* tests/unit/checkpoint/test_shards.c - which files a checkpoint has: index, folder, single file, links. */
#include "support/cmocka.h"

#include "checkpoint/shards.h"
#include "made_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"
#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"

static int setup(void **state)
{
    *state = made_dir();
    return 0;
}

static int teardown(void **state)
{
    made_remove(*state);
    return 0;
}

static void path_of(char *out, size_t size, const char *dir, const char *name)
{
    (void)snprintf(out, size, "%.3000s/%.1000s", dir, name);
}

static void open_good(shards *s, const char *path)
{
    weir_error err;
    if (shards_open(s, path, &err) != WEIR_OK) fail_msg("%s", err.text);
}

static void open_bad(const char *path, weir_status expected, const char *what, const char *a, const char *b)
{
    shards     s;
    weir_error err;
    check_failure(shards_open(&s, path, &err), expected, &err, what, (const char *[]){a, b, NULL});
    assert_null(s.dir);
    assert_null(s.files);
}

static void two_shards(const char *dir)
{
    made_safetensors(dir, "model-00001-of-00002.safetensors", ONE("a"), "12", 2);
    made_safetensors(dir, "model-00002-of-00002.safetensors", ONE("b"), "34", 2);
}

static void a_folder_is_read_in_order_of_names(void **state)
{
    const char *dir = *state;
    shards      s;
    two_shards(dir);
    made_safetensors(dir, "mtp.safetensors", ONE("other"), "56", 2);        /* only on request */
    made_safetensors(dir, "model.safetensors.part", ONE("other"), "56", 2); /* a download */
    open_good(&s, dir);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.dir, dir);
    assert_string_equal(s.files[0].tensors[0].name, "a");
    assert_string_equal(s.files[1].tensors[0].name, "b");
    assert_memory_equal(s.files[1].data, "34", 2);
    shards_close(&s);
}

static void one_file_is_a_checkpoint_too(void **state)
{
    const char *dir = *state;
    char        path[4096];
    shards      s;
    two_shards(dir);
    path_of(path, sizeof path, dir, "model-00002-of-00002.safetensors");
    open_good(&s, path);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.dir, dir);
    assert_string_equal(s.files[0].tensors[0].name, "b");
    shards_close(&s);
}

/* What the index does not list stays closed, whatever it is called. */
static void an_index_chooses_the_files(void **state)
{
    const char *dir = *state;
    shards      s;
    two_shards(dir);
    made_safetensors(dir, "weights.safetensors", ONE("c"), "56", 2);
    made_text(dir, INDEX,
              "{\"metadata\":{\"total_size\":4},\"weight_map\":{\"c\":\"weights.safetensors\","
              "\"a\":\"model-00001-of-00002.safetensors\"}}");
    open_good(&s, dir);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.files[0].tensors[0].name, "a");
    assert_string_equal(s.files[1].tensors[0].name, "c");
    shards_close(&s);
}

static void every_bad_index_is_named(void **state)
{
    const char *dir = *state;
    two_shards(dir);
    static const struct {
        const char *text, *field;
        weir_status status;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"sub/model.safetensors\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"sub\\\\model.safetensors\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\".hidden.safetensors\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"model..safetensors\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"x\\u0000y\"}}", "not valid JSON", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":7}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"model-00003-of-00003.safetensors\"}}", "weight_map: ", WEIR_IO},
        {"{\"weight_map\":{\"b\":\"model-00001-of-00002.safetensors\"}}", "weight_map.b", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"model-00002-of-00002.safetensors\"}}", "weight_map.a", WEIR_FORMAT},
        {"{\"weight_map\":{}}", "weight_map", WEIR_FORMAT},
        {"{\"weight_map\":[]}", "weight_map", WEIR_FORMAT},
        {"{}", "weight_map", WEIR_FORMAT},
        {"[]", "expected an object", WEIR_FORMAT},
        {"{\"weight_map\":{\"a\":\"f\",\"a\":\"f\"}}", "duplicate", WEIR_FORMAT},
        {"{\"weight_map\":[[[[[[[[]]]]]]]]}", "nested", WEIR_FORMAT},
        {"", "not valid JSON", WEIR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made_text(dir, INDEX, cases[i].text);
        open_bad(dir, cases[i].status, cases[i].text, INDEX, cases[i].field);
    }
}

static void a_giant_index_is_refused_unread(void **state)
{
    const char *dir = *state;
    char        path[4096];
    two_shards(dir);
    made_text(dir, INDEX, "{");
    path_of(path, sizeof path, dir, INDEX);
    assert_int_equal(truncate(path, ((off_t)64 << 20) + 1), 0);
    open_bad(dir, WEIR_FORMAT, "an index over 64 MiB", INDEX, "67108864");
}

static void missing_things_are_named(void **state)
{
    const char *dir = *state;
    char        path[4096];
    open_bad(dir, WEIR_FORMAT, "an empty folder", dir, "model*.safetensors");
    path_of(path, sizeof path, dir, "absent");
    open_bad(path, WEIR_IO, "no such path", path, "No such file");
    made_text(dir, "model.safetensors", "");
    open_bad(dir, WEIR_FORMAT, "a file of no bytes", "model.safetensors", "content");
}

static void a_damaged_shard_is_named(void **state)
{
    const char *dir = *state;
    two_shards(dir);
    made_safetensors(dir, "model-00002-of-00002.safetensors", ONE("b"), "345", 3);
    open_bad(dir, WEIR_FORMAT, "a byte too many", "model-00002-of-00002.safetensors", "file size");
}

/* Links inside the folder are files; links out of it are not. */
static void links_must_stay_inside(void **state)
{
    const char *dir = *state;
    char        inside[4096], outside[4096], link_path[4096];
    shards      s;
    path_of(inside, sizeof inside, dir, "inside");
    assert_int_equal(mkdir(inside, 0700), 0);
    made_safetensors(inside, "real.safetensors", ONE("a"), "12", 2);
    path_of(link_path, sizeof link_path, inside, "model.safetensors");
    assert_int_equal(symlink("real.safetensors", link_path), 0);
    open_good(&s, inside);
    assert_int_equal(s.n, 1);
    shards_close(&s);

    made_safetensors(dir, "secret", ONE("a"), "12", 2);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(symlink("../secret", link_path), 0);
    open_bad(inside, WEIR_FORMAT, "a link out", "model.safetensors", "found a link to");

    /* A sibling whose name begins alike is not inside. */
    path_of(outside, sizeof outside, dir, "inside-not");
    assert_int_equal(mkdir(outside, 0700), 0);
    made_safetensors(outside, "x", ONE("a"), "12", 2);
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(symlink("../inside-not/x", link_path), 0);
    open_bad(inside, WEIR_FORMAT, "a link to a sibling", "model.safetensors", "found a link to");
}

/* models--x/snapshots/rev/model.safetensors -> ../../blobs/hash */
static void the_hub_s_cache_may_link_to_its_blobs(void **state)
{
    const char *dir = *state;
    char        path[4096], snapshot[4096];
    shards      s;
    path_of(path, sizeof path, dir, "blobs");
    assert_int_equal(mkdir(path, 0700), 0);
    made_safetensors(path, "0123abcd", ONE("a"), "12", 2);
    path_of(path, sizeof path, dir, "snapshots");
    assert_int_equal(mkdir(path, 0700), 0);
    path_of(snapshot, sizeof snapshot, path, "rev");
    assert_int_equal(mkdir(snapshot, 0700), 0);
    path_of(path, sizeof path, snapshot, "model.safetensors");
    assert_int_equal(symlink("../../blobs/0123abcd", path), 0);
    open_good(&s, snapshot);
    assert_int_equal(s.n, 1);
    assert_string_equal(s.files[0].tensors[0].name, "a");
    shards_close(&s);

    made_safetensors(dir, "elsewhere", ONE("a"), "12", 2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("../../elsewhere", path), 0);
    open_bad(snapshot, WEIR_FORMAT, "a link beside the blobs", "model.safetensors", "found a link to");

    /* The same folders under other names are no cache. */
    char other[4096], renamed[4096];
    path_of(other, sizeof other, dir, "snapshots");
    path_of(renamed, sizeof renamed, dir, "anything");
    assert_int_equal(rename(other, renamed), 0);
    path_of(snapshot, sizeof snapshot, renamed, "rev");
    path_of(path, sizeof path, snapshot, "model.safetensors");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("../../blobs/0123abcd", path), 0);
    open_bad(snapshot, WEIR_FORMAT, "blobs of no cache", "model.safetensors", "found a link to");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_folder_is_read_in_order_of_names),
        TEST(one_file_is_a_checkpoint_too),
        TEST(an_index_chooses_the_files),
        TEST(every_bad_index_is_named),
        TEST(a_giant_index_is_refused_unread),
        TEST(missing_things_are_named),
        TEST(a_damaged_shard_is_named),
        TEST(links_must_stay_inside),
        TEST(the_hub_s_cache_may_link_to_its_blobs),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
