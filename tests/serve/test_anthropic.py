"""Messages: blocks streamed and whole, tools in the history, usage and the cache, errors in the dialect's words."""
import json
import unittest

from support import CHAT, Case

try:
    import anthropic
except ImportError:
    anthropic = None

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
TOOL = {"name": "area", "description": "Area of a rectangle.", "input_schema": {
    "type": "object", "properties": {"w": {"type": "integer"}, "h": {"type": "integer"}}, "required": ["w", "h"]}}
HISTORY = [
    {"role": "user", "content": [{"type": "text", "text": "Area of 7 by 5?"}]},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I multiply.", "signature": "foreign"}, {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "toolu_1", "name": "area", "input": {"w": 7, "h": 5}}]},
    {"role": "user", "content": [
        {"type": "text", "text": "And in words?"}, {"type": "tool_result", "tool_use_id": "toolu_1", "content": "35"}]}]


def ask(text="Tell me a story.", **fields):
    return {"model": "any", "max_tokens": 12, "seed": 7, "messages": [{"role": "user", "content": text}], **fields}


def frames(answer):
    """The parsed frames; each has its name in two places.  Pings may come anywhere, and are left out."""
    found = []
    for frame in answer.body.decode().removesuffix("\n\n").split("\n\n"):
        event, data = frame.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert event == "event: " + found[-1]["type"], frame
    return [e for e in found if e["type"] != "ping"]


def message_of(events):
    """What the frames build, as clients build it; only orders that clients allow."""
    assert [e["type"] for e in events[-2:]] == ["message_delta", "message_stop"], events[-2:]
    message, is_open, pieces = events[0]["message"], False, ""
    for e in events[1:-2]:
        blocks = message["content"]
        if e["type"] == "content_block_start":
            assert not is_open and e["index"] == len(blocks)
            blocks.append(e["content_block"])
            is_open = True
            continue
        assert is_open and e["index"] == len(blocks) - 1
        if e["type"] == "content_block_stop":
            is_open = False
            if blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads(pieces)
            pieces = ""
            continue
        if e["delta"]["type"] == "input_json_delta":
            pieces += e["delta"]["partial_json"]
            continue
        field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}[e["delta"]["type"]]
        assert e["delta"][field]
        blocks[-1][field] += e["delta"][field]
    assert not is_open
    message.update(events[-2]["delta"], usage=events[-2]["usage"])
    return message


def total(usage):
    return usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]


