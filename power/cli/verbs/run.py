"""`power run`: verify a plan, execute it, stream the text, sign a receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import RESUME, Verb
from power.cli.options import (
    FILE,
    artifact_roots,
    artifacts_option,
    certificate_options,
    check_certificate_options,
    format_option,
    key_option,
    passphrase_option,
    prompt_options,
)
from power.cli.prompt import PromptOptions, read_prompt, rendered
from power.cli.signals import hold_interrupts, interrupts_later
from power.diagnostics import ExitCode, counted, escape, fail

if TYPE_CHECKING:
    from power.artifact.header import Header
    from power.cli.execution import Execution
    from power.cli.signing import Issued, Signer
    from power.runner.prompts import Prompt
    from power.runner.types import Request, RunRecord


@click.command("run")
@click.argument("lock", type=FILE)
@prompt_options
@certificate_options
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    metavar="N",
    help="At most N tokens; never above the plan's.",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Instead of the plan's.")
@click.option("--control", is_flag=True, help="The same plan and shape, with no proposer.")
@artifacts_option
@key_option
@passphrase_option
@click.option(
    "--receipt",
    type=FILE,
    metavar="FILE",
    help="Where the receipt goes; by default a new name in `receipts/`. Never overwritten.",
)
@click.option(
    "--prompts",
    type=FILE,
    metavar="F.jsonl",
    help="Run every prompt of a JSON Lines file; needs --out.",
)
@click.option(
    "--out",
    type=FILE,
    metavar="F.jsonl",
    help="Where the answers to --prompts go, a line each. An interrupted batch goes on from there.",
)
@format_option("human", "json")
def command(
    lock: Path,
    prompt: str | None,
    prompt_file: Path | None,
    chat: bool,
    system: str | None,
    stop: tuple[str, ...],
    certificate: Path | None,
    certificate_key: Path | None,
    certificate_trust: Path | None,
    max_tokens: int | None,
    seed: int | None,
    control: bool,
    artifacts: tuple[Path, ...],
    key: Path | None,
    passphrase_file: Path | None,
    receipt: Path | None,
    prompts: Path | None,
    out: Path | None,
    fmt: str,
) -> None:
    """Verify the plan LOCK and everything it names, execute it, and sign a receipt.

    The text goes to standard output as it is committed. Any mismatch refuses
    before the engine sees a byte, and then there is neither output nor receipt.
    """
    with Verb("run", fmt) as verb:
        options = PromptOptions(prompt, prompt_file, chat, system, stop)
        options.check()
        if prompts is not None or out is not None:
            alone = {"--max-tokens": max_tokens, "--seed": seed, "--receipt": receipt}
            others = [name for name, value in alone.items() if value is not None]
            _check_batch(prompts, out, [*options.given(), *others])
        check_certificate_options(certificate_key, certificate_trust)
        from power.cli.certificates import Backing
        from power.cli.execution import Execution
        from power.cli.signing import OwnKey, Signer
        from power.runner.request import check_request
        from power.runner.types import Request

        own = OwnKey(key, passphrase_file)
        backing = Backing(own.public, certificate, certificate_key, certificate_trust)
        execution = Execution(verb, lock, artifact_roots(artifacts), backing, control=control)
        signer = Signer(own, receipt)
        if prompts is not None and out is not None:
            _batch(verb, execution, signer, prompts, out, control=control)
            return
        text = read_prompt(options)

        def prepare(header: Header) -> Request:
            asked = rendered(header, text, options)
            request = Request(
                text=asked.text,
                special=chat,
                plain=asked.plain,
                rendering_ns=asked.spent_ns,
                max_tokens=max_tokens,
                seed=seed,
                control=control,
                stop=stop,
            )
            check_request(request, execution.plan.sampling)
            return request

        with (
            execution.open(prepare) as (runner, request),
            _kept_text(verb) as take,
            ExitStack() as reading,
        ):
            progress = reading.enter_context(verb.progress("reading the prompt"))

            def taken(text: bytes) -> None:
                reading.close()  # before the first text comes to the same terminal
                take(text)

            record = runner.generate(request, taken, progress)
        if record.finish == "cancelled":
            verb.data["text"] = record.text.decode("utf-8", "replace")
            verb.say("interrupted: the text so far is the plan's, no receipt was written")
            verb.answer(ExitCode.INTERRUPTED)
            return
        hold_interrupts()  # a receipt that is written is also reported
        issued = signer.issue(execution, request, record)
        _report(verb, record, issued)
        verb.stands_once_told(issued.path.unlink)


def _check_batch(prompts: Path | None, out: Path | None, alone: list[str]) -> None:
    """Refuse (P704) what a batch cannot heed: each of its lines says such things itself."""
    if prompts is None or out is None:
        fail("P704", "`--prompts` and `--out` go together", hint="give both")
    if alone:
        fail(
            "P704",
            f"{', '.join(f'`{name}`' for name in alone)} and `--prompts` exclude each other",
            hint="a line of the prompts file has its own prompt or messages, `max_tokens`, `seed` "
            "and `stop`; the receipts of a batch go to `receipts/`",
        )


@contextmanager
def _kept_text(verb: Verb) -> Iterator[Callable[[bytes], None]]:
    """Where committed text goes: to stdout, or, however the run ends, into the JSON object."""
    from power.cli.execution import stdout_bytes

    if verb.human:
        try:
            yield stdout_bytes()
        except BrokenPipeError:
            verb.say("interrupted: nobody reads the text any more, no receipt was written")
            raise
        return
    taken = bytearray()
    try:
        yield taken.extend
    finally:
        if taken:
            verb.data["text"] = taken.decode("utf-8", "replace")


def _batch(
    verb: Verb,
    execution: Execution,
    signer: Signer,
    prompts: Path,
    out: Path,
    *,
    control: bool,
) -> None:
    from power.runner.batch import run_batch
    from power.runner.chat import render_for_header

    def sign(_prompt: Prompt, request: Request, record: RunRecord) -> None:
        with interrupts_later():
            signer.issue(execution, request, record)

    with (
        execution.open(lambda header: header) as (runner, header),
        verb.progress("prompts") as progress,
    ):
        summary = run_batch(
            runner,
            prompts,
            out,
            chat=lambda messages: render_for_header(header, messages),
            control=control,
            progress=progress,
            on_record=sign,
        )
    verb.data |= {
        "out": str(out),
        "total": summary.total,
        "resumed": summary.resumed,
        "answered": summary.answered,
    }
    done = summary.resumed + summary.answered
    earlier = f" ({summary.resumed} of them before)" if summary.resumed else ""
    verb.say(f"{done} of {summary.total} prompts answered{earlier} in {escape(str(out))}")
    if summary.cancelled:
        verb.say(RESUME)
        verb.answer(ExitCode.INTERRUPTED)


def _report(verb: Verb, record: RunRecord, issued: Issued) -> None:
    drafted, accepted = record.counters["drafted"], record.counters["accepted"]
    verb.data |= {
        "text": record.text.decode("utf-8", "replace"),
        "finish": record.finish,
        "prompt_tokens": len(record.prompt_ids),
        "tokens": len(record.ids),
        "strategy": record.strategy,
        "control": record.control,
        "drafted": drafted,
        "accepted": accepted,
        "rounds": record.counters["rounds"],
        "wall_us": record.wall_us,
        "receipt": str(issued.path),
        "claim_sha256": issued.claim_sha256,
        "notes": record.notes,
    }
    within = ""
    if record.fr_covered is not None:
        verb.data["fr_covered_tokens"] = record.fr_covered
        within = f", {record.fr_covered} within the reduced draft vocabulary"
    decode_us = record.wall_us - (record.first_token_us or record.wall_us)
    later = len(record.ids) - record.first_tokens
    rate = f", {later / decode_us * 1e6:.1f} tokens/s" if decode_us and later > 0 else ""
    advice = f", {accepted} of {drafted} proposed tokens accepted" if drafted else ""
    verb.say(
        f"{counted(len(record.ids), 'token')} in "
        f"{counted(record.counters['rounds'], 'pass', 'passes')} "
        f"({record.strategy}{advice}{within}){rate}; finish: {record.finish}"
    )
    for note in record.notes:
        verb.say(f"note    {escape(note)}")
    verb.say(f"receipt {escape(str(issued.path))}")
    verb.say(f"claim   {issued.claim_sha256}")
