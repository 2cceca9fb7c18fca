#!/usr/bin/env python3
"""Writes tests/data/ggml/blocks.safetensors: random blocks of every type and what they decode to.

    make_ggml_goldens.py [OUTPUT]

Per type "<type>.blocks", the bytes, and "<type>.values", float32.  The decoder is ggml.py's.
"""
import json
import pathlib
import random
import struct
import sys

import ggml

HALVES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "IQ4_NL": (0,), "IQ4_XS": (0,),
          "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "MXFP4": ()}


def random_block(name, index, source):
    """Any bytes, but for halves that are finite; the first blocks have small, large and no scales."""
    block = bytearray(source.randbytes(ggml.TYPES[name][2]))
    for at in HALVES[name]:
        bits = [0, 0x8001, 0x7BFF][index] if index < 3 else source.getrandbits(16)
        while bits & 0x7C00 == 0x7C00:
            bits = source.getrandbits(16)
        struct.pack_into("<H", block, at, bits)
    if name == "MXFP4" and index < 4:
        block[0] = (0, 1, 2, 254)[index]
    return bytes(block)


def main(path):
    source, tensors = random.Random(35), {}
    for name in ggml.BLOCK_TYPES:
        count = 2048 // ggml.TYPES[name][1] if ggml.TYPES[name][1] == 256 else 16
        blocks = b"".join(random_block(name, i, source) for i in range(count))
        values = ggml.decode(name, blocks)
        tensors[f"{name}.blocks"] = ("U8", len(blocks), blocks)
        tensors[f"{name}.values"] = ("F32", len(values), struct.pack(f"<{len(values)}f", *values))
    header, offset = {}, 0
    for name, (kind, count, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": [count], "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[1] / "data" / "ggml" / "blocks.safetensors"
    main(sys.argv[1] if len(sys.argv) > 1 else default)
