/* tests/support/transcript.h - a scripted reply through the parser of tool calls, and
 * what it said in one line.
 *
 * A script is text in which the bytes 1 to 4 are the tags that are tokens, and 5 at
 * its end says that the reply was cut off there.  The line has R(...) for reasoning,
 * C(...) for content and [0 name arguments] for a call, without the bracket at its
 * end when it has none.  Pieces of one kind that follow each other are joined. */
#ifndef SUPPORT_TRANSCRIPT_H
#define SUPPORT_TRANSCRIPT_H

#include "base/str.h"
#include "weir/toolcall.h"

#define OPEN "\x01"
#define CLOSE "\x02"
#define THINK "\x03"
#define THINK_CLOSE "\x04"
#define CUT "\x05"

/* How the text is handed over. */
typedef struct cutting {
    size_t   split;  /* one cut here; SIZE_MAX: none */
    size_t   every;  /* and after every so many bytes; 0: none */
    uint64_t random; /* and where this seed says; 0: nowhere */
    bool     ids;    /* tags come as tokens with their spelling */
} cutting;

typedef struct transcript {
    str                line, content, arguments; /* arguments: those of complete calls, a newline behind each */
    weir_toolcall_info info;                     /* its text apart */
    str                unfinished;
    uint32_t           begun;
    bool               wrong; /* events that break a rule of weir/toolcall.h */
} transcript;

/* Plays n bytes; release with transcript_free.  Aborts when the parser fails. */
void transcript_play(transcript *t, const char *tools, bool thinking, bool undeclared_is_text, const char *script,
                     size_t n, const cutting *cut);
void transcript_free(transcript *t);

/* The script as text with its tags spelled. */
void script_spell(str *out, const char *script, size_t n);

#endif
