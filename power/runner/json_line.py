"""One JSON object on one line of a file that people write, read strictly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one line."""

_NAMES = {str: "text", int: "a whole number", list: "a list"}


class LineError(Exception):
    """What is wrong with a line, soon a diagnostic; `expected` is what belongs there."""

    def __init__(self, message: str, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file, none of them for the end of its last one."""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def json_object(line: bytes) -> dict[str, Any]:
    """The object on `line`; LineError for anything else, and for a key that is given twice."""
    if len(line) > MAX_LINE:
        raise LineError("the line is too long", f"at most {MAX_LINE} bytes")
    try:
        value = json.loads(
            line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise LineError(f"the line is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise LineError(f"the line is no JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise LineError("the line is nested too deeply") from None
    except ValueError as error:  # an integer of too many digits
        raise LineError(f"the line is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise LineError("the line is no object", "an object")
    return value


def typed(raw: Mapping[str, Any], key: str, kind: type) -> Any:
    """The value under `key`; None without it. A bool is no int, null is no value."""
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise LineError(f"`{key}` is not {_NAMES[kind]}", _NAMES[kind])
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineError(f"the key `{twice}` is given more than once")
    return found


def _no_number(name: str) -> Any:
    raise LineError(f"`{name}` is no JSON number")
