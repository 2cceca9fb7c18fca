"""Replies that keep to a form: every way to ask for one, over both paths, streamed or whole."""
import json
import re
import subprocess
import unittest

from support import CHAT, DEMO, PROGRAM, Case, environment, joined, message

PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age"], "properties": {
    "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
    "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}}}
STRICT = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
LONG = {"seed": 11, "max_tokens": 400}
STORY = "Tell me a story."
BAD = {"properties": {"a/b": {"not": {}}}}
WHERE = "#/properties/a~1b/not"


class Forms(Case):
    args = ("--ctx", "1024")

    def is_person(self, text):
        p = json.loads(text)
        self.assertIs(type(p), dict)
        self.assertLessEqual(set(p), {"name", "age", "tags"})
        self.assertTrue(isinstance(p["name"], str) and len(p["name"]) <= 12, text)
        self.assertTrue(type(p["age"]) is int and 0 <= p["age"] <= 120, text)
        self.assertTrue(len(p.get("tags", [])) <= 3 and set(p.get("tags", [])) <= {"a", "b"}, text)
        return p

    def said(self, **fields):
        answer = self.server.chat(STORY, **dict(LONG, **fields))
        self.assertEqual(answer.status, 200, answer.body)
        choice = answer.json["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        return choice["message"]["content"]

    def test_every_spelling_of_a_schema(self):
        flat = {"type": "json_schema", "schema": PERSON}
        ways = [{"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}},
                {"response_format": flat}, {"response_format": {"type": "json_object", "schema": PERSON}},
                {"json_schema": PERSON}, {"guided_json": PERSON}, {"guided_json": json.dumps(PERSON)},
                {"structured_outputs": {"json": PERSON}}, {"guided_json": PERSON, "response_format": {"type": "text"}}]
        texts = [self.said(**w) for w in ways]
        self.is_person(texts[0])
        self.assertEqual(len(set(texts)), 1)
        schema = self.folder / "person.json"
        schema.write_text(json.dumps(PERSON))
        done = subprocess.run([PROGRAM, "run", DEMO, "-p", STORY, "--no-think", "--seed", "11", "--max-tokens", "400",
                               "--json-schema", schema], capture_output=True, text=True, check=True,
                              env=environment(self.folder), stdin=subprocess.DEVNULL)
        self.assertEqual(done.stdout.rstrip("\n"), texts[0].rstrip("\n"))

    def test_strict_keeps_the_order(self):
        for seed in range(4):
            hot = {"seed": seed, "temperature": 2, "response_format": STRICT}
            self.assertIn(list(self.is_person(self.said(**hot))), [["name", "age"], ["name", "age", "tags"]])

    def test_stream_choices_and_logprobs(self):
        body = message(STORY, response_format=STRICT, n=2, logprobs=True, top_logprobs=1, temperature=1.2, **LONG)
        whole = self.server.post(CHAT, body).json["choices"]
        events = self.server.post(CHAT, dict(body, stream=True)).events
        self.assertEqual(events[-1], "[DONE]")
        self.assertNotEqual(whole[0]["message"]["content"], whole[1]["message"]["content"])
        for c in whole:
            text = c["message"]["content"]
            self.is_person(text)
            self.assertEqual(joined(events, index=c["index"]), text)
            self.assertEqual(b"".join(bytes(t["bytes"]) for t in c["logprobs"]["content"]).decode(), text)
        again = self.server.post(CHAT, body).json["choices"]
        self.assertEqual(again, whole)

    def test_reasoning_is_free(self):
        body = message(STORY, response_format=STRICT, seed=1, max_tokens=400, enable_thinking=True)
        said = self.server.post(CHAT, body).json["choices"][0]["message"]
        self.assertTrue(said["reasoning_content"] and "{" not in said["reasoning_content"], said)
        self.is_person(said["content"])
        events = self.server.post(CHAT, dict(body, stream=True)).events
        self.assertEqual((joined(events, "reasoning_content"), joined(events)),
                         (said["reasoning_content"], said["content"]))
        cut = self.server.post(CHAT, dict(body, max_tokens=4)).json["choices"][0]
        self.assertEqual(cut["finish_reason"], "length")
        self.assertTrue(cut["message"]["reasoning_content"])
        self.assertFalse(cut["message"]["content"])

    def test_objects(self):
        for way in [{"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}]:
            choice = self.server.chat(STORY, seed=4, max_tokens=60, temperature=1.5, **way).json["choices"][0]
            self.assertRegex(choice["message"]["content"], r"^\{")
            if choice["finish_reason"] == "stop":
                self.assertIs(type(json.loads(choice["message"]["content"])), dict)

    def test_patterns_choices_and_grammars(self):
        rules = 'root ::= "answer: " ("x" | "yy"){2}'
        said = "answer: (x|yy){2}"
        for fields, pattern in [({"guided_regex": "[0-9]{3}-[a-f]{1,4}"}, r"[0-9]{3}-[a-f]{1,4}"),
                                ({"structured_outputs": {"regex": "a+b"}}, "a+b"),
                                ({"guided_choice": ["yes", "no \"x\"", "néant"]}, 'yes|no "x"|néant'),
                                ({"structured_outputs": {"choice": ["7"]}}, "7"),
                                ({"grammar": rules}, said), ({"guided_grammar": rules}, said),
                                ({"structured_outputs": {"grammar": rules}}, said),
                                ({"grammar": rules, "response_format": STRICT, "guided_regex": "a"}, said)]:
            for more in [{}, {"ignore_eos": True, "min_tokens": 50, "repetition_penalty": 1.5}]:
                text = self.said(temperature=2, **fields, **more)
                self.assertTrue(re.fullmatch(pattern, text), text)
        body = {"prompt": "Once upon", "guided_choice": ["a", "bcd"], "seed": 1, "n": 2, "echo": True}
        whole = [c["text"] for c in self.server.post("/v1/completions", body).json["choices"]]
        self.assertLessEqual(set(whole), {"Once upona", "Once uponbcd"})

    def test_a_bias_does_not_lead_out(self):
        ident = self.server.post("/tokenize", {"content": "z"}).json["tokens"][0]
        self.assertIn(self.said(guided_choice=["yes", "no"], logit_bias={str(ident): 100}), ["yes", "no"])

    def test_refusals_name_field_and_place(self):
        for fields, param, why in [
                ({"response_format": {"type": "json_schema", "json_schema": {"schema": BAD}}},
                 "response_format.json_schema.schema", WHERE),
                ({"response_format": {"type": "json_object", "schema": BAD}}, "response_format.schema", WHERE),
                ({"guided_json": json.dumps(BAD)}, "guided_json", WHERE),
                ({"structured_outputs": {"json": {"type": "strnig"}}}, "structured_outputs.json", "#/type"),
                ({"guided_regex": "a(?=b)"}, "guided_regex", "offset 2"),
                ({"grammar": "root ::= x"}, "grammar", '"x" is not defined'),
                ({"guided_choice": ["a", 1]}, "guided_choice", "index 1"),
                ({"response_format": {"type": "xml"}}, "response_format.type", "xml")]:
            for path, body in [(CHAT, message(STORY)), ("/v1/completions", {"prompt": "x"})]:
                answer = self.server.post(path, dict(body, stream=True, max_tokens=4, **fields))
                self.assertEqual((answer.status, answer.error["param"]), (400, param), answer.body)
                self.assertEqual(answer.error["type"], "invalid_request_error")
                self.assertIn(why, answer.error["message"])

    def test_beside_tools(self):
        tools = [{"type": "function", "function": {"name": "area", "parameters": {"type": "object"}}}]
        answer = self.server.chat(STORY, response_format=STRICT, tools=tools)
        self.assertEqual((answer.status, answer.error["param"]), (400, "tools"))
        self.is_person(self.said(response_format=STRICT, tools=tools, tool_choice="none"))
        self.is_person(self.said(response_format=STRICT, tools=[]))

    def test_who_hangs_up_leaves_nothing_behind(self):
        body = message(STORY, guided_regex="[a-z ]{5000}", max_tokens=900, stream=True, seed=1)
        asking = self.server.begin(CHAT, body)
        self.assertIn(b"200", asking.recv(64))
        asking.close()
        self.server.wait_for("vllm:num_requests_running", 0)
        self.is_person(self.said(guided_json=PERSON))

    def test_white_space(self):
        ident = self.server.post("/tokenize", {"content": " "}).json["tokens"][0]
        nulls = {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 2}
        body = {"json_schema": nulls, "logit_bias": {str(ident): 100}, "max_tokens": 50, "seed": 1}
        for more in [{}, {"any_whitespace": True}, {"structured_outputs": {"json": {}, "any_whitespace": True}}]:
            choice = self.server.chat(STORY, **body, **more).json["choices"][0]
            text = choice["message"]["content"]
            if more:
                self.assertEqual((choice["finish_reason"], text[:1], set(text[1:])), ("length", "[", {" "}))
            else:
                self.assertEqual((choice["finish_reason"], json.loads(text)), ("stop", [None, None]))
                self.assertNotIn("  ", text)


if __name__ == "__main__":
    unittest.main()
