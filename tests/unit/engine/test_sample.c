/* The chain of filters: a worked example, then a naive reference on random input. */
#include "support/cmocka.h"
#include "support/rng.h"

#include "sampling.h"

#include <math.h>
#include <string.h>

static const weir_sample_params NEUTRAL = WEIR_SAMPLE_PARAMS_INIT;

/* Worked by hand for a vocabulary of 8 whose last id is padding. */
static const float           EXAMPLE[8]   = {2, 1.5f, 1, 0.5f, 0, -0.5f, -1, 3};
static const uint32_t        PROMPT[]     = {2, 5};
static const uint32_t        GENERATED[]  = {0, 0, 3};
static const weir_logit_bias ADD_ONE_TO_4 = {4, 1};

static weir_sample_params example_params(void)
{
    weir_sample_params p = NEUTRAL;
    p.temperature        = 0.8;
    p.top_k              = 5;
    p.top_p              = 0.9;
    p.min_p              = 0.45;
    p.repetition_penalty = 1.25;
    p.presence_penalty   = 0.5;
    p.frequency_penalty  = 0.1;
    p.logit_bias         = &ADD_ONE_TO_4;
    p.n_logit_bias       = 1;
    return p;
}

static sample_input example_input(const weir_sample_params *p)
{
    sample_input in = sampling_input(EXAMPLE, 8, p);
    in.n_valid      = 7;
    in.prompt       = PROMPT;
    in.n_prompt     = 2;
    in.generated    = GENERATED;
    in.n_generated  = 3;
    return in;
}

static double probability(const sample_set *s, uint32_t i)
{
    return exp(((double)s->c[i].z - (double)s->z_max) / s->temperature - sample_set_log_total(s));
}

static void expect_set(const sample_input *in, size_t n, const uint32_t *ids, const double *p)
{
    sample_set s;
    weir_error err;
    assert_int_equal(sample_filter(&s, in, sampling_workspace(), &err), WEIR_OK);
    assert_int_equal(s.n, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(s.c[i].id, ids[i]);
        if (p != NULL) assert_true(fabs(probability(&s, i) - p[i]) < 1e-5);
    }
}

static void worked_example_after_every_step(void **state)
{
    (void)state;
    weir_sample_params p                  = example_params();
    const sample_input in                 = example_input(&p);
    const float        after_penalties[7] = {0.9f, 1.5f, 0.8f, -0.2f, 1.0f, -0.625f, -1.0f};
    expect_set(&in, 3, (const uint32_t[]){1, 4, 0}, (const double[]){.49810, .26662, .23528});
    for (int i = 0; i < 7; i++) assert_true(fabsf(sampling_workspace()->z[i] - after_penalties[i]) < 1e-6f);

    p.min_p = 0;
    expect_set(&in, 4, (const uint32_t[]){1, 4, 0, 2}, NULL);
    p.top_p = 1;
    expect_set(&in, 5, (const uint32_t[]){1, 4, 0, 2, 3}, (const double[]){.39309, .21041, .18568, .16387, .04695});
    p.top_k = 0;
    expect_set(&in, 7, (const uint32_t[]){0, 1, 2, 3, 4, 5, 6}, NULL);
}

/* min_p 0.45 at temperature 0.8 drops token 2; measured before the temperature it would stay. */
static void temperature_comes_before_the_filters(void **state)
{
    (void)state;
    weir_sample_params p  = example_params();
    const sample_input in = example_input(&p);
    p.temperature         = 1;
    expect_set(&in, 4, (const uint32_t[]){1, 4, 0, 2}, NULL);
    p.temperature = 0.8;
    expect_set(&in, 3, (const uint32_t[]){1, 4, 0}, NULL);
}

static uint32_t drawn(const sample_input *in)
{
    uint32_t   id = UINT32_MAX;
    weir_error err;
    assert_int_equal(sample_token(&id, in, sampling_workspace(), &err), WEIR_OK);
    return id;
}

static void temperature_zero_takes_the_best(void **state)
{
    (void)state;
    weir_sample_params p = example_params();
    p.temperature        = 0;
    sample_input in      = example_input(&p);
    assert_int_equal(drawn(&in), 1);
    const float ties[6] = {-1, 2, 2, -3, 2, 0};
    p                   = NEUTRAL;
    p.temperature       = 0;
    in                  = sampling_input(ties, 6, &p);
    assert_int_equal(drawn(&in), 1);
}

