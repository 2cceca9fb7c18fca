"""The files of expected values that the scripts here write: safetensors of flat tensors."""
import json
import pathlib
import struct


def write(path, tensors):
    """tensors: name -> (dtype, number of elements, bytes)."""
    header, offset = {}, 0
    for name, (kind, count, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": [count], "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).parent.mkdir(exist_ok=True)
    with open(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
