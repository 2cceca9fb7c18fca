/* tests/support/heard.h - a listener: all that a reply says, to be compared whole. */
#ifndef SUPPORT_HEARD_H
#define SUPPORT_HEARD_H

#include "weir/generate.h"

enum { HEARD_MOST = 64, HEARD_TEXT = 8192 };

/* Begins all zero, so that two of them compare with memcmp. */
typedef struct heard {
    uint32_t ids[HEARD_MOST];
    float    logprobs[HEARD_MOST];
    size_t   n, text_len;
    char     text[HEARD_TEXT];
} heard;

/* A weir_token_fn; `user` is a heard.  More than it has room for fails the test. */
bool hear(void *user, const weir_token *t);

#endif
