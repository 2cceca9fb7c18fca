"""What the tests of downloads share: a mirror, a cache, and what must hold of it."""
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
import support  # noqa: E402
from mirror import Mirror, blob_name, git_hash, sha256  # noqa: E402

REPO = "org/small-model"
SHARD = "model-00001-of-00002.safetensors"


def noise(n, seed):
    return random.Random(seed).randbytes(n)


def model(**more):
    """Files of a repository: what a model needs, and what it does not."""
    shards = {f"model-0000{i}-of-00002.safetensors": noise(300_000 + i, i) for i in (1, 2)}
    index = '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    return {"config.json": b'{"model_type": "qwen3_5", "dtype": "bfloat16"}', "tokenizer.json": noise(50_000, 7),
            "model.safetensors.index.json": index.encode(), **shards, "README.md": b"hello\n",
            "pytorch_model.bin": noise(1000, 8), "original/params.json": b"{}", **more}


WANTED = {"config.json", "tokenizer.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors"}


class Case(support.Case):
    def setUp(self):
        super().setUp()
        self.mirror = Mirror()
        self.addCleanup(self.mirror.close)
        self.cache = self.folder / "hub"

    def environment(self, **extra):
        return {"HF_HUB_CACHE": self.cache, "HF_ENDPOINT": self.mirror.url, **extra}

    def pull(self, name=REPO, *args, code=0, **env):
        return self.weir("pull", name, *args, code=code, env=self.environment(**env))

    def pull_json(self, name=REPO, **env):
        return self.json("pull", name, env=self.environment(**env))

    def repo(self, name=REPO):
        return self.cache / ("models--" + name.replace("/", "--"))

    def assert_no_bad_blob(self, name=REPO):
        """What has a hash for a name has this hash."""
        blobs = self.repo(name) / "blobs"
        for path in blobs.iterdir() if blobs.exists() else []:
            if not path.name.endswith(".incomplete"):
                data = path.read_bytes()
                self.assertIn(path.name, (sha256(data), git_hash(data)))

    def assert_complete(self, files, wanted=WANTED, name=REPO, revision="main", commit=None):
        """The layout of huggingface_hub, file by file."""
        repo = self.repo(name)
        commit = commit or (repo / "refs" / revision).read_text()
        self.assertRegex(commit, r"^[0-9a-f]{40}$")
        snapshot = repo / "snapshots" / commit
        found = {p.relative_to(snapshot).as_posix() for p in snapshot.rglob("*") if not p.is_dir()}
        self.assertEqual(found, set(wanted))
        for path in wanted:
            link = snapshot / path
            up = "../" * (2 + path.count("/"))
            self.assertEqual(os.readlink(link), up + "blobs/" + blob_name(path, files[path]))
            self.assertEqual(link.read_bytes(), files[path])
        self.assertEqual([p for p in (repo / "blobs").iterdir() if p.name.endswith(".incomplete")], [])
        self.assert_no_bad_blob(name)


class FaultsCase(Case):
    """With a model at the hub."""

    def setUp(self):
        super().setUp()
        self.files = model()
        self.mirror.add(REPO, self.files)

    def fault(self, path=SHARD, **what):
        self.mirror.fault(path, {"storage": path.endswith(".safetensors"), **what})

    def ranges(self, path=SHARD):
        return [(r[2].get("Range"), r[2].get("If-Range")) for r in self.mirror.served(path, storage=True)]
