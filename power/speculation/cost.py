"""The width that pays, from a measured cost curve and the request's own acceptance.

Speed-up = E / (draft + pass): E tokens are expected of a round, and its cost is
that of drafting and of a pass with its rows, in units of a target-only pass.
The width of a round maximises that ratio, and is 0 where target-only is as good.
A pass of another row count than the one before costs more, and more still the wider
that one was: the way back to target-only is reckoned with when it is left, so a width
that pays is kept.

It cannot lose much, whatever is accepted: a ledger holds what the request has
cost so far against what it would have cost target-only, and a round whose worst
case (nothing accepted) would overdraw it is not drafted.
"""

from __future__ import annotations

from collections.abc import Sequence

from power.speculation.acceptance import UNGRADED_RUN, Acceptance, Rehearsal
from power.speculation.outcome import Settings
from power.speculation.protocols import Graded, HasBacklog

MARGIN = 1.06
"""How much better than target-only a width has to promise to be: it is an estimate."""

LOSS_PERCENT = 2
"""Most that a request may cost beyond target-only, in percent of that, apart from the allowance."""

ALLOWANCE_PERCENT = 100
"""What a request may lose at once, in percent of one target-only pass: at its start nothing has
been earned yet. Together: never more than 3% beyond target-only from 100 tokens on."""

PROBE_LOSS_PERCENT, PROBE_ALLOWANCE_PERCENT = 1, 25
"""The same for asking a proposer that does not seem to pay: what is left is for what does."""


class Ledger:
    """What a request has cost, and what it would have cost target-only. Units of `Costs`."""

    __slots__ = ("_plain", "loss", "target_only")

    def __init__(self, plain: int) -> None:
        self._plain = plain
        self.target_only = 0
        self.loss = 0

    def affords(
        self, worst: int, percent: int = LOSS_PERCENT, allowance: int = ALLOWANCE_PERCENT
    ) -> bool:
        """Whether a round that may lose `worst` more keeps the loss within its bound."""
        room = percent * self.target_only + allowance * self._plain
        return (self.loss + worst) * 100 <= room

    def affords_probe(self, worst: int) -> bool:
        """The same for a round that asks in vain, most likely."""
        return self.affords(worst, PROBE_LOSS_PERCENT, PROBE_ALLOWANCE_PERCENT)

    def enter(self, cost: int, tokens: int) -> None:
        """A round of `cost` emitted `tokens` (>= 1)."""
        self.target_only += self._plain * tokens
        self.loss += cost - self._plain * tokens


