/* examples/chat.c - one reply: chat MODEL TEXT (TEXT without quotes and backslashes). */
#include <stdio.h>
#include <weir/weir.h>

static bool print(void *user, const weir_token *t)
{
    return fwrite(t->text, 1, t->text_len, user) == t->text_len && fflush(user) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "usage: chat MODEL TEXT\n"), 2;
    weir_error     err;
    weir_model    *model    = NULL;
    weir_engine   *engine   = NULL;
    weir_sequence *sequence = NULL;
    weir_prompt    prompt   = {0};
    char           messages[4096];
    (void)snprintf(messages, sizeof messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", argv[2]);
    const char *variables = "{\"add_generation_prompt\": true, \"enable_thinking\": false}";
    const bool  failed    = weir_model_open(&model, argv[1], &err) || weir_engine_open(&engine, model, NULL, &err) ||
                        weir_sequence_new(&sequence, engine, &err) ||
                        weir_chat_render(model, messages, NULL, variables, &prompt, &err) ||
                        weir_sequence_append(sequence, prompt.ids.data, prompt.ids.n, NULL, NULL, &err) ||
                        weir_generate(sequence, NULL, print, stdout, NULL, &err);
    (void)(failed ? fprintf(stderr, "%s\n", err.text) : putchar('\n'));
    weir_prompt_free(&prompt), weir_sequence_free(sequence), weir_engine_close(engine), weir_model_close(model);
    return failed;
}
