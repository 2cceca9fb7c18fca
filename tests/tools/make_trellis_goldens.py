#!/usr/bin/env python3
"""Writes tests/data/trellis/blocks.safetensors: random rows of trellis blocks and their weights.

    make_trellis_goldens.py [OUTPUT]

For every width of 1 to 8 bits "<bits>.blocks", two rows of two blocks, "<bits>.scales", a half a row, and
"<bits>.values", bfloat16.  The decoder is trellis.py's.
"""
import pathlib
import random
import struct
import sys

import goldens
import trellis

ROWS, BLOCKS = 2, 2


def main(path):
    source, tensors = random.Random(41), {}
    for bits in range(1, 9):
        size = trellis.BLOCK * bits // 8
        blocks = [[source.randbytes(size) for _ in range(BLOCKS)] for _ in range(ROWS)]
        halves = struct.pack(f"<{ROWS}e", *(source.uniform(0.005, 0.1) for _ in range(ROWS)))
        scales = struct.unpack(f"<{ROWS}e", halves)
        values = [trellis.weight(state, scale) for row, scale in zip(blocks, scales)
                  for block in row for state in trellis.states(block, bits)]
        data = b"".join(block for row in blocks for block in row)
        tensors[f"{bits}.blocks"] = ("U8", len(data), data)
        tensors[f"{bits}.scales"] = ("F16", ROWS, halves)
        tensors[f"{bits}.values"] = ("BF16", len(values), struct.pack(f"<{len(values)}H", *values))
    goldens.write(path, tensors)


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[1] / "data" / "trellis" / "blocks.safetensors"
    main(sys.argv[1] if len(sys.argv) > 1 else default)
