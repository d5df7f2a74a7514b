"""`power fmt`: one form, in which every value and every comment still is."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power.diagnostics import PowerError
from power.manifest.form import canonical
from power.manifest.formatted import formatted
from power.manifest.load import parse_manifest
from power.manifest.meaning import meaning_sha256
from power.manifest.shipped import shipped

D = "ab" * 32


def test_keys_tell_the_story_and_comments_move_with_them() -> None:
    messy = f"""\
# A manifest with a word on each key.
#
# And a second block.

name='tiny'   # the name
# the format
schema   =1
[sampling]
seed=3
temperature=0.50


# more than one

max_tokens=0x10 # sixteen
[ target ]
sha256 = "{D}"
# where it lies
path = 't.gguf'
bytes = 22_884_408_288
[host]
require=["cuda" ,'x']
[[target.shards]]
sha256 = "{D}"
bytes = 1
path = "t.gguf"
[[target.shards]]
path = "u.gguf"
bytes = 1
sha256 = "{D}"
# the last word
"""
    assert (
        canonical(messy, "m")
        == f"""\
# A manifest with a word on each key.
#
# And a second block.

# the format
schema = 1
name = "tiny" # the name

[target]
# where it lies
path = "t.gguf"
bytes = 22_884_408_288
sha256 = "{D}"

[[target.shards]]
path = "t.gguf"
bytes = 1
sha256 = "{D}"

[[target.shards]]
path = "u.gguf"
bytes = 1
sha256 = "{D}"
# the last word

[host]
require = ["cuda", "x"]

[sampling]
temperature = 0.50
seed = 3

# more than one

max_tokens = 0x10 # sixteen
"""
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('a = "x\\u00e9"', 'a = "x\\u00e9"'),
        ("a = 'C:\\x'", "a = 'C:\\x'"),
        ("a = '''\nx  \n# no comment\n'''", "a = '''\nx  \n# no comment\n'''"),
        ('a = """x""""', 'a = """x""""'),
        ("a = [1,2 , 3]", "a = [1, 2, 3]"),
        ("a = [ # why\n  1,\n]", "a = [ # why\n  1,\n]"),
        ("a = {x=1,y = 'z'}", 'a = { x = 1, y = "z" }'),
        ("a = {}", "a = {}"),
        ('"a"  = 1', "a = 1"),
        ("'a b'.c = 1", '"a b".c = 1'),
        ("a = +1e5 # x", "a = +1e5 # x"),
        ("a = [{p=1},{p=2}]", "a = [\n    { p = 1 },\n    { p = 2 },\n]"),
    ],
)
def test_values_keep_their_meaning_and_the_long_ones_their_spelling(
    before: str, after: str
) -> None:
    assert canonical(before + "\n", "x") == after + "\n"
    assert canonical(after + "\n", "x") == after + "\n"


def test_a_long_array_has_an_item_a_line() -> None:
    names = [f"feature-number-{n}" for n in range(8)]
    text = canonical(f"[host]\nrequire = {names}\n", "x")
    assert text.count("\n") == 11
    assert tomllib.loads(text) == {"host": {"require": names}}


def test_evidence_keeps_its_order_and_its_figures() -> None:
    text = """\
