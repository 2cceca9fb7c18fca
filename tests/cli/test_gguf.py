"""GGUF files of the fixtures, as llama.cpp's and ollama's converters write them, against the same
model as float32 safetensors, and against the fixtures' float64 logits."""
import json
import pathlib
import sys
import unittest

from support import DATA, DEMO, FIXTURES, SOURCE, Case, numbers, safetensors

sys.path.insert(0, str(pathlib.Path(SOURCE) / "tests" / "tools"))
import gguf_from_fixture  # noqa: E402

IDS = [3, 5, 9, 200, 17, 100, 33, 250, 1, 0, 77, 5, 9]


class Gguf(Case):
    def convert(self, fixture, *flags, name="m.gguf"):
        return gguf_from_fixture.convert([FIXTURES / fixture, self.folder / name, *flags])

    def logits(self, model, *flags, ids=None):
        out = self.folder / "logits"
        self.weir("logits", model, "--ids", self.write("ids.json", json.dumps(ids or IDS)), "--out", out, "--kv", "f32",
                  "--threads", "1", *flags)
        return safetensors(out)["logits"]

    def both(self, fixture, *flags):
        """Logits of the file and of the same weights in safetensors."""
        plain = self.folder / "plain"
        return self.logits(self.convert(fixture, *flags, "--plain", plain)), self.logits(plain)

    def error(self, found, expected):
        """The largest difference in parts of the largest logit."""
        found, expected = numbers(found), numbers(expected)
        self.assertEqual(len(found), len(expected))
        largest = max(map(abs, expected))
        self.assertGreater(largest, 1.0)
        return max(abs(a - b) for a, b in zip(found, expected)) / largest

    def test_float64(self):
        for fixture, *flags in [("tiny-dense", "--type", "F32"), ("tiny-dense", "--type", "BF16", "--writer", "ollama"),
                                ("tiny-moe", "--type", "BF16"), ("tiny-odd", "--type", "F32", "--mtp", "none"),
                                ("tiny-dense-tied", "--type", "BF16")]:
            with self.subTest(fixture, flags=flags):
                expected = safetensors(FIXTURES / fixture / "expected.safetensors")
                ids = list(numbers(expected["p37.input_ids"]))
                found = self.logits(self.convert(fixture, *flags), ids=ids)
                self.assertLess(self.error(found, expected["p37.logits"]), 2e-4)

    def test_heads_in_order_are_the_same_bits(self):
        found, expected = self.both("tiny-dense", "--type", "F16", "--order", "grouped")
        self.assertEqual(found, expected)

    def test_block_types(self):
        """Bit for bit what the decoded weights give, whatever computes them."""
        for kind in gguf_from_fixture.ggml.BLOCK_TYPES:
            with self.subTest(kind):
                plain = self.folder / "plain"
                model = self.convert("tiny-dense", "--type", kind, "--order", "grouped", "--plain", plain)
                self.assertEqual(self.json("inspect", model)["weight_format"], kind.lower())
                expected = self.logits(plain)
                self.assertEqual(self.logits(model), expected)
                self.assertEqual(self.logits(model, "--isa", "scalar", "--chunk", "3", "--threads", "2"), expected)

    def test_block_types_with_tiled_heads(self):
        for fixture, kind in [("tiny-dense", "Q4_K"), ("tiny-dense", "Q6_K"), ("tiny-moe", "Q8_0"), ("tiny-moe", "MXFP4")]:
            with self.subTest(fixture, kind=kind):
                found, expected = self.both(fixture, "--type", kind, "--writer", "ollama")
                self.assertLess(self.error(found, expected), 2e-4)

    def test_a_wrong_order_is_seen(self):
        """tiny-dense has two value heads a key head: its order matters, and nothing but the mark can tell."""
        for writer in ("llama", "ollama"):
            found, expected = self.both("tiny-dense", "--order", "grouped", "--unmarked", "--writer", writer)
            self.assertGreater(self.error(found, expected), 1e-2)

    def test_split(self):
        whole = self.logits(self.convert("tiny-odd", "--type", "F16"))
        first = self.convert("tiny-odd", "--type", "F16", "--split", "3", name="s.gguf")
        self.assertTrue(first.endswith("s-00001-of-00003.gguf"))
        for path in (first, first.replace("-00001-", "-00003-")):
            self.assertEqual(self.logits(path), whole)
        pathlib.Path(first.replace("-00001-", "-00002-")).unlink()
        err = self.weir("inspect", first, code=3)[1]
        self.assertIn("s-00002-of-00003.gguf", err)

    def test_a_folder(self):
        """One model in it, whatever it is called and however it is split; which one cannot be guessed."""
        first = self.convert("tiny-odd", "--type", "F16", "--split", "3", name="s.gguf")
        self.assertEqual(self.json("inspect", self.folder)["path"], first)
        self.assertEqual(self.logits(self.folder), self.logits(first))
        self.convert("tiny-odd", "--mtp", "none", name="b.gguf")
        self.assertIn("expected one model, found 2: b.gguf, s-00001-of-00003.gguf",
                      self.weir("inspect", self.folder, code=3)[1])

    def test_mtp_inside_and_beside(self):
        inside = self.json("inspect", self.convert("tiny-dense-tied", "--mtp", "inside", name="i.gguf"))
        beside = self.json("inspect", self.convert("tiny-dense-tied", "--mtp", "beside", name="b.gguf"))
        none = self.json("inspect", self.convert("tiny-dense-tied", "--mtp", "none", name="n.gguf"))
        self.assertTrue(inside["has_mtp"] and beside["has_mtp"] and not none["has_mtp"])
        self.assertEqual(inside["n_layers"], beside["n_layers"])
        self.assertEqual(inside["n_tensors"], beside["n_tensors"])
        (self.folder / "mtp-o.gguf").write_bytes((self.folder / "mtp-b.gguf").read_bytes())
        other = self.convert("tiny-odd", "--mtp", "none", name="o.gguf")
        self.assertIn("mtp-o.gguf: expected the MTP head of", self.weir("inspect", other, code=3)[1])

    def test_inspect(self):
        info = self.json("inspect", self.convert("tiny-moe", "--type", "BF16"))
        plain = self.json("inspect", FIXTURES / "tiny-moe")
        self.assertEqual((info["layout"], info["weight_format"]), ("gguf", "bf16"))
        for key in ("model_type", "moe", "n_layers", "n_attention_layers", "hidden_size", "intermediate_size", "vocab_size",
                    "n_heads", "n_kv_heads", "head_dim", "linear_key_heads", "linear_value_heads", "linear_key_dim",
                    "linear_value_dim", "n_experts", "experts_per_token", "max_position", "parameters", "has_mtp"):
            if key != "model_type":
                self.assertEqual(info[key], plain[key], key)
        self.assertEqual(info["model_type"], "qwen3_5_moe_text")


