/* cli/hub.h - where models come from and are kept, by the environment. */
#ifndef CLI_HUB_H
#define CLI_HUB_H

#include "cli/options.h"
#include "fetch/fetch.h"

/* What the variables of huggingface_hub say; owns the texts. */
typedef struct hub {
    fetch_settings settings;
    char          *root, *endpoint, *token;
} hub;

/* Reads HF_HUB_CACHE and its like, HF_ENDPOINT, HF_TOKEN and its like,
 * HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT and SSL_CERT_FILE.  A signal ends what is
 * done with these settings.  On failure the hub is all zero. */
weir_status hub_open(hub *h, weir_error *err);
void        hub_close(hub *h); /* all zero is allowed */

/* Tells of a failed download or removal; returns the exit code: 3 when the hub has no
 * such model or it is damaged, 1 for network, disk and Ctrl-C. */
int hub_fail(const weir_error *err);

/* "1.2 kB", "12.3 MB" or "4.56 GB". */
enum { HUB_SIZE_BYTES = 32 };
const char *hub_size(char out[HUB_SIZE_BYTES], uint64_t bytes);

/* The options of commands that do not compute. */
extern const arg_group *const hub_groups[];

#endif
