"""The official OpenAI client, unmodified; skipped where it is not installed."""
import unittest

from support import Case

try:
    import openai
    import pydantic
except ImportError:
    openai = None


@unittest.skipIf(openai is None, "the package openai is not installed (tests/requirements.txt)")
class Client(Case):
    args = ("--ctx", "512")

    def setUp(self):
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def test_chat(self):
        ask = {"model": "demo", "messages": [{"role": "user", "content": "Tell me a story."}], "seed": 7, "max_tokens": 24,
               "reasoning_effort": "none"}
        whole = self.client.chat.completions.create(**ask)
        chunks = list(self.client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(whole.usage.prompt_tokens_details.cached_tokens, 0)

    def test_tools(self):
        """A whole round of an agent: the call streamed and whole, its result sent back."""
        ask = {"model": "demo", "messages": [{"role": "user", "content": "Area of 7 by 5?"}], "seed": 5, "max_tokens": 48,
               "reasoning_effort": "none", "tool_choice": {"type": "function", "function": {"name": "area"}},
               "parallel_tool_calls": False,
               "tools": [{"type": "function", "function": {"name": "area", "parameters": {
                   "type": "object", "properties": {"w": {"type": "integer"}}}}}]}
        choice = self.client.chat.completions.create(**ask).choices[0]
        call = choice.message.tool_calls[0]
        self.assertEqual((choice.finish_reason, call.type, call.function.name), ("tool_calls", "function", "area"))
        with self.client.chat.completions.stream(**ask) as stream:
            joined = stream.get_final_completion().choices[0]
        self.assertEqual(joined.finish_reason, "tool_calls")
        self.assertEqual([(c.function.name, c.function.arguments) for c in joined.message.tool_calls],
                         [(call.function.name, call.function.arguments)])
        ask["messages"] += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "35"}]
        del ask["tool_choice"]
        again = self.client.chat.completions.create(**ask)
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 0)

    def test_reasoning_budget(self):
        ask = {"model": "demo", "messages": [{"role": "user", "content": "Hello."}], "seed": 3, "max_tokens": 60,
               "reasoning_effort": "high"}
        free = self.client.chat.completions.create(**ask).choices[0].message
        short = self.client.chat.completions.create(extra_body={"thinking_token_budget": 2}, **ask).choices[0].message
        self.assertTrue(free.reasoning_content.startswith(short.reasoning_content))
        self.assertLess(len(short.reasoning_content), len(free.reasoning_content))
        self.assertTrue(short.content)

    def test_parsed_forms(self):
        class Person(pydantic.BaseModel):
            name: str = pydantic.Field(max_length=12)
            age: int = pydantic.Field(ge=0, le=120)

        class People(pydantic.BaseModel):
            first: Person
            others: list[Person] = pydantic.Field(max_length=1)

        ask = {"model": "demo", "messages": [{"role": "user", "content": "Who is there?"}], "seed": 7, "max_tokens": 300,
               "reasoning_effort": "none", "response_format": People}
        done = self.client.chat.completions.parse(**ask)
        self.assertIsInstance(done.choices[0].message.parsed, People)
        with self.client.chat.completions.stream(**ask) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_completion().choices[0].message.parsed, done.choices[0].message.parsed)

    def test_the_rest(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["demo"])
        self.assertEqual(self.client.models.retrieve("demo").object, "model")
        done = self.client.completions.create(model="demo", prompt="Once upon", max_tokens=4, logprobs=1, seed=1)
        self.assertEqual("".join(done.choices[0].logprobs.tokens), done.choices[0].text)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "x"}], temperature=9)
        self.assertEqual(caught.exception.param, "temperature")


if __name__ == "__main__":
    unittest.main()
