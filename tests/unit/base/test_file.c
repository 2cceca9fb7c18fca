/* Whole files, atomic writes and mappings, in a folder of the test's own. */
#include "support/cmocka.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In place of the C library's: asking for the mask changes it, for all threads. */
static int n_umask_calls;

mode_t umask(mode_t mask)
{
    n_umask_calls++;
    return (mode_t)syscall(SYS_umask, mask);
}

static char  folder[] = "/tmp/weir-file-XXXXXX";
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
    return rmdir(folder); /* fails when a test left something behind */
}

static void put(const char *text)
{
    file_writer w;
    weir_error  err;
    if (file_create(&w, path, &err) != WEIR_OK || file_write(&w, text, strlen(text), &err) != WEIR_OK ||
        file_commit(&w, &err) != WEIR_OK)
        fail_msg("%s", err.text);
}

static void check_content(const char *expected)
{
    char  *text;
    size_t n;
    assert_int_equal(file_read(&text, &n, path, 1000, NULL), WEIR_OK);
    assert_int_equal(n, strlen(expected));
    assert_string_equal(text, expected);
    mem_free(text);
}

static size_t files_in_folder(void)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    size_t n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

static void a_commit_replaces_the_file(void **state)
{
    (void)state;
    put("old");
    check_content("old");
    put("something newer");
    check_content("something newer");
    put("");
    check_content("");
    assert_int_equal(files_in_folder(), 1);
}

static void an_abandoned_write_leaves_the_old_file(void **state)
{
    (void)state;
    put("old");
    file_writer w;
    assert_int_equal(file_create(&w, path, NULL), WEIR_OK);
    assert_int_equal(file_write(&w, "half of the n", 13, NULL), WEIR_OK);
    check_content("old");
    assert_int_equal(files_in_folder(), 2);
    file_abandon(&w);
    check_content("old");
    assert_int_equal(files_in_folder(), 1);
    file_abandon(&w); /* all zero by now */
}

static void a_failed_commit_leaves_nothing_behind(void **state)
{
    (void)state;
    (void)unlink(path);
    file_writer w;
    weir_error  err;
    assert_int_equal(file_create(&w, path, NULL), WEIR_OK);
    assert_int_equal(mkdir(path, 0700), 0); /* rename cannot replace a folder with a file */
    assert_int_equal(file_commit(&w, &err), WEIR_IO);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(files_in_folder(), 1);
    assert_true(file_is_dir(path) && !file_exists(path));
    assert_int_equal(rmdir(path), 0);
}

/* A rename would put a plain file where they were. */
static void devices_folders_and_pipes_are_refused(void **state)
{
    (void)state;
    const char *others[] = {"/dev/null", folder, path};
    file_writer w;
    weir_error  err;
    char       *text;
    size_t      n;
    file_map    map;
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(file_create(&w, others[i], &err), WEIR_IO);
        assert_non_null(strstr(err.text, "regular file"));
    }
    /* Nobody writes to the pipe: reading must not wait for someone. */
    assert_int_equal(file_read(&text, &n, path, 1000, &err), WEIR_FORMAT);
    assert_int_equal(file_map_open(&map, path, &err), WEIR_FORMAT);
    assert_int_equal(unlink(path), 0);
}

static void a_link_stays_and_its_target_is_written(void **state)
{
    (void)state;
    put("old");
    char *link = mem_alloc(strlen(path) + 6, 1);
    (void)sprintf(link, "%s.link", path);
    assert_int_equal(symlink(path, link), 0);
    file_writer w;
    assert_int_equal(file_create(&w, link, NULL), WEIR_OK);
    assert_int_equal(file_write(&w, "new", 3, NULL), WEIR_OK);
    assert_int_equal(file_commit(&w, NULL), WEIR_OK);
    check_content("new");
    struct stat sb;
    assert_true(lstat(link, &sb) == 0 && S_ISLNK(sb.st_mode));
    assert_int_equal(unlink(link), 0);
    mem_free(link);
}

