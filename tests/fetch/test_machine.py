"""weir pull beside other programs, and on a machine that ends it or its disk."""
import fcntl
import os
import random
import subprocess
import time
import unittest

from hub import REPO, SHARD, FaultsCase, noise, sha256
from support import PROGRAM, environment


class Machine(FaultsCase):
    def test_two_at_once(self):
        """The second waits for blobs that the first is loading, and loads none of them again."""
        self.fault(rate=1_000_000)
        runs = [subprocess.Popen([PROGRAM, "pull", REPO], env=environment(self.folder, **self.environment()),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
        for run in runs:
            self.assertEqual((run.wait(30), run.stderr.read()), (0, b""))
            run.stderr.close()
        self.assert_complete(self.files)
        self.assertEqual(len(self.ranges()), 1)

    def test_a_lock_that_is_taken_away(self):
        """rm takes lock files away: who waited for one waits for its successor."""
        locks = self.cache / ".locks" / self.repo().name
        locks.mkdir(parents=True)
        path = locks / (sha256(self.files[SHARD]) + ".lock")
        with open(path, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            run = subprocess.Popen([PROGRAM, "pull", REPO], env=environment(self.folder, **self.environment()),
                                   stdout=subprocess.DEVNULL)
            time.sleep(0.3)
            os.unlink(path)
            with open(path, "w") as successor:
                fcntl.flock(successor, fcntl.LOCK_EX)
                fcntl.flock(held, fcntl.LOCK_UN)
                time.sleep(0.3)
                self.assertEqual(self.ranges(), [])
                self.assertIsNone(run.poll())
        self.assertEqual(run.wait(30), 0)
        self.assert_complete(self.files)

    def test_partial_files_of_others(self):
        """Too long, of other bytes, or a link: nothing of that becomes a blob, and nothing outside is written."""
        outside = self.write("outside", b"mine")
        blobs = self.repo() / "blobs"
        blobs.mkdir(parents=True)
        for start in [noise(400_000, 9), noise(1000, 9), self.files[SHARD][:1000], self.files[SHARD]]:
            (blobs / (sha256(self.files[SHARD]) + ".incomplete")).write_bytes(start)
            self.pull()
            self.assert_complete(self.files)
            os.unlink(blobs / sha256(self.files[SHARD]))
        (blobs / (sha256(self.files[SHARD]) + ".incomplete")).symlink_to(outside)
        self.pull(code=1)
        self.assertEqual(outside.read_bytes(), b"mine")

    def test_a_disk_that_refuses(self):
        self.pull()
        blob = self.repo() / "blobs" / sha256(self.files[SHARD])
        os.unlink(blob)
        limited = f'ulimit -f 100; exec "{PROGRAM}" pull {REPO}'
        done = subprocess.run(["sh", "-c", limited], env=environment(self.folder, **self.environment()),
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.pull()
        self.assert_complete(self.files)

    def test_kill_anywhere(self):
        """kill -9 behind any byte: no bad blob, nothing that looks complete, and the next one goes on."""
        draw = random.Random(5)
        for _ in range(20):
            partial = self.repo() / "blobs" / (sha256(self.files[SHARD]) + ".incomplete")
            at = draw.randrange(len(self.files[SHARD]) - (partial.stat().st_size if partial.exists() else 0))
            self.mirror.reached.clear()
            self.mirror.release.clear()
            self.fault(hang=at)
            run = subprocess.Popen([PROGRAM, "pull", REPO], env=environment(self.folder, **self.environment()),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertTrue(self.mirror.reached.wait(20))
            time.sleep(draw.random() * 0.02)
            run.kill()
            run.wait()
            self.mirror.release.set()
            self.assert_no_bad_blob()
            self.assertFalse((self.repo() / "refs" / "main").exists())
            self.weir("inspect", REPO, env=self.environment(), code=3)
            if draw.random() < 0.5:
                self.pull()
                self.assert_complete(self.files)
                subprocess.run(["rm", "-rf", self.cache], check=True)
        self.pull()
        self.assert_complete(self.files)


if __name__ == "__main__":
    unittest.main()
