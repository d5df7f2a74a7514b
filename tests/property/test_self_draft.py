"""A draft that is the target itself, and one that is set aside for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from power.backends.interface import SamplingConfig
from power.backends.lookup import NgramContext, PromptLookup
from power.backends.scripted.draft import ModelDraft
from power.backends.scripted.model import ScriptedModel, Vocabulary
from power.backends.scripted.sampler import ScriptedSampler
from power.backends.scripted.target import ScriptedTarget
from power.speculation.controller import Controller, FixedController
from power.speculation.outcome import Finish, Outcome, Settings
from power.speculation.protocols import Proposer
from power.speculation.scheduler import generate

SIZE = 12
K = 5
ROUNDS = 200


@dataclass
class Widths:
    """A controller that reads its widths from a list and keeps what it observed."""

    widths: Sequence[int]
    seen: list[tuple[int, int]] = field(default_factory=list)
    widened_round: int | None = None
    circuit_round: int | None = None

    def ask(self) -> int:
        return self.widths[len(self.seen) % len(self.widths)]

    def width(self, proposal: Sequence[int]) -> int:
        return self.ask()

    def observe(
        self, round_number: int, drafted: int, accepted: int, emitted: Sequence[int]
    ) -> None:
        self.seen.append((drafted, accepted))
        assert round_number == len(self.seen)


def decode(model: ScriptedModel, proposer: Proposer, controller: Controller, n: int) -> Outcome:
    """Greedy decoding of `n` tokens with `proposer`."""
    vocabulary = Vocabulary([bytes([97 + i]) for i in range(SIZE)], frozenset())
    settings = Settings(draft_max=K, draft_min=0, window=K, snapshots=K, context=n + 8)
    target = ScriptedTarget(model, context=settings.context)
    return generate(
        prompt=[1, 2, 3, 1, 2],
        target=target,
        proposer=proposer,
        sampler=ScriptedSampler(target.row, SamplingConfig()),
        vocabulary=vocabulary,
        controller=controller,
        settings=settings,
        max_tokens=n,
        stop=(),
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=lambda: 0,
    )


@pytest.mark.complaint(n=8)
def test_a_self_draft_is_accepted_whole_for_200_rounds() -> None:
    """A draft whose memory is one token off would lose its last proposal each round."""
    model = ScriptedModel(SIZE, seed=4)
    n = ROUNDS * (K + 1)
    outcome = decode(model, ModelDraft(model, K), FixedController(K), n)
    assert (outcome.finish, len(outcome.ids)) == (Finish.LENGTH, n)
    assert outcome.counters.rounds == ROUNDS
    assert outcome.counters.drafted == outcome.counters.accepted == ROUNDS * K
    assert outcome.counters.accepted_by_position == [ROUNDS] * K


@pytest.mark.complaint(n=22)
@pytest.mark.parametrize("pause", [1, 2, 5, 11])
def test_a_draft_that_was_paused_is_as_good_as_fresh(pause: int) -> None:
    """Width 0 for some rounds, then K again: the proposer has kept up."""
    model = ScriptedModel(SIZE, seed=5)
    widths = Widths([K] * 3 + [0] * pause + [2, K])
    outcome = decode(model, ModelDraft(model, K), widths, 400)
    assert outcome.finish is Finish.LENGTH
    assert outcome.counters.target_only_rounds > pause
    assert outcome.counters.accepted == outcome.counters.drafted > 0
    assert [drafted for drafted, _ in widths.seen[: pause + 5]] == [K] * 3 + [0] * pause + [2, K]


@pytest.mark.parametrize("maker", [PromptLookup, NgramContext])
@pytest.mark.parametrize("order", [1, 2])
def test_a_lookup_that_was_paused_proposes_as_if_it_was_not(
    maker: type[PromptLookup], order: int
) -> None:
    """The text is periodic in the end, so that a lookup that kept up is always right."""
    model = ScriptedModel(SIZE, seed=1, order=order, noise=0.0)
    widths = Widths([K] * 60 + [0] * 7)
    outcome = decode(model, maker(K), widths, 600)
    assert outcome.finish is Finish.LENGTH
    late = widths.seen[-40:-1]
    assert sum(drafted for drafted, _ in late) > 0
    assert all(drafted == accepted for drafted, accepted in late)
