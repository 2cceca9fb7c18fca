/* tests/exact/test_bits.c - results are the same from one day to the next: the
 * dullest run's logits against a table of their hashes.
 *
 * A change of the order of operations is a change of results.  Where it is
 * meant, the release notes say so and the lines that the failure prints
 * replace those below. */
#include "trace.h"

#include <inttypes.h>

static const uint32_t stops[] = {80};

static const struct {
    const char *fixture, *kv;
    uint64_t    hash;
} table[] = {
    {"tiny-dense", "f32", 0x86971314221B84D5},
    {"tiny-dense", "bf16", 0x8B60C1DA295863CD},
    {"tiny-dense-tied", "f32", 0x2D2ED62E2F91C60D},
    {"tiny-moe", "f32", 0xE163D13A79AA05E4},
    {"tiny-odd", "f32", 0xFBFBFDB64DF34559},
    {"tiny-odd", "bf16", 0x7ACA54705F256F0B},
    {"mlx-q4", "f32", 0x1FA87F45FE9E313E},
    {"mlx-q8", "f32", 0x320554C64CF02F21},
    {"mlx-moe-q4", "bf16", 0x2537DBFEE5F23487},
    {"tiny-dense", "affine8", 0x1532105911FFB883},
    {"tiny-moe", "turbo", 0x170FED24B2A1CD9D},
    {"tiny-odd", "affine4", 0x604AB81615F8125C},
    {"tiny-moe", "affine8,affine4-32", 0xB7989AC28D2EA31A},
    {"mlx-mixed", "f32", 0x4DFEBFD05E03E800},
    {"mlx-modes", "f32", 0x1E072C4CE2C24A65},
    {"trellis", "f32", 0x499467354BCCBFF7},
};
enum { ROWS = sizeof table / sizeof *table };

/* FNV-1a */
static uint64_t hash_of(const void *bytes, size_t n)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001B3u;
    return h;
}

static void test_bits(void **given)
{
    (void)given;
    unsigned wrong = 0;
    for (size_t i = 0; i < ROWS; i++) {
        trace       t;
        weir_model *m = model_named(table[i].fixture);
        trace_make(&t, m, table[i].kv, 71, stops, 1);
        const uint64_t h = hash_of(t.logits, (size_t)t.n * t.vocab * sizeof *t.logits);
        if (h != table[i].hash) {
            print_message("    {\"%s\", \"%s\", 0x%016" PRIX64 "},\n", table[i].fixture, table[i].kv, h);
            wrong++;
        }
        trace_free(&t);
        weir_model_close(m);
    }
    if (wrong > 0) fail_msg("%u of %u runs have other bits than they had", wrong, (unsigned)ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests_name("exact bits", tests, NULL, NULL);
}