/* The plain row and the processed copy, temperature 0 and top_k 1: one answer. */
static void greedy_paths_agree(void **state)
{
    (void)state;
    static float          logits[SAMPLING_MAX_VOCAB];
    const weir_logit_bias nothing = {0, 0};
    uint64_t              seed    = 11;
    for (int round = 0; round < 300; round++) {
        const uint32_t n = 1 + rng_below(&seed, SAMPLING_MAX_VOCAB);
        for (uint32_t i = 0; i < n; i++) logits[i] = (float)rng_below(&seed, 50 + n) * 0.25f;
        weir_sample_params fast = NEUTRAL, copied = NEUTRAL, one = NEUTRAL;
        fast.temperature = copied.temperature = 0;
        copied.logit_bias                     = &nothing;
        copied.n_logit_bias                   = 1;
        one.top_k                             = 1;
        one.temperature                       = 0.7;
        const sample_input a = sampling_input(logits, n, &fast), b = sampling_input(logits, n, &copied),
                           c = sampling_input(logits, n, &one);
        uint32_t want        = 0;
        for (uint32_t i = 1; i < n; i++)
            if (logits[i] > logits[want]) want = i;
        assert_int_equal(drawn(&a), want);
        assert_int_equal(drawn(&b), want);
        assert_int_equal(drawn(&c), want);
    }
}

/* --- a naive chain: sort everything, long double everywhere --- */

typedef struct naive {
    double   z[SAMPLING_MAX_VOCAB]; /* float values */
    uint32_t order[SAMPLING_MAX_VOCAB];
    uint32_t n;
} naive;

static bool occurs(const uint32_t *list, size_t n, size_t window, uint32_t id, double *count)
{
    size_t found = 0;
    for (size_t i = window == 0 || window > n ? 0 : n - window; i < n; i++) found += list[i] == id;
    *count = (double)found;
    return found > 0;
}

static void naive_row(naive *t, const sample_input *in)
{
    const weir_sample_params *p = in->params;
    uint32_t                  all[512];
    memcpy(all, in->prompt, in->n_prompt * sizeof all[0]);
    memcpy(all + in->n_prompt, in->generated, in->n_generated * sizeof all[0]);
    const size_t    n_all = in->n_prompt + in->n_generated;
    const uint32_t *list  = p->penalize_prompt ? all : in->generated;
    const size_t    n     = p->penalize_prompt ? n_all : in->n_generated;

    for (uint32_t id = 0; id < in->n_valid; id++) {
        float v = in->logits[id];
        for (size_t i = 0; i < p->n_logit_bias; i++)
            if (p->logit_bias[i].id == id) v = p->logit_bias[i].bias <= -100 ? -INFINITY : v + p->logit_bias[i].bias;
        double count, unused;
        if (occurs(all, n_all, p->repetition_window, id, &unused))
            v = (float)(v > 0 ? (double)v / p->repetition_penalty : (double)v * p->repetition_penalty);
        const bool present = occurs(list, n, p->presence_window, id, &unused);
        (void)occurs(list, n, p->frequency_window, id, &count);
        v       = (float)((double)v - (p->presence_penalty * present + p->frequency_penalty * count));
        bool ok = in->allowed == NULL || (in->allowed[id / 64] >> (id % 64) & 1);
        for (size_t i = 0; i < in->n_eos; i++)
            if (in->eos[i] == id && (p->ignore_eos || in->n_generated < p->min_tokens)) ok = false;
        t->z[id] = ok ? v : -INFINITY;
    }
}

static long double naive_weight(const naive *t, uint32_t i, double temperature)
{
    return expl(((long double)t->z[t->order[i]] - t->z[t->order[0]]) / temperature);
}

