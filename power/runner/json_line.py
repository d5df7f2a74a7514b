"""Files of JSON objects, one a line, that people write: read strictly, all problems told."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from power.diagnostics import Diagnostic, PowerError, Span, escape

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one line."""

MAX_PROBLEMS = 20
"""Diagnostics shown of one file."""

_LONGEST = 500  # characters of a message, which may hold text of the file
_NAMES = {str: "text", int: "a whole number", list: "a list"}


class LineError(Exception):
    """What is wrong with a line, soon a diagnostic; `expected` is what belongs there."""

    def __init__(self, message: str, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected


class NoJsonError(LineError):
    """A line that is no JSON, and the column (1-based) where it ceases to be."""

    def __init__(self, message: str, column: int = 1) -> None:
        super().__init__(f"the line is no JSON: {message}")
        self.column = column


class LineProblems:
    """What is wrong with the lines of one file: the first 20 are told, the others counted.

    what: what the lines are, such as `prompts`. example: one of them.
    """

    def __init__(self, path: Path, what: str, example: str) -> None:
        self._path = path
        self._what = what
        self._example = example
        self._told: list[Diagnostic] = []
        self._more = 0
        self._strange = True  # as far as seen, no line is JSON

    def add(self, code: str, number: int, line: bytes, error: LineError) -> None:
        """Take in what is wrong with line `number`."""
        if len(self._told) == MAX_PROBLEMS:
            self._more += 1
        else:
            column = error.column if isinstance(error, NoJsonError) else 1
            text = line.decode("utf-8", "replace")
            found = Diagnostic(
                code,
                escape(error.message, _LONGEST),
                spans=(Span(str(self._path), number, column, 1, text),),
                expected=error.expected,
                hint=f"a line is such as {self._example}",
            )
            self._told.append(found)
        self._strange &= isinstance(error, NoJsonError)

    def take(self, found: Sequence[Diagnostic]) -> None:
        """Take in diagnostics of a line of JSON as they are."""
        room = MAX_PROBLEMS - len(self._told)
        self._told += found[:room]
        self._more += len(found[room:])
        self._strange = False

    def check(self, good: int) -> None:
        """Raise PowerError with all problems, where there are any; `good` lines have none.

        Of a file without a line of JSON, which is another kind of file, the first.
        """
        if not self._told:
            return
        if self._strange and not good:
            raise PowerError((self._told[0],))
        if self._more:
            message = f"{self._more} more problems in these {self._what} are not shown"
            place, hint = str(self._path), "mend these first"
            self._told.append(Diagnostic(self._told[0].code, message, place=place, hint=hint))
        raise PowerError(tuple(self._told))


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file, none of them for the end of its last one."""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def json_object(line: bytes) -> dict[str, Any]:
    """The object on `line`; LineError for anything else, and for a key that is given twice."""
    if len(line) > MAX_LINE:
        raise LineError("the line is too long", f"at most {MAX_LINE} bytes")
    if not line.strip():
        raise NoJsonError("it is empty")
    if line.startswith(codecs.BOM_UTF8):
        raise NoJsonError("it begins with a byte order mark")
    try:
        value = json.loads(
            line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise LineError(f"the line is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NoJsonError(error.msg, error.colno) from None
    except RecursionError:
        raise LineError("the line is nested too deeply") from None
    except ValueError as error:  # an integer of too many digits
        raise NoJsonError(str(error)) from None
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


def repeated_key(pairs: Sequence[tuple[str, Any]]) -> str | None:
    """The first key of an object that is there more than once, None when there is none."""
    counts = Counter(key for key, _ in pairs)
    return next((key for key, count in counts.items() if count > 1), None)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise LineError(f"the key `{repeated_key(pairs)}` is given more than once")
    return found


def _no_number(name: str) -> Any:
    raise LineError(f"`{name}` is no JSON number")
