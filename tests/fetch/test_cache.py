"""weir ls and weir rm."""
import fcntl
import os
import pty
import subprocess
import unittest

from hub import REPO, WANTED, Case, model, noise, sha256
from support import PROGRAM, environment


class Cache(Case):
    def ls(self):
        return self.json("ls", env=self.environment())["models"]

    def rm(self, name, *args, code=0, **kwargs):
        return self.weir("rm", name, *args, code=code, env=self.environment(), **kwargs)

    def test_ls(self):
        self.assertEqual(self.json("ls", env=self.environment()), {"cache": str(self.cache), "models": []})
        self.assertIn("holds no models", self.weir("ls", env=self.environment())[0])
        files = model()
        quantised = b'{"quantization": {"bits": 4, "group_size": 64}}'
        first = self.mirror.add(REPO, files)
        self.mirror.add("a/mlx", {"config.json": quantised, "model.safetensors": noise(9, 1)}, revision="v1")
        self.mirror.add("a/gguf", {f"x-{q}.gguf": noise(10, q) for q in ("Q4_K_M", "Q8_0")})
        for name in [REPO, REPO + "@" + first, "a/mlx@v1", "a/gguf:Q8_0"]:
            self.pull(name)
        gguf, mlx, whole = self.ls()
        self.assertEqual((gguf["repo"], gguf["format"], gguf["complete"]), ("a/gguf", "gguf Q8_0", True))
        self.assertEqual((mlx["repo"], mlx["format"], mlx["refs"]), ("a/mlx", "affine 4 bits", "v1"))
        self.assertEqual(whole, {"repo": REPO, "commit": first, "refs": "main", "format": "bfloat16", "complete": True,
                                 "missing": "", "files": len(WANTED), "bytes": sum(len(files[p]) for p in WANTED),
                                 "path": str(self.repo() / "snapshots" / first)})
        text = self.weir("ls", env=self.environment())[0].splitlines()
        self.assertEqual(len(text), 4)
        self.assertRegex(text[3], rf"^{REPO} +{first[:12]} \(main\) +650\.\d kB  bfloat16 +complete$")

    def test_ls_says_what_is_missing(self):
        files = model()
        self.mirror.add(REPO, files)
        self.pull()
        os.unlink(self.repo() / "blobs" / sha256(files["model-00002-of-00002.safetensors"]))
        self.assertEqual(self.ls()[0]["missing"], "model-00002-of-00002.safetensors")
        os.unlink(next((self.repo() / "snapshots").rglob("model-00002*")))
        self.assertEqual(self.ls()[0]["missing"], "model-00002-of-00002.safetensors")
        os.unlink(next((self.repo() / "snapshots").rglob("config.json")))
        self.assertEqual(self.ls()[0]["missing"], "config.json, model-00002-of-00002.safetensors")
        self.assertFalse(self.ls()[0]["complete"])
        # Other things in the folder are not its business.
        (self.cache / "models--x--y").mkdir()
        (self.cache / "models--..--y").mkdir()
        (self.cache / "datasets--x--y").mkdir()
        (self.cache / "version.txt").write_text("1")
        self.assertEqual(len(self.ls()), 1)
        (self.cache / "models--x--y" / "blobs").mkdir()
        (self.cache / "models--x--y" / "blobs" / ("0" * 64 + ".incomplete")).write_bytes(b"12345")
        begun = self.ls()[1]
        self.assertEqual((begun["repo"], begun["commit"], begun["bytes"], begun["complete"]), ("x/y", "", 5, False))

    def test_rm_all(self):
        self.mirror.add(REPO, model())
        self.mirror.add("org/other", model())
        self.pull()
        self.pull("org/other")
        outside = self.write("outside", b"mine")
        (self.folder / "folder").mkdir()
        inside = self.write("folder/file", b"mine too")
        snapshot = next((self.repo() / "snapshots").iterdir())
        (snapshot / "link").symlink_to(outside)
        (snapshot / "folder-link").symlink_to(self.folder / "folder")
        (self.repo() / "blobs" / "folder-link").symlink_to(self.folder / "folder")
        self.assertIn("1 revision removed", self.rm(REPO, "--yes")[0])
        self.assertFalse(self.repo().exists())
        self.assertFalse((self.cache / ".locks" / self.repo().name).exists())
        self.assertEqual((outside.read_bytes(), inside.read_bytes()), (b"mine", b"mine too"))
        self.assertEqual([m["repo"] for m in self.ls()], ["org/other"])
        self.assertIn("not in the model cache", self.rm(REPO, "--yes", code=3)[1])

    def test_rm_of_a_repository_that_is_a_link(self):
        self.mirror.add(REPO, model())
        self.pull()
        elsewhere = self.folder / "elsewhere"
        os.rename(self.repo(), elsewhere)
        self.repo().symlink_to(elsewhere)
        self.assertIn("expected a folder", self.rm(REPO, "--yes", code=1)[1])
        self.assertTrue((elsewhere / "refs" / "main").exists())

    def test_rm_one_revision(self):
        old = model()
        new = model(**{"config.json": b'{"new": 1}', "model-00002-of-00002.safetensors": noise(400_000, 11)})
        first, second = self.mirror.add(REPO, old, revision="v1"), self.mirror.add(REPO, new)
        self.pull(REPO + "@v1")
        self.pull()
        own = len(old["config.json"]) + len(old["model-00002-of-00002.safetensors"])
        removed = self.json("rm", REPO + "@v1", "--yes", env=self.environment())
        self.assertEqual(removed, {"repo": REPO, "revisions": 1, "bytes": own})
        self.assert_complete(new)
        self.assertEqual([p.name for p in (self.repo() / "snapshots").iterdir()], [second])
        self.assertEqual([p.name for p in (self.repo() / "refs").iterdir()], ["main"])
        self.assertEqual(len(list((self.repo() / "blobs").iterdir())), len(WANTED))
        self.rm(f"{REPO}@{first}", "--yes", code=3)
        self.rm(f"{REPO}@{second}", "--yes")
        self.assertFalse(self.repo().exists())

    def test_rm_asks(self):
        self.mirror.add(REPO, model())
        self.pull()
        self.assertIn("--yes", self.rm(REPO, code=2, stdin="y\n")[1])
        self.assertIn("expected ORG/NAME", self.rm(REPO + ":x", "--yes", code=2)[1])
        self.assertTrue(self.repo().exists())
        for answer, code in [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)]:
            terminal, other = pty.openpty()
            os.write(terminal, answer)
            done = subprocess.run([PROGRAM, "rm", REPO], stdin=other, capture_output=True, check=False,
                                  env=environment(self.folder, **self.environment()))
            os.close(terminal)
            os.close(other)
            self.assertEqual(done.returncode, code)
            self.assertIn(b"kB? [y/N]", done.stderr)
            self.assertEqual(self.repo().exists(), code == 1)

    def test_rm_while_it_is_downloaded(self):
        files = model()
        self.mirror.add(REPO, files)
        self.pull()
        lock = self.cache / ".locks" / self.repo().name / (sha256(files["model-00001-of-00002.safetensors"]) + ".lock")
        with open(lock) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.assertIn("is being downloaded", self.rm(REPO, "--yes", code=1)[1])
        self.assert_complete(files)

    def test_progress_on_a_terminal(self):
        self.mirror.add(REPO, model())
        self.mirror.fault("model-00001-of-00002.safetensors", {"storage": True, "rate": 150_000})
        terminal, other = pty.openpty()
        run = subprocess.Popen([PROGRAM, "pull", REPO], stdout=subprocess.PIPE, stderr=other,
                               env=environment(self.folder, **self.environment()))
        out = run.communicate(timeout=60)[0]
        os.close(other)
        shown = os.read(terminal, 1 << 16)
        os.close(terminal)
        self.assertIn(b"5 files", out)
        self.assertRegex(shown, rb"org/small-model \[#* *\] +\d+%  \d\.\d\d of 0\.65 MB  \d+\.\d MB/s  \d+ s left")
        self.assertTrue(shown.endswith(b"\r\x1b[K"))


if __name__ == "__main__":
    unittest.main()
