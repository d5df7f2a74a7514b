"""A diff for a terminal, for a review and for a program."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.manifest.templates import markdown_code
from power.review.consequences import Class, means
from power.review.diff import Change, Diff, diff
from power.review.diff_output import render_json, render_markdown, render_text
from power.review.documents import Document, parse_document
from power.review.values import shown

OLD = """\
schema = 1
name = "tiny"
[target]
path = "t.gguf"
bytes = 9
sha256 = "{digest}"
[graph]
shape = "fixed"
rows = 8
[speculation]
spec_draft_max = 7
""".format(digest="ab" * 32)
NEW = OLD.replace("= 7", "= 5").replace('"tiny"', '"small"') + "[sampling]\ntemperature = 0.8\n"


def example(old: str = OLD, new: str = NEW) -> Diff:
    return diff(parse_document(old.encode(), "old.toml"), parse_document(new.encode(), "new.toml"))


def test_text() -> None:
    assert (
        render_text(example())
        == """\
manifest: old.toml -> new.toml

Output: what is sampled, how far, and what is claimed of it
  sampling.temperature: 0.0 (default) -> 0.8
      tokens are chosen by another distribution

Shape: other passes; output may differ where two tokens nearly tie
  graph.batch: 9 (default) -> 8 (default)
      B: the graph has room for 8 rows; K + 2 = 7 are needed

Speed: the same output by rule
  speculation.spec_draft_max: 7 -> 5
      K: proposals of up to 5 tokens, before 7

Words: nothing that runs
  name: "tiny" -> "small"
      the name in plans and receipts

Void from here on
  claims of earlier receipts: a new run need not repeat them
  the exactness certificate, which names a plan by digest: certify the new one
  measured speed and acceptance: measure the new plan
"""
    )


def test_colour_adds_nothing_to_the_words() -> None:
    colored = render_text(example(), color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == render_text(example())
    assert colored != render_text(example())


def test_markdown() -> None:
    assert (
        render_markdown(example())
        == """\
### Manifest: `old.toml` → `new.toml`

4 changes, the gravest first.

**Output: what is sampled, how far, and what is claimed of it**

- `sampling.temperature`: `0.0 (default)` → `0.8`
  tokens are chosen by another distribution

**Shape: other passes; output may differ where two tokens nearly tie**

- `graph.batch`: `9 (default)` → `8 (default)`
  B: the graph has room for 8 rows; K + 2 = 7 are needed

**Speed: the same output by rule**

- `speculation.spec_draft_max`: `7` → `5`
  K: proposals of up to 5 tokens, before 7

**Words: nothing that runs**

- `name`: `"tiny"` → `"small"`
  the name in plans and receipts

**Void from here on**

- claims of earlier receipts: a new run need not repeat them
- the exactness certificate, which names a plan by digest: certify the new one
- measured speed and acceptance: measure the new plan

**Warnings**

- `a pass may have to drop 7 rows and keeps min(S, K) = 5 snapshots: a recurrent target will not \
compile`
"""
    )


def test_json() -> None:
    found = json.loads(json.dumps(render_json(example())))
    everything = ["receipts", "certificate", "measurements"]
    assert found == {
        "kind": "manifest",
        "old": "old.toml",
        "new": "new.toml",
        "changes": [
            {
                "path": "sampling.temperature",
                "class": "output",
                "consequence": "tokens are chosen by another distribution",
                "old": 0.0,
                "new": 0.8,
                "old_from": "default",
                "new_from": "manifest",
                "voids": ["receipts", "measurements"],
            },
            {
                "path": "graph.batch",
                "class": "shape",
                "consequence": "B: the graph has room for 8 rows; K + 2 = 7 are needed",
                "old": 9,
                "new": 8,
                "old_from": "derived",
                "new_from": "derived",
                "voids": everything,
            },
            {
                "path": "speculation.spec_draft_max",
                "class": "speed",
                "consequence": "K: proposals of up to 5 tokens, before 7",
                "old": 7,
                "new": 5,
                "old_from": "manifest",
                "new_from": "manifest",
                "voids": ["measurements"],
            },
            {
                "path": "name",
                "class": "words",
                "consequence": "the name in plans and receipts",
                "old": "tiny",
                "new": "small",
                "voids": [],
            },
        ],
        "voids": everything,
    }


def test_nothing_changed() -> None:
    same = example(OLD, OLD.replace(" = ", "="))
    assert render_text(same) == "manifest: old.toml -> new.toml\nno change in meaning\n"
    assert render_markdown(same).endswith("\n\nNo change in meaning.\n")
    assert render_json(same)["changes"] == []


def hostile(value: object) -> Diff:
    document = Document("profile", "a`b", {})
    return Diff(document, document, (Change("summary", None, value, means(Class.WORDS, "words")),))


ATTACKS = [
    "`; @team [x](https://evil.example) <img src=x onerror=alert(1)> #1",
    "``` </code><script>alert(1)</script>",
    "line\n### heading\n- item",
    "| cell | cell |",
    "`",
    "``",
    "\x1b[31mred\x1b[0m \u202ereversed",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_from_a_file_is_never_markup(attack: str) -> None:
    """Without its code spans a rendered diff holds only the template's own words."""
    rendered = render_markdown(hostile(attack))
    assert without_code(rendered) == without_code(render_markdown(hostile("plain")))


def without_code(markdown: str) -> str:
    """Markdown with each code span replaced, as CommonMark finds them (0.31, 6.1)."""
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "CODE", markdown)


@given(st.text(max_size=60))
def test_a_code_span_is_one_span_on_one_line(text: str) -> None:
    assert without_code(f"a {markdown_code(text)} b") == "a CODE b"


@pytest.mark.parametrize("attack", ATTACKS)
def test_control_characters_do_not_reach_a_terminal(attack: str) -> None:
    rendered = render_text(hostile(attack))
    assert all(char.isprintable() or char == "\n" for char in rendered)
    assert rendered.count("\n") == render_text(hostile("plain")).count("\n")


def test_long_values_are_cut_and_told_apart() -> None:
    one, two = shown("x" * 5000 + "1"), shown("x" * 5000 + "2")
    assert one != two
    assert len(one) < 120
    assert "5003 characters" in one


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(not set)"),
        (True, "true"),
        (0.5, "0.5"),
        (["cuda"], '["cuda"]'),
        ("a", '"a"'),
        ("ab" * 32, f'"{"ab" * 32}"'),
    ],
)
def test_values_are_shown_as_the_file_spells_them(value: object, text: str) -> None:
    assert shown(value) == text


def test_an_entry_of_evidence_is_shown_by_its_numbers() -> None:
    entry = {
        "by": "reported",
        "what": "decode",
        "source": "a paper",
        "figures": {"a_s": 1.0, "b_s": 2.25, "c_s": 3.0, "d_s": 4.0},
    }
    assert shown(entry) == "reported, a paper, a_s = 1, b_s = 2.25, c_s = 3, …"
