/* kernels/cpu/lanes/codes.h - where 16 packed codes of 2 to 6 bits lie.
 *
 * Lane l's code begins at bit l * bits of a string of bytes, and so ends in the byte it
 * begins in or the next.  Every set shuffles these two into the lane's word, shifts and
 * masks.  With constant arguments the functions are constants. */
#ifndef KERNELS_CPU_LANES_CODES_H
#define KERNELS_CPU_LANES_CODES_H

enum { CODES_READ = 16 }; /* bytes that vf_codes looks at */

/* Indices of a byte shuffle for lane l's word: its two bytes, then none. */
INLINE int code_bytes(const int bits, const int l)
{
    return (int)(0x80800000u | (unsigned)(l * bits / 8 + 1) << 8 | (unsigned)(l * bits / 8));
}
INLINE int code_shift(const int bits, const int l)
{
    return l * bits % 8;
}

#endif
