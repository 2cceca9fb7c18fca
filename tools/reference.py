#!/usr/bin/env python3
"""A float64 forward pass of the Qwen3.5 text model: the reference the engine is measured against.

    reference.py check FOLDER...            logits against FOLDER/expected.safetensors
    reference.py loss FOLDER IDS.json...    mean loss of token id files, windows of 1024

Written for reading, from the model's equations alone: every product, sum and function is float64,
a sequence runs from an empty state, and nothing is cached between calls.  Opens dense and MoE
checkpoints in Hugging Face and in MLX layout; codes are dequantised in float64, affine ones as
code*scale + bias, small floats as element*scale, trellis codes as the bfloat16 that they stand for.  Text positions only: vision tensors are ignored.
"""
import json
import os
import sys

import numpy as np

from tensorfile import bf16_bits, floats, read_checkpoint, read_file

WINDOW = 1024
VISION = ("model.visual.", "vision_tower.")
TRUNK = ("model.language_model.", "language_model.model.", "language_model.", "model.")
SHIFTED_NORMS = ("input_layernorm.weight", "post_attention_layernorm.weight", "q_norm.weight",
                 "k_norm.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight")


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.logaddexp(0, x)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rms_norm(x, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def l2_norm(x):
    """Unit length; the constant is added to the sum of squares and does not follow the config."""
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + 1e-6)


def rotate(x, theta, dims):
    """Rotary position embedding of x [position, head, dim] on its first `dims` components."""
    half = dims // 2
    frequency = theta ** (-2 * np.arange(half) / dims)
    angle = np.arange(len(x))[:, None, None] * frequency
    cos, sin = np.cos(angle), np.sin(angle)
    a, b, rest = x[..., :half], x[..., half:dims], x[..., dims:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def delta_rule(q, k, v, decay, beta):
    """The gated delta rule, token by token.

    q, k [token, value head, key dim], v [token, value head, value dim], decay, beta [token, value
    head].  Returns outputs like v and the last state [value head, value dim, key dim].
    """
    state = np.zeros((v.shape[1], v.shape[2], k.shape[2]))
    outputs = np.empty_like(v)
    for t in range(len(v)):
        state *= decay[t, :, None, None]
        read = np.matmul(state, k[t, :, :, None])[..., 0]
        delta = beta[t, :, None] * (v[t] - read)
        state += delta[:, :, None] * k[t, :, None, :]
        outputs[t] = np.matmul(state, q[t, :, :, None])[..., 0]
    return outputs, state


# MLX's floating-point modes: bits of an element, elements that share a scale.
MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


def unpack(weight, bits):
    """Integer codes: one bit string a row, lowest bits first."""
    stream = np.unpackbits(np.ascontiguousarray(weight.data).view(np.uint8), axis=-1,
                           bitorder="little")
    return stream.reshape(*weight.data.shape[:-1], -1, bits) @ (1 << np.arange(bits))


def e2m1(codes):
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7] * np.where(codes & 8, -1.0, 1.0)


def e4m3(codes):
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, np.ldexp(8.0 + mantissa, exponent - 10))
    return magnitude * np.where(codes & 128, -1.0, 1.0)


