"""weir pull from a hub that behaves: what is chosen, where it goes, what is asked."""
import json
import os
import signal
import subprocess
import unittest

from hub import REPO, WANTED, Case, model, noise, sha256
from mirror import CERTIFICATE, Mirror
from support import FIXTURES, PROGRAM, environment


class Pull(Case):
    def test_a_model(self):
        files = model()
        commit = self.mirror.add(REPO, files)
        result = self.pull_json()
        self.assert_complete(files)
        snapshot = self.repo() / "snapshots" / commit
        total = sum(len(files[p]) for p in WANTED)
        self.assertEqual({k: result[k] for k in result if k != "seconds"},
                         {"repo": REPO, "revision": "main", "commit": commit, "path": str(snapshot), "files": len(WANTED),
                          "bytes": total, "received": total, "offline": False})
        # A second time nothing comes.
        before = len(self.mirror.served("/resolve/"))
        again = self.pull_json()
        self.assertEqual((again["received"], again["bytes"]), (0, total))
        self.assertEqual(len(self.mirror.served("/resolve/")), before)
        self.assertIn("all of it was there", self.pull()[0])

    def test_what_is_sent(self):
        self.mirror.add(REPO, model())
        self.mirror.token = "hf_secret"
        self.pull(HF_TOKEN="hf_secret")
        for storage, path, headers in self.mirror.requests:
            expected = None if storage else "Bearer hf_secret"
            self.assertEqual(headers.get("Authorization"), expected, path)
        self.assertGreater(len(self.mirror.served("", storage=True)), 0)

    def test_places_of_the_token(self):
        self.mirror.add(REPO, model())
        self.mirror.token = "hf_secret"
        home = self.folder / "home"
        home.mkdir()
        (home / "token").write_text("hf_secret\n")
        self.pull(HF_HOME=home)
        other = self.write("other", " hf_secret ")
        self.pull(HF_HOME="/nowhere", HF_TOKEN_PATH=other)
        _, err = self.pull(HF_HOME=home, HF_TOKEN="wrong", code=3)
        self.assertIn("not found", err)
        _, err = self.pull(HF_TOKEN="a\x01b", code=2)
        self.assertIn("HF_TOKEN: expected a token", err)
        self.assertNotIn("a\x01b", err)

    def test_refusals(self):
        self.mirror.add(REPO, model())
        _, err = self.pull("org/none", code=3)
        self.assertIn("org/none: not found", err)
        self.assertIn("HF_TOKEN is not set", err)
        _, err = self.pull(REPO + "@v9", code=3)
        self.assertIn('has no revision "v9"', err)
        self.mirror.gated, self.mirror.token = True, "hf_good"
        _, err = self.pull(code=3)
        self.assertIn(f"ask for access at {self.mirror.url}/{REPO}, then set HF_TOKEN", err)
        self.assertFalse((self.repo() / "snapshots").exists())
        self.pull(HF_TOKEN="hf_good")

    def test_names(self):
        for name in ["demo", "a/b/c", "org/../x", "org/.x", "org/a--b", "org/a@", "org/a@x..y", "org/a@/x", "org/a@x@y",
                     "org/a:../x", "org/a:/etc/x", "org/" + "n" * 97, "org/a@.x", "org/a@x?y", "../org/a"]:
            out, err = self.pull(name, code=2)
            self.assertEqual(out, "")
            self.assertIn("expected", err)
        self.assertEqual(self.mirror.requests, [])

    def test_revisions(self):
        old, new = model(), model(**{"config.json": b'{"model_type": "qwen3_5", "new": 1}'})
        first = self.mirror.add(REPO, old, revision="refs/pr/1")
        second = self.mirror.add(REPO, new)
        self.pull(REPO + "@refs/pr/1")
        self.assert_complete(old, revision="refs/pr/1")
        # The weights are the same blobs.
        self.assertEqual(self.pull_json()["received"], len(new["config.json"]))
        self.assert_complete(new)
        self.pull(f"hf:{REPO}@{first}")
        self.assert_complete(old, commit=first)
        self.assertEqual(sorted(p.relative_to(self.repo() / "refs").as_posix()
                                for p in (self.repo() / "refs").rglob("*") if p.is_file()), ["main", "refs/pr/1"])
        self.assertNotEqual(first, second)

    def test_pages(self):
        files = model()
        self.mirror.add(REPO, files)
        self.mirror.page = 2
        self.pull()
        self.assert_complete(files)
        self.assertEqual(len(self.mirror.served("/tree/")), 5)

    def test_one_precision(self):
        one = {"config.json": b"{}", "model.safetensors": noise(100, 1), "model.fp16.safetensors": noise(50, 2),
               "consolidated.safetensors": noise(99, 3), "text_encoder/model.safetensors": noise(10, 4)}
        self.mirror.add("org/one", one)
        self.pull("org/one")
        self.assert_complete(one, {"config.json", "model.safetensors"}, "org/one")
        named = {"config.json": b"{}", **{f"model.{p}-0000{i}-of-00002.safetensors": noise(60 + i, p)
                                          for p in ("fp16", "bf16") for i in (1, 2)}}
        self.mirror.add("org/named", named)
        self.pull("org/named")
        self.assert_complete(named, {"config.json", "model.bf16-00001-of-00002.safetensors",
                                     "model.bf16-00002-of-00002.safetensors"}, "org/named")

    def test_names_that_need_escapes(self):
        files = {"Q4_K_M/an odd+name%20ü#1-Q4_K_M.gguf": noise(500, 1)}
        self.mirror.add("org/odd-gguf", files)
        self.pull("org/odd-gguf")
        self.assert_complete(files, files, "org/odd-gguf")

    def test_gguf(self):
        files = {f"M-{q}.gguf": noise(1000, q) for q in ("Q4_K_M", "Q8_0", "UD-Q4_K_XL")}
        files.update({f"BF16/M-BF16-0000{i}-of-00003.gguf": noise(700 + i, i) for i in (1, 2, 3)})
        files.update({"mmproj-BF16.gguf": noise(10, 1), "mtp-M-Q8_0.gguf": noise(11, 2), "imatrix.gguf": noise(12, 3),
                      "config.json": b"{}"})
        name = "org/m-gguf"
        self.mirror.add(name, files)
        snapshot = self.repo(name) / "snapshots"

        def pulled(what):
            path = self.pull_json(name + what)["path"]
            found = sorted(p.relative_to(path_of).as_posix() for path_of in snapshot.iterdir()
                           for p in path_of.rglob("*") if p.is_file())
            return path.split("/snapshots/")[1][41:], found

        first, found = pulled("")
        self.assertEqual((first, found), ("M-Q4_K_M.gguf", ["M-Q4_K_M.gguf"]))
        first, found = pulled(":q8_0")
        self.assertEqual(first, "M-Q8_0.gguf")
        self.assertEqual(found, ["M-Q4_K_M.gguf", "M-Q8_0.gguf", "mtp-M-Q8_0.gguf"])
        first, found = pulled(":bf16")
        self.assertEqual(first, "BF16/M-BF16-00001-of-00003.gguf")
        self.assertEqual(len([f for f in found if "BF16" in f]), 3)
        self.assertEqual(pulled(":M-UD-Q4_K_XL.gguf")[0], "M-UD-Q4_K_XL.gguf")
        _, err = self.pull(name + ":Q3_K_S", code=2)
        self.assertIn("there are BF16, Q4_K_M, Q8_0, UD-Q4_K_XL", err)
        del files["BF16/M-BF16-00002-of-00003.gguf"]
        self.mirror.add("org/broken-gguf", files)
        _, err = self.pull("org/broken-gguf:BF16", code=3)
        self.assertIn("expected 3 parts, found 2", err)

    def test_a_model_that_opens(self):
        files = {p.name: p.read_bytes() for p in (FIXTURES / "mlx-q4").iterdir() if p.is_file()}
        commit = self.mirror.add("org/real", files)
        _, err = self.weir("inspect", "org/real", env=self.environment(), code=3)
        self.assertIn("not in the model cache", err)
        path = self.pull_json("org/real")["path"]
        for name in ["org/real", "hf:org/real", "org/real@main", "org/real@" + commit]:
            self.assertEqual(self.json("inspect", name, env=self.environment())["path"], path)
        _, err = self.weir("inspect", "org/real@v2", env=self.environment(), code=3)
        self.assertIn("refs/v2", err)

    def test_offline(self):
        files = model()
        self.mirror.add(REPO, files)
        _, err = self.pull(HF_HUB_OFFLINE="1", code=3)
        self.assertIn("not in the model cache", err)
        self.pull()
        asked = len(self.mirror.requests)
        self.assertTrue(self.pull_json(HF_HUB_OFFLINE="true")["offline"])
        self.assertEqual(len(self.mirror.requests), asked)
        # Nobody there, but all of it here.
        out, err = self.pull(HF_ENDPOINT="http://127.0.0.1:9")
        self.assertIn("complete", out)
        self.assertIn("taking what is in the cache", err)
        shard = next(p for p in (self.repo() / "snapshots").rglob("model-00002*"))
        os.unlink(shard)
        _, err = self.pull(HF_HUB_OFFLINE="1", code=3)
        self.assertIn("model-00002-of-00002.safetensors missing; weir pull", err)

    def test_a_proxy(self):
        files = model()
        self.mirror.add(REPO, files)
        self.pull(HF_ENDPOINT="http://hub.invalid", http_proxy=self.mirror.url, NO_PROXY="127.0.0.1")
        self.assert_complete(files)
        for storage, path, _ in self.mirror.requests:
            self.assertTrue(path.startswith("/" if storage else "http://hub.invalid/"), path)

    def secure(self, *which):
        self.mirror.close()
        self.mirror = Mirror(which)
        self.addCleanup(self.mirror.close)
        files = model()
        self.mirror.add(REPO, files)
        return files

    def test_certificates(self):
        files = self.secure(0, 1)
        _, err = self.pull(code=1)
        self.assertIn("certificate", err)
        self.assertEqual(self.mirror.requests, [])
        self.pull(SSL_CERT_FILE=CERTIFICATE)
        self.assert_complete(files)

    def test_https_does_not_become_http(self):
        self.secure(0)
        _, err = self.pull(SSL_CERT_FILE=CERTIFICATE, code=1)
        self.assertIn("not supported", err)
        self.assertEqual(self.mirror.served("", storage=True), [])
        self.assert_no_bad_blob()

    def test_ctrl_c_leaves_what_came(self):
        files = model()
        self.mirror.add(REPO, files)
        path = "model-00001-of-00002.safetensors"
        self.mirror.fault(path, {"hang": 200_000, "storage": True})
        p = subprocess.Popen([PROGRAM, "pull", REPO], env=environment(self.folder, **self.environment()),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(self.mirror.reached.wait(20))
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
        self.assertEqual((p.returncode, out), (1, ""))
        self.assertIn("the same command goes on where this one ended", err)
        self.assertFalse((self.repo() / "refs" / "main").exists())
        self.assertFalse((self.repo() / "snapshots").exists())
        left = (self.repo() / "blobs" / (sha256(files[path]) + ".incomplete")).stat().st_size
        self.pull()
        self.assert_complete(files)
        ranges = [r[2]["Range"] for r in self.mirror.served(path, storage=True) if "Range" in r[2]]
        self.assertEqual(ranges, [f"bytes={left}-"] if left else [])

    def test_json_failure_prints_nothing(self):
        self.assertEqual(self.pull("org/none", "--json", code=3)[0], "")
        self.assertEqual(json.loads(self.weir("ls", "--json", env=self.environment())[0])["models"], [])


if __name__ == "__main__":
    unittest.main()
