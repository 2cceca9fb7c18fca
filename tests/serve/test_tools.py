"""Tool calls and budgets of reasoning, from the prompt to what clients read."""
import json
import unittest

from support import CHAT, Case, joined, message

TOOLS = [{"type": "function", "function": {"name": "area", "parameters": {
             "type": "object", "properties": {"w": {"type": "integer"}, "x": {"type": "string"}}}}},
         {"type": "function", "function": {"name": "zip_it", "parameters": {"type": "object", "properties": {}}}}]
ASK = "Area of 7 by 5?"


def named(name):
    return {"type": "function", "function": {"name": name}}


def calls_of(events, index=0):
    """Calls as a client joins them: ids and names may come once only."""
    calls = []
    for e in events:
        for choice in e["choices"] if e != "[DONE]" else []:
            for d in choice["delta"].get("tool_calls", []) if choice["index"] == index else []:
                if d["index"] == len(calls):
                    calls.append({"id": "", "type": "", "function": {"name": "", "arguments": ""}})
                call = calls[d["index"]]
                call["id"] += d.get("id", "")
                call["type"] += d.get("type", "")
                for k, v in d["function"].items():
                    call["function"][k] += v
    return calls


class Tools(Case):
    args = ("--ctx", "1024")

    def ask(self, **fields):
        body = message(ASK, tools=TOOLS, max_tokens=48)
        body.update(fields)
        answer = self.server.post(CHAT, body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def test_a_forced_call_streamed_and_whole(self):
        body = {"tool_choice": named("zip_it"), "seed": 5, "n": 2}
        choices = self.ask(**body).json["choices"]
        events = self.ask(stream=True, **body).events
        for c in choices:
            call = c["message"]["tool_calls"][0]
            self.assertEqual((c["finish_reason"], c["message"]["content"]), ("tool_calls", None))
            self.assertEqual((call["type"], call["function"]["name"]), ("function", "zip_it"))
            self.assertRegex(call["id"], "^call_[0-9A-Za-z]{24}$")
            self.assertIsInstance(json.loads(call["function"]["arguments"]), dict)
            streamed = calls_of(events, c["index"])
            self.assertEqual([s["function"] for s in streamed], [s["function"] for s in c["message"]["tool_calls"]])
            self.assertRegex(streamed[0]["id"], "^call_[0-9A-Za-z]{24}$")
        ends = [c["finish_reason"] for e in events[:-1] for c in e["choices"] if c["finish_reason"]]
        self.assertEqual(ends, ["tool_calls"] * 2)

    def test_a_call_is_forced_behind_reasoning(self):
        c = self.ask(tool_choice="required", enable_thinking=True, seed=3, thinking_budget=4).json["choices"][0]
        self.assertEqual(c["finish_reason"], "tool_calls")
        self.assertTrue(c["message"]["reasoning_content"])

    def test_choices_leave_the_prompt_as_it_is(self):
        sizes = {self.ask(tool_choice=c, max_tokens=1).json["usage"]["prompt_tokens"]
                 for c in ("auto", "none", "required")}
        self.assertEqual(len(sizes), 1)

    def test_none_makes_no_call(self):
        for seed in range(4):
            c = self.ask(tool_choice="none", seed=seed, max_tokens=24).json["choices"][0]
            self.assertNotIn("tool_calls", c["message"])
            self.assertNotIn("<tool_call>", c["message"]["content"])

    def test_one_call_at_most(self):
        open_tag = self.server.post("/tokenize", {"content": "<tool_call>", "parse_special": True}).json["tokens"]
        bias = {str(open_tag[0]): 100}  # again and again
        many = self.ask(tool_choice=named("zip_it"), seed=1).json["choices"][0]["message"]["tool_calls"]
        one = self.ask(tool_choice=named("zip_it"), seed=1, max_tokens=200, parallel_tool_calls=False,
                       ignore_eos=True).json
        self.assertEqual(one["choices"][0]["finish_reason"], "tool_calls")
        self.assertEqual(len(one["choices"][0]["message"]["tool_calls"]), 1)
        self.assertEqual(one["choices"][0]["message"]["tool_calls"][0]["function"], many[0]["function"])
        self.assertLess(one["usage"]["completion_tokens"], 100)
        self.assertEqual(self.ask(logit_bias=bias, max_tokens=8).status, 200)  # what is no call is content

    def test_the_limit_inside_of_a_call(self):
        body = {"tool_choice": named("area"), "seed": 5, "max_tokens": 9}
        c = self.ask(**body).json["choices"][0]
        self.assertEqual(c["finish_reason"], "length")
        self.assertNotIn("tool_calls", c["message"])
        self.assertTrue(c["message"]["x_unfinished_tool_call"].startswith("<tool_call>\n<function=area>\n"))
        events = self.ask(stream=True, **body).events
        self.assertEqual(calls_of(events)[0]["function"]["name"], "area")
        self.assertNotIn("}", calls_of(events)[0]["function"]["arguments"])
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")

    def test_what_cannot_be_forced_is_refused(self):
        cases = [({"tool_choice": named("other")}, "tool_choice"), ({"tools": [], "tool_choice": "required"}, "tool_choice"),
                 ({"tool_choice": "always"}, "tool_choice"), ({"functions": [{"name": "f"}]}, "functions")]
        for fields, param in cases:
            answer = self.server.post(CHAT, message(ASK, **{"tools": TOOLS, **fields}))
            self.assertEqual((answer.status, answer.error["param"]), (400, param), answer.body)

    def test_functions_of_before(self):
        body = message(ASK, functions=[t["function"] for t in TOOLS], function_call={"name": "area"}, seed=5, max_tokens=48)
        old = self.server.post(CHAT, body).json["choices"][0]["message"]["tool_calls"]
        new = self.ask(tool_choice=named("area"), seed=5).json["choices"][0]["message"]["tool_calls"]
        self.assertEqual([c["function"] for c in old], [c["function"] for c in new])

    def test_logprobs_leave_calls_out(self):
        c = self.ask(tool_choice=named("zip_it"), seed=5, logprobs=True, parallel_tool_calls=False).json["choices"][0]
        self.assertEqual(c["logprobs"]["content"], [])

    def test_the_turn_behind_a_call_comes_from_the_cache(self):
        body = message(ASK, tools=TOOLS, tool_choice=named("area"), seed=5, max_tokens=48, parallel_tool_calls=False)
        first = self.server.post(CHAT, body).json
        said = first["choices"][0]["message"]
        body["messages"] += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "35"}]
        body.update(tool_choice="auto", max_tokens=8)
        self.assertGreater(self.server.metrics()['q35_tool_parse_total{result="ok"}'], 0)
        cold = self.server.post(CHAT, dict(body, cache_prompt=False)).json
        warm = self.server.post(CHAT, body).json
        self.assertEqual(warm["choices"][0]["message"]["content"], cold["choices"][0]["message"]["content"])
        self.assertGreater(warm["usage"]["prompt_tokens_details"]["cached_tokens"],
                           first["usage"]["prompt_tokens"])  # the call, too

    def test_histories_with_calls(self):
        def history(**call):
            return [{"role": "user", "content": ASK},
                    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": call}]},
                    {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "35"}]}]

        def prompt(messages):
            answer = self.server.post("/apply-template", {"messages": messages, "tools": TOOLS})
            return answer.json["prompt"] if answer.status == 200 else answer.error["param"]

        text = prompt(history(name="area", arguments='{"w":7}'))
        self.assertIn("<parameter=w>\n7\n</parameter>", text)
        self.assertEqual(prompt(history(name="area", arguments={"w": 7})), text)
        none = [prompt(history(name="area", **a)) for a in ({}, {"arguments": ""}, {"arguments": None}, {"arguments": "{}"})]
        self.assertEqual(set(none), {none[0]})
        self.assertIn("<function=area>\n</function>", none[0])
        legacy = [{"role": "user", "content": ASK}, {"role": "assistant", "function_call": {"name": "area", "arguments": ""}},
                  {"role": "function", "name": "area", "content": "35"}]
        self.assertEqual(prompt(legacy), none[0])
        self.assertTrue(prompt(history(name="area", arguments='{"w":')).startswith("messages[1].tool_calls[0]"))
        self.assertEqual(prompt(history(arguments="{}")), "messages[1].tool_calls[0]")


