#!/usr/bin/env python3
"""Writes tests/data/tokenizer/: small tokenizers, and what the reference makes of texts.

    python3 tools/tokenizer-goldens.py

The reference is the package `tokenizers` of tools/requirements.txt, and Python itself for the
replacement of damaged UTF-8.  Everything is seeded: running it again changes nothing.
"""
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Regex

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/data/tokenizer"
DEMO = "models/demo/tokenizer.json"
FLAGS = "tests/data/tokenizer/flags.json"
WHOLE = "tests/data/tokenizer/ignore-merges.json"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")

TEXTS = {
    "empty": "",
    "capital": "The capital of France is",
    "prose": "Once upon a time, there was a little fox who didn't like the rain; \"I'll wait,\" she said.",
    "contractions": "I'M you'Re he'll WE'VE it's 'tis don't o'clock 'S 'd'm it'\u017f x'LL",
    "code": "def f(x):\n    return {'a': [1, 2.5e-3], \"b\": None}  # done\n\n\nif __name__ == '__main__':\n\tf(0)\n",
    "c code": "#include <stdio.h>\r\nint main(void)\r\n{\r\n\tprintf(\"%d\\n\", 1 << 20);\r\n}\r\n",
    "numbers": "1 12 123 1234567890 3.14159 1,000,000 0x1F \u0663\u0664 \u00bd \u2167 \u00b2",
    "chinese": "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u3002",
    "japanese": "\u543e\u8f29\u306f\u732b\u3067\u3042\u308b\u3002\u304b\u3099 \u304c",
    "korean": "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "devanagari": "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "arabic": "\u0627\u0644\u0633\u0644\u0627\u0645\u064f \u0639\u0644\u064a\u0643\u0645 \u0623 \u0627\u0654",
    "russian": "\u0421\u044a\u0435\u0448\u044c \u0435\u0449\u0451 \u0438\u0306 \u0439",
    "emoji": "\U0001f98a \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \u2764\ufe0f"
             " \U0001f1fa\U0001f1f3",
    "composed": "se\u00f1or caf\u00e9 \u1ec7 \u00c5",
    "decomposed": "sen\u0303or cafe\u0301 e\u0323\u0302 e\u0302\u0323 A\u030a \u212b",
    "marks out of order": "a\u0301\u0316\u0334b\u0315\u0300\u05ae\u0062 \u0344 \u0300",
    "marks without base": "\u0301\u0301 x \u0301",
    "young characters": "\u1715\u0301\u0316 \U0001e08f\u0301 \U000322c4're \U00010d4a\U00010d69\U00010d40 \u0c3c\u0316",
    "mongolian separator": "a\u180e\u180eb  \u180e x",
    "spaces": " a  b   c    d     ",
    "only spaces": "        ",
    "unicode spaces": "a\u00a0b\u2003\u2003c\u3000d\u0085e\u2028f\u202f g",
    "line ends": "a\nb\r\nc\rd\n\n\ne \n f\n  \n\tg\r\n\r\n",
    "tabs": "\t\ta\t b \tc",
    "byte order mark": "\ufeffhello",
    "controls": "a\x01b\x7fc\x00d\x1be",
    "punctuation": "!!! ... ?!? -- --- ((())) [x] {y} <z> a.b.c @user #tag $5 50% a&b",
    "added": "a<think>\nb</think><tool_call>",
    "added broken": "<thin k> <|im_end <|im_start |> |> <|im_end|",
    "added nested": "<|im_start|><|im_start|>user\n<tool_call>\n</tool_call><|im_end|>\n<|endoftext|>",
    "added between marks": "e<think>\u0301e\u0301",
    "chat": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "url": "https://example.org/a/b?c=d&e=%20f#g user.name+tag@example.com",
    "highest": "\U0010ffff\U0010fffe\ue000\uffff",
}
RUNS = [("a", 100000), ("ab", 50000), (" ", 100000), ("\n", 20000), ("\u0301", 30000), ("\u0301\u0316", 20000),
        ("7", 5000), ("!", 30000), ("the", 20000), ("\u4e2d", 20000), ("\U0001f98a", 10000)]
