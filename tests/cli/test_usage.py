"""Exit codes and messages: wrong usage is 2, a bad file 3, and each says what was expected."""
import json
import os
import struct
import unittest

from support import DEMO, FIXTURES, PROGRAM, Case

COMMANDS = ["run", "serve", "pull", "ls", "rm", "inspect", "tokenize", "logits", "eval", "bench", "fit", "quantize", "merge",
            "verify"]
COMMON = ["--threads", "--isa", "--device", "--kv", "--kv-config", "--kv-start", "--ctx", "--chunk", "--memory", "--seed", "--json", "--quiet", "--help"]
DRAFTS = ["--draft", "--draft-tokens", "--draft-fixed", "--mtp-hidden"]
CACHE = ["--cache-memory", "--cache-dir", "--cache-disk"]
FLAGS = {
    "run": ["-p", "--raw", "--chat", "--system", "--think", "--no-think", "--max-tokens", "--temp", "--top-p", "--top-k",
            "--min-p", "--presence-penalty", "--repetition-penalty", "--stop", "--logprobs", "--adapter", *DRAFTS, *CACHE],
    "serve": ["--host", "--port", "--api-key", "--max-queue", "--adapter-dir", "--config", "--no-web", "--reasoning-budget",
              "--adapter", *DRAFTS, *CACHE],
    "pull": [], "ls": [], "rm": ["--yes"],
    "inspect": ["--tensors"],
    "tokenize": ["-p", "--plain"],
    "logits": ["--ids", "--out", "--hidden", "--adapter"],
    "eval": ["--text", "--ids", "--window", "--adapter"],
    "bench": ["--shape", "--format", "--batch", "--window", "--depth", "--runs", "--budget", "--text", "--prompts",
              "--tokens", "--parallel", "--adapter", *DRAFTS],
    "fit": ["--parallel", "--pool", "--adapter", *DRAFTS, *CACHE],
    "quantize": ["--bits", "--bpw", "--calibration", "--ids", "--group", "--format", "--recipe"],
    "merge": ["--adapter"],
    "verify": ["--budget"],
}


