/* cli/conversation.c - see conversation.h. */
#include "cli/conversation.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/reading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 256 << 20, FILE_DEPTH = 32 };

static weir_status no_memory(weir_error *err)
{
    return status_fail(err, WEIR_NO_MEMORY, "conversation: out of memory");
}

weir_status conversation_init(conversation *c, weir_error *err)
{
    *c = (conversation){.messages = json_array()};
    return c->messages != NULL ? WEIR_OK : no_memory(err);
}

static void drop_snapshots(conversation *c)
{
    for (size_t i = 0; i < CONVERSATION_SNAPSHOTS; i++) {
        weir_snapshot_free(c->snapshots[i]);
        c->snapshots[i] = NULL;
    }
}

void conversation_free(conversation *c)
{
    drop_snapshots(c);
    json_decref(c->messages);
    *c = (conversation){0};
}

static bool has_system(const conversation *c)
{
    const char *role = json_string_value(json_object_get(json_array_get(c->messages, 0), "role"));
    return role != NULL && strcmp(role, "system") == 0;
}

void conversation_clear(conversation *c)
{
    drop_snapshots(c); /* they are of the sequence that is reset */
    for (size_t keep = has_system(c) ? 1 : 0; json_array_size(c->messages) > keep;) conversation_drop(c);
}

static weir_status make_message(const char *role, const char *text, json_t **out, weir_error *err)
{
    if (!utf8_valid(text, strlen(text)))
        return status_fail(err, WEIR_INVALID, "%s message: expected UTF-8 text, found other bytes", role);
    *out = json_pack("{s:s, s:s}", "role", role, "content", text);
    return *out != NULL ? WEIR_OK : no_memory(err);
}

weir_status conversation_system(conversation *c, const char *text, weir_error *err)
{
    json_t *message = NULL;
    if (text[0] != '\0') TRY(make_message("system", text, &message, err));
    if (has_system(c)) (void)json_array_remove(c->messages, 0);
    if (message != NULL && json_array_insert_new(c->messages, 0, message) != 0) return no_memory(err);
    return WEIR_OK;
}

weir_status conversation_add(conversation *c, const char *role, const char *text, const char *reasoning,
                             weir_error *err)
{
    json_t *message;
    TRY(make_message(role, text, &message, err));
    if (reasoning != NULL && reasoning[0] != '\0')
        (void)json_object_set_new(message, "reasoning_content", json_string(reasoning));
    return json_array_append_new(c->messages, message) == 0 ? WEIR_OK : no_memory(err);
}

void conversation_drop(conversation *c)
{
    const size_t n = json_array_size(c->messages);
    if (n > 0) (void)json_array_remove(c->messages, n - 1);
}

/* The ids of the whole conversation, with the head of the reply or without. */
static weir_status render(const conversation *c, const weir_model *m, bool generation_prompt, weir_prompt *out,
                          weir_error *err)
{
    json_t *kwargs = json_pack("{s:b}", "add_generation_prompt", generation_prompt);
    if (c->thinking != THINK_TEMPLATE)
        (void)json_object_set_new(kwargs, "enable_thinking", json_boolean(c->thinking == THINK_ON));
    char       *messages = json_dumps(c->messages, JSON_COMPACT), *variables = json_dumps(kwargs, JSON_COMPACT);
    weir_status st = messages != NULL && variables != NULL ? weir_chat_render(m, messages, NULL, variables, out, err)
                                                           : no_memory(err);
    free(messages);
    free(variables);
    json_decref(kwargs);
    return st;
}

