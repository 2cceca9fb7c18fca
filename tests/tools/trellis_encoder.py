"""Packed trellis weights by their description alone: the second encoder and decoder of the tests.  Needs numpy.

Plain where the first is fast: every state's sum, and which state each came from, are written down.
"""
import json
import struct

import numpy as np

L, T = 12, 256
STATES = 1 << L
F32 = np.float32


def code():
    """The value of every state, float32."""
    x = (np.arange(STATES, dtype=np.uint64) * 34038481 + 76625530) % (1 << 32)
    total = sum((x >> shift) & 255 for shift in (0, 8, 16, 24)).astype(np.int64) - 510
    return total.astype(F32) / F32(147.800537109375)


CODE = code()
SQUARE = CODE * CODE
SIZE = 0.0
for _value in CODE:
    SIZE += float(_value) * float(_value)
SIZE = 1.0 / (SIZE / STATES) ** 0.5


def scale(row):
    """The scale of a row, float16; 0 for a row that has none."""
    total = 0.0
    for value in row:
        total += float(value) * float(value)
    return np.float16(F32((total / len(row)) ** 0.5 * SIZE))


def last_largest(values):
    return len(values) - 1 - int(np.argmax(values[::-1]))


def walk(x, k, joint=None):
    """The best walk's states; `joint`: L-k bits that come before the first symbol and are the last state's end."""
    n = STATES >> k
    first = np.zeros(STATES, F32)
    if joint is not None:
        first[np.arange(STATES) >> k != joint] = -np.inf
    total = first + (F32(2) * x[0] * CODE - SQUARE)
    came_from = np.zeros((T, STATES), np.int64)
    for t in range(1, T):
        candidates = total.reshape(1 << k, n)  # [m][h]: state h + m*n
        best = (1 << k) - 1 - np.argmax(candidates[::-1], axis=0)
        h = np.arange(STATES) >> k
        came_from[t] = h + best[h] * n
        total = total[came_from[t]] + (F32(2) * x[t] * CODE - SQUARE)
    if joint is None:
        state = last_largest(total)
    else:
        state = joint + n * last_largest(total[joint::n])
    states = [state]
    for t in range(T - 1, 0, -1):
        state = int(came_from[t][state])
        states.append(state)
    return states[::-1]


def encode_block(x, k):
    """x: T float32, divided by the scale.  The block's words."""
    turned = walk(np.concatenate([x[T // 2:], x[:T // 2]]), k)
    states = walk(x, k, turned[T // 2] >> k)
    bits = sum((state & ((1 << k) - 1)) << ((T - 1 - t) * k) for t, state in enumerate(states))
    return np.frombuffer(bits.to_bytes(T * k // 8, "little"), "<u4")


def encode(matrix, k):
    """Stored rows, float32 [rows, cols]: words [rows, cols*k/32] and scales [rows]."""
    words, scales = [], []
    for row in matrix:
        s = scale(row)
        x = row / F32(s) if s > 0 else row
        words.append(np.concatenate([encode_block(block, k) for block in x.reshape(-1, T)]))
        scales.append(s)
    return np.array(words, "<u4"), np.array(scales, "<f2")


def states_of(block, k):
    bits, length = int.from_bytes(block.astype("<u4").tobytes(), "little"), T * k
    bits |= bits << length  # around the end
    return [bits >> ((T - 1 - t) * k) & (STATES - 1) for t in range(T)]


def decode(words, scales, k):
    """The weights, float32 numbers that bfloat16 has."""
    out = []
    for row, s in zip(words, scales):
        codes = np.concatenate([CODE[states_of(block, k)] for block in row.reshape(-1, T * k // 32)])
        bits = (codes * F32(s)).view(np.uint32).astype(np.uint64)
        bits = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32)
        out.append(bits.view(F32))
    return np.array(out, F32)


# ---- files ----

KINDS = {"F32": "<f4", "F16": "<f2", "U32": "<u4"}


def write(path, tensors):
    header, offset = {}, 0
    names = {array.dtype.newbyteorder("<").str: kind for kind, array in ((k, np.empty(0, v)) for k, v in KINDS.items())}
    for name, array in tensors.items():
        header[name] = {"dtype": names[array.dtype.newbyteorder("<").str], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def read(path):
    """All tensors of a file; bfloat16 becomes float32, what has no numpy type is left out."""
    data = path.read_bytes()
    end = 8 + struct.unpack_from("<Q", data)[0]
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        if name == "__metadata__" or entry["dtype"] not in (*KINDS, "BF16"):
            continue
        begin, stop = entry["data_offsets"]
        raw = data[end + begin:end + stop]
        if entry["dtype"] == "BF16":
            array = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(F32)
        else:
            array = np.frombuffer(raw, KINDS[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"])
    return tensors
