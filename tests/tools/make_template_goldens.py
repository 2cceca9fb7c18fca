#!/usr/bin/env python3
"""Writes the expected results of the chat template tests with Jinja2 itself.

Jinja2 is set up as transformers sets it up for chat templates: immutable
sandbox, trim_blocks, lstrip_blocks, loop controls, {% generation %}, JSON
without HTML escapes.  Reads and writes tests/cases/templates:

    snippets.json       -> snippets_golden.json   one line of template each
    conversations.json  -> renders_golden.json    every conversation x every *.jinja

Run it after changing any of them:  python3 tests/tools/make_template_goldens.py
Needs the jinja2 of tests/requirements.txt.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

CASES = pathlib.Path(__file__).resolve().parent.parent / "cases" / "templates"
NOW = 1700000000  # what strftime_now shows; the test sets the same clock, in UTC


class Generation(jinja2.ext.Extension):
    """{% generation %} as a plain group."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return body


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(form)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(env, source, variables):
    """{"text": ...}, {"raised": message of raise_exception}, or {"error": kind}."""
    variables = json.loads(json.dumps(variables))  # a few filters of Jinja2 change lists in place
    try:
        return {"text": env.from_string(source).render(**variables)}
    except Exception as e:  # every way a template can fail is a result here
        if type(e) is jinja2.exceptions.TemplateError:
            return {"raised": str(e)}
        return {"error": type(e).__name__}


# ---- message normalisation, written apart from the C code it is compared with ----


def normalise(conversation):
    """None when the conversation is refused."""
    messages = json.loads(json.dumps(conversation["messages"]))
    for m in messages:
        if not isinstance(m, dict) or m.get("role") not in ("system", "developer", "user", "assistant", "tool"):
            return None
        if m["role"] == "developer":
            m["role"] = "system"
        content = m.get("content")
        if content is None:
            m["content"] = ""
        elif isinstance(content, list):
            if all(isinstance(p, dict) and p.get("type", "text") == "text" and "text" in p for p in content):
                m["content"] = "".join(p["text"] for p in content)
        for call in m.get("tool_calls") or []:
            f = call.get("function", call)
            if isinstance(f.get("arguments"), str):
                try:
                    f["arguments"] = json.loads(f["arguments"])
                except ValueError:
                    return None
                if not isinstance(f["arguments"], dict):
                    return None
    lead = 0
    while lead < len(messages) and messages[lead]["role"] == "system" and isinstance(messages[lead]["content"], str):
        lead += 1
    if lead > 1:
        messages[:lead] = [{**messages[0], "content": "\n\n".join(m["content"] for m in messages[:lead])}]
    return messages


def variables_of(conversation, messages):
    return {"messages": messages, "tools": conversation.get("tools"), **conversation.get("kwargs", {})}


def write(name, value):
    (CASES / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    env = environment()
    snippets = json.loads((CASES / "snippets.json").read_text(encoding="utf-8"))
    results = [{"source": s, **render(env, s, snippets["context"])} for s in snippets["snippets"]]
    write("snippets_golden.json", results)

    conversations = json.loads((CASES / "conversations.json").read_text(encoding="utf-8"))
    renders = []
    for path in sorted(CASES.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for c in conversations:
            messages = normalise(c)
            if messages is None:
                result = {"error": "refused"}
            else:
                result = render(env, source, variables_of(c, messages))
            renders.append({"template": path.name, "conversation": c["name"], **result})
    write("renders_golden.json", renders)
    texts = sum("text" in r for r in renders)
    print(f"jinja2 {jinja2.__version__}: {len(results)} snippets, {len(renders)} renders ({texts} texts)")


if __name__ == "__main__":
    main()
