/* tests/exact/test_lora_later.c - adapters that come to a running engine and leave it: the
 * same bits as with those that were there from the start, within the memory that was set
 * aside, and never from under a sequence or a request. */
#include "engine/adapters.h"
#include "support/adapters.h"
#include "support/cmocka.h"
#include "support/engines.h"
#include "support/heard.h"
#include "unit/checkpoint/made_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 70, PART = 13, RANK_A = 4, RANK_B = 9 };

typedef struct desk {
    weir_model         *m;
    weir_adapter       *a, *b;
    weir_adapter_choice both[2];
    uint32_t           *ids;
    size_t              logits_bytes;
} desk;

static void desk_open(desk *d, const char *name)
{
    *d              = (desk){.m = model_named(name)};
    d->a            = adapter_made(d->m, &(adapter_recipe){.seed = 1, .rank = RANK_A, .scale = 2.0});
    d->b            = adapter_made(d->m, &(adapter_recipe){.seed = 2, .rank = RANK_B, .scale = 0.75, .bf16 = true});
    d->both[0]      = (weir_adapter_choice){d->b, 0.5f};
    d->both[1]      = (weir_adapter_choice){d->a, -0.25f};
    d->ids          = random_ids(d->m, LENGTH, 7);
    d->logits_bytes = checkpoint_config(d->m->c)->vocab_size * sizeof(float);
}

static void desk_close(desk *d)
{
    free(d->ids);
    weir_adapter_close(d->a);
    weir_adapter_close(d->b);
    weir_model_close(d->m);
}

/* Nothing listed, room for some. */
static weir_engine *roomy(const desk *d, weir_engine_options o)
{
    o.max_context      = 256;
    o.max_sequences    = 3;
    o.max_adapter_rank = o.max_adapter_rank != 0 ? o.max_adapter_rank : RANK_B;
    if (o.max_adapters == 0) o.max_adapters = 2;
    return engine_with(d->m, o);
}

static void add(weir_engine *e, const weir_adapter *a)
{
    weir_error err;
    must(weir_engine_add_adapter(e, a, &err), &err);
}

static void take_away(weir_engine *e, const weir_adapter *a)
{
    weir_error err;
    must(weir_engine_remove_adapter(e, a, &err), &err);
}

/* Logits after all ids of a sequence with n choices; free(). */
static float *logits_on(const desk *d, weir_engine *e, const weir_adapter_choice *choices, size_t n)
{
    weir_error     err;
    weir_sequence *s   = sequence_on(e);
    float         *out = malloc(d->logits_bytes);
    assert_non_null(out);
    must(weir_sequence_set_adapters(s, choices, n, &err), &err);
    append(s, d->ids, LENGTH);
    memcpy(out, weir_sequence_logits(s), d->logits_bytes);
    weir_sequence_free(s);
    return out;
}

static void check_bits(const desk *d, weir_engine *e, const weir_adapter_choice *choices, size_t n,
                       const float *expected, const char *what)
{
    float *found = logits_on(d, e, choices, n);
    if (memcmp(found, expected, d->logits_bytes) != 0) fail_msg("%s: other bits", what);
    free(found);
}

static void check_later(const char *name)
{
    desk d;
    desk_open(&d, name);
    const weir_adapter       *list[] = {d.a, d.b};
    const weir_adapter_choice one    = {d.a, 1.0f};
    weir_engine *e    = engine_with(d.m, (weir_engine_options){.max_context = 256, .adapters = list, .n_adapters = 2});
    float       *with = logits_on(&d, e, d.both, 2), *with_a = logits_on(&d, e, &one, 1);
    float       *plain = logits_on(&d, e, NULL, 0);
    weir_engine_close(e);
    assert_memory_not_equal(with, plain, d.logits_bytes);

    e = roomy(&d, (weir_engine_options){.threads = 2});
    /* Somebody without adapters is half-way when they come and when they go. */
    weir_sequence *s = sequence_on(e);
    append(s, d.ids, PART);
    add(e, d.b);
    add(e, d.a);
    append(s, d.ids + PART, PART);
    check_bits(&d, e, d.both, 2, with, "added later");
    check_bits(&d, e, &one, 1, with_a, "one of them");
    take_away(e, d.b);
    check_bits(&d, e, &one, 1, with_a, "the one that stayed");
    add(e, d.b);
    check_bits(&d, e, d.both, 2, with, "come again");
    append(s, d.ids + 2 * PART, LENGTH - 2 * PART);
    assert_memory_equal(weir_sequence_logits(s), plain, d.logits_bytes);
    weir_sequence_free(s);
    weir_engine_close(e);
    free(with);
    free(with_a);
    free(plain);
    desk_close(&d);
}

static void test_the_same_bits(void **unused)
{
    (void)unused;
    check_later("tiny-odd");
    check_later("tiny-moe");
    check_later("mlx-q4");
}

