#!/usr/bin/env python3
"""Writes a checkpoint in Hugging Face or MLX layout as a GGUF file, as the known converters do.

    gguf_from_fixture.py FOLDER OUT.gguf [--type Q4_K] [--writer llama|ollama] [--mtp inside|beside|none]
                         [--split N] [--order tiled|grouped] [--unmarked] [--plain FOLDER] [--tokenizer FOLDER]

Matrices get the type, or one that fits their rows.  A block type's blocks are random, not a
quantisation of the checkpoint: the format is what is tested, and any weights will do.  --plain
writes the same model as float32 in Hugging Face layout, so that both can be compared.
--order grouped leaves value heads as they are, which the file says unless --unmarked.
MLX's affine matrices are decoded first, to type F32 exactly.
--tokenizer puts the folder's tokenizer.json and chat template into the metadata.
"""
import argparse
import array
import functools
import json
import math
import pathlib
import random
import struct

import ggml

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
MIN_FIELDS = {"Q4_1": 7.5, "Q5_1": 15.5}  # m = -factor d
DMIN_FIELDS = {"Q2_K": 1.5, "Q4_K": 7.5, "Q5_K": 15.5}
D_AT = {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208}
BLOCK = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
         "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
         "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
         "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
         "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
         "linear_attn.in_proj_a.weight": "ssm_alpha.weight", "linear_attn.in_proj_b.weight": "ssm_beta.weight",
         "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a",
         "linear_attn.dt_bias": "ssm_dt.bias", "linear_attn.norm.weight": "ssm_norm.weight",
         "linear_attn.out_proj.weight": "ssm_out.weight", "mlp.gate_proj.weight": "ffn_gate.weight",
         "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight",
         "mlp.gate.weight": "ffn_gate_inp.weight", "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
         "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
         "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
         "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight", "mlp.experts.down_proj": "ffn_down_exps.weight"}
MTP = {"mtp.fc.weight": "nextn.eh_proj.weight", "mtp.pre_fc_norm_embedding.weight": "nextn.enorm.weight",
       "mtp.pre_fc_norm_hidden.weight": "nextn.hnorm.weight", "mtp.norm.weight": "nextn.shared_head_norm.weight"}
PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.")


# ---- reading ----

