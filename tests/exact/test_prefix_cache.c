/* tests/exact/test_prefix_cache.c - what a conversation costs to read again, and
 * that it says the same as when it is read anew.
 *
 * "Ideal" is the number of tokens after the longest common prefix with anything
 * that was sent before. */
#include "support/cmocka.h"
#include "support/talks.h"

#include "engine/anchors.h"

#include <string.h>

enum { CONTEXT = 24576, REPLY = 6, MAX_SENT = 64, SLACK = 256, SLACK_UNCHANGED = 64 };

typedef struct desk {
    weir_model  *m;
    weir_engine *e, *plain; /* plain: without a cache; NULL: nothing to compare with */
    chat_marks   marks;
    text         sent[MAX_SENT];
    size_t       n_sent;
} desk;

static weir_engine *engine_of(const weir_model *m, uint64_t cache)
{
    return engine_with(m, (weir_engine_options){.threads = 2, .max_context = CONTEXT, .cache_memory = cache});
}

static void desk_open(desk *d, uint64_t cache, bool compare)
{
    *d       = (desk){.m = model_named("demo")};
    d->e     = engine_of(d->m, cache);
    d->plain = compare ? engine_of(d->m, 0) : NULL;
    d->marks = chat_marks_of(d->m);
}

static void desk_close(desk *d)
{
    for (size_t i = 0; i < d->n_sent; i++) text_free(&d->sent[i]);
    weir_engine_close(d->e);
    weir_engine_close(d->plain);
    weir_model_close(d->m);
}

static uint32_t common(const text *a, const text *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->ids[n] == b->ids[n]) n++;
    return n;
}

static void remember(desk *d, const text *t, const reply *r)
{
    assert_true(d->n_sent < MAX_SENT);
    text *s = &d->sent[d->n_sent++];
    *s      = text_new(CONTEXT);
    memcpy(s->ids, t->ids, t->n * sizeof *t->ids);
    s->n = t->n;
    for (size_t i = 0; i + 1 < r->said.n; i++) text_put(s, r->said.ids[i]); /* the last one was not read */
}

/* Sends t; it may read `slack` tokens more than the ideal, and says what it says alone. */
static uint32_t send(desk *d, const text *t, uint32_t slack, const char *what)
{
    reply    r, alone;
    uint32_t known = 0;
    for (size_t i = 0; i < d->n_sent; i++) {
        const uint32_t n = common(t, &d->sent[i]);
        known            = n > known ? n : known;
    }
    ask(d->e, t, REPLY, &r);
    if (d->plain != NULL) {
        ask(d->plain, t, REPLY, &alone);
        assert_memory_equal(&r.said, &alone.said, sizeof r.said);
    }
    const uint32_t read = t->n - r.info.cached_tokens, ideal = t->n - known;
    print_message("%-44s %5u tokens, ideal %5u, read %5u\n", what, t->n, ideal, read);
    if (read > ideal + slack) fail_msg("%s: read %u tokens, ideal %u", what, read, ideal);
    remember(d, t, &r);
    return read;
}

/* The eight ways in which a client goes on with, or changes, what it has sent. */
static void scenarios(uint32_t n)
{
    desk d;
    desk_open(&d, 2ull << 30, n < 1000); /* the long ones take long to read anew */
    text t = text_new(CONTEXT);
#define NEW(...) \
    t.n = 0; \
    __VA_ARGS__; \
    generation_prompt(&d.marks, &t)
    NEW(message(&d.marks, &t, 1, n), message(&d.marks, &t, 2, n));
    send(&d, &t, SLACK, "cold");
    NEW(message(&d.marks, &t, 1, n), message(&d.marks, &t, 2, n), message(&d.marks, &t, 3, n),
        message(&d.marks, &t, 4, n));
    send(&d, &t, SLACK, "second turn appended");
    t.ids[3 * n + n / 2] += 1;
    send(&d, &t, SLACK, "last message edited in its middle");
    send(&d, &t, SLACK_UNCHANGED, "the same request unchanged");
    NEW(message(&d.marks, &t, 1, n), message(&d.marks, &t, 2, n));
    t.ids[n + n / 2] += 1;
    send(&d, &t, SLACK, "first user message edited in its middle");
    NEW(message(&d.marks, &t, 1, n), message(&d.marks, &t, 5, n));
    send(&d, &t, SLACK, "new second message after the first boundary");
    NEW(message(&d.marks, &t, 1, n), message(&d.marks, &t, 2, n), message(&d.marks, &t, 3, n),
        message(&d.marks, &t, 4, n), message(&d.marks, &t, 6, n), message(&d.marks, &t, 7, n));
    send(&d, &t, SLACK, "back to an earlier conversation, third turn");
    NEW(message(&d.marks, &t, 1, n), message(&d.marks, &t, 2, n));
    t.ids[n / 2] += 1;
    send(&d, &t, SLACK, "system text edited in its middle");
#undef NEW
    text_free(&t);
    desk_close(&d);
}

static void test_messages_of_600(void **given)
{
    (void)given;
    scenarios(600);
}

static void test_messages_of_3000(void **given)
{
    (void)given;
    scenarios(3000);
}

/* The second request renders the first answer without its thinking: only that
 * answer and what is new are read. */
static void test_thinking_is_dropped(void **given)
{
    (void)given;
    desk d;
    desk_open(&d, 256u << 20, false);
    text  t = text_new(CONTEXT);
    reply r, again;
    message(&d.marks, &t, 1, 200);
    message(&d.marks, &t, 2, 300);
    const uint32_t before = t.n;
    generation_prompt(&d.marks, &t);
    ask(d.e, &t, REPLY, &r); /* thinks */
    t.n = before;
    message(&d.marks, &t, 3, 40); /* the answer as it is rendered now */
    message(&d.marks, &t, 4, 60);
    generation_prompt(&d.marks, &t);
    ask(d.e, &t, REPLY, &again);
    const uint32_t read = t.n - again.info.cached_tokens;
    print_message("thinking dropped: %u tokens read again, %u are new\n", read, t.n - before);
    assert_true(read <= t.n - before + 16);
    text_free(&t);
    desk_close(&d);
}

/* From the middle of a long conversation another one branches off. */
static void test_branch_of_a_long_one(void **given)
{
    (void)given;
    enum { LONG = 20000, NEW = 100 };
    desk d;
    desk_open(&d, 1ull << 30, false);
    text  whole = text_new(CONTEXT), t = text_new(CONTEXT);
    reply r;
    for (uint64_t i = 0; whole.n + 1000 <= LONG; i++) message(&d.marks, &whole, i, 1000);
    generation_prompt(&d.marks, &whole);
    ask(d.e, &whole, 1, &r);
    for (uint32_t at = 1000; at < LONG; at += 6151) {
        memcpy(t.ids, whole.ids, at * sizeof *t.ids);
        t.n = at;
        message(&d.marks, &t, 99 + at, NEW);
        generation_prompt(&d.marks, &t);
        ask(d.e, &t, 1, &r);
        const uint32_t read = t.n - r.info.cached_tokens;
        print_message("branch at %u: %u tokens read, %u are new\n", at, read, t.n - at);
        assert_true(read <= ANCHOR_STRIDE + t.n - at);
    }
    text_free(&whole);
    text_free(&t);
    desk_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_600),
        cmocka_unit_test(test_messages_of_3000),
        cmocka_unit_test(test_thinking_is_dropped),
        cmocka_unit_test(test_branch_of_a_long_one),
    };
    return cmocka_run_group_tests_name("prefix cache", tests, NULL, NULL);
}