static uint32_t common_prefix(const uint32_t *a, size_t n_a, const uint32_t *b, size_t n_b)
{
    uint32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

/* Cuts the sequence to the longest state that the first `common` tokens allow;
 * one of them at least stays unread, for the logits. */
static weir_status cut_back(conversation *c, weir_sequence *s, uint32_t common, size_t n_prompt, weir_error *err)
{
    if (common == weir_sequence_length(s) && common < n_prompt) return WEIR_OK;
    for (size_t i = CONVERSATION_SNAPSHOTS; i-- > 0;) {
        if (c->snapshots[i] == NULL) continue;
        const uint32_t length = weir_snapshot_length(c->snapshots[i]);
        if (length <= common && length < n_prompt) return weir_sequence_rewind(s, c->snapshots[i], err);
        weir_snapshot_free(c->snapshots[i]);
        c->snapshots[i] = NULL;
    }
    weir_sequence_reset(s);
    return WEIR_OK;
}

static void take_snapshot(conversation *c, const weir_sequence *s)
{
    weir_snapshot *latest = c->snapshots[CONVERSATION_SNAPSHOTS - 1], *snap;
    if (latest != NULL && weir_snapshot_length(latest) == weir_sequence_length(s)) return;
    /* Without memory for one the next turn reads more, and is as right. */
    if (weir_sequence_snapshot(s, &snap, NULL) != WEIR_OK) return;
    weir_snapshot_free(c->snapshots[0]);
    memmove(c->snapshots, c->snapshots + 1, sizeof c->snapshots - sizeof c->snapshots[0]);
    c->snapshots[CONVERSATION_SNAPSHOTS - 1] = snap;
}

/* Appends the prompt from where the sequence is up to `end`. */
static weir_status read_up_to(weir_sequence *s, const weir_prompt *p, uint32_t end, progress *bar, weir_error *err)
{
    const uint32_t at = weir_sequence_length(s);
    if (at >= end) return WEIR_OK;
    return reading_append(s, p->ids.data + at, end - at, bar, err);
}

static weir_status read_prompt(conversation *c, weir_sequence *s, const weir_prompt *p, uint32_t boundary,
                               conversation_reading *out, weir_error *err)
{
    const uint32_t n      = (uint32_t)p->ids.n;
    const uint32_t common = common_prefix(weir_sequence_tokens(s), weir_sequence_length(s), p->ids.data, n);
    TRY(cut_back(c, s, common, n, err));
    out->kept = weir_sequence_length(s);

    const uint64_t start = clock_ns();
    progress       bar;
    progress_start(&bar, "reading");
    weir_status st = read_up_to(s, p, boundary, &bar, err);
    if (st == WEIR_OK && c->snapshot && weir_sequence_length(s) == boundary) take_snapshot(c, s);
    if (st == WEIR_OK) st = read_up_to(s, p, n, &bar, err);
    progress_end(&bar);
    out->seconds = (double)(clock_ns() - start) * 1e-9;
    return st;
}

weir_status conversation_read(conversation *c, const weir_model *m, const weir_engine *e, weir_sequence *s,
                              conversation_reading *out, weir_error *err)
{
    weir_engine_info info;
    weir_engine_get_info(e, &info);
    *out             = (conversation_reading){0};
    weir_prompt full = {0}, closed = {0};
    uint32_t    before = 0;

    weir_status st = render(c, m, true, &full, err);
    if (st == WEIR_OK && full.ids.n >= info.max_context)
        st = status_fail(err, WEIR_INVALID,
                         "the conversation takes %zu tokens, the context (--ctx) has room for %" PRIu32, full.ids.n,
                         info.max_context);
    if (st == WEIR_OK && c->snapshot) {
        st = render(c, m, false, &closed, err);
        if (st == WEIR_OK) before = common_prefix(full.ids.data, full.ids.n, closed.ids.data, closed.ids.n);
    }
    if (st == WEIR_OK) {
        out->prompt        = (uint32_t)full.ids.n;
        out->thinking_open = full.thinking_open;
        st                 = read_prompt(c, s, &full, before, out, err);
    }
    weir_prompt_free(&closed);
    weir_prompt_free(&full);
    return st;
}

weir_status conversation_save(const conversation *c, const char *path, weir_error *err)
{
    json_t *root = json_pack("{s:O}", "messages", c->messages);
    if (c->thinking != THINK_TEMPLATE)
        (void)json_object_set_new(root, "enable_thinking", json_boolean(c->thinking == THINK_ON));
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (text == NULL) return no_memory(err);

    file_writer w;
    weir_status st = file_create(&w, path, err);
    if (st == WEIR_OK) st = file_write(&w, text, strlen(text), err);
    if (st == WEIR_OK) st = file_write(&w, "\n", 1, err);
    if (st == WEIR_OK) st = file_commit(&w, err);
    file_abandon(&w);
    free(text);
    return st;
}

static bool is_role(const char *role)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(role, roles[i]) == 0) return true;
    return false;
}

/* Each message is an object with a known role and text; the rest is the
 * template's business. */
static weir_status check_messages(const json_t *messages, const char *path, weir_error *err)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        if (!json_is_object(m))
            return status_fail(err, WEIR_FORMAT, "%s: messages[%zu]: expected an object, found %s", path, i,
                               json_kind(m));
        char where[40];
        (void)snprintf(where, sizeof where, "messages[%zu]", i);
        const json_at at = {.file = path, .where = where, .obj = m};
        const char   *role, *content;
        TRY(json_get_string(&at, "role", true, &role, err));
        TRY(json_get_string(&at, "content", true, &content, err));
        if (!is_role(role))
            return status_fail(err, WEIR_FORMAT,
                               "%s: %s.role: expected system, user, assistant or tool, found \"%.40s\"", path, where,
                               role);
    }
    return WEIR_OK;
}

weir_status conversation_load(conversation *c, const char *path, weir_error *err)
{
    json_doc doc;
    TRY(json_load(&doc, path, FILE_MAX, FILE_DEPTH, err));
    const json_at at       = {.file = path, .where = "", .obj = doc.root};
    const json_t *messages = NULL;
    bool          thinking = false;
    weir_status   st       = WEIR_OK;
    if (!json_is_object(doc.root))
        st = status_fail(err, WEIR_FORMAT, "%s: expected a JSON object, found %s", path, json_kind(doc.root));
    if (st == WEIR_OK) st = json_get_array(&at, "messages", true, &messages, err);
    if (st == WEIR_OK) st = json_get_bool(&at, "enable_thinking", false, &thinking, err);
    if (st == WEIR_OK) st = check_messages(messages, path, err);
    json_t *copy = st == WEIR_OK ? json_deep_copy(messages) : NULL;
    if (st == WEIR_OK && copy == NULL) st = no_memory(err);
    if (st == WEIR_OK) {
        const bool given = json_is_boolean(json_object_get(doc.root, "enable_thinking"));
        json_decref(c->messages);
        c->messages = copy;
        c->thinking = !given ? THINK_TEMPLATE : thinking ? THINK_ON : THINK_OFF;
    }
    json_doc_free(&doc);
    return st;
}
