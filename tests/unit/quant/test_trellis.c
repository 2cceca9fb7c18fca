/* Decoding of packed trellis weights: worked examples, the recurrence that the layout comes from,
 * random blocks against a second decoder's, and the kernels' short way to weights. */
#include "support/golden.h"
#include "support/rng.h"

#include "base/bytes.h"
#include "base/half.h"
#include "quant/trellis.h"

#include <stdio.h>
#include <stdlib.h>

/* Words of a multiplicative sequence: the examples' blocks. */
static void fill_words(uint8_t *p, size_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t w = i * 2654435761u + 0x9E3779B9u;
        memcpy(p + 4 * (size_t)i, &w, sizeof w);
    }
}

static void levels_and_codes(void **state)
{
    (void)state;
    static const struct {
        uint32_t state;
        int32_t  level;
        uint32_t code;
    } cases[] = {{0, -185, 0xbfa03747}, {1, -124, 0xbf56c6a4},  {2, -63, 0xbeda3d75},
                 {3, -2, 0xbc5db447},   {2048, 32, 0x3e5db447}, {4095, 188, 0x3fa2d064}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(trellis_level(cases[i].state), cases[i].level);
        assert_int_equal(f32_bits(trellis_code(cases[i].state)), cases[i].code);
    }
    int32_t  min = 0, max = 0, sum = 0;
    bool     seen[1024] = {false};
    unsigned distinct   = 0;
    for (uint32_t s = 0; s < TRELLIS_STATES; s++) {
        const int32_t y = trellis_level(s);
        sum += y;
        min = y < min ? y : min;
        max = y > max ? y : max;
        distinct += !seen[y + 510];
        seen[y + 510] = true;
    }
    assert_int_equal(min, -448);
    assert_int_equal(max, 454);
    assert_int_equal(distinct, 713);
    assert_int_equal(sum, -4300); /* mean -1.0498 */
    assert_int_equal(trellis_level(3031), min);
    assert_int_equal(trellis_level(3652), max);
}

static void a_block_of_every_published_width(void **state)
{
    (void)state;
    static const uint32_t at[8] = {0, 1, 2, 3, 127, 253, 254, 255};
    static const struct {
        uint32_t bits, states[8];
        uint16_t weights[3]; /* at t = 0, 1, 255 */
    } cases[]            = {{2, {1767, 2974, 3704, 2531, 1857, 1947, 3694, 2489}, {0xbc9a, 0xbbdc, 0x3c2c}},
                            {3, {3534, 3701, 938, 3411, 3589, 3558, 3895, 2489}, {0xbbfd, 0x3c0d, 0x3c2c}},
                            {4, {2972, 2502, 3182, 1775, 1225, 1913, 1947, 2489}, {0x3b17, 0x3c4b, 0x3c2c}}};
    const uint16_t scale = f16_from_f32(0.01f);
    assert_true(f16_to_f32(scale) == 0.0100021362f);
    for (size_t i = 0; i < 3; i++) {
        uint8_t block[128];
        float   y[TRELLIS_BLOCK];
        assert_int_equal(trellis_block_bytes(cases[i].bits), 32 * cases[i].bits);
        fill_words(block, 8 * cases[i].bits);
        for (size_t t = 0; t < 8; t++) assert_int_equal(trellis_state(block, cases[i].bits, at[t]), cases[i].states[t]);
        trellis_decode(y, block, cases[i].bits, scale, 0, TRELLIS_BLOCK);
        assert_int_equal(f32_bits(y[0]), (uint32_t)cases[i].weights[0] << 16);
        assert_int_equal(f32_bits(y[1]), (uint32_t)cases[i].weights[1] << 16);
        assert_int_equal(f32_bits(y[255]), (uint32_t)cases[i].weights[2] << 16);
    }
}

/* Two rows of 1024 columns, 3 bits: where blocks of a row follow one another. */
static void rows_of_blocks(void **state)
{
    (void)state;
    enum { WORDS = 192, ROW = 384 };
    uint8_t words[4 * WORDS];
    fill_words(words, WORDS);
    assert_int_equal(trellis_state(words, 3, 0), 3534);
    assert_int_equal(trellis_state(words + 2 * 96, 3, 0), 1867);
    assert_int_equal(trellis_state(words + ROW, 3, 0), 201);
    assert_int_equal(trellis_state(words + ROW + 3 * 96, 3, 255), 1505);
    float one, two[2];
    trellis_decode(&one, words + ROW, 3, 0x3C00, 1023, 1);
    assert_true(one == trellis_weight(1505, 1.0f));
    trellis_decode(two, words, 3, 0x3C00, 511, 2); /* over the end of a block */
    assert_true(two[1] == trellis_weight(1867, 1.0f));
    assert_true(two[0] == trellis_weight(trellis_state(words + 96, 3, 255), 1.0f));
}

