/* Stored responses: what is kept, for how long, and what becomes of a broken file. */
#include "base/file.h"
#include "base/mem.h"
#include "serve/response_store.h"
#include "support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t the_time;

static int64_t now(void)
{
    return the_time;
}

static response_store *open_store(const char *dir, uint64_t max_bytes)
{
    response_store   *s;
    weir_error        err;
    const weir_status st = response_store_open(
        &s, &(response_store_options){.dir = dir, .max_bytes = max_bytes, .seconds = 100, .now = now}, &err);
    if (st != WEIR_OK) fail_msg("%s", err.text);
    return s;
}

/* `size` bytes altogether, 4 of them items. */
static void put(response_store *s, const char *id, const char *previous, size_t size)
{
    stored_response r = {.id       = mem_strdup(id),
                         .previous = previous != NULL ? mem_strdup(previous) : NULL,
                         .items    = mem_strdup("[id]"),
                         .response = mem_zalloc(size, 1)};
    memset(r.response, 'x', size - 4);
    response_store_put(s, &r);
    assert_null(r.id);
}

static bool has(response_store *s, const char *id)
{
    stored_response r;
    const bool      found = response_store_get(s, id, &r);
    if (found) assert_string_equal(r.id, id);
    stored_response_free(&r);
    return found;
}

static void test_get_and_delete(void **state)
{
    stored_response r;
    response_store *s = open_store(NULL, 1000);
    (void)state;
    the_time = 1;
    put(s, "a", NULL, 10);
    put(s, "b", "a", 12);
    assert_true(response_store_get(s, "b", &r));
    assert_string_equal(r.previous, "a");
    assert_string_equal(r.items, "[id]");
    assert_string_equal(r.response, "xxxxxxxx");
    stored_response_free(&r);
    assert_true(response_store_get(s, "a", &r));
    assert_null(r.previous);
    stored_response_free(&r);
    assert_false(has(s, "c"));
    assert_true(response_store_delete(s, "a"));
    assert_false(response_store_delete(s, "a"));
    assert_false(has(s, "a"));
    response_store_close(s);
}

static void test_expiry(void **state)
{
    response_store *s = open_store(NULL, 1000);
    (void)state;
    the_time = 1000;
    put(s, "a", NULL, 10);
    assert_true(has(s, "a"));
    the_time = 1099;
    assert_true(has(s, "a"));
    the_time = 1100;
    assert_false(has(s, "a"));
    assert_false(response_store_delete(s, "a"));
    response_store_close(s);
}

static void test_bound(void **state)
{
    stored_response *chain;
    size_t           n;
    response_store  *s = open_store(NULL, 100);
    (void)state;
    the_time = 1;
    put(s, "a", NULL, 40);
    put(s, "b", NULL, 30);
    put(s, "c", NULL, 30); /* exactly full */
    assert_true(has(s, "a") && has(s, "b") && has(s, "c"));
    assert_true(response_store_chain(s, "a", &chain, &n)); /* it was used last now */
    stored_responses_free(chain, n);
    put(s, "d", NULL, 31); /* b's room is not enough */
    assert_true(has(s, "a") && has(s, "d"));
    assert_false(has(s, "b") || has(s, "c"));
    put(s, "e", NULL, 101); /* does not fit even alone: what is there stays */
    assert_false(has(s, "e"));
    assert_true(has(s, "a") && has(s, "d"));
    put(s, "f", NULL, 100);
    assert_true(has(s, "f"));
    assert_false(has(s, "a") || has(s, "d"));
    response_store_close(s);
}

static void test_chain(void **state)
{
    stored_response *chain;
    size_t           n;
    response_store  *s = open_store(NULL, 1000);
    (void)state;
    the_time = 1;
    put(s, "a", NULL, 10);
    put(s, "b", "a", 10);
    put(s, "c", "b", 10);
    the_time = 90; /* all of the chain lives on */
    assert_true(response_store_chain(s, "c", &chain, &n));
    assert_int_equal(n, 3);
    assert_string_equal(chain[0].id, "a");
    assert_string_equal(chain[1].id, "b");
    assert_string_equal(chain[2].id, "c");
    stored_responses_free(chain, n);
    the_time = 150;
    assert_true(has(s, "a") && has(s, "b") && has(s, "c"));
    assert_true(response_store_delete(s, "b"));
    assert_false(response_store_chain(s, "c", &chain, &n));
    assert_true(response_store_chain(s, "a", &chain, &n));
    assert_int_equal(n, 1);
    stored_responses_free(chain, n);
    response_store_close(s);
}

/* ---- in a file ---- */

typedef struct place {
    char dir[40], path[80], broken[100];
} place;

static void make_place(place *p)
{
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/weir-store-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(p->path, sizeof p->path, "%s/" RESPONSE_STORE_FILE, p->dir);
    (void)snprintf(p->broken, sizeof p->broken, "%s.broken", p->path);
}

static void remove_place(const place *p)
{
    (void)unlink(p->path);
    (void)unlink(p->broken);
    assert_int_equal(rmdir(p->dir), 0);
}

static void test_file_lasts(void **state)
{
    place       p;
    struct stat st;
    (void)state;
    the_time = 1;
    make_place(&p);
    response_store *s = open_store(p.dir, 1000);
    put(s, "a", NULL, 500);
    response_store_close(s); /* writes what waits */
    assert_int_equal(stat(p.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    s = open_store(p.dir, 1000);
    assert_true(has(s, "a"));
    response_store_close(s);
    assert_false(file_exists(p.broken));
    remove_place(&p);
}

static void overwrite(const char *path, long from, size_t n)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, from, SEEK_SET), 0);
    for (size_t i = 0; i < n; i++) assert_int_not_equal(fputc('#', f), EOF);
    assert_int_equal(fclose(f), 0);
}

/* No database at all, or one whose pages are broken behind the first: it is set aside, and the
 * store works. */
static void test_broken_file(void **state)
{
    static const long from[] = {0, 4096};
    (void)state;
    the_time = 1;
    for (size_t i = 0; i < 2; i++) {
        place p;
        make_place(&p);
        response_store *s = open_store(p.dir, 100000);
        put(s, "a", NULL, 20000);
        response_store_close(s);
        overwrite(p.path, from[i], 12288);
        s = open_store(p.dir, 100000);
        assert_false(has(s, "a"));
        put(s, "b", NULL, 10);
        put(s, "b", NULL, 10); /* the one before may have found the file broken */
        assert_true(has(s, "b"));
        response_store_close(s);
        assert_true(file_exists(p.broken));
        s = open_store(p.dir, 100000);
        assert_true(has(s, "b"));
        response_store_close(s);
        remove_place(&p);
    }
}

static void test_no_place(void **state)
{
    response_store *s;
    weir_error      err;
    (void)state;
    assert_int_equal(
        response_store_open(&s, &(response_store_options){.dir = "/proc/nowhere", .max_bytes = 10, .seconds = 1}, &err),
        WEIR_IO);
    assert_non_null(strstr(err.text, "/proc/nowhere"));
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_and_delete), cmocka_unit_test(test_expiry),     cmocka_unit_test(test_bound),
        cmocka_unit_test(test_chain),          cmocka_unit_test(test_file_lasts), cmocka_unit_test(test_broken_file),
        cmocka_unit_test(test_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
