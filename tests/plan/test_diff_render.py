"""A diff for a terminal, for a review and for a program."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from power.manifest.templates import markdown_code
from power.plan.consequences import Class
from power.plan.diff import Change, Diff, Document, diff, parse_document
from power.plan.diff_render import render_json, render_markdown, render_text, shown

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

Other output
  sampling.temperature: (not set; default 0.0) -> 0.8
      tokens are chosen by another distribution

Speed only: the same output by rule
  speculation.spec_draft_max: 7 -> 5
      longer or shorter proposals (K)

Names and provenance
  name: "tiny" -> "small"
      the name in plans and receipts
"""
    )


def test_markdown() -> None:
    assert (
        render_markdown(example())
        == """\
### Manifest: `old.toml` → `new.toml`

3 changes, the gravest first.

**Other output**

- `sampling.temperature`: `(not set; default 0.0)` → `0.8`
  tokens are chosen by another distribution

**Speed only: the same output by rule**

- `speculation.spec_draft_max`: `7` → `5`
  longer or shorter proposals (K)

**Names and provenance**

- `name`: `"tiny"` → `"small"`
  the name in plans and receipts
"""
    )


def test_json() -> None:
    found = json.loads(json.dumps(render_json(example())))
    assert found == {
        "kind": "manifest",
        "old": "old.toml",
        "new": "new.toml",
        "changes": [
            {
                "path": "sampling.temperature",
                "class": "output",
                "consequence": "tokens are chosen by another distribution",
                "new": 0.8,
            },
            {
                "path": "speculation.spec_draft_max",
                "class": "speed",
                "consequence": "longer or shorter proposals (K)",
                "old": 7,
                "new": 5,
            },
            {
                "path": "name",
                "class": "text",
                "consequence": "the name in plans and receipts",
                "old": "tiny",
                "new": "small",
            },
        ],
    }


def test_nothing_changed() -> None:
    same = example(OLD, OLD.replace(" = ", "="))
    assert render_text(same) == "manifest: old.toml -> new.toml\nno change in meaning\n"
    assert render_markdown(same).endswith("\n\nNo change in meaning.\n")
    assert render_json(same)["changes"] == []


def hostile(value: object) -> Diff:
    document = Document("profile", "a`b", {})
    return Diff(document, document, (Change("summary", None, value, Class.TEXT, "words"),))


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


@settings(deadline=None)
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
