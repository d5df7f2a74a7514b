"""Which run comes when: arms rotated by round, so that no arm always goes first. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator
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
                arm = (place + number - 1) % self.arms
                left = (p for p in range(self.prompts) if Cell(number, arm, p) not in done)
                session = Session(number, arm, tuple(left))
                if session.prompts:
                    yield session

    def cells(self) -> Iterator[Cell]:
        """Every sample, in order."""
        return (cell for session in self.sessions() for cell in session.cells())

    @property
    def size(self) -> int:
        """How many samples there are."""
        return self.arms * self.prompts * self.rounds
