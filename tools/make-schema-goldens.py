#!/usr/bin/env python3
"""Makes tests/data/grammar/schemas.jsonl: random schemas, documents that fit them, and changed ones that do not.

    tools/make-schema-goldens.py [OUT]

Whether a document fits is said by the jsonschema package; this script only draws.  A line is
{"schema": text, "good": [texts], "bad": [texts]}.  Texts are written as json.dumps writes them.
"""
import json
import random
import sys
from pathlib import Path

import jsonschema

SCHEMAS, GOOD, BAD = 150, 6, 10
NAMES = ["a", "b", "ab", "name", "id", "x y", "é", "q\"", "n/1"]
WORDS = ["", "a", "ab", "red", "é", "\"", "\\", "a b", "12", "😀", "\n"]
PATTERNS = [("^[a-c]+$", "abc"), ("^[a-z]{2,4}-[0-9]$", None), ("b", None), ("^x|y$", None), ("^(?:ab|c)*d?$", None),
            ("^[^a\"]*$", None)]
EXAMPLES = {"^[a-c]+$": ["a", "cab"], "^[a-z]{2,4}-[0-9]$": ["ab-1", "zzzz-9"], "b": ["b", "abc"], "^x|y$": ["x1", "1y"],
            "^(?:ab|c)*d?$": ["", "abcd", "cc"], "^[^a\"]*$": ["", "b\\"]}


class Draw:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self):
        return "".join(self.r.choice(WORDS) for _ in range(self.r.randrange(4)))

    def any(self, depth):
        kind = self.r.randrange(8 if depth > 0 else 6)
        if kind == 6:
            return [self.any(depth - 1) for _ in range(self.r.randrange(3))]
        if kind == 7:
            return {self.r.choice(NAMES): self.any(depth - 1) for _ in range(self.r.randrange(3))}
        return [None, True, False, self.r.randrange(-200, 200), self.r.choice([0.5, -1.25, 100.25]), self.text()][kind]

    # ---- schemas ----

    def schema(self, depth):
        kinds = ["null", "boolean", "integer", "number", "string", "string", "integer", "enum", "const", "types"]
        if depth > 0:
            kinds += ["object"] * 5 + ["array"] * 4 + ["any", "anyOf", "allOf", "ref"]
        return getattr(self, "schema_" + self.r.choice(kinds))(depth)

    def schema_null(self, _):
        return {"type": "null"}

    def schema_boolean(self, _):
        return {"type": "boolean"}

    def schema_number(self, _):
        return {"type": "number"}

    def schema_any(self, _):
        return self.r.choice([{}, True, {"description": "anything"}])

    def schema_integer(self, _):
        s = {"type": "integer"}
        low = self.r.choice([-1234, -100, -99, -10, -1, 0, 1, 7, 10, 99, 100, 987])
        if self.r.random() < 0.6:
            s[self.r.choice(["minimum", "exclusiveMinimum"])] = low
        if self.r.random() < 0.6:
            s[self.r.choice(["maximum", "exclusiveMaximum"])] = low + self.r.choice([2, 9, 10, 95, 1000, 12345])
        return s

    def schema_string(self, _):
        s = {"type": "string"}
        if self.r.random() < 0.5:
            s["minLength"] = self.r.randrange(4)
        if self.r.random() < 0.5:
            s["maxLength"] = s.get("minLength", 0) + self.r.randrange(5)
        if self.r.random() < 0.4:
            s["pattern"] = self.r.choice(PATTERNS)[0]
        return s

    def schema_enum(self, _):
        return {"enum": [self.any(1) for _ in range(self.r.randrange(1, 5))]}

    def schema_const(self, _):
        return {"const": self.any(1)}

    def schema_types(self, _):
        return {"type": self.r.sample(["null", "boolean", "integer", "number", "string", "array", "object"], 2)}

    def schema_object(self, depth):
        s = {"type": "object"}
        names = self.r.sample(NAMES, self.r.randrange(5))
        if names:
            s["properties"] = {n: self.schema(depth - 1) for n in names}
            s["required"] = [n for n in names if self.r.random() < 0.4]
        more = self.r.randrange(3)
        if more == 0 or not names:
            s["additionalProperties"] = self.schema(depth - 1)
        elif more == 1:
            s["additionalProperties"] = False
        return s

    def schema_array(self, depth):
        s = {"type": "array"}
        if self.r.random() < 0.4:
            s["prefixItems"] = [self.schema(depth - 1) for _ in range(self.r.randrange(1, 3))]
        if self.r.random() < 0.8:
            s["items"] = self.schema(depth - 1) if self.r.random() < 0.8 else False
        if self.r.random() < 0.4:
            s["minItems"] = self.r.randrange(3)
        if self.r.random() < 0.4:
            s["maxItems"] = s.get("minItems", 0) + self.r.randrange(3)
        return s

    def schema_anyOf(self, depth):
        return {self.r.choice(["anyOf"]): [self.schema(depth - 1) for _ in range(self.r.randrange(2, 4))]}

    def schema_allOf(self, depth):
        one = self.schema_object(depth)
        two = {"required": self.r.sample(list(one.get("properties", {"a": 0})), 1)}
        return {"allOf": [one, two]}

    def schema_ref(self, _):
        return {"$ref": "#/$defs/d"}

    # ---- documents: a guess at what fits ----

    def document(self, s, root, depth):
        if isinstance(s, bool) or not set(s) - {"description", "$defs"}:
            return self.any(1)
        if "$ref" in s:
            return self.document(root["$defs"]["d"], root, depth - 1) if depth > 0 else None
        if "anyOf" in s:
            return self.document(self.r.choice(s["anyOf"]), root, depth)
        if "allOf" in s:
            merged = dict(s["allOf"][0])
            merged["required"] = list(set(merged.get("required", [])) | set(s["allOf"][1]["required"]))
            return self.document(merged, root, depth)
        if "enum" in s:
            return self.r.choice(s["enum"])
        if "const" in s:
            return s["const"]
        kind = s["type"] if isinstance(s["type"], str) else self.r.choice(s["type"])
        return getattr(self, "make_" + kind)(s, root, depth)

    def make_null(self, *_):
        return None

    def make_boolean(self, *_):
        return self.r.random() < 0.5

    def make_integer(self, s, *_):
        low = s.get("minimum", s.get("exclusiveMinimum", -300))
        high = s.get("maximum", s.get("exclusiveMaximum", low + 3000))
        return self.r.choice([low, low + 1, high, high - 1, self.r.randint(min(low, high), max(low, high))])

    def make_number(self, *_):
        return self.r.choice([0, -3, 2.5, 1e-7, 12345678901234567890, -0.125])

    def make_string(self, s, *_):
        if "pattern" in s:
            return self.r.choice(EXAMPLES[s["pattern"]])
        n = self.r.randint(s.get("minLength", 0), s.get("maxLength", s.get("minLength", 0) + 4))
        return "".join(self.r.choice("ab é\"\\\n😀1") for _ in range(n))

    def make_object(self, s, root, depth):
        o = {}
        for n, v in s.get("properties", {}).items():
            if n in s.get("required", []) or (depth > 0 and self.r.random() < 0.6):
                o[n] = self.document(v, root, depth - 1)
        for n in s.get("required", []):
            if n not in o:
                o[n] = self.document(s.get("additionalProperties", {}), root, depth - 1)
        if s.get("additionalProperties", not s.get("properties")) is not False and depth > 0 and self.r.random() < 0.5:
            name = self.r.choice(["zz", "aa", "", "nam", "é1"])
            o.setdefault(name, self.document(s.get("additionalProperties", {}), root, depth - 1))
        items = list(o.items())
        self.r.shuffle(items)
        return dict(items)

    def make_array(self, s, root, depth):
        prefix, rest = s.get("prefixItems", []), s.get("items", {})
        n = self.r.randint(s.get("minItems", 0), s.get("maxItems", s.get("minItems", 0) + 3))
        if rest is False:
            n = min(n, len(prefix))
        if depth <= 0:
            n = s.get("minItems", 0)
        return [self.document(prefix[i] if i < len(prefix) else rest, root, depth - 1) for i in range(n)]

    # ---- changed documents ----

    def change(self, v):
        if isinstance(v, list) and v and self.r.random() < 0.7:
            i = self.r.randrange(len(v))
            return self.r.choice([v[:i] + v[i + 1:], v[:i] + [self.change(v[i])] + v[i + 1:], v + [self.any(1)], v + v])
        if isinstance(v, dict) and self.r.random() < 0.8:
            o = dict(v)
            n = self.r.choice(list(o) or ["new"])
            kind = self.r.randrange(3)
            if kind == 0:
                o.pop(n, None)
            elif kind == 1:
                o["new"] = self.any(1)
            else:
                o[n] = self.change(o.get(n))
            return o
        if isinstance(v, bool) or v is None:
            return self.any(1)
        if isinstance(v, int):
            return self.r.choice([v + 1, v - 1, -v, v * 10, v + 0.5, str(v), v + 1000])
        if isinstance(v, str):
            return self.r.choice([v + "a", v[1:], v + v + "x", v.upper(), "", v + "\"", 1])
        return self.any(1)


