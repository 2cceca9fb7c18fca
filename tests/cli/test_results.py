"""What commands print and write: keys of --json, and numbers against independent ones."""
import json
import math
import resource
import signal
import struct
import subprocess
import time
import unittest

from support import DATA, DEMO, FIXTURES, PROGRAM, Case, environment, numbers, safetensors, thorough


class Inspect(Case):
    def test_json_against_the_files(self):
        info = self.json("inspect", DEMO)
        config = json.loads((DEMO / "config.json").read_text())
        for key, name in [("n_layers", "num_hidden_layers"), ("hidden_size", "hidden_size"), ("vocab_size", "vocab_size"),
                          ("intermediate_size", "intermediate_size"), ("n_heads", "num_attention_heads"),
                          ("n_kv_heads", "num_key_value_heads"), ("head_dim", "head_dim"),
                          ("linear_key_heads", "linear_num_key_heads"), ("linear_value_heads", "linear_num_value_heads"),
                          ("max_position", "max_position_embeddings"), ("model_type", "model_type")]:
            self.assertEqual(info[key], config[name], key)
        self.assertEqual(info["n_attention_layers"], config["layer_types"].count("full_attention"))
        self.assertEqual(info["path"], str(DEMO))
        self.assertEqual(info["eos_ids"], sorted(info["eos_ids"], key=info["eos_ids"].index))
        self.assertIn(config["eos_token_id"], info["eos_ids"])
        self.assertTrue(info["has_tokenizer"] and info["has_chat_template"] and info["tied_head"])
        self.assertFalse(info["moe"] or info["has_vision"])
        self.assertEqual(info["sampling"], {**info["sampling"], "top_k": 20, "present": True})
        self.assertAlmostEqual(info["sampling"]["temperature"], 0.7, places=6)

        stored = safetensors(DEMO / "model.safetensors")
        self.assertEqual({t["name"]: (t["dtype"], t["shape"], t["bytes"]) for t in info["tensors"]},
                         {name: (t[0], t[1], len(t[2])) for name, t in stored.items()})
        self.assertEqual(info["n_tensors"], len(stored))

    def test_all_formats(self):
        info = self.json("inspect", FIXTURES / "mlx-mixed")
        formats = info["formats"]
        self.assertEqual([f["format"] for f in formats],
                         ["affine4 g32", "bf16", "affine6 g32", "affine8 g32", "affine3 g32", "f32"])
        self.assertEqual(sum(f["bytes"] for f in formats), info["weights_bytes"])
        self.assertEqual(sum(f["weights"] for f in formats), sum(not t["name"].endswith((".scales", ".biases"))
                                                                 for t in info["tensors"]))
        self.assertAlmostEqual(sum(f["share"] for f in formats), 1.0, places=9)
        # Codes and scales of a module count together: 4 bits, and two numbers of 16 for 32 of them.
        module = "model.layers.0.mlp.up_proj."
        sizes = {t["name"].rpartition(module)[2]: t["bytes"] for t in info["tensors"] if module in t["name"]}
        self.assertEqual(set(sizes), {"weight", "scales", "biases"})
        self.assertGreaterEqual(formats[0]["bytes"], sum(sizes.values()))
        text = self.weir("inspect", FIXTURES / "mlx-mixed")[0]
        self.assertIn("affine6 g32", text)

    def test_people_get_the_same(self):
        text = self.weir("inspect", DEMO, "--tensors")[0]
        self.assertIn("8: 6 gated DeltaNet, 2 attention", text)
        for name in safetensors(DEMO / "model.safetensors"):
            self.assertIn(f"\n{name} ", text)
        self.assertNotIn("\ntensor ", self.weir("inspect", DEMO)[0])

    def test_names_cannot_steer_the_terminal(self):
        path = self.folder / "a\x1b[31m\u009bb\x7f\u00e9"
        path.symlink_to(DEMO)
        line = self.weir("inspect", path)[0].splitlines()[0]
        self.assertTrue(line.endswith(r"/a\x1b[31m\x9bb\x7f" + "\u00e9"), line)
        self.assertEqual(self.json("inspect", path)["path"], str(path))

    def test_every_fixture(self):
        for name, moe in [("tiny-dense", False), ("tiny-moe", True), ("tiny-odd", False), ("mlx-q4", False),
                          ("mlx-moe-q4", True)]:
            info = self.json("inspect", FIXTURES / name)
            self.assertEqual((info["moe"], info["layout"]), (moe, "mlx" if name.startswith("mlx") else "huggingface"), name)


