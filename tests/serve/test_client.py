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
