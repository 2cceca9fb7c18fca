/* cli/main.c - the table of commands. */
#include "cli/cli.h"
#include "cli/settings.h"
#include "cli/terminal.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static const command *const commands[] = {&cmd_run,     &cmd_serve,    &cmd_pull,   &cmd_ls,    &cmd_rm,
                                          &cmd_inspect, &cmd_tokenize, &cmd_logits, &cmd_eval,  &cmd_bench,
                                          &cmd_fit,     &cmd_quantize, &cmd_merge,  &cmd_verify};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    (void)fputs("weir: unknown command \"", stderr);
    (void)cli_put_clean(stderr, name, strlen(name));
    (void)fputs("\"; expected one of", stderr);
    for (size_t i = 0; i < N_COMMANDS; i++) (void)fprintf(stderr, " %s", commands[i]->name);
    (void)fputs(" help\n", stderr);
    return CLI_USAGE;
}

static int help(void)
{
    (void)printf("weir %s - an exact inference engine for the Qwen3.5 family of models\n\n"
                 "Usage: weir COMMAND [arguments]\n\nCommands:\n",
                 weir_version());
    for (size_t i = 0; i < N_COMMANDS; i++) (void)printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    (void)printf("  %-10s %s\n\n", "help", "show this text, or a command's");
    (void)printf(
        "MODEL is a directory, a .safetensors or .gguf file, or ORG/NAME as `weir pull`\n"
        "puts it into the local Hugging Face cache.  Commands that can do without it take the bundled demo model.\n\n"
        "Exit codes: 0 success, 1 failed, 2 wrong usage, 3 bad input file, 4 out of memory.\n"
        "`weir help COMMAND` tells more.\n");
    return cli_flush();
}

static int command_help(const command *c)
{
    (void)printf("weir %s - %s\n\nUsage: weir %s %s\n\n%s", c->name, c->summary, c->name, c->usage, c->details);
    args_print_help(c->groups);
    return cli_flush();
}

static int help_on(int argc, char **argv)
{
    if (argc == 0) return help();
    const command *c = find_command(argv[0]);
    if (c == NULL) return unknown_command(argv[0]);
    return command_help(c);
}

/* The command line is read twice where a file may stand behind it: first for the file's name. */
static bool read_options(const command *c, int argc, char **argv, options *o, settings_texts *texts, arg_result *parsed)
{
    const size_t most = c->model == CLI_NO_MODEL ? 0 : c->model == CLI_MODEL_AND_TARGET ? 2 : 1;
    if (!args_parse(o, c->groups, most, argc, argv, parsed)) return false;
    if (!c->configured || o->help) return true;
    const char *file = o->config;
    *o               = (options)OPTIONS_INIT;
    o->config        = file;
    return settings_read(o, c->groups, texts, parsed) && args_parse(o, c->groups, most, argc, argv, parsed);
}

static int run_parsed(const command *c, options *o, const arg_result *parsed)
{
    if (o->help) return command_help(c);
    if (parsed->n_positionals > 0) o->model = parsed->positionals[0];
    if (o->model == NULL && c->model == CLI_MODEL_REQUIRED)
        return cli_usage("%s: expected a MODEL (see weir help %s)", c->name, c->name);
    if (c->model == CLI_MODEL_AND_TARGET && parsed->n_positionals < 2)
        return cli_usage("%s: expected a MODEL and a folder to write (see weir help %s)", c->name, c->name);
    if (parsed->n_positionals > 1) o->target = parsed->positionals[1];
    if (strcmp(o->device, "cuda") == 0) return cli_usage("%s: --device: cuda is not in this build", c->name);
    terminal_init(o->quiet);
    return c->run(o);
}

static int run_command(const command *c, int argc, char **argv)
{
    options        o     = OPTIONS_INIT;
    settings_texts texts = {0};
    arg_result     parsed;
    const int      code = read_options(c, argc, argv, &o, &texts, &parsed)
                              ? run_parsed(c, &o, &parsed)
                              : cli_usage("%s: %s (see weir help %s)", c->name, parsed.message, c->name);
    settings_free(&texts);
    return code;
}

int main(int argc, char **argv)
{
    /* Only how characters are typed and shown follows the user's locale. */
    if (setlocale(LC_CTYPE, "") == NULL || strcmp(setlocale(LC_CTYPE, NULL), "C") == 0)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    if (argc < 2) {
        (void)help();
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("weir %s\n", weir_version());
        return cli_flush();
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return help_on(argc - 2, argv + 2);
    const command *c = find_command(argv[1]);
    return c == NULL ? unknown_command(argv[1]) : run_command(c, argc - 2, argv + 2);
}
