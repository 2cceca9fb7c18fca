"""The example program: it builds, it is short, and it says what `weir run` says."""
import os
import subprocess
import unittest

from support import DEMO, SOURCE, Case, environment


class Example(Case):
    def test_it_says_what_the_program_says(self):
        done = subprocess.run([os.environ["WEIR_EXAMPLE"], str(DEMO), "What is the capital of France?"], capture_output=True,
                              text=True, env=environment(self.folder), timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        want = self.weir("run", DEMO, "-p", "What is the capital of France?", "--temp", "0", "--no-think")[0]
        self.assertEqual(done.stdout.strip(), want.strip())
        self.assertIn("Paris", done.stdout)

    def test_failure(self):
        done = subprocess.run([os.environ["WEIR_EXAMPLE"], str(self.folder), "x"], capture_output=True, text=True,
                              env=environment(self.folder), timeout=120, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(self.folder), done.stderr)

    def test_it_is_short(self):
        self.assertLessEqual(len((SOURCE / "examples" / "chat.c").read_text().splitlines()), 30)


if __name__ == "__main__":
    unittest.main()
