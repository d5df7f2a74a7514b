"""From a file to text that may be parsed: size, kind, encoding, stray bytes.

Every refusal names what is wrong with the file itself, because a parser would
report it as something else (a conflict marker as "expected `=`", a byte-order
mark as an invalid first key).
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from power.diagnostics import Span, fail

SIZE_LIMIT = 1024 * 1024
_EMPTY = {
    "manifest": "`power init` writes a manifest from an artifact at hand",
    "profile": "write the settings into it, or name another profile",
    "trust file": "write `schema = 1` and a table `[key.NAME]` for each key",
}
_WIDEST = 120  # characters that carets stand under

_CONFLICT = re.compile(r"^(<{7}|={7}|>{7}|\|{7})(?: .*)?$", re.MULTILINE)


def read_bytes(path: Path, what: str) -> bytes:
    """The content of a regular file of at most `SIZE_LIMIT` bytes.

    `what` names the kind of file in messages. Raises P101 (missing or
    unreadable), P102 (not a regular file), P103 (too large).
    """
    try:
        # O_NONBLOCK: opening a FIFO must fail below, not wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        fail("P101", f"there is no {what} here", place=str(path), hint=_nearby(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fail(
            "P101",
            f"the {what} cannot be opened",
            place=str(path),
            found=reason.lower(),
            hint="check the path and its permissions",
        )
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            fail(
                "P102",
                f"the {what} is not a regular file",
                place=str(path),
                expected="a file",
                found=_kind(mode),
                hint=f"name the {what} itself",
            )
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(SIZE_LIMIT + 1)
    finally:
        os.close(fd)
    if len(data) > SIZE_LIMIT:
        fail(
            "P103",
            f"the {what} is too large",
            place=str(path),
            expected="at most 1 MiB",
            found="more",
            hint=f"check that this file is the {what} and not an artifact",
        )
    return data


def decode(data: bytes, name: str, what: str) -> str:
    """`data` as text, ready for a TOML parser.

    Raises P104 (not UTF-8), P105 (byte-order mark), P106 (NUL or bare carriage
    return), P108 (nothing in it). CRLF is legal TOML and stays.
    """
    if len(data) > SIZE_LIMIT:
        fail(
            "P103",
            f"the {what} is too large",
            place=name,
            expected="at most 1 MiB",
            found="more",
            hint=f"check that this is the {what} and not an artifact",
        )
    if data.startswith(b"GGUF"):
        fail(
            "P104",
            f"the {what} is not text",
            place=name,
            expected="UTF-8 text",
            found="a GGUF",
            hint=f"name the {what}, not the artifact",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_encoding(data, error, name, what)
    if text.startswith("\ufeff"):
        fail(
            "P105",
            f"the {what} starts with a byte-order mark",
            spans=(span_at(text, 0, name),),
            hint="save the file as UTF-8 without BOM",
        )
    for match in re.finditer(r"\0|\r(?!\n)", text):
        nul = match.group() == "\0"
        fail(
            "P106",
            f"the {what} holds a {'NUL character' if nul else 'carriage return inside a line'}",
            spans=(span_at(text, match.start(), name),),
            hint="remove the character" if nul else "save it with Unix or Windows line ends",
        )
    if not text.strip():
        fail(
            "P108",
            f"the {what} is empty",
            place=name,
            hint=_EMPTY.get(what, "check the path, or fetch the file again"),
        )
    return text


def conflict_spans(text: str, name: str) -> tuple[Span, ...]:
    """Where merge-conflict markers stand, the first three; empty when there are none."""
    found = [match for match in _CONFLICT.finditer(text) if match.group(1) != "=" * 7]
    return tuple(span_at(text, m.start(), name, len(m.group().rstrip("\r"))) for m in found[:3])


def span_at(text: str, offset: int, name: str, width: int = 1, label: str = "") -> Span:
    """The place of `text[offset:offset + width]`, cut at the end of its line."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", start)
    source = text[start : len(text) if end < 0 else end].rstrip("\r")
    column = offset - start
    return Span(
        file=name,
        line=text.count("\n", 0, start) + 1,
        column=column + 1,
        width=max(1, min(width, len(source) - column, _WIDEST)),
        source=source,
        label=label,
    )


def _refuse_encoding(data: bytes, error: UnicodeDecodeError, name: str, what: str) -> NoReturn:
    utf16 = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
    before = data[: error.start].decode("utf-8")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    fail(
        "P104",
        f"the {what} is not UTF-8",
        place=f"{name}:{line}:{column} (byte {error.start})",
        expected="UTF-8 text",
        found="UTF-16" if utf16 else f"byte 0x{data[error.start]:02x}",
        hint="save the file as UTF-8",
    )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "something else"


def _nearby(path: Path) -> str:
    """A hint that names a file with a similar name, when the folder has one."""
    import difflib  # noqa: PLC0415 - only when something went wrong

    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return f"there is no folder `{path.parent}` either"
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean `{path.parent / close[0]}`?" if close else "check the path"
