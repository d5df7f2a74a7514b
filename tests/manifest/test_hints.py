"""Every refusal of a manifest says what to do next, and repeats no secret."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from power.diagnostics import Diagnostic, as_json, as_text

Refused = Callable[[str | bytes], tuple[Diagnostic, ...]]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("P114", "[speculation]\nspec_draft_max = true"),
        ("P114", "[speculation]\nspec_mode = 1"),
        ("P114", "[graph]\nbatch = []"),
        ("P114", "[graph]\nflash_attention = 1"),
        ("P114", "[graph]\ngpu_layers = true"),
        ("P114", "[host]\nrequire = 'cuda'"),
        ("P114", "[host]\ncpu_affinity = [true]"),
        ("P114", "[sampling]\ntemperature = 2026-01-01"),
        ("P115", "[graph]\ngpu_layers = -1"),
        ("P115", "[host]\nthreads = 0"),
        ("P115", "[host]\ncpu_affinity = []"),
        ("P115", "[host]\ncpu_affinity = [4096]"),
        ("P115", "[sampling]\ntemperature = inf"),
        ("P115", "[sampling]\ntemperature = nan"),
        ("P115", "[sampling]\ntop_p = 0"),
        ("P115", "[sampling]\nseed = -1"),
        ("P115", "shards = []"),
        ("P116", "[speculation]\nspec_mode = 'zzz'"),
        ("P116", "[exactness]\nlevel = 'zzz'"),
        ("P116", "[draft]\nkind = 'zzz'"),
        ("P117", "license = ''"),
        ("P117", "source = 'https://['"),
        ("P117", "[host]\nrequire = ['C U']"),
        ("P117", "[host]\ncpu_affinity = [1, 1]"),
        ("P117", '[sampling]\ngrammar = "\\u0000"'),
        ("P117", "[draft]\npath = ''"),
        ("P117", "[draft]\nsha256 = 'zzz'"),
        ("P112", "zzz = 1"),
    ],
)
def test_every_problem_has_a_hint(head: str, refused: Refused, code: str, line: str) -> None:
    found = refused(f"{head}{line}\n")
    assert code in [d.code for d in found]
    assert [d.message for d in found if not d.hint] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema = 1", "schema = 0"),
        ("schema = 1", ""),
        ("schema = 1", "schema = 1\nsampling = 1"),
        ("bytes = 96", "bytes = -1"),
        ("bytes = 96", ""),
        ('"tiny.gguf"', '""'),
        ('"tiny"', '"T"'),
        ("[target]", "[targets]"),
    ],
)
def test_the_head_has_hints_too(head: str, refused: Refused, old: str, new: str) -> None:
    found = refused(head.replace(old, new))
    assert [d.message for d in found if not d.hint] == []


def test_a_range_of_one_is_a_value(head: str, refused: Refused) -> None:
    (found,) = refused(head.replace("schema = 1\n", ""))
    assert found.expected == "1"


@pytest.mark.parametrize(
    "line",
    [
        'source = "https://user:hunter2@host/x"  # hunter2',
        'source = "https://user\\u003ahunter2@host/x"',
        'source = "https://host/x?token=hunter2"',
        'profile = "https://user:hunter2@host/x.toml"',
    ],
)
def test_a_password_is_not_repeated(head: str, refused: Refused, line: str) -> None:
    key = line.split(" ", maxsplit=1)[0]
    text = head.replace("\n[target]", f"{line}\n[target]") if key == "profile" else head + line
    found = refused(text)
    assert [d.code for d in found] == ["P117"]
    assert "hunter2" not in as_text(found) + str(as_json(found))
    assert "…" in as_text(found)