def line(seed):
    d = Draw(seed)
    schema = d.schema(3)
    if not isinstance(schema, dict):
        schema = {}
    schema = dict(schema)
    schema["$defs"] = {"d": d.r.choice([{"type": "integer", "minimum": 5}, {"type": "array", "items": {"$ref": "#/$defs/d"}},
                                        {"type": "object", "properties": {"next": {"$ref": "#/$defs/d"}}}])}
    validator = jsonschema.Draft202012Validator(schema)
    good, bad = [], []
    for _ in range(200):
        v = d.document(schema, schema, 4)
        text = json.dumps(v, ensure_ascii=False, separators=d.r.choice([(", ", ": "), (",", ":")]))
        if validator.is_valid(v) and text not in good and len(good) < GOOD:
            good.append(text)
        changed = d.change(v)
        text = json.dumps(changed, ensure_ascii=False)
        if not validator.is_valid(changed) and text not in bad and len(bad) < BAD:
            bad.append(text)
    return {"schema": json.dumps(schema, ensure_ascii=False), "good": good, "bad": bad}


def main(argv):
    root = Path(__file__).resolve().parent.parent
    out = Path(argv[1]) if len(argv) > 1 else root / "tests/data/grammar/schemas.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    seed = 0
    while len(lines) < SCHEMAS:
        seed += 1
        one = line(seed)
        if one["good"]:
            lines.append(json.dumps(one, ensure_ascii=False))
    out.write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
