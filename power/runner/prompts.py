"""A file of prompts, one JSON object a line, read strictly and all its problems told at once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import rfc8785

from power.diagnostics import Diagnostic, PowerError, Span, fail
from power.manifest.files import UnreadableError, read_regular
from power.plan.model import Sampling
from power.runner.chat import check_messages
from power.runner.json_line import LineError, LineProblems, json_object, lines_of, typed
from power.runner.literal import Rendered
from power.runner.request import check_request
from power.runner.types import Request

MAX_FILE = 256 * 1024 * 1024
"""Bytes of the whole file, which is held in memory."""

_EXAMPLE = '{"id": "a", "prompt": "Once upon a time", "max_tokens": 64}'
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
            rendering_ns=prompt.spent_ns,
            special=self.messages is not None,
            max_tokens=self.max_tokens,
            seed=self.seed,
            control=control,
            stop=self.stop,
        )


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
    Raises PowerError P570 for every line that is not so (20 are shown, the others counted;
    of a file without a line of JSON the first).
    """
    prompts: list[Prompt] = []
    problems = LineProblems(path, "prompts", _EXAMPLE)
    lines: dict[str, int] = {}
    for number, line in enumerate(lines_of(data), 1):
        try:
            prompt = _prompt(line, number)
            _check(prompt, lines, sampling, chat=chat)
        except LineError as error:
            problems.add("P570", number, line, error)
        except PowerError as error:
            problems.take(located(error, path, number).diagnostics)
        else:
            lines[prompt.id] = number
            prompts.append(prompt)
    problems.check(len(prompts))
    if not prompts:
        fail("P570", "the file has no prompt", place=str(path), hint="write one JSON object a line")
    return tuple(prompts)


def _check(prompt: Prompt, lines: Mapping[str, int], sampling: Sampling, *, chat: bool) -> None:
    """What can be said of a prompt before it runs."""
    if prompt.id in lines:
        raise LineError(f"the id `{prompt.id}` is that of line {lines[prompt.id]} too")
    if prompt.messages is not None and not chat:
        raise LineError("`messages` need the model's chat template", "`prompt`")
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


def _prompt(line: bytes, number: int) -> Prompt:
    raw = json_object(line)
    unknown = sorted(set(raw) - KEYS)
    if unknown:
        keys = ", ".join(f"`{key}`" for key in unknown)
        raise LineError(f"unknown key {keys}", ", ".join(sorted(KEYS)))
    if ("prompt" in raw) == ("messages" in raw):
        raise LineError("a line needs either `prompt` or `messages`")
    stop = typed(raw, "stop", list) or []
    if not all(isinstance(text, str) for text in stop):
        raise LineError("`stop` holds something else than text", "a list of text")
    asked = {key: value for key, value in raw.items() if key != "id"}
    name = typed(raw, "id", str)
    if name == "":
        raise LineError("the `id` is empty", "text")
    try:
        digest = hashlib.sha256(rfc8785.dumps(asked)).hexdigest()
    except rfc8785.IntegerDomainError:
        raise LineError("a number is out of range", "at most 2^53 - 1") from None
    except RecursionError:
        raise LineError("the line is nested too deeply") from None
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        raise LineError("the line holds a lone surrogate, which is no text", "text") from None
    messages = typed(raw, "messages", list)
    return Prompt(
        id=str(number) if name is None else name,
        line=number,
        text=typed(raw, "prompt", str),
        messages=None if messages is None else tuple(messages),
        max_tokens=typed(raw, "max_tokens", int),
        seed=typed(raw, "seed", int),
        stop=tuple(stop),
        sha256=digest,
    )
