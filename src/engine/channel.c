/* engine/channel.c - reasoning or content. */
#include "engine/channel.h"

#include <string.h>

enum { MAX_HELD = 1 << 20 };

void channel_init(channel *c, const channel_tags *tags, bool reasoning)
{
    *c = (channel){.tags = *tags, .reasoning = reasoning, .at_start = reasoning};
    str_init(&c->held, MAX_HELD);
}

void channel_free(channel *c)
{
    str_free(&c->held);
}

bool channel_token(channel *c, uint32_t id)
{
    const bool think = id == c->tags.open || id == c->tags.close, tool = c->reasoning && id == c->tags.tool;
    if (id == CHANNEL_NO_ID || (think && c->tool != CHANNEL_NO_TOOL && !c->drafted)) return false;
    if (id == c->tags.tool) {
        if (c->tool == CHANNEL_NO_TOOL) c->drafted = c->reasoning;
        c->tool = CHANNEL_TOOL_TAG;
    }
    if (think || id == c->tags.tool_close) c->tool = CHANNEL_NO_TOOL;
    if (!think && !tool) return false;
    /* A repeated tag changes nothing, and is not shown either. */
    c->reasoning = id == c->tags.open;
    c->at_start  = think;
    str_clear(&c->held); /* white space before the end of the reasoning */
    return think;
}

static bool is_space(char ch)
{
    return ch == ' ' || ch == '\n' || ch == '\r' || ch == '\t';
}

/* Behind the tag of a tool call a tag or an object must follow. */
static void look_for_call(channel *c, const char *piece, size_t n)
{
    if (c->tool == CHANNEL_TOOL_TAG) { /* this is its own text */
        c->tool = CHANNEL_TOOL_OPENED;
        return;
    }
    while (n > 0 && is_space(*piece)) piece++, n--;
    if (n > 0) c->tool = *piece == '<' || *piece == '{' ? CHANNEL_TOOL : CHANNEL_NO_TOOL;
}

void channel_text(channel *c, const char *piece, size_t n, str *out)
{
    if (c->tool == CHANNEL_TOOL_TAG || c->tool == CHANNEL_TOOL_OPENED) look_for_call(c, piece, n);
    if (c->at_start) {
        while (n > 0 && (c->reasoning ? is_space(*piece) : *piece == '\n' || *piece == '\r')) piece++, n--;
        if (n == 0) return;
        c->at_start = false;
    }
    if (!c->reasoning) {
        str_put(out, piece, n);
        return;
    }
    size_t solid = n; /* up to the trailing white space */
    while (solid > 0 && is_space(piece[solid - 1])) solid--;
    if (solid > 0) {
        str_put(out, c->held.data, c->held.len);
        str_clear(&c->held);
        str_put(out, piece, solid);
    }
    str_put(&c->held, piece + solid, n - solid);
}
