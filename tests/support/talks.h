/* tests/support/talks.h - made-up conversations with the demo model: messages of
 * random text between the marks of a chat, sent as requests. */
#ifndef SUPPORT_TALKS_H
#define SUPPORT_TALKS_H

#include "support/engines.h"
#include "support/heard.h"

typedef struct text {
    uint32_t *ids, n, capacity;
} text;

/* An empty one, with room for so many ids; text_free. */
text text_new(uint32_t capacity);
void text_free(text *t);
void text_put(text *t, uint32_t id);

/* The ids of <|im_start|> and <|im_end|>. */
typedef struct chat_marks {
    uint32_t start, end;
} chat_marks;

chat_marks chat_marks_of(const weir_model *m);

/* Appends a message of n >= 3 tokens, all told by the seed; the head of the next reply. */
void message(const chat_marks *c, text *t, uint64_t seed, uint32_t n);
void generation_prompt(const chat_marks *c, text *t);

typedef struct reply {
    heard             said;
    weir_request_info info; /* its `error` is gone with the request */
} reply;

/* Sends t as a request and steps until it is answered with max_tokens tokens, greedily. */
void ask(weir_engine *e, const text *t, uint32_t max_tokens, reply *r);

#endif