class Tokenize(Case):
    def test_ids_of_a_whole_file(self):
        text = (DATA / "val-chat.txt").read_text(encoding="utf-8")
        got = self.json("tokenize", DEMO, stdin=text)
        self.assertEqual(got["ids"], json.loads((DATA / "val-chat.ids.json").read_text()))
        self.assertEqual("".join(got["pieces"]), text, "round trip")

    def test_added_tokens_and_plain(self):
        with_added = self.json("tokenize", DEMO, "-p", "a<|im_end|>")
        plain = self.json("tokenize", DEMO, "-p", "a<|im_end|>", "--plain")
        self.assertEqual(with_added["pieces"], ["a", "<|im_end|>"])
        self.assertEqual(with_added["ids"][1], 8168)
        self.assertGreater(len(plain["ids"]), 2)
        self.assertNotIn(8168, plain["ids"])
        self.assertEqual("".join(plain["pieces"]), "a<|im_end|>")

    def test_lines(self):
        out = self.weir("tokenize", DEMO, "-p", "Once upon")[0]
        ids = self.json("tokenize", DEMO, "-p", "Once upon")["ids"]
        self.assertEqual([int(line.split()[0]) for line in out.splitlines()], ids)
        self.assertIn('"Once"', out)

    def test_nothing(self):
        self.assertEqual(self.json("tokenize", DEMO, "-p", ""), {"ids": [], "pieces": []})