def trellis_weights(weight, scales, bits, axis):
    """Weights [out, in] of packed trellis codes: 12 bits a state, blocks of 256, each in reversed time."""
    if weight.data.ndim == 3:  # pairs of blocks: [pair, stored row, two blocks]
        words = weight.data.transpose(1, 0, 2).reshape(weight.data.shape[1], -1)
    else:
        words = weight.data
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    stream = stream.reshape(len(words), -1, 256 * bits)
    start = (255 - np.arange(256)) * bits
    places = (start[:, None] + np.arange(12)) % (256 * bits)
    state = stream[..., places].astype(np.int64) @ (1 << np.arange(12))
    x = (state * 34038481 + 76625530) % 2**32
    level = sum(x >> shift & 255 for shift in (0, 8, 16, 24)) - 510
    code = level.astype(np.float32) / np.float32(147.800537109375)
    product = code.reshape(len(words), -1) * floats(scales)[:, None]
    values = (bf16_bits(product).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values if axis == 1 else values.T


def dequantise(tensors, path, entry):
    """float64 values of the quantised module at `path`, stored as `entry` of the config says."""
    if entry.get("mode") == "trellis":
        return trellis_weights(tensors[path + ".weight"], tensors[path + ".scales"], entry["bits"], entry["trellis"]["axis"])
    weight, scales = tensors[path + ".weight"], tensors[path + ".scales"]
    mode = entry.get("mode", "affine")
    bits, group = MODES.get(mode) or (entry["bits"], entry["group_size"])
    codes, columns = unpack(weight, bits), scales.data.shape[-1] * group
    if codes.shape[-1] != columns:
        raise ValueError(f"{path}: expected rows of {columns} codes, found {codes.shape[-1]}")
    codes = codes.reshape(*codes.shape[:-1], -1, group)
    if mode == "affine":
        biases = floats(tensors[path + ".biases"], np.float64)
        values = codes * floats(scales, np.float64)[..., None] + biases[..., None]
    else:
        raw = scales.data.astype(int)
        scale = e4m3(raw) if mode == "nvfp4" else np.ldexp(1.0, raw - 127)
        values = (e2m1(codes) if bits == 4 else e4m3(codes)) * scale[..., None]
    return values.reshape(*values.shape[:-2], columns)


def short_name(name):
    """A tensor's name without the trunk prefix of either layout."""
    for prefix in TRUNK:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def load_weights(folder, quantization):
    """All text tensors of a checkpoint in float64, under short names, norms as gains."""
    tensors = {name: tensor for name, tensor in read_checkpoint(folder).items()
               if not name.startswith(VISION)}
    convs = [tensor.data.shape for name, tensor in tensors.items() if name.endswith("conv1d.weight")]
    shifted = any(shape[-1] != 1 for shape in convs)
    weights = {}
    for name, tensor in tensors.items():
        path = name.removesuffix(".weight")
        if path + ".scales" in tensors and name.endswith(".weight"):
            entry = quantization.get(path) or quantization
            value = dequantise(tensors, path, entry)
        elif name.endswith((".scales", ".biases")):
            continue
        else:
            value = floats(tensor, np.float64)
        short = short_name(name)
        if shifted and (short.endswith(SHIFTED_NORMS) or short in ("norm.weight", "mtp.norm.weight")):
            value = 1 + value
        if short.endswith("conv1d.weight"):
            value = value.reshape(value.shape[0], -1)
        weights[short] = value
    return weights


class Model:
    """A checkpoint and its forward pass."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as stream:
            whole = json.load(stream)
        config = whole.get("text_config", whole)
        self.config = config
        self.eps = config["rms_norm_eps"]
        self.layer_types = config["layer_types"]
        rope = config["rope_parameters"]
        if rope.get("rope_type", "default") != "default":
            raise ValueError(f"rope_type: expected default, found {rope['rope_type']}")
        self.theta = rope["rope_theta"]
        self.rotary = int(config["head_dim"] * rope["partial_rotary_factor"])
        self.weights = load_weights(folder, whole.get("quantization", {}))
        self.head = self.weights.get("lm_head.weight", self.weights["embed_tokens.weight"])

    def linear(self, name, x):
        return x @ self.weights[name + ".weight"].T

    def norm(self, name, x):
        return rms_norm(x, self.eps) * self.weights[name + ".weight"]

    def delta_net(self, path, x, trace):
        """The linear attention layer: x [token, hidden] -> [token, hidden]."""
        c, w = self.config, self.weights
        key_heads, value_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        key_dim, value_dim = c["linear_key_head_dim"], c["linear_value_head_dim"]
        taps = w[path + ".conv1d.weight"]
        width = taps.shape[1]
        projected = self.linear(path + ".in_proj_qkv", x)
        padded = np.concatenate([np.zeros((width - 1, projected.shape[1])), projected])
        mixed = silu(sum(taps[:, i] * padded[i:i + len(x)] for i in range(width)))
        q, k, v = np.split(mixed, [key_heads * key_dim, 2 * key_heads * key_dim], axis=-1)
        repeat = value_heads // key_heads
        q = l2_norm(q.reshape(-1, key_heads, key_dim)).repeat(repeat, axis=1) / np.sqrt(key_dim)
        k = l2_norm(k.reshape(-1, key_heads, key_dim)).repeat(repeat, axis=1)
        v = v.reshape(-1, value_heads, value_dim)
        beta = sigmoid(self.linear(path + ".in_proj_b", x))
        rate = softplus(self.linear(path + ".in_proj_a", x) + w[path + ".dt_bias"])
        decay = np.exp(-np.exp(w[path + ".A_log"]) * rate)
        y, state = delta_rule(q, k, v, decay, beta)
        gate = silu(self.linear(path + ".in_proj_z", x)).reshape(v.shape)
        y = self.norm(path + ".norm", y) * gate
        trace[path] = {"conv": padded[-(width - 1):], "state": state}
        return self.linear(path + ".out_proj", y.reshape(len(x), -1))

    def attention(self, path, x, trace):
        """The full attention layer, causal: x [token, hidden] -> [token, hidden]."""
        c = self.config
        heads, kv_heads, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        q, gate = np.split(self.linear(path + ".q_proj", x).reshape(-1, heads, 2 * dim), 2, axis=-1)
        k = self.linear(path + ".k_proj", x).reshape(-1, kv_heads, dim)
        v = self.linear(path + ".v_proj", x).reshape(-1, kv_heads, dim)
        q = rotate(self.norm(path + ".q_norm", q), self.theta, self.rotary)
        k = rotate(self.norm(path + ".k_norm", k), self.theta, self.rotary)
        trace[path] = {"k": k, "v": v}
        future = np.triu(np.ones((len(x), len(x)), bool), 1)
        mixed = np.empty_like(q)
        for h in range(heads):
            kv = h // (heads // kv_heads)
            scores = q[:, h] @ k[:, kv].T / np.sqrt(dim)
            mixed[:, h] = softmax(np.where(future, -np.inf, scores)) @ v[:, kv]
        mixed *= sigmoid(gate)
        return self.linear(path + ".o_proj", mixed.reshape(len(x), -1))

    def dense_mlp(self, path, x):
        gated = silu(self.linear(path + ".gate_proj", x)) * self.linear(path + ".up_proj", x)
        return self.linear(path + ".down_proj", gated)

    def experts(self, path):
        """Expert matrices gate, up, down, each [expert, out, in], from either packing."""
        if path + ".experts.gate_up_proj" in self.weights:
            gate, up = np.split(self.weights[path + ".experts.gate_up_proj"], 2, axis=1)
            return gate, up, self.weights[path + ".experts.down_proj"]
        return tuple(self.weights[f"{path}.switch_mlp.{name}_proj.weight"]
                     for name in ("gate", "up", "down"))

    def moe_mlp(self, path, x, trace):
        gate, up, down = self.experts(path)
        router = self.linear(path + ".gate", x)
        chosen = np.argsort(-router, axis=-1, kind="stable")[:, :self.config["num_experts_per_tok"]]
        share = np.take_along_axis(softmax(router), chosen, axis=-1)
        share /= share.sum(axis=-1, keepdims=True)
        trace[path] = {"router": router, "chosen": chosen, "share": share}
        routed = np.zeros_like(x)
        for expert in np.unique(chosen):
            token, slot = np.nonzero(chosen == expert)
            rows = x[token]
            out = (silu(rows @ gate[expert].T) * (rows @ up[expert].T)) @ down[expert].T
            routed[token] += share[token, slot, None] * out
        shared = self.dense_mlp(path + ".shared_expert", x)
        return routed + sigmoid(self.linear(path + ".shared_expert_gate", x)) * shared

    def layer(self, path, kind, x, trace):
        mixer = self.attention if kind == "full_attention" else self.delta_net
        name = ".self_attn" if kind == "full_attention" else ".linear_attn"
        x = x + mixer(path + name, self.norm(path + ".input_layernorm", x), trace)
        inner = self.norm(path + ".post_attention_layernorm", x)
        if path + ".mlp.gate.weight" in self.weights:
            return x + self.moe_mlp(path + ".mlp", inner, trace)
        return x + self.dense_mlp(path + ".mlp", inner)

    def hidden(self, ids, trace=None):
        """The stream after the final norm, [token, hidden].

        trace, when given, receives `residuals` (before layer 0 and after each layer) and what each
        layer leaves behind, under the layer's path.
        """
        trace = {} if trace is None else trace
        x = self.weights["embed_tokens.weight"][np.asarray(ids)]
        trace["residuals"] = [x]
        for i, kind in enumerate(self.layer_types):
            x = self.layer(f"layers.{i}", kind, x, trace)
            trace["residuals"].append(x)
        return self.norm("norm", x)

    def logits(self, ids):
        return self.hidden(ids) @ self.head.T

    def draft_hidden(self, hidden, next_ids):
        """The MTP layer's stream after its norm: row i pairs hidden i with the token after it."""
        embedded = self.weights["embed_tokens.weight"][np.asarray(next_ids)]
        pair = np.concatenate([self.norm("mtp.pre_fc_norm_embedding", embedded),
                               self.norm("mtp.pre_fc_norm_hidden", hidden)], axis=-1)
        x = self.layer("mtp.layers.0", "full_attention", self.linear("mtp.fc", pair), {})
        return self.norm("mtp.norm", x)

    def greedy(self, ids, count):
        """`count` greedy tokens, and the logits [step, vocabulary] each was picked from."""
        ids, rows = list(ids), []
        for _ in range(count):
            rows.append(self.hidden(ids)[-1] @ self.head.T)
            ids.append(int(rows[-1].argmax()))
        return ids[-count:], np.array(rows)


def token_losses(logits, targets):
    """Negative log likelihood of each target under its row of logits."""
    top = logits.max(axis=-1)
    log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
    return log_sum - logits[np.arange(len(targets)), targets]


def mean_loss(model, ids, window=WINDOW):
    """Mean loss over whole windows: tokens 1.. of each given those before them in the window."""
    ids = np.asarray(ids)
    pieces = [ids[start:start + window] for start in range(0, len(ids) - window + 1, window)]
    return float(np.mean([token_losses(model.logits(piece)[:-1], piece[1:]) for piece in pieces]))


def relative_error(found, expected):
    """Largest difference over the root mean square of the expected tensor."""
    expected = expected.astype(np.float64)
    return float(np.abs(found - expected).max() / np.sqrt(np.mean(expected * expected)))


def check_prompt(model, prompt, expected):
    """Relative errors of one prompt, {tensor name: error}, for what the file holds of it."""
    def get(name):
        tensor = expected.get(f"{prompt}.{name}")
        return None if tensor is None else tensor.data

    trace, errors = {}, {}
    hidden = model.hidden(get("input_ids"), trace)
    logits = hidden @ model.head.T
    rows = get("resid_positions")
    found = {"logits": logits, "last_logits": logits[-1]}
    if rows is not None:
        found["final_norm"] = hidden[rows]
        found["resid"] = np.array(trace["residuals"])[:, rows]
    for i, kind in enumerate(model.layer_types):
        if kind == "linear_attention":
            left = trace[f"layers.{i}.linear_attn"]
            found[f"recurrent_state.{i}"] = left["state"].swapaxes(1, 2)
            conv = get(f"conv_state.{i}")
            if conv is not None:
                errors[f"conv_state.{i}"] = relative_error(left["conv"].T, conv[:, 1:])
        else:
            left = trace[f"layers.{i}.self_attn"]
            found[f"k_cache.{i}"], found[f"v_cache.{i}"] = (left[n].swapaxes(0, 1) for n in "kv")
    if get("router_logits") is not None:
        left = [trace[f"layers.{i}.mlp"] for i in range(len(model.layer_types))]
        found["router_logits"], found["router_experts"], found["router_weights"] = (
            np.array([layer[name] for layer in left]) for name in ("router", "chosen", "share"))
    draft = expected.get(f"mtp.post.{prompt}.hidden")
    if draft is not None:
        tokens = expected[f"mtp.{prompt}.tokens"].data
        errors["mtp"] = relative_error(model.draft_hidden(hidden, tokens), draft.data)
    for name, value in found.items():
        if get(name) is not None:
            errors[name] = relative_error(value, get(name))
    return errors


def check(folder):
    """Prints the worst relative error per stored type of everything comparable in a fixture."""
    model = Model(folder)
    expected = read_file(os.path.join(folder, "expected.safetensors"))
    prompts = [name.removesuffix(".input_ids") for name in expected
               if name.startswith("p") and name.endswith(".input_ids")]
    worst, count = {"F64": 0.0, "F32": 0.0}, 0
    for prompt in prompts:
        for name, error in check_prompt(model, prompt, expected).items():
            key = f"mtp.post.{prompt}.hidden" if name == "mtp" else f"{prompt}.{name}"
            stored = expected[key].dtype
            if stored == "I32" and error:
                raise ValueError(f"{folder}: {key} differs")
            worst[stored] = max(worst.get(stored, 0.0), error)
            count += 1
        greedy = expected.get(f"{prompt}.greedy_tokens")
        if greedy is not None:
            ids, _ = model.greedy(expected[f"{prompt}.input_ids"].data, len(greedy.data))
            if ids != greedy.data.tolist():
                raise ValueError(f"{folder}: greedy tokens of {prompt} differ")
            count += 1
    print(f"{os.path.basename(folder)}: {count} comparisons, worst relative error "
          f"{worst['F64']:.1e} (float64), {worst['F32']:.1e} (float32)")


def main(arguments):
    if arguments and arguments[0] == "check":
        for folder in arguments[1:]:
            check(folder.rstrip("/"))
    elif len(arguments) > 2 and arguments[0] == "loss":
        model = Model(arguments[1])
        for path in arguments[2:]:
            with open(path, encoding="utf-8") as stream:
                print(f"{path}: {mean_loss(model, json.load(stream)):.9f}", flush=True)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
