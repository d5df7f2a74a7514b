"""Which run comes when: arms rotated by round, so that no arm always goes first. Pure.

Arms that share a worker take turns prompt by prompt, others session by session.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One sample: `round` counts from 1, `arm` and `prompt` from 0."""

    round: int
    arm: int
    prompt: int


@dataclass(frozen=True, slots=True)
class Session:
    """What one fresh worker does: some prompts, in order, for one arm in one round."""

    round: int
    arm: int
    prompts: tuple[int, ...]

    def cells(self) -> Iterator[Cell]:
        """Its samples, in order."""
        return (Cell(self.round, self.arm, prompt) for prompt in self.prompts)


@dataclass(frozen=True, slots=True)
class Design:
    """`rounds` times every arm over every prompt."""

    arms: int
    prompts: int
    rounds: int

    def sessions(self, done: Container[Cell] = ()) -> Iterator[Session]:
        """The sessions in their order, without what is `done`, and none that is empty.

        The arms of round r are rotated by r: AB, BA, AB for two of them.
        """
        for number in range(1, self.rounds + 1):
            for place in range(self.arms):
                arm = (place + self._first(number)) % self.arms
                left = (p for p in range(self.prompts) if Cell(number, arm, p) not in done)
                session = Session(number, arm, tuple(left))
                if session.prompts:
                    yield session

    def cells(self) -> Iterator[Cell]:
        """Every sample, in order."""
        return (cell for session in self.sessions() for cell in session.cells())

    def allows(self, order: Iterable[Cell]) -> bool:
        """Whether samples may come in that order: how arms take turns is left open.

        Round by round, each begun by the arm whose turn it is, and every arm's prompts in
        their order.
        """
        last = 0
        prompts: dict[int, int] = {}
        for cell in order:
            if cell.round > last:
                last, prompts = cell.round, {}
                if cell.arm != self._first(cell.round):
                    return False
            if cell.round < last or cell.prompt <= prompts.get(cell.arm, -1):
                return False
            prompts[cell.arm] = cell.prompt
        return True

    def _first(self, number: int) -> int:
        """The arm that begins a round."""
        return (number - 1) % self.arms

    @property
    def size(self) -> int:
        """How many samples there are."""
        return self.arms * self.prompts * self.rounds
