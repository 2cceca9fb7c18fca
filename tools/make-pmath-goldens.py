#!/usr/bin/env python3
"""Writes tests/data/math/pmath.json: exact values of exp, log, sin and cos.

Each entry is [x, y, rest]: the bits of the argument and of the value rounded to
double (16 hex digits each), and (true value - y) in units in the last place of
y, so that a test can measure errors below half a unit.  Needs mpmath 1.3.0.
"""
import json
import math
import pathlib
import random
import struct

from mpmath import mp, mpf

PRECISION = 400  # bits: enough for sin of the worst double below 1e7
RANDOM_POINTS = 500
# The worst of three million random arguments each.
HARD_LOG = ["0x1.6948c43f3790fp-1", "0x1.66f1ecb16404ep-1", "0x1.6651f7dbebf4bp+0"]
HARD_ANGLE = ["0x1.d5a584e5f838p+16", "0x1.d68c5205e033dp+21", "-0x1.83a82a0785bc8p+17", "-0x1.00d702ef13552p+8"]
OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/math/pmath.json"


def bits(x):
    return struct.pack(">d", x).hex()


def entry(function, x):
    true = function(mpf(x))
    y = float(true)  # rounded to nearest, also among subnormals
    rest = (true - mpf(y)) / mpf(math.ulp(y))
    return [bits(x), bits(y), round(float(rest), 6)]


def neighbours(x):
    return [math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf)]


def exp_points(rng):
    points = [0.0, 1.0, -1.0, 5e-324, 1e-300, -1e-17, 709.782712893384, -708.4, -745.1332191019411]
    points += [p for k in (-1000, -3, -1, 1, 2, 900) for p in neighbours(float((k + 0.5) * math.log(2)))]
    points += [rng.uniform(-745, 709.7) for _ in range(RANDOM_POINTS // 2)]
    points += [rng.uniform(-1, 1) * 2.0 ** rng.randrange(-40, 6) for _ in range(RANDOM_POINTS // 2)]
    return points


def log_points(rng):
    points = [2.0, 0.5, 10.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308]
    points += [p for c in (math.sqrt(0.5), math.sqrt(2), 1.0) for p in neighbours(c) if p != 1.0]
    points += [math.ldexp(rng.uniform(1, 2), rng.randrange(-1022, 1024)) for _ in range(RANDOM_POINTS // 2)]
    points += [rng.uniform(0.5, 2) for _ in range(RANDOM_POINTS // 4)]
    points += [1 + rng.uniform(-1, 1) * 2.0 ** rng.randrange(-50, -1) for _ in range(RANDOM_POINTS // 4)]
    points += [float.fromhex(x) for x in HARD_LOG]
    return [p for p in points if p != 1.0]


def angle_points(rng):
    points = [1e-300, -0.25, 1.0, 1e7, -1e7, 262144.0, 9999999.0]
    with mp.workprec(PRECISION):
        # The doubles nearest to multiples of pi/2: all leading digits cancel.
        points += [float(mp.pi / 2 * n) for n in [1, 2, 3, 4, 11, 355, 6366197] + rng.sample(range(6366197), 200)]
    points += [p for n in (1, 3, 5, 7) for p in neighbours(n * math.pi / 4)]
    points += [rng.uniform(-1e7, 1e7) for _ in range(RANDOM_POINTS // 2)]
    points += [rng.uniform(-1, 1) * 2.0 ** rng.randrange(-30, 23) for _ in range(RANDOM_POINTS // 2)]
    points += [float.fromhex(x) for x in HARD_ANGLE]
    return points


def main():
    mp.prec = PRECISION
    rng = random.Random(20)
    tables = {
        "exp": [entry(mp.exp, x) for x in exp_points(rng)],
        "log": [entry(mp.log, x) for x in log_points(rng)],
    }
    angles = angle_points(rng)
    tables["sin"] = [entry(mp.sin, x) for x in angles]
    tables["cos"] = [entry(mp.cos, x) for x in angles]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    body = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(e) for e in rows) + "\n]" for name, rows in tables.items()
    )
    OUT.write_text("{\n" + body + "\n}\n")


if __name__ == "__main__":
    main()
