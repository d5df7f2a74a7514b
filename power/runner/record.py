"""From what the worker reports to the record of a run, refusing what contradicts itself. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict

from power.backends.interface import EngineIdentity
from power.diagnostics import fail
from power.plan.model import EnginePin
from power.runner.messages import Done, Run
from power.runner.types import EngineRecord, HostRecord, RunRecord
from power.speculation.outcome import Counters, Finish, Phase


def contradiction(run: Run, done: Done, emitted: bytes, vocabulary: int) -> str | None:
    """Why `done` cannot be the end of `run`, whose text was `emitted`; None when it can."""
    if done.number != run.number:
        return f"`done` of request {done.number} in request {run.number}"
    partial = done.finish is Finish.CANCELLED  # text may have been held back
    if not (done.text.startswith(emitted) if partial else done.text == emitted):
        return "the text of `done` is not the text that was emitted"
    if len(done.ids) > run.max_tokens:
        return f"{len(done.ids)} tokens where {run.max_tokens} were asked for"
    if any(not 0 <= token < vocabulary for token in (*done.prompt_ids, *done.ids)):
        return f"a token outside the vocabulary of {vocabulary}"
    if sum(done.counters.phases_ns.values()) > done.wall_ns:
        return "the phases are longer than the whole"
    return _first_commit(done)


def _first_commit(done: Done) -> str | None:
    if (done.first_token_ns is None) != (done.first_tokens == 0):
        return f"{done.first_tokens} first tokens without their time, or the other way round"
    if not 0 <= done.first_tokens <= len(done.ids):
        return "more first tokens than tokens"
    return None


def check_strategy(planned: str, proposer_width: int) -> None:
    """Refuse (P509) a run that speculated where the plan does not, or the other way round."""
    if (proposer_width > 0) == (planned != "off"):
        return
    found = f"a proposer of width {proposer_width}" if proposer_width else "no proposer"
    fail(
        "P509",
        f"the plan runs `{planned}`, but the engine ran {found}",
        expected=planned,
        found=found,
        hint="report this: an engine must refuse what it does not execute",
    )


def check_engine(pin: EnginePin, identity: EngineIdentity) -> None:
    """Refuse (P510) an engine that is not the one the plan was compiled for."""
    for what in ("package", "version", "llama_cpp"):
        expected, found = getattr(pin, what), getattr(identity, what)
        if expected != found:
            fail(
                "P510",
                "the loaded engine is not the one the plan was compiled for",
                place=f"engine.{what}",
                expected=expected,
                found=found,
                hint="install the plan's engine, or compile the plan again with this one",
            )


def engine_record(identity: EngineIdentity) -> EngineRecord:
    """What a record says of the loaded engine."""
    return EngineRecord(
        package=identity.package,
        version=identity.version,
        llama_cpp=identity.llama_cpp,
        libraries=dict(identity.libraries),
        devices=list(identity.devices),
    )


def phases_us(phases_ns: Mapping[Phase, int], wall_ns: int) -> dict[str, int]:
    """Every phase in whole microseconds; what rounding leaves over goes to `other`.

    They add up to `wall_ns // 1000` exactly. The nanoseconds add up to at most
    `wall_ns`; the rest is the way between the processes.
    """
    spent = {p.value: phases_ns.get(p, 0) // 1000 for p in Phase if p is not Phase.OTHER}
    return spent | {Phase.OTHER.value: wall_ns // 1000 - sum(spent.values())}


def _silence(strategy: str, counters: Counters) -> Iterator[str]:
    """That a run that was to speculate did not; one round is too short for a proposal."""
    if strategy == "off" or counters.drafted or counters.rounds <= 1:
        return
    why = "the controller asked for nothing"
    if any(width for width, _ in counters.widths):
        why = "the proposer had nothing that fitted"
    yield f"no token was proposed in {counters.rounds} rounds: {why}"


def run_record(  # noqa: PLR0913 - the parts of a record
    run: Run,
    done: Done,
    *,
    strategy: str,
    rendering_ns: int,
    started: str,
    finished: str,
    engine: EngineRecord,
    host: HostRecord,
    notes: tuple[str, ...],
    reduced: Container[int] | None = None,
) -> RunRecord:
    """The record of `run`, which ended with `done`.

    rendering_ns: what the chat template took, part of `done.wall_ns` and of no phase of
    the worker's. reduced: what its draft could propose.
    """
    counters = asdict(done.counters)
    del counters["phases_ns"]
    first = done.first_token_ns
    phases = dict(done.counters.phases_ns)
    phases[Phase.TOKENISE] = phases.get(Phase.TOKENISE, 0) + rendering_ns
    return RunRecord(
        prompt_ids=done.prompt_ids,
        ids=done.ids,
        text=done.text,
        finish=done.finish.value,
        control=run.control,
        strategy=strategy,
        seed=run.sampling.seed,
        max_tokens=run.max_tokens,
        counters=counters,
        phases_us=phases_us(phases, done.wall_ns),
        wall_us=done.wall_ns // 1000,
        first_token_us=None if first is None else first // 1000,
        first_tokens=done.first_tokens,
        started=started,
        finished=finished,
        peak_rss_bytes=done.peak_rss_bytes,
        engine=engine,
        host=host,
        notes=[*notes, *_silence(strategy, done.counters)],
        fr_covered=None if reduced is None else sum(token in reduced for token in done.ids),
    )
