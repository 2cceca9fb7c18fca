/* The draws: Philox against its published vectors, frequencies by chi-square, and
 * what a draw may depend on. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "base/mem.h"
#include "engine/philox.h"
#include "sampling.h"

#include <math.h>
#include <string.h>

static const weir_sample_params NEUTRAL = WEIR_SAMPLE_PARAMS_INIT;

/* Known answers published with Random123 for philox4x32, 10 rounds. */
static void philox_gives_the_published_blocks(void **state)
{
    (void)state;
    const struct {
        philox_block counter;
        uint32_t     key[2];
        philox_block want;
    } known[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}}},
        {{{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}},
         {0xFFFFFFFF, 0xFFFFFFFF},
         {{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}}},
        {{{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}},
         {0xA4093822, 0x299F31D0},
         {{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}}},
    };
    for (size_t i = 0; i < 3; i++) {
        const philox_block got = philox4x32(known[i].counter, known[i].key[0], known[i].key[1]);
        assert_memory_equal(&got, &known[i].want, sizeof got);
    }
}

static uint32_t drawn(const sample_input *in)
{
    uint32_t   id = UINT32_MAX;
    weir_error err;
    assert_int_equal(sample_token(&id, in, sampling_workspace(), &err), WEIR_OK);
    return id;
}

/* The value that chi-square with df degrees of freedom exceeds once in 10^4. */
static double critical(uint32_t df)
{
    const double value[] = {0,       15.1367, 18.4207, 21.1075, 23.5127, 25.7448, 27.8563, 29.8775,
                            31.8276, 33.7199, 35.5640, 37.3670, 39.1344, 40.8707, 42.5793, 44.2632};
    assert_in_range(df, 1, 15);
    return value[df];
}

enum { DRAWS = 40000, SMALL = 12 };

/* Draws once per position and compares the counts with the set's probabilities. */
static void check_frequencies(const char *what, sample_input in)
{
    uint32_t   count[SMALL] = {0};
    sample_set s;
    weir_error err;
    for (in.position = 0; in.position < DRAWS; in.position++) count[drawn(&in)]++;
    assert_int_equal(sample_filter(&s, &in, sampling_workspace(), &err), WEIR_OK);
    assert_true(s.n > 1);
    const double log_total  = sample_set_log_total(&s);
    double       chi_square = 0;
    uint32_t     seen       = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        const double p    = exp(((double)s.c[i].z - (double)s.z_max) / s.temperature - log_total);
        const double want = p * DRAWS, diff = count[s.c[i].id] - want;
        chi_square += diff * diff / want;
        seen += count[s.c[i].id];
    }
    assert_int_equal(seen, DRAWS); /* nothing outside the set */
    if (!(chi_square < critical(s.n - 1))) fail_msg("%s: chi-square %.2f with %u tokens", what, chi_square, s.n);
}

static void frequencies_follow_the_probabilities(void **state)
{
    (void)state;
    const float        z[SMALL]    = {2, 1.5f, 1, 0.5f, 0, -0.5f, -1, 1.5f, 0.25f, 2, -1.5f, 0.75f};
    const uint32_t     generated[] = {0, 0, 9, 3, 7};
    weir_sample_params p           = NEUTRAL;
    p.seed                         = 20250101;
    sample_input in                = sampling_input(z, SMALL, &p);
    check_frequencies("plain", in);
    p.temperature = 0.6;
    check_frequencies("temperature 0.6", in);
    p.temperature = 2.5;
    check_frequencies("temperature 2.5", in);
    p.temperature = 1;
    p.top_k       = 5;
    check_frequencies("top_k", in);
    p.top_k = 0;
    p.top_p = 0.7;
    check_frequencies("top_p", in);
    p.top_p = 1;
    p.min_p = 0.2;
    check_frequencies("min_p", in);
    p.temperature = 0.8;
    p.top_k       = 9;
    p.top_p       = 0.95;
    p.min_p       = 0.1;
    check_frequencies("all three", in);
    p                    = NEUTRAL;
    p.seed               = 5;
    p.presence_penalty   = 0.7;
    p.frequency_penalty  = 0.3;
    p.repetition_penalty = 1.3;
    in.generated         = generated;
    in.n_generated       = 5;
    check_frequencies("penalties", in);
}

/* Four tokens share a random block, positions and choices share a seed: all
 * pairs of neighbouring draws must still be independent. */
static void check_pairs(const char *what, const uint8_t *a, const uint8_t *b)
{
    uint32_t count[4][4] = {{0}};
    for (int i = 0; i < DRAWS; i++) count[a[i]][b[i]]++;
    double chi_square = 0;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            const double diff = count[i][j] - DRAWS / 16.0;
            chi_square += diff * diff / (DRAWS / 16.0);
        }
    }
    if (!(chi_square < critical(15))) fail_msg("%s: chi-square %.2f", what, chi_square);
}

static void positions_choices_and_seeds_are_independent(void **state)
{
    (void)state;
    const float        z[4] = {1, 1, 1, 1};
    static uint8_t     base[DRAWS + 1], choice[DRAWS], seed[DRAWS], high_seed[DRAWS];
    weir_sample_params p  = NEUTRAL;
    sample_input       in = sampling_input(z, 4, &p);
    for (in.position = 0; in.position < DRAWS; in.position++) {
        p                      = NEUTRAL;
        p.seed                 = 7;
        base[in.position]      = (uint8_t)drawn(&in);
        p.choice               = 1;
        choice[in.position]    = (uint8_t)drawn(&in);
        p.choice               = 0;
        p.seed                 = 8;
        seed[in.position]      = (uint8_t)drawn(&in);
        p.seed                 = 7 | 1ull << 32;
        high_seed[in.position] = (uint8_t)drawn(&in);
    }
    p.seed      = 7;
    base[DRAWS] = (uint8_t)drawn(&in);
    check_pairs("position", base, base + 1);
    check_pairs("choice", base, choice);
    check_pairs("seed", base, seed);
    check_pairs("high half of the seed", base, high_seed);
}

