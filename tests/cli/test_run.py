"""`weir run`: one reply, and the chat through a pipe."""
import json
import os
import re
import signal
import stat
import subprocess
import unittest

from support import DATA, DEMO, PROGRAM, Case, environment, escape_model, numbers, safetensors, thorough

GREEDY = ["--temp", "0"]


class Forms(Case):
    """--json-schema, --regex and --grammar."""
    ASK = ["run", "-p", "Who are you?", "--temp", "1.5", "--max-tokens", "200"]

    def file(self, text):
        path = os.path.join(self.folder, "form")
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_replies_keep_to_the_form(self):
        schema = self.file('{"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 12}}, '
                           '"required": ["n"]}')
        for seed in "123":
            r = self.json(*self.ASK, "--json-schema", schema, "--seed", seed)
            self.assertEqual(r["finish"], "stop")
            value = json.loads(r["text"])
            self.assertEqual(list(value), ["n"])
            self.assertIn(value["n"], range(3, 13))
        r = self.json(*self.ASK, "--regex", "[a-f]{3}-[0-9]{2}")
        self.assertRegex(r["text"], "^[a-f]{3}-[0-9]{2}$")
        r = self.json(*self.ASK, "--grammar", self.file('root ::= "I am " ("a" | "b") "."\n'))
        self.assertIn(r["text"], ["I am a.", "I am b."])

    def test_what_is_wrong_is_told(self):
        bad = self.file('{"properties": {"a": {"not": {}}}}')
        for flags, code, text in [(["--regex", "(a"], 2, "offset 2"), (["--json-schema", bad], 3, "#/properties/a/not"),
                                  (["--grammar", bad], 2, "line 1"), (["--regex", "a", "--grammar", bad], 2, "expected one of"),
                                  (["--json-schema", "/nowhere"], 3, "/nowhere")]:
            out, err = self.weir(*self.ASK, *flags, code=code)
            self.assertIn(text, err)
            self.assertEqual(out, "")