@functools.cache
def read_checkpoint(folder):
    """name -> (shape, floats), without the vision tower."""
    tensors, stored = {}, {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        for name, entry in json.loads(data[8:8 + length]).items():
            if name == "__metadata__" or "visual." in name:
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            stored[name] = (entry["shape"], entry["dtype"], data[begin:end])
    for name, (shape, kind, data) in stored.items():
        path = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if path + ".scales" in stored:
            tensors[name] = affine(stored[path + ".scales"], stored[path + ".biases"], data)
        else:
            tensors[name] = (shape, array.array("f", ggml.decode(kind, data)))
    return tensors


def affine(scales, biases, codes):
    """A matrix of MLX's affine scheme with 4 or 8 bits: shape and floats."""
    shape, kind, data = scales
    values = array.array("f")
    group = 64
    bits = len(codes) * 8 // (len(ggml.decode(kind, data)) * group)
    size = group * bits // 8
    for i, (s, b) in enumerate(zip(ggml.decode(kind, data), ggml.decode(kind, biases[2]))):
        level = [s * c + b for c in range(1 << bits)]
        part = codes[i * size:(i + 1) * size]
        if bits == 8:
            values.extend(level[c] for c in part)
        else:
            values.extend(level[c] for byte in part for c in (byte & 15, byte >> 4))
    return [shape[0], shape[1] * group], values


def short(name):
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


# ---- weights ----

class Pool:
    """Random blocks of one type and what they decode to, with weights of about `size`."""

    def __init__(self, name, size, seed):
        source = random.Random(f"{name} {seed}")
        unit = self.spread(name, source)
        self.source = source
        self.blocks = []
        for _ in range(64):
            block = self.block(name, size / unit * source.uniform(0.5, 1.5), source)
            self.blocks.append((block, array.array("f", ggml.decode_block(name, block))))

    @staticmethod
    def block(name, d, source):
        block = bytearray(source.randbytes(ggml.TYPES[name][2]))
        if name == "MXFP4":
            block[0] = max(2, 128 + round(math.log2(d)))
            return bytes(block)
        at = D_AT.get(name, 0)
        struct.pack_into("<e", block, at, d)
        if name in MIN_FIELDS:
            struct.pack_into("<e", block, at + 2, -MIN_FIELDS[name] * d)
        if name in DMIN_FIELDS:
            struct.pack_into("<e", block, at + 2, DMIN_FIELDS[name] * d)
        return bytes(block)

    def spread(self, name, source):
        values = [x for _ in range(8) for x in ggml.decode_block(name, self.block(name, 1.0, source))]
        return math.sqrt(sum(x * x for x in values) / len(values))

    def take(self, count):
        """The bytes and values of `count` blocks."""
        chosen = self.source.choices(self.blocks, k=count)
        values = array.array("f")
        for _, decoded in chosen:
            values.extend(decoded)
        return b"".join(block for block, _ in chosen), values


def encode(kind, values):
    """Plain types: the bytes, and the values that they hold."""
    if kind == "F32":
        return values.tobytes(), values
    if kind == "F16":
        data = struct.pack(f"<{len(values)}e", *values)
    else:
        bits = struct.unpack(f"<{len(values)}I", values.tobytes())
        data = struct.pack(f"<{len(bits)}H", *((b + 0x7FFF + (b >> 16 & 1)) >> 16 for b in bits))
    return data, array.array("f", ggml.decode(kind, data))


def permuted(values, cols, order, size, first, by_columns):
    """Groups of `size` rows (or columns) from `first` on, in another order."""
    out = array.array("f", values)
    if by_columns:
        for row in range(0, len(values), cols):
            for to, source in enumerate(order):
                out[row + to * size:row + (to + 1) * size] = values[row + source * size:row + (source + 1) * size]
    else:
        for to, source in enumerate(order):
            a, b = (first + to * size) * cols, (first + source * size) * cols
            out[a:a + size * cols] = values[b:b + size * cols]
    return out


class Converter:
    def __init__(self, args):
        self.args = args
        self.folder = pathlib.Path(args.folder)
        whole = json.loads((self.folder / "config.json").read_text())
        self.config = whole.get("text_config", whole)
        self.tied = whole.get("tie_word_embeddings", self.config.get("tie_word_embeddings", False))
        self.moe = "num_experts" in self.config
        self.arch = "qwen35moe" if self.moe else "qwen35"
        nk, nv = self.config["linear_num_key_heads"], self.config["linear_num_value_heads"]
        ratio = nv // nk
        self.order = [g * ratio + j for j in range(ratio) for g in range(nk)] if args.order == "tiled" else list(range(nv))
        self.pools = {}
        self.out, self.plain = [], {}
        self.mlx = any(shape[-1] == 1 for name, (shape, _) in
                       read_checkpoint(self.folder).items() if "conv1d" in name)

    def kind_for(self, cols):
        wanted = self.args.type
        for kind in (wanted, "Q8_0", "F16"):
            if cols % ggml.TYPES[kind][1] == 0:
                return kind
        raise ValueError(cols)

    def moves(self, name):
        """What the re-ordering of value heads does to a tensor: size, first row, by columns; None: nothing."""
        dv = self.config["linear_value_head_dim"]
        key_rows = 2 * self.config["linear_num_key_heads"] * self.config["linear_key_head_dim"]
        tail = name.split("linear_attn.")[-1] if "linear_attn." in name else ""
        return {"in_proj_qkv.weight": (dv, key_rows, False), "conv1d.weight": (dv, key_rows, False),
                "in_proj_z.weight": (dv, 0, False), "in_proj_a.weight": (1, 0, False), "in_proj_b.weight": (1, 0, False),
                "A_log": (1, 0, False), "dt_bias": (1, 0, False), "out_proj.weight": (dv, 0, True)}.get(tail)

    def put(self, raw, name, shape, values):
        """One tensor in both files; `name` is Hugging Face's."""
        cols = shape[-1] if len(shape) > 1 else 1
        if name.endswith("conv1d.weight"):
            cols = max(shape[1:])
            shape = [shape[0], cols]
        if name.endswith("shared_expert_gate.weight"):
            shape = [cols]
        moves = self.moves(name)
        if moves:
            values = permuted(values, cols, self.order, *moves)
        shifted = name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight")
        shifted = shifted or "pre_fc_norm" in name
        plain = values
        if shifted:
            data = array.array("f", (x if self.mlx else ggml.f32(1 + x) for x in values)).tobytes()
            kind = "F32"
        elif name.endswith("A_log"):
            data = array.array("f", (-math.exp(x) for x in values)).tobytes()
            kind = "F32"
        elif len(shape) < 2 or name.endswith(("conv1d.weight", "mlp.gate.weight")):
            data, kind = values.tobytes(), "F32"
        else:
            kind = self.kind_for(shape[-1])
            if kind in ggml.BLOCK_TYPES:
                size = math.sqrt(sum(x * x for x in values) / len(values))
                key = (kind, round(math.log2(size) * 2))
                if key not in self.pools:
                    self.pools[key] = Pool(kind, 2 ** (key[1] / 2), 35)
                data, plain = self.pools[key].take(len(values) // ggml.TYPES[kind][1])
            else:
                data, plain = encode(kind, values)
        self.out.append((raw, list(reversed(shape)), kind, data))
        if moves:
            inverse = [self.order.index(i) for i in range(len(self.order))]
            plain = permuted(plain, cols, inverse, *moves)
        return plain

    def raw_name(self, name):
        c = self.config
        if name in MTP:
            return f"blk.{c['num_hidden_layers']}.{MTP[name]}"
        if name.startswith("mtp.layers."):
            _, _, layer, rest = name.split(".", 3)
            return f"blk.{c['num_hidden_layers'] + int(layer)}.{BLOCK[rest]}"
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            raw = f"blk.{layer}.{BLOCK[rest]}"
            return raw.removesuffix(".bias") if self.args.writer == "ollama" and raw.endswith("ssm_dt.bias") else raw
        return {"embed_tokens.weight": "token_embd.weight", "lm_head.weight": "output.weight",
                "norm.weight": "output_norm.weight"}[name]

    def convert(self):
        for full, (shape, values) in read_checkpoint(self.folder).items():
            name = short(full)
            if name.startswith("mtp.") and self.args.mtp == "none":
                continue
            if name.endswith("experts.gate_up_proj"):
                self.plain[full] = (shape, self.experts(name, shape, values))
            else:
                self.plain[full] = (shape, self.put(self.raw_name(name), name, list(shape), values))

    def experts(self, name, shape, values):
        """gate and up of all experts, which the file keeps apart; returns them fused again."""
        n, rows, cols = shape
        half = rows // 2 * cols
        parts = []
        for i, part in enumerate(("gate", "up")):
            picked = array.array("f")
            for e in range(n):
                picked.extend(values[(2 * e + i) * half:(2 * e + i + 1) * half])
            raw = self.raw_name(name.replace("gate_up_proj", "down_proj")).replace("ffn_down_exps", f"ffn_{part}_exps")
            parts.append(self.put(raw, name, [n, rows // 2, cols], picked))
        fused = array.array("f")
        for e in range(n):
            for part in parts:
                fused.extend(part[e * half:(e + 1) * half])
        return fused


# ---- metadata ----

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    packed = text(value) if kind == STRING else struct.pack({U32: "<I", F32: "<f", BOOL: "<?"}[kind], value)
    return text(key) + struct.pack("<I", kind) + packed


def array_entry(key, kind, values):
    body = b"".join(map(text, values)) if kind == STRING else \
        struct.pack(f"<{len(values)}{ {U32: 'I', I32: 'i', BOOL: '?'}[kind] }", *values)
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + body


def metadata(converter, mtp_blocks):
    c, arch, ollama = converter.config, converter.arch, converter.args.writer == "ollama"
    rope = c["rope_parameters"]
    sections = rope.get("mrope_section")
    rotary = int(c["head_dim"] * rope["partial_rotary_factor"])
    full = [kind == "full_attention" for kind in c["layer_types"]]
    out = [entry("general.architecture", STRING, arch), entry("general.name", STRING, "fixture")]

    def put(kind, **values):
        for key, value in values.items():
            out.append(entry(f"{arch}.{key.replace('__', '.')}", kind, value))

    put(U32, block_count=c["num_hidden_layers"] + mtp_blocks, context_length=c["max_position_embeddings"],
        embedding_length=c["hidden_size"], attention__head_count=c["num_attention_heads"],
        attention__key_length=c["head_dim"], attention__value_length=c["head_dim"], rope__dimension_count=rotary,
        ssm__conv_kernel=c["linear_conv_kernel_dim"], ssm__state_size=c["linear_key_head_dim"],
        ssm__group_count=c["linear_num_key_heads"], ssm__time_step_rank=c["linear_num_value_heads"],
        ssm__inner_size=c["linear_num_value_heads"] * c["linear_value_head_dim"])
    put(F32, attention__layer_norm_rms_epsilon=c["rms_norm_eps"], rope__freq_base=rope["rope_theta"])
    if mtp_blocks:
        put(U32, nextn_predict_layers=mtp_blocks)
    if converter.moe:
        put(U32, expert_count=c["num_experts"], expert_used_count=c["num_experts_per_tok"],
            expert_feed_forward_length=c["moe_intermediate_size"],
            expert_shared_feed_forward_length=c["shared_expert_intermediate_size"])
    else:
        put(U32, feed_forward_length=c["intermediate_size"])
    if sections:
        out.append(array_entry(f"{arch}.rope.dimension_sections", I32, sections if ollama else sections + [0]))
    if ollama:
        out.append(array_entry(f"{arch}.attention.head_count_kv", U32, [f * c["num_key_value_heads"] for f in full]))
        if not converter.args.unmarked:
            put(BOOL, ssm__v_head_reordered=converter.args.order == "tiled")
        put(BOOL, rope__mrope_interleaved=True)
    else:
        put(U32, attention__head_count_kv=c["num_key_value_heads"])
        interval = full.index(True) + 1
        if full == [(i + 1) % interval == 0 for i in range(len(full))]:
            put(U32, full_attention_interval=interval)
        else:
            out.append(array_entry(f"{arch}.attention.recurrent_layers", BOOL, [not f for f in full]))
        if converter.args.order == "grouped" and not converter.args.unmarked:
            put(BOOL, ssm__v_head_reordered=False)
    if converter.args.tokenizer:
        out += tokenizer_entries(pathlib.Path(converter.args.tokenizer), c)
    return out


def tokenizer_entries(folder, config):
    whole = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = [f"[PAD{i}]" for i in range(config["vocab_size"])]
    types = [5] * len(tokens)  # unused
    for token, i in whole["model"]["vocab"].items():
        tokens[i], types[i] = token, 1
    for added in whole["added_tokens"]:
        tokens[added["id"]], types[added["id"]] = added["content"], 3 if added["special"] else 4
    merges = [m if isinstance(m, str) else " ".join(m) for m in whole["model"]["merges"]]
    generation = json.loads((folder / "generation_config.json").read_text())
    eos = generation["eos_token_id"]
    out = [entry("tokenizer.ggml.model", STRING, "gpt2"), entry("tokenizer.ggml.pre", STRING, "qwen35"),
           array_entry("tokenizer.ggml.tokens", STRING, tokens), array_entry("tokenizer.ggml.token_type", I32, types),
           array_entry("tokenizer.ggml.merges", STRING, merges),
           entry("tokenizer.ggml.eos_token_id", U32, eos if isinstance(eos, int) else eos[0]),
           entry("tokenizer.ggml.add_bos_token", BOOL, False),
           entry("tokenizer.chat_template", STRING, (folder / "chat_template.jinja").read_text(encoding="utf-8"))]
    for key, name, kind in (("temperature", "temp", F32), ("top_p", "top_p", F32), ("top_k", "top_k", U32)):
        if key in generation:
            out.append(entry(f"general.sampling.{name}", kind, generation[key]))
    return out


# ---- writing ----

def write_gguf(path, entries, tensors):
    head, data = [], []
    offset = 0
    for name, ne, kind, payload in tensors:
        head.append(text(name) + struct.pack("<I", len(ne)) + struct.pack(f"<{len(ne)}Q", *ne) +
                    struct.pack("<IQ", ggml.TYPES[kind][0], offset))
        padded = payload + bytes(-len(payload) % 32)
        data.append(padded)
        offset += len(padded)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + b"".join(head)
    with open(path, "wb") as stream:
        stream.write(start + bytes(-len(start) % 32) + b"".join(data))


def write_split(path, entries, tensors, n):
    """NAME-00001-of-0000n.gguf and so on for NAME.gguf; returns the first path."""
    per = -(-len(tensors) // n)
    stem = str(path).removesuffix(".gguf")
    for i in range(n):
        part = [text("split.no") + struct.pack("<IH", 2, i), text("split.count") + struct.pack("<IH", 2, n),
                text("split.tensors.count") + struct.pack("<Ii", I32, len(tensors))]
        write_gguf(f"{stem}-{i + 1:05}-of-{n:05}.gguf", (entries if i == 0 else []) + part, tensors[i * per:(i + 1) * per])
    return f"{stem}-00001-of-{n:05}.gguf"


def write_plain(folder, source, tensors):
    folder.mkdir(exist_ok=True)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (source / name).exists():
            (folder / name).write_bytes((source / name).read_bytes())
    header, offset = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * len(values)]}
        offset += 4 * len(values)
    body = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as stream:
        stream.write(struct.pack("<Q", len(body)) + body)
        for _, values in tensors.values():
            stream.write(values.tobytes())


def convert(argv):
    """Runs the command line; returns the path to open."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--type", default="F32", choices=ggml.TYPES)
    parser.add_argument("--writer", default="llama", choices=("llama", "ollama"))
    parser.add_argument("--mtp", default="inside", choices=("inside", "beside", "none"))
    parser.add_argument("--split", type=int, default=1)
    parser.add_argument("--order", default="tiled", choices=("tiled", "grouped"))
    parser.add_argument("--unmarked", action="store_true")
    parser.add_argument("--plain", type=pathlib.Path)
    parser.add_argument("--tokenizer")
    args = parser.parse_args(list(map(str, argv)))
    converter = Converter(args)
    converter.convert()
    blocks = converter.config.get("mtp_num_hidden_layers", 0)
    first_mtp = f"blk.{converter.config['num_hidden_layers']}."
    head = [t for t in converter.out if t[0].startswith(first_mtp)]
    trunk = [t for t in converter.out if not t[0].startswith(first_mtp)]
    if args.plain:
        write_plain(args.plain, converter.folder, converter.plain)
    if head and args.mtp == "beside":
        shared = [t for t in trunk if not t[0].startswith("blk.")]
        write_gguf(args.out.with_name("mtp-" + args.out.name), metadata(converter, blocks), shared + head)
        head = []
    entries = metadata(converter, blocks if head else 0)
    if args.split > 1:
        return write_split(args.out, entries, trunk + head, args.split)
    write_gguf(args.out, entries, trunk + head)
    return str(args.out)


if __name__ == "__main__":
    import sys
    print(convert(sys.argv[1:]))
