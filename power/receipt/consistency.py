"""What a statement says, held against itself.

A signature shows who says it; these rules show that what is said can be true.
They follow from the transaction (a position is accepted only behind an accepted
one, a round emits its accepted prefix and at most one more token) and from the
definitions of the digests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise

from power.diagnostics import Diagnostic
from power.receipt import claim
from power.receipt.predicate import PLAN_SUBJECT, SUBJECTS, Execution, Statement

Finding = tuple[str, str, object, object]  # where, what, expected, found


def contradictions(statement: Statement) -> tuple[Diagnostic, ...]:
    """Every contradiction, one P626 each; empty when there is none."""
    rules: tuple[Callable[[Statement], Iterator[Finding]], ...] = (
        _subjects,
        _request,
        _totals,
        _positions,
        _rounds,
        _widths,
        _coverage,
        _strategy,
        _bounds,
        _timing,
        _claim,
    )
    return as_diagnostics((found for rule in rules for found in rule(statement)), "statement")


def as_diagnostics(findings: Iterable[Finding], what: str) -> tuple[Diagnostic, ...]:
    """One P626 for each of `findings`; `what` names the signed thing that contradicts itself."""
    return tuple(
        Diagnostic(
            code="P626",
            message=message,
            place=where,
            expected=str(expected),
            found=str(found),
            hint=f"the {what} contradicts itself: do not rely on it",
        )
        for where, message, expected, found in findings
    )


def acceptance_met(required: str, accepted: int, drafted: int) -> bool:
    """Accepted / drafted >= required, exactly; nothing drafted meets no bound."""
    return drafted > 0 and Fraction(accepted, drafted) >= Fraction(required)


def parse_time(text: str) -> datetime:
    """An RFC 3339 time in UTC, as the predicate writes it; ValueError for one that is none."""
    return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)


def _subjects(statement: Statement) -> Iterator[Finding]:
    names = [subject.name for subject in statement.subject]
    if names != list(SUBJECTS):
        yield "subject", "the subjects are not the three of this predicate", list(SUBJECTS), names
        return
    plan = statement.predicate.plan.digest.sha256
    if statement.digest(PLAN_SUBJECT) != plan:
        where = "predicate.plan.digest.sha256"
        yield where, "the plan is not the plan subject", statement.digest(PLAN_SUBJECT), plan


def _request(statement: Statement) -> Iterator[Finding]:
    request, execution = statement.predicate.request, statement.predicate.execution
    tokens, limit = execution.output_tokens, request.max_tokens
    where = "predicate.execution.output_tokens"
    if tokens > limit:
        yield where, "more tokens than the request allows", f"at most {limit}", tokens
    if execution.finish == "length" and tokens != limit:
        yield where, "a run that ended by length has another length", limit, tokens


def _totals(statement: Statement) -> Iterator[Finding]:
    e = statement.predicate.execution
    where = "predicate.execution."
    if e.accepted > e.drafted:
        yield where + "accepted", "more accepted than drafted", f"at most {e.drafted}", e.accepted
    for name, total, parts in (
        ("drafted", e.drafted, e.drafted_by_position),
        ("accepted", e.accepted, e.accepted_by_position),
    ):
        if sum(parts) != total:
            place = f"{where}{name}_by_position"
            yield place, f"the positions do not add up to `{name}`", total, sum(parts)


def _positions(statement: Statement) -> Iterator[Finding]:
    e = statement.predicate.execution
    where = "predicate.execution."
    for name, counts in (
        ("drafted_by_position", e.drafted_by_position),
        ("accepted_by_position", e.accepted_by_position),
    ):
        for i, (before, here) in enumerate(pairwise(counts), start=1):
            if here > before:
                place = f"{where}{name}[{i}]"
                yield place, "a position counts more than the one before", f"<= {before}", here
    for i, accepted in enumerate(e.accepted_by_position):
        drafted = e.drafted_by_position[i] if i < len(e.drafted_by_position) else 0
        if accepted > drafted:
            place = f"{where}accepted_by_position[{i}]"
            yield place, "more accepted than drafted here", f"at most {drafted}", accepted


def _rounds(statement: Statement) -> Iterator[Finding]:
    e = statement.predicate.execution
    where = "predicate.execution."
    drafting = e.drafted_by_position[0] if e.drafted_by_position else 0
    if drafting + e.target_only_rounds != e.rounds:
        expected = e.rounds - e.target_only_rounds
        yield where + "drafted_by_position", "not every round is counted", expected, drafting
    if e.replays > e.rounds:
        yield where + "replays", "more than all rounds", f"<= {e.rounds}", e.replays
    for name in ("guard_round", "widened_round", "circuit_round"):
        number = getattr(e, name)
        if number is not None and number > e.rounds:
            yield where + name, "a round that never was", f"<= {e.rounds}", number
    counted = sum(run.rounds for run in e.width_by_round)
    if counted != e.rounds:
        yield where + "width_by_round", "not every round is counted", e.rounds, counted
    # A round emits its accepted prefix and one token more; only a last round that
    # ends the text inside its proposal has none more.
    short = e.finish in {"end", "stop"}
    most = e.accepted + e.rounds
    if not most - short <= e.output_tokens <= most:
        yield where + "output_tokens", "not what the rounds emit", most, e.output_tokens


def _widths(statement: Statement) -> Iterator[Finding]:
    e = statement.predicate.execution
    where = "predicate.execution."
    most = e.widths.draft_max if e.widths is not None else 0
    if most is not None:
        if any(e.drafted_by_position[most:]):
            place = where + "drafted_by_position"
            found = len(e.drafted_by_position)
            yield place, "a proposal was wider than the plan allows", most, found
        widest = max([run.width for run in e.width_by_round], default=0)
        if widest > most:
            yield where + "width_by_round", "wider than the plan allows", most, widest
    if (e.guard_round is None) != (e.clamped_width is None):
        pair = f"{e.guard_round}, {e.clamped_width}"
        yield where + "guard_round", "a guard fires and clamps, or neither", "both or none", pair
    if e.guard_round is not None and e.replays == 0:
        yield where + "replays", "the guard fires on a replay", "at least 1", 0


def _coverage(statement: Statement) -> Iterator[Finding]:
    e = statement.predicate.execution
    place = "predicate.execution.fr_covered_tokens"
    reduced = e.widths is not None and e.widths.fr_rule in {"prefix", "d2t"}
    covered = e.fr_covered_tokens
    if covered is not None and not reduced:
        yield place, "tokens are counted, but no draft head was reduced", "absent", covered
    elif covered is None and reduced:
        yield place, "a reduced draft head, and its coverage is not counted", "a count", "absent"
    elif covered is not None and covered > e.output_tokens:
        yield place, "more tokens than came out", f"at most {e.output_tokens}", covered


def _strategy(statement: Statement) -> Iterator[Finding]:
    predicate = statement.predicate
    e, where = predicate.execution, "predicate.execution."
    expected = "off" if predicate.request.control else predicate.plan.strategy
    if e.strategy != expected:
        yield where + "strategy", "not the strategy of the plan and request", expected, e.strategy
    if e.strategy == "off":
        yield from _nothing_speculated(e, where)


def _nothing_speculated(e: Execution, where: str) -> Iterator[Finding]:
    if e.drafted:
        yield where + "drafted", "a run without a proposer has some", 0, e.drafted
    if e.replays and e.graph.shape == "natural":  # padding may have been dropped by one
        yield where + "replays", "a run without a proposer or padding has some", 0, e.replays
    if e.widths is not None:
        yield where + "widths", "a run without a proposer has widths", "absent", "present"


def _bounds(statement: Statement) -> Iterator[Finding]:
    bounds, e = statement.predicate.bounds, statement.predicate.execution
    if bounds is None or bounds.min_acceptance is None:
        return
    bound = bounds.min_acceptance
    met = acceptance_met(bound.required, e.accepted, e.drafted)
    if bound.met != met:
        found = f"{bound.met} with {e.accepted} of {e.drafted} accepted"
        yield "predicate.bounds.min_acceptance.met", "the bound is judged wrongly", met, found


def _timing(statement: Statement) -> Iterator[Finding]:
    timing = statement.predicate.timing
    where = "predicate.timing."
    total = sum(timing.phases_us.values())
    if total != timing.wall_us:
        yield where + "phases_us", "the phases do not add up to `wall_us`", timing.wall_us, total
    first = timing.first_token_us
    if first is not None and first > timing.wall_us:
        yield where + "first_token_us", "after the end", f"<= {timing.wall_us}", first
    tokens = timing.first_tokens
    if (tokens is None) != (first is None):
        pair = f"{tokens}, {first}"
        yield where + "first_tokens", "a first commit has tokens and a time", "both or none", pair
    execution = statement.predicate.execution
    widest = execution.width_by_round[0].width if execution.width_by_round else 0
    most = min(execution.output_tokens, widest + 1)
    if tokens is not None and tokens > most:
        yield where + "first_tokens", "more than the first round gives", f"<= {most}", tokens
    try:
        started, finished = parse_time(timing.started), parse_time(timing.finished)
    except ValueError:
        yield (
            where + "started",
            "there is no such time",
            "RFC 3339 in UTC",
            (f"{timing.started}, {timing.finished}"),
        )
        return
    if finished < started:
        yield where + "finished", "before the start", f">= {timing.started}", timing.finished


def _claim(statement: Statement) -> Iterator[Finding]:
    predicate = statement.predicate
    sampling = claim.sampling_of(predicate.request)
    if predicate.request.sampling_sha256 != sampling:
        where = "predicate.request.sampling_sha256"
        yield where, "not the digest of the sampling", sampling, predicate.request.sampling_sha256
    if not claim.target_digests(predicate.artifacts):
        yield "predicate.artifacts", "there is no target", "at least one", 0
    expected = claim.claim_of(statement)
    if predicate.claim_sha256 != expected:
        where = "predicate.claim_sha256"
        yield where, "not the digest of the claim", expected, predicate.claim_sha256
