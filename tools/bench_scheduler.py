"""What one round costs in Python: the scheduler on a target that does nothing.

Prints the time of a round by proposer and width, and its share of a 30 ms round.
Usage: python tools/bench_scheduler.py [--tokens N] [--repeat N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

from power.backends.lookup import NgramContext, PromptLookup
from power.speculation.controller import make_controller
from power.speculation.outcome import Outcome, Phase, Settings
from power.speculation.protocols import Proposer
from power.speculation.scheduler import generate

ROUND_US = 30_000
OWN = (Phase.COMMIT, Phase.DETOKENISE, Phase.OTHER)
WIDTHS = (0, 1, 3, 7, 15)
PERIOD = 97
PIECES = [b" tok", b"en", b" of", b" text", b"s"] * 60


class Counting:
    """The text counts up modulo 97: token i is i % 97, and every part knows it."""

    vocabulary_size = 256

    def __init__(self, max_width: int) -> None:
        self.max_width = max_width
        self.position = 0  # tokens before the anchor

    def checkpoint(self) -> object:
        """Nothing is ever restored here."""

    def restore(self, checkpoint: object) -> None:
        """An error would be a mistake of this program."""
        raise NotImplementedError


class Target(Counting):
    """Target, sampler and vocabulary."""

    def prefill(self, tokens: Sequence[int], _taken: object = None) -> None:
        """All but the anchor."""
        self.position = len(tokens)

    def evaluate(self, tokens: Sequence[int]) -> None:
        """Free of charge."""

    def sample(self, row: int) -> int:
        """What comes behind the anchor and `row` tokens."""
        return (self.position + 1 + row) % PERIOD

    def commit(self, keep: int) -> bool:
        """Always possible."""
        self.position += keep
        return True

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        """Never needed."""
        raise NotImplementedError

    def piece(self, token: int) -> bytes:
        """As long as tokens are, on average."""
        return PIECES[token]

    def is_end(self, token: int) -> bool:
        """Not among the tokens that are counted."""
        return token == PERIOD


class Draft(Counting):
    """A proposer that is always right."""

    def begin(self, prompt: Sequence[int]) -> None:
        """The whole prompt."""
        self.position = len(prompt)

    def propose(self, limit: int) -> Sequence[int]:
        """The next `limit` tokens."""
        start = self.position
        return [(start + i) % PERIOD for i in range(limit)]

    def commit(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002 - the protocol's
        """Count on."""
        self.position += len(emitted)


def decode(width: int, proposer: Proposer, tokens: int, stop: Sequence[bytes]) -> Outcome:
    """`tokens` tokens, every proposal accepted."""
    settings = Settings(
        draft_max=width, draft_min=0, window=width, snapshots=max(1, width), context=tokens + 100
    )
    target = Target(width)
    outcome = generate(
        prompt=list(range(PERIOD)),
        target=target,
        proposer=proposer,
        sampler=target,
        vocabulary=target,
        controller=make_controller(settings, proposer),
        settings=settings,
        max_tokens=tokens,
        stop=stop,
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=time.perf_counter_ns,
    )
    if outcome.error is not None:
        raise outcome.error
    return outcome


def report(name: str, width: int, outcomes: Sequence[Outcome]) -> None:
    """One line: microseconds a round, whole and without the phases that call a model."""
    counters = [outcome.counters for outcome in outcomes]
    whole = [sum(c.phases_ns.values()) / c.rounds / 1000 for c in counters]
    own = [sum(c.phases_ns[p] for p in OWN) / c.rounds / 1000 for c in counters]
    print(
        f"{name:<14}{width:>3}{counters[0].rounds:>8}{median(whole):>9.1f}{min(whole):>8.1f}"
        f"{median(own):>11.1f}{min(own):>8.1f}{median(whole) / ROUND_US:>11.3%}"
    )


def main() -> None:
    """Print one line a width and proposer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=40_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    makers: dict[str, Callable[[int], Proposer]] = {
        "draft": Draft,
        "prompt-lookup": PromptLookup,
        "ngram-context": NgramContext,
    }
    print("microseconds a round, every proposal accepted, on a target that costs nothing")
    print("whole: with the calls into it; own: commit, detokenise and other")
    print("proposer        K  rounds    whole    best        own    best   of 30 ms")
    for name, maker in makers.items():
        for width in WIDTHS:
            outcomes = [
                decode(width, maker(width), options.tokens, [b"\n\n"])
                for _ in range(options.repeat)
            ]
            report(name, width, outcomes)


if __name__ == "__main__":
    main()
