/* cli/cmd_tokenize.c - `weir tokenize`: text to token ids. */
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include "base/mem.h"
#include "weir/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const arg_option tokenize_options[] = {
    {"--prompt", "-p", ARG_STRING, offsetof(options, prompt), 0, "TEXT", 0, 0,
     "the text (default, and for \"-\": all of stdin)"},
    {"--plain", NULL, ARG_FLAG, offsetof(options, plain), 0, NULL, 0, 0,
     "take spellings of added tokens, such as <|im_end|>,\nfor ordinary text"},
};
static const arg_group        tokenize_group = ARG_GROUP("Options", tokenize_options);
static const arg_group *const groups[]       = {&tokenize_group, &options_common, NULL};

static int print_json(const weir_model *m, const weir_ids *ids)
{
    json_t *list = json_array(), *pieces = json_array();
    for (size_t i = 0; i < ids->n; i++) {
        size_t         len;
        const uint8_t *bytes = weir_token_bytes(m, ids->data[i], &len);
        (void)json_array_append_new(list, json_integer(ids->data[i]));
        (void)json_array_append_new(pieces, cli_json_text(bytes != NULL ? (const char *)bytes : "", len));
    }
    return cli_print_json(json_pack("{s:o, s:o}", "ids", list, "pieces", pieces));
}

/* A line a token; the piece as a JSON string, so that blanks can be seen. */
static int print_lines(const weir_model *m, const weir_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        size_t         len;
        const uint8_t *bytes = weir_token_bytes(m, ids->data[i], &len);
        json_t        *piece = cli_json_text(bytes != NULL ? (const char *)bytes : "", len);
        (void)printf("%8" PRIu32 "  ", ids->data[i]);
        char *text = json_dumps(piece, JSON_ENCODE_ANY);
        if (text != NULL && terminal_stdout())
            (void)cli_put_clean(stdout, text, strlen(text));
        else if (text != NULL)
            (void)fputs(text, stdout);
        free(text);
        (void)fputc('\n', stdout);
        json_decref(piece);
    }
    return cli_flush();
}

static int tokenize(const options *o)
{
    const bool from_stdin = o->prompt == NULL || strcmp(o->prompt, "-") == 0;
    if (from_stdin && terminal_stdin()) return cli_usage("tokenize: expected -p TEXT, or text on stdin");
    session    s;
    weir_error err;
    if (session_open(&s, o, &err) != WEIR_OK) return cli_fail(&err);

    char       *read = NULL;
    size_t      len  = from_stdin ? 0 : strlen(o->prompt);
    weir_ids    ids  = {0};
    weir_status st   = from_stdin ? input_stdin(&read, &len, &err) : WEIR_OK;
    if (st == WEIR_OK) st = weir_tokenize(s.model, read != NULL ? read : o->prompt, len, !o->plain, &ids, &err);
    int code;
    if (st != WEIR_OK)
        code = cli_fail(&err);
    else
        code = o->json ? print_json(s.model, &ids) : print_lines(s.model, &ids);
    weir_ids_free(&ids);
    mem_free(read);
    session_close(&s);
    return code;
}

const command cmd_tokenize = {
    .name    = "tokenize",
    .summary = "show the token ids of a text",
    .usage   = "MODEL [-p TEXT] [options]",
    .details = "A line for each token: its id and the text it stands for.  A token may hold part of a\n"
               "character, which is shown as U+FFFD.\n",
    .model   = CLI_MODEL_REQUIRED,
    .groups  = groups,
    .run     = tokenize,
};