static void permissions_follow_the_mask(void **state)
{
    (void)state;
    static const mode_t masks[] = {0022, 0077, 0};
    for (size_t i = 0; i < 3; i++) {
        const mode_t before = umask(masks[i]);
        put("x");
        (void)umask(before);
        struct stat sb;
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_mode & 0777, 0666 & ~masks[i]);
    }
}

/* Another thread that creates a file meanwhile gets the permissions it should. */
static void the_mask_is_left_alone(void **state)
{
    (void)state;
    n_umask_calls = 0;
    put("x");
    assert_int_equal(n_umask_calls, 0);
    (void)umask(umask(0022)); /* the count works */
    assert_int_equal(n_umask_calls, 2);
}

/* Neither writes into the other's file; the last commit stays. */
static void two_writers_of_one_file(void **state)
{
    (void)state;
    file_writer a, b;
    put("old");
    assert_int_equal(file_create(&a, path, NULL), WEIR_OK);
    assert_int_equal(file_create(&b, path, NULL), WEIR_OK);
    assert_string_not_equal(a.temporary, b.temporary);
    assert_memory_equal(a.temporary, path, strlen(path)); /* beside it: the rename stays on one disk */
    assert_int_equal(file_write(&a, "first", 5, NULL), WEIR_OK);
    assert_int_equal(file_write(&b, "second", 6, NULL), WEIR_OK);
    assert_int_equal(file_commit(&b, NULL), WEIR_OK);
    check_content("second");
    assert_int_equal(file_commit(&a, NULL), WEIR_OK);
    check_content("first");
    assert_int_equal(files_in_folder(), 1);
}

static void writers_without_memory_or_folder(void **state)
{
    (void)state;
    put("old");
    file_writer w;
    weir_error  err;
    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(file_create(&w, path, &err), WEIR_NO_MEMORY);
        mem_fail_at(0);
    }
    assert_int_equal(file_create(&w, "/nowhere/at/all/file", &err), WEIR_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all/file"));
    assert_null(w.f);
    assert_int_equal(files_in_folder(), 1);
}

static void reading_has_limits(void **state)
{
    (void)state;
    char      *text;
    size_t     n;
    weir_error err;
    put("12345");
    assert_int_equal(file_read(&text, &n, path, 5, &err), WEIR_OK);
    assert_string_equal(text, "12345");
    mem_free(text);
    const uint64_t before = mem_count();
    assert_int_equal(file_read(&text, &n, path, 4, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, "expected at most 4 bytes, found 5"));
    assert_null(text);
    assert_int_equal(mem_count(), before); /* refused before memory is taken */
    assert_int_equal(file_read(&text, &n, folder, 100, &err), WEIR_FORMAT);
    assert_int_equal(file_read(&text, &n, "/nowhere/file", 100, &err), WEIR_IO);
    mem_fail_at(1);
    assert_int_equal(file_read(&text, &n, path, 100, &err), WEIR_NO_MEMORY);
    mem_fail_at(0);
    assert_null(text);
}

static void what_a_path_is(void **state)
{
    (void)state;
    put("x");
    assert_true(file_exists(path) && !file_is_dir(path));
    assert_true(file_is_dir(folder) && !file_exists(folder));
    assert_false(file_exists("/nowhere/file"));
    char *link = path_join(folder, "link");
    assert_int_equal(symlink(path, link), 0);
    assert_true(file_exists(link));
    assert_int_equal(unlink(link), 0);
    mem_free(link);
    static const char *const joins[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < 3; i++) {
        char *p = path_join(joins[i][0], joins[i][1]);
        assert_string_equal(p, joins[i][2]);
        mem_free(p);
    }
}

