"""weir pull from a hub and over a network that do not behave."""
import threading
import time
import unittest

from hub import REPO, SHARD, Case, FaultsCase, git_hash, noise, sha256


class Faults(FaultsCase):
    def test_a_wrong_bit(self):
        """Once: loaded again.  Twice: an error that names file and hashes, and no blob."""
        self.fault(wrong=True)
        self.pull()
        self.assert_complete(self.files)

    def test_wrong_bits_again(self):
        for path, name in [("tokenizer.json", git_hash(self.files["tokenizer.json"])), (SHARD, sha256(self.files[SHARD]))]:
            bad = self.files[path][:-1] + bytes([self.files[path][-1] ^ 1])
            found = sha256(bad) if path == SHARD else git_hash(bad)
            self.fault(path, wrong=True)
            self.fault(path, wrong=True)
            _, err = self.pull(code=3)
            for word in [path, name, found]:
                self.assertIn(word, err)
            self.assert_no_bad_blob()
            self.assertFalse((self.repo() / "blobs" / (name + ".incomplete")).exists())
            self.assertFalse((self.repo() / "refs" / "main").exists())
        self.pull()
        self.assert_complete(self.files)

    def test_a_body_that_ends_early(self):
        self.fault(cut=100_000)
        self.fault(cut=50_000)
        self.pull()
        self.assert_complete(self.files)
        tag = '"of-%s"' % sha256(self.files[SHARD])[:8]
        self.assertEqual(self.ranges(), [(None, None), ("bytes=100000-", tag), ("bytes=150000-", tag)])

    def test_a_body_of_no_length(self):
        self.fault(chunked=True, cut=70_000)
        self.fault(chunked=True)
        self.pull()
        self.assert_complete(self.files)

    def test_all_instead_of_a_part(self):
        self.fault(cut=100_000)
        self.fault(no_range=True)
        self.pull()
        self.assert_complete(self.files)
        self.assertEqual([r[0] for r in self.ranges()], [None, "bytes=100000-"], "the second answer was used")

    def test_another_part_than_asked_for(self):
        self.fault(cut=100_000)
        self.fault(start=99_999)
        self.pull()
        self.assert_complete(self.files)
        self.assertEqual(self.ranges()[-1][0], None, "from the beginning again")

    def test_an_address_that_expires(self):
        self.fault(cut=100_000, expire=True)
        # The hub's next answer is an old address, which the storage refuses.
        old = f"{self.mirror.storage_url}/{sha256(self.files[SHARD])}/{SHARD}?signature=0"
        self.mirror.fault(SHARD, {}, {"location": old})
        self.pull()
        self.assert_complete(self.files)
        self.assertEqual([r[0] for r in self.ranges()], [None, "bytes=100000-", "bytes=100000-"])

    def test_more_than_announced(self):
        size = len(self.files[SHARD])
        self.fault(length=size + 1)
        self.mirror.fault(SHARD, {"storage": True, "chunked": True, "no_range": True})
        self.pull()
        self.assert_complete(self.files)

    def test_a_hub_that_is_busy(self):
        self.mirror.fault("revision", {"status": 503}, {"status": 429})
        self.fault(status=500)
        self.pull()
        self.assert_complete(self.files)

    def test_a_transfer_that_stalls(self):
        self.fault(hang=10_000)
        self.pull(HF_HUB_DOWNLOAD_TIMEOUT="1")
        self.assert_complete(self.files)

    def test_redirects(self):
        """To another host without the token, also when that one leads back; in a circle not for ever."""
        self.mirror.token = "hf_secret"
        back = f"{self.mirror.url}/{REPO}/came-back"
        self.mirror.fault("config.json", {"location": f"{self.mirror.storage_url}/?back={back}"})
        seen = self.mirror.requests
        # What is refused behind a redirect may be an address that expired: the next try is a fresh one.
        self.pull(HF_TOKEN="hf_secret")
        self.assertEqual([(r[0], r[2].get("Authorization")) for r in seen if "came-back" in r[1]],
                         [(True, None), (False, None)])
        self.assertEqual([r for r in seen if r[0] and "Authorization" in r[2]], [])
        self.mirror.add("org/loop", self.files, commit="1" * 40)
        self.mirror.fault("config.json", {"location": f"{self.mirror.url}/org/loop/resolve/{'1' * 40}/config.json",
                                          "always": True})
        before = len(seen)
        _, err = self.pull("org/loop", HF_TOKEN="hf_secret", code=3)
        self.assertIn("at most 10 redirects", err)
        self.assertLess(len(seen) - before, 40)
        for location in ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"]:
            self.mirror.faults["config.json"] = [{"location": location, "always": True}]
            _, err = self.pull("org/loop", HF_TOKEN="hf_secret", code=1)
            self.assertIn("not supported", err)

    def test_lists_that_lie(self):
        def with_path(path):
            return lambda entries: [*entries, {"type": "file", "oid": "a" * 40, "size": 1, "path": path}]

        huge = [{"type": "file", "oid": "a" * 40, "size": 1, "path": "x" * 1000}] * 40_000
        for path in ["../x", "/etc/x", "a\0b"]:
            self.mirror.fault("tree", {"change": with_path(path)})
            self.pull(code=3)
        for json in [b"{}", b"[" * 100_000]:
            self.mirror.fault("tree", {"json": json})
            self.pull(code=3)
        for link in ["http://127.0.0.1:1/x", self.mirror.storage_url + "/x", "file:///etc/passwd"]:
            self.mirror.fault("tree", {"next": link})
            self.pull(code=3)
        self.mirror.fault("tree", {"json": huge})
        self.assertIn("at most", self.pull(code=3)[1])
        self.mirror.fault("tree", {"next": f"{self.mirror.url}/api/models/{REPO}/tree/{'0' * 40}"})
        self.pull(code=3)
        for sha in [b"null", b'{"sha": "../../../x"}']:
            self.mirror.fault("revision", {"json": sha})
            self.pull(code=3)
        self.assertFalse(self.cache.exists(), "nothing was written for any of them")

    def test_a_list_without_end(self):
        self.mirror.fault("tree", *[{"json": [], "next": f"{self.mirror.url}/api/models/{REPO}/tree/{c}", "always": True}
                                    for c in self.mirror.repos[REPO]["commits"]])
        self.assertIn("at most 200 pages", self.pull(code=3)[1])

    def test_no_room(self):
        self.mirror.fault("tree", {"change": lambda entries: [
            {**e, "size": 1 << 49} if e["path"] == "config.json" else e for e in entries]})
        _, err = self.pull(code=1)
        self.assertIn("no room", err)
        self.assertEqual(self.mirror.served("/resolve/"), [])

    def test_a_shard_that_is_not_there(self):
        del self.files["model-00002-of-00002.safetensors"]
        _, err = self.pull(code=3)
        self.assertIn("model-00002-of-00002.safetensors is named by model.safetensors.index.json", err)


class Together(Case):
    def test_four_at_once(self):
        files = {"config.json": b"{}", **{f"model-0000{i}-of-00006.safetensors": noise(1000, i) for i in range(1, 7)}}
        self.mirror.add(REPO, files)
        at_once, most = 0, 0
        lock, full = threading.Lock(), threading.Event()
        plain = self.mirror.take_fault

        def counting(key, storage):
            nonlocal at_once, most
            if storage:
                with lock:
                    at_once += 1
                    most = max(most, at_once)
                    if at_once == 4:
                        full.set()
                full.wait(5)
                time.sleep(0.1)
                with lock:
                    at_once -= 1
            return plain(key, storage)

        self.mirror.take_fault = counting
        self.pull()
        self.assert_complete(files, files)
        self.assertEqual(most, 4)


if __name__ == "__main__":
    unittest.main()
