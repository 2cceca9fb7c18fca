"""What the tests of the command line share: running the program, reading tensors.

Two variables say where things are: WEIR_PROGRAM (the executable) and
WEIR_SOURCE (the source tree).  Only Python's own library is used.
"""
import array
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["WEIR_PROGRAM"]
SOURCE = pathlib.Path(os.environ["WEIR_SOURCE"])
DEMO = SOURCE / "models" / "demo"
FIXTURES = SOURCE / "tests" / "fixtures"
DATA = SOURCE / "tests" / "data" / "demo"


def environment(folder, **extra):
    """An environment that holds nothing of the machine's own caches and state."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    env.update({k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    env.update({k: str(v) for k, v in extra.items()})
    return env


def safetensors(path):
    """name -> (dtype, shape, bytes) of a .safetensors file."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length:]
    return {name: (t["dtype"], t["shape"], body[t["data_offsets"][0]:t["data_offsets"][1]])
            for name, t in header.items()}


def numbers(tensor):
    """The elements of what safetensors() gave, as an array."""
    kinds = {"F32": "f", "F64": "d", "I32": "i"}
    return array.array(kinds[tensor[0]], tensor[2])


def escape_model(folder):
    """The demo model with a tokenizer whose " named" is the byte ESC, and the other way round."""
    model = pathlib.Path(folder) / "escape"
    model.mkdir()
    for path in DEMO.iterdir():
        if path.name != "tokenizer.json":
            shutil.copyfile(path, model / path.name)
    tokenizer = json.loads((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = tokenizer["model"]["vocab"]
    escape, named = "\u011b", "\u0120named"  # as byte-level BPE spells them
    vocab[escape], vocab[named] = vocab[named], vocab[escape]
    (model / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return model


def thorough(test):
    """A long test of what is computed, which says nothing new under a sanitizer (tools/check sets the variable there)."""
    return unittest.skipIf(os.environ.get("WEIR_TEST_QUICK"), "only a sample is tested")(test)


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def weir(self, *args, stdin=None, code=0, env=None):
        """Runs the program; stdin is text, or nothing.  Returns stdout and stderr."""
        done = subprocess.run([PROGRAM, *map(str, args)], input=stdin if stdin is not None else "",
                              capture_output=True, text=True, encoding="utf-8", errors="surrogateescape",
                              env=environment(self.folder, **(env or {})), timeout=600, check=False)
        self.assertEqual(done.returncode, code, f"{args}\nstdout: {done.stdout[-2000:]}\nstderr: {done.stderr[-2000:]}")
        return done.stdout, done.stderr

    def json(self, *args, **kwargs):
        """The one object that a command prints with --json."""
        out, _ = self.weir(*args, "--json", **kwargs)
        self.assertEqual(out.count("\n"), 1, "one object, one line")
        return json.loads(out)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
