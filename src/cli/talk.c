/* cli/talk.c - see talk.h. */
#include "cli/talk.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/state_path.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MOST = 64 };

static bool good_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t      n         = strlen(name);
    return n > 0 && n <= NAME_MOST && name[0] != '.' && strspn(name, allowed) == n;
}

static char *path_in(const char *name, const char *file)
{
    char sub[sizeof "sessions//messages.json" + NAME_MOST];
    (void)snprintf(sub, sizeof sub, "sessions/%s/%s", name, file);
    return state_path(sub);
}

weir_status talk_open(talk *t, const char *name, weir_error *err)
{
    *t = (talk){0};
    if (!good_name(name))
        return status_fail(err, WEIR_INVALID,
                           "--session: expected 1 to %d letters, digits, '.', '_' and '-', the first not a '.', found "
                           "\"%.80s\"",
                           NAME_MOST, name);
    *t = (talk){.messages = path_in(name, "messages.json"), .cache = path_in(name, "cache")};
    if (t->messages != NULL && t->cache != NULL) return WEIR_OK;
    talk_close(t);
    return status_fail(err, WEIR_INVALID, "--session: expected HOME or XDG_STATE_HOME to name a folder, found neither");
}

void talk_close(talk *t)
{
    mem_free(t->messages);
    mem_free(t->cache);
    *t = (talk){0};
}

weir_status talk_begin(const talk *t, const options *o, conversation *c, weir_error *err)
{
    TRY(conversation_init(c, err));
    weir_status st = WEIR_OK;
    if (t->messages != NULL && file_exists(t->messages)) st = conversation_load(c, t->messages, err);
    if (st == WEIR_OK && o->system != NULL) st = conversation_system(c, o->system, err);
    if (o->think || o->no_think) c->thinking = o->think ? THINK_ON : THINK_OFF;
    if (st != WEIR_OK) conversation_free(c);
    return st;
}

weir_status talk_keep(const talk *t, const conversation *c, weir_error *err)
{
    return t->messages != NULL ? conversation_save(c, t->messages, err) : WEIR_OK;
}