class Demo(Case):
    """The demo model as a GGUF file: tokenizer, template, end tokens and advice are in it."""

    def setUp(self):
        super().setUp()
        self.model = gguf_from_fixture.convert([DEMO, self.folder / "demo.gguf", "--tokenizer", DEMO])

    def test_ids(self):
        for name in ("val-chat", "val-tales", "val-stories"):
            text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
            self.assertEqual(self.json("tokenize", self.model, stdin=text)["ids"],
                             json.loads((DATA / f"{name}.ids.json").read_text()), name)
        tags = self.json("tokenize", self.model, "-p", "a<think>\nb</think><tool_call>")
        self.assertEqual([p for p in tags["pieces"] if p.startswith("<")], ["<think>", "</think>", "<tool_call>"])

    def test_text_and_advice(self):
        args = ["-p", "Tell me a story about a fox.", "--temp", "0", "--max-tokens", "40"]
        found, expected = self.json("run", self.model, *args), self.json("run", DEMO, *args)
        self.assertEqual((found["text"], found["reasoning"], found["ids"]), (expected["text"], expected["reasoning"], expected["ids"]))
        self.assertEqual(found["prompt_tokens"], expected["prompt_tokens"])
        info, plain = self.json("inspect", self.model), self.json("inspect", DEMO)
        self.assertTrue(info["has_tokenizer"] and info["has_chat_template"])
        self.assertEqual(sorted(info["eos_ids"]), sorted(plain["eos_ids"]))
        self.assertEqual(info["sampling"]["top_k"], plain["sampling"]["top_k"])
        self.assertAlmostEqual(info["sampling"]["temperature"], plain["sampling"]["temperature"], places=6)


if __name__ == "__main__":
    unittest.main()
