"""Rules between settings: what breaks each, what just holds, and both places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from power.diagnostics import Diagnostic, PowerError
from power.manifest.effective import load_effective
from power.manifest.merge import Effective

DIGEST = "ab" * 32
Written = Callable[[str, str], Path]


def draft(kind: str) -> str:
    return (
        f'[draft]\nkind = "{kind}"\npath = "d.gguf"\nbytes = 9\n'
        f'sha256 = "{"cd" * 32}"\ntarget_sha256 = "{DIGEST}"\n'
    )


@pytest.fixture
def broken(written: Written, head: str) -> Callable[[str], list[Diagnostic]]:
    """The rules that a manifest with these further lines breaks."""

    def check(rest: str) -> list[Diagnostic]:
        try:
            load_effective(written("m.toml", head + rest))
        except PowerError as error:
            return list(error.diagnostics)
        return []

    return check


Broken = Callable[[str], list[Diagnostic]]

OFF = '[speculation]\nspec_mode = "off"\n'
ADAPTIVE = "[speculation]\nspec_mtp_adaptive = true\n"
COST = '[speculation]\ncontroller = "cost"\ncost.rows = { 1 = "1", 8 = "2.5" }\n'
CASES = [
    # (what breaks the rule, what just holds, code, labels)
    (
        "[speculation]\nspec_draft_max = 7\n[graph]\nbatch = 8\n",
        "[speculation]\nspec_draft_max = 7\n[graph]\nbatch = 9\n",
        "P130",
        ["B", "K"],
    ),
    (
        '[speculation]\nspec_draft_max = 7\n[graph]\nshape = "fixed"\nrows = 7\nbatch = 9\n',
        '[speculation]\nspec_draft_max = 7\n[graph]\nshape = "fixed"\nrows = 8\nbatch = 9\n',
        "P131",
        ["rows", "K"],
    ),
    (
        '[graph]\nshape = "fixed"\nrows = 10\nbatch = 9\n',
        '[graph]\nshape = "fixed"\nrows = 9\nbatch = 9\n',
        "P132",
        ["rows", "B"],
    ),
    (
        '[graph]\nshape = "natural"\nrows = 8\n',
        '[graph]\nshape = "natural"\n',
        "P133",
        ["rows", "natural: as many rows as there are tokens"],
    ),
    (
        "[speculation]\nspec_draft_min = 5\nspec_draft_max = 4\n",
        "[speculation]\nspec_draft_min = 4\nspec_draft_max = 4\n",
        "P134",
        ["the least", "the most (K)"],
    ),
    (
        '[speculation]\nspec_mode = "dflash2"\nspec_mtp_adaptive = true\n' + draft("dflash2"),
        '[speculation]\nspec_mode = "dflash2"\nspec_mtp_adaptive = false\n' + draft("dflash2"),
        "P135",
        ["asked for", "this strategy"],
    ),
    (
        COST + draft("dflash2"),
        COST + draft("dspark"),
        "P135",
        ["asked for", "this strategy"],
    ),
    (
        COST + "spec_mtp_adaptive = true\n",
        COST + "spec_mtp_adaptive = false\n",
        "P147",
        ["one", "and another"],
    ),
    (
        ADAPTIVE + 'controller = "fixed"\n',
        ADAPTIVE + 'controller = "adaptive"\n',
        "P147",
        ["one", "and another"],
    ),
    (
        ADAPTIVE + draft("dflash2"),
        ADAPTIVE + draft("dspark"),
        "P135",
        ["asked for", "this strategy"],
    ),
    (
        ADAPTIVE + "spec_mtp_recurrent_snapshots = 2\nspec_draft_min = 3\n",
        ADAPTIVE + "spec_mtp_recurrent_snapshots = 3\nspec_draft_min = 3\n",
        "P136",
        ["S", "the least"],
    ),
    (
        '[speculation]\nspec_mode = "prompt-lookup"\nspec_mtp_fr_vocab_size = 8192\n',
        '[speculation]\nspec_mode = "mtp"\nspec_mtp_fr_vocab_size = 8192\n',
        "P137",
        ["FR", "the strategy"],
    ),
    (
        "[speculation]\nspec_mtp_fr_vocab_size = 8192\n" + draft("draft-model"),
        "[speculation]\nspec_mtp_fr_vocab_size = 8192\n" + draft("eagle3"),
        "P137",
        ["FR", "decides the strategy"],
    ),
    (
        '[speculation]\nspec_mode = "dflash"\n' + draft("dspark"),
        '[speculation]\nspec_mode = "dflash"\n' + draft("dflash"),
        "P138",
        ["asked for", "declared"],
    ),
    (
        '[speculation]\nspec_mode = "draft-model"\n',
        '[speculation]\nspec_mode = "draft-model"\n' + draft("draft-model"),
        "P138",
        [""],
    ),
    (
        "[graph]\ncontext = 9\nbatch = 9\n",
        "[graph]\ncontext = 10\nbatch = 9\n",
        "P140",
        ["context", "B"],
    ),
    (
        "[graph]\ncontext = 511\nprefill_batch = 512\n",
        "[graph]\ncontext = 512\nprefill_batch = 512\n",
        "P140",
        ["prefill_batch", "context"],
    ),
    (
        "[graph]\ncontext = 256\n[sampling]\nmax_tokens = 256\n",
        "[graph]\ncontext = 257\n[sampling]\nmax_tokens = 256\n",
        "P140",
        ["max_tokens", "context"],
    ),
    (
        '[exactness]\nlevel = "shape"\n[graph]\nshape = "natural"\n',
        '[exactness]\nlevel = "shape"\n[graph]\nshape = "fixed"\n',
        "P143",
        ["every pass of one shape", "as many rows as there are tokens"],
    ),
]


@pytest.mark.parametrize(("bad", "good", "code", "labels"), CASES)
def test_a_rule_breaks_at_its_edge_and_shows_both_places(
    broken: Broken, bad: str, good: str, code: str, labels: list[str]
) -> None:
    (found,) = broken(bad)
    assert found.code == code
    assert [span.label for span in found.spans] == labels
    assert all(span.source in bad for span in found.spans)
    assert found.expected
    assert found.found
    assert found.hint
    assert broken(good) == []


@pytest.mark.parametrize(
    "dead",
    [
        "spec_draft_max = 64\nspec_draft_min = 64",
        "spec_draft_min = 64",
        "spec_mtp_fr_vocab_size = 8192",
        "spec_mtp_adaptive = true\nspec_mtp_recurrent_snapshots = 1\nspec_draft_min = 7",
    ],
)
def test_what_off_does_not_use_cannot_be_wrong(broken: Broken, dead: str) -> None:
    assert broken(f'[speculation]\nspec_mode = "off"\n{dead}\n[graph]\nbatch = 2\n') == []


def test_an_off_plan_still_needs_room_for_its_rows(broken: Broken) -> None:
    (found,) = broken(
        '[speculation]\nspec_mode = "off"\n[graph]\nshape = "fixed"\nrows = 8\nbatch = 7\n'
    )
    assert found.code == "P132"


def test_a_default_that_takes_part_is_named(broken: Broken) -> None:
    (found,) = broken("[speculation]\nspec_draft_min = 8\n")
    assert len(found.spans) == 1
    assert found.found == "8, with spec_draft_max = 7 (default)"


def test_all_broken_rules_come_at_once(broken: Broken) -> None:
    found = broken(
        '[speculation]\nspec_mode = "prompt-lookup"\nspec_draft_max = 10\nspec_draft_min = 11\n'
        "spec_mtp_fr_vocab_size = 8192\n"
        '[graph]\nbatch = 11\nshape = "fixed"\nrows = 8\ncontext = 10\n'
    )
    assert [d.code for d in found] == ["P140", "P134", "P130", "P131", "P137"]


def test_the_rules_of_both_files_and_those_between_them_come_at_once(
    written: Written, head: str
) -> None:
    written(
        "mine.toml",
        'schema = 1\nname = "mine"\nsummary = "s"\n[[evidence]]\nby = "measured"\nwhat = "w"\n'
        'where = "h"\nartifact = "a"\n',
    )
    path = written(
        "m.toml",
        head.replace('name = "tiny"\n', 'name = "tiny"\nprofile = "mine.toml"\n')
        + 'source = "https://hf.co/a/b"\n'
        + "[graph]\nbatch = 5\n",
    )
    with pytest.raises(PowerError) as caught:
        load_effective(path)
    assert {d.code for d in caught.value.diagnostics} >= {"P141", "P145", "P130"}


@pytest.mark.parametrize("adaptive", ["prompt-lookup", "ngram-context", "mtp"])
def test_the_controller_serves_whatever_proposes(broken: Broken, adaptive: str) -> None:
    assert broken(f'[speculation]\nspec_mode = "{adaptive}"\nspec_mtp_adaptive = true\n') == []


def test_a_rule_between_two_files_points_into_both(written: Written, head: str) -> None:
    written(
        "mine.toml",
        'schema = 1\nname = "mine"\nsummary = "s"\n[graph]\nshape = "fixed"\nrows = 8\n',
    )
    path = written(
        "m.toml",
        head.replace('name = "tiny"\n', 'name = "tiny"\nprofile = "mine.toml"\n')
        + "[speculation]\nspec_draft_max = 10\n",
    )
    with pytest.raises(PowerError) as caught:
        load_effective(path)
    (found,) = caught.value.diagnostics
    assert found.code == "P131"
    assert [(Path(s.file).name, s.source) for s in found.spans] == [
        ("mine.toml", "rows = 8"),
        ("m.toml", "spec_draft_max = 10"),
    ]


def effective(written: Written, text: str) -> Effective:
    return load_effective(written("m.toml", text))


@pytest.mark.parametrize(
    ("rest", "settled"),
    [
        ("", (9, None, 512, 256)),
        ("[speculation]\nspec_draft_max = 10\n", (12, None, 512, 256)),
        ('[graph]\nshape = "fixed"\n', (9, 8, 512, 256)),
        ('[graph]\nshape = "fixed"\nrows = 12\n', (12, 12, 512, 256)),
        ('[graph]\nbatch = 20\nshape = "fixed"\n', (20, 8, 512, 256)),
        ("[graph]\ncontext = 100\n", (9, None, 100, 99)),
        ('[speculation]\nspec_mode = "off"\n', (1, None, 512, 256)),
        ('[speculation]\nspec_mode = "off"\n[graph]\nshape = "fixed"\n', (1, 1, 512, 256)),
        (
            '[speculation]\nspec_mode = "off"\n[graph]\nshape = "fixed"\nrows = 8\n',
            (8, 8, 512, 256),
        ),
    ],
)
def test_defaults_that_depend_on_others(
    written: Written, head: str, rest: str, settled: tuple[int, int | None, int, int]
) -> None:
    found = effective(written, head + rest)
    assert (found.batch, found.rows, found.prefill_batch, found.max_tokens) == settled


@pytest.mark.parametrize(
    ("rest", "implied"),
    [
        ("", None),
        (draft("dspark"), "dspark"),
        (OFF, "off"),
        (OFF + draft("dspark"), "off"),
        ('[speculation]\nspec_mode = "mtp"\n', "mtp"),
    ],
)
def test_the_strategy_as_far_as_the_files_tell(
    written: Written, head: str, rest: str, implied: str | None
) -> None:
    assert effective(written, head + rest).implied == implied


@pytest.mark.parametrize(("k", "s", "window"), [(7, 7, 7), (7, 6, 6), (4, 7, 4)])
def test_effective_snapshots(written: Written, head: str, k: int, s: int, window: int) -> None:
    rest = f"[speculation]\nspec_draft_max = {k}\nspec_mtp_recurrent_snapshots = {s}\n"
    assert effective(written, head + rest).effective_snapshots == window
