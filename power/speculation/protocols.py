"""What the scheduler asks of an engine, and nothing more.

Vocabulary: the *anchor* is the last emitted token (at first the last prompt
token) and is not yet in the target's memory; a *pass* evaluates the anchor and
a proposal in one target call; *row* i of a pass holds the target's logits after
the anchor and the first i proposed tokens. Token ids are in
`0 <= id < vocabulary_size`. Checkpoints are opaque to the scheduler, cheap, and
may be restored more than once until the next one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable


class Target(Protocol):
    """The model whose rows decide every emitted token; memory of one request."""

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids."""
        ...

    @property
    def position(self) -> int:
        """Committed tokens in memory: the prompt and all emitted tokens but the anchor."""
        ...

    def prefill(self, tokens: Sequence[int], taken: Callable[[int], None] = ...) -> None:
        """Evaluate and commit `tokens`, in the plan's prefill chunks. Called once, first.

        All of the prompt but its last token: empty for a prompt of one token.
        taken: called after each chunk with the number of tokens so far; what it
        raises ends the prefill.
        """
        ...

    def checkpoint(self) -> object:
        """The committed state, to return to with `restore` or `replay`."""
        ...

    def evaluate(self, tokens: Sequence[int]) -> None:
        """One pass over anchor + proposal, at `position`; nothing is committed yet.

        With a fixed shape the session pads to its row count by itself; padding
        rows lie behind the proposal and are never sampled. The scheduler counts
        only anchor and proposal against the context; cells for padding are the
        session's own to provide.
        """
        ...

    def commit(self, keep: int) -> bool:
        """Keep the first `keep` (>= 1) rows of the last pass, drop the rest by a trim.

        False when the engine cannot or did not trim: nothing is committed and
        the caller has to `replay`.
        """
        ...

    def replay(self, checkpoint: object, tokens: Sequence[int]) -> None:
        """Return to `checkpoint`, then evaluate and commit `tokens` exactly."""
        ...

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`, whatever happened since, a commit or a replay too."""
        ...


class Proposer(Protocol):
    """Advice: tokens that the target will probably emit after the anchor."""

    @property
    def max_width(self) -> int:
        """Most tokens that it can propose at once; 0 for one that never proposes."""
        ...

    def begin(self, prompt: Sequence[int]) -> None:
        """Take in the whole prompt; its last token is the first anchor."""
        ...

    def checkpoint(self) -> object:
        """The committed state."""
        ...

    def propose(self, limit: int) -> Sequence[int]:
        """At most `limit` (>= 1) tokens; fewer or none when it has nothing to say."""
        ...

    def commit(self, emitted: Sequence[int], accepted: int) -> None:
        """A round ended: `emitted` tokens, the first `accepted` of them as proposed.

        The last emitted token is the next anchor. Called once per round, also
        when `propose` was not, so that the proposer's state keeps up.
        """
        ...

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`; whatever was proposed since is forgotten."""
        ...


@runtime_checkable
class Graded(Protocol):
    """A proposer that can say how sure it is of what it just proposed."""

    def grade(self) -> int:
        """How many tokens in a row its source has got right up to the last proposal, >= 0.

        0 where it had nothing to propose. The longer that run, the likelier the next
        token is right.
        """
        ...


@runtime_checkable
class HasBacklog(Protocol):
    """A proposer that evaluates text of its own accord only when it is asked for a proposal."""

    def backlog(self) -> int:
        """Tokens that it has to take in before it can propose, beyond the anchor: >= 0.

        All of the prompt at first, and later what was emitted while it was not asked.
        """
        ...


class Sampler(Protocol):
    """The target's own sampler, reading the rows of the target's last pass."""

    def checkpoint(self) -> object:
        """Random state, penalty window and grammar state."""
        ...

    def sample(self, row: int) -> int:
        """Sample row `row` and advance the state exactly once.

        The scheduler samples rows in order and only those whose token it emits.
        """
        ...

    def restore(self, checkpoint: object) -> None:
        """Return to `checkpoint`."""
        ...


class Vocabulary(Protocol):
    """What the decoder needs to know about tokens."""

    def piece(self, token: int) -> bytes:
        """The bytes `token` adds to the text; empty for a control token."""
        ...

    def is_end(self, token: int) -> bool:
        """Whether `token` is in the end-of-generation set."""
        ...
