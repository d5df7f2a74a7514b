"""What the scheduler does at the edges of a request, and when parts of it break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from power.backends.none import NoProposer
from power.backends.scripted.faults import Action, ScriptedError, Step
from power.backends.scripted.sampler import ScriptedSampler
from power.backends.scripted.target import ScriptedTarget
from power.speculation.controller import make_controller
from power.speculation.decoder import Decoder
from power.speculation.outcome import Finish, Phase
from power.speculation.scheduler import PositionError, generate
from power.speculation.transaction import Transaction
from tests.property.harness import VOCABULARY, A, Case, Run, check, plain, run

CASE = Case(proposer="wrong-at-1", max_tokens=20)


def run_with(case: Case, *faults: tuple[Step, int]) -> Run:
    return run(case, plain(case)[-1].ids, plan=dict.fromkeys(faults, Action.ERROR))


def start(target: ScriptedTarget, case: Case, **changes: Any) -> Any:
    """A plain request on `target`; any part can be changed."""
    parts: dict[str, Any] = {
        "prompt": case.prompt,
        "target": target,
        "proposer": NoProposer(),
        "sampler": ScriptedSampler(target.row, case.sampling),
        "vocabulary": VOCABULARY,
        "controller": make_controller(case.settings, NoProposer()),
        "settings": case.settings,
        "max_tokens": case.max_tokens,
        "stop": (),
        "emit": lambda _ids, _text: None,
        "cancelled": lambda: False,
        "clock": lambda: 0,
    }
    return generate(**parts | changes)


def target_of(case: Case) -> ScriptedTarget:
    return ScriptedTarget(case.model(), context=case.settings.context)


@pytest.mark.parametrize(("change", "value"), [("prompt", ()), ("max_tokens", 0), ("stop", (b"",))])
def test_a_request_that_makes_no_sense_is_refused(change: str, value: object) -> None:
    with pytest.raises(ValueError, match="needs"):
        start(target_of(CASE), CASE, **{change: value})


class Chunks(ScriptedTarget):
    """Takes a prompt in one token at a time."""

    def prefill(self, tokens: Sequence[int], taken: Callable[[int], None] = lambda _: None) -> None:
        for done in range(1, len(tokens) + 1):
            taken(done)
        super().prefill(tokens)


def test_a_long_prompt_is_followed_and_can_be_cancelled_between_its_chunks() -> None:
    case = Case(prompt=(A,) * 9)
    seen: list[int] = []
    done = start(
        Chunks(case.model(), context=case.settings.context),
        case,
        prefilled=seen.append,
        cancelled=lambda: len(seen) == 3,
    )
    assert (done.finish, done.ids, seen) == (Finish.CANCELLED, (), [1, 2, 3])


def test_a_prompt_that_does_not_fit_never_reaches_the_engine() -> None:
    case = Case(prompt=(A,) * 5, left=-1)
    done = run(case, ())
    assert (done.outcome.finish, done.outcome.ids) == (Finish.CONTEXT, ())
    assert done.faults.calls == {}


@pytest.mark.complaint(n=11)
def test_a_prompt_that_fills_the_context_yields_one_token() -> None:
    done = check(Case(prompt=(A,) * 5, left=1))
    assert (done.outcome.finish, len(done.outcome.ids)) == (Finish.CONTEXT, 1)


def test_the_guard_narrows_a_width_that_the_controller_widened() -> None:
    """K7/S6, adaptive: a perfect probe, then seven rejected."""
    case = Case(
        draft_max=7,
        snapshots=6,
        recurrent=True,
        controller="adaptive",
        max_tokens=40,
        proposer="oracle",
    )
    future = list(plain(case)[-1].ids)
    wrong = [(token + 1) % VOCABULARY.size for token in future]
    done = run(case, [*future[:6], *wrong[6:]])
    counters = done.outcome.counters
    assert (counters.widened_round, counters.guard_round, counters.clamped_width) == (1, 2, 6)
    assert counters.widths[:2] == [(6, 1), (7, 1)]
    assert {width for width, _ in counters.widths[2:]} == {6, 0}
    assert counters.replays == 1
    assert counters.circuit_round is not None


def test_a_failing_restore_is_reported_beside_its_cause() -> None:
    """And the other parts are restored all the same."""
    once = run_with(CASE, (Step.PASS, 2))
    twice = run_with(CASE, (Step.PASS, 2), (Step.RESTORE, 1))
    assert isinstance(once.outcome.error, ScriptedError)
    assert not hasattr(once.outcome.error, "__notes__")
    assert twice.outcome.finish is Finish.FAILED
    assert "pass" in str(twice.outcome.error)
    assert ["restore 1" in note for note in twice.outcome.error.__notes__] == [True]  # type: ignore[union-attr]
    assert twice.outcome.ids == once.outcome.ids != ()
    assert twice.sampler.state == once.sampler.state
    assert twice.guide.seen == once.guide.seen


def test_a_cancel_whose_restore_fails_is_a_failure() -> None:
    case = Case(proposer="wrong-at-1", max_tokens=20, cancel_at=9)
    done = run_with(case, (Step.RESTORE, 1))
    assert done.outcome.finish is Finish.FAILED
    assert isinstance(done.outcome.error, ScriptedError)


def test_an_interrupt_restores_and_goes_on_up() -> None:
    target = target_of(CASE)

    def interrupt(ids: Sequence[int], text: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(target, CASE, emit=interrupt)
    assert target.state == CASE.model().read(CASE.prompt[:-1])


def test_a_target_that_holds_another_number_of_tokens_is_a_failure() -> None:
    class Forgetful(ScriptedTarget):
        def commit(self, keep: int) -> bool:
            super().commit(keep)
            self._states.pop()
            return True

    outcome = start(Forgetful(CASE.model(), context=64), CASE)
    assert (outcome.finish, outcome.ids) == (Finish.FAILED, ())
    assert isinstance(outcome.error, PositionError)


def test_a_transaction_that_is_not_open_has_no_checkpoint() -> None:
    target = target_of(CASE)
    sampler = ScriptedSampler(target.row, CASE.sampling)
    transaction = Transaction(target, NoProposer(), sampler, Decoder(VOCABULARY))
    assert transaction.restore() == []
    with pytest.raises(RuntimeError, match="no round"):
        _ = transaction.target_checkpoint


@pytest.mark.complaint(n=6)
def test_a_refused_trim_is_replayed_but_is_not_the_guard() -> None:
    done = check(Case(proposer="anti-oracle", trim="refuse", max_tokens=6))
    counters = done.outcome.counters
    assert counters.replays == counters.rounds - counters.target_only_rounds == 5
    assert (counters.guard_round, counters.clamped_width) == (None, None)


@pytest.mark.complaint(n=25)
def test_time_is_spent_in_the_phase_that_spends_it() -> None:
    """A clock that only moves inside one call charges that call's phase, and no other."""
    spent = {}
    for method, phase in (
        ("prefill", Phase.PREFILL),
        ("checkpoint", Phase.COMMIT),
        ("evaluate", Phase.VERIFY),
        ("row", Phase.SAMPLE),
        ("commit", Phase.COMMIT),
        ("replay", Phase.REPLAY),
    ):
        spent[method] = _charged(method), phase
    assert {method: phases for method, (phases, _) in spent.items()} == {
        method: {phase} for method, (_, phase) in spent.items()
    }


