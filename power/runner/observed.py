"""The parts of a request with somebody looking on: margins, and what each round took.

They stand between the scheduler and an engine, speak the scheduler's protocols
on both sides and change nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from power.backends.interface import SessionTarget
from power.runner.messages import Round, RowBits
from power.speculation.controller import Controller
from power.speculation.protocols import Proposer, Sampler


def margin(row: object) -> str:
    """The distance of the two highest logits of one row, a decimal with six digits."""
    second, first = np.partition(np.asarray(row), -2)[-2:]
    return f"{float(first) - float(second):.6f}"


def bits(row: object) -> RowBits:
    """What is kept of one row. A sequence of numbers that is no array counts as float64."""
    array = np.ascontiguousarray(row)
    digest = hashlib.sha256(array.data).hexdigest()
    return RowBits(digest, int(array.argmax()), margin(array))


class MarginSampler:
    """A sampler that notes the margin of every row before the other one samples it.

    margins: of the rows sampled so far, those of a round that was rolled back left out.
    """

    def __init__(self, sampler: Sampler, target: SessionTarget) -> None:
        self._sampler, self._target = sampler, target
        self.margins: list[str] = []

    def checkpoint(self) -> object:
        """The other's, and how many margins there are."""
        return self._sampler.checkpoint(), len(self.margins)

    def sample(self, row: int) -> int:
        """What the other samples."""
        self.margins.append(margin(self._target.row(row)))
        return self._sampler.sample(row)

    def restore(self, checkpoint: object) -> None:
        """Both go back."""
        theirs, count = cast(tuple[object, int], checkpoint)
        self._sampler.restore(theirs)
        del self.margins[count:]


class RoundLog:
    """What every round drafted, kept and took: wraps target, proposer and controller together.

    clock: monotonic, in ns.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.rounds: list[Round] = []
        self.draft_ns = self.verify_ns = 0
        self._since: int | None = None

    def start(self) -> None:
        """The first round begins, unless it has."""
        if self._since is None:
            self._since = self.clock()

    def close(self, width: int, drafted: int, accepted: int) -> None:
        """A round was committed."""
        now = self.clock()
        since = now if self._since is None else self._since
        self.rounds.append(
            Round(width, drafted, accepted, self.draft_ns, self.verify_ns, now - since)
        )
        self.draft_ns = self.verify_ns = 0
        self._since = now


class LoggedController:
    """A controller whose rounds are logged."""

    def __init__(self, controller: Controller, log: RoundLog) -> None:
        self._controller, self._log = controller, log
        self._width = 0

    @property
    def widened_round(self) -> int | None:
        """The other's."""
        return self._controller.widened_round

    @property
    def circuit_round(self) -> int | None:
        """The other's."""
        return self._controller.circuit_round

    def ask(self) -> int:
        """The other's; a round begins here at the latest."""
        self._log.start()
        return self._controller.ask()

    def width(self, proposal: Sequence[int]) -> int:
        """The other's."""
        self._width = self._controller.width(proposal)
        return self._width

    def observe(
        self, round_number: int, drafted: int, accepted: int, emitted: Sequence[int]
    ) -> None:
        """Both learn of the round."""
        self._controller.observe(round_number, drafted, accepted, emitted)
        self._log.close(self._width, drafted, accepted)


class LoggedProposer:
    """A proposer whose proposals are timed."""

    def __init__(self, proposer: Proposer, log: RoundLog) -> None:
        self._proposer, self._log = proposer, log
        self.begin, self.commit = proposer.begin, proposer.commit
        self.checkpoint, self.restore = proposer.checkpoint, proposer.restore

    @property
    def max_width(self) -> int:
        """The other's."""
        return self._proposer.max_width

    def propose(self, limit: int) -> Sequence[int]:
        """What the other proposes."""
        start = self._log.clock()
        proposal = self._proposer.propose(limit)
        self._log.draft_ns += self._log.clock() - start
        return proposal


class LoggedTarget:
    """A target whose passes are timed."""

    def __init__(self, target: SessionTarget, log: RoundLog) -> None:
        self._target, self._log = target, log
        self.vocabulary_size = target.vocabulary_size
        self.prefill, self.commit, self.replay = target.prefill, target.commit, target.replay
        self.restore, self.row = target.restore, target.row

    @property
    def position(self) -> int:
        """The other's."""
        return self._target.position

    def checkpoint(self) -> object:
        """The other's; a round begins here."""
        self._log.start()
        return self._target.checkpoint()

    def evaluate(self, tokens: Sequence[int]) -> None:
        """A pass of the other."""
        start = self._log.clock()
        self._target.evaluate(tokens)
        self._log.verify_ns += self._log.clock() - start
