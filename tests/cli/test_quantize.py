"""weir quantize: what it prints, what it leaves, and what it refuses."""
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import time
import unittest

from support import DEMO, FIXTURES, PROGRAM, Case, environment, safetensors

HIDDEN, INNER, VOCAB = 256, 288, 512  # of tiny-dense


class Quantize(Case):
    def test_result_and_folder(self):
        out = self.folder / "out"
        got = self.json("quantize", FIXTURES / "tiny-dense", out, "--bits", "8", "--group", "32")
        self.assertEqual(set(got), {"source", "out", "bits_per_weight", "bytes", "parameters", "tensors", "files",
                                    "files_kept", "seconds", "stored"})
        self.assertEqual((got["out"], got["files"], got["files_kept"]), (str(out), 3, 0))
        names = {p.name for p in out.iterdir()}
        self.assertEqual(names, {"config.json", "generation_config.json", "preprocessor_config.json",
                                 "model.safetensors", "mtp.safetensors", "vision.safetensors",
                                 "model.safetensors.index.json"})
        tensors = {}
        for name in ("model", "mtp", "vision"):
            tensors.update(safetensors(out / f"{name}.safetensors"))
        self.assertEqual(got["tensors"], len(tensors))
        self.assertEqual(got["bytes"], sum(len(t[2]) for t in tensors.values()))
        self.assertAlmostEqual(got["bits_per_weight"], 8 * got["bytes"] / got["parameters"])
        index = json.loads((out / "model.safetensors.index.json").read_text())
        self.assertEqual(set(index["weight_map"]), set(tensors))
        self.assertEqual(index["metadata"]["total_size"], got["bytes"])
        stored = {t["name"]: t for t in got["stored"]}
        up = "language_model.model.layers.0.mlp.up_proj"
        self.assertEqual(stored[up], {"name": up, "format": "affine", "bits": 8, "group": 32, "dtype": "BF16",
                                      "parameters": HIDDEN * INNER})
        self.assertEqual(tensors[up + ".weight"][:2], ("U32", [INNER, HIDDEN // 4]))
        self.assertEqual(tensors[up + ".scales"][:2], ("BF16", [INNER, HIDDEN // 32]))
        conv = tensors["language_model.model.layers.0.linear_attn.conv1d.weight"]
        self.assertEqual(conv[1][1:], [4, 1])
        self.weir("inspect", out)

    def test_config(self):
        rules = self.write("rules.json", '[{"pattern": "layers.1.mlp.*", "bits": 3, "group": 32}]')
        out = self.folder / "out"
        table, _ = self.weir("quantize", FIXTURES / "tiny-dense", out, "--recipe", rules)
        self.assertRegex(table, r"language_model\.model\.layers\.\*\.mlp\.up_proj +4 bits, group 64 +3 ")
        self.assertRegex(table, r"language_model\.model\.layers\.\*\.mlp\.up_proj +3 bits, group 32 +1 ")
        self.assertRegex(table, r"\.linear_attn\.A_log +F32 +3 ")
        config = json.loads((out / "config.json").read_text())
        source = json.loads((FIXTURES / "tiny-dense" / "config.json").read_text())
        block = config.pop("quantization")
        self.assertEqual(block, config.pop("quantization_config"))
        self.assertEqual(config, source)
        self.assertEqual((block["bits"], block["group_size"], block["mode"]), (4, 64, "affine"))
        self.assertEqual(block["language_model.model.layers.1.mlp.up_proj"], {"bits": 3, "group_size": 32})
        self.assertEqual(block["language_model.lm_head"], {"bits": 6, "group_size": 64})
        self.assertNotIn("language_model.model.embed_tokens", block)
        self.assertNotIn("language_model.model.layers.0.linear_attn.in_proj_a", block)

    def test_trellis(self):
        rules = self.write("rules.json", '[{"pattern": "layers.1.mlp.*", "bits": 4}]')
        out = self.folder / "out"
        got = self.json("quantize", FIXTURES / "tiny-dense", out, "--bits", "3", "--format", "trellis", "--recipe", rules)
        stored = {t["name"]: t for t in got["stored"]}
        down = "language_model.model.layers.0.mlp.down_proj"
        self.assertEqual(stored[down], {"name": down, "format": "trellis", "bits": 3, "group": 256, "dtype": "F16",
                                        "parameters": HIDDEN * INNER})
        self.assertEqual(stored[down.replace("0", "1")]["format"], "affine")
        tensors = safetensors(out / "model.safetensors")
        self.assertEqual(tensors[down + ".weight"][:2], ("U32", [INNER, HIDDEN * 3 // 32]))
        self.assertEqual(tensors[down + ".scales"][:2], ("F16", [INNER]))
        self.assertNotIn(down + ".biases", tensors)
        block = json.loads((out / "config.json").read_text())["quantization"]
        self.assertEqual(block[down], {"bits": 3, "group_size": 256, "mode": "trellis",
                                       "trellis": {"L": 12, "code": "1mad", "axis": 0}})
        self.assertEqual(block[down.replace("down", "up")]["trellis"]["axis"], 1)
        self.assertEqual(block[down.replace("0", "1")], {"bits": 4, "group_size": 32})  # 288 columns
        table, _ = self.weir("quantize", FIXTURES / "tiny-dense", self.folder / "two", "--bits", "2", "--format", "trellis")
        self.assertRegex(table, r"language_model\.model\.layers\.\*\.mlp\.up_proj +2 bits, trellis +4 ")

    def test_a_flat_config_gets_the_name_that_mlx_has(self):
        out = self.folder / "out"
        self.weir("quantize", FIXTURES / "tiny-odd", out)
        self.assertEqual(json.loads((FIXTURES / "tiny-odd" / "config.json").read_text())["model_type"], "qwen3_5_text")
        self.assertEqual(json.loads((out / "config.json").read_text())["model_type"], "qwen3_5")

    def by_text(self, fixture, name, bits, *more):
        """What --bpw says, the widths of the modules, and the folder's bytes."""
        out = self.folder / name
        ids = self.write("ids.json", json.dumps([7 * i % 251 for i in range(24)]))
        got = self.json("quantize", FIXTURES / fixture, out, "--bpw", bits, "--ids", ids, *more)
        widths = {rule["pattern"]: rule["bits"] for rule in json.loads(pathlib.Path(got["recipe"]).read_text())}
        return got, widths, {p.name: p.read_bytes() for p in out.iterdir()}

    def test_widths_by_a_text(self):
        small, few, _ = self.by_text("tiny-dense", "small", 5.2)
        large, many, bytes_ = self.by_text("tiny-dense", "large", 7)
        for got, most in ((small, 5.2), (large, 7)):
            self.assertLessEqual(got["bits_per_weight"], most)
            self.assertGreater(got["bits_per_weight"], most - 0.07)
            self.assertEqual(got["calibration"]["tokens"], 24)
            self.assertEqual(got["calibration"]["modules"], 2 + 3 * 3 + 4 + 4 * 3)
        self.assertLess(small["bytes"], large["bytes"])
        self.assertGreater(small["calibration"]["divergence"], 2 * large["calibration"]["divergence"])
        for widths in (few, many):
            for name, bits in widths.items():
                if name.endswith(("in_proj_a", "in_proj_b")):
                    self.assertEqual(bits, 16, name)
            # What the first layer does wrong goes through all others.
            self.assertGreater(widths["layers.0.mlp.up_proj"], widths["layers.3.mlp.up_proj"])
        self.assertTrue(all(few[name] <= many[name] for name in few))
        self.assertEqual(large["recipe"], str(self.folder / "large.recipe.json"))
        # With the recipe alone: the same bytes, and the same file names.
        again = self.folder / "again"
        self.weir("quantize", FIXTURES / "tiny-dense", again, "--recipe", large["recipe"])
        self.assertEqual({p.name: p.read_bytes() for p in again.iterdir()}, bytes_)

    def test_widths_with_rules(self):
        rules = self.write("rules.json", '[{"pattern": "*.self_attn.*_proj", "bits": 6},'
                                         ' {"pattern": "layers.3.mlp.up_proj", "bits": 8}]')
        got, widths, _ = self.by_text("tiny-dense", "out/", 5.6, "--recipe", rules)
        self.assertEqual(widths["layers.3.mlp.up_proj"], 8)
        self.assertGreaterEqual(min(bits for name, bits in widths.items() if "self_attn" in name), 6)
        self.assertLess(min(widths.values()), 6)
        self.assertEqual(got["recipe"], str(self.folder / "out.recipe.json"))

    def test_refusals_of_widths_by_a_text(self):
        source, out = FIXTURES / "tiny-dense", self.folder / "out"
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "notes").write_text("mine")
        ids = self.write("ids.json", "[1, 2, 3]")
        for args, code, says in [
                ([out, "--bpw", "7"], 2, "expected either --calibration TEXT or --ids FILE"),
                ([out, "--bpw", "7", "--ids", ids, "--calibration", ids], 2, "expected either --calibration"),
                ([out, "--bpw", "7", "--bits", "4", "--ids", ids], 2, "expected either --bits or --bpw"),
                ([out, "--ids", ids], 2, "need --bpw"),
                ([out, "--bpw", "0.5", "--ids", ids], 2, "--bpw: expected"),
                ([out, "--bpw", "3", "--ids", ids], 2, "bits per weight: expected 4."),
                ([out, "--bpw", "7", "--ids", self.folder / "none"], 3, "none"),
                ([out, "--bpw", "7", "--ids", self.write("one", "[1]")], 2, "expected at least 2 ids"),
                ([out, "--bpw", "7", "--calibration", ids], 3, "tokenizer"),
                ([taken, "--bpw", "7", "--ids", ids], 2, "expected an empty folder or none"),
                ([self.folder / "no" / "out", "--bpw", "7", "--ids", ids], 1, "out.recipe.json")]:
            printed, err = self.weir("quantize", source, *args, code=code)
            self.assertEqual(printed, "")
            self.assertIn(says, err)
            self.assertFalse(out.exists())
        self.assertEqual(sorted(p.name for p in self.folder.glob("*.recipe.json")), [])

    def test_refusals(self):
        taken = self.folder / "taken"
        taken.mkdir()
        (taken / "notes").write_text("mine")
        source, out = FIXTURES / "tiny-dense", self.folder / "out"
        for args, code, says in [
                ([source], 2, "expected a MODEL and a folder to write"),
                ([source, out, "more"], 2, 'found "more"'),
                ([source, out, "--bits", "7"], 2, "bits: expected 2, 3, 4, 5, 6 or 8, found 7"),
                ([source, out, "--bits", "9"], 2, "--bits: expected"),
                ([source, out, "--group", "48"], 2, "group: expected 32, 64 or 128, found 48"),
                ([source, out, "--format", "q4_0"], 2, "--format: expected"),
                ([source, out, "--format", "trellis", "--bits", "6"], 2, "bits: expected 2, 3 or 4 with format trellis"),
                ([source, taken], 2, "expected an empty folder or none"),
                ([source, source], 2, "expected an empty folder or none"),
                ([DEMO, out], 2, "expected an unquantised checkpoint"),
                ([self.folder / "none", out], 3, "none"),
                ([source, out, "--recipe", self.folder / "none"], 3, "none"),
                ([source, out, "--recipe", self.write("bad", '[{"pattern": "x", "bits": 4}]')], 3, "[0].pattern"),
                ([source, self.folder / "no" / "out"], 1, "cannot make the folder")]:
            printed, err = self.weir("quantize", *args, code=code)
            self.assertEqual(printed, "")
            self.assertIn(says, err)
            self.assertFalse(out.exists())
        self.assertEqual([p.name for p in taken.iterdir()], ["notes"])

    def big_source(self):
        """A checkpoint that takes a while: its embedding is large."""
        rows = 1 << 17
        source = self.folder / "source"
        source.mkdir()
        config = json.loads((FIXTURES / "tiny-dense" / "config.json").read_text())
        config["text_config"]["vocab_size"] = rows
        (source / "config.json").write_text(json.dumps(config))
        body, header = [], {}
        at = 0
        for path in sorted((FIXTURES / "tiny-dense").glob("model*.safetensors")):
            for name, (dtype, shape, data) in safetensors(path).items():
                if name.endswith("embed_tokens.weight") or name.startswith("lm_head"):
                    shape, data = [rows, HIDDEN], data * (rows // VOCAB)
                header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
                at += len(data)
                body.append(data)
        text = json.dumps(header).encode()
        (source / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(body))
        return source

    def test_interrupted(self):
        source, out, whole = self.big_source(), self.folder / "out", self.folder / "whole"
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        run = subprocess.Popen([PROGRAM, "quantize", str(source), str(out), "--threads", "1"], stdin=slave,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(self.folder))
        os.close(slave)
        while run.poll() is None and not list(out.glob("model.safetensors.*")):
            time.sleep(0.001)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=300)
        if run.returncode != 0:  # it was heard before the end
            self.assertEqual(run.returncode, 1)
            self.assertIn(b"the same command goes on", err)
            self.assertEqual([p.name for p in out.iterdir()], ["weir-quantize.plan"])
            self.weir("quantize", source, out)
        self.weir("quantize", source, whole)
        self.assertEqual({p.name: p.read_bytes() for p in out.iterdir()},
                         {p.name: p.read_bytes() for p in whole.iterdir()})


if __name__ == "__main__":
    unittest.main()
