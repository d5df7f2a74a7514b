"""What the tests of external draft heads share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from power.backends.interface import SamplingConfig
from power.backends.llamacpp.context import Row
from power.backends.llamacpp.features import Features

PROMPTS: tuple[Sequence[int], ...] = (
    [1, 10, 20, 30, 40],
    [300, 2, 77, 9],
    [5],
    [40, 41, 42, 99, 100, 101, 102],
    range(60, 110),  # more than one prefill batch
)
DRAWN = SamplingConfig(temperature=6.0, top_k=40, top_p=0.95, seed=11)
ODD = 200  # a token that no fixture says after the prompts below


def lengths(counters: Any) -> set[int]:
    """Numbers of tokens that a round accepted before it went on alone."""
    reached = [counters.rounds, *counters.accepted_by_position]
    beyond = [*counters.accepted_by_position, 0]
    return {n for n, (a, b) in enumerate(zip(reached, beyond, strict=True)) if a > b}


def compared(lab: Any, engine: Any, widths: Sequence[int], **run: Any) -> tuple[int, int, set[int]]:
    """Run all prompts with and without the draft: (drafted, accepted, accepted lengths)."""
    drafted, accepted, seen = 0, 0, set()
    for prompt in PROMPTS:
        expected = lab.run(engine, prompt, k=max(widths), control=True, **run)
        assert expected.error is None
        assert (len(expected.ids), expected.counters.drafted) == (100, 0)
        for k in widths:
            actual = lab.run(engine, prompt, k=k, **run)
            assert actual.error is None
            assert (actual.ids, actual.text) == (expected.ids, expected.text)
            assert actual.counters.replays == 0
            drafted += actual.counters.drafted
            accepted += actual.counters.accepted
            seen |= lengths(actual.counters)
    return drafted, accepted, seen


class Rounds:
    """A session driven round by round: what the proposer says is accepted as the test wants."""

    def __init__(self, engine: Any, prompt: Sequence[int]) -> None:
        session = engine.session(SamplingConfig(), control=False)
        self.target, self.proposer = session.target, session.proposer
        self.text = list(prompt)
        self.target.prefill(self.text[:-1])
        self.proposer.begin(self.text)

    def round(self, width: int, accepted: int) -> None:
        """Propose (a width of 0 does not), then accept some and emit a token of our own."""
        proposal = list(self.proposer.propose(width)) if width else []
        accepted = min(accepted, len(proposal))
        self.target.evaluate([self.text[-1], *proposal])
        emitted = [*proposal[:accepted], ODD]
        assert self.target.commit(len(emitted))
        self.proposer.commit(emitted, accepted)
        self.text += emitted


def without_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the heads read zeros in place of the target's layers."""
    read = Features.read

    def zeros(self: Features, rows: int) -> Row:
        return np.zeros_like(read(self, rows))

    monkeypatch.setattr(Features, "read", zeros)
