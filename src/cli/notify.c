/* cli/notify.c - see notify.h. */
#include "cli/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify(const char *state)
{
    struct sockaddr_un to   = {.sun_family = AF_UNIX};
    const char        *path = getenv("NOTIFY_SOCKET");
    const size_t       n    = path != NULL ? strlen(path) : 0;
    if (n == 0 || n >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) return;
    memcpy(to.sun_path, path, n);
    if (path[0] == '@') to.sun_path[0] = '\0'; /* in the abstract namespace, which has no files */
    const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) return;
    (void)sendto(s, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)close(s);
}
