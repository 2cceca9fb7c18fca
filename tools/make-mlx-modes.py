#!/usr/bin/env python3
"""Writes tests/fixtures/mlx-modes: tiny-odd in MLX layout, every form that the other fixtures lack.

    make-mlx-modes.py [FOLDER]

Plain tensors and prompts are those of mlx-mixed.  Matrices of tiny-odd are quantised by MLX's
published algorithms, and the expected logits are reference.py's of the stored codes, in float64.
"""
import importlib
import json
import os
import sys

import numpy as np

from reference import MODES, Model, e2m1, e4m3
from tensorfile import Tensor, bf16_bits, floats, read_checkpoint, read_file, write_file

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tests", "fixtures")
PREFIX = "language_model."
PROMPTS = ("p1", "p2", "p3", "p4", "p5", "p37", "p130")
DEFAULT = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
MXFP8 = {"group_size": 32, "bits": 8, "mode": "mxfp8"}
NVFP4 = {"group_size": 16, "bits": 4, "mode": "nvfp4"}


def affine(bits, group):
    """Without a mode, as exporters write overrides."""
    return {"group_size": group, "bits": bits}


OVERRIDES = {
    "model.embed_tokens": NVFP4,
    "lm_head": MXFP8,
    "model.layers.0.linear_attn.in_proj_qkv": affine(5, 32),
    "model.layers.0.linear_attn.in_proj_z": affine(2, 32),
    "model.layers.0.linear_attn.out_proj": affine(5, 64),
    "model.layers.0.mlp.up_proj": affine(3, 32),
    "model.layers.1.self_attn.q_proj": MXFP8,
    "model.layers.1.self_attn.v_proj": affine(6, 32),
    "model.layers.1.self_attn.o_proj": affine(5, 128),
    "model.layers.1.mlp.down_proj": NVFP4,
    "model.layers.2.linear_attn.in_proj_qkv": NVFP4,
    "model.layers.2.linear_attn.out_proj": affine(2, 64),
    "model.layers.2.mlp.gate_proj": MXFP8,
    "model.layers.3.self_attn.o_proj": affine(2, 128),
    "model.layers.3.self_attn.k_proj": affine(3, 32),
    "model.layers.3.mlp.down_proj": affine(6, 32),
}


def nearest(values, table):
    """Codes of the table's nearest entries; the table is of magnitudes, the sign goes on top."""
    codes = np.abs(np.abs(values)[..., None] - table).argmin(axis=-1)
    return codes + len(table) * (values < 0)


def small_floats(values, mode):
    """Codes [rows, columns] and scale bytes [rows, groups]."""
    bits, group = MODES[mode]
    element = e2m1(np.arange(8)) if bits == 4 else e4m3(np.arange(127))
    grouped = values.astype(np.float64).reshape(len(values), -1, group)
    largest = np.abs(grouped).max(axis=-1)
    if mode == "nvfp4":
        scales = np.abs(largest[..., None] / 6 - e4m3(np.arange(127))).argmin(axis=-1)
        factor = e4m3(scales)
    else:
        scales = np.round(np.log2(largest / element[-1])).astype(int) + 127
        factor = np.ldexp(1.0, scales - 127)
    scaled = np.divide(grouped, factor[..., None], where=factor[..., None] != 0, out=np.zeros_like(grouped))
    codes = nearest(scaled, element)
    if bits == 8:
        codes += codes >= 127  # 127 is no code that an encoder writes: the sign is bit 7
    return codes.astype(np.uint8).reshape(values.shape), scales.astype(np.uint8)


def quantised(path, values, entry, quantiser):
    mode = entry.get("mode", "affine")
    if mode == "affine":
        codes, scales, biases = quantiser.affine_quantise(values, entry["bits"], entry["group_size"])
        return {f"{path}.weight": Tensor("U32", quantiser.pack(codes, entry["bits"])),
                f"{path}.scales": Tensor("BF16", bf16_bits(scales)),
                f"{path}.biases": Tensor("BF16", bf16_bits(biases))}
    codes, scales = small_floats(values, mode)
    return {f"{path}.weight": Tensor("U32", quantiser.pack(codes, entry["bits"])),
            f"{path}.scales": Tensor("U8", scales)}


def make_model(folder):
    quantiser = importlib.import_module("quantize-demo")
    source = read_checkpoint(os.path.join(FIXTURES, "tiny-odd"))
    result = {}
    for name, tensor in read_checkpoint(os.path.join(FIXTURES, "mlx-mixed")).items():
        path = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if not name.endswith(".weight") or tensor.data.ndim != 2:
            result[name] = tensor
            continue
        values = floats(source[path.removeprefix(PREFIX) + ".weight"])
        result.update(quantised(path, values, OVERRIDES.get(path.removeprefix(PREFIX), DEFAULT), quantiser))
    write_file(os.path.join(folder, "model.safetensors"), result, {"format": "mlx"})
    with open(os.path.join(FIXTURES, "mlx-mixed", "config.json"), encoding="utf-8") as stream:
        config = json.load(stream)
    config["quantization"] = {**DEFAULT, **{PREFIX + path: entry for path, entry in OVERRIDES.items()}}
    config["quantization_config"] = config["quantization"]
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as stream:
        json.dump(config, stream, indent=2)
        stream.write("\n")


def make_expected(folder):
    model, result = Model(folder), {}
    given = read_file(os.path.join(FIXTURES, "mlx-mixed", "expected.safetensors"))
    for prompt in PROMPTS:
        ids = given[f"{prompt}.input_ids"]
        result[f"{prompt}.input_ids"] = ids
        result[f"{prompt}.last_logits"] = Tensor("F64", model.logits(ids.data)[-1])
    tokens, rows = model.greedy(result["p5.input_ids"].data.tolist(), 16)
    best = np.sort(rows, axis=-1)
    result["p5.greedy_tokens"] = Tensor("I32", np.array(tokens, np.int32))
    result["p5.greedy_margin"] = Tensor("F32", (best[:, -1] - best[:, -2]).astype(np.float32))
    write_file(os.path.join(folder, "expected.safetensors"), result)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(FIXTURES, "mlx-modes")
    os.makedirs(folder, exist_ok=True)
    make_model(folder)
    make_expected(folder)


if __name__ == "__main__":
    main()
