/* serve/web.c - GET / and /web/...: the page for people who come with a browser.
 *
 * The page shows what models write, which may be hostile.  It builds its view of nodes and text
 * alone, and the policy below takes from it what it does not need: no script or style but our own
 * files, no other address to load from or send to, no frame around it, and no text that becomes
 * markup (Trusted Types without a policy). */
#include "serve/server.h"
#include "serve/web_files.h"

#include <string.h>

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                             "require-trusted-types-for 'script'; trusted-types 'none'";

static const web_file *find_file(const char *name)
{
    for (size_t i = 0; i < n_web_files; i++)
        if (strcmp(web_files[i].name, name) == 0) return &web_files[i];
    return NULL;
}

/* Whether the browser has this content already: If-None-Match lists it, or anything ("*"). */
static bool has_it(const http_request *r, const web_file *f)
{
    const char *known = r->header(r, "If-None-Match");
    return known != NULL && (strcmp(known, "*") == 0 || strstr(known, f->etag) != NULL);
}

static void answer_file(const http_request *r, const web_file *f, outlet *out)
{
    outlet_header(out, "ETag", f->etag);
    outlet_header(out, "Cache-Control", "no-cache"); /* keep it, and ask whether it is still so */
    outlet_header(out, "Content-Security-Policy", policy);
    outlet_header(out, "Cross-Origin-Opener-Policy", "same-origin");
    outlet_header(out, "Cross-Origin-Resource-Policy", "same-origin");
    outlet_header(out, "Referrer-Policy", "no-referrer");
    outlet_header(out, "X-Content-Type-Options", "nosniff");
    if (has_it(r, f))
        outlet_answer(out, 304, NULL, "", 0);
    else
        outlet_answer(out, 200, f->media, (const char *)f->data, f->n);
}

void handle_home(server *s, const http_request *r, const char *rest, outlet *out)
{
    const char *accept = r->header(r, "Accept");
    if (!s->o->web) {
        handle_root(s, r, rest, out);
        return;
    }
    outlet_header(out, "Vary", "Accept");
    if (accept != NULL && strstr(accept, "text/html") != NULL)
        answer_file(r, find_file("index.html"), out);
    else
        handle_root(s, r, rest, out);
}

void handle_web(server *s, const http_request *r, const char *rest, outlet *out)
{
    api_error       err;
    const web_file *f = s->o->web ? find_file(rest) : NULL;
    if (f != NULL) {
        answer_file(r, f, out);
        return;
    }
    (void)api_fail(&err, API_NOT_FOUND, NULL, "/web/%.100s: no such file", rest);
    answer_error(out, &err, API_OPENAI, r->id);
}
