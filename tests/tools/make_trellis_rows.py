#!/usr/bin/env python3
"""Writes tests/data/trellis/rows.safetensors: rows of numbers and the trellis blocks that stand for them.

    make_trellis_rows.py [OUTPUT]

"x", float32 [rows, 512], and for k = 2, 3, 4 bits "k<k>.words" and "k<k>.scales".  The encoder is trellis_encoder.py's.
Needs numpy.
"""
import pathlib
import random
import sys

import numpy as np
import trellis_encoder

COLS = 2 * trellis_encoder.T


def rows():
    source = random.Random(12)
    normal = [source.gauss(0, 0.02) for _ in range(COLS)]
    heavy = [source.gauss(0, 0.3) ** 3 for _ in range(COLS)]
    spike = [50.0 if i == 300 else source.gauss(0, 1) for i in range(COLS)]
    steps = [(i // 16 % 5 - 2) / 4 for i in range(COLS)]
    return np.array([
        normal,
        heavy,
        spike,
        steps,  # repeated numbers: many walks are equally good
        [0.0] * COLS,
        [source.gauss(0, 1e-9) for _ in range(COLS)],  # no scale in half precision
        [source.gauss(0, 1e-7) for _ in range(COLS)],  # one of the smallest
        [source.gauss(0, 3e4) for _ in range(COLS)],
    ], np.float32)


def main(path):
    tensors = {"x": rows()}
    for k in (2, 3, 4):
        words, scales = trellis_encoder.encode(tensors["x"], k)
        tensors.update({f"k{k}.words": words, f"k{k}.scales": scales})
    pathlib.Path(path).parent.mkdir(exist_ok=True)
    trellis_encoder.write(path, tensors)


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[1] / "data" / "trellis" / "rows.safetensors"
    main(sys.argv[1] if len(sys.argv) > 1 else default)
