#!/usr/bin/env python3
"""Writes tests/fixtures/trellis: two layers whose MLPs are trellis-coded, along both axes and in pairs of blocks.

    make-trellis-fixture.py [FOLDER]

Names and norms are those of Hugging Face, as the published files of this kind have them; the other
matrices are affine.  Symbols are random: any of them are weights.  The expected logits are
reference.py's of the stored codes, in float64.
"""
import importlib
import json
import os
import sys

import numpy as np

from reference import Model
from tensorfile import Tensor, bf16_bits, write_file

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "tests", "fixtures")
PROMPTS = (1, 2, 3, 4, 5, 37, 130)
HIDDEN, INNER, VOCAB, HEAD, TAPS = 512, 40, 80, 64, 4
BLOCK, PAIR = 256, 512
DEFAULT = {"group_size": 64, "bits": 2, "mode": "affine"}
EMBEDDING = {"group_size": 64, "bits": 4, "mode": "affine"}

# Path in the layer -> bits, axis, in pairs.
TRELLIS = {
    "layers.0.mlp.gate_proj": (2, 1, False),
    "layers.0.mlp.up_proj": (3, 1, False),
    "layers.0.mlp.down_proj": (3, 0, True),
    "layers.1.mlp.gate_proj": (4, 1, False),
    "layers.1.mlp.up_proj": (5, 1, False),
    "layers.1.mlp.down_proj": (4, 0, False),
}
CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "attn_output_gate": True,
    "dtype": "bfloat16",
    "eos_token_id": VOCAB - 1,
    "full_attention_interval": 2,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_conv_kernel_dim": TAPS,
    "linear_key_head_dim": HEAD,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 1,
    "linear_value_head_dim": HEAD,
    "max_position_embeddings": 4096,
    "model_type": "qwen3_5",
    "mtp_num_hidden_layers": 0,
    "num_attention_heads": 1,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"mrope_interleaved": True, "mrope_section": [3, 3, 2], "partial_rotary_factor": 0.25,
                        "rope_theta": 10000.0, "rope_type": "default"},
    "tie_word_embeddings": True,
    "vocab_size": VOCAB,
}
MATRICES = {
    "layers.0.linear_attn.in_proj_qkv": (3 * HEAD, HIDDEN),
    "layers.0.linear_attn.in_proj_z": (HEAD, HIDDEN),
    "layers.0.linear_attn.in_proj_a": (1, HIDDEN),
    "layers.0.linear_attn.in_proj_b": (1, HIDDEN),
    "layers.0.linear_attn.out_proj": (HIDDEN, HEAD),
    "layers.1.self_attn.q_proj": (2 * HEAD, HIDDEN),
    "layers.1.self_attn.k_proj": (HEAD, HIDDEN),
    "layers.1.self_attn.v_proj": (HEAD, HIDDEN),
    "layers.1.self_attn.o_proj": (HIDDEN, HEAD),
}
GAINS = {
    "norm": HIDDEN,
    "layers.0.input_layernorm": HIDDEN, "layers.0.post_attention_layernorm": HIDDEN,
    "layers.1.input_layernorm": HIDDEN, "layers.1.post_attention_layernorm": HIDDEN,
    "layers.1.self_attn.q_norm": HEAD, "layers.1.self_attn.k_norm": HEAD,
}


def trellis(random, bits, axis, pairs):
    """Random words, and halves that make a weight as large as its share of the inputs."""
    stored, coded, inputs = (INNER, HIDDEN, HIDDEN) if axis == 1 else (INNER, HIDDEN, INNER)
    shape = (coded // PAIR, stored, PAIR * bits // 32) if pairs else (stored, coded * bits // 32)
    words = random.integers(0, 2**32, shape, np.uint32)
    scales = random.uniform(0.8, 1.2, stored) / np.sqrt(inputs)
    return {"weight": Tensor("U32", words), "scales": Tensor("F16", scales.astype(np.float16))}


def affine(random, quantiser, shape, entry):
    values = random.normal(0, 1 / np.sqrt(shape[1]), shape).astype(np.float32)
    codes, scales, biases = quantiser.affine_quantise(values, entry["bits"], entry["group_size"])
    return {"weight": Tensor("U32", quantiser.pack(codes, entry["bits"])),
            "scales": Tensor("BF16", bf16_bits(scales)), "biases": Tensor("BF16", bf16_bits(biases))}


def make_model(folder):
    quantiser, random = importlib.import_module("quantize-demo"), np.random.default_rng(45)
    modules = {path: affine(random, quantiser, shape, DEFAULT) for path, shape in MATRICES.items()}
    modules["embed_tokens"] = affine(random, quantiser, (VOCAB, HIDDEN), EMBEDDING)
    modules |= {path: trellis(random, *form) for path, form in TRELLIS.items()}
    modules |= {path: {"weight": Tensor("BF16", bf16_bits(random.normal(0, 0.1, n)))} for path, n in GAINS.items()}
    delta = "layers.0.linear_attn"
    modules[delta + ".norm"] = {"weight": Tensor("BF16", bf16_bits(random.uniform(0.8, 1.2, HEAD)))}
    modules[delta + ".conv1d"] = {"weight": Tensor("BF16", bf16_bits(random.normal(0, 0.5, (3 * HEAD, 1, TAPS))))}
    modules[delta] = {"A_log": Tensor("F32", np.log(random.uniform(1, 8, 1)).astype(np.float32)),
                      "dt_bias": Tensor("BF16", bf16_bits(random.uniform(-4, -2, 1)))}
    tensors = {f"model.language_model.{path}.{name}": tensor
               for path, parts in modules.items() for name, tensor in parts.items()}
    write_file(os.path.join(folder, "model.safetensors"), tensors, {"format": "mlx"})
    entries = {"embed_tokens": EMBEDDING}
    for path, (bits, axis, _) in TRELLIS.items():
        entries[path] = {"bits": bits, "group_size": BLOCK, "mode": "trellis",
                         "trellis": {"L": 12, "code": "1mad", "axis": axis}}
    both = {prefix + path: entry for path, entry in entries.items()
            for prefix in ("language_model.model.", "model.language_model.")}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as stream:
        json.dump({**CONFIG, "quantization": {**DEFAULT, **both}}, stream, indent=2)
        stream.write("\n")


def make_expected(folder):
    model, result, random = Model(folder), {}, np.random.default_rng(46)
    for n in PROMPTS:
        ids = random.integers(0, VOCAB - 1, n).astype(np.int32)
        result[f"p{n}.input_ids"] = Tensor("I32", ids)
        result[f"p{n}.last_logits"] = Tensor("F64", model.logits(ids)[-1])
    tokens, rows = model.greedy(result["p5.input_ids"].data.tolist(), 16)
    best = np.sort(rows, axis=-1)
    result["p5.greedy_tokens"] = Tensor("I32", np.array(tokens, np.int32))
    result["p5.greedy_margin"] = Tensor("F32", (best[:, -1] - best[:, -2]).astype(np.float32))
    write_file(os.path.join(folder, "expected.safetensors"), result)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(FIXTURES, "trellis")
    os.makedirs(folder, exist_ok=True)
    make_model(folder)
    make_expected(folder)


if __name__ == "__main__":
    main()
