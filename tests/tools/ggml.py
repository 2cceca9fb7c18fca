"""GGML's block types and the GGUF container, written for the tests with Python's own library.

An implementation apart from src/: decoders look at one weight at a time, in the words of the
format's description, and all arithmetic is in doubles that are rounded to float32 where the
format rounds.  Random blocks have scales of a given size, so that a model of them has weights
like a trained one's.
"""
import math
import struct

# name -> (number in files, weights in a block, bytes of a block)
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2),
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "MXFP4": (39, 32, 17),
}
BLOCK_TYPES = [name for name, (_, weights, _) in TYPES.items() if weights > 1]
V = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
M = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def f32(x):
    """Rounded to float32, what is too large to infinity."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def half(block, at):
    return struct.unpack_from("<e", block, at)[0]


def nibble(qs, j):
    """Code j of 32: the low nibbles come first."""
    return qs[j] & 15 if j < 16 else qs[j - 16] >> 4


def signed(byte):
    return byte - 256 if byte > 127 else byte


def two_bits(qs, i):
    """Code i of 256 as Q2_K and Q3_K lay them out."""
    h, r = divmod(i, 128)
    s, l = divmod(r, 32)
    return (qs[32 * h + l] >> 2 * s) & 3


def six_bit_pair(a, b):
    """Scale and minimum b of 8 as Q4_K and Q5_K pack them."""
    if b < 4:
        return a[b] & 63, a[b + 4] & 63
    return (a[b + 4] & 15) | (a[b - 4] >> 6) << 4, (a[b + 4] >> 4) | (a[b] >> 6) << 4


def q3_scale(a, b):
    low = a[b] & 15 if b < 8 else a[b - 8] >> 4
    return (low | ((a[8 + b % 4] >> 2 * (b // 4)) & 3) << 4) - 32


def decode_block(name, block):
    """The block's weights, float32 values."""
    if name == "Q8_0":
        d = half(block, 0)
        return [f32(signed(q) * d) for q in block[2:]]
    if name == "Q4_0":
        d = half(block, 0)
        return [f32((nibble(block[2:], j) - 8) * d) for j in range(32)]
    if name == "Q4_1":
        d, m = half(block, 0), half(block, 2)
        return [f32(f32(nibble(block[4:], j) * d) + m) for j in range(32)]
    if name in ("Q5_0", "Q5_1"):
        d, at = half(block, 0), 2 if name == "Q5_0" else 4
        qh, qs = struct.unpack_from("<I", block, at)[0], block[at + 4:]
        codes = [nibble(qs, j) | ((qh >> j) & 1) << 4 for j in range(32)]
        if name == "Q5_0":
            return [f32((q - 16) * d) for q in codes]
        return [f32(f32(q * d) + half(block, 2)) for q in codes]
    if name == "IQ4_NL":
        d = half(block, 0)
        return [f32(d * V[nibble(block[2:], j)]) for j in range(32)]
    if name == "MXFP4":
        return [f32(2.0 ** (block[0] - 128) * M[nibble(block[1:], j)]) for j in range(32)]
    return [decode_large(name, block, i) for i in range(256)]


def decode_large(name, block, i):
    """Weight i of a block of 256."""
    if name == "Q2_K":
        d, dmin, scale = half(block, 80), half(block, 82), block[i // 16]
        return f32(f32(f32(d * (scale & 15)) * two_bits(block[16:80], i)) - f32(dmin * (scale >> 4)))
    if name == "Q3_K":
        q = two_bits(block[32:96], i) - (0 if (block[i % 32] >> (i // 32)) & 1 else 4)
        return f32(f32(half(block, 108) * q3_scale(block[96:108], i // 16)) * q)
    if name in ("Q4_K", "Q5_K"):
        sc, mn = six_bit_pair(block[4:16], i // 32)
        qs = block[16:] if name == "Q4_K" else block[48:]
        byte = qs[32 * (i // 64) + i % 32]
        q = byte & 15 if i % 64 < 32 else byte >> 4
        if name == "Q5_K":
            q += 16 * ((block[16 + i % 32] >> (i // 32)) & 1)
        return f32(f32(f32(half(block, 0) * sc) * q) - f32(half(block, 2) * mn))
    if name == "Q6_K":
        h, r = divmod(i, 128)
        p, l = divmod(r, 32)
        low = block[64 * h + l + 32 * (p % 2)]
        low = low & 15 if p < 2 else low >> 4
        high = (block[128 + 32 * h + l] >> 2 * p) & 3
        scale = signed(block[192 + 8 * h + 2 * p + l // 16])
        return f32(f32(half(block, 208) * scale) * ((low | high << 4) - 32))
    if name == "IQ4_XS":
        b, j = divmod(i, 32)
        scale = ((block[4 + b // 2] >> 4 * (b % 2)) & 15) | ((struct.unpack_from("<H", block, 2)[0] >> 2 * b) & 3) << 4
        return f32(f32(half(block, 0) * (scale - 32)) * V[nibble(block[8 + 16 * b:24 + 16 * b], j)])
    raise ValueError(name)


def decode(name, data):
    """All weights of a string of blocks, or of plain numbers."""
    if name == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if name == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    if name == "BF16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(w << 16 for w in words))))
    size = TYPES[name][2]
    return [x for at in range(0, len(data), size) for x in decode_block(name, data[at:at + size])]