class OneReply(Case):
    def test_keys(self):
        r = self.json("run", "-p", "Hello.", *GREEDY, "--max-tokens", "20")
        self.assertLessEqual({"text", "reasoning", "tokens", "prompt_tokens", "finish", "seconds", "prefill_tps",
                              "decode_tps", "ids", "cached_tokens", "drafted", "accepted"}, set(r))
        self.assertNotIn("logprobs", r)
        self.assertIn(r["finish"], ["stop", "length"])
        self.assertEqual(len(r["ids"]), r["tokens"])
        self.assertGreater(r["decode_tps"], 0)

    def test_greedy_tokens_against_float64(self):
        expected = safetensors(DATA / "expected-4bit.safetensors")
        tokens = list(numbers(expected["fox.greedy_tokens"]))
        margins = numbers(expected["fox.greedy_margin"])
        sure = next((i for i, m in enumerate(margins) if m < 1e-2), len(margins))
        self.assertGreater(sure, 8)
        r = self.json("run", DEMO, "--raw", "-p", "Once upon a time there was a little fox", *GREEDY, "--max-tokens", "32")
        self.assertEqual(r["prompt_tokens"], len(numbers(expected["fox.input_ids"])))
        self.assertEqual(r["ids"][:sure], tokens[:sure])
        self.assertEqual((r["finish"], r["tokens"], r["reasoning"]), ("length", 32, ""))
        self.assertTrue(r["text"].startswith(" named"), r["text"])

    def test_the_same_text_twice_and_as_json(self):
        args = ["run", "-p", "Tell me a story.", *GREEDY, "--no-think", "--max-tokens", "60"]
        first = self.weir(*args)[0]
        self.assertEqual(first, self.weir(*args, "--threads", "1")[0])
        self.assertEqual(first, self.json(*args)["text"] + "\n")
        self.assertGreater(len(first), 20)

    @thorough
    def test_drafts_change_no_text(self):
        story = ["run", "-p", "Tell me a story.", "--no-think", "--max-tokens", "60"]
        for sampling in [GREEDY, ["--temp", "0.8", "--seed", "5"]]:
            plain = self.json(*story, *sampling, "--draft", "off")
            self.assertEqual((plain["drafted"], plain["accepted"]), (0, 0))
            for flags in [["mtp"], ["mtp", "--mtp-hidden", "pre"], ["ngram"], [DEMO], ["mtp", "--draft-tokens", "1"]]:
                r = self.json(*story, *sampling, "--draft", *flags)
                self.assertEqual((r["ids"], r["text"]), (plain["ids"], plain["text"]), flags)
                self.assertLessEqual(r["accepted"], r["drafted"])

    @thorough
    def test_fixed_drafts_are_counted_exactly(self):
        """What is guessed, and what of it is right, follows from the bits alone: not from threads, not from time."""
        story = ["run", "-p", "Tell me a story.", "--no-think", "--max-tokens", "60"]
        for sampling in [GREEDY, ["--temp", "0.8", "--seed", "5"]]:
            text = self.json(*story, *sampling, "--draft", "off")["text"]
            for most, flags in [(3, ["mtp"]), (3, ["mtp", "--mtp-hidden", "pre"]), (1, ["mtp", "--draft-tokens", "1"])]:
                a, b = (self.json(*story, *sampling, "--draft", *flags, "--draft-fixed", "--threads", n) for n in "12")
                self.assertEqual((a["text"], b["text"]), (text, text), flags)
                self.assertEqual((a["drafted"], a["accepted"]), (b["drafted"], b["accepted"]), flags)
                self.assertEqual((a["finish"], a["tokens"]), ("length", 60))
                # The prompt gives one token, each step one and its right guesses; only the last steps guess less.
                steps = 60 - 1 - a["accepted"]
                self.assertLessEqual(a["drafted"], most * steps, flags)
                self.assertGreaterEqual(a["drafted"], most * (steps - most), flags)
                self.assertGreater(a["accepted"], a["drafted"] / 4, flags)

    def test_repeated_text_is_guessed(self):
        repeat = ["run", "--raw", "-p", "Hop, hop, hop. " * 3 + "Hop,", *GREEDY, "--max-tokens", "33"]
        plain = self.json(*repeat, "--draft", "off")
        a, b = (self.json(*repeat, "--draft", "ngram", "--draft-fixed", "--threads", n) for n in "12")
        self.assertEqual(a["ids"], plain["ids"])
        self.assertEqual((a["drafted"], a["accepted"]), (b["drafted"], b["accepted"]))
        self.assertGreaterEqual(a["accepted"], 20, "it goes on in the same words")

    def test_a_model_guesses_itself(self):
        r = self.json("run", "-p", "Tell me a story.", "--no-think", *GREEDY, "--max-tokens", "41", "--draft", DEMO,
                      "--draft-tokens", "4", "--draft-fixed")
        self.assertEqual(r["tokens"], 41)
        self.assertEqual((r["drafted"], r["accepted"]), (32, 32), "8 steps of 4 guesses and one token, all right")

    def test_a_seed_repeats_a_draw(self):
        args = ["run", "--raw", "-p", "Once", "--temp", "1.5", "--top-p", "1", "--top-k", "0", "--max-tokens", "24"]
        a, b, c = (self.json(*args, "--seed", seed) for seed in ["7", "7", "8"])
        self.assertEqual(a["ids"], b["ids"])
        self.assertNotEqual(a["ids"], c["ids"])
        fresh = self.json(*args)
        self.assertEqual(fresh["ids"], self.json(*args, "--seed", fresh["seed"])["ids"], "a fresh seed is told")

    def test_stop_strings(self):
        args = ["run", "--raw", "-p", "Once upon a time", *GREEDY, "--max-tokens", "60"]
        text = self.json(*args)["text"]
        word = text.split()[4]
        cut = self.json(*args, "--stop", "never in there", "--stop", word)
        self.assertEqual(cut["text"], text[:text.index(word)])
        self.assertEqual(cut["finish"], "stop")

    def test_thinking(self):
        question = ["run", "-p", "What is 12 + 30?", *GREEDY, "--max-tokens", "300"]
        on, off = self.json(*question, "--think"), self.json(*question, "--no-think")
        self.assertNotEqual(on["reasoning"], "")
        self.assertEqual(off["reasoning"], "")
        for r in (on, off):
            self.assertNotIn("think>", r["text"])
            self.assertEqual(r["finish"], "stop")
        self.assertIn("42", on["text"])
        self.assertEqual(self.weir(*question, "--think")[0], on["text"] + "\n", "no reasoning in a pipe")

    def test_a_reply_that_is_cut_off_says_so(self):
        question = ["run", "-p", "What is 12 + 30?", *GREEDY, "--max-tokens", "3"]
        out, err = self.weir(*question, "--think")
        self.assertEqual((out, err), ("\n", "[cut off while reasoning; --no-think answers at once]\n"))
        out, err = self.weir(*question, "--no-think")
        self.assertGreater(len(out), 1)
        self.assertEqual(err, "[cut off]\n")
        self.assertEqual(self.weir(*question, "--think", "--quiet")[1], "")
        self.assertEqual(self.weir(*question, "--think", "--json")[1], "")
        self.assertEqual(self.weir("run", "-p", "Hello.", *GREEDY, "--no-think", "--max-tokens", "300")[1], "")

    def test_a_reply_may_be_any_bytes_in_a_pipe(self):
        args = ["--raw", "-p", "Once upon a time there was a little fox", *GREEDY, "--max-tokens", "2"]
        self.assertTrue(self.weir("run", escape_model(self.folder), *args)[0].startswith("\x1b"))

    def test_system_message_counts(self):
        short = self.json("run", "-p", "Hi", *GREEDY, "--max-tokens", "1")
        longer = self.json("run", "-p", "Hi", "--system", "Be kind.", *GREEDY, "--max-tokens", "1")
        self.assertGreater(longer["prompt_tokens"], short["prompt_tokens"])

    def test_prompt_from_stdin(self):
        args = [*GREEDY, "--max-tokens", "12", "--no-think"]
        given = self.weir("run", "-p", "Say a word.", *args)[0]
        self.assertEqual(self.weir("run", *args, stdin="Say a word.")[0], given)
        self.assertEqual(self.weir("run", "-p", "-", *args, stdin="Say a word.")[0], given)

    def test_logprobs(self):
        r = self.json("run", "--raw", "-p", "Once upon a time", *GREEDY, "--max-tokens", "6", "--logprobs", "3")
        self.assertEqual([t["id"] for t in r["logprobs"]], r["ids"])
        for t in r["logprobs"]:
            self.assertEqual(len(t["top"]), 3)
            self.assertEqual(t["top"][0]["id"], t["id"], "greedy takes the best")
            values = [a["logprob"] for a in t["top"]]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertTrue(all(v <= 0 for v in values) and t["logprob"] == values[0])
        self.assertEqual("".join(t["token"] for t in r["logprobs"]), r["text"])

    def test_utf8_is_never_cut(self):
        for seed in range(4):
            out, _ = self.weir("run", "--raw", "-p", "a", "--temp", "5", "--top-k", "0", "--top-p", "1", "--seed", seed,
                               "--max-tokens", "40")
            out.encode("utf-8")  # a piece of a character would be a surrogate here

    def test_ctrl_c_ends_one_reply(self):
        p = subprocess.Popen([PROGRAM, "run", "--raw", "-p", "Once upon a time", "--temp", "1", "--max-tokens", "30000"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=environment(self.folder))
        first = p.stdout.read(1)  # it is generating, and flushes
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 1, err)
        self.assertTrue((first + out).endswith(b"\n"))