/* False when a decision hangs on less than 1e-12: rounding may decide. */
static bool naive_filter(naive *t, const sample_input *in)
{
    const weir_sample_params *p = in->params;
    naive_row(t, in);
    t->n = 0;
    for (uint32_t id = 0; id < in->n_valid; id++) {
        if (t->z[id] == -INFINITY) continue;
        uint32_t j = t->n++;
        for (; j > 0 && t->z[t->order[j - 1]] < t->z[id]; j--) t->order[j] = t->order[j - 1];
        t->order[j] = id;
    }
    if (p->top_k > 0 && (uint32_t)p->top_k < t->n) t->n = (uint32_t)p->top_k;

    bool sure = true;
    if (p->top_p < 1) {
        long double total = 0, mass = 0;
        for (uint32_t i = 0; i < t->n; i++) total += naive_weight(t, i, p->temperature);
        uint32_t i = 0;
        do {
            mass += naive_weight(t, i++, p->temperature);
            if (fabsl(mass / total - (long double)p->top_p) < 1e-12L) sure = false;
        } while (mass < (long double)p->top_p * total && i < t->n);
        t->n = i;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const long double w = naive_weight(t, i, p->temperature);
        if (fabsl(w - (long double)p->min_p) < 1e-12L && i > 0) sure = false;
        if (w >= (long double)p->min_p) t->order[kept++] = t->order[i];
    }
    t->n = kept;
    return sure;
}

static void draw_params(weir_sample_params *p, uint64_t *seed)
{
    *p                = NEUTRAL;
    p->temperature    = 0.3 + rng_below(seed, 20) * 0.1;
    const int32_t k[] = {0, -1, 1, 5, 20, 300, 1000, 5000};
    p->top_k          = k[rng_below(seed, 8)];
    const double q[]  = {1, 1, 0.95, 0.5, 0.999, 0};
    p->top_p          = q[rng_below(seed, 6)];
    const double m[]  = {0, 0, 0.05, 0.3, 1};
    p->min_p          = m[rng_below(seed, 5)];
    if (rng_below(seed, 2)) p->repetition_penalty = 0.5 + rng_below(seed, 10) * 0.2;
    if (rng_below(seed, 2)) p->presence_penalty = -2 + rng_below(seed, 9) * 0.5;
    if (rng_below(seed, 2)) p->frequency_penalty = -2 + rng_below(seed, 9) * 0.5;
    p->repetition_window = rng_below(seed, 2) * rng_below(seed, 80);
    p->presence_window   = rng_below(seed, 2) * rng_below(seed, 80);
    p->frequency_window  = rng_below(seed, 2) * rng_below(seed, 80);
    p->penalize_prompt   = rng_below(seed, 2);
    p->ignore_eos        = rng_below(seed, 4) == 0;
    p->min_tokens        = rng_below(seed, 60);
}

static void filters_equal_the_naive_chain(void **state)
{
    (void)state;
    static float    logits[SAMPLING_MAX_VOCAB];
    static naive    t;
    static uint64_t allowed[SAMPLING_MAX_VOCAB / 64 + 1];
    uint64_t        seed  = 77;
    int             tried = 0;
    for (int round = 0; round < 1500; round++) {
        const uint32_t n      = 8 + rng_below(&seed, round % 20 == 0 ? 3000 : 60);
        const bool     coarse = round % 3 == 0; /* many ties */
        for (uint32_t i = 0; i < n; i++)
            logits[i] = coarse ? (float)rng_below(&seed, 9) * 0.5f : rng_float(&seed, -6, 6);
        uint32_t prompt[64], generated[64];
        for (int i = 0; i < 64; i++) prompt[i] = rng_below(&seed, n), generated[i] = rng_below(&seed, n);
        for (uint32_t i = 0; i <= n / 64; i++) allowed[i] = i % 3 == 1 ? UINT64_MAX : rng_next(&seed) | 1;
        const weir_logit_bias bias[] = {{1, 3.5f}, {2, -100}, {3, -1.25f}};
        const uint32_t        eos[]  = {0, 4};

        weir_sample_params p;
        draw_params(&p, &seed);
        p.logit_bias    = bias;
        p.n_logit_bias  = rng_below(&seed, 4);
        sample_input in = sampling_input(logits, n, &p);
        in.n_valid      = n - rng_below(&seed, 3);
        in.prompt       = prompt;
        in.n_prompt     = rng_below(&seed, 65);
        in.generated    = generated;
        in.n_generated  = rng_below(&seed, 65);
        in.eos          = eos;
        in.n_eos        = 2;
        in.allowed      = rng_below(&seed, 3) == 0 ? allowed : NULL;

        const bool        sure = naive_filter(&t, &in);
        sample_set        s;
        weir_error        err;
        const weir_status st = sample_filter(&s, &in, sampling_workspace(), &err);
        if (t.n == 0) {
            assert_int_equal(st, WEIR_NUMERICS);
            continue;
        }
        assert_int_equal(st, WEIR_OK);
        for (uint32_t i = 0; i < in.n_valid; i++) assert_int_equal(sampling_workspace()->seen[i], 0);
        if (!sure) continue;
        tried++;
        assert_int_equal(s.n, t.n);
        bool in_set[SAMPLING_MAX_VOCAB] = {false};
        for (uint32_t i = 0; i < t.n; i++) in_set[t.order[i]] = true;
        for (uint32_t i = 0; i < s.n; i++) assert_true(in_set[s.c[i].id]);
        if (p.top_p < 1 || (p.top_k > 0 && (uint32_t)p.top_k < in.n_valid))
            for (uint32_t i = 0; i < s.n; i++) assert_int_equal(s.c[i].id, t.order[i]);
        for (uint32_t i = 0; i < s.n; i += 7) {
            long double total = 0;
            for (uint32_t j = 0; j < t.n; j++) total += naive_weight(&t, j, p.temperature);
            const long double want = expl(((long double)s.c[i].z - s.z_max) / p.temperature) / total;
            assert_true(fabs(probability(&s, i) - (double)want) < 1e-13);
        }
    }
    assert_true(tried > 1000);
}

