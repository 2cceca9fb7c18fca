/* text/byte_alphabet.h - the alphabet in which byte-level BPE files spell bytes.
 *
 * Bytes 33-126, 161-172 and 174-255 are written as the character of the same
 * number; the other 68 as U+0100, U+0101, ... in ascending order of the byte.
 * So a space is written U+0120.  The mapping is one to one. */
#ifndef TEXT_BYTE_ALPHABET_H
#define TEXT_BYTE_ALPHABET_H

#include "base/str.h"

#include <stdint.h>

enum { BYTE_ALPHABET_END = 0x144 }; /* one past the last character used */

/* The byte that character cp stands for, or -1. */
static inline int byte_alphabet_decode(uint32_t cp)
{
    if ((cp >= 33 && cp <= 126) || (cp >= 161 && cp <= 172) || (cp >= 174 && cp <= 255)) return (int)cp;
    if (cp < 0x100 || cp >= BYTE_ALPHABET_END) return -1;
    const uint32_t k = cp - 0x100; /* 0-32, 127-160 and 173, counted through */
    return (int)(k < 33 ? k : k < 67 ? k - 33 + 127 : 173);
}

/* The bytes that a text of n bytes spells, written to out, which has room for n.
 * False when it has a character outside the alphabet. */
static inline bool byte_alphabet_read(const char *text, size_t n, uint8_t *out, size_t *n_out)
{
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        const size_t step = utf8_sequence(text + i, n - i);
        uint32_t     cp   = (uint8_t)text[i];
        if (step == 2) cp = (cp & 0x1F) << 6 | ((uint8_t)text[i + 1] & 0x3F);
        const int byte = step == 1 || step == 2 ? byte_alphabet_decode(cp) : -1;
        if (byte < 0) return false;
        out[k++] = (uint8_t)byte;
        i += step;
    }
    *n_out = k;
    return true;
}

#endif
