#!/usr/bin/env python3
"""Writes tests/data/mlx/modes.safetensors: random groups of MLX's floating-point modes and their weights.

    make_mlx_goldens.py [OUTPUT]

Per mode "<mode>.codes" and "<mode>.scales", the bytes, and "<mode>.values", float32.  Every code and
the smallest and largest scales are among them.  The decoder is mlx.py's.
"""
import pathlib
import random
import struct
import sys

import goldens
import mlx

GROUPS = 24


def main(path):
    source, tensors = random.Random(36), {}
    for mode, (bits, group) in mlx.MODES.items():
        size = GROUPS * group * bits // 8
        codes = bytes(range(256)) + source.randbytes(size - 256) if size > 256 else source.randbytes(size)
        if mode == "nvfp4":
            scales = bytes([0, 1, 7, 8, 0x7E, 0x7F, 0x80, 0xFF]) + source.randbytes(GROUPS - 8)
        else:  # beyond 245 the largest products leave float32's range
            scales = bytes([0, 1, 2, 244]) + bytes(source.randrange(245) for _ in range(GROUPS - 4))
        values = mlx.decode(mode, codes, scales)
        tensors[f"{mode}.codes"] = ("U8", len(codes), codes)
        tensors[f"{mode}.scales"] = ("U8", len(scales), scales)
        tensors[f"{mode}.values"] = ("F32", len(values), struct.pack(f"<{len(values)}f", *values))
    goldens.write(path, tensors)


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[1] / "data" / "mlx" / "modes.safetensors"
    main(sys.argv[1] if len(sys.argv) > 1 else default)
