/* engine/channel.h - where a reply's text belongs: reasoning or content.
 *
 * The tags are single tokens and are recognised by id.  White space around the
 * think tags is no part of either text: what follows <think>, what precedes
 * </think> and what separates it from the content.  A tool call ends the
 * reasoning without </think>; its tag is content.  Within a call think tags are
 * text like any other, unless the call was begun while reasoning. */
#ifndef ENGINE_CHANNEL_H
#define ENGINE_CHANNEL_H

#include "base/str.h"

#include <stdint.h>

#define CHANNEL_NO_ID UINT32_MAX

/* <think>, </think>, <tool_call>, </tool_call>; CHANNEL_NO_ID: the model has none. */
typedef struct channel_tags {
    uint32_t open, close, tool, tool_close;
} channel_tags;

/* Whether the text is that of a tool call.  It is one only if something in brackets
 * follows the tag, as text may speak of tags. */
typedef enum channel_tool { CHANNEL_NO_TOOL, CHANNEL_TOOL_TAG, CHANNEL_TOOL_OPENED, CHANNEL_TOOL } channel_tool;

typedef struct channel {
    channel_tags tags;
    bool         reasoning;
    bool         at_start; /* nothing but white space since the last tag */
    channel_tool tool;
    bool         drafted; /* the call was begun while reasoning */
    str          held;    /* white space of the reasoning that may turn out to be its end */
} channel;

/* `reasoning`: the prompt ended inside the think block.  Release with channel_free. */
void channel_init(channel *c, const channel_tags *tags, bool reasoning);
void channel_free(channel *c);

/* Tells the channel about a token; true when it is a think tag, whose text is not shown. */
bool channel_token(channel *c, uint32_t id);

/* Appends to `out` what of the piece may be shown now. */
void channel_text(channel *c, const char *piece, size_t n, str *out);

#endif
