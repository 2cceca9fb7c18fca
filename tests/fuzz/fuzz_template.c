/* tests/fuzz/fuzz_template.c - any bytes as a chat template, and as messages.
 *
 * An input is a template; what follows the first line "=====" in it, if it is
 * JSON, is the list of messages.  Limits are small, so that every input is
 * quick; what is rendered must have a mark of 0 or 1 for every byte. */
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char talk[] =
    "[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a "
    "<|im_end|>\"}]},"
    "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"r\",\"tool_calls\":[{\"function\":{\"name\":"
    "\"f\","
    "\"arguments\":\"{\\\"x\\\":[1,2.5,null,true]}\"}}]},{\"role\":\"tool\",\"content\":\"\\u00fc\\n\"},"
    "{\"role\":\"system\",\"content\":\"late\"},{\"role\":\"user\",\"content\":\"<tool_response>\"}]";
static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"n\":1}}}]";
static const char kwargs[] =
    "{\"add_generation_prompt\":true,\"enable_thinking\":false,\"n\":3,\"s\":\"text\",\"list\":[3,1,2]}";

static void check(weir_status st, const chat_prompt *p, const weir_error *err)
{
    if (st != WEIR_OK && (err->text[0] == '\0' && err->status == WEIR_OK)) abort(); /* every failure says why */
    if (st != WEIR_OK && p->text.text != NULL) abort();
    for (size_t i = 0; i < p->text.len; i++)
        if (p->text.untrusted[i] > 1) abort();
    if (p->text.text != NULL && p->text.text[p->text.len] != '\0') abort();
}

static void render(const template *t, const json_t *messages)
{
    const template_options limits = {.max_steps = 20000, .max_memory = 1 << 20, .max_output = 1 << 16, .now = 1};
    json_t                *k = json_loads(kwargs, 0, NULL), *w = json_loads(tools, 0, NULL);
    const chat_request     r   = {.messages = messages, .tools = w, .kwargs = k};
    weir_error             err = {.status = WEIR_OK};
    chat_prompt            out;
    const weir_status      st = chat_render(t, &r, &limits, &out, &err);
    check(st, &out, &err);
    chat_prompt_free(&out);
    json_decref(k);
    json_decref(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char cut[]  = "\n=====\n";
    const char       *text   = (const char *)data;
    size_t            length = size;
    json_t           *own    = NULL;
    for (size_t i = 0; i + strlen(cut) <= size && length == size; i++)
        if (memcmp(text + i, cut, strlen(cut)) == 0) length = i;
    if (length < size)
        own = json_loadb(text + length + strlen(cut), size - length - strlen(cut), JSON_DECODE_ANY, NULL);
    template  *t;
    weir_error err = {.status = WEIR_OK};
    if (template_parse(&t, text, length, "fuzz", &err) == WEIR_OK) {
        json_t *messages = own != NULL ? json_incref(own) : json_loads(talk, 0, NULL);
        render(t, messages);
        json_decref(messages);
    } else if (err.status == WEIR_OK) {
        abort();
    }
    template_free(t);
    json_decref(own);
    return 0;
}
