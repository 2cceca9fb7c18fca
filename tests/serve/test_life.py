"""From arrival to the end: queue, hang-ups, shutdown."""
import signal
import subprocess
import threading
import time
import unittest

from support import CHAT, DEMO, PROGRAM, Case, Server, environment, joined, message

ENDLESS = {"max_tokens": 4000, "ignore_eos": True, "seed": 1, "stream": True}


class Queue(Case):
    args = ("--ctx", "4096", "--parallel", "1", "--max-queue", "1")

    def hang_up(self, body):
        """Begins a request, sees it run, and leaves."""
        s = self.server.begin(CHAT, body)
        self.server.wait_for("vllm:num_requests_running", 1)
        s.close()
        self.server.wait_for("vllm:num_requests_running", 0)

    def test_a_hang_up_frees_the_slot(self):
        before = self.server.metrics()['vllm:request_success_total{finished_reason="abort"}']
        self.hang_up(message("Tell me a story.", **ENDLESS))
        self.hang_up(message("Tell me a story.", **dict(ENDLESS, stream=False)))
        self.hang_up(message("word " * 2000, **ENDLESS))  # while it is read
        after = self.server.metrics()['vllm:request_success_total{finished_reason="abort"}']
        self.assertEqual(after - before, 3)
        self.assertEqual(self.server.chat("x", max_tokens=2).status, 200)

    def test_waiting_full_and_gone_while_waiting(self):
        runs = self.server.begin(CHAT, message("Tell me a story.", **ENDLESS))
        self.server.wait_for("vllm:num_requests_running", 1)
        waits = self.server.begin(CHAT, message("Wait.", **ENDLESS))
        self.server.wait_for("vllm:num_requests_waiting", 1)
        full = self.server.chat("No room.", stream=True)
        self.assertEqual((full.status, full.error["code"]), (429, "rate_limit_exceeded"))
        self.assertGreaterEqual(int(full.headers["Retry-After"]), 1)
        waits.close()
        self.server.wait_for("vllm:num_requests_waiting", 0)
        self.assertEqual(self.server.metrics()["vllm:num_requests_running"], 1)
        runs.close()
        self.server.wait_for("vllm:num_requests_running", 0)

    def test_one_that_waits_is_served(self):
        runs = self.server.begin(CHAT, message("Tell me a story.", **ENDLESS))
        self.server.wait_for("vllm:num_requests_running", 1)
        got = []
        waiter = threading.Thread(target=lambda: got.append(self.server.chat("Hello.", seed=5, max_tokens=8)))
        waiter.start()
        self.server.wait_for("vllm:num_requests_waiting", 1)
        runs.close()
        waiter.join()
        alone = self.server.chat("Hello.", seed=5, max_tokens=8).json
        self.assertEqual(got[0].json["choices"], alone["choices"])


class Shutdown(Case):
    args = ("--ctx", "256")

    def test_replies_may_finish(self):
        server = Server("--threads", "1", "--ctx", "1024", folder=self.folder)
        got = []
        asker = threading.Thread(target=lambda: got.append(
            server.chat("Tell me a story.", max_tokens=80, ignore_eos=True, stream=True, seed=1)))
        asker.start()
        server.wait_for("vllm:num_requests_running", 1)
        server.process.send_signal(signal.SIGTERM)
        asker.join()
        server.stop()
        self.assertEqual(got[0].events[-1], "[DONE]")

    def test_then_they_are_told(self):
        server = Server("--threads", "1", "--ctx", "4096", "--shutdown-timeout", "0.1", folder=self.folder)
        got = []
        asker = threading.Thread(target=lambda: got.append(server.chat("Tell me a story.", **ENDLESS)))
        asker.start()
        server.wait_for("vllm:num_requests_running", 1)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGINT)
        asker.join()
        server.stop()
        last = got[0].events[-1]
        self.assertEqual(last["error"]["type"], "unavailable_error")
        self.assertTrue(joined(got[0].events[:-1]))

    def test_what_cannot_start_says_why(self):
        empty = self.folder / "keys"
        empty.write_text("# nobody\n")
        for args, code, text in [(["--port", str(self.server.port)], 3, "cannot listen"),
                                 (["--host", "0.0.0.0", "--port", "0"], 2, "--api-key"),
                                 (["--seed", "1"], 2, "--seed"), (["--api-key", ""], 2, "--api-key"),
                                 (["--api-key-file", str(empty)], 3, "expected a key")]:
            done = subprocess.run([PROGRAM, "serve", DEMO, "--ctx", "64", *args], capture_output=True, text=True,
                                  env=environment(self.folder), timeout=60, check=False)
            self.assertEqual((done.returncode, text in done.stderr), (code, True), (args, done.stderr))


if __name__ == "__main__":
    unittest.main()
