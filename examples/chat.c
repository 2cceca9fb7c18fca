/* examples/chat.c - one reply of a model: chat MODEL TEXT.  TEXT without quotes or backslashes. */
#include <stdio.h>
#include <weir/weir.h>

static bool print(void *user, const weir_token *t)
{
    (void)user;
    return fwrite(t->text, 1, t->text_len, stdout) == t->text_len && fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
    weir_error     err;
    weir_model    *model    = NULL;
    weir_engine   *engine   = NULL;
    weir_sequence *sequence = NULL;
    weir_prompt    prompt   = {0};
    char           messages[4096];
    (void)snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", argc > 2 ? argv[2] : "Hello.");
    const char *settings = "{\"add_generation_prompt\": true, \"enable_thinking\": false}";

    const bool failed = weir_model_open(&model, argc > 1 ? argv[1] : "models/demo", &err) || weir_engine_open(&engine, model, NULL, &err) ||
                        weir_sequence_new(&sequence, engine, &err) || weir_chat_render(model, messages, NULL, settings, &prompt, &err) ||
                        weir_sequence_append(sequence, prompt.ids.data, prompt.ids.n, NULL, NULL, &err) ||
                        weir_generate(sequence, NULL, print, NULL, NULL, &err);
    failed ? (void)fprintf(stderr, "%s\n", err.text) : (void)putchar('\n');
    weir_prompt_free(&prompt), weir_sequence_free(sequence), weir_engine_close(engine), weir_model_close(model);
    return failed;
}