class Chat(Case):
    def chat(self, *lines, flags=(), code=0):
        return self.weir("run", "--chat", *GREEDY, "--max-tokens", "40", *flags, stdin="".join(f"{l}\n" for l in lines),
                         code=code)

    def test_a_line_is_a_message(self):
        single = self.weir("run", "-p", "My name is Ada.", *GREEDY, "--no-think", "--max-tokens", "40")[0]
        out, _ = self.chat("My name is Ada.", flags=["--no-think"])
        self.assertEqual(out, single)

    def test_a_turn_rereads_at_most_the_last_reply(self):
        saved = self.folder / "talk.json"
        out, _ = self.chat("My name is Ada.", "I like blue.", "/stats", "And plums.", "/stats", f"/save {saved}",
                           flags=["--no-think"])
        stats = [line.split() for line in out.splitlines() if line.startswith("last turn")]
        cached = [int(line[2]) for line in stats]
        read = [int(line[5]) for line in stats]
        self.assertEqual(cached[1], cached[0] + read[0] - self.head(), "all but the head of the reply is kept")
        talk = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in talk], ["user", "assistant"] * 3)
        self.assertLess(max(read), 120)

    def head(self):
        """Tokens of the generation prompt without thinking."""
        return len(self.json("tokenize", DEMO, "-p", "<|im_start|>assistant\n<think>\n\n</think>\n\n")["ids"])

    def test_the_cache_changes_nothing(self):
        """A saved talk, answered by a fresh program, gives the same next reply."""
        lines = ["My name is Ada.", "What is 3 + 4?", "What is my name?"]
        saved = self.folder / "talk.json"
        through, _ = self.chat(*lines)
        self.chat(*lines[:2], f"/save {saved}")
        fresh, err = self.chat(f"/load {saved}", lines[2])
        self.assertIn("loaded", err)
        self.assertTrue(through.endswith(fresh) and len(fresh) > 1, (through, fresh))

    @thorough
    def test_a_long_talk_goes_on_after_a_restart(self):
        """With --cache-dir a fresh program reads the last reply and what is new, however long the talk is."""
        text = (DATA / "val-stories.txt").read_text(encoding="utf-8")[:12000]
        talk = [m for i in range(6) for m in [{"role": "user", "content": text[2000 * i:2000 * (i + 1)]},
                                              {"role": "assistant", "content": "Yes."}]]
        saved = self.write("talk.json", json.dumps({"messages": talk, "enable_thinking": False}))
        cached, read = [], []
        for message in ["Who was that?", "And then?", "Why?"]:
            out, _ = self.chat(f"/load {saved}", message, "/stats", f"/save {saved}",
                               flags=["--no-think", "--max-tokens", "20", "--ctx", "4096", "--cache-dir",
                                      self.folder / "cache"])
            turn = re.search(r"(?m)^last turn +(\d+) tokens cached, (\d+) read", out)
            cached.append(int(turn[1]))
            read.append(int(turn[2]))
        self.assertEqual(cached[0], 0)
        self.assertGreater(read[0], 2500)
        for i in [1, 2]:
            self.assertEqual(cached[i], cached[i - 1] + read[i - 1] - self.head(), "all but the head of the reply")
            self.assertLess(read[i], 60)

    def test_a_session_goes_on_where_it_stopped(self):
        """Messages and what was read of them: chats and single replies take turns in one session."""
        text = (DATA / "val-stories.txt").read_text(encoding="utf-8")[:6000]
        flags = ["--no-think", "--max-tokens", "20", "--session", "tale-1"]
        self.weir("run", *GREEDY, *flags, "-p", text)
        kept = self.folder / ".local" / "state" / "weir" / "sessions" / "tale-1"
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o700)
        first = json.loads((kept / "messages.json").read_text())["messages"]
        self.assertEqual([m["role"] for m in first], ["user", "assistant"])

        one = self.json("run", *GREEDY, *flags, "-p", "Who was that?")
        self.assertGreater(one["cached_tokens"], 1200)
        self.assertLess(one["prompt_tokens"] - one["cached_tokens"], 60)
        self.assertEqual(json.loads((kept / "messages.json").read_text())["messages"],
                         [*first, {"role": "user", "content": "Who was that?"},
                          {"role": "assistant", "content": one["text"]}])

        alone = self.write("talk.json", (kept / "messages.json").read_text())
        out, _ = self.chat("And then?", "/stats", flags=flags)
        same, _ = self.chat(f"/load {alone}", "And then?", flags=["--no-think", "--max-tokens", "20"])
        self.assertIn("messages   6", out)
        self.assertTrue(out.startswith(same), (out, same))

    def test_sessions_that_cannot_be(self):
        sessions = self.folder / ".local" / "state" / "weir" / "sessions"
        for name in ["", ".", "..", "../x", "a/b", "a b", "x" * 65]:
            _, err = self.weir("run", "-p", "Hi.", "--session", name, code=2)
            self.assertIn("--session: expected 1 to 64 letters", err)
        self.weir("run", "--raw", "-p", "Hi.", "--session", "x", code=2)
        self.assertFalse(sessions.exists(), "nothing was made")
        (sessions / "broken").mkdir(parents=True)
        broken = sessions / "broken" / "messages.json"
        broken.write_text('{"messages": 3}')
        _, err = self.weir("run", "-p", "Hi.", "--session", "broken", code=3)
        self.assertIn("messages.json", err)
        self.assertEqual(broken.read_text(), '{"messages": 3}', "left as it was")

    def test_without_a_cache_everything_is_read_again(self):
        lines = ["My name is Ada.", "/stats", "I like blue.", "/stats"]
        turns, texts = {}, {}
        for memory in ["0", "0.1"]:
            out, _ = self.chat(*lines, flags=["--no-think", "--cache-memory", memory])
            texts[memory] = [line for line in out.splitlines() if line[:10].strip() not in self.STATS]
            turns[memory] = [line.split() for line in out.splitlines() if line.startswith("last turn")]
        self.assertEqual(texts["0"], texts["0.1"])
        self.assertEqual([turn[2] for turn in turns["0"]], ["0", "0"])
        self.assertGreater(int(turns["0.1"][1][2]), 5)
        self.assertEqual([int(t[2]) + int(t[5]) for t in turns["0"]], [int(t[2]) + int(t[5]) for t in turns["0.1"]])

    STATS = ["messages", "context", "last turn", "memory", "cache", "resident", "engine"]

    def test_statistics(self):
        out, _ = self.chat("Tell me a story.", "/stats", flags=["--no-think", "--draft", "mtp", "--draft-fixed"])
        self.assertRegex(out, r"(?m)^last turn +0 tokens cached, \d+ read at [\d.]+ tok/s, 40 generated at [\d.]+ tok/s, "
                              r"\d+ of [1-9]\d* drafts accepted$")
        self.assertRegex(out, r"(?m)^cache +[1-9]\d* places to go on from, [\d.]+ of [\d.]+ MB$")
        self.assertIn("drafts mtp", out)

    def test_commands(self):
        saved = self.folder / "talk.json"
        out, err = self.chat("/help", "/system Be brief.", "Hello.", "/think", "Hello again.", "/nothink", f"/save {saved}",
                             "/reset", "/stats", "/system", "/stats", "/exit", "not read")
        for name in ["help", "system", "think", "nothink", "reset", "save", "load", "stats", "exit"]:
            self.assertIn(f"\n/{name}", "\n" + out)
        talk = json.loads(saved.read_text())
        self.assertEqual([m["role"] for m in talk["messages"]], ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual(talk["messages"][0]["content"], "Be brief.")
        self.assertIn("reasoning_content", talk["messages"][4])
        self.assertFalse(talk["enable_thinking"])
        self.assertEqual([line.split()[1] for line in out.splitlines() if line.startswith("messages")], ["1", "0"])
        self.assertIn("thinking on", err)

    def test_reset_forgets_the_turn(self):
        out, _ = self.chat("/stats", "Hello.", "/stats", "/reset", "/stats", "Hello.", flags=["--no-think"])
        turns = [line.split() for line in out.splitlines() if line.startswith("last turn")]
        lengths = [int(line.split()[1]) for line in out.splitlines() if line.startswith("context")]
        self.assertEqual([turns[0][2], turns[2][2]], ["none", "none"])
        self.assertEqual([lengths[0], lengths[2]], [0, 0])
        self.assertGreater(lengths[1], 5)
        first = out[out.index("seed"):].splitlines()[1]
        self.assertEqual(out.splitlines()[-1], first, "the same reply from the beginning")

    def test_trouble_is_told_and_survived(self):
        bad = self.write("bad.json", '{"messages": [{"role": "robot", "content": "x"}]}')
        out, err = self.chat("/frobnicate", "/load", f"/load {self.folder}/gone", f"/load {bad}", "/save /nowhere/at/all",
                             "/stats now", "/exit at once",
                             "/stats", code=1)
        for text in ['unknown command "/frobnicate"', "/load: expected a FILE", "gone", "messages[0].role", "/nowhere",
                     '/stats: expected nothing behind it, found "now"', '/exit: expected nothing']:
            self.assertIn(text, err)
        self.assertIn("messages   0", out)

    def test_continued_lines_and_slashes(self):
        saved = self.folder / "talk.json"
        self.chat("one\\", "two", "//slash", f"/save {saved}")
        talk = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["content"] for m in talk if m["role"] == "user"], ["one\ntwo", "/slash"])

    def test_quiet_and_no_colour(self):
        out, err = self.chat("/think", "Hello.", flags=["--quiet"])
        self.assertEqual(err, "")
        self.assertNotIn("\033", out)

    def test_context_overflow_keeps_the_session(self):
        out, err = self.chat("word " * 400, "Hello.", "/stats", flags=["--ctx", "200"], code=1)
        self.assertIn("room for 200", err)
        self.assertIn("messages   2", out)

    def test_input_that_is_not_text(self):
        p = subprocess.run([PROGRAM, "run", "--chat", *GREEDY], input=b"a\xffb\na\0b\n/exit\n", capture_output=True,
                           env=environment(self.folder), timeout=60, check=False)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b"UTF-8", p.stderr)
        self.assertIn(b"NUL", p.stderr)


if __name__ == "__main__":
    assert os.path.exists(PROGRAM)
    unittest.main()