class Usage(Case):
    def refused(self, *args, says, code=2, **kwargs):
        out, err = self.weir(*args, code=code, **kwargs)
        self.assertEqual(out, "", "results only on stdout")
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, err)
        self.assertTrue(err.startswith("weir: "), err)

    def test_version(self):
        self.assertRegex(self.weir("--version")[0], r"^weir \d+\.\d+\.\d+\n$")

    def test_help_names_every_command_and_flag(self):
        overview = self.weir("help")[0]
        for name in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {name} ")
            text = self.weir("help", name)[0]
            self.assertEqual(text, self.weir(name, "--help")[0])
            computes = name not in ("pull", "ls", "rm")
            for flag in (COMMON if computes else COMMON[-3:]) + FLAGS[name]:
                self.assertRegex(text, rf"(?m)^\s+(-[phy], )?{flag}\b", f"{name} {flag}")

    def test_no_command_is_wrong_usage(self):
        out, _ = self.weir(code=2)
        self.assertIn("Usage:", out)

    def test_unknown_commands(self):
        for name in ["push", "list", "runn", ""]:
            self.refused(name, says=[f'unknown command "{name}"', *COMMANDS])
        self.refused("help", "push", says="unknown command")

    def test_unknown_options_and_arguments(self):
        self.refused("run", "--frobnicate", says='unknown option "--frobnicate"')
        self.refused("run", "-x", says='unknown option "-x"')
        self.refused("run", "--json=yes", "-p", "x", says="--json: takes no value")
        self.refused("inspect", DEMO, "other", says='found "other"')
        self.refused("inspect", says="expected a MODEL")
        self.refused("run", "-p", says="--prompt: expected a value")

    def test_numbers_are_strict(self):
        for flag, wrong in [("--threads", ["0", "513","-1", "+1", " 1", "1x", "", "1e3", "99999999999999999999", "0x10"]),
                            ("--ctx", ["0", "8388609", "4294967296"]), ("--chunk", ["0", "8193"]),
                            ("--draft-tokens", ["0", "17"]), ("--cache-memory", ["-1", "x"]), ("--cache-disk", ["0"]),
                            ("--seed", ["-1", "9007199254740993", "18446744073709551616"]),
                            ("--max-tokens", ["0", "1.5"]), ("--top-k", ["-1"]), ("--logprobs", ["21"]),
                            ("--temp", ["-0.1", "5.1", "nan", "inf", "", "1,5", "0x1"]), ("--top-p", ["1.01", "-0.1"]),
                            ("--min-p", ["2"]), ("--presence-penalty", ["2.5"]), ("--repetition-penalty", ["0"])]:
            for text in wrong:
                self.refused("run", "-p", "x", flag, text, says=[flag + ": expected", f'found "{text}"'])

        self.refused("fit", DEMO, "--parallel", "4097", says="--parallel: expected")
        self.refused("verify", "--budget", "1e6", says="--budget: expected")

    def test_lists_of_numbers(self):
        for text, found in [("", ""), (",", ""), ("1,", ""), ("1,,2", ""), ("0", "0"), ("1,65", "65"), ("1, 2", " 2"),
                            ("4,1", "4,1"), ("2,2", "2,2"), ("1;2", "1;2"), ("1" * 40, "1" * 23)]:
            self.refused("bench", "--batch", text, says=["--batch: expected", f'found "{found}"'])
        self.refused("bench", "--window", "1,2", says='--window: expected a whole number from 2 to 17, found "1"')
        self.refused("bench", "--batch", ",".join(map(str, range(1, 18))), says="at most 16")

    def test_numbers_at_their_ends(self):
        self.json("fit", DEMO, "--parallel", "4096", "--ctx", "8388608", "--threads", "512")
        r = self.json("run", "-p", "x", "--max-tokens", "1", "--top-p", "1e-320", "--seed", "9007199254740992")
        self.assertEqual(r["seed"], 9007199254740992)
        self.json("run", "-p", "x", "--max-tokens", "1", "--draft", "ngram", "--draft-tokens", "16")
        self.json("bench", FIXTURES / "tiny-odd", "--window", "17", "--batch", "1", "--runs", "1", "--budget", "0.1")

    def test_choices(self):
        self.refused("run", "-p", "x", "--isa", "sse", says="--isa: expected one of scalar|avx2|avx512|neon")
        self.refused("run", "-p", "x", "--kv", "b", says=["kv: expected", "bf16, f32, affine8", 'found "b"'])
        self.refused("run", "-p", "x", "--device", "cuda", says="cuda is not in this build")
        self.refused("run", "-p", "x", "--isa", "neon" if os.uname().machine == "x86_64" else "avx2", says="isa")
        self.refused("run", "-p", "x", "--mtp-hidden", "mid", says="--mtp-hidden: expected one of post|pre")

    def test_drafts(self):
        gone = self.folder / "gone"
        self.refused("run", "-p", "x", "--draft", gone, says=["--draft", str(gone)], code=3)
        self.refused("run", "-p", "x", "--draft", "some/model", says=["--draft", "some/model"], code=3)
        self.refused("run", "-p", "x", "--draft", "", says="--draft: expected")
        self.refused("run", "-p", "x", "--draft", FIXTURES / "tiny-odd", says="draft", code=2)
        self.refused("fit", FIXTURES / "tiny-odd", "--draft", "mtp", says="mtp", code=3)
        self.refused("run", "-p", "x", "--draft", "off", "--draft-tokens", "2", says="--draft-tokens")
        self.refused("run", "-p", "x", "--draft", "off", "--draft-fixed", says="--draft-fixed needs another")
        self.refused("run", "-p", "x", "--draft", "ngram", "--mtp-hidden", "pre", says="--mtp-hidden needs --draft mtp")
        self.refused("eval", DEMO, "--text", "a", "--draft", "mtp", says='unknown option "--draft"')
        self.refused("verify", "--cache-memory", "1", says="unknown option")
        self.refused("run", "--parallel", "2", says="unknown option")

    def test_cache(self):
        self.refused("run", "-p", "x", "--cache-disk", "1", says="--cache-disk needs --cache-dir")
        self.refused("run", "-p", "x", "--cache-dir", self.folder, "--cache-memory", "0", says="--cache-memory")
        self.refused("run", "-p", "x", "--cache-memory", "1e-6", says=["cache_memory", "1000"])

    def test_what_does_not_go_together(self):
        self.refused("run", "-p", "x", "--think", "--no-think", says="--think")
        self.refused("run", "-p", "x", "--raw", "--system", "y", says="--raw")
        self.refused("run", "-p", "x", "--logprobs", "1", says="--logprobs needs --json")
        self.refused("run", "--chat", "-p", "x", says="--chat")
        self.refused("run", "-p", "x", "--stop", "", says="--stop")
        self.refused("run", "-p", "x", *["--stop", "a"] * 17, says="at most 16")
        self.refused("bench", DEMO, "--shape", "4b", says="--shape")
        self.refused("bench", "--format", "bf16", says="--format needs --shape")
        for flags in [["--prompts", "2"], ["--tokens", "2"], ["--parallel", "2"], ["--draft", "mtp"], ["--draft-fixed"]]:
            self.refused("bench", *flags, says="need --text")
        for flags in [["--shape", "4b"], ["--depth", "2"], ["--batch", "2"], ["--window", "2"]]:
            self.refused("bench", "--text", "a", *flags, says="--text goes with none of")
        self.refused("bench", "--text", "a", "--draft", "off", says="--draft")
        self.refused("eval", DEMO, says=["--text", "--ids"])
        self.refused("eval", DEMO, "--text", "a", "--ids", "b", says="either")
        self.refused("logits", DEMO, "--out", "x", says="--ids")
        self.refused("logits", DEMO, "--ids", "x", says="--out")

    def test_prompt_that_is_not_text(self):
        self.refused("run", says="expected -p TEXT, or text on stdin")
        self.refused("run", "-p", "-", says="text on stdin", stdin=" \n")
        self.refused("run", "--raw", "-p", "", says="expected some text")
        self.refused("run", "-p", "a\udcffb", says="UTF-8")
        self.refused("tokenize", DEMO, "-p", "a\udcffb", says="UTF-8")

    def test_missing_files(self):
        gone = self.folder / "gone"
        for args in [["inspect", gone], ["run", gone, "-p", "x"], ["fit", gone], ["verify", gone],
                     ["tokenize", gone, "-p", "x"], ["bench", gone]]:
            self.refused(*args, says=str(gone), code=3)
        self.refused("eval", DEMO, "--text", gone, says=str(gone), code=3)
        self.refused("logits", DEMO, "--ids", gone, "--out", self.folder / "o", says=str(gone), code=3)
        self.refused("run", "-p", "x", says=str(gone), code=3, env={"WEIR_DEMO": gone})

    def test_empty_directory(self):
        self.refused("inspect", self.folder, says=[str(self.folder), "safetensors"], code=3)

    def test_damaged_checkpoints(self):
        model = self.folder / "model"
        model.mkdir()
        config = (DEMO / "config.json").read_bytes()
        weights = (DEMO / "model.safetensors").read_bytes()
        header = 8 + struct.unpack_from("<Q", weights)[0]
        (model / "config.json").write_bytes(config)
        for damage in [b"", weights[:4], weights[:header // 2], weights[:header + 1000], struct.pack("<Q", 2**63) + weights[8:],
                       struct.pack("<Q", 10) + b"not json!!"]:
            (model / "model.safetensors").write_bytes(damage)
            self.refused("inspect", model, says="model.safetensors", code=3)
        (model / "model.safetensors").write_bytes(weights)
        for text in [b"", b"[]", b"{", b'{"model_type": "gpt2"}', b"\xff", b"[" * 100000]:
            (model / "config.json").write_bytes(text)
            self.refused("inspect", model, says="config.json", code=3)

    def test_model_without_tokenizer(self):
        self.refused("tokenize", FIXTURES / "tiny-odd", "-p", "x", says="tokenizer", code=3)
        self.refused("run", FIXTURES / "tiny-odd", "-p", "x", says="tokenizer", code=3)

    def test_bad_ids(self):
        out = self.folder / "out.safetensors"
        for text, says in [("[]", "empty"), ("{}", "array"), ("[1, 300]", "[1]"), ("[-1]", "[0]"), ("[1.5]", "[0]"),
                           ("[true]", "[0]"), ("[1", "JSON"), ("", "JSON"), ('["1"]', "[0]")]:
            ids = self.write("ids.json", text)
            self.refused("logits", FIXTURES / "tiny-odd", "--ids", ids, "--out", out, says=[str(ids), says], code=3)
            self.assertEqual([p.name for p in self.folder.iterdir()], ["ids.json"], "nothing is left behind")

    def test_output_that_cannot_be_written(self):
        ids = self.write("ids.json", "[1]")
        self.refused("logits", FIXTURES / "tiny-odd", "--ids", ids, "--out", self.folder / "no" / "x", says="cannot create",
                     code=1)

    def test_text_shorter_than_a_window(self):
        self.refused("eval", DEMO, "--text", self.write("t", "short"), says="1024", code=3)
        self.refused("eval", DEMO, "--text", self.write("t", b"\xff"), says=["UTF-8", "/t"], code=3)

    def test_prompt_longer_than_the_context(self):
        self.refused("run", "--ctx", "8", "-p", "word " * 50, says=["--ctx", "8"])

    def test_memory_limit_is_an_exit_code(self):
        self.refused("run", "--memory", "0.005", "-p", "x", says="bytes", code=4)


class Names(Case):
    """ORG/NAME in the local Hugging Face cache."""

    def cache(self, at, commit="0123456789abcdef", name="models--org--demo"):
        repo = at / name
        (repo / "refs").mkdir(parents=True)
        (repo / "snapshots").mkdir()
        (repo / "refs" / "main").write_text(commit)
        (repo / "snapshots" / "0123456789abcdef").symlink_to(DEMO)
        return at

    def found(self, **env):
        info = self.json("inspect", "org/demo", env=env)
        self.assertIn("snapshots/0123456789abcdef", info["path"])

    def test_the_places_in_their_order(self):
        self.cache(self.folder / "xdg" / "huggingface" / "hub")
        self.found(XDG_CACHE_HOME=self.folder / "xdg")
        self.cache(self.folder / ".cache" / "huggingface" / "hub")
        self.found()
        self.cache(self.folder / "home" / "hub")
        self.found(HF_HOME=self.folder / "home", XDG_CACHE_HOME="/nowhere")
        self.cache(self.folder / "cache")
        self.found(HF_HUB_CACHE=self.folder / "cache", HF_HOME="/nowhere")
        _, err = self.weir("inspect", "org/demo", env={"HF_HUB_CACHE": "/nowhere"}, code=3)
        self.assertIn("/nowhere/models--org--demo/refs/main", err)

    def test_a_commit_that_is_none(self):
        self.cache(self.folder, commit="../../etc")
        _, err = self.weir("inspect", "org/demo", env={"HF_HUB_CACHE": self.folder}, code=3)
        self.assertIn("expected a commit", err)

    def test_names_cannot_leave_the_cache(self):
        for name in ["../demo", "org/../demo", "org/.demo", "org/a/b", "org/"]:
            _, err = self.weir("inspect", name, env={"HF_HUB_CACHE": self.folder}, code=3)
            self.assertNotIn("models--", err)

    def test_a_path_goes_before_the_cache(self):
        (self.folder / "org").mkdir()
        (self.folder / "org" / "demo").symlink_to(DEMO)
        self.cache(self.folder)
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            info = json.loads(self.weir("inspect", "org/demo", "--json", env={"HF_HUB_CACHE": self.folder})[0])
        finally:
            os.chdir(here)
        self.assertEqual(info["path"], "org/demo")

    def test_the_demo_model(self):
        self.assertGreater(self.json("run", "-p", "x", "--max-tokens", "1", "--temp", "0")["prompt_tokens"], 1)


if __name__ == "__main__":
    assert os.path.exists(PROGRAM)
    unittest.main()
