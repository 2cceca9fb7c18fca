"""Chat Completions and Completions: streams, whole answers, and `weir run` say the same."""
import concurrent.futures
import json
import subprocess
import unittest

from support import CHAT, DEMO, PROGRAM, Case, environment, joined, message

LONG = {"seed": 7, "max_tokens": 24}


class Chat(Case):
    args = ("--ctx", "1024")

    def test_stream_and_whole_and_run_say_the_same(self):
        done = subprocess.run([PROGRAM, "run", DEMO, "-p", "Tell me a story.", "--no-think", "--seed", "7", "--max-tokens",
                               "24", "--json"], capture_output=True, text=True, check=True,
                              env=environment(self.folder), stdin=subprocess.DEVNULL)
        run = json.loads(done.stdout)
        whole = self.server.chat("Tell me a story.", **LONG).json
        events = self.server.chat("Tell me a story.", stream=True, **LONG).events
        self.assertGreater(len(run["text"]), 20)
        self.assertEqual(whole["choices"][0]["message"]["content"], run["text"])
        self.assertEqual(joined(events), run["text"])
        self.assertEqual(whole["usage"]["prompt_tokens"], run["prompt_tokens"])
        self.assertEqual(whole["usage"]["completion_tokens"], run["tokens"])
        self.assertEqual(whole["choices"][0]["finish_reason"], run["finish"])

    def test_shape_of_a_stream(self):
        events = self.server.chat("Hello.", stream=True, stream_options={"include_usage": True}, ignore_eos=True, **LONG).events
        self.assertEqual(events.pop(), "[DONE]")
        usage = events.pop()
        self.assertEqual(usage["choices"], [])
        self.assertEqual(usage["usage"]["completion_tokens"] + usage["usage"]["prompt_tokens"],
                         usage["usage"]["total_tokens"])
        self.assertEqual({e["id"] for e in events}, {usage["id"]})
        self.assertTrue(all(e["usage"] is None and e["object"] == "chat.completion.chunk" for e in events))
        deltas = [e["choices"][0] for e in events]
        self.assertEqual(deltas[0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual((deltas[-1]["delta"], deltas[-1]["finish_reason"]), ({}, "length"))
        for d in deltas[1:-1]:
            self.assertEqual(list(d["delta"]), ["content"])
            self.assertTrue(d["delta"]["content"] and d["finish_reason"] is None)

    def test_reasoning_under_both_names(self):
        body = message("Hello.", seed=3, max_tokens=120)
        del body["enable_thinking"]
        whole = self.server.post(CHAT, body).json
        events = self.server.post(CHAT, dict(body, stream=True)).events
        said = whole["choices"][0]["message"]
        self.assertTrue(said["reasoning_content"])
        self.assertEqual(said["reasoning"], said["reasoning_content"])
        self.assertEqual(joined(events, "reasoning_content"), said["reasoning"])
        self.assertEqual(joined(events, "reasoning"), said["reasoning"])
        self.assertEqual(joined(events), said["content"])
        self.assertGreater(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 0)

    def test_ways_to_switch_reasoning_off(self):
        base = {"messages": [{"role": "user", "content": "Hello."}], "seed": 3, "max_tokens": 5}
        ways = [{"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}},
                {"reasoning_effort": "none"}, {"reasoning": {"enabled": False}}, {"reasoning": {"effort": "none"}},
                {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}]
        prompts = [self.server.post("/apply-template", dict(base, **w)).json["prompt"] for w in ways]
        self.assertTrue(prompts[0].endswith("<think>\n\n</think>\n\n"), prompts[0])
        self.assertEqual(len(set(prompts)), 1)
        on = self.server.post("/apply-template", dict(base, reasoning_effort="high", enable_thinking=False)).json["prompt"]
        self.assertTrue(on.endswith("<think>\n"), on)

    def test_choices_are_those_that_seed_and_index_draw(self):
        many = self.server.chat("Tell me a story.", n=3, **LONG).json
        texts = [c["message"]["content"] for c in many["choices"]]
        self.assertEqual([c["index"] for c in many["choices"]], [0, 1, 2])
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(texts[0], self.server.chat("Tell me a story.", **LONG).json["choices"][0]["message"]["content"])
        events = self.server.chat("Tell me a story.", n=3, stream=True, **LONG).events
        self.assertEqual([joined(events, index=i) for i in range(3)], texts)
        self.assertEqual(events.count("[DONE]"), 1)
        self.assertEqual(many["usage"]["completion_tokens"], 72)

    def test_eight_at_once_say_what_each_says_alone(self):
        bodies = [message(f"Codeword K{i}: repeat my codeword.", seed=i, max_tokens=12, stream=True, cache_prompt=False)
                  for i in range(8)]
        alone = [joined(self.server.post(CHAT, b).events) for b in bodies]
        self.assertEqual(len(set(alone)), 8)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda b: joined(self.server.post(CHAT, b).events), bodies))
        self.assertEqual(together, alone)

    def test_second_turn_comes_from_the_cache(self):
        first = self.server.chat("My colour is teal.", **LONG).json
        turns = message("My colour is teal.")["messages"]
        turns += [{"role": "assistant", "content": first["choices"][0]["message"]["content"]},
                  {"role": "user", "content": "Which colour?"}]
        body = {"messages": turns, "enable_thinking": False, "seed": 1, "max_tokens": 8}
        cold = self.server.post(CHAT, dict(body, cache_prompt=False)).json
        warm = self.server.post(CHAT, body).json
        self.assertEqual(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertGreater(warm["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        self.assertEqual(warm["choices"], cold["choices"])

    def test_stop_is_not_part_of_the_text(self):
        whole = self.server.chat("Tell me a story.", **LONG).json["choices"][0]["message"]["content"]
        word = whole.split()[6]
        cut = self.server.chat("Tell me a story.", stop=["never-said", word], **LONG).json["choices"][0]
        self.assertEqual(cut["message"]["content"], whole[:whole.index(word)])
        self.assertEqual((cut["finish_reason"], cut["stop_reason"]), ("stop", word))
        events = self.server.chat("Tell me a story.", stop=word, stream=True, **LONG).events
        self.assertEqual(joined(events), cut["message"]["content"])
        self.assertEqual(events[-2]["choices"][0]["stop_reason"], word)

    def test_bias_and_penalties_reach_the_draw(self):
        greedy = {"temperature": 0, "max_tokens": 6}
        plain = self.server.chat("Tell me a story.", logprobs=True, **greedy).json["choices"][0]
        first = plain["logprobs"]["content"][0]["token"]
        ident = self.server.post("/tokenize", {"content": first}).json["tokens"][0]
        banned = self.server.chat("Tell me a story.", logit_bias={str(ident): -100}, **greedy).json["choices"][0]
        self.assertNotEqual(banned["message"]["content"][:len(first)], first)
        loop = self.server.chat("Tell me a story.", temperature=0, max_tokens=20, logit_bias={str(ident): 100}).json
        self.assertEqual(loop["choices"][0]["message"]["content"], first * 20)
        freed = self.server.chat("Tell me a story.", temperature=0, max_tokens=20, logit_bias={str(ident): 8},
                                 frequency_penalty=2, presence_penalty=2).json
        self.assertNotIn(first * 8, freed["choices"][0]["message"]["content"])

    def test_logprobs_join_to_the_text(self):
        body = {"logprobs": True, "top_logprobs": 3, "seed": 7, "max_tokens": 12}
        whole = self.server.chat("Tell me a story.", **body).json["choices"][0]
        entries = whole["logprobs"]["content"]
        self.assertEqual(bytes(b for e in entries for b in e["bytes"]).decode(), whole["message"]["content"])
        for e in entries:
            self.assertEqual(len(e["top_logprobs"]), 3)
            values = [t["logprob"] for t in e["top_logprobs"]]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLessEqual(e["logprob"], values[0])
            self.assertLess(sum(2.718281828 ** v for v in values), 1.0001)
        events = self.server.chat("Tell me a story.", stream=True, **body).events
        streamed = [x for e in events[:-1] for x in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
        self.assertEqual(streamed, entries)

    def test_tools_are_shown_and_none_forbids_calls(self):
        tool = {"type": "function", "function": {"name": "area", "parameters": {"type": "object", "properties": {
            "w": {"type": "integer", "maximum": 9223372036854775807}}}}}
        body = message("Area of 7 by 5?", tools=[tool, {"type": "web_search"}], max_tokens=4, seed=1)
        plain = self.server.post("/apply-template", body).json["prompt"]
        self.assertIn('"area"', plain)
        self.assertIn("9223372036854775807", plain)
        self.assertNotIn("web_search", plain)
        answer = self.server.post(CHAT, dict(body, tool_choice="none"))
        self.assertEqual(answer.status, 200)
        self.assertIn("left out", answer.headers["Warning"])
        self.assertEqual(self.server.post(CHAT, dict(body, tools=[], tool_choice="auto")).status, 200)

    def test_agents_histories_are_served(self):
        call = {"id": "c1", "type": "function", "function": {"name": "area", "arguments": "{\"w\":7}"}}
        shapes = [[("system", "a"), ("user", "b"), ("assistant", "c"), ("system", "d"), ("user", "e")],
                  [("system", "a"), ("developer", "b"), ("user", "c")], [("user", "a"), ("assistant", "Sure, ")]]
        histories = [[{"role": r, "content": c} for r, c in s] for s in shapes]
        histories.append([{"role": "system", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                          {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "35"}]}])
        for h in histories:
            answer = self.server.post(CHAT, {"messages": h, "max_tokens": 2, "seed": 1})
            self.assertEqual(answer.status, 200, answer.body)

    def test_completions(self):
        body = {"prompt": "Once upon a time", "seed": 7, "max_tokens": 12}
        whole = self.server.post("/v1/completions", body).json
        text = whole["choices"][0]["text"]
        self.assertEqual((whole["object"], whole["choices"][0]["finish_reason"]), ("text_completion", "length"))
        events = self.server.post("/v1/completions", dict(body, stream=True)).events
        self.assertEqual("".join(e["choices"][0]["text"] for e in events[:-1]), text)
        ids = self.server.post("/tokenize", {"content": body["prompt"]}).json["tokens"]
        many = self.server.post("/v1/completions", dict(body, prompt=[ids, ids[:2]], n=2)).json
        self.assertEqual([c["index"] for c in many["choices"]], [0, 1, 2, 3])
        self.assertEqual(many["choices"][0]["text"], text)
        self.assertEqual(many["usage"]["prompt_tokens"], len(ids) + 2)
        echo = self.server.post("/v1/completions", dict(body, echo=True)).json["choices"][0]["text"]
        self.assertEqual(echo, "Once upon a time" + text)
        logs = self.server.post("/v1/completions", dict(body, logprobs=2)).json["choices"][0]["logprobs"]
        self.assertEqual("".join(logs["tokens"]), text)
        self.assertEqual(logs["text_offset"][:2], [0, len(logs["tokens"][0])])
        self.assertEqual(len(logs["top_logprobs"][0]), 2)
        warm = self.server.post("/v1/completions", dict(body, max_tokens=0)).json
        self.assertEqual((warm["choices"][0]["text"], warm["usage"]["completion_tokens"]), ("", 0))


if __name__ == "__main__":
    unittest.main()
