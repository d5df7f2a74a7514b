"""JSON as a verifier reads it: one meaning a document, or none.

RFC 8259 leaves open what a duplicate key, a lone surrogate or a huge number
means, and two readers of the same signed bytes may then disagree. Here each of
them is an error.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from power.runner.json_line import repeated_key

SIZE_LIMIT = 1 << 20
DEPTH_LIMIT = 16
INTEGER_LIMIT = (1 << 53) - 1  # RFC 8785, RFC 7493: what every reader holds exactly

# Possessive, and with the closing quote optional: linear whatever the input.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


class JSONRefusedError(ValueError):
    """Why a document was refused; the message fits after a colon."""


def loads(data: bytes, limit: int = SIZE_LIMIT) -> Any:
    """Parse UTF-8 JSON without floats; raises JSONRefusedError, whose text says why.

    Refused: more than `limit` bytes, nesting beyond 16, a byte-order mark, invalid
    UTF-8, lone surrogates, duplicate keys, floats, NaN and infinities, integers
    beyond 2^53 - 1, and anything after the document.
    """
    if len(data) > limit:
        raise JSONRefusedError(f"larger than {limit} bytes")
    _check_depth(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JSONRefusedError(f"not UTF-8 at byte {error.start}") from error
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=_no_float,
            parse_constant=_no_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise JSONRefusedError(f"not JSON at character {error.pos}: {error.msg}") from error
    _check_text(value)
    return value


def _check_depth(data: bytes) -> None:
    """Before the parser, whose recursion a hostile document would drive."""
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub(b"", data)):
        depth += 1 if bracket.group() in b"[{" else -1
        if depth > DEPTH_LIMIT:
            raise JSONRefusedError(f"nested deeper than {DEPTH_LIMIT}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise JSONRefusedError(f"the key `{repeated_key(pairs)}` is there twice")
    return out


def _no_float(text: str) -> NoReturn:
    raise JSONRefusedError(f"`{text[:40]}` is not an integer")


def _integer(text: str) -> int:
    if text == "-0":  # for some readers another number than 0
        raise JSONRefusedError("`-0` is no integer")
    if len(text) > len(str(-INTEGER_LIMIT)) or abs(int(text)) > INTEGER_LIMIT:
        raise JSONRefusedError(f"the integer `{text[:40]}` is beyond 2^53 - 1")
    return int(text)


def _check_text(value: Any) -> None:
    """A lone escape of D800 to DFFF makes text that has no UTF-8."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise JSONRefusedError("a string holds a lone surrogate")
    elif isinstance(value, list):
        for item in value:
            _check_text(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
