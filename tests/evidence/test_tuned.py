"""From times to costs, and from a choice to a profile that can be loaded."""

from __future__ import annotations

from fractions import Fraction

import pytest

from power.diagnostics import PowerError
from power.evidence.curve import cost_of, ratios, turns
from power.evidence.planner import choose, survey
from power.evidence.tuned import check_open, chosen_settings, profile_text
from power.manifest.load import parse_manifest, parse_profile
from power.manifest.merge import Effective, merge
from power.manifest.rules import check_rules
from power.plan.model import Cost
from power.runner.messages import Timed
from tests.evidence.test_planner import STEEP, traced
from tests.property.harness import Case

HEAD = f'schema = 1\nname = "m"\n[target]\npath = "x"\nbytes = 1\nsha256 = "{"0" * 64}"\n'
PROFILE = """\
schema = 1
name = "mine"
summary = "s"
[speculation]
spec_draft_max = 3
[graph]
shape = "fixed"
rows = 4
flash_attention = "off"
[sampling]
max_tokens = 9
"""
EVIDENCE = {
    "by": "measured",
    "what": "w",
    "where": "h",
    "artifact": "a",
    "artifact_sha256": "0" * 64,
    "report": "r.json",
    "report_sha256": "1" * 64,
    "figures": {"gain_ratio": 1.5},
}


def timed(size: int, *ns: int, drafted: int = 0, cells: int = 8) -> Timed:
    return Timed(cells, size, drafted, ns, (100,) * len(ns))


def test_costs_are_in_passes_of_one_row() -> None:
    """One slow repeat does not count; two lengths of text count alike."""
    passes = [
        timed(1, 100, 102, 900),
        timed(2, 190, 180, 185),
        timed(1, 100, 98, 98, cells=99),
        timed(2, 215, 215, 215, cells=99),
    ]
    assert ratios(passes) == {1: 1, 2: 2}
    # The upper quartile of more of them.
    assert ratios([timed(2, 180, 900, 190, 210, 185)]) == {2: Fraction(21, 10)}
    assert cost_of(passes, ()).model_dump() == {
        "draft_call": "0",
        "draft_step": "0",
        "draft_prefill": None,
        "rebuild": "0",
        "refill": "0",
        "rows": {"1": "1", "2": "2"},
    }


def test_a_host_that_grows_slower_under_way_moves_no_cost() -> None:
    """Each time is held against a pass of one row that was timed just before it."""
    speeds = (1, 3, 7, 9, 4)
    passes = [
        Timed(
            8,
            size,
            0,
            tuple(100 * size * speed for speed in speeds[size:]),
            tuple(100 * speed for speed in speeds[size:]),
            tuple((100 * size + 8) * speed for speed in speeds[size:]),
            tuple((100 + 8 + 5 * (size - 1)) * speed for speed in speeds[size:]),
        )
        for size in (1, 2, 3)
    ]
    drafts = [Timed(8, width, width, (90 + 10 * width,), (100,)) for width in (1, 7)] + [
        Timed(9, width, width, (270 + 30 * width,), (300,)) for width in (1, 7)
    ]
    cost = cost_of(passes, drafts, [Timed(8, 10, 1, (400,), (200,))])
    assert cost.rows == {"1": "1", "2": "2", "3": "3"}
    assert (cost.rebuild, cost.refill) == ("0.08", "0.05")
    assert (cost.draft_call, cost.draft_step, cost.draft_prefill) == ("0.9", "0.1", "0.1")


def test_a_turn_is_what_a_pass_takes_longer_behind_one_of_another_size() -> None:
    """A line through the trips there and back, whatever one of them says; noise is nothing."""
    passes = [
        Timed(8, 1, 0, (100, 101, 99), (100, 100, 100), (108, 110, 109), (100, 100, 100)),
        Timed(8, 2, 0, (180, 180, 180), (100, 100, 100), (190, 190, 190), (112, 112, 112)),
        Timed(8, 3, 0, (300, 300, 300), (100, 100, 100), (310, 310, 310), (114, 114, 114)),
        Timed(8, 4, 0, (400, 400, 400), (100, 100, 100), (440, 440, 440), (150, 150, 150)),
        Timed(8, 5, 0, (500, 500, 500), (100, 100, 100), (510, 510, 510), (118, 118, 118)),
        Timed(99, 1, 0, (100, 100, 100), (100, 100, 100), (98, 98, 98), (97, 97, 97)),
        Timed(99, 2, 0, (200, 200, 200), (100, 100, 100), (199, 199, 199), (99, 99, 99)),
    ]
    # Behind 8 cells 0.22, 0.24 and 0.28, and one that is off; behind 99 less than nothing.
    assert turns(passes) == (Fraction(5, 100), Fraction(1, 100))
    cost = cost_of(passes, ())
    assert (cost.rebuild, cost.refill) == ("0.05", "0.01")


def test_without_turns_nothing_is_known_of_them() -> None:
    assert turns([timed(1, 100), timed(2, 190)]) == (Fraction(0), Fraction(0))


def test_a_proposal_costs_a_call_and_its_tokens() -> None:
    passes = [timed(1, 100)]
    drafts = [timed(1, 30, drafted=1), timed(7, 90, drafted=7)]
    assert cost_of(passes, drafts).model_dump() == {
        "draft_call": "0.2",
        "draft_step": "0.1",
        "draft_prefill": None,
        "rebuild": "0",
        "refill": "0",
        "rows": {"1": "1"},
    }


