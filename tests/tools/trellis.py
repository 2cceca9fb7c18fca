"""Packed trellis weights, decoded from their description alone: the second decoder of the tests.

Bits are taken one by one and numbers are exact fractions that are rounded where the format rounds.
"""
import fractions
import struct

BLOCK, STATE_BITS = 256, 12
DIVISOR = fractions.Fraction(147.800537109375)


def rounded(x, significant):
    """The fraction x to the nearest number of so many significant bits, ties to even."""
    if x == 0:
        return x
    exponent = significant
    while abs(x) * fractions.Fraction(2) ** (exponent - significant) >= 2 ** significant:
        exponent -= 1
    while abs(x) * fractions.Fraction(2) ** (exponent - significant) < 2 ** (significant - 1):
        exponent += 1
    unit = fractions.Fraction(2) ** (significant - exponent)
    return round(x / unit) * unit


def states(block, bits):
    """The states of a block's weights in order."""
    stream = [byte >> i & 1 for byte in block for i in range(8)]
    assert len(stream) == BLOCK * bits
    result = []
    for t in range(BLOCK):
        start = (BLOCK - 1 - t) * bits
        result.append(sum(stream[(start + i) % len(stream)] << i for i in range(STATE_BITS)))
    return result


def code(state):
    """The number of a state, a fraction that float32 has."""
    x = (state * 34038481 + 76625530) % 2 ** 32
    return rounded((sum(x.to_bytes(4, "little")) - 510) / DIVISOR, 24)


def weight(state, scale):
    """code * scale as bfloat16 bits; neither is so small or large that the exponent's range matters."""
    value = rounded(rounded(code(state) * fractions.Fraction(scale), 24), 8)
    return struct.unpack("<I", struct.pack("<f", float(value)))[0] >> 16
