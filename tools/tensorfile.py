"""Reading and writing safetensors files with numpy alone.

A file is a little-endian u64 header length, a JSON header and the tensors' bytes.  numpy has no
bfloat16, so a tensor is kept with the name of its stored type and BF16 data stays raw as uint16;
`floats` widens it.  Every step is exact except `bf16_bits`, which rounds to nearest, ties to even.
"""
import json
import os
import struct
from typing import NamedTuple

import numpy as np

NUMPY_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}


class Tensor(NamedTuple):
    """A stored tensor: `dtype` as the header spells it, `data` with the stored bits."""

    dtype: str
    data: np.ndarray


def read_file(path):
    """The tensors of one file, {name: Tensor}."""
    raw = np.fromfile(path, dtype=np.uint8)
    (length,) = struct.unpack("<Q", raw[:8].tobytes())
    header = json.loads(raw[8:8 + length].tobytes())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        data = raw[begin:end].tobytes()
        values = np.frombuffer(data, dtype=NUMPY_TYPES[entry["dtype"]])
        tensors[name] = Tensor(entry["dtype"], values.reshape(entry["shape"]))
    return tensors


def read_checkpoint(folder):
    """All tensors of a checkpoint folder, following its index when it has one."""
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index, encoding="utf-8") as stream:
            files = sorted(set(json.load(stream)["weight_map"].values()))
    else:
        files = ["model.safetensors"]
    tensors = {}
    for name in files:
        tensors.update(read_file(os.path.join(folder, name)))
    return tensors


def write_file(path, tensors, metadata=None):
    """Writes {name: Tensor}, widest type first and then by name, so that all data is aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].data.itemsize, name))
    header = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name in order:
        dtype, data = tensors[name]
        header[name] = {"dtype": dtype, "shape": list(data.shape),
                        "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            dtype, data = tensors[name]
            stream.write(np.ascontiguousarray(data, dtype=NUMPY_TYPES[dtype]).tobytes())


def floats(tensor, dtype=np.float32):
    """The values of a floating tensor, widened from its stored type; exact."""
    if tensor.dtype == "BF16":
        return (tensor.data.astype(np.uint32) << 16).view(np.float32).astype(dtype)
    if tensor.dtype not in ("F16", "F32", "F64"):
        raise ValueError(f"expected a floating type, found {tensor.dtype}")
    return tensor.data.astype(dtype)


def bf16_bits(values):
    """float32 values rounded to bfloat16, as the raw 16 bits; finite values only."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