class CostController:
    """Live width by what pays; for one request.

    grade: says how sure the proposer is of its last proposal, None for one that
        does not say. behind: says what it has to take in first, None for nothing.

    A proposer that costs nothing (a lookup) is always asked for all it has. What
    is not verified is held against the text that comes all the same, so the
    request learns without paying. A proposer that costs is asked for as many
    tokens as pay, and where none do, from time to time for the width that is
    nearest to it: those are not verified unless they pay after all, so a probe
    costs the draft and no rows. Where not even full acceptance would pay, it is
    never asked. What it has to take in before it can propose has to be affordable; it
    decides no width, for it is paid once. No width goes beyond the rollback window, so
    nothing is replayed.
    """

    widened_round: int | None = None
    circuit_round: int | None = None

    def __init__(
        self, settings: Settings, grade: Graded | None = None, behind: HasBacklog | None = None
    ) -> None:
        if settings.costs is None:
            raise ValueError("the cost controller needs the costs of its plan")
        self._costs = costs = settings.costs
        self._widest = min(settings.draft_max, settings.window)
        self._least = max(1, settings.draft_min)
        self._grade = grade
        self._behind = behind if costs.prefill else None
        self._acceptance = Acceptance()
        self._rehearsal = Rehearsal(self._acceptance)
        self._ledger = Ledger(costs.rows[0])
        self._free = costs.call == costs.step == costs.prefill == 0
        self._may_pay = any(
            (width + 1) * costs.rows[0] > costs.rows[width] + costs.draft(width)
            for width in range(self._least, self._widest + 1)
        )
        self._asked = 0
        self._before = 0  # the width of the last pass
        self._drafted = 0  # what the draft of this round cost
        self._late = 0  # what it costs to take in the backlog, in a round that asks

    def ask(self) -> int:
        """All there is of a free proposer; else what pays, a probe, or nothing."""
        self._late = 0 if self._behind is None else self._costs.prefill * self._behind.backlog()
        self._asked = self._widest if self._free else self._worth_asking()
        if not self._asked:
            self._late = 0
        return self._asked

    def width(self, proposal: Sequence[int]) -> int:
        """The prefix of `proposal` that pays; 0 where none does."""
        run = UNGRADED_RUN if self._grade is None else self._grade.grade()
        # A draft that stops early has evaluated one token more than it proposes.
        self._drafted = self._costs.draft(min(self._asked, len(proposal) + 1))
        width = self._worth_verifying(run, len(proposal))
        self._rehearsal.offer(proposal, run, verified=width > 0)
        return width

    def observe(
        self,
        round_number: int,  # noqa: ARG002 - the protocol's
        drafted: int,
        accepted: int,  # noqa: ARG002 - the protocol's
        emitted: Sequence[int],
    ) -> None:
        """Enter the round into the ledger, and learn from its tokens."""
        costs = self._costs
        turn = costs.turn(self._before, drafted)
        spent = self._drafted + self._late
        self._ledger.enter(spent + costs.rows[drafted] + turn, len(emitted))
        self._before = drafted
        self._rehearsal.watch(emitted)

    def _worth_asking(self) -> int:
        """The width that pays most; else the one that comes nearest, where a probe is due."""
        if not self._may_pay:
            return 0
        costs, ledger = self._costs, self._ledger
        plain, late, idle = costs.rows[0], self._late, self._excess(0)
        pays, rate, saving = 0, MARGIN / plain, False
        probe, nearest = 0, 0.0
        for width, expected in enumerate(self._expected(UNGRADED_RUN, self._widest)):
            if width < self._least:
                continue
            draft, rows = costs.draft(width), costs.rows[width]
            paid = expected / (draft + rows + self._premium(width))
            if paid > rate:
                saving = True
                if ledger.affords(late + draft + max(idle, self._excess(width))):
                    pays, rate = width, paid
            if paid > nearest and ledger.affords_probe(late + draft + idle):
                probe, nearest = width, paid
        # What would pay and cannot be afforded yet is waited for, not probed.
        return pays if saving else probe

    def _worth_verifying(self, run: int, most: int) -> int:
        """The width up to `most` that pays most, now that the draft is paid for."""
        rows, drafted = self._costs.rows, self._drafted
        spent = drafted + self._late
        plain, least = rows[0], min(self._least, most)
        best, rate = 0, MARGIN / (plain + drafted)
        for width, expected in enumerate(self._expected(run, most)):
            if width < max(1, least):
                continue
            paid = expected / (rows[width] + drafted + self._premium(width))
            if paid > rate and self._ledger.affords(spent + self._excess(width)):
                best, rate = width, paid
        return best

    def _premium(self, width: int) -> int:
        """What passes of `width` cost more for the turns that they bring, the last one back too."""
        costs, before = self._costs, self._before
        return costs.turn(before, width) + (0 if before else costs.turn(width, 0))

    def _excess(self, width: int) -> int:
        """What a pass of `width` and the way back lose where nothing is accepted."""
        costs = self._costs
        turns = costs.turn(self._before, width) + costs.turn(width, 0)
        return costs.rows[width] - costs.rows[0] + turns

    def _expected(self, run: int, most: int) -> list[float]:
        """Tokens that a round of width 0, 1, ... `most` yields: 1, and the sums of its products."""
        chance = self._acceptance.chance
        expected, likely = [1.0], 1.0
        for behind in range(run, run + most):
            likely *= chance(behind)
            expected.append(expected[-1] + likely)
        return expected
