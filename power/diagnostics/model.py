"""One finding, where it is, and the error that carries findings upward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NoReturn

from power.diagnostics.codes import CODES, ExitCode

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text file: 1-based line and column, `width` characters wide.

    `source` is that line of the file, without its end of line; `label` says
    what is there when a diagnostic points at more than one place.
    """

    file: str
    line: int
    column: int
    width: int = 1
    source: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    `place` names where it is when that is not a line of text (a byte of a GGUF,
    a field of a receipt); `spans` are lines of text, the first one the main one.
    `expected` and `found` are short values, `hint` is the one next action.
    """

    code: str
    message: str
    spans: tuple[Span, ...] = ()
    place: str | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None
    severity: Severity = "error"


@dataclass
class PowerError(Exception):
    """One or more diagnostics on their way to the person who asked."""

    diagnostics: tuple[Diagnostic, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Refuse an empty error: it could not be explained."""
        if not self.diagnostics:
            msg = "a PowerError needs at least one diagnostic"
            raise ValueError(msg)
        super().__init__(self.diagnostics[0].message)

    def __str__(self) -> str:
        """Every message, one a line, for logs and chained tracebacks."""
        return "\n".join(f"[{d.code}] {d.message}" for d in self.diagnostics)

    def __reduce__(self) -> tuple[type[PowerError], tuple[tuple[Diagnostic, ...]]]:
        """Travel whole to another process; an exception would travel as its message."""
        return PowerError, (self.diagnostics,)

    @property
    def exit_code(self) -> ExitCode:
        """The gravest exit code among the diagnostics (`codes.toml`)."""
        return max(CODES[d.code].exit for d in self.diagnostics if d.severity == "error")


def fail(  # noqa: PLR0913 - the fields of one diagnostic
    code: str,
    message: str,
    *,
    spans: tuple[Span, ...] = (),
    place: str | None = None,
    expected: object = None,
    found: object = None,
    hint: str | None = None,
) -> NoReturn:
    """Raise a `PowerError` with one diagnostic; `expected` and `found` become text."""
    raise PowerError(
        (
            Diagnostic(
                code=code,
                message=message,
                spans=spans,
                place=place,
                expected=None if expected is None else str(expected),
                found=None if found is None else str(found),
                hint=hint,
            ),
        )
    )