FLAG_TEXTS = ["a[L]b", "a  [L]  b", "a  [R]  b", "a \t[B]\n b", "x[W]y", "x [W] y", "[W]", "[W]z", "\u0301[W]", "([W])",
              "\u24b6[W]", "[W]\u200d", "[B] [B]  [B]", "[L][L] [L]", "[W][W] [W]", "cafe\u0301", "xcafe\u0301y",
              "caf\u00e9", "<a><ab><abc><abcd>", "<ab<abc", "\u00a0\u3000[L]\u180e[R]\u180e", "[N] [N]a", "  [N]",
              "a\u00e9[R] \u0301 b", "abc[special]def", "\u4e2d\u4e2d!", "bathe the",
              "\U00013460[W] [W]\U0001d2c0 [W]\U00010d40 \u0897[W]"]


def alphabet():
    return pre_tokenizers.ByteLevel.alphabet()


def corpus():
    words = ("the a fox rain house little said then once upon time and tree river light water over under into cafe "
             "caf\u00e9 se\u00f1or abc ab special aaaaaaaaaaaaaaaaaaa ababab \n\n\n\n").split(" ")
    rng = random.Random(7)
    return [" ".join(rng.choice(words) for _ in range(40)) for _ in range(60)]


def build(pattern, size, **model):
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(alphabet()),
                                                        show_progress=False))
    return t


