"""Files in their canonical form: read, written anew, and written back only where they differ."""

from __future__ import annotations

from dataclasses import dataclass

from power.diagnostics import Diagnostic, Span, fail
from power.manifest.form import canonical
from power.manifest.load import kind_of, parse_manifest, parse_profile
from power.manifest.read import decode
from power.manifest.syntax import parse


@dataclass(frozen=True, slots=True)
class Formatted:
    """One file: its canonical text, and the first line that differs from it (None: none)."""

    name: str
    text: str
    differs: Diagnostic | None


def formatted(data: bytes, name: str) -> Formatted:
    """The canonical form of the manifest or profile in `data`, called `name` in messages.

    Raises PowerError: P101 to P146 it cannot be read as what it is, P120 it is a
    plan, P148 it has no canonical form that says the same.
    """
    text = decode(data, name, "file")
    kind = kind_of(parse(text, name, "file"))
    if kind == "plan":
        fail(
            "P120",
            "this is a plan, not a manifest or profile",
            place=name,
            hint="a plan has one form from the start: `power compile` writes it",
        )
    (parse_profile if kind == "profile" else parse_manifest)(data, name)
    new = canonical(text, name)
    return Formatted(name, new, None if new == text else _difference(name, text, new))


def _difference(name: str, text: str, new: str) -> Diagnostic:
    lines, wanted = text.split("\n"), new.split("\n")
    index = next(
        (i for i, line in enumerate(lines) if i >= len(wanted) or line != wanted[i]),
        len(lines) - 1,
    )
    source = lines[index].rstrip("\r")
    return Diagnostic(
        code="P149",
        message="the file is not in its canonical form",
        spans=(Span(name, index + 1, 1, max(1, len(source)), source),),
        expected=wanted[index] if index < len(wanted) else "the end of the file",
        found=source,
        hint=f"run `power fmt {name}`",
    )