class Messages(Case):
    args = ("--ctx", "1024")

    def post(self, path=MESSAGES, **fields):
        answer = self.server.post(path, ask(**fields))
        self.assertEqual(answer.status, 200, answer.body)
        return answer

    def prompt(self, messages):
        """What Chat Completions renders of these messages."""
        return self.server.post("/apply-template", {"messages": messages, "enable_thinking": False, "tools": [
            {"type": "function", "function": {"name": "area", "description": TOOL["description"],
                                              "parameters": TOOL["input_schema"]}}]}).json

    def test_says_what_chat_completions_says(self):
        chat = self.server.post(CHAT, ask(enable_thinking=False, max_completion_tokens=12)).json
        answer = self.post()
        self.assertEqual(answer.headers["request-id"], answer.headers["x-request-id"])
        said = answer.json
        self.assertEqual(said["content"], [{"type": "text", "text": chat["choices"][0]["message"]["content"]}])
        self.assertEqual((said["type"], said["role"], said["model"]), ("message", "assistant", "any"))
        self.assertEqual((said["stop_reason"], said["stop_sequence"]), ("max_tokens", None))
        self.assertRegex(said["id"], "^msg_[0-9A-Za-z]{24}$")
        self.assertEqual(said["usage"]["output_tokens"], 12)

    def test_stream_builds_the_whole_answer(self):
        for fields in ({}, {"thinking": {"type": "enabled", "budget_tokens": 6}}, {"thinking": {"type": "adaptive"}},
                       {"thinking": {"type": "enabled", "budget_tokens": 6, "display": "omitted"}},
                       {"stop_sequences": [" upon", " a"], "max_tokens": 40}):
            whole = self.post(**fields, cache_prompt=False).json
            streamed = message_of(frames(self.post(**fields, cache_prompt=False, stream=True)))
            for m in (whole, streamed):
                m.pop("id")
                m["usage"].pop("service_tier", None)
                for block in m["content"]:
                    if block["type"] == "thinking":
                        self.assertTrue(block.pop("signature"))
            self.assertEqual(streamed, whole)

    def test_thinking_is_asked_for(self):
        enabled = self.post(thinking={"type": "enabled", "budget_tokens": 6}, max_tokens=30).json
        self.assertEqual([b["type"] for b in enabled["content"]], ["thinking", "text"])
        free = self.post(thinking={"type": "adaptive"}, max_tokens=30).json["content"]
        self.assertTrue(free[0]["thinking"].startswith(enabled["content"][0]["thinking"]))
        self.assertGreater(len(free[0]["thinking"]), len(enabled["content"][0]["thinking"]))
        omitted = self.post(thinking={"type": "enabled", "budget_tokens": 6, "display": "omitted"}, max_tokens=30).json
        self.assertEqual((omitted["content"][0]["thinking"], omitted["content"][1]), ("", enabled["content"][1]))
        for fields in ({}, {"thinking": {"type": "disabled"}}):
            self.assertEqual([b["type"] for b in self.post(**fields).json["content"]], ["text"])

    def test_stop_sequences(self):
        text = self.post(max_tokens=24).json["content"][0]["text"]
        word = text.split()[5]
        cut = self.post(max_tokens=24, stop_sequences=["never-said", word]).json
        self.assertEqual((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", word))
        self.assertEqual(cut["content"][0]["text"], text[:text.index(word)])

    def test_history_with_tools_is_rendered(self):
        same = self.prompt([
            {"role": "system", "content": "Be brief.\n\nBe kind."}, {"role": "user", "content": "Area of 7 by 5?"},
            {"role": "assistant", "content": "Let me see.", "reasoning_content": "I multiply.", "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "area", "arguments": {"w": 7, "h": 5}}}]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "35"}, {"role": "user", "content": "And in words?"}])
        self.assertIn("<parameter=w>\n7\n</parameter>", same["prompt"])
        self.assertIn("<tool_response>\n35\n</tool_response>", same["prompt"])
        system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=00f3;"},
                  {"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
        body = {"messages": HISTORY, "system": system, "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}]}
        self.assertEqual(self.server.post(COUNT, body).json, {"input_tokens": same["tokens"]})
        answer = self.post(**body)
        self.assertIn("left out", answer.headers["Warning"])
        self.assertEqual(total(answer.json["usage"]), same["tokens"])
        self.assertGreater(self.server.post(COUNT, dict(body, tools=[TOOL, {"type": "bash_20250124", "name": "bash"}])).json[
            "input_tokens"], same["tokens"])
        system[0]["text"] = "x-anthropic-billing-header: cc_version=1; cch=0a11;"
        self.assertGreater(self.post(**body).json["usage"]["cache_read_input_tokens"], same["tokens"] - 20)

    def test_calls_and_their_results(self):
        body = {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "area", "disable_parallel_tool_use": True},
                "max_tokens": 200, "messages": HISTORY[:1]}
        answer = self.server.post(MESSAGES, ask(**body))
        if answer.status == 400 and "yet" in answer.error["message"]:
            self.skipTest(answer.error["message"])
        whole = answer.json
        streamed = message_of(frames(self.post(**body, stream=True)))
        self.assertEqual((whole["stop_reason"], streamed["stop_reason"]), ("tool_use", "tool_use"))
        call = whole["content"][-1]
        self.assertEqual((call["type"], call["name"], type(call["input"])), ("tool_use", "area", dict))
        for block in (call, streamed["content"][-1]):
            self.assertRegex(block["id"], "^toolu_[0-9A-Za-z]{24}$")
        self.assertNotEqual(streamed["content"][-1].pop("id"), call["id"])
        self.assertEqual(streamed["content"], whole["content"][:-1] + [{k: v for k, v in call.items() if k != "id"}])
        turns = HISTORY[:1] + [{"role": "assistant", "content": whole["content"]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "35"}]}]
        usage = self.post(messages=turns, tools=[TOOL]).json["usage"]
        self.assertGreaterEqual(usage["cache_read_input_tokens"], total(whole["usage"]) - 20)

    def test_second_turn_reads_the_cache(self):
        marked = [{"type": "text", "text": "My colour is teal, and my number is nine.",
                   "cache_control": {"type": "ephemeral"}}]
        turns = [{"role": "user", "content": marked}]
        count = self.server.post(COUNT, {"messages": turns}).json["input_tokens"]
        first = self.post(messages=turns).json
        self.assertEqual(total(first["usage"]), count)
        self.assertGreater(first["usage"]["cache_creation_input_tokens"], 0)
        kept = first["usage"]["cache_read_input_tokens"] + first["usage"]["cache_creation_input_tokens"]
        again = self.post(messages=turns).json
        self.assertEqual(again["usage"]["cache_read_input_tokens"], kept)
        turns += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": "Which colour?"}]
        cold = self.post(messages=turns, cache_prompt=False).json
        for _ in range(3):  # at last one token is left to read, and the reply begins with it
            warm = frames(self.post(messages=turns, stream=True))
            start, end = warm[0]["message"]["usage"], warm[-2]["usage"]
            self.assertEqual({k: v for k, v in start.items() if k != "output_tokens"},
                             {k: v for k, v in end.items() if k != "output_tokens"})
        self.assertEqual(cold["usage"]["input_tokens"], total(cold["usage"]))
        self.assertGreaterEqual(start["cache_read_input_tokens"], kept)
        self.assertEqual(total(end), total(cold["usage"]))
        self.assertEqual(message_of(warm)["content"], cold["content"])
        plain = self.post(text="Nothing is marked here, so nothing is told.").json["usage"]
        self.assertEqual(plain["cache_creation_input_tokens"], 0)

    def test_a_long_prompt_is_told_before_it_is_read(self):
        text = "Tell me about the word " + "very " * 600 + "big."
        events = frames(self.post(text=text, stream=True, max_tokens=2))
        self.assertEqual([e["type"] for e in events].count("message_start"), 1)
        self.assertEqual(total(events[0]["message"]["usage"]), self.post(COUNT, text=text).json["input_tokens"])
        self.assertGreater(total(events[0]["message"]["usage"]), 600)
        self.assertEqual(total(events[-2]["usage"]), total(events[0]["message"]["usage"]))

    def test_headers_come_before_the_prompt_is_read(self):
        answer = self.post(text="Nobody has asked this.", stream=True, max_tokens=1)
        self.assertIn("x-queue-ms", answer.headers)

    def test_prefill_goes_on(self):
        turns = ask()["messages"] + [{"role": "assistant", "content": "Once upon a time "}]
        chat = self.server.post(CHAT, ask(messages=turns, enable_thinking=False)).json
        self.assertEqual(self.post(messages=turns).json["content"][0]["text"], chat["choices"][0]["message"]["content"])

    def test_output_format(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"],
                  "additionalProperties": False}
        answer = self.post(output_config={"format": {"type": "json_schema", "schema": schema}}, max_tokens=40).json
        self.assertEqual(answer["stop_reason"], "end_turn")
        self.assertIn(json.loads(answer["content"][0]["text"])["n"], range(1, 10))

    def test_errors(self):
        cases = [({"messages": []}, 400, "messages: expected an array"), ({"max_tokens": 0}, 400, "max_tokens: "),
                 ({"temperature": 9}, 400, "temperature: "), ({"messages": [{"role": "user", "content": [
                     {"type": "image", "source": {"type": "url", "url": "x"}}]}]}, 400, "messages[0].content[0]: image"),
                 ({"tool_choice": {"type": "odd"}}, 400, "tool_choice.type: "),
                 ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "fish"}}}}, 400,
                  "response_format"),
                 ({"messages": [{"role": "user", "content": "word " * 2000}]}, 400, "prompt is too long: ")]
        for path in (MESSAGES, "/messages/", MESSAGES + "?beta=true"):
            for fields, status, message in cases:
                for stream in (False, True):
                    answer = self.server.post(path, ask(**fields, stream=stream))
                    self.assertEqual((answer.status, answer.json["type"]), (status, "error"), answer.body)
                    self.assertEqual(answer.error["type"], "invalid_request_error")
                    self.assertTrue(answer.error["message"].startswith(message), answer.error)
                    self.assertEqual(answer.json["request_id"], answer.headers["request-id"])
        self.assertRegex(answer.error["message"], r"^prompt is too long: 2\d+ tokens > 1023 maximum$")
        for body in (b"", b"{", b"[]", b"{\"messages\":[\xff]}"):
            for path in (MESSAGES, COUNT):
                answer = self.server.post(path, body)
                self.assertEqual((answer.status, answer.error["type"]), (400, "invalid_request_error"))
        missing = self.server.post("/v1/messages/batches", {})
        self.assertEqual((missing.status, missing.error["type"]), (404, "not_found_error"))
        self.assertEqual(self.server.get(MESSAGES).error["type"], "invalid_request_error")
        self.assertEqual(self.server.post("/v1/complete", {}).status, 404)

    def test_models(self):
        version = {"anthropic-version": "2023-06-01"}
        models = self.server.get("/v1/models", headers=version).json
        self.assertEqual((models["first_id"], models["last_id"], models["has_more"]), ("demo", "demo", False))
        self.assertEqual(self.server.get("/v1/models/demo", headers=version).json, models["data"][0])
        self.assertRegex(models["data"][0]["created_at"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(self.server.get("/v1/models/x", headers=version).error["type"], "not_found_error")
        self.assertEqual(self.server.get("/v1/models").json["object"], "list")


class Thinker(Case):
    args = ("--ctx", "512", "--think")

    def test_the_servers_word_counts_where_a_request_says_nothing(self):
        self.assertEqual(self.server.post(MESSAGES, ask()).json["content"][0]["type"], "thinking")
        off = self.server.post(MESSAGES, ask(thinking={"type": "disabled"})).json
        self.assertEqual(off["content"][0]["type"], "text")


@unittest.skipIf(anthropic is None, "the package anthropic is not installed (tests/requirements.txt)")
class Client(Case):
    """Anthropic's own client, unmodified."""

    args = ("--ctx", "1024", "--api-key", "k")

    def setUp(self):
        self.client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{self.server.port}", api_key="k", max_retries=0)
        self.addCleanup(self.client.close)
        self.ask = {"model": "demo", "max_tokens": 40, "messages": [{"role": "user", "content": "Tell me a story."}],
                    "extra_body": {"seed": 7}}

    def test_messages(self):
        whole = self.client.messages.create(**self.ask)
        with self.client.messages.stream(**self.ask) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual((final.content[0].text, final.stop_reason), (text, whole.stop_reason))
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
        self.assertTrue(whole._request_id.startswith("req_"))

    def test_thinking_and_tools(self):
        self.ask.update(thinking={"type": "enabled", "budget_tokens": 1024}, tools=[TOOL], messages=HISTORY)
        with self.client.messages.stream(**self.ask) as stream:
            kinds = {e.type for e in stream}
            said = stream.get_final_message()
        self.assertIn("thinking", kinds)
        self.assertEqual(said.content[0].type, "thinking")
        self.assertTrue(said.content[0].signature)
        turns = HISTORY + [{"role": "assistant", "content": said.content}, {"role": "user", "content": "Go on."}]
        count = self.client.messages.count_tokens(model="demo", messages=turns, tools=[TOOL])
        usage = self.client.messages.create(**dict(self.ask, messages=turns, thinking={"type": "disabled"})).usage
        self.assertEqual(count.input_tokens,
                         usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)
        self.assertGreater(usage.cache_read_input_tokens, 100)

    def test_the_rest(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["demo"])
        self.assertEqual(self.client.models.retrieve("demo").type, "model")
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.messages.create(**dict(self.ask, extra_body={"temperature": 9}))
        self.assertIn("temperature", str(caught.exception))
        with self.assertRaises(anthropic.AuthenticationError):
            self.client.with_options(api_key="other").messages.create(**self.ask)
        with self.assertRaises(anthropic.NotFoundError):
            self.client.models.retrieve("other")


if __name__ == "__main__":
    unittest.main()
