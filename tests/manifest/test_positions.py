"""Places of keys and values: what they point at is what stands there."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from power.manifest.positions import DOTTED_LIMIT, WALK_LIMIT, Path, positions
from power.manifest.source import Source

TEXT = '''\
# schema = 2
schema = 1 # name = "no"
"odd key"   = 'x' # [target]
a.b = 1
a.c = [1, [2, 3], {x = 1, y = {z = 2}}]

[target] # path
  path = "path" # path = 1
bytes=3

[x.y]
q = """
[graph]
"""

[[e]]
b = 1
[[e]]
b = 2
[e.f]
g = [
  10, # 20
  20,
]
'''

EXPECTED = {
    ("schema",): ("schema", "1"),
    ("odd key",): ('"odd key"', "'x'"),
    ("a", "b"): ("b", "1"),
    ("a", "c"): ("c", "[1, [2, 3], {x = 1, y = {z = 2}}]"),
    ("a", "c", 1, 0): ("2", "2"),
    ("a", "c", 2, "y", "z"): ("z", "2"),
    ("target",): ("[target]", "[target]"),
    ("target", "path"): ("path", '"path"'),
    ("target", "bytes"): ("bytes", "3"),
    ("x",): ("[x.y]", "[x.y]"),
    ("x", "y", "q"): ("q", '"""\n[graph]\n"""'),
    ("e", 0, "b"): ("b", "1"),
    ("e", 1, "b"): ("b", "2"),
    ("e", 1, "f", "g", 0): ("10", "10"),
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("keys", EXPECTED, ids=str)
def test_a_place_points_at_its_spelling(keys: Path, end: str) -> None:
    text = TEXT.replace("\n", end)
    place = positions(text)[keys]
    spelled = tuple(text[at : at + width] for at, width in (place.key, place.value))
    assert spelled == tuple(part.replace("\n", end) for part in EXPECTED[keys])


def test_places_follow_the_order_of_the_text() -> None:
    places = positions(TEXT)
    lines = [TEXT.count("\n", 0, places[keys].key[0]) for keys in EXPECTED if keys != ("x",)]
    assert lines == sorted(lines)


KEYS = st.text(st.sampled_from("abcde-_ .\"'é#=["), min_size=1, max_size=5)
SCALARS = (
    st.integers(-(10**6), 10**6)
    | st.booleans()
    | st.text(st.sampled_from("ab\"'\\#=[]{}\n é,"), max_size=6)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
)
VALUES = st.recursive(
    SCALARS,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(KEYS, child, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_every_scalar_is_found_where_it_is_written(content: dict[str, Any]) -> None:
    """Parsing the spelling at the place of a value gives that value."""
    text = tomli_w.dumps(content)
    places = positions(text)
    for keys, value in scalars(content):
        at, width = places[keys].value
        assert tomllib.loads(f"v = {text[at : at + width]}")["v"] == value


def scalars(
    value: Any, keys: tuple[str | int, ...] = ()
) -> list[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict):
        return [found for key, child in value.items() for found in scalars(child, (*keys, key))]
    if isinstance(value, list):
        return [f for index, child in enumerate(value) for f in scalars(child, (*keys, index))]
    return [(keys, value)]


@pytest.mark.parametrize(
    "text",
    ["# " + "x" * WALK_LIMIT + "\nkey = 1\n", "a.b.c = 1\n" * (DOTTED_LIMIT + 1) + "key = 1\n"],
    ids=["large", "dotted"],
)
def test_what_would_take_too_long_is_placed_by_its_line(text: str) -> None:
    assert positions(text) == {}
    span = Source(text, "f", "manifest").span("graph", "key")
    assert (span.line, span.source) == (text.count("\n"), "key = 1")


def test_a_key_that_is_not_there_is_placed_at_its_table() -> None:
    source = Source(TEXT, "f", "manifest")
    assert source.span("target", "sha256").source == "[target] # path"
    assert source.span("nothing").line == 1
