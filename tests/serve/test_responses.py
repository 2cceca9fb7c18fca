"""OpenAI's Responses API over loopback, asked plainly and by the official client."""
import json
import pathlib
import shutil
import tempfile
import unittest

from support import Case, Server

try:
    import openai
except ImportError:
    openai = None

PATH = "/v1/responses"
STORY = {"input": "Tell me a story.", "seed": 7, "max_output_tokens": 24, "reasoning": {"effort": "none"}}


def frames(answer):
    """The events of a stream; each says its type twice, and counts."""
    text = answer.body.decode("utf-8")
    assert text.endswith("\n\n"), text[-80:]
    found = []
    for frame in text[:-2].split("\n\n"):
        if frame.startswith(":"):
            continue
        first, second = frame.split("\n")
        event = json.loads(second.removeprefix("data: "))
        assert first == "event: " + event["type"], frame
        assert event["sequence_number"] == len(found), frame
        found.append(event)
    return found


def without_ids(response):
    """What two responses to the same request share."""
    same = {k: v for k, v in response.items() if k not in ("id", "created_at", "completed_at", "usage")}
    same["output"] = [{k: v for k, v in item.items() if k != "id"} for item in response["output"]]
    return same


class Responses(Case):
    args = ("--ctx", "256")

    def create(self, status=200, **fields):
        answer = self.server.post(PATH, {**STORY, **fields})
        self.assertEqual(answer.status, status, answer.body)
        return answer.json if status == 200 else answer.error

    def stream(self, **fields):
        answer = self.server.post(PATH, {**STORY, "stream": True, **fields})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.headers["Connection"], "close")
        return frames(answer)

    def test_whole(self):
        found = self.create()
        item, = found["output"]
        chat = self.server.chat("Tell me a story.", seed=7, max_tokens=24).json
        self.assertEqual(item["content"][0]["text"], chat["choices"][0]["message"]["content"])
        self.assertEqual((found["status"], found["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        usage = found["usage"]
        self.assertEqual(usage["input_tokens"], chat["usage"]["prompt_tokens"])
        self.assertEqual((usage["output_tokens"], usage["total_tokens"]), (24, 24 + usage["input_tokens"]))
        self.assertEqual(self.server.post("/responses/input_tokens", STORY).json,
                         {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]})

    def test_stream(self):
        events = self.stream()
        deltas = [e for e in events if e["type"] == "response.output_text.delta"]
        self.assertEqual([e["type"].removeprefix("response.") for e in events if e not in deltas],
                         ["created", "in_progress", "output_item.added", "content_part.added", "output_text.done",
                          "content_part.done", "output_item.done", "incomplete"])
        last = events[-1]["response"]
        self.assertEqual("".join(e["delta"] for e in deltas), last["output"][0]["content"][0]["text"])
        self.assertEqual({e["item_id"] for e in deltas}, {last["output"][0]["id"]})
        self.assertEqual(events[-2]["item"], last["output"][0])
        self.assertEqual(without_ids(last), without_ids(self.create()))

    def test_reasoning(self):
        plain = self.create(reasoning={"effort": "low"})
        told = self.create(reasoning={"effort": "low", "summary": "auto"})
        thought = plain["output"][0]
        self.assertEqual((thought["type"], thought["summary"]), ("reasoning", []))
        self.assertEqual(told["output"][0]["summary"][0]["text"], thought["content"][0]["text"])
        self.assertEqual(told["output"][0]["content"], [])
        self.assertGreater(plain["usage"]["output_tokens_details"]["reasoning_tokens"], 0)
        events = self.stream(reasoning={"effort": "low"})
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "response.reasoning_text.delta"),
                         thought["content"][0]["text"])

    def test_logprobs(self):
        text = self.create(include=["message.output_text.logprobs"], top_logprobs=2)["output"][0]["content"][0]
        self.assertEqual("".join(e["token"] for e in text["logprobs"]), text["text"])
        self.assertEqual({len(e["top_logprobs"]) for e in text["logprobs"]}, {2})
        deltas = [e for e in self.stream(include=["message.output_text.logprobs"], top_logprobs=2)
                  if e["type"] == "response.output_text.delta"]
        self.assertEqual([entry for e in deltas for entry in e["logprobs"]], text["logprobs"])

    def test_store(self):
        first = self.create(instructions="Be kind.")
        self.assertEqual(self.server.get(f"{PATH}/{first['id']}").json, first)
        listed = self.server.get(f"{PATH}/{first['id']}/input_items").json
        self.assertEqual([i["content"][0]["text"] for i in listed["data"]], ["Tell me a story."])
        self.assertEqual((listed["first_id"], listed["has_more"]), (listed["data"][0]["id"], False))
        # A response continues another as the whole list of items would, without its instructions.
        more = {"input": "And then?", "previous_response_id": first["id"]}
        second = self.create(**more)
        whole = self.create(input=[{"role": "user", "content": "Tell me a story."}, *first["output"],
                                   {"role": "user", "content": "And then?"}])
        self.assertEqual(second["output"][0]["content"], whole["output"][0]["content"])
        self.assertEqual(second["usage"]["input_tokens"], whole["usage"]["input_tokens"])
        third = self.create(input="Why?", previous_response_id=second["id"])
        self.assertGreater(third["usage"]["input_tokens"], second["usage"]["input_tokens"])
        self.assertEqual(self.server.ask("POST", f"{PATH}/{first['id']}/cancel").status, 400)
        gone = self.server.ask("DELETE", f"{PATH}/{first['id']}")
        self.assertEqual(gone.json, {"id": first["id"], "object": "response.deleted", "deleted": True})
        for path in (first["id"], first["id"] + "/input_items", "resp_x"):
            self.assertEqual(self.server.get(f"{PATH}/{path}").status, 404)
        for previous in (first["id"], second["id"], "resp_x"):
            error = self.create(404, previous_response_id=previous)
            self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))
        self.assertEqual(self.server.get(f"{PATH}/{self.create(store=False)['id']}").status, 404)

    def test_input_items(self):
        made = self.create(input=[{"role": "user", "content": str(i)} for i in range(5)])
        path = f"{PATH}/{made['id']}/input_items"
        ids = [i["id"] for i in self.server.get(path + "?order=asc").json["data"]]
        self.assertEqual([i["id"] for i in self.server.get(path).json["data"]], ids[::-1])
        page = self.server.get(f"{path}?order=asc&limit=2&after={ids[1]}").json
        self.assertEqual(([i["id"] for i in page["data"]], page["has_more"]), (ids[2:4], True))
        self.assertEqual(self.server.get(path + "?limit=0").error["param"], "limit")
        self.assertEqual(self.server.get(path + "?after=x").error["param"], "after")

    def test_tools_of_all_kinds(self):
        kinds = ["web_search", "web_search_preview", "file_search", "image_generation", "code_interpreter", "mcp",
                 "computer_use_preview", "tool_search", "local_shell", "of next year"]
        tools = [{"type": k} for k in kinds] + [
            {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}, "strict": False},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
            {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g"}]}]
        body = {**STORY, "input": "Hi.", "tools": tools, "tool_choice": "auto", "parallel_tool_calls": False}
        count = self.server.post(PATH + "/input_tokens", body)
        self.assertEqual(count.status, 200, count.body)
        # As many tokens as the functions that stand for them have in a chat; here they fill the context.
        self.assertGreater(count.json["input_tokens"], 256)
        answer = self.server.post(PATH, {**body, "tools": tools[:8] + tools[9:10]})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIn("9 tools", answer.headers["Warning"])
        self.assertEqual(len(answer.json["tools"]), 9)

    def test_a_context_that_is_full(self):
        long = {"input": "word " * 400}
        self.assertEqual(self.create(400, **long)["code"], "context_length_exceeded")
        events = self.stream(**long)
        self.assertEqual([e["type"] for e in events], ["response.created", "response.in_progress", "response.failed"])
        self.assertEqual(events[-1]["response"]["error"]["code"], "context_length_exceeded")

    def test_refused(self):
        for fields, param in (({"background": True}, "background"), ({"conversation": "c"}, "conversation"),
                              ({"temperature": 9}, "temperature"), ({"input": []}, "input"),
                              ({"reasoning": {"effort": "hgih"}}, "reasoning.effort")):
            self.assertEqual(self.create(400, **fields)["param"], param)
        for effort in ("minimal", "xhigh", "max"):
            self.create(reasoning={"effort": effort}, max_output_tokens=1)
        self.assertEqual(self.server.post(PATH + "/compact", {}).status, 404)
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        self.assertEqual(self.server.get(PATH, headers=upgrade).status, 426)
        self.assertEqual(self.server.get(PATH).headers["Allow"], "POST, OPTIONS")
        self.assertEqual(self.server.ask("PUT", PATH + "/x").headers["Allow"], "GET, HEAD, DELETE, OPTIONS")


class Kept(unittest.TestCase):
    """With --cache-dir responses outlive the server, and a broken file does not stop it."""

    def test_file(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-serve-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)

        def start():
            server = Server("--threads", "1", "--ctx", "128", "--cache-dir", folder / "cache", folder=folder)
            self.addCleanup(server.stop)
            return server

        server = start()
        first = server.post(PATH, {**STORY, "max_output_tokens": 4}).json
        server.stop()
        server = start()
        self.assertEqual(server.get(f"{PATH}/{first['id']}").json, first)
        server.stop()
        (folder / "cache" / "responses.sqlite3").write_bytes(b"no database " * 1000)
        server = start()
        self.assertEqual(server.get(f"{PATH}/{first['id']}").status, 404)
        again = server.post(PATH, {**STORY, "max_output_tokens": 4}).json
        self.assertEqual(server.get(f"{PATH}/{again['id']}").json, again)
        self.assertTrue((folder / "cache" / "responses.sqlite3.broken").exists())


@unittest.skipIf(openai is None, "the package openai is not installed (tests/requirements.txt)")
class Client(Case):
    args = ("--ctx", "256")
    ask = {"model": "demo", "input": "Tell me a story.", "max_output_tokens": 24, "reasoning": {"effort": "none"},
           "extra_body": {"seed": 7}}

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def test_responses(self):
        whole = self.client.responses.create(**self.ask)
        events = list(self.client.responses.create(stream=True, **self.ask))
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        with self.client.responses.stream(**self.ask) as stream:
            built = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        self.assertEqual(built, whole.output_text)
        self.assertGreater(len(built), 10)

    def test_the_rest(self):
        whole = self.client.responses.create(**self.ask)
        self.assertEqual(self.client.responses.retrieve(whole.id).output_text, whole.output_text)
        self.assertEqual([i.role for i in self.client.responses.input_items.list(whole.id)], ["user"])
        more = self.client.responses.create(**{**self.ask, "input": "And then?", "previous_response_id": whole.id})
        self.assertEqual(more.previous_response_id, whole.id)
        self.client.responses.delete(whole.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(whole.id)


if __name__ == "__main__":
    unittest.main()
