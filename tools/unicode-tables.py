#!/usr/bin/env python3
"""Writes src/text/unicode_tables.h: where our Unicode data differs from the reference tokenizer's.

    python3 tools/unicode-tables.py | clang-format-14 > src/text/unicode_tables.h

Needs the package of tools/requirements.txt, libpcre2-8 and libutf8proc.  The reference is asked
character by character, so the tables hold whatever versions it was built with.
"""
import ctypes
import sys
from importlib.metadata import version

from tokenizers import Regex, normalizers
from tokenizers.pre_tokenizers import Split

PCRE2_UTF, PCRE2_UCP = 0x00080000, 0x00020000
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Contexts in which a combining class or a composition shows.
NFC_CONTEXTS = ["\u0301%s", "\u0345%s", "a\u0334%s\u0334\u0301", "%s\u0334", "a\u0315%s\u0300", "\U00011935%s"]


def reference_class(name):
    """The characters that the reference's regular expressions count as \\p{name}."""
    drop = Split(Regex(r"\p{%s}" % name), "removed")
    found = set()
    for first in range(0, len(CHARACTERS), 4096):
        part = CHARACTERS[first : first + 4096]
        kept = {ord(c) for piece, _ in drop.pre_tokenize_str("".join(map(chr, part))) for c in piece}
        found.update(c for c in part if c not in kept)
    return found


def pcre2_class(name):
    lib = ctypes.CDLL("libpcre2-8.so.0")
    lib.pcre2_compile_8.restype = lib.pcre2_match_data_create_8.restype = ctypes.c_void_p
    code_number, where = ctypes.c_int(), ctypes.c_size_t()
    pattern = rb"\p{%s}" % name.encode()
    code = lib.pcre2_compile_8(pattern, ctypes.c_size_t(len(pattern)), ctypes.c_uint32(PCRE2_UTF | PCRE2_UCP),
                               ctypes.byref(code_number), ctypes.byref(where), None)
    block = ctypes.c_void_p(lib.pcre2_match_data_create_8(ctypes.c_uint32(1), None))
    found = set()
    for c in CHARACTERS:
        text = chr(c).encode()
        if lib.pcre2_match_8(ctypes.c_void_p(code), text, ctypes.c_size_t(len(text)), ctypes.c_size_t(0),
                             ctypes.c_uint32(0), block, None) > 0:
            found.add(c)
    return found


def utf8proc_form(function):
    """utf8proc_NFC or utf8proc_NFD as a function of a string."""
    convert = getattr(ctypes.CDLL("libutf8proc.so.2"), function)
    convert.restype = ctypes.c_void_p
    release = ctypes.CDLL(None).free

    def form(text):
        block = ctypes.c_void_p(convert(text.encode()))
        out = ctypes.string_at(block).decode()
        release(block)
        return out

    return form


def newer_in_nfc():
    """The characters on which the reference's NFC and utf8proc's differ."""
    reference = normalizers.NFC().normalize_str
    ours, decompose = utf8proc_form("utf8proc_NFC"), utf8proc_form("utf8proc_NFD")
    found = set()
    for c in CHARACTERS[0x80:]:
        character = chr(c)
        # The parts show a composition that the reference does not make.
        texts = [character, decompose(character), *(context % character for context in NFC_CONTEXTS)]
        if any(reference(t) != ours(t) for t in texts):
            found.add(c)
    return found


def ranges(characters):
    out = []
    for c in sorted(characters):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def c_ranges(name, characters, note):
    lines = [f"/* {note} */", f"static const unicode_range {name}[] = {{"]
    items = [f"{{0x{a:X}, 0x{b:X}}}," for a, b in ranges(characters)]
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > 120:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join(lines + [line, "};"])


def main():
    parts = []
    for name, what in (("L", "letters"), ("M", "marks"), ("N", "numbers")):
        ours, theirs = pcre2_class(name), reference_class(name)
        if ours - theirs:
            sys.exit(f"\\p{{{name}}}: PCRE2 has characters that the reference does not: {ranges(ours - theirs)[:5]}")
        parts.append(c_ranges(f"unicode_newer_{what}", theirs - ours, f"In the reference's \\p{{{name}}}, not in PCRE2's."))
    parts.append(c_ranges("unicode_newer_nfc", newer_in_nfc(), "Inert in the reference's NFC, not in utf8proc's."))
    print(f"""/* text/unicode_tables.h - where our Unicode data differs from the reference tokenizer's.
 *
 * Written by tools/unicode-tables.py from tokenizers {version("tokenizers")}, PCRE2 and utf8proc of Debian 12:
 * do not edit.  The reference cuts text with Unicode 16 and normalises it with
 * Unicode 9; PCRE2 10.42 has Unicode 14 and utf8proc 2.8 Unicode 15.  A prompt in
 * a script added in between would get other ids without these. */
#ifndef TEXT_UNICODE_TABLES_H
#define TEXT_UNICODE_TABLES_H

#include <stdint.h>

typedef struct unicode_range {{
    uint32_t first, last;
}} unicode_range;
""")
    print("\n\n".join(parts))
    print("\n#endif")


main()
