"""The chat as a person sees it: a pseudo-terminal, keys, Ctrl-C, history."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time
import unittest

from support import PROGRAM, Case, environment, escape_model

REPLY = rb"(\n|\x1b\[K)[^\r\n]{2,}\r\n"  # at a line's start, or where progress was
PROMPT = b"> "
CTRL_C, CTRL_D, UP = b"\x03", b"\x04", b"\x1b[A"


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, args, env):
        self.master, slave = pty.openpty()

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([PROGRAM, *map(str, args)], stdin=slave, stdout=slave, stderr=slave, env=env,
                                        preexec_fn=own_terminal, close_fds=True)
        self.slave = slave  # kept open, so that the settings outlive the program
        self.seen = b""

    def until(self, pattern, seconds=60):
        """Reads until `pattern` appears behind what was matched before; returns the text up to it."""
        end = time.monotonic() + seconds
        while (m := re.search(pattern, self.seen)) is None:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"waited for {pattern!r}, have {self.seen[-800:]!r}")
            try:
                more = os.read(self.master, 65536)
            except OSError:
                more = b""
            if not more:
                raise AssertionError(f"ended before {pattern!r}: {self.seen[-800:]!r}")
            self.seen += more
        text, self.seen = self.seen[:m.end()], self.seen[m.end():]
        return text

    def keys(self, data):
        os.write(self.master, data)

    def line(self, text):
        self.keys(text.encode() + b"\r")

    def leave(self, seconds=30):
        """What is left to read, and the exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if not select.select([self.master], [], [], 0.2)[0]:
                    if self.process.poll() is not None:
                        break
                    continue
                more = os.read(self.master, 65536)
            except OSError:
                break
            if not more:
                break
            self.seen += more
        code = self.process.wait(timeout=seconds)
        self.settings = termios.tcgetattr(self.slave)
        os.close(self.slave)
        os.close(self.master)
        return self.seen, code


def has_terminals():
    """A bare root may lack /dev/pts."""
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError:
        return False
    return True


