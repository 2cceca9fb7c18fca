/* cli/terminal.c - the terminal; see terminal.h.
 *
 * What is below is the program's one piece of global state: a signal handler
 * has no other way to speak. */
#include "cli/terminal.h"

#include "weir/base.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts, ended, resized, hung_up;
static struct {
    bool in, out, progress, colour, quiet;
} terminal;

static void on_interrupt(int sig)
{
    if (sig != SIGINT) ended = 1;
    if (++interrupts < 3) return;
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
}

static void on_resize(int sig)
{
    (void)sig;
    resized = 1;
}

static void on_hang_up(int sig)
{
    (void)sig;
    hung_up = 1;
}

static void take_signals(void)
{
    /* Without SA_RESTART: waiting for a line at the prompt has to end too. */
    struct sigaction interrupt = {.sa_handler = on_interrupt}, resize = {.sa_handler = on_resize}, before;
    (void)sigemptyset(&interrupt.sa_mask);
    (void)sigemptyset(&resize.sa_mask);
    resize.sa_flags = SA_RESTART;
    (void)sigaction(SIGINT, &interrupt, NULL);
    (void)sigaction(SIGTERM, &interrupt, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        (void)sigaction(SIGHUP, &interrupt, NULL);
    (void)sigaction(SIGWINCH, &resize, NULL);
    (void)signal(SIGXFSZ, SIG_IGN);
}

static void log_to_stderr(void *user, weir_log_level level, const char *line)
{
    (void)user;
    if (level > (terminal.quiet ? WEIR_LOG_ERROR : WEIR_LOG_WARN)) return;
    (void)fprintf(stderr, "weir: %s%s\n", level == WEIR_LOG_WARN ? "warning: " : "", line);
}

void terminal_init(bool quiet)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    terminal.in       = isatty(STDIN_FILENO) != 0;
    terminal.out      = isatty(STDOUT_FILENO) != 0;
    terminal.progress = isatty(STDERR_FILENO) != 0 && !quiet;
    terminal.quiet    = quiet;
    terminal.colour =
        terminal.out && (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
    weir_log_set(log_to_stderr, NULL);
    take_signals();
}

bool terminal_stdin(void)
{
    return terminal.in;
}

bool terminal_stdout(void)
{
    return terminal.out;
}

bool terminal_progress(void)
{
    return terminal.progress;
}

size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

const char *terminal_dim(void)
{
    return terminal.colour ? "\033[2m" : "";
}

const char *terminal_plain(void)
{
    return terminal.colour ? "\033[0m" : "";
}

bool terminal_interrupted(void)
{
    return interrupts != 0 || ended != 0;
}

void terminal_interrupt_clear(void)
{
    interrupts = 0;
}

bool terminal_ended(void)
{
    return ended != 0;
}

void terminal_take_hang_ups(void)
{
    struct sigaction hang_up = {.sa_handler = on_hang_up, .sa_flags = SA_RESTART};
    (void)sigemptyset(&hang_up.sa_mask);
    (void)sigaction(SIGHUP, &hang_up, NULL);
}

bool terminal_hung_up(void)
{
    const bool was = hung_up != 0;
    hung_up        = 0;
    return was;
}

bool terminal_resized(void)
{
    const bool was = resized != 0;
    resized        = 0;
    return was;
}