static void boundaries_of_the_filters(void **state)
{
    (void)state;
    /* Weights 1/2 1/4 1/8 1/8 up to the rounding of log 2. */
    const float        z[4] = {0.0f, -0.69314718f, -1.38629436f, -1.38629436f};
    weir_sample_params p    = NEUTRAL;
    const sample_input in   = sampling_input(z, 4, &p);
    p.top_p                 = 0.51; /* the token that crosses stays */
    expect_set(&in, 2, (const uint32_t[]){0, 1}, NULL);
    p.top_p = 0.49;
    expect_set(&in, 1, (const uint32_t[]){0}, NULL);
    p.top_p = 0;
    expect_set(&in, 1, (const uint32_t[]){0}, NULL);
    p.top_p = 0.8; /* of two equals the lower id */
    expect_set(&in, 3, (const uint32_t[]){0, 1, 2}, NULL);
    p.top_p = 1;
    p.top_k = 3;
    expect_set(&in, 3, (const uint32_t[]){0, 1, 2}, NULL);
    p.top_k = 0;
    p.min_p = 0.26;
    expect_set(&in, 1 + 1, (const uint32_t[]){0, 1}, NULL);
    p.min_p = 1;
    expect_set(&in, 1, (const uint32_t[]){0}, NULL);
    p.min_p       = 0;
    p.temperature = 1e-300; /* no overflow, no empty set */
    p.top_p       = 0.5;
    expect_set(&in, 1, (const uint32_t[]){0}, NULL);
}

static void xtc_drops_all_top_choices_but_the_last(void **state)
{
    (void)state;
    const float        z[5] = {1.0f, 2.0f, 0.5f, 1.5f, -4.0f}; /* p = .190 .516 .115 .313 .. over 1.134 */
    const uint32_t     eos  = 1;
    weir_sample_params p    = NEUTRAL;
    p.xtc_probability       = 1;
    p.xtc_threshold         = 0.15;
    sample_input in         = sampling_input(z, 5, &p);
    expect_set(&in, 3, (const uint32_t[]){0, 2, 4}, NULL);
    in.eos   = &eos;
    in.n_eos = 1;
    expect_set(&in, 4, (const uint32_t[]){0, 1, 2, 4}, NULL);
    in.n_eos        = 0;
    p.xtc_threshold = 0.9; /* nobody is that likely */
    expect_set(&in, 5, (const uint32_t[]){0, 1, 2, 3, 4}, NULL);
    p.xtc_threshold   = 0.15;
    p.xtc_probability = 0.25;
    int dropped       = 0;
    for (in.position = 0; in.position < 4000; in.position++) {
        sample_set s;
        weir_error err;
        assert_int_equal(sample_filter(&s, &in, sampling_workspace(), &err), WEIR_OK);
        dropped += s.n == 3;
    }
    assert_in_range(dropped, 1000 - 110, 1000 + 110); /* 4 standard deviations */
}

