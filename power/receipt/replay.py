"""Running a verified receipt's request again, to see whether its claim repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from power.diagnostics import Diagnostic, PowerError, fail
from power.receipt import claim, digests
from power.receipt.predicate import IDS_SUBJECT, TEXT_SUBJECT, RequestPart, Statement
from power.receipt.verify import Verified
from power.runner.batch import Chat, rendered_line
from power.runner.literal import Rendered
from power.runner.prompts import Prompt
from power.runner.runner import Runner
from power.runner.types import Request, RunRecord


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay whose claim is the receipt's; `notes` say what differed without mattering."""

    record: RunRecord
    claim_sha256: str
    notes: tuple[str, ...]


def replay(verified: Verified, runner: Runner, request: Request) -> Replayed:
    """Run the signed request once more on `runner`, which holds the signed plan.

    `request` is what `recover_request` or `find_request` gave.

    Raises P630 (the runner holds another plan), P641 (the claim does not repeat),
    what `Runner.generate` raises, and KeyboardInterrupt when the replay was cancelled.
    """
    statement = verified.statement
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


def recover_request(asked: RequestPart, prompt: Rendered, stop: tuple[str, ...]) -> Request:
    """The signed request, given the texts that it holds only as digests.

    `prompt` is the text as the run was given it (rendered, where there was a chat
    template) and `stop` its stop sequences. Raises P640 when they are others.
    """
    for what, expected, found, hint in (
        (
            "prompt given is",
            asked.prompt_sha256,
            digests.sha256(prompt.text.encode("utf-8")),
            "give the same text, byte for byte"
            + (", with `--chat` and `--system` as in the run" if asked.special_tokens else ""),
        ),
        (
            "stop sequences given are",
            asked.stop_sha256,
            digests.stop_sha256(stop),
            "give every `--stop` of the run, in its order"
            if asked.stop_sha256
            else "the run had none: leave `--stop` out",
        ),
    ):
        if expected != found:
            fail(
                "P640",
                f"the {what} not the receipt's",
                expected=expected or "none",
                found=found or "none",
                hint=hint,
            )
    return _request(asked, prompt, stop)


def find_request(asked: RequestPart, prompts: Iterable[Prompt], chat: Chat) -> Request:
    """The signed request among the lines of a batch, told by its digests.

    chat: renders the messages of a line. Raises P640 when no line is the one.
    """
    for prompt in prompts:
        if _may_be(asked, prompt):
            rendered = rendered_line(prompt, chat)
            if digests.sha256(rendered.text.encode("utf-8")) == asked.prompt_sha256:
                break
    else:
        fail(
            "P640",
            "no line of the prompts is the one that the receipt is about",
            expected=f"a prompt with the digest {asked.prompt_sha256}",
            hint="give the prompts file of that batch, unchanged",
        )
    return _request(asked, rendered, prompt.stop)


def _may_be(asked: RequestPart, prompt: Prompt) -> bool:
    """Whether all fits that is known without rendering."""
    return (
        asked.special_tokens == (prompt.messages is not None)
        and asked.stop_sha256 == digests.stop_sha256(prompt.stop)
        and prompt.max_tokens in {None, asked.max_tokens}
        and prompt.seed in {None, asked.seed}
    )


def _request(asked: RequestPart, prompt: Rendered, stop: tuple[str, ...]) -> Request:
    return Request(
        text=prompt.text,
        special=asked.special_tokens,
        plain=prompt.plain,
        rendering_ns=prompt.spent_ns,
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
