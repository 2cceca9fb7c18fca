/* tests/support/heard.c - see heard.h. */
#include "support/heard.h"

#include "support/cmocka.h"

#include <string.h>

bool hear(void *user, const weir_token *t)
{
    heard *h = user;
    assert_true(h->text_len + t->text_len < sizeof h->text);
    memcpy(h->text + h->text_len, t->text, t->text_len);
    h->text_len += t->text_len;
    if (t->id == UINT32_MAX) return true;
    assert_true(h->n < HEARD_MOST);
    h->logprobs[h->n] = t->logprob;
    h->ids[h->n++]    = t->id;
    return true;
}
