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

/* The states of 16 trellis weights, those of the last one first: lane l's 12 bits begin at bit
 * (15 - l) * bits and end at most two bytes further on.  Of 8 bits a look holds eight lanes. */
INLINE int state_bit(const int bits, const int l)
{
    return (15 - (bits < 8 ? l : l | 8)) * bits;
}
INLINE int state_shift(const int bits, const int l)
{
    return state_bit(bits, l) % 8;
}
INLINE int state_bytes(const int bits, const int l)
{
    const unsigned at = (unsigned)state_bit(bits, l) / 8, third = state_shift(bits, l) > 4 ? at + 2 : 0x80;
    return (int)(0x80000000u | third << 16 | (at + 1) << 8 | at);
}

#endif
