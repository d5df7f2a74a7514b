"""Places in a lock file. Power writes one fact a line, so a line scan finds a key."""

from __future__ import annotations

from collections.abc import Sequence

from power.diagnostics import Span


def line_span(name: str, lines: Sequence[str], index: int) -> Span:
    """The whole of line `index` (from 0)."""
    source = lines[index].rstrip("\r")
    return Span(file=name, line=index + 1, column=1, width=max(1, len(source)), source=source)


def key_span(name: str, text: str, keys: Sequence[str]) -> tuple[Span, ...]:
    """The line that states `keys`, e.g. `("graph", "batch")`; empty when none does.

    What lies inside an array or an inline table is found by the key that holds it.
    """
    lines = text.split("\n")
    stated: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for index, line in enumerate(lines):
        if line.startswith("["):
            table = tuple(line.strip().strip("[]").split("."))
            stated.setdefault(table, index)
        elif " = " in line and not line.startswith((" ", "#")):
            stated.setdefault((*table, line.split(" = ", 1)[0]), index)
    for length in range(len(keys), 0, -1):
        found = stated.get(tuple(keys[:length]))
        if found is not None:
            return (line_span(name, lines, found),)
    return ()


def first_line_difference(name: str, text: str, canonical: str) -> tuple[Span, ...]:
    """The first line of `text` that differs from `canonical`; its last line when it is short."""
    lines, expected = text.split("\n"), canonical.split("\n")
    for index, line in enumerate(lines):
        if index >= len(expected) or line != expected[index]:
            return (line_span(name, lines, index),)
    return (line_span(name, lines, len(lines) - 1),)