schema = 1
name = "p"
[[evidence]]
what = "one"
by = "reported"
[evidence.figures]
b_s = 1
a_s = 2
[[evidence]]
what = "two"
by = "reported"
[evidence.figures]
a_s = 3
"""
    found = canonical(text, "p")
    assert tomllib.loads(found) == tomllib.loads(text)
    assert [line for line in found.split("\n") if line[:4] in {"what", "b_s ", "a_s "}] == [
        'what = "one"',
        "b_s = 1",
        "a_s = 2",
        'what = "two"',
        "a_s = 3",
    ]


@pytest.mark.parametrize(
    "path",
    [*sorted(shipped("manifests").glob("*.toml")), *sorted(shipped("profiles").glob("*.toml"))],
    ids=lambda path: path.name,
)
def test_what_is_shipped_is_canonical(path: Path) -> None:
    assert formatted(path.read_bytes(), path.name).differs is None


def test_windows_line_ends_become_unix_ones() -> None:
    assert canonical("schema = 1\r\nname = 'x' # c\r\n", "x") == 'schema = 1\nname = "x" # c\n'


def test_the_first_line_that_differs_is_named() -> None:
    text = f'name = "x"\nschema = 1\n[target]\npath = "t"\nbytes = 1\nsha256 = "{D}"\n'
    found = formatted(text.encode(), "m.toml").differs
    assert found is not None
    assert (found.spans[0].line, found.expected, found.found) == (1, "schema = 1", 'name = "x"')


def test_a_plan_is_not_formatted() -> None:
    with pytest.raises(PowerError) as caught:
        formatted(b"[lock]\nplan_sha256 = 'x'\n", "p.lock")
    assert caught.value.diagnostics[0].code == "P120"


# --- any manifest, in any layout ----------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
SETTINGS = {
    "speculation": {"spec_draft_max": "7", "spec_mode": "'auto'", "spec_draft_p_min": "0.50"},
    "graph": {"context": "0x40", "shape": '"natural"', "cuda_graphs": "true"},
    "host": {"cpu_affinity": "[0 ,2]", "require": "[\n 'cuda', # yes\n]"},
    "sampling": {"seed": "1_0", "grammar": "'''\nroot ::= \"a\"  # kept\n'''", "top_p": "0.9"},
    "bounds": {"min_acceptance": "0.25"},
}
HEAD = {"schema": "1", "name": "'tiny'", "profile": '"off"'}
TARGET = {"path": "'a/b.gguf'", "bytes": "1", "sha256": f'"{D}"', "license": '"MIT"'}


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """A manifest with its keys in any order, with comments and blank lines anywhere."""

    def noise() -> str:
        lines = draw(st.lists(st.one_of(st.just(""), WORDS.map(lambda w: "#" + w)), max_size=3))
        return "".join(f"{line}\n" for line in lines)

    def pairs(values: dict[str, str], required: tuple[str, ...] = ()) -> str:
        keys = draw(st.permutations(list(values)))
        text = ""
        for key in keys:
            if key in required or draw(st.booleans()):
                comment = draw(st.one_of(st.just(""), WORDS.map(lambda w: " #" + w)))
                pad = draw(st.sampled_from(["", " ", "\t"]))
                text += f"{noise()}{pad}{key}{pad}={pad}{values[key]}{comment}\n"
        return text

    tables = [f"[target]\n{pairs(TARGET, ('path', 'bytes', 'sha256'))}"]
    for section, values in SETTINGS.items():
        if draw(st.booleans()):
            tables.append(f"[ {section} ] # {draw(WORDS)}\n{pairs(values)}")
    body = "".join(noise() + table for table in draw(st.permutations(tables)))
    return noise() + pairs(HEAD, ("schema", "name")) + body + noise()


def comments(text: str) -> Counter[str]:
    """Comment lines and trailing comments, found by the words of these tests alone."""
    found = Counter[str]()
    for line in text.replace("\r\n", "\n").split("\n"):
        stripped = line.strip(" \t")
        if stripped.startswith("#"):
            found[stripped.rstrip()] += 1
    return found


@settings(max_examples=300)
@given(manifests())
def test_the_meaning_and_the_comments_stay(text: str) -> None:
    found = canonical(text, "m.toml")
    before = parse_manifest(text.encode(), "m").manifest
    after = parse_manifest(found.encode(), "m").manifest
    assert meaning_sha256(before) == meaning_sha256(after)
    assert comments(found) == comments(text)
    assert canonical(found, "m.toml") == found


@given(manifests())
def test_the_order_of_tables_does_not_matter(text: str) -> None:
    lines = [line for line in canonical(text, "m").split("\n") if line.startswith("[")]
    names = [line.split(" #")[0] for line in lines]
    wanted = ["[target]", *(f"[{section}]" for section in SETTINGS)]
    assert names == [name for name in wanted if name in names]


def test_what_is_no_toml_is_not_taken_for_a_manifest() -> None:
    with pytest.raises(PowerError) as caught:
        formatted(b"schema = 1\nsummary = \n", "profiles/mine.toml")
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("P109", "the file is not TOML: invalid value")