@unittest.skipUnless(has_terminals(), "this system gives out no pseudo-terminals")
class Interactive(Case):
    def start(self, *args, **env):
        t = Terminal(["run", "--temp", "0", *args], environment(self.folder, **env))
        self.addCleanup(t.process.kill)
        return t

    def test_a_session(self):
        saved = self.folder / "talk.json"
        t = self.start("--no-think")
        t.until(rb"/help lists")
        t.until(PROMPT)
        t.line("My name is Ada.")
        t.until(REPLY)
        t.until(PROMPT)

        # A reply is stopped, and stays as far as it came.
        t.line("Tell me a story about a fox.")
        t.until(rb"fox\.\r*\n")
        t.until(rb"[A-Za-z]{2,} [A-Za-z]{2,}")  # which a line of progress has not
        t.keys(CTRL_C)
        t.until(rb"\[stopped\]")
        t.until(PROMPT)

        # Ctrl-C at the prompt drops the line, not the session.
        t.keys(b"/exit never sent")
        t.until(rb"never sent")
        t.keys(CTRL_C)
        t.until(PROMPT)
        t.line(f"/save {saved}")
        t.until(rb"saved")
        t.until(PROMPT)
        talk = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in talk], ["user", "assistant"] * 2)
        self.assertGreater(len(talk[3]["content"]), 3)

        t.line("/reset")
        t.until(rb"forgotten")
        t.until(PROMPT)
        t.line(f"/load {saved}")
        t.until(rb"loaded")
        t.until(PROMPT)
        t.line("What is my name?")
        t.until(REPLY)
        t.until(PROMPT)
        t.line("/stats")
        self.assertIn(b"messages   6", t.until(rb"resident"))
        t.until(PROMPT)
        t.keys(CTRL_D)
        rest, code = t.leave()
        self.assertEqual(code, 0, rest)

    def test_history(self):
        t = self.start("--no-think", "--max-tokens", "4", XDG_STATE_HOME=self.folder / "state")
        t.until(PROMPT)
        t.line("/system Remember.")
        t.until(rb"system message set")
        t.until(PROMPT)
        t.keys(CTRL_D)
        self.assertEqual(t.leave()[1], 0)
        path = self.folder / "state" / "weir" / "history"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

        t = self.start("--no-think", XDG_STATE_HOME=self.folder / "state")
        t.until(PROMPT)
        t.keys(UP)
        t.until(rb"Remember")
        t.keys(b"\r")
        t.until(rb"system message set")
        t.until(PROMPT)
        t.line("/exit")
        self.assertEqual(t.leave()[1], 0)

    def test_paste_and_backslash_make_one_message(self):
        saved = self.folder / "talk.json"
        t = self.start("--no-think", "--max-tokens", "3")
        t.until(PROMPT)
        t.keys("first line\nsecond line\nthird \u00e9\r".encode())
        t.until(rb"\n[^\r\n]+\r\n")
        t.until(rb"(?<=\n)> |(?<=\r)> |> $")
        t.line("four\\")
        t.until(rb"\.\.\. ")
        t.line("five")
        t.until(rb"cut off")
        t.until(PROMPT)
        t.line(f"/save {saved}")
        t.until(rb"saved")
        t.until(PROMPT)  # before it the key would be the terminal's, not the editor's
        t.keys(CTRL_D)
        t.leave()
        talk = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["content"] for m in talk if m["role"] == "user"],
                         ["first line\nsecond line\nthird \u00e9", "four\nfive"])

    def think(self, **env):
        t = self.start("--think", "--max-tokens", "200", **env)
        t.until(PROMPT)
        t.line("What is 12 + 30?")
        text = t.until(rb"\[/thinking\][^>]*42")
        t.until(PROMPT)
        t.keys(CTRL_D)
        self.assertEqual(t.leave()[1], 0)
        return text

    def test_thinking_is_dimmed(self):
        text = self.think()
        self.assertLess(text.index(b"\x1b[2m[thinking]"), text.index(b"[/thinking]\x1b[0m"))

    def test_no_color(self):
        text = self.think(NO_COLOR="1")
        self.assertIn(b"[thinking]", text)
        self.assertNotIn(b"\x1b[2m", text)

    def test_interrupted_prompt_keeps_the_session(self):
        t = self.start("--no-think", "--max-tokens", "4")
        t.until(PROMPT)
        for _ in range(5):  # more than the three that end a busy program
            t.keys(b"abc")
            t.until(rb"abc")
            t.keys(CTRL_C)
            t.until(PROMPT)
        t.line("/exit")
        self.assertEqual(t.leave()[1], 0)

    def end_at_the_prompt(self, number):
        state = self.folder / number.name
        t = self.start("--no-think", XDG_STATE_HOME=state)
        t.until(PROMPT)
        t.line("/system Remember.")
        t.until(rb"system message set")
        t.until(PROMPT)
        t.keys(b"abc")
        t.until(rb"abc")
        self.assertFalse(termios.tcgetattr(t.slave)[3] & termios.ICANON, "the editor reads key by key")
        t.process.send_signal(number)
        rest, code = t.leave()
        self.assertEqual(code, 1, rest)
        self.assertTrue(rest.endswith(b"\n"), rest)
        for flag in [termios.ICANON, termios.ECHO]:
            self.assertTrue(t.settings[3] & flag)
        self.assertIn("Remember", (state / "weir" / "history").read_text().replace("\\040", " "))

    def test_signals_end_it_cleanly(self):
        for number in [signal.SIGTERM, signal.SIGHUP]:
            with self.subTest(number):
                self.end_at_the_prompt(number)

    def test_a_signal_ends_a_reply(self):
        t = self.start("--no-think")
        t.until(PROMPT)
        t.line("Tell me a story about a fox.")
        t.until(rb"fox\.\r*\n")
        t.until(rb"[A-Za-z]{2,} [A-Za-z]{2,}")
        t.process.send_signal(signal.SIGTERM)
        rest, code = t.leave()
        self.assertEqual(code, 1, rest)
        self.assertIn(b"[stopped]", rest)
        self.assertTrue(t.settings[3] & termios.ICANON and t.settings[3] & termios.ECHO)

    def test_ctrl_c_while_a_message_is_read(self):
        saved = self.write("long.json", json.dumps({"messages": [{"role": "user", "content": "word " * 20000},
                                                                 {"role": "assistant", "content": "Yes."}]}))
        t = self.start("--no-think", "--isa", "scalar", "--chunk", "8")
        t.until(PROMPT)
        t.line(f"/load {saved}")
        t.until(rb"loaded")
        t.until(PROMPT)
        t.line("Go on.")
        t.until(rb"reading \[.*% ")
        t.keys(CTRL_C)
        t.until(rb"\[stopped; the message is dropped\]", seconds=20)
        t.until(PROMPT)
        t.line("/stats")
        self.assertIn(b"messages   2", t.until(rb"last turn  none"))
        t.until(PROMPT)
        t.line("/exit")
        self.assertEqual(t.leave()[1], 0)

    def test_ctrl_c_while_the_one_prompt_is_read(self):
        t = self.start("--raw", "-p", "word " * 20000, "--isa", "scalar", "--chunk", "8")
        t.until(rb"reading \[.*% ")
        t.keys(CTRL_C)
        rest, code = t.leave(seconds=20)
        self.assertEqual(code, 1, rest)
        self.assertTrue(rest.endswith(b"weir: interrupted\r\n"), rest)

    def test_ctrl_d_ends_the_line(self):
        t = self.start("--no-think")
        t.until(PROMPT)
        t.keys(CTRL_D)
        rest, code = t.leave()
        self.assertEqual((code, rest.endswith(b"\n")), (0, True), rest)

    def test_ctrl_c_while_keys_arrive_is_not_lost(self):
        t = self.start("--no-think")
        t.until(PROMPT)
        for _ in range(100):  # the terminal drops waiting keys then, also one that is about to be read
            t.keys(b"d" * 40)
            t.until(rb"dddd")
            t.keys(CTRL_C)
            t.until(PROMPT, seconds=10)
        t.line("/exit")
        self.assertEqual(t.leave()[1], 0)

    def test_a_resize_is_noticed_while_typing(self):
        t = self.start("--no-think")
        fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
        t.until(PROMPT)
        t.keys(b"abc")
        t.until(rb"abc")
        fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
        time.sleep(0.3)
        t.keys(b"d" * 40)
        self.assertNotIn(b"d" * 21, t.until(rb"(d+\D+){2}d+"))
        t.keys(CTRL_C)
        t.until(PROMPT)
        t.line("/exit")
        self.assertEqual(t.leave()[1], 0)

    def test_a_model_cannot_steer_the_terminal(self):
        t = Terminal(["run", escape_model(self.folder), "--raw", "-p", "Once upon a time there was a little fox", "--temp",
                      "0", "--max-tokens", "2", "--quiet"], environment(self.folder))
        self.addCleanup(t.process.kill)
        shown, code = t.leave()
        self.assertEqual(code, 0, shown)
        self.assertTrue(shown.startswith(b"\\x1b"), shown)
        self.assertNotIn(b"\x1b", shown)


if __name__ == "__main__":
    unittest.main()
