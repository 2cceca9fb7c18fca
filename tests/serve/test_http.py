"""What is around a request: methods, paths, keys, hosts, origins, bodies that are wrong."""
import json
import socket
import unittest

from support import CHAT, Case, message


class Wrong(Case):
    args = ("--ctx", "256")

    def refused(self, answer, status, code=None, param=None):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(set(answer.error), {"message", "type", "param", "code"} | (
            {"n_prompt_tokens", "n_ctx"} if code == "context_length_exceeded" else set()))
        self.assertEqual((answer.error["code"], answer.error["param"]), (code, param))
        return answer.error["message"]

    def test_bodies_that_are_no_object(self):
        self.assertIn("nothing", self.refused(self.server.post(CHAT, b""), 400))
        self.assertIn("before byte 17", self.refused(self.server.post(CHAT, b'{"messages": nope}'), 400))
        self.assertIn("an array", self.refused(self.server.post(CHAT, b"[1]"), 400))
        self.assertIn("byte 6", self.refused(self.server.post(CHAT, b'{"a":"\xff"}'), 400))
        self.assertIn("deeper", self.refused(self.server.post(CHAT, b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"), 400))
        self.refused(self.server.post(CHAT, b'{"seed": 18446744073709551617}'), 400)

    def test_what_json_allows(self):
        body = json.dumps(message("x", max_tokens=1)).encode()
        odd = body.replace(b'"x"', b'"a \\ud83d b \\ud83d\\ude00"').replace(b'"max_tokens": 1', b'"max_tokens": 9, "max_tokens": 1')
        answer = self.server.post(CHAT, odd, headers={"Content-Type": "application/x-www-form-urlencoded"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.json["usage"]["completion_tokens"], 1)
        shown = self.server.post("/apply-template", odd).json["prompt"]
        self.assertIn("a \ufffd b \U0001f600", shown)

    def test_wrong_fields_are_named(self):
        for field, value in [("temperature", "hot"), ("temperature", 5.1), ("top_p", -0.1), ("top_k", -2), ("n", 0), ("n", 17),
                             ("max_tokens", -1), ("max_tokens", 0), ("seed", 1.5), ("stream", "yes"), ("stop", 5),
                             ("stop", ["a"] * 17), ("logit_bias", []), ("logit_bias", {"x": 1}), ("logit_bias", {"1": 101}),
                             ("logit_bias", {"99999999": 1}), ("presence_penalty", 2.5), ("top_logprobs", 21), ("min_p", 2),
                             ("repetition_penalty", 0), ("reasoning_effort", "hihg"), ("priority", "urgent"),
                             ("response_format", "json"), ("tool_choice", "required"), ("grammar", "root"),
                             ("modalities", ["audio"]), ("thinking_budget", -2), ("stop_token_ids", [-1]), ("tools", {}),
                             ("adapter", "nobody"), ("chat_template_kwargs", 3), ("messages", []), ("messages", "hi")]:
            with self.subTest(field=field, value=value):
                self.refused(self.server.chat("x", **{field: value}), 400, None, field)

    def test_wrong_messages_are_named(self):
        for wrong, name in [({"role": "user", "content": 5}, "messages[1].content"),
                            ({"role": "robot", "content": "x"}, "messages[1].role"),
                            ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
                             "messages[1].content[0]"),
                            ({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{no"}}]},
                             "messages[1].tool_calls[0].function.arguments")]:
            with self.subTest(name=name):
                answer = self.server.post(CHAT, {"messages": [{"role": "user", "content": "x"}, wrong]})
                self.assertEqual(answer.status, 400)
                self.assertEqual(answer.error["param"], name)

    def test_null_is_absent(self):
        nothing = dict.fromkeys(["temperature", "n", "stop", "tools", "tool_choice", "response_format", "seed", "user",
                                 "logit_bias", "stream_options", "functions", "unheard_of"])
        self.assertEqual(self.server.chat("x", max_tokens=1, **nothing).status, 200)
        self.assertEqual(self.server.chat("x", max_tokens=1, unheard_of={"a": 1}).status, 200)

    def test_prompt_longer_than_the_context(self):
        for stream in [False, True]:
            answer = self.server.chat("word " * 400, stream=stream)
            text = self.refused(answer, 400, "context_length_exceeded", "messages")
            self.assertTrue(text.startswith("prompt is too long: "), text)
            self.assertEqual(answer.error["n_ctx"], 256)
            self.assertGreater(answer.error["n_prompt_tokens"], 256)

    def test_paths_and_methods(self):
        self.refused(self.server.get("/v1/nope"), 404, "not_found")
        wrong = self.server.get(CHAT)
        self.refused(wrong, 405, "method_not_allowed")
        self.assertEqual(wrong.headers["Allow"], "POST, OPTIONS")
        self.refused(self.server.post("/v1/models", {}), 405, "method_not_allowed")
        self.assertEqual(self.server.get("/api/nope").json, {"error": "/api/nope: no such path"})
        self.assertEqual(self.server.get("/v1/messages/x").json["type"], "error")
        for path in [CHAT + "/", CHAT + "?beta=true", "/chat/completions"]:
            self.assertEqual(self.server.post(path, message("x", max_tokens=1)).status, 200)
        head = self.server.ask("HEAD", "/health")
        self.assertEqual((head.status, head.body, head.headers["Content-Length"]), (200, b"", "15"))

    def test_one_connection_for_many_requests(self):
        connection = self.server.connect()
        self.assertEqual(self.server.get("/nope", connection=connection).status, 404)
        first = connection.sock
        for stream in [True, False, True]:
            body = message("x", max_tokens=2, stream=stream)
            self.assertEqual(self.server.post(CHAT, body, connection=connection).status, 200)
        self.assertIs(connection.sock, first)
        connection.close()

    def test_body_in_chunks(self):
        connection = self.server.connect()
        data = json.dumps(message("x", max_tokens=1)).encode()
        connection.request("POST", CHAT, body=iter([data[:10], data[10:]]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def raw(self, text):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as s:
            s.sendall(text.encode())
            return s.recv(65536).decode()

    def test_framing(self):
        both = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.assertTrue(self.raw(both).startswith("HTTP/1.1 400"))
        huge = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000000\r\n\r\n"
        self.assertTrue(self.raw(huge).startswith("HTTP/1.1 413"))
        expects = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
        self.assertTrue(self.raw(expects).startswith("HTTP/1.1 100"))
        long = f"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: {'a' * 70000}\r\n\r\n"
        self.assertRegex(self.raw(long), "^HTTP/1.1 4(31|13)")

    def test_ids(self):
        mine = self.server.get("/health", headers={"x-request-id": "abc.DEF-1_2"})
        self.assertEqual(mine.headers["x-request-id"], "abc.DEF-1_2")
        other = self.server.get("/health", headers={"x-request-id": "a b"})
        self.assertRegex(other.headers["x-request-id"], "^req_[A-Za-z0-9]{24}$")
        self.assertEqual(other.headers["x-model-id"], "demo")
        self.assertRegex(self.server.chat("x", max_tokens=1, stream=True).headers["x-queue-ms"], r"^\d+$")

    def test_host_and_origin(self):
        self.assertEqual(self.server.get("/health", headers={"Host": "evil.example"}).status, 403)
        self.assertEqual(self.server.get("/health", headers={"Host": "localhost:1234"}).status, 200)
        near = self.server.get("/nope", headers={"Origin": "http://localhost:3000"})
        self.assertEqual(near.headers["Access-Control-Allow-Origin"], "http://localhost:3000")
        self.assertIn("x-request-id", near.headers["Access-Control-Expose-Headers"])
        for origin in ["https://evil.example", "http://localhost.evil.example", "http://localhost:80.evil.example"]:
            far = self.server.get("/health", headers={"Origin": origin})
            self.assertNotIn("Access-Control-Allow-Origin", far.headers)
        asked = {"Origin": "http://127.0.0.1", "Access-Control-Request-Headers": "x-stainless-os, authorization",
                 "Access-Control-Request-Private-Network": "true"}
        flight = self.server.ask("OPTIONS", CHAT, headers=asked)
        self.assertEqual((flight.status, flight.body), (204, b""))
        self.assertEqual(flight.headers["Access-Control-Allow-Headers"], "x-stainless-os, authorization")
        self.assertEqual(flight.headers["Access-Control-Allow-Private-Network"], "true")


class Keys(Case):
    args = ("--ctx", "256", "--api-key", "alpha", "--cors-origin", "https://page.example", "--allowed-host", "box.local")

    @classmethod
    def setUpClass(cls):
        import pathlib
        import tempfile
        folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-keys-"))
        (folder / "keys").write_text("# of people\nana:beta\n\n gamma \n")
        cls.args = Keys.args + ("--api-key-file", str(folder / "keys"))
        super().setUpClass()

    def test_keys(self):
        for headers in [{}, {"Authorization": "Bearer nope"}, {"Authorization": "Basic alpha"}, {"x-api-key": "ana"},
                        {"x-api-key": "alph"}, {"x-api-key": "alphaa"}, {"x-api-key": ""}]:
            answer = self.server.get("/v1/models", headers=headers)
            self.assertEqual((answer.status, answer.error["code"]), (401, "invalid_api_key"), headers)
            self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
        for headers in [{"Authorization": "Bearer alpha"}, {"authorization": "bearer beta"}, {"x-api-key": "gamma"},
                        {"api-key": "beta"}]:
            self.assertEqual(self.server.get("/v1/models", headers=headers).status, 200, headers)
        self.assertEqual(self.server.get("/health").status, 200)
        self.assertEqual(self.server.get("/metrics").status, 401)
        self.assertEqual(self.server.get("/nope").status, 401)
        self.assertEqual(self.server.ask("OPTIONS", "/v1/models", headers={"Origin": "https://page.example"}).headers[
            "Access-Control-Allow-Origin"], "https://page.example")
        self.assertEqual(self.server.get("/health", headers={"Host": "BOX.local:8080"}).status, 200)


if __name__ == "__main__":
    unittest.main()
