/* fetch/name.h - what may be a part of a path or of a URL. */
#ifndef FETCH_NAME_H
#define FETCH_NAME_H

#include "fetch/fetch.h"

/* A relative path of at most `max` bytes that stays below its folder: no empty,
 * "." or ".." components, none over 255 bytes, no control characters or
 * backslashes. */
bool name_is_path(const char *path, size_t max);
/* A branch, a tag or a commit, of the letters git and URLs both like. */
bool name_is_revision(const char *text);
/* Exactly so many lower-case hexadecimal digits. */
bool name_is_hash(const char *text, size_t digits);

#endif