static void mapped_spans_are_checked(void **state)
{
    (void)state;
    file_map       m;
    const uint8_t *p = NULL;
    weir_error     err;
    put("0123456789");
    assert_int_equal(file_map_open(&m, path, &err), WEIR_OK);
    assert_int_equal(m.size, 10);
    assert_string_equal(m.path, path);
    assert_int_equal(file_map_span(&m, 3, 4, &p, &err), WEIR_OK);
    assert_memory_equal(p, "3456", 4);
    assert_int_equal(file_map_span(&m, 0, 10, &p, &err), WEIR_OK);
    assert_int_equal(file_map_span(&m, 10, 0, &p, &err), WEIR_OK);
    static const uint64_t outside[][2] = {{0, 11},         {10, 1},         {11, 0},
                                          {UINT64_MAX, 2}, {2, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        const uint8_t *before = p;
        assert_int_equal(file_map_span(&m, outside[i][0], outside[i][1], &p, &err), WEIR_FORMAT);
        assert_ptr_equal(p, before);
        assert_non_null(strstr(err.text, "outside the file of 10"));
    }
    put("replaced"); /* the mapping keeps the file it was made of */
    assert_memory_equal(m.data, "0123456789", 10);
    file_map_close(&m);
    assert_null(m.data);
    file_map_close(&m);
}

static void what_cannot_be_mapped(void **state)
{
    (void)state;
    file_map   m;
    weir_error err;
    put("");
    assert_int_equal(file_map_open(&m, path, &err), WEIR_FORMAT);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(file_map_open(&m, folder, &err), WEIR_FORMAT);
    assert_int_equal(file_map_open(&m, "/nowhere/file", &err), WEIR_IO);
    put("x");
    mem_fail_at(1);
    assert_int_equal(file_map_open(&m, path, &err), WEIR_NO_MEMORY);
    mem_fail_at(0);
    assert_true(m.data == NULL && m.path == NULL && m.size == 0);
}

/* Pages of files that this process holds in memory. */
static long resident_file_pages(void)
{
    long  all = 0, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld %ld", &all, &resident, &shared), 3);
    (void)fclose(f);
    return shared;
}

static void rested_pages_take_no_memory(void **state)
{
    (void)state;
    enum { SIZE = 8 << 20 };
    const long  pages = SIZE / sysconf(_SC_PAGESIZE);
    uint8_t    *bytes = malloc(SIZE);
    weir_error  err;
    file_writer w;
    file_map    m;
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++) bytes[i] = (uint8_t)(i * 7 + (i >> 12));
    assert_int_equal(file_create(&w, path, &err), WEIR_OK);
    assert_int_equal(file_write(&w, bytes, SIZE, &err), WEIR_OK);
    assert_int_equal(file_commit(&w, &err), WEIR_OK);
    assert_int_equal(file_map_open(&m, path, &err), WEIR_OK);
    assert_memory_equal(m.data, bytes, SIZE);
    const long before = resident_file_pages();
    file_map_rest(m.data + 1, SIZE - 2); /* all whole pages but the first and the last */
    const long given_back = before - resident_file_pages();
    assert_true(given_back > pages / 2 && given_back < pages + pages / 2);
    file_map_rest(m.data, 0);
    file_map_rest(m.data + 5, 100); /* no whole page */
    assert_memory_equal(m.data, bytes, SIZE);
    file_map_close(&m);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_replaces_the_file),
        cmocka_unit_test(an_abandoned_write_leaves_the_old_file),
        cmocka_unit_test(a_failed_commit_leaves_nothing_behind),
        cmocka_unit_test(devices_folders_and_pipes_are_refused),
        cmocka_unit_test(a_link_stays_and_its_target_is_written),
        cmocka_unit_test(permissions_follow_the_mask),
        cmocka_unit_test(the_mask_is_left_alone),
        cmocka_unit_test(two_writers_of_one_file),
        cmocka_unit_test(writers_without_memory_or_folder),
        cmocka_unit_test(reading_has_limits),
        cmocka_unit_test(what_a_path_is),
        cmocka_unit_test(mapped_spans_are_checked),
        cmocka_unit_test(what_cannot_be_mapped),
        cmocka_unit_test(rested_pages_take_no_memory),
    };
    return cmocka_run_group_tests_name("file", tests, setup, teardown);
}
