"""The prompt of a run: from an argument, a file or standard input, with or without a chat."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from power.diagnostics import fail

if TYPE_CHECKING:
    from power.artifact.header import Header
    from power.runner.literal import Rendered

MAX_PROMPT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """What the prompt options said."""

    prompt: str | None
    prompt_file: Path | None
    chat: bool
    system: str | None
    stop: tuple[str, ...] = ()

    def given(self) -> list[str]:
        """The options of these that were given, as they are written."""
        values = {
            "--prompt": self.prompt,
            "--prompt-file": self.prompt_file,
            "--chat": self.chat or None,
            "--system": self.system,
            "--stop": self.stop or None,
        }
        return [name for name, value in values.items() if value is not None]

    def check(self) -> None:
        """Refuse combinations that do not say one thing (P704), and what is no text (P705)."""
        if self.prompt is not None and self.prompt_file is not None:
            fail("P704", "`--prompt` and `--prompt-file` exclude each other", hint="give one")
        if self.system is not None and not self.chat:
            fail("P704", "`--system` needs `--chat`", hint="add `--chat`")
        for place, text in (("--system", self.system or ""), *(("--stop", s) for s in self.stop)):
            _decoded(_bytes(text), place)


def read_prompt(options: PromptOptions) -> str:
    """The prompt's text, taken as it is: no newline is added or cut.

    Raises PowerError: P704 when there is none, P705 when it is not UTF-8 or
    larger than 16 MiB, P706 when the file cannot be read.
    """
    options.check()
    if options.prompt is not None:
        return _decoded(_bytes(options.prompt), "--prompt")
    if options.prompt_file is not None:
        return _decoded(_read(options.prompt_file), str(options.prompt_file))
    if sys.stdin is None or sys.stdin.isatty():
        fail(
            "P704",
            "there is no prompt",
            hint="give `--prompt TEXT`, `--prompt-file FILE` or pipe it in",
        )
    return _decoded(sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1), "standard input")


def _read(path: Path) -> bytes:
    """The bytes of a prompt file. A pipe will do (`<(command)`), if somebody writes to it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        with os.fdopen(fd, "rb") as file:
            start = b""
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                start = _first_of_pipe(fd, path)
            return start + file.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        fail(
            "P706",
            f"the prompt file cannot be read: {error.strerror}",
            place=str(path),
            hint="check the path and its permissions",
        )


def _first_of_pipe(fd: int, path: Path) -> bytes:
    """Up to one byte of a pipe, whose later reads then wait; P706 when nobody writes to it."""
    try:
        start = os.read(fd, 1)
    except BlockingIOError:  # there is a writer, who is not ready yet
        start = None
    if start == b"":
        fail(
            "P706",
            "the prompt file cannot be read: it is a pipe that nobody writes to",
            place=str(path),
            hint="start its writer first, or pipe the prompt in without `--prompt-file`",
        )
    os.set_blocking(fd, True)
    return start or b""


def _bytes(argument: str) -> bytes:
    """An argument's UTF-8; bytes of it that were none reach Python as lone surrogates."""
    return argument.encode("utf-8", "surrogateescape")


def _decoded(data: bytes, place: str) -> str:
    if len(data) > MAX_PROMPT_BYTES:
        fail(
            "P705",
            "the prompt is too large",
            place=place,
            expected=f"at most {MAX_PROMPT_BYTES} bytes",
            found=f"more than {MAX_PROMPT_BYTES} bytes",
            hint="shorten the prompt",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        fail(
            "P705",
            "the text is not UTF-8",
            place=f"{place}: byte {error.start}",
            found=f"0x{data[error.start]:02x}",
            hint="give it as UTF-8",
        )


def rendered(header: Header, text: str, options: PromptOptions) -> Rendered:
    """The prompt as it is, or, for a chat, as the user's message in the target's template."""
    from power.runner.chat import render_for_header
    from power.runner.literal import Rendered

    if not options.chat:
        return Rendered(text)
    messages = [{"role": "user", "content": text}]
    if options.system is not None:
        messages.insert(0, {"role": "system", "content": options.system})
    return render_for_header(header, messages)