def _charged(method: str) -> set[Phase]:
    now = [0]
    case = Case(trim="refuse", fixed=True, max_tokens=4)
    target = ScriptedTarget(case.model(), context=64, rows=2, trim="refuse")
    slow = getattr(target, method)

    def slowed(*args: Any) -> Any:
        now[0] += 1000
        return slow(*args)

    setattr(target, method, slowed)
    sampler = ScriptedSampler(target.row, case.sampling)
    outcome = start(target, case, sampler=sampler, clock=lambda: now[0])
    assert outcome.finish is Finish.LENGTH
    assert now[0] > 0
    assert sum(outcome.counters.phases_ns.values()) == now[0]
    return {phase for phase, ns in outcome.counters.phases_ns.items() if ns}


def test_drafting_is_charged_for_proposing_and_for_keeping_up() -> None:
    now = [0]

    class Slow(NoProposer):
        max_width = 2

        def propose(self, limit: int) -> Sequence[int]:
            now[0] += 100
            return ()

        def commit(self, emitted: Sequence[int], accepted: int) -> None:
            now[0] += 1

    outcome = start(target_of(CASE), CASE, proposer=Slow(), clock=lambda: now[0])
    rounds = outcome.counters.rounds
    assert rounds == 20
    assert outcome.counters.phases_ns[Phase.DRAFT] == now[0] == 100 * (rounds - 1) + rounds
