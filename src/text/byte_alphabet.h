/* text/byte_alphabet.h - the alphabet in which byte-level BPE files spell bytes.
 *
 * Bytes 33-126, 161-172 and 174-255 are written as the character of the same
 * number; the other 68 as U+0100, U+0101, ... in ascending order of the byte.
 * So a space is written U+0120.  The mapping is one to one. */
#ifndef TEXT_BYTE_ALPHABET_H
#define TEXT_BYTE_ALPHABET_H

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

#endif
