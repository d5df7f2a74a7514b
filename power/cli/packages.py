"""`power verify` of an evidence package: derived again, and run again where it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from power.cli.console import Verb
from power.cli.execution import Execution
from power.cli.trusting import given_trust
from power.diagnostics import counted, escape
from power.evidence import package
from power.evidence.replaying import replay_package
from power.evidence.workplace import chat_of
from power.runner.batch import Chat
from power.runner.runner import Runner


def verify_package(
    verb: Verb,
    folder: Path,
    key: Path | None,
    trust: Path | None,
    roots: Sequence[Path],
    *,
    replay: bool,
) -> None:
    """Verify the package in `folder`, replay it where asked, and say what was done.

    Raises PowerError as `package.verify` and `replay_package`.
    """
    trusted = given_trust(key, trust, str(folder))
    held = package.verify(folder, trusted)
    checked = ["index", "files", "receipts", "figures"]
    verb.data |= {"key": held.key, "receipts": held.receipts, "reports": sorted(held.reports)}
    verb.data["matrices"] = sorted(held.matrices)
    if replay:

        @contextmanager
        def opened(lock: str, control: bool) -> Iterator[tuple[Runner, Chat]]:
            # No certificate is asked for: whether the output repeats is what is measured.
            execution = Execution(verb, folder / lock, roots, None, control=control)
            with execution.verified() as artifacts, execution.loaded(artifacts) as runner:
                yield runner, chat_of(artifacts.target_header)

        with verb.progress("replaying") as progress:
            again = replay_package(held, trusted, opened, progress)
        for note in again.notes:
            verb.say(f"note: {note}")
        verb.data["replayed"] = again.samples
        checked.append(f"replay of {again.samples} runs")
    verb.data["checked"] = checked
    verb.say(f"verified: {', '.join(checked)}")
    reports = counted(len(held.reports) + len(held.matrices), "report")
    receipts = counted(held.receipts, "receipt")
    verb.say(f"{reports}, {receipts}, signed by {escape(held.key)}")
