#!/usr/bin/env python3
"""Writes tables of correctly rounded function values: tests/data/math/NAME.safetensors.

    make-math-goldens.py            (a few seconds)

Each file holds `x` F32 and `y` F64: y[i] is the function of the float32 x[i] computed with 400 bits
and rounded once to the nearest double, subnormal results included, overflow as infinity.
trig.safetensors differs: `position` I32 and `inv_freq` F64 give the double argument
`angle` = position*inv_freq (rounded), `cos` and `sin` are those of the rounded argument.
Points: signed zeros, subnormals, infinities and NaN; each function's own thresholds with their
neighbours; a ladder over all magnitudes; and points drawn in the range where the function moves.
"""
import os

import mpmath
import numpy as np

from tensorfile import Tensor, write_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "tests", "data", "math")
BITS = 400
SEED = 20260
LADDER, DRAWN = 1000, 2800
ROPE = ((1e7, 64), (1e4, 16))  # (theta, rotary dims)
LAST_POSITION = 262143


def nearest_double(value):
    """An mpf rounded once to double; mpmath's own conversion rounds subnormals twice."""
    if mpmath.isnan(value) or mpmath.isinf(value) or value == 0:
        return float(value)
    sign, mantissa, exponent, bits = value._mpf_
    drop = max(bits - 53, -1074 - exponent)
    if drop > 0:
        mantissa, rest = mantissa >> drop, mantissa & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        mantissa += rest > half or (rest == half and mantissa & 1)
        exponent += drop
    with np.errstate(over="ignore"):
        magnitude = float(np.ldexp(float(mantissa), int(exponent)))
    return -magnitude if sign else magnitude


def exp(x):
    return mpmath.exp(x)


def log1p(x):
    return mpmath.log1p(x)


def sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def silu(x):
    return x / (1 + mpmath.exp(-x))


def softplus(x):
    return mpmath.log1p(mpmath.exp(x))


# Function, range of the drawn points, smallest argument, thresholds worth their neighbours.
FUNCTIONS = {
    "exp": (exp, (-110, 95), None, (-745.2, -708.4, -103.98, -103.28, -87.34, -17.3, 88.72, 709.78)),
    "log1p": (log1p, (-0.999, 4), -1.0, (-1.0, -0.5, -0.2929, 0.4142, 1.0, 2.0**24, 3.4e38)),
    "sigmoid": (sigmoid, (-105, 40), None, (-745.2, -708.4, -103.98, -87.34, -1.0, 16.64, 17.33, 36.8)),
    "silu": (silu, (-110, 40), None, (-745.2, -708.4, -103.98, -92.0, -1.2785, 16.64, 36.8)),
    "softplus": (softplus, (-105, 40), None, (-745.2, -708.4, -103.98, -87.34, 16.64, 20.0, 36.8)),
}


def neighbours(value, count=4):
    """A float32 and the `count` float32 on either side of it."""
    centre = np.float32(value)
    points, low, high = [centre], centre, centre
    for _ in range(count):
        low, high = np.nextafter(low, np.float32(-np.inf)), np.nextafter(high, np.float32(np.inf))
        points += [low, high]
    return points


def points(draw, drawn_range, smallest, thresholds):
    """The arguments of one function, sorted, without repeats; NaN last."""
    ladder = 2.0 ** draw.uniform(-149, 127.99, LADDER) * draw.choice([-1, 1], LADDER)
    drawn = draw.uniform(*drawn_range, DRAWN)
    fixed = [value for point in thresholds for value in neighbours(point)]
    tiny = np.float32([2**-149, 2**-148, 2**-126 - 2**-149, 2**-126, 2**-24, 2**-25, 3.4028234e38])
    integers = np.arange(-40, 41)
    x = np.concatenate([ladder, drawn, fixed, tiny, -tiny, integers, [np.inf, -np.inf]])
    x = np.unique(x.astype(np.float32))
    if smallest is not None:
        x = x[x >= smallest]
    return np.concatenate([x[x < 0], np.float32([-0.0, 0.0]), x[x > 0], np.float32([np.nan])])


def value_at(function, name, x):
    """The function at one float32, limits at infinity and signed zeros as IEEE 754 has them."""
    if np.isnan(x):
        return np.nan
    if np.isinf(x):
        at_infinity = {"sigmoid": (0.0, 1.0), "silu": (-0.0, np.inf), "log1p": (None, np.inf)}
        return at_infinity.get(name, (0.0, np.inf))[int(x > 0)]
    if x == 0 and name in ("log1p", "silu"):
        return float(x)
    if x == -1 and name == "log1p":
        return -np.inf
    if x < -2000 or (x > 2000 and name == "exp"):
        return at_far_end(name, x)
    y = nearest_double(function(mpmath.mpf(float(x))))
    return -0.0 if y == 0 and name == "silu" else y


def at_far_end(name, x):
    """Far beyond the range of doubles, where mpmath would only waste time."""
    if x > 0:
        return np.inf
    return -0.0 if name == "silu" else 0.0


def rotary_table(draw):
    """cos and sin at position*inv_freq, each of the double product as rounded."""
    positions = np.unique(np.concatenate([
        [0, 1, 2, 3, 1023, 1024, 4095, 4096, 32767, 65535, 131071, 131072, 262142, LAST_POSITION],
        draw.integers(0, LAST_POSITION + 1, 60)]))
    frequencies = np.concatenate([
        [nearest_double(mpmath.mpf(theta) ** (-mpmath.mpf(2 * j) / dims)) for j in range(dims // 2)]
        for theta, dims in ROPE])
    position, frequency = (a.ravel() for a in np.meshgrid(positions, frequencies, indexing="ij"))
    angle = position * frequency
    cos = np.array([nearest_double(mpmath.cos(mpmath.mpf(a))) for a in angle.tolist()])
    sin = np.array([nearest_double(mpmath.sin(mpmath.mpf(a))) for a in angle.tolist()])
    return {"position": Tensor("I32", position.astype(np.int32)), "inv_freq": Tensor("F64", frequency),
            "angle": Tensor("F64", angle), "cos": Tensor("F64", cos), "sin": Tensor("F64", sin)}


def main():
    mpmath.mp.prec = BITS
    draw = np.random.default_rng(SEED)
    for name, (function, *where) in FUNCTIONS.items():
        x = points(draw, *where)
        y = np.array([value_at(function, name, value) for value in x])
        write_file(os.path.join(DATA, f"{name}.safetensors"),
                   {"x": Tensor("F32", x), "y": Tensor("F64", y)})
        print(f"{name}: {len(x)} points")
    table = rotary_table(draw)
    write_file(os.path.join(DATA, "trig.safetensors"), table)
    print(f"trig: {len(table['angle'].data)} points")


if __name__ == "__main__":
    main()
