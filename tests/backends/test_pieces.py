"""Texts cut around what is to stay plain: nothing is lost, and control tokens are the borders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.backends.pieces import Piece, Special, cut

LONG, SHORT, WORD = Special("<|ab|>"), Special("<a>"), Special("<w>", control=False)
STRIPS = Special("<s>", strips_left=True, strips_right=True)
SPECIALS = (LONG, SHORT, WORD, STRIPS)


def pieces(text: str, *plain: tuple[int, int]) -> list[tuple[str, bool]]:
    return [(piece.text, piece.special) for piece in cut(text, plain, SPECIALS)]


@pytest.mark.parametrize(
    ("text", "plain", "expected"),
    [
        ("", (), []),
        ("ab<a>", (), [("ab<a>", True)]),
        ("x<a>y", ((1, 4),), [("x<a>y", False)]),
        ("<a>x<a>y<a>", ((4, 7),), [("<a>", True), ("x<a>y", False), ("<a>", True)]),
        ("<a>x<|ab|>y", ((10, 11),), [("<a>x<|ab|>", True), ("y", False)]),
        ("x<a>y<a>z", ((0, 1), (8, 9)), [("x", False), ("<a>y<a>", True), ("z", False)]),
        # what a token would have to share with a plain place is no token
        ("<a><a>", ((1, 2),), [("<a>", False), ("<a>", True)]),
        # white space that a token takes with it
        ("<s> x <s> y", ((4, 5),), [("<s>", True), ("x", False), ("<s> y", True)]),
        # a token that is found everywhere is broken up where it is to stay plain, and only there
        ("<w>x<w>", ((4, 7),), [("<w>x<", False), ("w>", False)]),
        ("x<w>y", ((0, 1),), [("x<w>y", False)]),
    ],
)
def test_pieces(
    text: str, plain: Sequence[tuple[int, int]], expected: list[tuple[str, bool]]
) -> None:
    assert pieces(text, *plain) == expected


WORDS = st.lists(st.sampled_from(["<|ab|>", "<a>", "<w>", "a", "<", ">", "|", " "]), max_size=12)


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    parts = draw(st.lists(st.tuples(WORDS.map("".join), st.booleans()), max_size=6))
    text, plain = "", list[tuple[int, int]]()
    for part, stays in parts:
        if stays and part:
            plain.append((len(text), len(text) + len(part)))
        text += part
    return text, plain


@given(texts())
def test_nothing_is_lost_and_what_is_plain_stays_so(
    case: tuple[str, list[tuple[int, int]]],
) -> None:
    text, plain = case
    found = cut(text, plain, (LONG, SHORT, WORD))
    assert "".join(piece.text for piece in found) == text
    at, special = 0, list[tuple[int, int]]()
    for piece in found:
        if piece.special:
            special.append((at, at + len(piece.text)))
        at += len(piece.text)
    assert not any(a < end and start < b for a, b in special for start, end in plain)


@given(WORDS.map("".join), st.data())
def test_a_plain_place_without_a_token_changes_no_token(text: str, data: st.DataObject) -> None:
    """The ids of the pieces are those of the whole: the borders are where it is cut anyway."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    tokens = tokens_of(Piece(text, special=True))
    at = 0
    for token in tokens:
        if at < end and start < at + len(token) and token in {"<|ab|>", "<a>", "<w>"}:
            return
        at += len(token)
    plain = [(start, end)] if start < end else []
    found = cut(text, plain, (LONG, SHORT, WORD))
    assert [token for piece in found for token in tokens_of(piece)] == tokens


def tokens_of(piece: Piece) -> list[str]:
    """As the engine does: the longest special first, each stretch between as one word."""
    out = [(0, piece.text)]
    for special in (LONG, SHORT, WORD):
        if special.control and not piece.special:
            continue
        after: list[tuple[int, str]] = []
        for kind, part in out:
            if kind:
                after.append((kind, part))
                continue
            rest = part
            while special.text in rest:
                before, _, rest = rest.partition(special.text)
                after += [(0, before), (1, special.text)]
            after.append((0, rest))
        out = after
    return [part for _, part in out if part]
