#!/usr/bin/env python3
"""Quantises the demo model: Hugging Face layout in bfloat16 -> MLX layout, affine codes.

    quantize-demo.py SOURCE_FOLDER TARGET_FOLDER
    quantize-demo.py --self-test

Linear layers get 4-bit codes, the embedding (which is also the output head) 8-bit codes, both in
groups of 64 with a bfloat16 scale and bias.  Norm gains, conv1d, A_log and dt_bias are kept.  Norms
stored as gain - 1 become gains in float32, where the sum is exact.  The MTP layer is treated like
the trunk and keeps its names `mtp.*`.  Rounding is that of MLX's CPU quantiser.
"""
import json
import os
import sys

import numpy as np

from tensorfile import Tensor, bf16_bits, floats, read_checkpoint, write_file

BITS, EMBEDDING_BITS, GROUP = 4, 8, 64
EMBEDDING = "language_model.model.embed_tokens"
SHIFTED_NORMS = ("input_layernorm.weight", "post_attention_layernorm.weight", "model.norm.weight",
                 "q_norm.weight", "k_norm.weight", "mtp.norm.weight",
                 "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight")


def affine_quantise(values, bits, group):
    """MLX's affine quantiser, CPU rounding.

    values: float32 [rows, columns].  Returns codes [rows, columns] and the float32 scales and
    biases [rows, columns / group].  The end of a group with the larger magnitude is met exactly
    and zero is a grid point; codes come from the unrounded scale and bias.
    """
    grouped = np.asarray(values, np.float32).reshape(len(values), -1, group)
    top = np.float32(2**bits - 1)
    low, high = grouped.min(axis=-1), grouped.max(axis=-1)
    scale = np.maximum((high - low) / top, np.float32(1e-7))
    low_side = np.abs(low) > np.abs(high)
    scale = np.where(low_side, scale, -scale)
    edge = np.where(low_side, low, high)
    steps = np.rint(edge / scale)
    on_grid = steps != 0
    scale = np.where(on_grid, edge / np.where(on_grid, steps, np.float32(1)), scale)
    bias = np.where(on_grid, edge, np.float32(0))
    codes = np.clip(np.rint((grouped - bias[..., None]) / scale[..., None]), np.float32(0), top)
    assert scale.dtype == codes.dtype == np.float32
    return codes.astype(np.uint8).reshape(values.shape), scale, bias


def pack(codes, bits):
    """Codes of each row as one bit string, lowest bits first, in 32-bit words."""
    stream = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., :bits]
    packed = np.packbits(stream.reshape(len(codes), -1), axis=-1, bitorder="little")
    return packed.view("<u4")


def quantised(path, tensor, bits, group):
    """The three stored tensors of one quantised module."""
    codes, scales, biases = affine_quantise(floats(tensor), bits, group)
    return {f"{path}.weight": Tensor("U32", pack(codes, bits)),
            f"{path}.scales": Tensor("BF16", bf16_bits(scales)),
            f"{path}.biases": Tensor("BF16", bf16_bits(biases))}


def convert(tensors):
    """A whole checkpoint: names, conv layout, norm gains, quantised matrices."""
    result = {}
    for name, tensor in tensors.items():
        if not name.startswith("mtp."):
            name = "language_model." + name
        if name.endswith("conv1d.weight"):
            result[name] = Tensor(tensor.dtype, tensor.data.transpose(0, 2, 1))
        elif name.endswith(SHIFTED_NORMS):
            result[name] = Tensor("F32", shifted(name, tensor))
        elif tensor.data.ndim == 2:
            path = name.removesuffix(".weight")
            bits = EMBEDDING_BITS if path == EMBEDDING else BITS
            result.update(quantised(path, tensor, bits, GROUP))
        else:
            result[name] = tensor
    return result


def shifted(name, tensor):
    """1 + stored gain in float32; stops when that would round."""
    gain = np.float32(1) + floats(tensor)
    if not np.array_equal(gain.astype(np.float64), 1 + floats(tensor, np.float64)):
        raise ValueError(f"{name}: 1 + weight is not exact in float32")
    return gain


def write_config(source, target):
    with open(os.path.join(source, "config.json"), encoding="utf-8") as stream:
        config = json.load(stream)
    quantization = {"group_size": GROUP, "bits": BITS, "mode": "affine",
                    EMBEDDING: {"group_size": GROUP, "bits": EMBEDDING_BITS, "mode": "affine"}}
    config["quantization"] = config["quantization_config"] = quantization
    with open(os.path.join(target, "config.json"), "w", encoding="utf-8") as stream:
        json.dump(config, stream, indent=2)
        stream.write("\n")


def self_test():
    """Worked examples of the format: groups of 32, bfloat16 scales."""
    ramp = ((np.arange(32, dtype=np.float32) - 12) / 16)[None]
    expected = {2: (0xBF18, "aaaaffff 00155556"),
                3: (0xBE98, "2db6edb7 26db7249 00124949"),
                4: (0xBE07, "bccddeef 88999aab 44556677 00112233"),
                5: (0xBD80, "75be77df 3a56d7c6 35cf8465 c74254b6 00443214"),
                6: (0xBCF9, "77e7cfbf bb6fc73d 863967a6 5765b75f a30e4125 00210620"),
                8: (0xBBF9, "e6eef6ff c5cdd5de a4acb5bd 838c949c 636b737b 424a525a 21293139 00081019")}
    for bits, (scale_bits, words) in expected.items():
        codes, scale, bias = affine_quantise(ramp, bits, 32)
        assert bf16_bits(scale)[0, 0] == scale_bits and bias[0, 0] == 1.1875, bits
        assert " ".join(f"{word:08x}" for word in pack(codes, bits)[0]) == words, bits
    ties = np.concatenate([[15, 0, 14.5, 13.5, 12.5, 0.5, 1.5, 2.5], np.arange(24) % 16])
    codes, scale, bias = affine_quantise(ties.astype(np.float32)[None], 4, 32)
    assert (scale[0, 0], bias[0, 0]) == (-1, 15)
    assert codes[0, :8].tolist() == [0, 15, 0, 2, 2, 14, 14, 12]
    assert pack(codes, 4)[0, :1].tobytes() == bytes.fromhex("f020e2ce")
    negative = (-1 - 0.01 * np.arange(32)).astype(np.float32)[None]
    codes, scale, bias = affine_quantise(negative, 4, 32)
    assert scale[0, 0] == np.float32(0.0207936503) and bias[0, 0] == np.float32(-1.30999994)
    assert codes[0, :4].tolist() == [15, 14, 14, 13] and codes[0, -2:].tolist() == [0, 0]
    codes, scale, bias = affine_quantise(np.zeros((1, 32), np.float32), 4, 32)
    assert bf16_bits(scale)[0, 0] == 0xB3D7 and bias[0, 0] == 0 and not codes.any()
    print("self-test: 9 worked examples agree")


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    source, target = arguments
    tensors = convert(read_checkpoint(source))
    path = os.path.join(target, "model.safetensors")
    write_file(path, tensors, {"format": "mlx"})
    write_config(source, target)
    print(f"{len(tensors)} tensors, {os.path.getsize(path):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