static void refused_while(weir_engine *e, const weir_adapter *a, uint32_t users)
{
    weir_error err;
    char       text[80];
    (void)snprintf(text, sizeof text, "found one of %u sequences and requests", users);
    check_failure(weir_engine_remove_adapter(e, a, &err), WEIR_INVALID, &err, "in use",
                  (const char *const[]){"expected one that nothing uses", text, NULL});
}

static void test_sequences_keep_them(void **unused)
{
    (void)unused;
    desk           d;
    weir_error     err;
    weir_sequence *fork;
    desk_open(&d, "tiny-odd");
    weir_engine   *e = roomy(&d, (weir_engine_options){.threads = 1});
    weir_sequence *s = sequence_on(e);
    add(e, d.a);
    add(e, d.b);
    must(weir_sequence_set_adapters(s, d.both, 2, &err), &err);
    refused_while(e, d.a, 1);
    must(weir_sequence_fork(&fork, s, &err), &err);
    refused_while(e, d.b, 2);
    /* Chosen anew: the old choice is let go. */
    must(weir_sequence_set_adapters(s, &d.both[1], 1, &err), &err);
    refused_while(e, d.b, 1);
    refused_while(e, d.a, 2);
    weir_sequence_free(s);
    weir_sequence_reset(fork); /* which keeps them */
    refused_while(e, d.b, 1);
    weir_sequence_free(fork);
    take_away(e, d.a);
    take_away(e, d.b);
    check_failure(weir_engine_remove_adapter(e, d.b, &err), WEIR_INVALID, &err, "gone",
                  (const char *const[]){"expected one of the engine's", NULL});
    s = sequence_on(e);
    check_failure(weir_sequence_set_adapters(s, d.both, 2, &err), WEIR_INVALID, &err, "gone",
                  (const char *const[]){"expected one of the engine's", NULL});
    /* A free slot is nobody's adapter. */
    check_failure(weir_sequence_set_adapters(s, &(weir_adapter_choice){NULL, 1.0f}, 1, &err), WEIR_INVALID, &err,
                  "none", (const char *const[]){"expected one of the engine's", NULL});
    check_failure(weir_engine_remove_adapter(e, NULL, &err), WEIR_INVALID, &err, "none",
                  (const char *const[]){"expected one of the engine's", NULL});
    weir_sequence_free(s);
    weir_engine_close(e);
    desk_close(&d);
}

/* ---- requests ---- */

static weir_request *ask(const desk *d, weir_engine *e, const weir_adapter_choice *choices, size_t n, heard *h)
{
    weir_error                   err;
    weir_request                *r;
    static weir_generate_options g = WEIR_GENERATE_OPTIONS_INIT;
    weir_request_options         o = WEIR_REQUEST_OPTIONS_INIT;
    g.max_tokens                   = 12;
    g.logprobs                     = true;
    o.prompt                       = d->ids;
    o.n_prompt                     = LENGTH;
    o.generate                     = &g;
    o.adapters                     = choices;
    o.n_adapters                   = n;
    o.token                        = hear;
    o.user                         = h;
    memset(h, 0, sizeof *h);
    must(weir_engine_submit(e, &o, &r, &err), &err);
    return r;
}

static uint32_t finish(weir_engine *e, weir_request *r)
{
    weir_error        err;
    weir_request_info info;
    for (uint32_t left = 1; left > 0;) must(weir_engine_step(e, &left, &err), &err);
    weir_request_get_info(r, &info);
    assert_int_equal(info.status, WEIR_OK);
    return info.cached_tokens;
}

static void test_requests_keep_them(void **unused)
{
    (void)unused;
    desk       d;
    weir_error err;
    heard      first, other, again;
    desk_open(&d, "tiny-dense");
    weir_engine *e = roomy(&d, (weir_engine_options){.threads = 1, .chunk = PART, .cache_memory = 64 << 20});
    add(e, d.a);
    weir_request *r = ask(&d, e, &d.both[1], 1, &first);
    refused_while(e, d.a, 1); /* it waits */
    must(weir_engine_step(e, NULL, &err), &err);
    refused_while(e, d.a, 2); /* it and its sequence */
    add(e, d.b);              /* while one is under way */
    weir_request *beside = ask(&d, e, d.both, 2, &other);
    assert_int_equal(finish(e, r), 0);
    take_away(e, d.a); /* they are done, if not yet freed */
    take_away(e, d.b);
    weir_request_free(r);
    weir_request_free(beside);

    /* Who is called off has nothing any more. */
    add(e, d.b);
    add(e, d.a);
    r = ask(&d, e, d.both, 2, &again);
    must(weir_engine_step(e, NULL, &err), &err);
    weir_request_cancel(r);
    take_away(e, d.b);
    add(e, d.b);
    weir_request_free(r);

    /* In other slots, the cache knows them still. */
    r = ask(&d, e, &d.both[1], 1, &again);
    assert_in_range(finish(e, r), 1, LENGTH);
    assert_memory_equal(&first, &again, sizeof first);
    weir_request_free(r);
    r = ask(&d, e, d.both, 2, &again);
    assert_in_range(finish(e, r), 1, LENGTH);
    assert_memory_equal(&other, &again, sizeof other);
    weir_request_free(r);
    weir_engine_close(e);
    desk_close(&d);
}

