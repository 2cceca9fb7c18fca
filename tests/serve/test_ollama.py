"""Ollama's API: lines, whole answers and Chat Completions say the same; what is served has names."""
import json
import unittest

from support import CHAT, Case, message

SHORT = {"seed": 7, "num_predict": 16}


def ask(text, **fields):
    body = {"model": "demo", "messages": [{"role": "user", "content": text}], "think": False, "options": SHORT}
    body.update(fields)
    return body


class Ollama(Case):
    args = ("--ctx", "512")

    def post(self, path, body):
        return self.server.post(path, body)

    def lines(self, path, body):
        answer = self.post(path, body)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/x-ndjson"), answer.body)
        text = answer.body.decode()
        self.assertTrue(text.endswith("\n"))
        found = [json.loads(line) for line in text[:-1].split("\n")]
        for line in found:
            self.assertEqual(line["model"], body["model"])
            self.assertRegex(line["created_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$")
        self.assertEqual([line["done"] for line in found], [False] * (len(found) - 1) + [True])
        return found

    def refused(self, status, path, body, words, method="POST"):
        answer = self.server.ask(method, path, body)
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(list(answer.json), ["error"])
        self.assertIn(words, answer.json["error"])

    def test_lines_and_whole_and_chat_completions_say_the_same(self):
        other = self.server.chat("Tell me a story.", seed=7, max_tokens=16).json
        said = other["choices"][0]["message"]["content"]
        self.assertGreater(len(said), 20)
        lines = self.lines("/api/chat", ask("Tell me a story."))
        self.assertGreater(len(lines), 5)
        self.assertEqual("".join(x["message"]["content"] for x in lines), said)
        self.assertTrue(all(x["message"]["content"] and "thinking" not in x["message"] for x in lines[:-1]))
        last = lines[-1]
        self.assertEqual((last["message"], last["done_reason"]), ({"role": "assistant", "content": ""}, "length"))
        self.assertEqual((last["prompt_eval_count"], last["eval_count"]), (other["usage"]["prompt_tokens"], 16))
        whole = self.post("/api/chat", ask("Tell me a story.", stream=False))
        self.assertTrue(whole.headers["Content-Type"].startswith("application/json"))
        self.assertEqual(whole.json["message"], {"role": "assistant", "content": said})
        self.assertGreater(whole.json["prompt_cached_count"], 0)
        for name in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"]:
            self.assertIsInstance(whole.json[name], int)
        self.assertGreater(whole.json["total_duration"], whole.json["eval_duration"])

    def test_thinking_is_a_field_of_its_own(self):
        body = message("Hello.", seed=3, max_tokens=90)
        body["enable_thinking"] = True
        other = self.server.post(CHAT, body).json["choices"][0]["message"]
        options = {"seed": 3, "num_predict": 90}
        lines = self.lines("/api/chat", ask("Hello.", think=True, options=options))
        self.assertTrue(other["reasoning"])
        self.assertEqual("".join(x["message"].get("thinking", "") for x in lines), other["reasoning"])
        self.assertEqual("".join(x["message"]["content"] for x in lines), other["content"])
        whole = self.post("/api/chat", ask("Hello.", think="high", options=options, stream=False)).json
        self.assertEqual(whole["message"]["thinking"], other["reasoning"])

    def test_options(self):
        greedy = {"temperature": "0", "num_predict": 6}
        words = [self.post("/api/chat", ask("Hi.", stream=False, options=dict(greedy, seed=i))).json["message"]["content"]
                 for i in range(2)]
        self.assertEqual(words[0], words[1])
        whole = self.post("/api/chat", ask("Tell me a story.", stream=False)).json["message"]["content"]
        word = whole.split()[4]
        cut = self.post("/api/chat", ask("Tell me a story.", stream=False, options=dict(SHORT, stop=[word]))).json
        self.assertEqual((cut["message"]["content"], cut["done_reason"]), (whole[:whole.index(word)], "stop"))
        few = ask("Tell me a story.", stream=False, options={"seed": 7, "num_predict": -1})
        few["options"]["num_ctx"] = self.post("/api/chat", ask("Tell me a story.", stream=False)).json["prompt_eval_count"] + 5
        few = self.post("/api/chat", few).json
        self.assertEqual((few["eval_count"], few["done_reason"]), (5, "length"))
        self.refused(400, "/api/chat", ask("Hi.", options={"num_predict": -3}), "options.num_predict: expected -2")
        self.refused(400, "/api/chat", ask("Hi.", options={"temperature": "hot"}), "temperature: expected a number")

    def test_logprobs(self):
        body = ask("Tell me a story.", logprobs=True, top_logprobs=2)
        whole = self.post("/api/chat", dict(body, stream=False)).json
        self.assertEqual("".join(e["token"] for e in whole["logprobs"]), whole["message"]["content"])
        self.assertEqual({len(e["top_logprobs"]) for e in whole["logprobs"]}, {2})
        self.assertEqual([e for x in self.lines("/api/chat", body) for e in x.get("logprobs", [])], whole["logprobs"])

    def test_oldest_turns_make_room(self):
        turns = [{"role": "system", "content": "Be brief."}]
        for i in range(30):
            turns += [{"role": "user", "content": f"Question number {i} of many, with some more words."},
                      {"role": "assistant", "content": f"Answer number {i}, which is short."}]
        turns.append({"role": "user", "content": "And now?"})
        body = ask("", messages=turns, stream=False, options={"seed": 1, "num_predict": 2, "num_ctx": 256})
        kept = self.post("/api/chat", body).json["prompt_eval_count"]
        self.assertLess(kept, 256)
        self.assertGreater(kept, 180)
        self.refused(400, "/api/chat", dict(body, truncate=False), "prompt is too long")
        self.refused(400, "/api/chat", dict(body, messages=turns[-1:], options={"num_ctx": 4}), "prompt is too long")

    def test_generate(self):
        body = {"model": "demo", "prompt": "Tell me a story.", "think": False, "options": SHORT}
        said = self.post("/api/chat", ask("Tell me a story.", stream=False)).json["message"]["content"]
        lines = self.lines("/api/generate", body)
        self.assertEqual("".join(x["response"] for x in lines), said)
        self.assertEqual([x for x in lines[:-1] if "context" in x], [])
        whole = self.post("/api/generate", dict(body, stream=False)).json
        self.assertEqual((whole["response"], whole["context"]), (said, lines[-1]["context"]))
        system = self.post("/api/generate", dict(body, stream=False, system="Speak of boats.")).json
        self.assertGreater(system["prompt_eval_count"], whole["prompt_eval_count"])

    def test_context_goes_on_from_what_was_said(self):
        body = {"model": "demo", "prompt": "My colour is teal.", "think": False, "options": SHORT, "stream": False}
        first = self.post("/api/generate", body).json
        second = self.post("/api/generate", dict(body, prompt="Which colour?", context=first["context"])).json
        chat = [{"role": "user", "content": "Which colour?"}]
        own = self.server.post("/tokenize", {"messages": chat, "enable_thinking": False}).json["tokens"]
        self.assertEqual(second["context"][:len(first["context"]) + len(own)], first["context"] + own)
        self.assertGreaterEqual(second["prompt_cached_count"], first["prompt_eval_count"])
        text = self.server.post("/detokenize", {"tokens": first["context"]}).json["content"]
        self.assertTrue(text.endswith(first["response"] + "<|im_end|>\n"), text)
        self.refused(400, "/api/generate", dict(body, context=[1 << 40]), "context: expected token ids")

    def test_raw(self):
        other = self.server.post("/v1/completions", {"prompt": "Once upon a time", "seed": 7, "max_tokens": 8}).json
        body = {"model": "demo", "prompt": "Once upon a time", "raw": True, "stream": False,
                "options": {"seed": 7, "num_predict": 8}}
        whole = self.post("/api/generate", body).json
        self.assertEqual(whole["response"], other["choices"][0]["text"])
        self.assertEqual(whole["prompt_eval_count"], other["usage"]["prompt_tokens"])
        self.assertNotIn("context", whole)

    def test_nothing_asked_is_a_load(self):
        for path, part in [("/api/chat", {"messages": []}), ("/api/generate", {"prompt": ""}), ("/api/generate", {})]:
            for keep, reason in [(None, "load"), ("5m", "load"), (-1, "load"), (0, "unload"), ("0s", "unload")]:
                answer = self.post(path, dict(part, model="demo", keep_alive=keep)).json
                self.assertEqual((answer["done"], answer["done_reason"]), (True, reason))
        self.assertEqual(answer["response"], "")

    def test_names(self):
        tags = self.server.get("/api/tags").json["models"]
        self.assertEqual([m["name"] for m in tags], ["demo:latest"])
        self.assertRegex(tags[0]["digest"], r"^[0-9a-f]{64}$")
        self.assertEqual(tags[0]["details"]["family"], "qwen35")
        running = self.server.get("/api/ps").json["models"][0]
        self.assertEqual((running["digest"], running["context_length"]), (tags[0]["digest"], 512))
        for name in ["demo", "demo:latest", "DEMO:Latest"]:
            answer = self.post("/api/chat", ask("Hi.", model=name, stream=False)).json
            self.assertEqual(answer["model"], name)
            shown = self.post("/api/show", {"name": name}).json
            self.assertEqual(shown["model_info"]["qwen35.context_length"], 512)
            self.assertEqual(shown["capabilities"], ["completion", "tools", "thinking"])
        for path in ["/api/chat", "/api/generate", "/api/show", "/api/embed", "/api/push"]:
            self.refused(404, path, {"model": "llama3", "messages": []}, 'model "llama3" not found')
        self.refused(400, "/api/chat", {"messages": []}, "model is required")

    def test_what_is_not_served_is_refused_by_name(self):
        images = [{"role": "user", "content": "What is this?", "images": ["aGVsbG8="]}]
        self.refused(400, "/api/chat", ask("", messages=images), "messages[0].images")
        self.refused(400, "/api/generate", {"model": "demo", "prompt": "x", "images": ["aGVsbG8="]}, "images:")
        self.refused(400, "/api/generate", {"model": "demo", "prompt": "x", "suffix": "y"}, "suffix:")
        self.refused(400, "/api/chat", ask("Hi.", format={"type": "fish"}), "format: ")
        self.refused(400, "/api/chat", ask("Hi.", think="hardly"), "think:")
        self.refused(400, "/api/embed", {"model": "demo", "input": "x"}, "does not support embeddings")
        self.refused(400, "/api/embeddings", {"model": "demo", "prompt": "x"}, "does not support embeddings")
        self.refused(400, "/api/pull", {"model": "llama3"}, "not supported")
        self.refused(400, "/api/create", {"model": "x", "from": "demo"}, "not supported")
        self.refused(400, "/api/push", {"model": "demo"}, "not supported")
        self.refused(400, "/api/copy", {"source": "demo", "destination": "x"}, "not supported")
        self.refused(404, "/api/copy", {"source": "x", "destination": "y"}, 'model "x" not found')
        self.refused(400, "/api/delete", {"model": "demo"}, "not supported", method="DELETE")
        self.refused(404, "/api/delete", {"model": "x"}, 'model "x" not found', method="DELETE")
        self.refused(405, "/api/delete", {"model": "x"}, "DELETE")
        self.refused(404, "/api/nope", {}, "no such path")
        self.refused(400, "/api/chat", b"{", "not valid JSON")
        self.assertEqual(self.post("/api/pull", {"model": "demo"}).json, {"status": "success"})

    def test_is_anybody_there(self):
        self.assertEqual(self.server.get("/").body, b"Ollama is running")
        self.assertEqual(self.server.ask("HEAD", "/").status, 200)
        page = self.server.get("/", headers={"Accept": "text/html,*/*"})
        self.assertEqual(page.status, 200)
        self.assertNotIn(b"Ollama", page.body)
        self.assertRegex(self.server.get("/api/version").json["version"], r"^\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
