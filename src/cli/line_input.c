/* cli/line_input.c - reading messages; see line_input.h. */
#define _GNU_SOURCE /* ppoll */
#include "cli/line_input.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/state_path.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000, PASTE_MS = 20 };

struct line_input {
    EditLine *edit; /* NULL: no terminal */
    int       keys; /* the terminal, opened once more so that reading never blocks; -1: none */
    History  *history;
    char     *history_path; /* NULL: nowhere */
    bool      more;         /* a message has begun */
    char     *plain;        /* getline's */
    size_t    plain_size;
};

static char *prompt(EditLine *e)
{
    static char       first[] = "> ", next[] = "... ";
    const line_input *in;
    (void)el_get(e, EL_CLIENTDATA, &in);
    return in->more ? next : first;
}

/* Waits for input; false when Ctrl-C or a signal to end came first.  Signals are
 * let in only while waiting, so that one between looking and waiting is not slept
 * through: libedit's own reader retries after it.  The computing threads may take
 * a signal meanwhile, therefore the looking again. */
static bool wait_for_key(EditLine *e, int fd)
{
    static const int             signals[]  = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    static const struct timespec look_again = {.tv_nsec = 500 * 1000 * 1000};
    sigset_t                     held, before;
    struct pollfd                p = {.fd = fd, .events = POLLIN};
    (void)sigemptyset(&held);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) (void)sigaddset(&held, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    int n = 0;
    while (n == 0 && !terminal_interrupted()) {
        if (terminal_resized()) el_resize(e);
        n = ppoll(&p, 1, &look_again, &before);
        if (n < 0 && errno == EINTR) n = 0;
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return n > 0;
}

/* The next character for libedit: 1, 0 at the end, -1 after Ctrl-C or an error.
 * Bytes that are no character of the locale are passed over.  A key that was there
 * can be gone when it is read: Ctrl-C empties the terminal's queue. */
static int read_key(EditLine *e, wchar_t *out)
{
    mbstate_t         state = {0};
    const line_input *in;
    (void)el_get(e, EL_CLIENTDATA, &in);
    const int fd = in->keys >= 0 ? in->keys : STDIN_FILENO;
    while (wait_for_key(e, fd)) {
        char          byte;
        const ssize_t n = read(fd, &byte, 1);
        if (n == 0) return 0;
        if (n < 0 && errno != EINTR && errno != EAGAIN) return -1;
        if (n < 0) continue;
        const size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            state = (mbstate_t){0};
        else if (used != (size_t)-2)
            return 1;
    }
    return -1;
}

static weir_status open_editor(line_input *in, weir_error *err)
{
    HistEvent ev;
    in->keys    = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    in->edit    = el_init("weir", stdin, terminal_stdout() ? stdout : stderr, stderr);
    in->history = history_init();
    if (in->edit == NULL || in->history == NULL) return status_fail(err, WEIR_NO_MEMORY, "line editor: out of memory");
    (void)el_set(in->edit, EL_CLIENTDATA, in);
    (void)el_set(in->edit, EL_PROMPT, prompt);
    (void)el_set(in->edit, EL_EDITOR, "emacs");
    (void)el_set(in->edit, EL_HIST, history, in->history);
    (void)el_set(in->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    (void)el_set(in->edit, EL_GETCFN, read_key);
    (void)history(in->history, &ev, H_SETSIZE, HISTORY_LINES);
    (void)history(in->history, &ev, H_SETUNIQUE, 1);
    in->history_path = state_path("history");
    if (in->history_path != NULL && file_exists(in->history_path))
        (void)history(in->history, &ev, H_LOAD, in->history_path);
    return WEIR_OK;
}

weir_status line_input_open(line_input **out, weir_error *err)
{
    *out = mem_zalloc(1, sizeof **out);
    if (*out == NULL) return status_fail(err, WEIR_NO_MEMORY, "line editor: out of memory");
    (*out)->keys         = -1;
    const weir_status st = terminal_stdin() ? open_editor(*out, err) : WEIR_OK;
    if (st != WEIR_OK) {
        line_input_close(*out);
        *out = NULL;
    }
    return st;
}

/* What someone typed is nobody else's business: 0600.  Failures are ignored, a
 * history is a convenience. */
static void save_history(line_input *in)
{
    HistEvent   ev;
    file_writer w;
    if (in->history_path == NULL || file_create(&w, in->history_path, NULL) != WEIR_OK) return;
    if (fchmod(fileno(w.f), 0600) == 0 && history(in->history, &ev, H_SAVE_FP, w.f) >= 0) (void)file_commit(&w, NULL);
    file_abandon(&w);
}

void line_input_close(line_input *in)
{
    if (in == NULL) return;
    if (in->history != NULL) {
        save_history(in);
        history_end(in->history);
    }
    if (in->edit != NULL) el_end(in->edit);
    if (in->keys >= 0) (void)close(in->keys);
    mem_free(in->history_path);
    free(in->plain);
    mem_free(in);
}

/* One line with its newline, borrowed; NULL at the end and on Ctrl-C. */
static const char *next_line(line_input *in, size_t *n)
{
    if (in->edit != NULL) {
        int count;
        /* Raw before the prompt shows: else a key pressed at once is the old mode's. */
        (void)el_set(in->edit, EL_PREP_TERM, 1);
        const char *line = el_gets(in->edit, &count);
        *n               = line != NULL && count > 0 ? (size_t)count : 0;
        return *n > 0 ? line : NULL;
    }
    const ssize_t count = getline(&in->plain, &in->plain_size, stdin);
    *n                  = count > 0 ? (size_t)count : 0;
    return count > 0 ? in->plain : NULL;
}

static void remember(line_input *in, const char *line)
{
    HistEvent ev;
    if (in->history != NULL && strspn(line, " \t\r\n") != strlen(line)) (void)history(in->history, &ev, H_ENTER, line);
}

/* True while a paste goes on: more input waits already.  A piped input always
 * waits, there a line is a message. */
static bool input_waits(const line_input *in)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return in->edit != NULL && poll(&p, 1, PASTE_MS) == 1 && (p.revents & POLLIN) != 0;
}

line_result line_input_read(line_input *in, str *text)
{
    str_clear(text);
    for (in->more = false;; in->more = true) {
        size_t      n;
        const char *line = next_line(in, &n);
        if (line == NULL) {
            /* What comes next begins behind the prompt's line. */
            if (in->edit != NULL) (void)fputc('\n', terminal_stdout() ? stdout : stderr);
            if (terminal_ended()) return LINE_END;
            if (terminal_interrupted()) return LINE_INTERRUPTED;
            return in->more && text->len > 0 ? LINE_TEXT : LINE_END;
        }
        remember(in, line);
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        const bool goes_on = n > 0 && line[n - 1] == '\\';
        str_put(text, line, goes_on ? n - 1 : n);
        if (!goes_on && !input_waits(in)) return LINE_TEXT;
        str_putc(text, '\n');
    }
}
