"""Whatever happens to the bytes of a manifest, reading it ends in a manifest or in a hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from power.diagnostics import CODES, PowerError, as_text
from power.manifest.load import parse_manifest, parse_profile
from power.manifest.merge import merge
from power.manifest.rules import check_rules
from power.manifest.syntax import VALUE_LIMIT

FOLDER = Path(__file__).parents[1] / "vectors" / "manifests"
SEEDS = [
    (FOLDER / entry["file"]).read_bytes()
    for entry in json.loads((FOLDER / "index.json").read_bytes())
    if (FOLDER / entry["file"]).stat().st_size < 2_000
]
TOKENS = [
    *(b"[", b"]", b"[[", b"]]", b"{", b"}", b".", b"=", b",", b"#", b'"', b"'", b'"""', b"'''"),
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\0",
        b"\\",
        b"\\u",
        b"\\ud800",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\x1b[2J",
    ),
    *(b"true", b"nan", b"-inf", b"0x", b"1e999", b"-0", b"2026-13-01", b"[target]", b"[draft]"),
    *(b"\x1b[2J", b"spec_draft_max", b"sha256 = ", b"<<<<<<< a\n", "\u202e".encode(), b"9" * 5000),
]
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 12),
        st.one_of(st.sampled_from(TOKENS), st.binary(max_size=6)),
    ),
    min_size=1,
    max_size=6,
)
SCALARS = st.one_of(
    st.none().map(lambda _: "x"),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
KEYS = ("schema", "name", "profile", "target", "draft", "speculation", "graph", "host", "sampling")
INNER = (
    "path",
    "bytes",
    "sha256",
    "shards",
    "kind",
    "spec_mode",
    "spec_draft_max",
    "batch",
    "seed",
)
DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=5)
        ),
        max_leaves=8,
    ),
    max_size=6,
)


def judge(data: bytes) -> None:
    try:
        loaded = parse_manifest(data, "m.toml")
        problems = check_rules(merge(loaded, None))
    except PowerError as error:
        problems = error.diagnostics
    assert {CODES[d.code].exit for d in problems} <= {2}
    assert [d for d in problems if not d.hint] == []
    assert [d for d in problems if not (d.spans or d.place)] == []
    text = as_text(problems)
    assert len(text) < 300_000
    assert all(line.isprintable() for line in text.split("\n"))


@settings(max_examples=400)
@given(st.sampled_from(SEEDS), EDITS)
def test_any_bytes_changed(seed: bytes, edits: list[tuple[float, int, bytes]]) -> None:
    data = seed
    for where, width, new in edits:
        at = int(where * len(data))
        data = data[:at] + new + data[at + width :]
    judge(data)


@settings(max_examples=300)
@given(DOCUMENTS)
def test_any_document(document: dict[str, Any]) -> None:
    judge(tomli_w.dumps(document).encode())


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    judge(data)


MANY = {
    "unknown keys": "".join(f"k{i} = 1\n" for i in range(VALUE_LIMIT)),
    "tables": "".join(f"[t{i}]\n" for i in range(VALUE_LIMIT)),
    "items": f"shards = [{'1, ' * VALUE_LIMIT}]\n",
    "empty tables": f"shards = [{'{}, ' * VALUE_LIMIT}]\n",
}


@pytest.mark.parametrize("what", MANY)
@pytest.mark.parametrize("parse", [parse_manifest, parse_profile])
def test_more_values_than_anybody_writes_are_one_finding(what: str, parse: Any) -> None:
    """Before a validator makes a finding of each."""
    with pytest.raises(PowerError) as caught:
        parse(b"schema = 1\nname = 'x'\n" + MANY[what].encode(), "f")
    (found,) = caught.value.diagnostics
    assert (found.code, found.place) == ("P103", "f")
