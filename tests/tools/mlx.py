"""MLX's floating-point modes, decoded from their description alone: the second decoder of the tests."""
import struct

# name -> bits of an element, elements of a group
MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def f32(x):
    """x rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def e2m1(code):
    """Without a negative zero."""
    magnitude = E2M1[code & 7]
    return -magnitude if code & 8 and magnitude else magnitude


def e4m3(byte):
    """1 sign, 4 exponent (bias 7) and 3 mantissa bits; no infinities, and no NaN either."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    magnitude = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if byte & 128 else magnitude


def scale(mode, byte):
    return e4m3(byte) if mode == "nvfp4" else 2.0 ** (byte - 127)


def decode(mode, codes, scales):
    """All weights of a row, float32 values."""
    bits, group = MODES[mode]
    if bits == 4:
        elements = [e2m1(code) for byte in codes for code in (byte & 15, byte >> 4)]
    else:
        elements = [e4m3(byte) for byte in codes]
    return [f32(x * scale(mode, scales[i // group])) for i, x in enumerate(elements)]