/* On a large vocabulary the skipping of hopeless tokens must not change the
 * result: compared with the definition, every token's noise computed. */
static void draw_is_the_argmax_of_logit_plus_noise(void **state)
{
    (void)state;
    static float       z[SAMPLING_MAX_VOCAB];
    uint64_t           seed = 31;
    weir_sample_params p    = NEUTRAL;
    for (int round = 0; round < 200; round++) {
        const uint32_t n     = 1 + rng_below(&seed, SAMPLING_MAX_VOCAB);
        const float    width = round % 2 ? 0.01f : 9.0f;
        rng_fill(&seed, z, n, -width, width);
        p.seed          = rng_next(&seed);
        p.choice        = rng_below(&seed, 16);
        sample_input in = sampling_input(z, n, &p);
        in.position     = rng_below(&seed, 1u << 20);

        long double best = -INFINITY;
        uint32_t    want = 0;
        for (uint32_t id = 0; id < n; id++) {
            const philox_block b = philox4x32((philox_block){{id / 4, in.position, p.choice, 0}}, (uint32_t)p.seed,
                                              (uint32_t)(p.seed >> 32));
            const long double  u = (b.v[id % 4] + 0.5L) / 4294967296.0L, score = z[id] - logl(-logl(u));
            if (score > best) best = score, want = id;
        }
        assert_int_equal(drawn(&in), want);
    }
}

/* Noise belongs to a token, not to its place among the candidates: a draw that
 * falls on a token every filter keeps is the draw of all filters. */
static void filters_share_their_noise(void **state)
{
    (void)state;
    static float z[SAMPLING_MAX_VOCAB];
    uint64_t     seed = 6;
    rng_fill(&seed, z, SAMPLING_MAX_VOCAB, -5, 5);
    weir_sample_params all = NEUTRAL, some = NEUTRAL, few = NEUTRAL;
    some.top_p            = 0.9;
    few.top_k             = 100;
    const sample_input a0 = sampling_input(z, SAMPLING_MAX_VOCAB, &all),
                       b0 = sampling_input(z, SAMPLING_MAX_VOCAB, &some),
                       c0 = sampling_input(z, SAMPLING_MAX_VOCAB, &few);
    int same              = 0;
    for (uint32_t position = 0; position < 200; position++) {
        sample_input a = a0, b = b0, c = c0;
        a.position = b.position = c.position = position;
        sample_set     s;
        weir_error     err;
        const uint32_t id   = drawn(&a);
        const uint32_t in_p = drawn(&b);
        assert_int_equal(sample_filter(&s, &c, sampling_workspace(), &err), WEIR_OK);
        bool kept = false;
        for (uint32_t i = 0; i < s.n; i++) kept = kept || s.c[i].id == id;
        if (kept) assert_int_equal(drawn(&c), id);
        same += in_p == id;
    }
    assert_in_range(same, 150, 200); /* nine in ten */
}

static void draws_have_no_memory(void **state)
{
    (void)state;
    static float z[1000];
    uint32_t     forward[64];
    uint64_t     seed = 12;
    rng_fill(&seed, z, 1000, -3, 3);
    const uint32_t     generated[] = {5, 6, 7, 5};
    weir_sample_params p = NEUTRAL, other = NEUTRAL;
    p.seed                     = 99;
    p.frequency_penalty        = 1;
    other.top_p                = 0.3;
    sample_input in            = sampling_input(z, 1000, &p);
    in.generated               = generated;
    in.n_generated             = 4;
    const uint64_t allocations = mem_count();
    for (in.position = 0; in.position < 64; in.position++) forward[in.position] = drawn(&in);
    for (uint32_t i = 64; i-- > 0;) { /* backwards, with strangers between */
        const sample_input stranger = sampling_input(z, 1000 - i, &other);
        (void)drawn(&stranger);
        in.position = i;
        assert_int_equal(drawn(&in), forward[i]);
    }
    assert_int_equal(mem_count(), allocations);
}

/* These ids may never change: saved conversations and seeds depend on them. */
static void draws_are_the_same_in_every_build(void **state)
{
    (void)state;
    static float z[2000];
    uint64_t     seed = 1, hash = 0xCBF29CE484222325u;
    rng_fill(&seed, z, 2000, -4, 4);
    weir_sample_params p = NEUTRAL;
    p.seed               = 0x0123456789ABCDEFu;
    for (uint32_t i = 0; i < 3000; i++) {
        p.temperature   = 0.5 + i % 7 * 0.2;
        p.top_p         = i % 2 ? 0.9 : 1;
        p.min_p         = i % 3 ? 0 : 0.02;
        sample_input in = sampling_input(z, 2000, &p);
        in.position     = i;
        hash            = (hash ^ drawn(&in)) * 0x100000001B3u;
    }
    assert_int_equal(hash, 0x6B5CD238C37C3DD1u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_blocks),
        cmocka_unit_test(frequencies_follow_the_probabilities),
        cmocka_unit_test(positions_choices_and_seeds_are_independent),
        cmocka_unit_test(draw_is_the_argmax_of_logit_plus_noise),
        cmocka_unit_test(filters_share_their_noise),
        cmocka_unit_test(draws_have_no_memory),
        cmocka_unit_test(draws_are_the_same_in_every_build),
    };
    return cmocka_run_group_tests_name("sample draws", tests, NULL, NULL);
}