class Reasoning(Case):
    args = ("--ctx", "512", "--reasoning-budget", "6")

    def ask(self, **fields):
        answer = self.server.post(CHAT, {"messages": [{"role": "user", "content": "Hello."}], "seed": 3, "max_tokens": 60,
                                         "enable_thinking": True, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def reasoned(self, **fields):
        return self.ask(**fields).json["usage"]["completion_tokens_details"]["reasoning_tokens"]

    def test_budgets(self):
        free = self.ask(thinking_budget=-1).json["choices"][0]["message"]["reasoning_content"]
        for name in ("thinking_token_budget", "reasoning_budget", "thinking_budget_tokens", "thinking_budget"):
            said = self.ask(**{name: 3}).json["choices"][0]["message"]
            self.assertTrue(free.startswith(said["reasoning_content"]))
            self.assertLess(len(said["reasoning_content"]), len(free))
            self.assertTrue(said["content"])
            self.assertNotIn("</think>", said["content"])
        self.assertLess(self.reasoned(thinking_budget=1), self.reasoned(thinking_budget=3))
        self.assertLess(self.reasoned(thinking_budget=3), self.reasoned())  # the server's own: 6
        self.assertLess(self.reasoned(), self.reasoned(thinking_budget=-1))

    def test_no_budget_is_no_reasoning(self):
        none = self.ask(thinking_budget=0).json
        off = self.ask(enable_thinking=False).json
        self.assertNotIn("reasoning_content", none["choices"][0]["message"])
        self.assertEqual((none["choices"], none["usage"]["prompt_tokens"]), (off["choices"], off["usage"]["prompt_tokens"]))

    def test_reasoning_in_the_content(self):
        apart = self.ask().json["choices"][0]["message"]
        inside = self.ask(reasoning_format="none").json["choices"][0]["message"]
        self.assertEqual(inside["content"], f"<think>\n{apart['reasoning']}\n</think>\n\n{apart['content']}")
        self.assertNotIn("reasoning", inside)
        self.assertEqual(joined(self.ask(reasoning_format="none", stream=True).events), inside["content"])

    def test_where_a_reply_ends(self):
        plain = {"enable_thinking": False, "max_tokens": 12}
        logs = self.ask(logprobs=True, **plain).json["choices"][0]["logprobs"]["content"]
        texts = [t["token"] for t in logs]
        at = next(i for i in range(3, len(texts)) if texts[i] not in texts[:i])
        ident = self.server.post("/tokenize", {"content": texts[at]}).json["tokens"]
        self.assertEqual(len(ident), 1)
        cut = self.ask(stop_token_ids=ident, **plain).json["choices"][0]
        self.assertEqual(cut["message"]["content"], "".join(texts[:at]))
        self.assertEqual((cut["finish_reason"], cut["stop_reason"]), ("stop", ident[0]))
        word = texts[at].strip()
        kept = self.ask(stop=word, include_stop_str_in_output=True, **plain).json["choices"][0]["message"]["content"]
        self.assertTrue(kept.endswith(word))
        self.assertEqual(kept, "".join(texts)[:len(kept)])

    def test_progress_timings_and_running_usage(self):
        events = self.ask(stream=True, return_progress=True, timings_per_token=True, cache_prompt=False,
                          stream_options={"include_usage": True, "continuous_usage_stats": True}).events
        progress = [e["prompt_progress"] for e in events[:-1] if "prompt_progress" in e]
        self.assertEqual((progress[-1]["processed"], progress[-1]["cache"]), (progress[-1]["total"], 0))
        for p in progress:
            self.assertTrue(p["cache"] <= p["processed"] <= p["total"])
        chunks = [e for e in events[:-1] if e["choices"]]
        counts = [e["usage"]["completion_tokens"] for e in chunks]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], events[-2]["usage"]["completion_tokens"])
        self.assertEqual(events[-2]["usage"]["prompt_tokens"], progress[-1]["total"])
        self.assertTrue(all(e["timings"]["predicted_n"] == e["usage"]["completion_tokens"] for e in chunks))
        self.assertIn("predicted_per_second", events[-2]["timings"])
        self.assertNotIn("timings", self.ask().json)
        self.assertIn("timings", self.ask(timings_per_token=True).json)


class Reserve(Case):
    args = ("--ctx", "512", "--answer-reserve", "20")

    def test_a_limited_reply_has_an_answer(self):
        body = {"messages": [{"role": "user", "content": "Hello."}], "seed": 3, "enable_thinking": True, "max_tokens": 24}
        said = self.server.post(CHAT, body).json["choices"][0]["message"]
        self.assertTrue(said["reasoning_content"])
        self.assertTrue(said["content"])
        short = self.server.post(CHAT, dict(body, max_tokens=20)).json["choices"][0]["message"]
        self.assertNotIn("reasoning_content", short)


if __name__ == "__main__":
    unittest.main()
