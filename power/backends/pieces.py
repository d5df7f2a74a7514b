"""A text whose control tokens are tokens, cut where a part of it is to stay plain.

An engine reads a text with control tokens or without, as a whole. Control tokens divide
a text into stretches that are tokenised on their own, so a stretch that is to stay plain
can be handed over alone, and the ids are those of the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Spans = Sequence[tuple[int, int]]
"""(start, end) in characters of a text, in order and apart."""

_SPACE = " \t\n\v\f\r"  # C's isspace, which is what llama.cpp strips by


@dataclass(frozen=True, slots=True)
class Special:
    """A token that is found in a text by its spelling, before the text is tokenised.

    control: only where control tokens are read; else wherever it is spelt.
    strips_left, strips_right: it takes the white space beside it.
    """

    text: str
    control: bool = True
    strips_left: bool = False
    strips_right: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text; `special`: control tokens that it spells are tokens."""

    text: str
    special: bool


def cut(text: str, plain: Spans, specials: Sequence[Special]) -> list[Piece]:
    """`text` in pieces, in order, none of them empty; `plain` lies in pieces without `special`.

    specials: all of the vocabulary, in the order in which the engine looks for them.
    """
    out: list[Piece] = []
    done = 0
    spans, breaks = deque(plain), _Breaks(specials)
    for start, end, before, after in _stretches(text, plain, specials):
        places = [start + _spaces(text[start:end], before is not None and before.strips_right)]
        plainly = bool(spans) and spans[0][0] < end
        while spans and spans[0][0] < end:
            low, high = spans.popleft()
            places += [low + place for place in breaks.of(text[low:high])]
        if plainly:
            places.append(
                end - _spaces(text[start:end][::-1], after is not None and after.strips_left)
            )
            out.append(Piece(text[done:start], special=True))
            out += [Piece(text[a:b], special=False) for a, b in pairwise(places)]
            done = end
    out.append(Piece(text[done:], special=True))
    return [piece for piece in out if piece.text]


def _stretches(
    text: str, plain: Spans, specials: Iterable[Special]
) -> Iterator[tuple[int, int, Special | None, Special | None]]:
    """(start, end, token before, token after) of what lies between control tokens."""
    found = sorted(_control_tokens(text, plain, specials), key=lambda place: place[0])
    start, before = 0, None
    for at, special in found:
        yield start, at, before, special
        start, before = at + len(special.text), special
    yield start, len(text), before, None


def _control_tokens(
    text: str, plain: Spans, specials: Iterable[Special]
) -> Iterator[tuple[int, Special]]:
    """Where the control tokens outside `plain` are; one token's place is no other's."""
    ends = [0, *(end for _, end in plain)]
    starts = [*(start for start, _ in plain), len(text)]
    free = list(zip(ends, starts, strict=True))
    for special in specials:
        if not special.text or special.text not in text:
            continue
        left = []
        for start, end in free:
            at = start
            while (place := text.find(special.text, at, end)) >= 0:
                left.append((at, place))
                if special.control:
                    yield place, special
                at = place + len(special.text)
            left.append((at, end))
        free = left


class _Breaks:
    """Where to cut plain texts so that no token is found in them that is found everywhere."""

    def __init__(self, specials: Iterable[Special]) -> None:
        self._texts = [s.text for s in specials if not s.control and len(s.text) > 1]
        self._known: dict[str, list[int]] = {}

    def of(self, plain: str) -> list[int]:
        """The places in `plain`, from left to right."""
        if plain not in self._known:
            spelt = [text for text in self._texts if text in plain]
            self._known[plain] = [
                place
                for place in range(1, len(plain))
                if any(plain.startswith(text, place - 1) for text in spelt)
            ]
        return self._known[plain]


def _spaces(text: str, strips: bool) -> int:  # noqa: FBT001 - whether any are taken
    return len(text) - len(text.lstrip(_SPACE)) if strips else 0
