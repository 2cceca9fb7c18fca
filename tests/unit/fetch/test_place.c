/* tests/unit/fetch/test_place.c - links and copies of a snapshot; and giving up on a hub that is not there. */
#include "base/mem.h"
#include "fetch/fetch.h"
#include "fetch/snapshot.h"
#include "support/cmocka.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/weir-test-place-XXXXXX";

static const char *at(const char *name)
{
    static char path[4][512];
    static int  turn;
    char       *p = path[turn++ % 4];
    (void)snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

static void assert_holds(const char *name, const char *text)
{
    char  found[64] = {0};
    FILE *f         = fopen(at(name), "r");
    assert_non_null(f);
    (void)fread(found, 1, sizeof found - 1, f);
    (void)fclose(f);
    assert_string_equal(found, text);
}

static void assert_link(const char *name, const char *target)
{
    char          found[512] = {0};
    const ssize_t n          = readlink(at(name), found, sizeof found - 1);
    assert_string_equal(n >= 0 ? found : "no link", target);
}

static int set_up(void **state)
{
    (void)state;
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    if (mkdtemp(folder) == NULL) return -1;
    (void)mkdir(at("blobs"), 0777);
    (void)mkdir(at("snapshots"), 0777);
    (void)mkdir(at("snapshots/c"), 0777);
    (void)mkdir(at("elsewhere"), 0777);
    put("blobs/1", "one");
    put("blobs/2", "other");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void links(void **state)
{
    (void)state;
    assert_int_equal(snapshot_place(at("snapshots/c"), "a", "1", false, NULL), WEIR_OK);
    assert_link("snapshots/c/a", "../../blobs/1");
    assert_int_equal(snapshot_place(at("snapshots/c"), "x/y/b", "2", false, NULL), WEIR_OK);
    assert_link("snapshots/c/x/y/b", "../../../../blobs/2");
    assert_holds("snapshots/c/x/y/b", "other");
    /* What stands there is replaced: another link, a file. */
    assert_int_equal(snapshot_place(at("snapshots/c"), "a", "2", false, NULL), WEIR_OK);
    assert_link("snapshots/c/a", "../../blobs/2");
    assert_holds("blobs/1", "one");
    put("snapshots/c/plain", "old");
    put("snapshots/c/.weir-new", "left by someone");
    assert_int_equal(snapshot_place(at("snapshots/c"), "plain", "1", false, NULL), WEIR_OK);
    assert_link("snapshots/c/plain", "../../blobs/1");
}

static void copies(void **state)
{
    (void)state;
    struct stat sb;
    assert_int_equal(snapshot_place(at("snapshots/c"), "x/a", "1", true, NULL), WEIR_OK);
    assert_int_equal(lstat(at("snapshots/c/x/a"), &sb), 0);
    assert_true(S_ISREG(sb.st_mode));
    assert_holds("snapshots/c/x/a", "one");
    assert_int_equal(snapshot_place(at("snapshots/c"), "x/a", "2", true, NULL), WEIR_OK);
    assert_holds("snapshots/c/x/a", "other");
    assert_holds("blobs/1", "one");
    assert_int_equal(snapshot_place(at("snapshots/c"), "b", "none", true, NULL), WEIR_IO);
    assert_int_not_equal(access(at("snapshots/c/.weir-new"), F_OK), 0);
}

static void folders_that_are_links_are_not_entered(void **state)
{
    (void)state;
    assert_int_equal(symlink("../../elsewhere", at("snapshots/c/x")), 0);
    assert_int_equal(snapshot_place(at("snapshots/c"), "x/a", "1", false, NULL), WEIR_IO);
    assert_int_equal(snapshot_place(at("snapshots/c"), "x/a", "1", true, NULL), WEIR_IO);
    assert_int_not_equal(access(at("elsewhere/a"), F_OK), 0);
}

static bool count_and_go_on(void *user)
{
    ++*(unsigned *)user;
    return false;
}

/* Port 9 of this machine: nobody listens. */
static void a_hub_that_is_not_there(void **state)
{
    (void)state;
    unsigned             asked = 0;
    const fetch_settings s     = {.root          = at("cache"),
                                  .endpoint      = "http://127.0.0.1:9",
                                  .stall_seconds = 5,
                                  .backoff_ms    = 1,
                                  .stopped       = count_and_go_on,
                                  .user          = &asked};
    fetch_name           name;
    fetch_result         r;
    weir_error           err;
    assert_int_equal(fetch_parse_name(&name, "org/a", NULL), WEIR_OK);
    assert_int_equal(fetch_pull(&s, &name, NULL, NULL, &r, &err), WEIR_IO);
    assert_non_null(strstr(err.text, "tried 5 times"));
    assert_true(asked > 0);
    assert_null(r.path);
    assert_int_not_equal(access(at("cache"), F_OK), 0);

    fetch_settings other = s;
    other.endpoint       = "ftp://127.0.0.1";
    assert_int_equal(fetch_pull(&other, &name, NULL, NULL, &r, &err), WEIR_INVALID);
    assert_non_null(strstr(err.text, "expected an address"));
}

static bool stop(void *user)
{
    (void)user;
    return true;
}

static void stopped_at_once(void **state)
{
    (void)state;
    const fetch_settings s = {.root          = at("cache"),
                              .endpoint      = "http://127.0.0.1:9",
                              .stall_seconds = 5,
                              .backoff_ms    = 60000,
                              .stopped       = stop};
    fetch_name           name;
    fetch_result         r;
    weir_error           err;
    assert_int_equal(fetch_parse_name(&name, "org/a", NULL), WEIR_OK);
    assert_int_equal(fetch_pull(&s, &name, NULL, NULL, &r, &err), WEIR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(folders_that_are_links_are_not_entered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hub_that_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopped_at_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
