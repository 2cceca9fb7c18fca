#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/store: state files made from the text of src/state/store_format.h.

    tools/make-store-goldens.py [FOLDER]

They are what the C writer must make of the same entries (tests/unit/state/test_store_format.c), and
what the fuzz target starts from.
"""
import hashlib
import struct
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "fuzz" / "corpus" / "store"
NAMESPACE = bytes(range(32))
BLOCK, SNAPSHOT, SEQUENCE = 1, 2, 3


def token_ids(n):
    return [(2654435761 * i + 12345) % 2**32 for i in range(n)]


def section(kind, size):
    return kind, bytes((7 * i + 31 * kind) % 256 for i in range(size))


def key_of(parent, ids):
    return hashlib.sha256(parent + struct.pack(f"<I{len(ids)}I", len(ids), *ids)).digest()


def pad(data):
    return data + bytes(-len(data) % 64)


def state_file(kind, parent, position, n, sections):
    ids = token_ids(n)
    key = key_of(parent, ids)
    header_bytes = 136 + 44 * len(sections) + 4 * n + 32
    body = b""
    end = header_bytes + -header_bytes % 64
    for _, data in sections:
        body = pad(body) + data
    header = b"WEIRKEEP" + struct.pack("<II", 1, header_bytes) + NAMESPACE
    header += struct.pack("<IIII", kind, n, position, len(sections)) + key + parent
    header += struct.pack("<Q", end + len(body))
    for name, data in sections:
        header += struct.pack("<IQ", name, len(data)) + hashlib.sha256(data).digest()
    header += struct.pack(f"<{n}I", *ids)
    return key, pad(header + hashlib.sha256(header).digest()) + body


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    key, block = state_file(BLOCK, bytes(32), 0, 5, [section(1, 100)])
    _, snapshot = state_file(SNAPSHOT, key, 5, 3, [section(2, 64), section(3, 1)])
    _, sequence = state_file(SEQUENCE, bytes(32), 0, 70, [section(t, n) for t, n in ((1, 130), (2, 64), (3, 63), (9, 65))])
    (folder / "block").write_bytes(block)
    (folder / "snapshot").write_bytes(snapshot)
    (folder / "sequence").write_bytes(sequence)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
