/* cli/state_path.c - see state_path.h. */
#include "cli/state_path.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_LIMIT = 4096 };

char *state_path(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    str         s;
    str_init(&s, PATH_LIMIT);
    if (state != NULL && state[0] == '/')
        str_puts(&s, state);
    else if (home != NULL && home[0] == '/')
        str_printf(&s, "%s/.local/state", home);
    else
        s.failed = true;
    str_printf(&s, "/weir/%s", name);
    if (s.failed) {
        str_free(&s);
        return NULL;
    }
    for (char *slash = strchr(s.data + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(s.data, 0700); /* most exist */
        *slash = '/';
    }
    char *path = str_take(&s);
    str_free(&s);
    return path;
}
