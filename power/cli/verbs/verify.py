"""`power verify`: the signature, then every digest, then (if asked) the run itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from power.cli.console import Verb
from power.cli.options import (
    FILE,
    artifact_roots,
    artifacts_option,
    format_option,
    prompt_options,
    trust_options,
)
from power.cli.prompt import PromptOptions
from power.diagnostics import escape, fail


@click.command("verify")
@click.argument("receipt", type=FILE)
@trust_options
@click.option("--plan", type=FILE, metavar="LOCK", help="The plan that was run.")
@click.option("--output", type=FILE, metavar="FILE", help="The text that was written.")
@click.option(
    "--certificate", type=FILE, metavar="FILE", help="The certificate that the run rested on."
)
@artifacts_option
@click.option(
    "--replay",
    is_flag=True,
    help="Run the request again and compare the claim; needs --plan, and the run's own prompt "
    "options or its --prompts.",
)
@prompt_options
@click.option(
    "--prompts",
    type=FILE,
    metavar="F.jsonl",
    help="With --replay: the prompts file of a batch; its line is found by the receipt's digests.",
)
@format_option("human", "json")
def command(
    receipt: Path,
    key: Path | None,
    trust: Path | None,
    plan: Path | None,
    output: Path | None,
    certificate: Path | None,
    artifacts: tuple[Path, ...],
    replay: bool,
    prompt: str | None,
    prompt_file: Path | None,
    chat: bool,
    system: str | None,
    stop: tuple[str, ...],
    prompts: Path | None,
    fmt: str,
) -> None:
    """Verify RECEIPT, or the evidence package RECEIPT, against a key of your own.

    Trust never comes from the receipt: give --key or --trust. With --plan the plan
    file is compared too, with --artifacts the model files (looked for in DIR, then where
    POWER_ARTIFACTS says), with --output the text, with --certificate what the exactness
    rests on, with --replay the claim of a new run. Of a package every figure is derived
    again, and --replay runs each arm on each prompt once more.
    """
    with Verb("verify", fmt) as verb:
        options = PromptOptions(prompt, prompt_file, chat, system, stop)
        options.check()
        if receipt.is_dir():
            _check_package(
                options.given(),
                {
                    "--prompts": prompts,
                    "--plan": plan,
                    "--output": output,
                    "--certificate": certificate,
                    "--artifacts": () if replay else artifacts,
                },
            )
            from power.cli.packages import verify_package

            verify_package(verb, receipt, key, trust, artifact_roots(artifacts), replay=replay)
            return
        _check_receipt(options.given(), plan=plan, replay=replay, prompts=prompts)
        from power.cli.certificates import Backing
        from power.cli.execution import read_input
        from power.cli.trusting import given_trust
        from power.receipt.files import read_receipt
        from power.receipt.verify import verify_artifacts, verify_receipt

        backing = Backing(file=certificate, key=key, trust=trust)
        verified = verify_receipt(
            read_receipt(receipt),
            given_trust(key, trust, str(receipt)),
            plan=None if plan is None else read_input(plan),
            output=None if output is None else read_input(output),
            certificate=None if certificate is None else backing.verified(certificate),
            name=str(receipt),
        )
        verb.note(verified.warnings)
        claim = verified.statement.predicate.claim_sha256
        verb.data |= {
            "receipt_id": verified.receipt_id,
            "key": verified.key,
            "keyid": verified.keyid,
            "claim_sha256": claim,
        }
        roots = artifact_roots(artifacts)
        if artifacts:
            with verb.progress("hashing") as progress:
                verified = verify_artifacts(verified, roots, progress)
        checked = [*verified.checked]
        if plan is not None and replay:
            from power.cli.execution import Execution
            from power.cli.replaying import finder
            from power.receipt.replay import replay as run_again

            asked = verified.statement.predicate.request
            execution = Execution(verb, plan, roots, backing, control=asked.control)
            find = finder(verb, execution.plan, asked, options, prompts)
            with execution.open(find) as (runner, request):
                again = run_again(verified, runner, request)
            for note in again.notes:
                verb.say(f"note: {note}")
            checked.append("replay")
        verb.data["checked"] = checked
        verb.say(f"verified: {', '.join(checked)}")
        verb.say(f"signed by {escape(verified.key)} ({verified.keyid})")
        verb.say(f"claim     {claim}")


def _check_package(prompted: list[str], others: Mapping[str, object]) -> None:
    """Refuse (P704) what was given but has no meaning for a package, and would not be checked."""
    for name in (*prompted, *(name for name, value in others.items() if value)):
        if name == "--artifacts":
            fail("P704", f"`{name}` of a package is for its replay", hint="add `--replay`")
        hint = "leave it out: a package holds its own plans, prompts, outputs and certificates"
        fail("P704", f"`{name}` does not go with a package", hint=hint)


def _check_receipt(
    prompted: list[str], *, plan: Path | None, replay: bool, prompts: Path | None
) -> None:
    if replay and plan is None:
        fail("P704", "`--replay` needs `--plan`", hint="give the plan that was run")
    if prompts is not None:
        if prompted:
            fail("P704", f"`--prompts` and `{prompted[0]}` exclude each other", hint="give one")
        prompted = ["--prompts"]
    if prompted and not replay:
        fail("P704", f"`{prompted[0]}` is only used with `--replay`", hint="add `--replay`")