static void unusable_logits_are_reported(void **state)
{
    (void)state;
    weir_error         err;
    uint32_t           id;
    weir_sample_params p    = NEUTRAL;
    float              z[4] = {0, 1, 2, NAN};
    sample_input       in   = sampling_input(z, 4, &p);
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_NUMERICS);
    in.n_valid = 3; /* in the padding it does not matter */
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_OK);
    z[1] = INFINITY;
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_NUMERICS);
    z[0] = z[1] = z[2] = -INFINITY;
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_NUMERICS);
    z[0]                  = 1;
    const uint64_t nobody = 0;
    in.allowed            = &nobody;
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_NUMERICS);
    assert_non_null(strstr(err.text, "leave no token"));
    in.n_valid = 5;
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_INVALID);
    in.n_valid = 0;
    assert_int_equal(sample_token(&id, &in, sampling_workspace(), &err), WEIR_INVALID);
}

static void parameters_out_of_range_are_named(void **state)
{
    (void)state;
    weir_error err;
    assert_int_equal(weir_sample_params_check(&NEUTRAL, 8, &err), WEIR_OK);
    const weir_sample_params ok = example_params();
    assert_int_equal(weir_sample_params_check(&ok, 5, &err), WEIR_OK);

    const struct {
        size_t      offset;
        double      value;
        const char *text;
    } bad[] = {
        {offsetof(weir_sample_params, temperature), -0.1, "temperature: expected 0 to 5, found -0.1"},
        {offsetof(weir_sample_params, temperature), 5.5, "temperature: expected 0 to 5, found 5.5"},
        {offsetof(weir_sample_params, temperature), NAN, "temperature: expected 0 to 5, found nan"},
        {offsetof(weir_sample_params, top_p), 1.01, "top_p: expected 0 to 1, found 1.01"},
        {offsetof(weir_sample_params, min_p), -1, "min_p: expected 0 to 1, found -1"},
        {offsetof(weir_sample_params, presence_penalty), 2.5, "presence_penalty: expected -2 to 2, found 2.5"},
        {offsetof(weir_sample_params, frequency_penalty), -3, "frequency_penalty: expected -2 to 2, found -3"},
        {offsetof(weir_sample_params, repetition_penalty), 0, "repetition_penalty: expected above 0 to 1e6, found 0"},
        {offsetof(weir_sample_params, xtc_probability), 2, "xtc_probability: expected 0 to 1, found 2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weir_sample_params p = NEUTRAL;
        memcpy((char *)&p + bad[i].offset, &bad[i].value, sizeof(double));
        assert_int_equal(weir_sample_params_check(&p, 0, &err), WEIR_INVALID);
        assert_string_equal(err.text, bad[i].text);
    }
    weir_sample_params p = NEUTRAL;
    p.top_k              = -2;
    assert_int_equal(weir_sample_params_check(&p, 0, &err), WEIR_INVALID);
    assert_string_equal(err.text, "top_k: expected -1 or more, found -2");
    p        = NEUTRAL;
    p.choice = 16;
    assert_int_equal(weir_sample_params_check(&p, 0, &err), WEIR_INVALID);
    assert_string_equal(err.text, "choice: expected 0 to 15, found 16");
    p = ok;
    assert_int_equal(weir_sample_params_check(&p, 4, &err), WEIR_INVALID);
    assert_string_equal(err.text, "logit_bias: expected a token id below 4, found 4");
    const weir_logit_bias large = {1, 101};
    p.logit_bias                = &large;
    assert_int_equal(weir_sample_params_check(&p, 0, &err), WEIR_INVALID);
    p      = NEUTRAL;
    p.size = 8;
    assert_int_equal(weir_sample_params_check(&p, 0, &err), WEIR_INVALID);
}

static void fresh_seeds_differ(void **state)
{
    (void)state;
    uint64_t   a = 0, b = 0;
    weir_error err;
    assert_int_equal(sample_fresh_seed(&a, &err), WEIR_OK);
    assert_int_equal(sample_fresh_seed(&b, &err), WEIR_OK);
    assert_true(a != b && a >> 32 != 0 && b >> 32 != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example_after_every_step),
        cmocka_unit_test(temperature_comes_before_the_filters),
        cmocka_unit_test(temperature_zero_takes_the_best),
        cmocka_unit_test(greedy_paths_agree),
        cmocka_unit_test(filters_equal_the_naive_chain),
        cmocka_unit_test(boundaries_of_the_filters),
        cmocka_unit_test(xtc_drops_all_top_choices_but_the_last),
        cmocka_unit_test(unusable_logits_are_reported),
        cmocka_unit_test(parameters_out_of_range_are_named),
        cmocka_unit_test(fresh_seeds_differ),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