class Logits(Case):
    def make(self, model, ids, *flags, name="out.safetensors"):
        out = self.folder / name
        self.weir("logits", model, "--ids", self.write("ids.json", json.dumps(list(ids))), "--out", out, *flags)
        return out

    def test_against_float64(self):
        for fixture in ["tiny-odd", "tiny-moe", "mlx-q4"]:
            expected = safetensors(FIXTURES / fixture / "expected.safetensors")
            ids = list(numbers(expected["p37.input_ids"]))
            got = safetensors(self.make(FIXTURES / fixture, ids, "--hidden", "--kv", "f32"))
            want = numbers(expected["p37.logits"])
            dtype, shape, _ = got["logits"]
            self.assertEqual((dtype, shape), ("F32", expected["p37.logits"][1]))
            values = numbers(got["logits"])
            self.assertLess(max(abs(a - b) for a, b in zip(values, want)), 1e-3, fixture)
            self.assertGreater(max(want), 1.0)

            rows, hidden = got["hidden.0"][1]
            layers = len([name for name in got if name.startswith("hidden.")])
            self.assertEqual(rows, len(ids))
            if "p37.resid" not in expected:
                continue
            resid = expected["p37.resid"]  # before the first layer, then after each
            self.assertEqual(resid[1], [layers + 1, rows, hidden])
            resid = numbers(resid)
            for layer in range(layers):
                part = resid[(layer + 1) * rows * hidden:(layer + 2) * rows * hidden]
                values = numbers(got[f"hidden.{layer}"])
                self.assertLess(max(abs(a - b) for a, b in zip(values, part)), 1e-3, f"{fixture} layer {layer}")

    def same(self, model, ids, *ways):
        plain = self.make(model, ids, *ways[0], name="plain").read_bytes()
        for flags in ways[1:]:
            self.assertEqual(self.make(model, ids, *flags).read_bytes(), plain, flags)

    def test_the_same_bytes_however_computed(self):
        scalar = ["--threads", "1", "--isa", "scalar"]
        self.same(FIXTURES / "tiny-odd", [i * 7 % 300 for i in range(70)], scalar, ["--threads", "1"], ["--threads", "2"],
                  ["--threads", "3", "--isa", "scalar"])
        self.same(DEMO, range(1000, 1024), scalar, ["--threads", "2"])
        self.same(DEMO, range(1000, 1540), ["--threads", "1"], ["--threads", "2"])  # more than one chunk of 512

    def test_file_is_whole_and_nothing_else_is_left(self):
        out = self.make(FIXTURES / "tiny-odd", [1, 2, 3])
        data = out.read_bytes()
        header = struct.unpack_from("<Q", data)[0]
        self.assertEqual(header % 8, 0, "tensors are aligned")
        self.assertEqual(len(data), 8 + header + 3 * 300 * 4)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["ids.json", "out.safetensors"])

    def test_a_signal_leaves_no_file(self):
        for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
            with self.subTest(number):
                self.interrupt(number)

    def interrupt(self, number):
        ids = self.write("ids.json", json.dumps(list(range(8000))))
        p = subprocess.Popen([PROGRAM, "logits", DEMO, "--ids", ids, "--out", self.folder / "out"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(self.folder))
        end = time.monotonic() + 60
        while len(list(self.folder.iterdir())) == 1 and time.monotonic() < end:
            time.sleep(0.01)
        p.send_signal(number)
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (1, b""), err)
        self.assertEqual([f.name for f in self.folder.iterdir()], ["ids.json"])

    def test_a_file_that_may_not_grow_leaves_none(self):
        ids = self.write("ids.json", json.dumps(list(range(64))))  # 64 rows of 8192 floats are 2 MiB
        p = subprocess.run([PROGRAM, "logits", DEMO, "--ids", ids, "--out", self.folder / "out"], capture_output=True,
                           env=environment(self.folder), timeout=60, check=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual(p.returncode, 1, p.stderr)
        self.assertIn(b"out", p.stderr)
        self.assertEqual([f.name for f in self.folder.iterdir()], ["ids.json"])

    def test_json(self):
        got = self.json("logits", FIXTURES / "tiny-odd", "--ids", self.write("i", "[5]"), "--out", self.folder / "o")
        self.assertEqual(got, {"tokens": 1, "out": str(self.folder / "o")})


class Eval(Case):
    def test_against_float64(self):
        expected = json.loads((DATA / "expected-4bit.json").read_text())["tales"]
        got = self.json("eval", DEMO, "--text", DATA / "val-tales.txt", "--windows", "2")
        self.assertEqual((got["tokens"], got["windows"]), (2 * 1023, 2))
        loss = sum(expected["window_losses"][:2]) / 2
        self.assertAlmostEqual(got["loss"], loss, delta=2e-4)
        self.assertAlmostEqual(got["perplexity"], math.exp(got["loss"]), places=9)
        self.assertGreater(got["seconds"], 0)

    def test_ids_and_text_are_the_same(self):
        args = ["--window", "64", "--windows", "3"]
        ids = self.json("eval", DEMO, "--ids", DATA / "val-chat.ids.json", *args)
        text = self.json("eval", DEMO, "--text", DATA / "val-chat.txt", *args)
        self.assertEqual(ids["loss"], text["loss"])
        self.assertEqual(ids["tokens"], 3 * 63)
        self.assertIn(f"loss {ids['loss']:.6f}", self.weir("eval", DEMO, "--ids", DATA / "val-chat.ids.json", *args)[0])

    def test_the_rest_is_dropped(self):
        ids = self.write("ids.json", json.dumps(list(range(25))))
        self.assertEqual(self.json("eval", FIXTURES / "tiny-odd", "--ids", ids, "--window", "10")["tokens"], 18)


class Adapters(Case):
    """A PEFT adapter of rank 2 on two modules of tiny-odd, made of simple numbers."""
    MODEL = FIXTURES / "tiny-odd"
    RANK, ALPHA = 2, 6.0
    MODULES = ["layers.0.linear_attn.in_proj_b", "layers.1.mlp.down_proj"]

    def setUp(self):
        super().setUp()
        self.base = safetensors(self.MODEL / "model.safetensors")
        self.adapter = self.folder / "adapter"
        self.adapter.mkdir()
        header, data, self.pairs = {}, b"", {}
        for module in self.MODULES:
            rows, columns = self.base[f"model.{module}.weight"][1]
            a = [((i * 37) % 101 - 50) / 256 for i in range(self.RANK * columns)]
            b = [((i * 53) % 89 - 44) / 256 for i in range(rows * self.RANK)]
            self.pairs[module] = (a, b)
            for name, shape, values in [("A", [self.RANK, columns], a), ("B", [rows, self.RANK], b)]:
                raw = struct.pack(f"<{len(values)}f", *values)
                header[f"base_model.model.model.{module}.lora_{name}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
                data += raw
        text = json.dumps(header).encode()
        (self.adapter / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        (self.adapter / "adapter_config.json").write_text(
            json.dumps({"peft_type": "LORA", "r": self.RANK, "lora_alpha": self.ALPHA}))
        self.ids = self.write("ids.json", json.dumps([(i * 31) % 300 for i in range(30)]))

    def logits(self, model, *args):
        out = self.folder / "logits.safetensors"
        self.weir("logits", model, "--ids", self.ids, "--out", out, "--kv", "f32", *args)
        return safetensors(out)["logits"]

    def test_merged_weights(self):
        out = self.folder / "merged"
        self.assertEqual(self.json("merge", self.MODEL, out, "--adapter", f"{self.adapter}:0.5"),
                         {"out": str(out), "adapters": 1})
        merged = safetensors(out / "model.safetensors")
        self.assertEqual(set(merged), set(self.base))
        scale = self.ALPHA / self.RANK * 0.5
        for name, tensor in self.base.items():
            module = name.removeprefix("model.").removesuffix(".weight")
            if module not in self.pairs:
                self.assertEqual(merged[name], tensor, name)
                continue
            a, b = self.pairs[module]
            rows, columns = tensor[1]
            old, new = numbers(tensor), numbers(merged[name])
            for i in range(rows):
                for j in range(columns):
                    w = old[i * columns + j] + scale * sum(b[i * 2 + r] * a[r * columns + j] for r in range(2))
                    self.assertAlmostEqual(new[i * columns + j], w, delta=1e-7 * max(1, abs(w)))
        self.assertEqual((out / "config.json").read_bytes(), (self.MODEL / "config.json").read_bytes())

        with_adapter = numbers(self.logits(self.MODEL, "--adapter", f"{self.adapter}:0.5"))
        plain, once = numbers(self.logits(self.MODEL)), numbers(self.logits(out))
        largest = max(map(abs, once))
        self.assertLess(max(abs(x - y) for x, y in zip(with_adapter, once)), 1e-5 * largest)
        self.assertGreater(max(abs(x - y) for x, y in zip(with_adapter, plain)), 1e-2 * largest)
        self.weir("merge", self.MODEL, out, "--adapter", self.adapter, code=1)

    def test_bench(self):
        quick = ["--runs", "1", "--budget", "1", "--batch", "2", "--window", "2"]
        b = self.json("bench", self.MODEL, "--adapter", f"{self.adapter}:0.5", *quick)
        self.assertEqual([(r["kind"], r["batch"]) for r in b["runs"]],
                         [("load", 1), ("prefill", 1), ("decode", 1), ("decode", 2), ("window", 1), ("decode", 1)])
        self.weir("bench", self.MODEL, "--adapter", f"{self.adapter}:200", *quick, code=2)
        self.weir("bench", FIXTURES / "tiny-moe", "--adapter", self.adapter, *quick, code=3)
        self.weir("bench", "--shape", "0.8b", "--adapter", self.adapter, code=2)

    def test_scales(self):
        plain, full = self.logits(self.MODEL), self.logits(self.MODEL, "--adapter", self.adapter)
        self.assertNotEqual(full, plain)
        self.assertEqual(self.logits(self.MODEL, "--adapter", f"{self.adapter}:0"), plain)
        self.assertEqual(self.logits(self.MODEL, "--adapter", f"{self.adapter}:1", "--threads", "1", "--chunk", "7"), full)
        fit = self.json("fit", self.MODEL, "--ctx", "64", "--adapter", self.adapter)
        self.assertGreater(fit["adapter_bytes"], sum(4 * (len(a) + len(b)) for a, b in self.pairs.values()))

    def test_refused(self):
        for scale in ["x", "", "101", "1:"]:
            self.weir("logits", self.MODEL, "--ids", self.ids, "--out", self.folder / "x", "--adapter",
                      f"{self.adapter}:{scale}", code=2)
        args = ["--ids", self.ids, "--out", self.folder / "x", "--adapter", self.adapter]
        self.assertIn("expected A [r,", self.weir("logits", FIXTURES / "tiny-dense", *args, code=3)[1])
        self.assertIn("adapter_config.json", self.weir("logits", self.MODEL, *args[:-1], self.folder, code=3)[1])
        self.weir("merge", self.MODEL, "--adapter", self.adapter, code=2)
        self.weir("merge", self.MODEL, self.folder / "m", code=2)


class Fit(Case):
    def test_formula(self):
        keys = {"weights_bytes", "kv_bytes_per_token", "kv_start_bytes", "state_bytes_per_sequence", "snapshot_bytes", "cache_bytes",
                "draft_bytes", "adapter_bytes", "workspace_bytes", "total_bytes", "max_context", "fits"}
        for parallel in [1, 3]:
            f = self.json("fit", DEMO, "--ctx", "1000", "--parallel", parallel)
            self.assertEqual(set(f), keys)
            sequence = f["kv_bytes_per_token"] * 1000 + f["state_bytes_per_sequence"]
            self.assertAlmostEqual(f["total_bytes"], f["weights_bytes"] + parallel * sequence + f["workspace_bytes"],
                                   delta=0.02 * f["total_bytes"])
            self.assertTrue(f["fits"])
            self.assertEqual((f["cache_bytes"], f["draft_bytes"], f["adapter_bytes"]), (0, 0, 0))
            self.assertEqual(f["snapshot_bytes"], f["state_bytes_per_sequence"])
        # 2 attention layers, keys and values, 2 heads of 256, two bytes each.
        self.assertEqual(f["kv_bytes_per_token"], 2 * 2 * 2 * 256 * 2)
        self.assertEqual(self.json("fit", DEMO, "--kv", "f32")["kv_bytes_per_token"], 2 * 2 * 2 * 256 * 4)

    def test_what_drafts_and_the_cache_take(self):
        args = ["fit", DEMO, "--ctx", "1000", "--parallel", "3"]
        plain = self.json(*args)
        cached = self.json(*args, "--cache-memory", "0.1")
        self.assertGreater(cached["cache_bytes"], 0.9e8)
        self.assertLessEqual(cached["cache_bytes"], 1e8)
        self.assertEqual(cached["total_bytes"], plain["total_bytes"] + cached["cache_bytes"])

        ngram = self.json(*args, "--draft", "ngram")
        self.assertEqual(ngram["state_bytes_per_sequence"], 2 * plain["state_bytes_per_sequence"])
        self.assertGreater(ngram["draft_bytes"], 0)
        mtp = self.json(*args, "--draft", "mtp")  # one more layer with keys and values, and its weights
        self.assertEqual(mtp["kv_bytes_per_token"], 3 * plain["kv_bytes_per_token"] // 2)
        self.assertGreater(mtp["weights_bytes"], plain["weights_bytes"])
        model = self.json(*args, "--draft", DEMO)
        self.assertGreater(model["draft_bytes"], plain["weights_bytes"])

        pool = self.json(*args, "--pool", "1000")
        saved = plain["total_bytes"] - pool["total_bytes"]
        self.assertAlmostEqual(saved, 2000 * plain["kv_bytes_per_token"], delta=0.1 * saved)

    def test_no_is_an_answer(self):
        f = self.json("fit", DEMO, "--ctx", "30000", "--memory", "0.001")
        self.assertFalse(f["fits"])
        self.assertRegex(self.weir("fit", DEMO, "--memory", "0.001")[0], r"(?m)^fits +no$")


class Bench(Case):
    def test_json(self):
        b = self.json("bench", FIXTURES / "tiny-odd", "--runs", "1", "--budget", "2")
        self.assertGreater(b["floor"]["read_gbps"], 0.1)
        self.assertGreater(b["floor"]["fma_gflops"], 0.1)
        self.assertGreater(b["peak_rss_bytes"], 1 << 20)
        kinds = [r["kind"] for r in b["runs"]]
        self.assertEqual(set(kinds), {"load", "prefill", "decode", "window"})
        self.assertEqual(set(b["ratios"]["batch"]), {"2", "4", "8"})
        self.assertEqual(set(b["ratios"]["window"]), {"2", "4", "8"})
        self.assertTrue(all(x > 0 for kind in b["ratios"].values() for x in kind.values()))
        for r in b["runs"]:
            self.assertEqual(set(r), {"kind", "tokens", "depth", "batch", "tps", "ms_median", "ms_min", "floor_fraction"})
            self.assertLessEqual(r["ms_min"], r["ms_median"])
            self.assertGreater(r["ms_min"], 0)
            if r["kind"] != "load":
                per_call = r["batch"] if r["kind"] == "decode" else r["tokens"]
                self.assertAlmostEqual(r["tps"], 1000 * per_call / r["ms_median"], delta=1e-6 * r["tps"])
        self.assertEqual([r["tokens"] for r in b["runs"] if r["kind"] == "window"], [2, 4, 8])
        self.assertEqual([(r["batch"], r["depth"]) for r in b["runs"] if r["kind"] == "decode"],
                         [(1, 512), (2, 512), (4, 512), (8, 512), (1, 1)])

    @thorough
    def test_batches_and_windows_of_choice(self):
        b = self.json("bench", FIXTURES / "tiny-odd", "--runs", "1", "--budget", "1", "--batch", "3,5", "--window", "6")
        self.assertEqual([r["batch"] for r in b["runs"] if r["kind"] == "decode"], [1, 3, 5, 1])
        self.assertEqual([r["tokens"] for r in b["runs"] if r["kind"] == "window"], [6])
        self.assertEqual([list(kind) for kind in b["ratios"].values()], [["3", "5"], ["6"]])

    @thorough
    def test_more_batches_than_fit_are_left_out(self):
        # The state of one sequence is 1.1 MB, kept twice: some of the eight do not fit.
        alone = self.json("fit", DEMO, "--ctx", "641", "--draft", "ngram", "--draft-tokens", "7")["total_bytes"]
        memory = ["--memory", (alone + 6e6) / 1e9, "--runs", "1", "--budget", "1"]
        batches = [r["batch"] for r in self.json("bench", DEMO, *memory)["runs"] if r["kind"] == "decode"]
        self.assertLess(len(batches), 5)
        self.weir("bench", DEMO, *memory, "--batch", "8", code=4)

    def test_drafts_on_a_text(self):
        text = ["bench", DEMO, "--text", DATA / "val-chat.txt", "--prompts", "3", "--tokens", "20", "--runs", "1"]
        for flags, draft, most in [([], "mtp", 3), (["--draft", "ngram", "--parallel", "2"], "ngram", 8),
                                   (["--draft-tokens", "2", "--draft-fixed", "--mtp-hidden", "pre"], "mtp", 2)]:
            b = self.json(*text, *flags)
            self.assertEqual((b["draft"], b["draft_tokens"], b["same_text"]), (draft, most, True))
            self.assertEqual((b["prompts"], b["tokens"], b["replies"]), (3, 20, 6))
            self.assertGreater(b["tps_off"], 0)
            self.assertAlmostEqual(b["ratio"], b["tps_on"] / b["tps_off"])
            self.assertLessEqual(b["accepted"], b["drafted"])
            if "--draft-fixed" in flags:
                again = self.json(*text, *flags, "--threads", "1")
                self.assertGreater(b["accepted"], 0)
                self.assertEqual((again["drafted"], again["accepted"]), (b["drafted"], b["accepted"]))
        self.assertIn("times as fast", self.weir(*text)[0])
        self.weir("bench", DEMO, "--text", self.write("short", "Too short."), code=3)
        self.weir("bench", FIXTURES / "tiny-odd", "--text", DATA / "val-chat.txt", code=3)

    @thorough
    def test_table_and_depth(self):
        out = self.weir("bench", DEMO, "--runs", "1", "--budget", "1", "--depth", "600")[0]
        self.assertLess(out.index("floors"), out.index("prefill"))
        self.assertRegex(out, r"(?m)^decode +\d+ +600 ")


class Verify(Case):
    def test_json(self):
        v = self.json("verify", DEMO, "--budget", "1", "--seed", "3")
        self.assertGreater(v["schedules"], 0)
        self.assertEqual(v["differing"], 0)
        self.assertEqual(v["first_difference"], "")
        self.assertGreater(sum(v["invariants"].values()), 0)
        out = self.weir("verify", DEMO, "--budget", "0.2")[0]
        self.assertIn("differing: 0", out)
        counts = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith("  "))
        self.assertEqual(set(counts), set(v["invariants"]))
        for name, count in counts.items():
            self.assertTrue(count == "not exercised" or int(count) > 0, (name, count))


if __name__ == "__main__":
    unittest.main()