/* ---- memory ---- */

static void check_refused(weir_engine *e, const weir_adapter *a, weir_status st, const char *text)
{
    weir_error err;
    check_failure(weir_engine_add_adapter(e, a, &err), st, &err, text, (const char *const[]){text, NULL});
}

static void test_within_what_is_set_aside(void **unused)
{
    (void)unused;
    desk              d, other;
    weir_adapter_info a, b;
    desk_open(&d, "tiny-odd");
    desk_open(&other, "tiny-moe");
    weir_adapter_get_info(d.a, &a);
    weir_adapter_get_info(d.b, &b);
    weir_engine *e = roomy(&d, (weir_engine_options){.threads = 1, .max_adapter_rank = RANK_B - 1, .max_adapters = 1});
    check_refused(e, d.b, WEIR_INVALID, "expected a rank of at most 8 (max_adapter_rank), found 9");
    check_refused(e, other.a, WEIR_INVALID, "expected one of this model");
    add(e, d.a);
    check_refused(e, d.a, WEIR_INVALID, "expected another than those of the engine");
    check_refused(e, d.b, WEIR_NO_MEMORY, "expected at most 1 at once (max_adapters)");
    weir_engine_close(e);

    e = roomy(&d, (weir_engine_options){.threads = 1, .max_adapters = 4, .adapter_memory = a.bytes + b.bytes - 1});
    add(e, d.b);
    check_refused(e, d.a, WEIR_NO_MEMORY, "(adapter_memory)");
    take_away(e, d.b);
    add(e, d.a);
    weir_engine_close(e);

    /* Whoever was listed and leaves makes room. */
    const weir_adapter *list[] = {d.b};
    e = engine_with(d.m, (weir_engine_options){.max_context = 64, .adapters = list, .n_adapters = 1, .threads = 1});
    check_refused(e, d.a, WEIR_NO_MEMORY, "(max_adapters)");
    take_away(e, d.b);
    add(e, d.a);
    weir_engine_close(e);
    desk_close(&d);
    desk_close(&other);
}

static void test_fit_counts_the_room(void **unused)
{
    (void)unused;
    desk       d;
    weir_error err;
    weir_fit   none, room, more;
    desk_open(&d, "tiny-odd");
    weir_engine_options o = WEIR_ENGINE_OPTIONS_INIT;
    o.max_context         = 256;
    must(weir_engine_fit(d.m, &o, &none, &err), &err);
    o.max_adapters     = 3;
    o.max_adapter_rank = 8;
    o.adapter_memory   = 1 << 20;
    must(weir_engine_fit(d.m, &o, &room, &err), &err);
    assert_true(room.adapter_bytes > 1 << 20);
    assert_int_equal(room.total_bytes - none.total_bytes,
                     room.adapter_bytes + room.workspace_bytes - none.workspace_bytes);
    o.adapter_memory += 12345;
    must(weir_engine_fit(d.m, &o, &more, &err), &err);
    assert_int_equal(more.adapter_bytes, room.adapter_bytes + 12345);
    /* Without a number: room for three on every matrix in 16 bits. */
    weir_adapter     *full = adapter_made(d.m, &(adapter_recipe){.seed = 3, .rank = 8, .scale = 1, .bf16 = true});
    weir_adapter_info info;
    weir_adapter_get_info(full, &info);
    o.adapter_memory = 0;
    must(weir_engine_fit(d.m, &o, &more, &err), &err);
    assert_int_equal(more.adapter_bytes - room.adapter_bytes, 3 * info.bytes - (1 << 20));
    weir_adapter_close(full);

    o.adapter_memory = 1;
    o.max_adapters   = 0;
    check_failure(weir_engine_fit(d.m, &o, &more, &err), WEIR_INVALID, &err, "no slots",
                  (const char *const[]){"max_adapter_rank: needs a max_adapters", NULL});
    const weir_adapter *list[] = {d.a, d.b};
    o.adapters                 = list;
    o.n_adapters               = 2;
    o.max_adapters             = 1;
    check_failure(weir_engine_fit(d.m, &o, &more, &err), WEIR_INVALID, &err, "fewer than listed",
                  (const char *const[]){"max_adapters: expected at least the 2 listed, found 1", NULL});
    desk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_bits),       cmocka_unit_test(test_sequences_keep_them),
        cmocka_unit_test(test_requests_keep_them),  cmocka_unit_test(test_within_what_is_set_aside),
        cmocka_unit_test(test_fit_counts_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
