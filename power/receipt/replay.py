"""Running a verified receipt's request again, to see whether its claim repeats."""

from __future__ import annotations

from dataclasses import dataclass

from power.diagnostics import Diagnostic, PowerError, fail
from power.receipt import claim, digests
from power.receipt.predicate import IDS_SUBJECT, TEXT_SUBJECT, RequestPart, Statement
from power.receipt.verify import Verified
from power.runner.runner import Runner
from power.runner.types import Request, RunRecord


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay whose claim is the receipt's; `notes` say what differed without mattering."""

    record: RunRecord
    claim_sha256: str
    notes: tuple[str, ...]


def replay(
    verified: Verified,
    runner: Runner,
    prompt: str,
    *,
    stop: tuple[str, ...] = (),
) -> Replayed:
    """Run the signed request once more on `runner`, which holds the signed plan.

    `prompt` is the text as the run was given it (rendered, where there was a
    chat template) and `stop` its stop sequences: the receipt has only digests.

    Raises P640 (another prompt or other stop sequences), P630 (the runner holds
    another plan), P641 (the claim does not repeat), what `Runner.generate`
    raises, and KeyboardInterrupt when the replay was cancelled.
    """
    statement = verified.statement
    request = recover_request(statement.predicate.request, prompt, stop)
    signed = statement.predicate.plan.plan_sha256
    if runner.plan.lock.plan_sha256 != signed:
        fail(
            "P630",
            "this is not the plan that the receipt is about",
            expected=signed,
            found=runner.plan.lock.plan_sha256,
            hint="give the `plan.lock` of that run, byte for byte",
        )
    record = runner.generate(request)
    if record.finish == "cancelled":
        raise KeyboardInterrupt
    found = claim_of_record(statement, record)
    if found != statement.predicate.claim_sha256:
        raise PowerError((_not_repeated(statement, record, found),))
    return Replayed(record, found, _notes(statement, record))


def recover_request(asked: RequestPart, prompt: str, stop: tuple[str, ...]) -> Request:
    """The signed request, given the texts that it holds only as digests; P640 when they differ."""
    for what, expected, found in (
        ("prompt", asked.prompt_sha256, digests.sha256(prompt.encode("utf-8"))),
        ("stop sequences", asked.stop_sha256, digests.stop_sha256(stop)),
    ):
        if expected != found:
            fail(
                "P640",
                f"the {what} given {'are' if what.endswith('s') else 'is'} not the receipt's",
                expected=expected or "none",
                found=found or "none",
                hint="give the same text, byte for byte, and `--chat` if the run had it",
            )
    return Request(
        text=prompt,
        special=asked.special_tokens,
        max_tokens=asked.max_tokens,
        seed=asked.seed,
        control=asked.control,
        stop=stop,
    )


def claim_of_record(statement: Statement, record: RunRecord) -> str:
    """The claim of a new run of the statement's request."""
    request = statement.predicate.request
    return claim.claim_sha256(
        target=claim.target_digests(statement.predicate.artifacts),
        prompt_token_ids_sha256=digests.token_ids_sha256(record.prompt_ids),
        sampling_sha256=claim.sampling_sha256(
            request.sampling,
            seed=record.seed,
            max_tokens=record.max_tokens,
            stop_sha256=request.stop_sha256,
        ),
        output_token_ids_sha256=digests.token_ids_sha256(record.ids),
        output_text_sha256=digests.sha256(record.text),
    )


def _not_repeated(statement: Statement, record: RunRecord, found: str) -> Diagnostic:
    request = statement.predicate.request
    prompt_ids, ids = (digests.token_ids_sha256(x) for x in (record.prompt_ids, record.ids))
    parts = (
        ("the prompt's tokens", request.prompt_token_ids_sha256, prompt_ids),
        ("the output's tokens", statement.digest(IDS_SUBJECT), ids),
        ("the output's text", statement.digest(TEXT_SUBJECT), digests.sha256(record.text)),
    )
    differ = [what for what, signed, again in parts if signed != again] or ["the sampling"]
    notes = _notes(statement, record)
    return Diagnostic(
        code="P641",
        message=f"the claim did not repeat: {', '.join(differ)} came out different",
        place="predicate.claim_sha256",
        expected=statement.predicate.claim_sha256,
        found=found,
        hint="; ".join(notes) if notes else "compare the exactness level with what the plan claims",
    )


def _notes(statement: Statement, record: RunRecord) -> tuple[str, ...]:
    """Differences between the two runs that may explain another output."""
    engine, host = statement.predicate.engine, statement.predicate.host
    libraries = {library.name: library.digest.sha256 for library in engine.libraries}
    pairs = (
        ("native libraries", libraries, dict(record.engine.libraries)),
        ("CPU", host.cpu, record.host.cpu),
        ("number of threads", host.threads, record.host.threads),
        ("devices", host.devices, list(record.engine.devices)),
    )
    return tuple(f"another {what} than in the signed run" for what, a, b in pairs if a != b)
