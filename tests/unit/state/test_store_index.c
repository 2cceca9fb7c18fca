/* tests/unit/state/test_store_index.c - the hash table against a plain list.
 *
 * Most keys share a few homes, at the table's end too, so that runs are long,
 * wrap around and get holes. */
#include "base/mem.h"
#include "state/store_index.h"
#include "support/cmocka.h"
#include "support/rng.h"

#include <string.h>

enum { KEYS = 300, STEPS = 20000 };

static void make_key(uint8_t key[STORE_KEY_BYTES], uint32_t i)
{
    static const uint64_t homes[] = {0, 1, 2, 61, 62, 63, 509, 510, 511};
    const uint64_t        home    = homes[i % 9];
    memset(key, 0, STORE_KEY_BYTES);
    memcpy(key, &home, sizeof home);
    memcpy(key + 20, &i, sizeof i);
}

static void it_finds_what_is_in_it_and_nothing_else(void **state)
{
    (void)state;
    store_index x             = {0};
    bool        present[KEYS] = {0};
    size_t      n             = 0;
    uint64_t    seed          = 7;
    uint8_t     key[STORE_KEY_BYTES];
    for (uint32_t step = 0; step < STEPS; step++) {
        const uint32_t i = rng_below(&seed, KEYS);
        make_key(key, i);
        if (!present[i]) {
            store_slot slot = {.bytes = i + 1, .durable = i % 2 == 0};
            memcpy(slot.key, key, sizeof key);
            assert_true(store_index_add(&x, &slot));
            n++;
        } else {
            store_index_remove(&x, store_index_find(&x, key));
            n--;
        }
        present[i] = !present[i];
        assert_int_equal(x.n, n);
        for (uint32_t k = 0; k < KEYS; k += step % 100 == 0 ? 1 : 37) { /* all of them now and then */
            make_key(key, k);
            const store_slot *found = store_index_find(&x, key);
            assert_int_equal(found != NULL, present[k]);
            if (found == NULL) continue;
            assert_memory_equal(found->key, key, sizeof key);
            assert_int_equal(found->bytes, k + 1);
            assert_int_equal(found->durable, k % 2 == 0);
        }
    }
    store_index_free(&x);
}

static void without_memory_it_stays_as_it_was(void **state)
{
    (void)state;
    store_index x    = {0};
    store_slot  slot = {.bytes = 1};
    mem_fail_at(1);
    assert_false(store_index_add(&x, &slot));
    mem_fail_at(0);
    assert_null(store_index_find(&x, slot.key));
    uint32_t i = 0;
    for (; i < 48; i++) {
        make_key(slot.key, i);
        assert_true(store_index_add(&x, &slot));
    }
    make_key(slot.key, i);
    mem_fail_at(1);
    assert_false(store_index_add(&x, &slot)); /* this one would make it grow */
    mem_fail_at(0);
    assert_null(store_index_find(&x, slot.key));
    assert_int_equal(x.n, 48);
    assert_true(store_index_add(&x, &slot));
    assert_non_null(store_index_find(&x, slot.key));
    store_index_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_what_is_in_it_and_nothing_else),
        cmocka_unit_test(without_memory_it_stays_as_it_was),
    };
    return cmocka_run_group_tests_name("store_index", tests, NULL, NULL);
}