def test_taking_in_a_token_costs_what_a_proposal_with_a_backlog_takes_longer() -> None:
    """A proposal of one token takes 30: with 32 tokens to take in, 350."""
    drafts = [timed(1, 30, drafted=1), timed(7, 90, drafted=7)]
    found = cost_of([timed(1, 100)], drafts, [timed(32, 350, drafted=1)])
    assert (found.draft_call, found.draft_step, found.draft_prefill) == ("0.2", "0.1", "0.1")
    quick = cost_of([timed(1, 100)], drafts, [timed(32, 20, drafted=1)])
    assert quick.draft_prefill == "0"


@pytest.mark.parametrize(
    ("drafts", "call", "step"),
    [
        ([timed(1, 30, drafted=0), timed(7, 90, drafted=0)], "0", "0"),  # it said nothing
        ([timed(7, 90, drafted=7), timed(1, 90, drafted=1)], "0.9", "0"),  # a block
        ([timed(1, 90, drafted=1)], "0.9", "0"),
    ],
)
def test_what_a_proposal_costs_where_it_is_no_line(
    drafts: list[Timed], call: str, step: str
) -> None:
    found = cost_of([timed(1, 100)], drafts)
    assert (found.draft_call, found.draft_step) == (call, step)


def effective(manifest: str = "", profile: str | None = PROFILE) -> Effective:
    below = None if profile is None else parse_profile(profile.encode(), "p.toml")
    return merge(parse_manifest((HEAD + manifest).encode(), "m.toml"), below)


def test_the_profile_keeps_what_is_not_tuned() -> None:
    text = profile_text(
        effective(),
        name="m-tuned",
        summary="s",
        speculation={"spec_mode": "prompt-lookup", "spec_draft_max": 7},
        rows=None,
        evidence=EVIDENCE,
    )
    found = parse_profile(text.encode(), "t.toml").profile
    assert text.startswith("# Made by `power tune`")
    assert found.graph.model_dump(exclude_unset=True) == {
        "shape": "natural",
        "flash_attention": "off",
    }
    assert found.sampling.max_tokens == 9
    assert found.speculation.spec_draft_max == 7
    assert found.evidence[0].report_sha256 == "1" * 64


def test_every_section_of_the_own_profile_but_the_tuned_ones_stays() -> None:
    more = '[preflight]\nidle_ms = 500\n[exactness]\nlevel = "serial"\n'
    text = profile_text(
        effective(profile=PROFILE + more),
        name="m-tuned",
        summary="s",
        speculation={"spec_mode": "off"},
        rows=None,
        evidence=EVIDENCE,
    )
    found = parse_profile(text.encode(), "t.toml")
    assert found.profile.preflight.idle_ms == 500
    assert found.profile.exactness.level == "serial"
    assert check_rules(merge(effective().loaded, found)) == ()


def test_a_claim_of_shape_needs_a_shape_that_tuning_keeps() -> None:
    claim = '[exactness]\nlevel = "shape"\n'
    check_open(effective(claim + '[graph]\nshape = "fixed"\n'))
    for found in (effective(claim), effective(profile=PROFILE + claim)):
        with pytest.raises(PowerError) as caught:
            check_open(found)
        assert [d.code for d in caught.value.diagnostics] == ["P808"]


def test_the_costs_of_a_choice_are_those_that_it_can_use() -> None:
    trace = traced(Case(max_tokens=30, left=90, seed=1))
    cost = Cost(
        draft_call="0.1",
        draft_step="0.2",
        draft_prefill="0.03",
        rebuild="0.07",
        refill="0.02",
        rows=STEEP,
    )
    weighed = [
        one
        for one in survey(trace)
        if one.candidate.setting.controller == "cost" and one.candidate.setting.draft_max == 3
    ]
    by_strategy = {
        one.candidate.setting.strategy: chosen_settings(one, cost)["cost"] for one in weighed
    }
    assert by_strategy["draft-model"] == {
        "draft_call": "0.1",
        "draft_step": "0.2",
        "draft_prefill": "0.03",
        "rebuild": "0.07",
        "refill": "0.02",
        "rows": {"1": "1", "2": "1.8", "3": "2.4", "4": "2.9"},
    }
    assert by_strategy["prompt-lookup"]["draft_step"] == "0"
    assert "draft_prefill" not in by_strategy["prompt-lookup"]
    assert chosen_settings(None, cost) == {"spec_mode": "off"}
    best = choose(survey(trace))
    assert best is not None
    assert "cost" not in chosen_settings(best, cost)  # a fixed width


def test_a_plan_with_a_draft_can_use_no_other_strategy() -> None:
    judged = survey(traced(Case(max_tokens=30, left=90, seed=1)))
    chosen = {draft: choose(judged, draft) for draft in (None, "draft-model", "eagle3")}
    assert chosen["eagle3"] is None
    assert chosen["draft-model"] is not None
    assert chosen["draft-model"].candidate.setting.strategy == "draft-model"
    assert chosen[None] in judged


def test_what_the_manifest_says_itself_cannot_be_tuned() -> None:
    check_open(effective())
    with pytest.raises(PowerError) as caught:
        check_open(effective("[speculation]\nspec_draft_max = 4\n[graph]\nbatch = 9\n"))
    assert [d.code for d in caught.value.diagnostics] == ["P808", "P808"]
    for key in ("spec_draft_p_min = 0.8", "spec_mtp_fr_vocab_size = 8192"):
        with pytest.raises(PowerError, match=key.split()[0]):
            check_open(effective(f"[speculation]\n{key}\n"))
    assert caught.value.diagnostics[0].spans[0].line == 8
