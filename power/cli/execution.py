"""What `run` and `verify --replay` share: a plan checked, its artifacts open, a runner on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from power.artifact.header import Header
from power.backends.registry import backend
from power.cli.certificates import Backing
from power.cli.console import Report, Verb, write_stdout
from power.cli.signals import on_interrupt
from power.diagnostics import escape, fail
from power.manifest.files import UnreadableError, read_regular
from power.plan.host import check_engine, check_host, read_host
from power.plan.lock import dumps, load
from power.plan.verified import VerifiedArtifacts, open_verified
from power.receipt.certified import Certified, check_place
from power.runner.runner import Runner

T = TypeVar("T")

MAX_INPUT_BYTES = 64 * 1024 * 1024


class Execution:
    """One plan on its way to a run. Construction checks all that needs no artifact.

    backing: where a certificate for the plan's exactness is found and who is
    believed; None: the run is to measure it, and claims nothing.
    control: the run has no proposer.
    Raises PowerError: P4xx for the plan, the engine, the host and the exactness
    level; P6xx for a certificate that is not to be believed.
    """

    def __init__(
        self,
        verb: Verb,
        lock: Path,
        roots: Sequence[Path],
        backing: Backing | None,
        *,
        control: bool = False,
    ) -> None:
        self._verb = verb
        self._lock = lock
        self._roots = roots
        self.plan = load(lock)
        self.plan_bytes = dumps(self.plan).encode()  # a plan has one form: these are the file's
        check_engine(self.plan, backend().describe())
        check_host(self.plan, read_host())
        self.certified: Certified | None = None
        if backing is not None:
            self.certified = backing.certified(self.plan, lock, control=control)

    @contextmanager
    def open(self, prepare: Callable[[Header], T]) -> Iterator[tuple[Runner, T]]:
        """Verify the artifacts, `prepare` with the target's header, then load the engine.

        What is wrong with a request is so found before the engine is loaded. While
        it is open, Ctrl-C ends the running request at its last committed round.
        """
        with ExitStack() as stack:
            with self._verb.progress("verifying") as hashing:
                artifacts = stack.enter_context(self.verified(hashing))
            prepared = prepare(artifacts.target_header)
            with self._verb.progress("loading") as loading:
                runner = stack.enter_context(self.loaded(artifacts, _fraction(loading)))
            yield runner, prepared

    def verified(self, progress: Report | None = None) -> VerifiedArtifacts:
        """The plan's artifacts, sealed and checked."""
        return open_verified(self.plan, self._lock, self._roots, progress)

    @contextmanager
    def loaded(
        self, artifacts: VerifiedArtifacts, progress: Callable[[float], None] | None = None
    ) -> Iterator[Runner]:
        """A fresh worker that has loaded `artifacts`; Ctrl-C as in `open`.

        Raises P635 where engine and host are not those of the certificate.
        """
        runner = Runner(self.plan, artifacts, progress=progress)
        with on_interrupt(runner.cancel), runner:
            if self.certified is not None:
                check_place(self.certified, runner.engine, runner.host)
            yield runner


def _fraction(report: Report | None) -> Callable[[float], None] | None:
    if report is None:
        return None
    return lambda done: report(int(done * 1000), 1000)


def stdout_bytes() -> Callable[[bytes], None]:
    """Writes committed text to stdout: byte for byte, or, on a terminal, its controls escaped."""
    if not sys.stdout.isatty():
        return write_stdout

    def shown(data: bytes) -> None:  # whole characters: `Runner.generate`
        parts = data.decode("utf-8", "replace").split("\n")
        lines = (escape(part).replace("\\x09", "\t") for part in parts)
        write_stdout("\n".join(lines).encode())

    return shown


def read_input(path: Path) -> bytes:
    """The bytes of a file that a verifier holds; P706 when it cannot be read."""
    try:
        return read_regular(path, MAX_INPUT_BYTES)
    except UnreadableError as error:
        fail(
            "P706",
            f"the file cannot be read: {error}",
            place=str(path),
            hint="name the plan or the text of that run",
        )
