"""Proposals copied from the text so far: what followed the last n-gram before.

The last 5 tokens are looked for first, then the last 4, 3 and 2; of several
matches the most recent one counts. Prompt lookup: Saxena 2023, and LLMA,
arXiv:2304.04487. The index grows with each emitted token, so that a proposal
costs one dictionary look-up per n whatever the length of the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

LONGEST = 5
"""Tokens of the first n-gram that is looked for."""

SHORTEST = 2
"""Tokens of the last n-gram that is looked for."""

LONGEST_GRADE = 32
"""Tokens that a grade looks back at most."""

_Gram = tuple[int, ...]


class _Index:
    """For every n-gram of `text[first:]`, where its most recent occurrence ends.

    The n-gram at the very end of the text is not in it, since nothing follows it
    yet: `grow` files the n-grams that end just before the token to be appended.
    """

    __slots__ = ("_ends", "_first", "_text", "_undo")

    def __init__(self, text: list[int], first: int) -> None:
        self._text = text
        self._first = first
        self._ends: dict[_Gram, int] = {}
        self._undo: list[tuple[_Gram, int | None]] = []

    def grow(self) -> None:
        """File the n-grams that end at the current end of the text."""
        text, ends, end = self._text, self._ends, len(self._text)
        for n in range(SHORTEST, min(LONGEST, end - self._first) + 1):
            gram = tuple(text[end - n :])
            self._undo.append((gram, ends.get(gram)))
            ends[gram] = end

    def find(self) -> int | None:
        """Where the most recent earlier occurrence of the longest known suffix ends."""
        text, ends = self._text, self._ends
        for n in range(min(LONGEST, len(text)), SHORTEST - 1, -1):
            end = ends.get(tuple(text[-n:]))
            if end is not None:
                return end
        return None

    def mark(self) -> None:
        """Forget how to undo what was filed so far."""
        self._undo.clear()

    def revert(self) -> None:
        """Undo everything filed since `mark`."""
        while self._undo:
            gram, end = self._undo.pop()
            if end is None:
                del self._ends[gram]
            else:
                self._ends[gram] = end


class PromptLookup:
    """Looks in prompt and generated text as one."""

    def __init__(self, max_width: int) -> None:
        self._width = max_width
        self._text: list[int] = []
        self._end = 0  # of the last match; what follows it was proposed
        self._indexes = [_Index(self._text, 0)]

    @property
    def max_width(self) -> int:
        """The K it was made with."""
        return self._width

    def begin(self, prompt: Sequence[int]) -> None:
        """Index the prompt; called once."""
        self._append(prompt)
        self._mark()

    def checkpoint(self) -> object:
        """The length of the text; the index can undo what comes after the last one."""
        self._mark()
        return len(self._text)

    def propose(self, limit: int) -> Sequence[int]:
        """Up to `limit` tokens that followed the match, fewer at the end of the text."""
        for index in self._indexes:
            end = index.find()
            if end is not None:
                self._end = end
                return self._text[end : end + limit]
        return ()

    def grade(self) -> int:
        """How many tokens before the last match equal those at the end of the text, at most 32.

        Longer than what the index looks for: the longer, the likelier the text goes
        on in the same way.
        """
        text, end = self._text, self._end
        most = min(LONGEST_GRADE, end)
        return next((n for n in range(most) if text[end - 1 - n] != text[-1 - n]), most)

    def commit(self, emitted: Sequence[int], accepted: int) -> None:  # noqa: ARG002 - the protocol's
        """Append the round's tokens; what was accepted makes no difference."""
        self._append(emitted)

    def restore(self, checkpoint: object) -> None:
        """Back to the last checkpoint's text and index."""
        for index in self._indexes:
            index.revert()
        del self._text[cast(int, checkpoint) :]

    def _append(self, tokens: Sequence[int]) -> None:
        text = self._text
        for token in tokens:
            for index in self._indexes:
                index.grow()
            text.append(token)

    def _mark(self) -> None:
        for index in self._indexes:
            index.mark()


class NgramContext(PromptLookup):
    """Looks in the generated text first, then in prompt and generated text as one.

    A short match in what was just written wins over a longer one in the prompt.
    """

    def begin(self, prompt: Sequence[int]) -> None:
        """Index the prompt; the generated text starts behind it."""
        super().begin(prompt)
        self._indexes.insert(0, _Index(self._text, len(prompt)))
