/* cli/conversation.c - see conversation.h. */
#include "cli/conversation.h"

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

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

void conversation_free(conversation *c)
{
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

weir_status conversation_render(const conversation *c, const weir_model *m, weir_prompt *out, weir_error *err)
{
    json_t *kwargs = json_pack("{s:b}", "add_generation_prompt", true);
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
