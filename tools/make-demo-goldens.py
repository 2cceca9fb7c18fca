#!/usr/bin/env python3
"""Writes the expected values of the demo model: models/demo -> tests/data/demo.

    make-demo-goldens.py            (run anywhere; about three minutes on one core)

Token ids of the three validation texts come from the tokenizers package, all figures from the
float64 reference in reference.py on the weights as shipped.  Output:

    val-NAME.ids.json           token ids of val-NAME.txt
    expected-4bit.json          losses per text and per window, MTP agreement
    expected-4bit.safetensors   logits of two prompts; greedy tokens and MTP guesses of all three, with margins
"""
import json
import math
import os

import numpy as np
from tokenizers import Tokenizer

from reference import WINDOW, Model, token_losses
from tensorfile import Tensor, write_file

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "models", "demo")
DATA = os.path.join(ROOT, "tests", "data", "demo")
TEXTS = ("tales", "stories", "chat")
PROMPTS = ("fox", "chat", "tool")  # in the order of reference.json
LOGIT_ROWS = {"fox": list(range(9)), "tool": [0, 1, 2, 63, 64, 127, 128, 199, 200]}
GREEDY = 32


def encode_texts():
    """Encodes the validation texts, writes their ids and returns them by name."""
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json"))
    result = {}
    for name in TEXTS:
        with open(os.path.join(DATA, f"val-{name}.txt"), encoding="utf-8", newline="") as stream:
            result[name] = tokenizer.encode(stream.read(), add_special_tokens=False).ids
        with open(os.path.join(DATA, f"val-{name}.ids.json"), "w", encoding="utf-8") as stream:
            json.dump(result[name], stream, separators=(",", ":"))
            stream.write("\n")
    return result


def measure(model, ids):
    """Losses of one text by window, and how often the MTP layer guesses right.

    A guess is right twice over: when it is what the trunk picks greedily one token later, and when
    it is the text's own token.
    """
    losses, same_as_trunk, same_as_text = [], [], []
    for start in range(0, len(ids) - WINDOW + 1, WINDOW):
        piece = np.array(ids[start:start + WINDOW])
        hidden = model.hidden(piece)
        logits = hidden @ model.head.T
        losses.append(float(token_losses(logits[:-1], piece[1:]).mean()))
        guess = (model.draft_hidden(hidden[:-1], piece[1:]) @ model.head.T).argmax(axis=-1)
        same_as_trunk.append((guess == logits[1:].argmax(axis=-1)).mean())
        same_as_text.append((guess[:-1] == piece[2:]).mean())
    loss = float(np.mean(losses))
    return {"tokens": len(ids), "windows": len(losses), "loss": loss, "perplexity": math.exp(loss),
            "mtp_agrees_with_trunk": float(np.mean(same_as_trunk)),
            "mtp_agrees_with_text": float(np.mean(same_as_text)), "window_losses": losses}


def margin(rows):
    """Best logit minus second best of each row."""
    best = np.sort(rows, axis=-1)[:, -2:]
    return best[:, 1] - best[:, 0]


def drafts(model, ids, tokens):
    """MTP logits whose argmax guesses tokens[1:]: row j from the state that picked tokens[j]."""
    whole = list(ids) + tokens[:-1]
    hidden = model.draft_hidden(model.hidden(whole)[:-1], whole[1:])
    return hidden[len(ids) - 1:] @ model.head.T


def prompt_tensors(model, name, ids):
    """Logits where asked for, the greedy continuation, the MTP layer's guesses, all margins."""
    tokens, rows = model.greedy(ids, GREEDY)
    guesses = drafts(model, ids, tokens)
    tensors = {f"{name}.input_ids": Tensor("I32", np.array(ids, np.int32)),
               f"{name}.greedy_tokens": Tensor("I32", np.array(tokens, np.int32)),
               f"{name}.greedy_logit": Tensor("F64", rows.max(axis=-1)),
               f"{name}.greedy_margin": Tensor("F64", margin(rows)),
               f"{name}.draft_tokens": Tensor("I32", guesses.argmax(axis=-1).astype(np.int32)),
               f"{name}.draft_margin": Tensor("F64", margin(guesses))}
    if name in LOGIT_ROWS:
        picked = LOGIT_ROWS[name]
        tensors[f"{name}.logit_positions"] = Tensor("I32", np.array(picked, np.int32))
        tensors[f"{name}.logits"] = Tensor("F64", model.logits(ids)[picked])
    return tensors


def main():
    model = Model(MODEL)
    figures = {"window": WINDOW, "arithmetic": "float64, weights code*scale + bias"}
    for name, ids in encode_texts().items():
        figures[name] = measure(model, ids)
        print(name, {key: value for key, value in figures[name].items() if key != "window_losses"},
              flush=True)
    with open(os.path.join(DATA, "expected-4bit.json"), "w", encoding="utf-8") as stream:
        json.dump(figures, stream, indent=1)
        stream.write("\n")
    with open(os.path.join(DATA, "reference.json"), encoding="utf-8") as stream:
        cases = json.load(stream)["cases"]
    tensors = {}
    for name, case in zip(PROMPTS, cases):
        tensors.update(prompt_tensors(model, name, case["prompt_ids"]))
        print(name, "smallest margin", tensors[f"{name}.greedy_margin"].data.min(), flush=True)
    write_file(os.path.join(DATA, "expected-4bit.safetensors"), tensors)


if __name__ == "__main__":
    main()
