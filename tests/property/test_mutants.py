"""The suite has teeth: each rule of the scheduler, broken on purpose, is noticed.

The rules that live in other rooms have their mutants in test_mutants_contract.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain, zip_longest

import pytest

from tests.property import sweeps
from tests.property.harness import Case, Generate, check
from tests.property.mutation import Mutant

SCHEDULER = "power.speculation.scheduler"
GUARD = "power.speculation.guard"
DECODER = "power.speculation.decoder"
TRANSACTION = "power.speculation.transaction"
TALLY = "power.speculation.tally"


MUTANTS = (
    Mutant(
        "sample all rows, then compare",
        SCHEDULER,
        """        for row in range(drafted + 1):
            enter(_SAMPLE)
            token = sample(row)
""",
        """        for row, token in enumerate([sample(row) for row in range(drafted + 1)]):
""",
    ),
    Mutant(
        "advance the sampler for rejected rows",
        SCHEDULER,
        "        return emitted, accepted, finish\n",
        """        for row in range(len(emitted), drafted + 1):
            sample(row)
        return emitted, accepted, finish
""",
    ),
    Mutant(
        "a bonus after the end of generation",
        SCHEDULER,
        "                finish = Finish.END\n",
        """                finish = Finish.END
                if matched:
                    emitted.append(sample(row + 1))
""",
    ),
    Mutant(
        "a bonus after a stop sequence",
        SCHEDULER,
        "                finish = Finish.STOP\n",
        """                finish = Finish.STOP
                if matched:
                    emitted.append(sample(row + 1))
""",
    ),
    Mutant(">= for > in the guard", GUARD, "rejected > self._window", "rejected >= self._window"),
    Mutant(
        "a second activation of the guard",
        GUARD,
        "            self.ceiling = min(self.ceiling, self._clamp)\n",
        "            self.fired_round = None\n",
    ),
    Mutant(
        "the guard clamps without a replay",
        SCHEDULER,
        "replay = self._guard.exceeds(rejected)",
        "replay = False",
    ),
    Mutant(
        "a failed trim is ignored",
        SCHEDULER,
        "            replay = not target.commit(keep)\n",
        "            target.commit(keep)\n",
    ),
    Mutant("no - 1 for the tokens wanted", SCHEDULER, "wanted - 1", "wanted"),
    Mutant("no - 1 for the context left", SCHEDULER, "left - 1", "left"),
    Mutant(
        "a proposal is not cut at the limit",
        SCHEDULER,
        "if len(proposal) == limit or not 0 <= token < size:",
        "if not 0 <= token < size:",
    ),
    Mutant(
        "unknown tokens are passed on",
        SCHEDULER,
        "if len(proposal) == limit or not 0 <= token < size:",
        "if len(proposal) == limit:",
    ),
    Mutant(
        "the width is below draft_min all the same",
        SCHEDULER,
        "if limit < 1 or limit < self._settings.draft_min:",
        "if limit < 1:",
    ),
    Mutant(
        "text is shown before its commit",
        SCHEDULER,
        "        replayed = self._commit(emitted, rejected)\n",
        """        self._emit(emitted, self._decoder.take(final=finish is not None))
        replayed = self._commit(emitted, rejected)
""",
    ),
    Mutant(
        "the replay forgets the anchor",
        SCHEDULER,
        "[self._anchor, *emitted[:-1]])",
        "emitted)",
    ),
    Mutant(
        "the proposer is not told of a round",
        SCHEDULER,
        "        self._proposer.commit(emitted, accepted)\n",
        "",
    ),
    Mutant(
        "the sampler is not restored",
        TRANSACTION,
        "(target, proposer, sampler, decoder)\n        self._saved",
        "(target, proposer, decoder)\n        self._saved",
    ),
    Mutant(
        "the proposer is not restored",
        TRANSACTION,
        "(target, proposer, sampler, decoder)\n        self._saved",
        "(target, sampler, decoder)\n        self._saved",
    ),
    Mutant(
        "the text is not restored",
        TRANSACTION,
        "(target, proposer, sampler, decoder)\n        self._saved",
        "(target, proposer, sampler)\n        self._saved",
    ),
    Mutant(
        "nothing is restored",
        TRANSACTION,
        "                member.restore(checkpoint)\n",
        "                pass\n",
    ),
    Mutant(
        "a stop sequence is only looked for in one token",
        DECODER,
        "len(self._text) - added - self._longest + 1",
        "len(self._text) - added",
    ),
    Mutant(
        "the beginning of a stop sequence is shown",
        DECODER,
        "len(text) - self._held()",
        "len(text)",
    ),
    Mutant("half a character is shown", DECODER, ">= _NOT_ASCII and not final", "< 0"),
    Mutant(
        "the last match is cut, not the first",
        DECODER,
        "self._cut = min(found)",
        "self._cut = max(found)",
    ),
    Mutant(
        "a phase is lost",
        TALLY,
        "        self._since = now\n",
        "        self._since = self._clock()\n",
    ),
)


def _interleaved() -> Iterator[Case]:
    """All sweeps at once, spread out, so that a broken rule shows early."""
    spread = [list(sweep()) for sweep in sweeps.SWEEPS.values()]
    strided = [[case for i in range(29) for case in cases[i::29]] for cases in spread]
    return (case for case in chain.from_iterable(zip_longest(*strided)) if case is not None)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(_interleaved())


def _scheduler(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> Generate:
    """`generate` of a scheduler that imports the mutated module, or is it."""
    module = mutant.build()
    if mutant.module != SCHEDULER:
        monkeypatch.setitem(sys.modules, mutant.module, module)
        # The scheduler as it is, imported afresh: its only import of that name is the mutant.
        module = Mutant(mutant.name, SCHEDULER, '"""The scheduler:', '"""A scheduler:').build()
    built: Generate = module.generate
    return built


def _first_broken(cases: list[Case], using: Generate) -> Case | None:
    for case in cases:
        try:
            check(case, using)
        except AssertionError:
            return case
    return None


@pytest.mark.complaint(n=10)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_rule_is_noticed(
    mutant: Mutant, cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    using = _scheduler(mutant, monkeypatch)
    assert _first_broken(cases, using) is not None


def test_the_unbroken_scheduler_passes_built_the_same_way(
    cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the mutants might fall over their way of being built."""
    same = Mutant("none", GUARD, "rejected > self._window", "rejected  > self._window")
    using = _scheduler(same, monkeypatch)
    assert _first_broken(cases[::20], using) is None