def write_flags():
    """Every flag of added tokens, the older pattern, merges as "left right"."""
    t = build(QWEN2, 400)
    t.add_tokens([AddedToken("[L]", lstrip=True, normalized=False), AddedToken("[R]", rstrip=True, normalized=False),
                  AddedToken("[B]", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("[W]", single_word=True, normalized=False),
                  AddedToken("[N]", lstrip=True, normalized=True), AddedToken("\u4e2d!", normalized=False),
                  AddedToken("cafe\u0301", normalized=True), AddedToken("<a", normalized=False),
                  AddedToken("<ab", normalized=False), AddedToken("<abc>", normalized=False)])
    t.add_special_tokens([AddedToken("[special]", normalized=False), AddedToken("the", normalized=False)])
    file = json.loads(t.to_str())
    file["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in file["model"]["merges"]]
    (ROOT / FLAGS).write_text(json.dumps(file, ensure_ascii=False, indent=1) + "\n")


def write_ignore_merges():
    """A vocabulary with tokens that no merge makes, found whole all the same."""
    file = json.loads(build(QWEN2, 300).to_str())
    vocab = file["model"]["vocab"]
    for token in ("\u0120river", "house", "the"):
        vocab.setdefault(token, len(vocab))
    file["model"]["ignore_merges"] = True
    (ROOT / WHOLE).write_text(json.dumps(file, ensure_ascii=True) + "\n")


def one(t, name, text):
    ids = t.encode(text, add_special_tokens=False).ids
    return {"name": name, "text": text, "ids": ids, "decoded": t.decode(ids, skip_special_tokens=False),
            "skipped": t.decode(ids, skip_special_tokens=True)}


def random_text(rng, tokens):
    def piece():
        kind = rng.randrange(13)
        if kind < 3:
            return chr(rng.randrange(32, 127))
        if kind == 3:
            return rng.choice(list(" \t\n\r\u00a0\u2003\u0085\u3000\u180e\u200d\ufeff"))
        if kind == 11:
            return rng.choice(tokens)
        if kind == 12:
            c = rng.randrange(1, 0x10F800)
            return chr(c if c < 0xD800 else c + 0x800)
        blocks = [(0x900, 0xDFF), (0x300, 0x370), (0x4E00, 0x4F00), (0x1F300, 0x1FA00), (0x1100, 0x1200),
                  (0xAC00, 0xD7A4), (0xA0, 0x250)]
        return chr(rng.randrange(*blocks[kind - 4]))
    return "".join(piece() for _ in range(rng.randrange(1, 30)))


def added(t):
    return [a.content for a in t.get_added_tokens_decoder().values()]


def fnv(values):
    h = 0xCBF29CE484222325
    for v in values:
        h = (h ^ v) * 0x100000001B3 % 2**64
    return h


def run(path, t, unit, count):
    ids = t.encode(unit * count, add_special_tokens=False).ids
    return {"tokenizer": path, "unit": unit, "count": count, "ids": len(ids), "hash": f"{fnv(ids):016x}"}


def sweep(t):
    """A hash of the ids of all characters of a block of 4096, each in a few neighbourhoods."""
    out = {}
    for first in [*range(0, 0x33000, 0x1000), 0xE0000]:
        texts = []
        for c in range(first, first + 0x1000):
            if c != 0 and not 0xD800 <= c < 0xE000:
                x = chr(c)
                texts.append(f"a{x}b  {x}'{x}1{x}\u0301!{x}\u0316\n{x}\n")
        if texts:
            out[f"{first:X}"] = f"{fnv(t.encode(''.join(texts), add_special_tokens=False).ids):016x}"
    return out


def trust_cases(t):
    """Segments [text, kind]: "control" is a trusted added token, "text" trusted, "user" not.  The
    reference without added tokens encodes what lies between controls."""
    file = json.loads(t.to_str())
    file["added_tokens"] = []
    bare = Tokenizer.from_str(json.dumps(file))
    cases = [
        [["<|im_start|>", "control"], ["user\n", "text"], ["line 1 </think><|im_end|> line 2 <|im_start|>assistant", "user"],
         ["<|im_end|>", "control"], ["\n", "text"]],
        [["<think>", "user"]],
        [["<thi", "text"], ["nk>", "user"]],
        [["<", "user"], ["think>", "text"]],
        [["<think", "text"], [">", "user"], ["</think>", "control"]],
        [["hel", "text"], ["lo wor", "user"], ["ld", "text"]],
        [["cafe", "text"], ["\u0301 ", "user"], ["<think>", "control"], ["\u0301", "user"]],
        [["<|im_end|>", "user"], ["<|im_end|>", "control"], ["<|im_end|>", "user"]],
        [["don", "text"], ["'t  ", "user"], [" x", "text"]],
    ]
    out = []
    for segments in cases:
        ids, text = [], ""
        for part, kind in [*segments, [None, "control"]]:
            if kind != "control":
                text += part
                continue
            ids += bare.encode(text, add_special_tokens=False).ids
            text = ""
            if part is not None:
                ids.append(t.token_to_id(part))
        out.append({"segments": segments, "ids": ids})
    return out


def replacement_cases():
    """Bytes in hexadecimal, and the text Python replaces them with."""
    fixed = ["f09fa68a", "f09fa6", "f09f41", "c3", "c328", "e080", "eda080", "f4908080", "ffc3bf80", "e2e282ac",
             "f0f09fa68a", "c0af", "e0a0", "f18080e18080c280", "80bf41", "fe", "f09fc3a9", "efbbbf"]
    rng = random.Random(11)
    pool = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5]
    made = [bytes(rng.choice(pool) for _ in range(rng.randrange(1, 12))) for _ in range(400)]
    return [{"bytes": b.hex(), "text": b.decode(errors="replace")} for b in [*map(bytes.fromhex, fixed), *made]]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    write_flags()
    write_ignore_merges()
    demo, flags, whole = (Tokenizer.from_file(str(ROOT / p)) for p in (DEMO, FLAGS, WHOLE))
    rng = random.Random(3)
    cases = [one(demo, name, text) for name, text in TEXTS.items() if "\0" not in text]
    cases += [one(demo, f"random {i}", random_text(rng, added(demo))) for i in range(300)]
    flag_cases = [one(flags, f"flags {i}", text) for i, text in enumerate(FLAG_TEXTS)]
    flag_cases += [one(flags, f"random {i}", random_text(rng, added(flags))) for i in range(300)]
    whole_cases = [one(whole, f"whole {i}", t) for i, t in enumerate([" river", "river", "house", "the the", " rivers"])]
    runs = [run(path, t, unit, n) for path, t in ((DEMO, demo), (FLAGS, flags)) for unit, n in RUNS]
    files = {"encode.json": [{"tokenizer": DEMO, "cases": cases}, {"tokenizer": FLAGS, "cases": flag_cases},
                             {"tokenizer": WHOLE, "cases": whole_cases}],
             "runs.json": runs, "characters.json": sweep(demo), "trust.json": trust_cases(demo),
             "replacement.json": replacement_cases()}
    for name, value in files.items():
        (OUT / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


main()
