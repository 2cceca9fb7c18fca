#!/usr/bin/env python3
"""Compares what `weir quantize` made with what MLX makes of the same source, byte for byte.

    compare_with_mlx.py SRC DST

SRC is the unquantised folder, DST the one that weir wrote.  Every quantised module is quantised again
by mlx.core.quantize on the CPU device, then mlx-lm opens the folder.  Needs numpy, `mlx[cpu]` and mlx-lm
in a virtual environment of your own; no other test does.
"""
import json
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

TYPES = {"bfloat16": mx.bfloat16, "float16": mx.float16, "float32": mx.float32}
PREFIXES = {"language_model.model.": ["model.language_model.", "model.", "language_model.model.", ""],
            "language_model.lm_head": ["lm_head", "language_model.lm_head"], "mtp.": ["mtp.", "model.mtp."]}


def load(folder):
    """All tensors of a folder; the later names win, as they are the same anyway."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        if path.name != "expected.safetensors":
            tensors.update(mx.load(str(path)))
    return tensors


def source_of(module, tensors):
    """The source's weight of a module of the output, or None."""
    for prefix, others in PREFIXES.items():
        if not module.startswith(prefix):
            continue
        for other in others:
            name = other + module[len(prefix):]
            if name + ".weight" in tensors:
                return tensors[name + ".weight"]
            stem, _, part = name.partition(".switch_mlp.")
            fused = tensors.get(stem + ".experts.gate_up_proj")
            if part == "down_proj" and stem + ".experts.down_proj" in tensors:
                return tensors[stem + ".experts.down_proj"]
            if part and fused is not None:
                half = fused.shape[1] // 2
                return fused[:, :half] if part == "gate_proj" else fused[:, half:]
    return None


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(
        np.array(a.view(mx.uint8)), np.array(b.view(mx.uint8)))


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    mx.set_default_device(mx.cpu)
    source, target = load(Path(argv[1])), load(Path(argv[2]))
    config = json.loads((Path(argv[2]) / "config.json").read_text())
    block = config["quantization"]
    named = config.get("dtype") or config.get("torch_dtype") or config.get("text_config", {}).get("dtype")
    compared = differing = 0
    for name in sorted(target):
        if not name.endswith(".scales"):
            continue
        module = name.removesuffix(".scales")
        weight = source_of(module, source)
        if weight is None:
            print(f"{module}: not found in the source")
            differing += 1
            continue
        form = block.get(module, block)
        made = mx.quantize(weight.astype(TYPES.get(named, weight.dtype)), form["group_size"], form["bits"])
        compared += 1
        for kind, tensor in zip(("weight", "scales", "biases"), made):
            if not same(tensor, target[f"{module}.{kind}"]):
                print(f"{module}.{kind}: differs")
                differing += 1
    print(f"{compared} modules compared, {differing} differences")
    model, _ = load_model(Path(argv[2]))
    logits = model(mx.array([[1, 2, 3]]))
    print(f"mlx-lm opens it; logits {logits.shape}, {'finite' if mx.isfinite(logits).all().item() else 'NOT FINITE'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
