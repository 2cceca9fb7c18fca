/* serve/web_files.h - the files of the web page (src/serve/web), as cmake/embed.cmake put them into
 * the program. */
#ifndef SERVE_WEB_FILES_H
#define SERVE_WEB_FILES_H

#include <stddef.h>

typedef struct web_file {
    const char          *name;  /* "index.html" */
    const char          *media; /* Content-Type */
    const char          *etag;  /* of the content, in its quotes */
    const unsigned char *data;
    size_t               n; /* bytes */
} web_file;

extern const web_file web_files[];
extern const size_t   n_web_files;

#endif
