"""What a setting would have done on a recorded run: the real scheduler, on what is known. Pure.

The scheduler's decisions depend on tokens alone, and a trace has them all: what the
target says at each position, whatever the proposer does, and what the proposer
says there. So controller, guard, rounds and replays of every K up to that of the
trace come out as in a real run, exactly, where two things hold: the target's rows
do not depend on the shape of its passes (docs: exactness), and a shorter proposal
is the beginning of a longer one. The second holds for lookups, draft models, native
heads and EAGLE-3. A block draft fills its whole block at once: there the limit
is part of the proposal, and a trace is exact for its own K and a fixed width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from power.backends.lookup import NgramContext, PromptLookup
from power.evidence.trace import Trace, Traced
from power.speculation.controller import make_controller
from power.speculation.outcome import ControllerKind, Costs, Counters, Settings
from power.speculation.protocols import HasBacklog, Proposer
from power.speculation.scheduler import generate

LOOKUPS = {"prompt-lookup": PromptLookup, "ngram-context": NgramContext}
_STOP = b"."
_SIZE = 2**31  # of the vocabulary: every recorded token is known


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run. draft_max: K. snapshots: S, K by default. The shape is in the costs."""

    strategy: str
    draft_max: int
    controller: ControllerKind = "fixed"
    snapshots: int | None = None
    draft_min: int = 0


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of one request.

    passes: how many proposed tokens each pass evaluated behind its anchor, replays
    included. calls, steps: how often the proposer was asked, and for how many tokens.
    intake: tokens of its backlog that it took in before it proposed.
    """

    counters: Counters
    tokens: int
    passes: tuple[int, ...]
    calls: int
    steps: int
    intake: int = 0

    def cost(self, costs: Costs) -> int:
        """In the unit of `costs`, whose rows are those of the shape."""
        drafts = costs.call * self.calls + costs.step * self.steps + costs.prefill * self.intake
        turns = sum(costs.turn(before, width) for before, width in pairwise(self.passes))
        return drafts + turns + sum(costs.rows[width] for width in self.passes)


def simulate(
    trace: Trace, request: Traced, setting: Setting, costs: Costs | None = None
) -> Simulated:
    """Run `request` again under `setting`.

    costs: what the cost controller weighs, by proposed tokens in the setting's
    shape. Raises ValueError for a K above the trace's, unless a lookup proposes.
    """
    settings = _settings(trace, setting, costs)
    target = _Known(request)
    proposer: Proposer = _proposer(trace, request, setting, target)
    asked = _Counted(proposer)
    done = generate(
        prompt=request.prompt_ids,
        target=target,
        proposer=asked,
        sampler=target,
        vocabulary=target,
        controller=make_controller(settings, proposer),
        settings=settings,
        max_tokens=request.max_tokens,
        stop=(_STOP,) if request.finish == "stop" else (),
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=lambda: 0,
    )
    if done.error is not None:
        raise done.error
    if list(done.ids) != request.ids or done.finish != request.finish:
        raise ValueError(f"`{request.id}` does not end as it was recorded")
    passes = tuple(target.passes)
    return Simulated(done.counters, len(done.ids), passes, asked.calls, asked.steps, asked.intake)


def _settings(trace: Trace, setting: Setting, costs: Costs | None) -> Settings:
    k = setting.draft_max
    s = min(k, setting.snapshots or k)
    return Settings(
        draft_max=k,
        draft_min=setting.draft_min,
        window=s if trace.recurrent else k,
        snapshots=s,
        context=trace.context,
        controller=setting.controller,
        costs=costs,
    )


def _proposer(trace: Trace, request: Traced, setting: Setting, target: _Known) -> Proposer:
    if setting.strategy in LOOKUPS:
        return LOOKUPS[setting.strategy](setting.draft_max)
    if setting.strategy not in {"off", trace.strategy}:
        raise ValueError(f"`{setting.strategy}` was not recorded")
    if setting.draft_max > trace.draft_max:
        raise ValueError(f"K = {setting.draft_max} is above {trace.draft_max} of the trace")
    proposals = [] if setting.strategy == "off" else request.proposals
    return _Recorded(proposals, setting.draft_max, target)


class _Known:
    """Target, sampler and vocabulary of a run whose tokens are known."""

    vocabulary_size = _SIZE

    def __init__(self, request: Traced) -> None:
        self._ids = request.ids
        self._ends = request.finish
        self._start = len(request.prompt_ids) - 1
        self._pass = self._last = 0
        self.position = 0
        self.passes: list[int] = []

    @property
    def at(self) -> int:
        """How many tokens were emitted."""
        return self.position - self._start

    def prefill(self, tokens: Sequence[int], _taken: object = None) -> None:
        self.position = len(tokens)

    def checkpoint(self) -> int:
        return self.position

    def evaluate(self, tokens: Sequence[int]) -> None:
        self._pass = self.at
        self.passes.append(len(tokens) - 1)

    def commit(self, keep: int) -> bool:
        self.position += keep
        return True

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        self.passes.append(len(tokens) - 1)
        self.position = cast(int, checkpoint) + len(tokens)

    def restore(self, checkpoint: object) -> None:
        self.position = cast(int, checkpoint)

    def sample(self, row: int) -> int:
        self._last = self._pass + row
        return self._ids[self._last]

    def piece(self, token: int) -> bytes:
        """A stop sequence ends where the recorded one did, and no token has other text."""
        del token
        return _STOP if self._ends == "stop" and self._last == len(self._ids) - 1 else b""

    def is_end(self, token: int) -> bool:
        """The last of the tokens, which can be nowhere before it."""
        return self._ends == "end" and token == self._ids[-1]


class _Recorded:
    """What a model proposed at each position, and what it would have had to evaluate for it."""

    def __init__(self, proposals: Sequence[Sequence[int]], width: int, target: _Known) -> None:
        self.max_width = width
        self._proposals = proposals
        self._target = target
        self._known = self._evaluated = self._drafted = 0

    def begin(self, prompt: Sequence[int]) -> None:
        self._known, self._evaluated, self._drafted = len(prompt), 0, 0

    def checkpoint(self) -> object:
        return None

    def backlog(self) -> int:
        return max(0, self._known - 1 - self._evaluated)

    def propose(self, limit: int) -> Sequence[int]:
        at = self._target.at
        proposal = self._proposals[at][:limit] if at < len(self._proposals) else ()
        self._evaluated, self._drafted = self._known, len(proposal)
        return proposal

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        # The last proposed token is never evaluated.
        self._evaluated += min(accepted, max(0, self._drafted - 1))
        self._known += len(emitted)
        self._drafted = 0

    def restore(self, checkpoint: object) -> None:
        """Only a failure restores, and nothing fails here."""


class _Counted:
    """A proposer whose work is counted."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer
        self.max_width = proposer.max_width
        self.begin, self.commit = proposer.begin, proposer.commit
        self.checkpoint, self.restore = proposer.checkpoint, proposer.restore
        self._backlog = proposer.backlog if isinstance(proposer, HasBacklog) else lambda: 0
        self.calls = self.steps = self.intake = 0

    def propose(self, limit: int) -> Sequence[int]:
        self.intake += self._backlog()
        proposal = self._proposer.propose(limit)
        self.calls += 1
        # One that stops early has evaluated one token more than it proposes.
        self.steps += min(limit, len(proposal) + 1)
        return proposal
