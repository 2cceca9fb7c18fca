#!/usr/bin/env python3
"""Compares the trellis modules that `weir quantize` made with what trellis_encoder.py makes of the same source, byte for byte.

    compare_with_trellis_encoder.py SRC DST [ROWS]

SRC is the unquantised folder, DST the one that weir wrote.  ROWS stored rows of every module are compared,
evenly spaced (default: 16; 0: all, at some tens of milliseconds for 256 weights).  Needs numpy.
"""
import json
import sys
from pathlib import Path

import numpy as np
import trellis_encoder


def load(folder):
    tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        tensors.update(trellis_encoder.read(path))
    return tensors


def main(argv):
    if len(argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    source, target = load(Path(argv[1])), load(Path(argv[2]))
    block = json.loads((Path(argv[2]) / "config.json").read_text())["quantization"]
    count = int(argv[3]) if len(argv) == 4 else 16
    modules = rows = differing = 0
    for module, form in sorted(block.items()):
        if not isinstance(form, dict) or form.get("mode") != "trellis":
            continue
        tail = module.removeprefix("language_model.model.") + ".weight"
        weight = next(source[p + tail] for p in ("model.language_model.", "model.", "language_model.model.", "")
                      if p + tail in source)
        axis = form["trellis"]["axis"]
        stored = weight.astype(np.float32) if axis == 1 else weight.astype(np.float32).T
        step = max(1, len(stored) // count) if count else 1
        words, scales = trellis_encoder.encode(stored[::step], form["bits"])
        same = (np.array_equal(words, target[module + ".weight"][::step])
                and np.array_equal(scales.view(np.uint16), target[module + ".scales"][::step].view(np.uint16)))
        made = trellis_encoder.decode(words, scales, form["bits"]).astype(float)
        error = ((made - stored[::step]) ** 2).sum() / (stored[::step].astype(float) ** 2).sum()
        modules, rows, differing = modules + 1, rows + len(words), differing + (not same)
        print(f"{module}: {form['bits']} bits, axis {axis}, error {error:.4f}, {'same' if same else 'DIFFERS'}")
    print(f"{modules} modules, {rows} rows compared, {differing} modules differ")
    return 1 if differing or not modules else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
