"""Where a verb's words go: data to stdout, the rest to stderr, JSON when asked.

A verb runs inside `with Verb("name", fmt) as verb:`. What it learns goes to
`verb.data`, its readable result to `verb.out`, its remarks to `verb.say`. The
end of the block prints diagnostics or the JSON object and leaves the process
with the exit code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import click

from power.diagnostics import (
    Diagnostic,
    ExitCode,
    PowerError,
    as_github,
    as_json,
    as_text,
    escape,
    first_line,
)

OUT_OF_MEMORY = Diagnostic(
    code="P709",
    message="this process ran out of memory",
    hint="close other programs, raise its limit (`ulimit -v`), or use a smaller model",
)

RESUME = "interrupted: run the same command again to go on"
"""What a verb says that has kept what was finished."""

Report = Callable[[int, int], None]  # done, total


def open_standard_streams() -> None:
    """Put /dev/null where the caller closed stdin, stdout or stderr (`2>&-`).

    Else the next file that is opened would take the number, and be written to. What
    has to go to standard output cannot be written there (P708) and is not lost in silence.
    """
    streams = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(streams):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number: this one.
            null = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_RDWR)
            os.set_inheritable(null, True)  # noqa: FBT003 - its only argument
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def wants_color(stream: TextIO | None = None) -> bool:
    """Colour on `stream` (stderr): on a terminal, unless NO_COLOR or TERM=dumb says no."""
    terminal = (sys.stderr if stream is None else stream).isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_mid_line = False  # what was written to standard output last did not end its line


def write_stdout(data: bytes) -> None:
    """Write all of `data` to standard output at once, whatever the locale's encoding.

    Raises BrokenPipeError when its reader is gone, PowerError P708 when it cannot
    be written for another reason (a full disk).
    """
    global _mid_line  # noqa: PLW0603 - there is one standard output
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        if data:
            _mid_line = not data.endswith(b"\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise PowerError((unwritable(error),)) from error


def unwritable(error: OSError) -> Diagnostic:
    """What a standard output that takes nothing more is called."""
    return Diagnostic(
        code="P708",
        message=f"standard output cannot be written: {error.strerror}",
        hint="check the space left where it goes",
    )


def refused_by_system(error: OSError) -> Diagnostic:
    """What an error of the operating system is called that nobody asked for by name."""
    return Diagnostic(
        code="P706",
        message=f"the operating system refused: {error.strerror or error}",
        place=None if error.filename is None else os.fsdecode(error.filename),
        hint="check the path, its permissions, and the limits of this process (`ulimit -a`)",
    )


def own_fault(error: Exception) -> Diagnostic:
    """What an error is called that nothing foresaw: no verdict, and no traceback."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    return Diagnostic(
        code="P710",
        message="this is a fault in Power itself: no verdict was reached",
        place=f"{Path(last.filename).name}:{last.lineno} in {last.name}",
        found=first_line(error),
        hint="report it with what `python -X dev -m power` and the same arguments print",
    )


def wants_traceback(error: BaseException) -> bool:
    """Whether `error` passes through: a usage error of click's, or Python's development mode."""
    return isinstance(error, click.ClickException | click.exceptions.Exit) or sys.flags.dev_mode


def write_stderr(text: str) -> None:
    """Write `text` and a newline to standard error; a closed stderr is not an error.

    It begins a line of its own where both streams go to one place (a terminal, `2>&1`).
    """
    global _mid_line  # noqa: PLW0603 - there is one standard output
    try:
        begin = "\n" if _mid_line and _one_place() else ""
        sys.stderr.buffer.write((begin + text + "\n").encode("utf-8", "backslashreplace"))
        sys.stderr.buffer.flush()
        if begin:
            _mid_line = False
    except (OSError, ValueError):
        return


def _one_place() -> bool:
    """Whether standard output and standard error are one terminal, file or pipe."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


class Verb:
    """One verb's run; see the module's text."""

    def __init__(self, name: str, fmt: str) -> None:
        self.name = name
        self.fmt = fmt
        self.data: dict[str, Any] = {}
        self.exit_code = ExitCode.YES
        self.when_interrupted = "interrupted"
        self._diagnostics: list[Diagnostic] = []
        self._undo: Callable[[], object] = lambda: None

    @property
    def human(self) -> bool:
        """Whether a person reads the result, rather than a program."""
        return self.fmt != "json"

    def out(self, text: str) -> None:
        """Readable data on stdout; nothing with `--format json`."""
        if self.human and text:
            write_stdout((text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace"))

    def say(self, text: str) -> None:
        """A remark on stderr; nothing with `--format json`."""
        if self.human:
            write_stderr(text)

    def note(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Diagnostics to print at the end; errors among them are raised by who found them."""
        self._diagnostics += diagnostics

    def answer(self, code: ExitCode) -> None:
        """The exit code of a verb that found no error but has an answer to give."""
        self.exit_code = code

    def stands_once_told(self, undo: Callable[[], object]) -> None:
        """Call `undo` where the JSON object that tells of the result cannot be written."""
        self._undo = undo

    @contextmanager
    def progress(self, label: str) -> Iterator[Report | None]:
        """A progress bar on a terminal; None (nothing to call) elsewhere."""
        if not (self.human and sys.stderr.isatty()):
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, no_color=not wants_color(), highlight=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(escape(label), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, PowerError):
            self._diagnostics += error.diagnostics
            self.exit_code = error.exit_code
        elif isinstance(error, KeyboardInterrupt | click.Abort):
            self.exit_code = ExitCode.INTERRUPTED
            self.say(self.when_interrupted)
        elif isinstance(error, BrokenPipeError):
            drop_stdout()
            self.exit_code = ExitCode.INTERRUPTED
        elif isinstance(error, MemoryError):
            self._diagnostics.append(OUT_OF_MEMORY)
            self.exit_code = ExitCode.ENGINE_FAILED
        elif isinstance(error, OSError) and not sys.flags.dev_mode:
            self._diagnostics.append(refused_by_system(error))
            self.exit_code = ExitCode.CANNOT_JUDGE
        elif isinstance(error, Exception) and not wants_traceback(error):
            self._diagnostics.append(own_fault(error))
            self.exit_code = ExitCode.CANNOT_JUDGE
        elif error is not None:
            return
        try:
            self._finish()
        except BrokenPipeError:  # click would make it exit code 1
            drop_stdout()
            raise SystemExit(int(ExitCode.INTERRUPTED)) from None
        raise SystemExit(int(self.exit_code))

    def _finish(self) -> None:
        if self.fmt == "json":
            try:
                write_json(self.name, self.exit_code, self.data, self._diagnostics)
            except (BrokenPipeError, PowerError):
                self._undo()
                raise
            return
        if self.fmt == "github" and self._diagnostics:
            write_stdout((as_github(self._diagnostics) + "\n").encode())
            return
        if self._diagnostics:
            write_stderr(as_text(self._diagnostics, color=wants_color()))


def write_json(
    verb: str, code: ExitCode, data: dict[str, Any], diagnostics: Iterable[Diagnostic]
) -> None:
    """The one object of `--format json`."""
    found = as_json(diagnostics)
    whole = {"schema": f"power.{verb}.v1", "exit_code": int(code), **data}
    if found:
        whole["diagnostics"] = found
    write_stdout((json.dumps(whole, ensure_ascii=True, indent=2) + "\n").encode())


def drop_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
