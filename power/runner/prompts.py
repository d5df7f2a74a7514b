"""A file of prompts, one JSON object a line, read strictly and all its problems told at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rfc8785

from power.diagnostics import Diagnostic, PowerError, Span, fail
from power.manifest.files import UnreadableError, read_regular
from power.plan.model import Sampling
from power.runner.chat import check_messages
from power.runner.literal import Rendered
from power.runner.request import check_request
from power.runner.types import Request

MAX_FILE = 256 * 1024 * 1024
"""Bytes of the whole file, which is held in memory."""

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one line."""

MAX_PROBLEMS = 20
"""Diagnostics shown of one file."""

_SHOWN = 160
KEYS = {"id", "prompt", "messages", "max_tokens", "seed", "stop"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One line: `text`, or `messages` for the chat template.

    sha256: digest of what the line asks for, its `id` aside; not of its layout.
    """

    id: str
    line: int  # 1-based
    text: str | None
    messages: tuple[dict[str, str], ...] | None
    max_tokens: int | None
    seed: int | None
    stop: tuple[str, ...]
    sha256: str

    def request(self, prompt: Rendered, *, control: bool) -> Request:
        """The request with that text, which is ours or the chat template's."""
        return Request(
            text=prompt.text,
            plain=prompt.plain,
            special=self.messages is not None,
            max_tokens=self.max_tokens,
            seed=self.seed,
            control=control,
            stop=self.stop,
        )


class _Invalid(Exception):  # noqa: N818 - one line's problem, soon a diagnostic
    """What is wrong with a line."""

    def __init__(self, message: str, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected


def read_prompts(path: Path, sampling: Sampling, *, chat: bool) -> tuple[Prompt, ...]:
    """Every prompt of the file, in order; as `parse_prompts`.

    Raises PowerError P573 when the file cannot be read, is no regular file or
    larger than 256 MiB.
    """
    return parse_prompts(prompts_bytes(path), path, sampling, chat=chat)


def parse_prompts(data: bytes, path: Path, sampling: Sampling, *, chat: bool) -> tuple[Prompt, ...]:
    """Every prompt of `data`, the content of the file `path`, in order.

    A line is an object with `prompt` (text) or `messages` (where `chat`), and
    optionally `id` (text; by default the line's number), `max_tokens`, `seed`
    and `stop` (a list of text). Ids are unique.
    Raises PowerError P570 for every line that is not so (20 are shown, the others counted).
    """
    prompts: list[Prompt] = []
    problems: list[Diagnostic] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(lines_of(data), 1):
        try:
            prompt = _prompt(line, number)
            _check(prompt, lines, sampling, chat=chat)
        except _Invalid as error:
            problems.append(_problem(path, number, line, error))
        except PowerError as error:
            problems += located(error, path, number).diagnostics
        else:
            lines[prompt.id] = number
            prompts.append(prompt)
    if problems:
        raise PowerError(_first(problems, path))
    if not prompts:
        fail("P570", "the file has no prompt", place=str(path), hint="write one JSON object a line")
    return tuple(prompts)


def _first(problems: Sequence[Diagnostic], path: Path) -> tuple[Diagnostic, ...]:
    """The first problems, and how many more there are."""
    shown, more = tuple(problems[:MAX_PROBLEMS]), len(problems) - MAX_PROBLEMS
    if more <= 0:
        return shown
    message = f"{more} more problems in these prompts are not shown"
    return (*shown, Diagnostic("P570", message, place=str(path), hint="mend these first"))


def _check(prompt: Prompt, lines: Mapping[str, int], sampling: Sampling, *, chat: bool) -> None:
    """What can be said of a prompt before it runs."""
    if prompt.id in lines:
        raise _Invalid(f"the id `{prompt.id}` is that of line {lines[prompt.id]} too")
    if prompt.messages is not None and not chat:
        raise _Invalid("`messages` need the model's chat template", "`prompt`")
    if prompt.messages is not None:
        check_messages(prompt.messages)
    # The template makes the text of a conversation later; the rest is known now.
    text = "-" if prompt.text is None else prompt.text
    check_request(prompt.request(Rendered(text), control=False), sampling)


def located(error: PowerError, path: Path, line: int) -> PowerError:
    """`error` with that line of the prompts file as the place of every diagnostic."""
    span = Span(str(path), line, 1)
    return PowerError(
        tuple(
            Diagnostic(d.code, d.message, (span,), d.place, d.expected, d.found, d.hint, d.severity)
            for d in error.diagnostics
        )
    )


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file, none of them for the end of its last one."""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def prompts_bytes(path: Path) -> bytes:
    """The content of a file of prompts, unread; raises PowerError P573 as `read_prompts`."""
    try:
        data = read_regular(path, MAX_FILE)
    except UnreadableError as error:
        hint = "check the path and its permissions"
        if error.why == "irregular":
            hint = "a batch that is to go on later needs its prompts in a file"
        elif error.why == "large":
            hint = "cut it into several files, each a batch of its own"
        fail("P573", f"the prompts cannot be read: {error}", place=str(path), hint=hint)
    return data


def _problem(path: Path, number: int, line: bytes, error: _Invalid) -> Diagnostic:
    shown = line[:_SHOWN].decode("utf-8", "replace")
    return Diagnostic(
        "P570",
        error.message,
        spans=(Span(str(path), number, 1, max(1, len(shown)), shown),),
        expected=error.expected,
        hint='a line is such as {"id": "a", "prompt": "Once upon a time", "max_tokens": 64}',
    )


def _prompt(line: bytes, number: int) -> Prompt:
    raw = _object(line)
    unknown = sorted(set(raw) - KEYS)
    if unknown:
        keys = ", ".join(f"`{key}`" for key in unknown)
        raise _Invalid(f"unknown key {keys}", ", ".join(sorted(KEYS)))
    if ("prompt" in raw) == ("messages" in raw):
        raise _Invalid("a line needs either `prompt` or `messages`")
    stop = _typed(raw, "stop", list) or []
    if not all(isinstance(text, str) for text in stop):
        raise _Invalid("`stop` holds something else than text", "a list of text")
    asked = {key: value for key, value in raw.items() if key != "id"}
    name = _typed(raw, "id", str)
    if name == "":
        raise _Invalid("the `id` is empty", "text")
    try:
        digest = hashlib.sha256(rfc8785.dumps(asked)).hexdigest()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError):
        raise _Invalid("the line holds text or a number that JSON can not carry") from None
    messages = _typed(raw, "messages", list)
    return Prompt(
        id=str(number) if name is None else name,
        line=number,
        text=_typed(raw, "prompt", str),
        messages=None if messages is None else tuple(messages),
        max_tokens=_typed(raw, "max_tokens", int),
        seed=_typed(raw, "seed", int),
        stop=tuple(stop),
        sha256=digest,
    )


def _typed(raw: Mapping[str, Any], key: str, kind: type) -> Any:
    """The value under `key`; None without it. A bool is no int, null is no value."""
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {str: "text", int: "a whole number", list: "a list"}
        raise _Invalid(f"`{key}` is not {names[kind]}", names[kind])
    return value


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise _Invalid("the line is too long", f"at most {MAX_LINE} bytes")
    try:
        value = json.loads(
            line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        raise _Invalid(f"the line is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _Invalid(f"the line is no JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise _Invalid("the line is nested too deeply") from None
    except ValueError as error:  # an integer of too many digits
        raise _Invalid(f"the line is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise _Invalid("the line is no object", "an object")
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Invalid(f"the key `{twice}` is given more than once")
    return found


def _no_number(name: str) -> Any:
    raise _Invalid(f"`{name}` is no JSON number")
