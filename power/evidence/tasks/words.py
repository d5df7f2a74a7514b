"""Text without what does not matter for an answer: case, punctuation, spacing, letter forms."""

from __future__ import annotations

import re
import unicodedata


def words(text: str) -> str:
    """The words of `text`, one space between them: `"The  Heron!"` is `the heron`.

    Compatibility forms are one letter (NFKC), and case is folded. Marks between
    words go, those inside numbers and compounds too: `10:45` is `10 45`.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(re.findall(r"\w+", folded))


def holds(text: str, part: str) -> bool:
    """Whether the words `part` stand in the words `text` one after another; both as of `words`."""
    return f" {part} " in f" {text} "
