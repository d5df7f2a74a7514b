"""What is run: every strategy, width, window, reduced head and controller that a pair allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from power.artifact.contracts.common import detect_kind
from power.artifact.contracts.pair import check_pair
from power.artifact.opened import OpenArtifact
from power.artifact.target import check_target
from power.backends.told import TOLD
from power.plan.capabilities import TRAITS
from power.plan.model import Strategy

WIDTHS = (1, 3, 7, 8)
GUARDED = ((6, 6), (7, 6), (10, 6))  # the (K, S) of the profiles, on a recurrent target
PREFIX = 200  # of the small fixtures' 320 tokens: some of what the target says is outside


@dataclass(frozen=True, slots=True)
class Pair:
    """A target, and a draft or native head for it, as their contracts judge them.

    strategy: what runs it; a name of TOLD for one that no model is behind.
    max_width: of a proposal, where the contract limits it. own_rows: of the draft's `d2t` table.
    """

    target: str
    strategy: str
    recurrent: bool
    draft: str | None = None
    max_width: int | None = None
    own_rows: int | None = None

    @property
    def modelled(self) -> bool:
        """Whether a model proposes."""
        return self.strategy in TRAITS and TRAITS[self.named].model

    @property
    def named(self) -> Strategy:
        """The strategy that the engine is opened with: lookup under a proposer of ours."""
        return next((s for s in TRAITS if s == self.strategy), "prompt-lookup")


@dataclass(frozen=True, slots=True)
class Shape:
    """One engine: a pair at one K, S and shape. rows: of every pass; None: the natural shape."""

    pair: Pair
    k: int
    s: int
    rows: int | None
    fr_rule: str = "full"
    fr_rows: int | None = None


def pairs(files: Mapping[str, Path], targets: Mapping[str, tuple[str, ...]]) -> Iterator[Pair]:
    """Every pair. files: fixture by name. targets: a target's name -> drafts made for it."""
    for target, drafts in targets.items():
        with OpenArtifact.open(files[target].name, [files[target].parent]) as opened:
            header = opened.header
            facts = check_target(header)
            for strategy in ("prompt-lookup", "ngram-context", *TOLD):
                yield Pair(target, strategy, facts.recurrent)
            if facts.nextn_layers:
                check_pair("mtp", header, header)
                yield Pair(target, "mtp", facts.recurrent)
            for draft in drafts:
                with OpenArtifact.open(files[draft].name, [files[draft].parent]) as other:
                    kind = detect_kind(other.header)
                    found = check_pair(kind, other.header, header)
                own, width = found.fr_vocabulary, found.max_width
                yield Pair(target, kind, facts.recurrent, draft, width, own)


def shapes(pair: Pair) -> Iterator[Shape]:
    """Every engine of `pair`: K x S x FR. A fixed shape wherever padding can be dropped."""
    for k, s in _windows(pair):
        fits = not pair.recurrent or s >= k
        heads = tuple(_heads(pair))
        for rule, rows in heads:
            yield Shape(pair, k, s, k + 1 if fits else None, rule, rows)
        if fits and pair.recurrent:
            yield Shape(pair, k, s, None, *heads[0])


def _windows(pair: Pair) -> Iterator[tuple[int, int]]:
    widths = {(k, s) for k in WIDTHS for s in (k, max(1, k - 1))}
    if pair.recurrent:
        widths |= {*GUARDED, (7, 2)}
    yield from sorted(w for w in widths if pair.max_width is None or w[0] <= pair.max_width)


def _heads(pair: Pair) -> Iterator[tuple[str, int | None]]:
    if pair.own_rows is not None:
        yield "d2t", pair.own_rows
        return
    yield "full", None
    if pair.strategy in TRAITS and TRAITS[pair.named].reducible:
        yield "prefix", PREFIX


def controllers(shape: Shape) -> tuple[bool, ...]:
    """Whether the width is adaptive: no, and yes where the strategy allows it.

    A pure cache has no use for S; only the controller reads it, as where to start.
    """
    pair = shape.pair
    adaptive = pair.strategy in TRAITS and TRAITS[pair.named].adaptive
    fixed = pair.recurrent or shape.s == shape.k
    return (*((False,) if fixed else ()), *((True,) if adaptive else ()))
