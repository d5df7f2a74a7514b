"""What pydantic found wrong with a document, in this project's words."""

from __future__ import annotations

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
}


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
    every = error.errors(include_url=False, include_input=False, include_context=False)
    for found in [one for one in every if _is_another_kind(one)] or every:
        path = dotted(found["loc"])
        text = _WORDS.get(found["type"])
        if text is None:
            text = "is refused: " + found["msg"][:1].lower() + found["msg"][1:]
        yield Problem(path, found["loc"], f"`{path}` {text}" if path else text, found["type"])


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
