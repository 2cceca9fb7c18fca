/* text/normalise.h - Unicode normalisation form C (UAX 15).
 *
 * Text that is in the form already, which is nearly all text, is recognised by
 * a scan and not copied.  Read-only after normaliser_init; shared by threads. */
#ifndef TEXT_NORMALISE_H
#define TEXT_NORMALISE_H

#include "base/str.h"

enum { NORMALISE_TABLE_END = 0x30000 }; /* characters behind it are left alone by NFC */

/* A bit a character.  `reacts`: it is not in the form by itself, or may join
 * the one before it.  `marks`: its combining class is not 0. */
typedef struct normaliser {
    uint64_t reacts[NORMALISE_TABLE_END / 64];
    uint64_t marks[NORMALISE_TABLE_END / 64];
} normaliser;

void normaliser_init(normaliser *n);

/* Text in form C, and for each of its bytes whether a user had a part in it. */
typedef struct normalised {
    str text, untrusted;
} normalised;

void normalised_free(normalised *n);

/* The text must be valid UTF-8; untrusted (one byte a byte) may be NULL.  If the
 * scan sees that the text is in form C, sets *is_nfc and leaves `out` alone; else
 * appends the text in form C to `out`, which the caller has cleared, and the
 * trust if `untrusted` is given.  A character made of several is a user's if one
 * of those was. */
weir_status normalise_nfc(const normaliser *n, const char *text, size_t len, const uint8_t *untrusted, normalised *out,
                          bool *is_nfc, weir_error *err);

#endif
