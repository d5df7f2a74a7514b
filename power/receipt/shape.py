"""What pydantic found wrong with a document, in this project's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from power.diagnostics import Diagnostic, PowerError

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a field that is known here",
    "model_type": "is not a table",  # pydantic's own words name our classes
    "model_attributes_type": "is not a table",
    "dict_type": "is not a table",
    "list_type": "is not a list",
    "string_type": "is not a text",
    "int_type": "is not an integer",
    "bool_type": "is neither `true` nor `false`",
    "greater_than": "is not above {gt}",
    "greater_than_equal": "is below {ge}",
    "less_than": "is not below {lt}",
    "less_than_equal": "is above {le}",
    "string_pattern_mismatch": "does not have the form `{pattern}`",
    "literal_error": "is not {expected}",
}
"""What is said for a kind of pydantic's; in braces, what it knows of the rule."""

_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that has the wrong shape: `path` as `a.b[0].c`, `keys` as its parts."""

    path: str
    keys: tuple[str | int, ...]
    message: str
    kind: str  # pydantic's name for it


def problems(error: ValidationError) -> Iterator[Problem]:
    """Every problem, in the document's order; values are never repeated in them.

    Of a document of another kind only that.
    """
    every = error.errors(include_url=False, include_input=False)
    for found in [one for one in every if _is_another_kind(one)] or every:
        path, text = dotted(found["loc"]), _said(found)
        yield Problem(path, found["loc"], f"`{path}` {text}" if path else text, found["type"])


def _said(found: ErrorDetails) -> str:
    words = _WORDS.get(found["type"])
    if words is None:
        told = found["msg"].removeprefix("Value error, ")
        return f"is refused: {told[:1].lower()}{told[1:]}"
    known = {key: _QUOTED.sub(r"`\1`", str(value)) for key, value in found.get("ctx", {}).items()}
    return words.format_map(known)


def refusal(error: ValidationError, code: str, what: str, name: str, hint: str) -> PowerError:
    """The problems of the document `name`, 20 at most, each a message that begins with `what`."""
    return PowerError(
        tuple(
            Diagnostic(
                code,
                f"{what}: {problem.message}",
                place=": ".join(filter(None, (name, problem.path))),
                hint=hint,
            )
            for problem in islice(problems(error), 20)
        )
    )


def _is_another_kind(found: ErrorDetails) -> bool:
    """Whether a document says of itself that it is none of these."""
    if found["loc"] == ("mediaType",):
        return found["type"] != "extra_forbidden"
    return found["loc"] == ("schema",) and found["type"] == "literal_error"


def dotted(keys: tuple[str | int, ...]) -> str:
    """`("a", 0, "b")` as `a[0].b`."""
    out = ""
    for key in keys:
        out += f"[{key}]" if isinstance(key, int) else f".{key}" if out else key
    return out
