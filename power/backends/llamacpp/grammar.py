"""GBNF grammars: what hangs or overflows the library's parser is refused before it sees it."""

from __future__ import annotations

import re
from typing import Any

from power.backends.llamacpp.library import LOG, native
from power.backends.llamacpp.model import Model
from power.diagnostics import fail

LONGEST = 64 * 1024
"""Bytes of a grammar; Power's own bound."""

DEEPEST = 64
"""Parentheses inside one another; the library recurses once a level."""

MOST_REPEATS = 2000
"""Largest count in `{m,n}`, the library's own bound."""

# Literals, character classes and comments are skipped whole.
_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*" | \[(?:\\.|[^\]\\])*\] | \#[^\n]* | [()]'
    r"| \{ \s* (?P<least>\d*) \s* ,? \s* (?P<most>\d*) \s* \}",
    re.VERBOSE | re.DOTALL,
)


def grammar_sampler(text: str, model: Model) -> Any:
    """A native grammar sampler that starts at the rule `root`; the caller frees it.

    Raises PowerError P526.
    """
    reason = _reason_to_refuse(text)
    link = None
    if reason is None:
        LOG.clear()
        link = native().llama_sampler_init_grammar(model.vocab, text.encode("utf-8"), b"root")
    if not link:
        fail(
            "P526",
            "the grammar is no GBNF that the engine can use",
            found=reason or LOG.problems() or None,
            hint="check `sampling.grammar`: it needs a rule `root` and every rule that it names",
        )
    return link


def _reason_to_refuse(text: str) -> str | None:
    """Why the library must not see `text`, or None."""
    if not text.strip():
        return "no text"  # the library takes it for "no grammar"
    if "\0" in text:
        return "a NUL character"  # C would end the text there
    if len(text.encode("utf-8")) > LONGEST:
        return f"more than {LONGEST} bytes"
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth > DEEPEST:
            return f"parentheses more than {DEEPEST} deep"
        if token["least"] is not None and not _is_repetition(token["least"], token["most"]):
            return f"a repetition `{token[0][:40]}` outside 0 <= m <= n <= {MOST_REPEATS}"
    return None


def _is_repetition(least: str, most: str) -> bool:
    """Whether `{least,most}` counts upwards and not too far.

    With m above n the library subtracts unsigned numbers and fills the memory.
    """
    if max(len(least), len(most)) > len(str(MOST_REPEATS)):
        return False
    return int(least or 0) <= int(most or least or 0) <= MOST_REPEATS
