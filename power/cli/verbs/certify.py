"""`power certify`: measure what a plan's outputs depend on here, and sign what was seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from power.cli.console import Verb
from power.cli.options import (
    FILE,
    artifact_roots,
    artifacts_option,
    count_option,
    format_option,
    key_option,
    output_option,
    passphrase_option,
)
from power.diagnostics import ExitCode, escape

if TYPE_CHECKING:
    from power.artifact.header import Header
    from power.receipt.certificate import Certificate
    from power.runner.types import Request


@click.command("certify")
@click.argument("lock", type=FILE)
@click.option(
    "--prompts",
    type=FILE,
    metavar="F.jsonl",
    help="The prompts of whole runs, as `power run --prompts` reads them; by default Power's own, "
    "as plain text where the model has no chat template.",
)
@count_option("--first", "Run the first N prompts.", default=24, most=500)
@count_option("--max-tokens", "At most N tokens a run; never above the plan's.", default=64)
@click.option(
    "--level",
    type=click.Choice(("shape", "serial")),
    help="What has to be shown; by default the plan's own level, or `serial` where it claims "
    "`rule`. With `shape` one-row decoding is left out.",
)
@output_option(
    "CERT", "Where the certificate goes; by default NAME.cert.sigstore.json beside NAME.lock."
)
@click.option("--force", is_flag=True, help="Replace a certificate that is there.")
@artifacts_option
@key_option
@passphrase_option
@format_option("human", "json")
def command(
    lock: Path,
    prompts: Path | None,
    first: int,
    max_tokens: int,
    level: str | None,
    output: Path | None,
    force: bool,
    artifacts: tuple[Path, ...],
    key: Path | None,
    passphrase_file: Path | None,
    fmt: str,
) -> None:
    """Measure the exactness of the plan LOCK on this host and engine build; sign a certificate.

    Rows of logits are compared bit by bit between passes of every row count, and
    whole runs under every kind of proposer with runs that have none. The certificate
    says what was seen, also where it is less than was asked for: then the answer is 1.
    """
    with Verb("certify", fmt) as verb:
        from power.cli.execution import Execution
        from power.cli.signing import OwnKey
        from power.evidence.certify import certify, demanded, requests
        from power.plan.exactness import shows
        from power.plan.files import check_new, write_atomic
        from power.receipt.bundle import sign
        from power.receipt.files import default_certificate

        place = output or default_certificate(lock)
        if not force:
            check_new(place)
        execution = Execution(verb, lock, artifact_roots(artifacts), None)
        private = OwnKey(key, passphrase_file).private
        wanted = demanded(execution.plan, level)

        def prepare(header: Header) -> list[Request]:
            return requests(prompts, execution.plan, header, first=first, max_tokens=max_tokens)

        opened = execution.open(prepare)
        with opened as (runner, asked), verb.progress("measuring") as progress:
            certificate = certify(runner, execution.plan_bytes, asked, wanted, progress)
        write_atomic(place, sign(certificate.document(), private), overwrite=force)
        _report(verb, certificate, place)
        if not shows(certificate.predicate.level, wanted):
            verb.answer(ExitCode.NO)


def _report(verb: Verb, certificate: Certificate, place: Path) -> None:
    predicate = certificate.predicate
    rows, runs, serial = predicate.rows, predicate.runs, predicate.serial
    verb.data |= {
        "certificate": str(place),
        "plan_sha256": predicate.plan.plan_sha256,
        "demanded": predicate.demanded,
        "level": predicate.level,
        "rows": rows.model_dump(mode="json"),
        "runs": runs.model_dump(mode="json", exclude_none=True),
        "serial": None if serial is None else serial.model_dump(mode="json", exclude_none=True),
        "not_covered": predicate.not_covered,
    }
    classes = " ".join("{" + ",".join(map(str, counts)) + "}" for counts in rows.classes)
    verb.out(f"level    {predicate.level} (demanded: {predicate.demanded})")
    verb.out(f"rows     equal bits in {classes}")
    for at in rows.by_cells:
        here = " ".join("{" + ",".join(map(str, counts)) + "}" for counts in at.classes)
        verb.out(f"         behind {at.cells} tokens {here}")
    if rows.padding:
        equal = sum(padding.equal for padding in rows.padding)
        verb.out(f"padding  {equal} of {len(rows.padding)} ways to pad changed no bit")
    for arm in runs.arms:
        replayed = f"; {arm.replayed_equal} of {arm.replayed} that replayed" if arm.replayed else ""
        verb.out(
            f"runs     {arm.equal} of {arm.runs} equal under `{arm.proposer}` "
            f"({arm.accepted} of {arm.drafted} accepted{replayed})"
        )
    if serial is not None:
        verb.out(f"serial   {serial.equal} of {serial.runs} equal one-row decoding")
    for fork in (*runs.forks, *(serial.forks if serial else ())):
        margin = "one run ended there" if fork.margin is None else f"margin {fork.margin}"
        verb.out(f"fork     {fork.proposer}, prompt {fork.prompt}, token {fork.token}: {margin}")
    for missing in predicate.not_covered:
        verb.out(f"not covered: {missing}")
    verb.say(f"certificate {escape(str(place))}")
