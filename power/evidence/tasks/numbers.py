"""Numbers in text: finding them, and one form for each value. Pure, and without floats."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# A minus is a sign only where no word, digit or bracket stands before it (`10-3` holds 3), and a
# comma groups digits only in threes (`1,200` is one number, `5,6` are two).
_ANY = re.compile(
    r"(?P<sign>(?<![\w)\]])[-\u2212](?:[$\u20ac\u00a3](?=[0-9.]))?)?"
    r"(?<!\w)"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?=\.[0-9]))"
    r"(?P<part>\.[0-9]+)?"
)


def is_plain(text: str) -> bool:
    """Whether `text` is a number in digits: `12`, `-0.5`; not `1,200`, `+3` or `.5`."""
    return _PLAIN.fullmatch(text) is not None


def plain(text: str) -> str:
    """The one form of a plain number's value: `-3.5`, `0`; without needless zeros."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, part = digits.partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    value = f"{whole}.{part}" if part else whole
    return value if value == "0" else sign + value


def numbers(text: str) -> Sequence[str]:
    """Every number in `text`, in order, each in the form of `plain`.

    `1,200`, `$-3.50`, `.5` and the 5 of `5kg` count; the 2 of `B2` does not. Fractions,
    exponents and numbers in words are not read as such.
    """
    return [
        plain(
            ("-" if found["sign"] else "")
            + (found["digits"].replace(",", "") or "0")
            + (found["part"] or "")
        )
        for found in _ANY.finditer(text)
        if found["digits"] or found["part"]
    ]
