"""What each strategy is made of: which artifact it needs and which settings it reads.

One row a strategy. A new drafter is a new row here, a contract in
`power/artifact/contracts/` and an adapter in a backend.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, get_args

from power.plan.model import Strategy

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


class EngineFacts(Protocol):
    """What a plan needs to know of an engine, without loading it.

    capabilities: strategy -> None when the engine executes it, else the reason
        why it does not.
    """

    @property
    def package(self) -> str:
        """The distribution, e.g. `llama-cpp-python`."""
        ...

    @property
    def version(self) -> str:
        """Version of the distribution."""
        ...

    @property
    def llama_cpp(self) -> str:
        """Version of the library inside."""
        ...

    @property
    def capabilities(self) -> Mapping[str, str | None]:
        """Strategy -> None, or why not."""
        ...


class InstalledEngine(EngineFacts, Protocol):
    """An engine that can be asked more than a plan needs to know."""

    @property
    def grammar_fault(self) -> Callable[[str], str | None]:
        """Why the engine would not take the text of a grammar, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Traits:
    """One strategy.

    external: it runs a draft artifact of the kind of the same name.
    model: a model proposes, so there are probabilities to cut (`spec_draft_p_min`).
    adaptive, weighed: the adaptive, and the cost controller may be asked for.
    reducible: its head may project fewer rows than the vocabulary has (FR): those
        that a `d2t` table of the draft names (rule `d2t`), else the first ones, as
        many as the manifest asks for (rule `prefix`).
    """

    external: bool = False
    model: bool = False
    reducible: bool = False
    adaptive: bool = False
    weighed: bool = False


TRAITS: Mapping[Strategy, Traits] = {
    "off": Traits(),
    "prompt-lookup": Traits(weighed=True),
    "ngram-context": Traits(weighed=True),
    "draft-model": Traits(external=True, model=True, adaptive=True, weighed=True),
    "mtp": Traits(model=True, reducible=True, adaptive=True, weighed=True),
    "dflash": Traits(external=True, model=True, reducible=True, adaptive=True, weighed=True),
    # Its lattice walk has one shape: another width or head is an error until there is evidence.
    "dflash2": Traits(external=True, model=True),
    "dspark": Traits(external=True, model=True, reducible=True, adaptive=True, weighed=True),
    "eagle3": Traits(external=True, model=True, reducible=True, adaptive=True, weighed=True),
}


def prefix_sha256(rows: int) -> str:
    """Digest of the map of a `prefix` head, written as a `d2t` table would be.

    The ids 0 to rows - 1 as little-endian 64-bit integers.
    """
    return hashlib.sha256(struct.pack(f"<{rows}q", *range(rows))).hexdigest()