/* A state is the one before it moved up by a symbol, around the block's end too. */
static void states_follow_one_another(void **state)
{
    (void)state;
    uint64_t seed = 44;
    for (uint32_t bits = 1; bits <= TRELLIS_MAX_BITS; bits++) {
        uint8_t block[TRELLIS_BLOCK];
        for (size_t i = 0; i < sizeof block; i++) block[i] = (uint8_t)rng_next(&seed);
        for (uint32_t t = 0; t < TRELLIS_BLOCK; t++) {
            const uint32_t next = (t + 1) % TRELLIS_BLOCK, now = trellis_state(block, bits, t);
            const uint32_t symbol = trellis_state(block, bits, next) & ((1u << bits) - 1u);
            const size_t   bit    = (size_t)(TRELLIS_BLOCK - 1 - next) * bits;
            uint32_t       stored = 0; /* bit by bit */
            for (uint32_t i = 0; i < bits; i++) stored |= ((uint32_t)block[(bit + i) / 8] >> (bit + i) % 8 & 1u) << i;
            assert_int_equal(symbol, stored);
            assert_int_equal(trellis_state(block, bits, next), (now << bits | symbol) & (TRELLIS_STATES - 1));
        }
    }
}

static void random_blocks_of_every_width(void **state)
{
    (void)state;
    safetensors file;
    golden_open(&file, WEIR_SOURCE_DIR "/tests/data/trellis/blocks.safetensors");
    for (uint32_t bits = 1; bits <= TRELLIS_MAX_BITS; bits++) {
        char   name[32];
        size_t n, bytes, rows;
        (void)snprintf(name, sizeof name, "%u.values", bits);
        const uint8_t *values = golden_data(&file, name, DTYPE_BF16, &n);
        (void)snprintf(name, sizeof name, "%u.scales", bits);
        const uint8_t *scales = golden_data(&file, name, DTYPE_F16, &rows);
        (void)snprintf(name, sizeof name, "%u.blocks", bits);
        const void *blocks = golden_data(&file, name, DTYPE_U8, &bytes);
        uint8_t    *copy   = malloc(bytes); /* on the heap, so that a sanitizer sees a read past it */
        assert_non_null(copy);
        memcpy(copy, blocks, bytes);
        for (size_t i = 0; i < n; i++) {
            const size_t r = i / (n / rows);
            float        y;
            trellis_decode(&y, copy + r * (bytes / rows), bits, load_u16(scales + 2 * r), i % (n / rows), 1);
            if (f32_bits(y) != (uint32_t)load_u16(values + 2 * i) << 16)
                fail_msg("%u bits, %zu: expected %04x, found %a", bits, i, load_u16(values + 2 * i), (double)y);
        }
        free(copy);
    }
    safetensors_close(&file);
}

/* The kernels' two roundings, for every level of every scale there is. */
static void the_short_way(void **state)
{
    (void)state;
    uint32_t of_level[1024] = {0}; /* a state, plus one */
    for (uint32_t s = 0; s < TRELLIS_STATES; s++) of_level[trellis_level(s) + 510] = s + 1;
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7C00u) == 0x7C00u) continue;
        const float scale = f16_to_f32((uint16_t)h), factor = trellis_factor(scale);
        for (int32_t level = -448; level <= 454; level++) {
            if (of_level[level + 510] == 0) continue;
            const uint32_t near = (f32_bits((float)level * factor) + 0x8000u) & 0xFFFF0000u;
            const uint32_t want = f32_bits(trellis_weight(of_level[level + 510] - 1, scale));
            if (near != want) fail_msg("scale %04x, level %d: expected %08x, found %08x", h, level, want, near);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_codes),
        cmocka_unit_test(a_block_of_every_published_width),
        cmocka_unit_test(rows_of_blocks),
        cmocka_unit_test(states_follow_one_another),
        cmocka_unit_test(random_blocks_of_every_width),
        cmocka_unit_test(the_short_way),
    };
    return cmocka_run_group_tests_name("trellis", tests, NULL, NULL);
}
