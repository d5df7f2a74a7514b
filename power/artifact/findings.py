"""Collecting everything that is wrong with a file before saying so, instead of the first thing."""

from __future__ import annotations

from power.diagnostics import Diagnostic, PowerError

LIMIT = 25
"""Most findings of one file: a file of another kind fails every check there is."""


class Findings:
    """Diagnostics of one judgement, raised together."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []

    def add(  # noqa: PLR0913 - the fields of one diagnostic
        self,
        code: str,
        message: str,
        *,
        place: str | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        """Keep one finding; `expected` and `found` become text. Past LIMIT they are dropped."""
        if len(self._found) < LIMIT:
            self._found.append(
                Diagnostic(
                    code=code,
                    message=message,
                    place=place,
                    expected=None if expected is None else str(expected),
                    found=None if found is None else str(found),
                    hint=hint,
                )
            )

    def extend(self, error: PowerError) -> None:
        """Keep what another check raised."""
        self._found.extend(error.diagnostics[: LIMIT - len(self._found)])

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raise one PowerError with all findings; return when there are none."""
        if self._found:
            raise PowerError(tuple(self._found))
