"""Plans: deterministic, strict to the byte, and blind to what does not matter."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from power.artifact.facts import PairFacts
from power.diagnostics import PowerError
from power.manifest.model import Draft, Settings, Target
from power.plan import lock, rules
from power.plan.capabilities import STRATEGIES, TRAITS
from power.plan.coherence import incoherent
from power.plan.compiler import DraftFacts, Inputs, compile_plan
from power.plan.model import Plan, Source
from power.plan.show import show_text
from tests.plan import vectors
from tests.plan.conftest import HEADER, Engine

ENGINE = Engine(capabilities=dict.fromkeys(STRATEGIES))
GOOD = (vectors.FOLDER / "good.lock").read_text("utf-8")
MODES = [None, "mtp", *(s for s in STRATEGIES if TRAITS[s].external)]

widths = st.integers(1, 64)
grammars = st.text(st.characters(codec="utf-8", exclude_characters="\0")).map("root ::= ".__add__)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def costs(draw: st.DrawFn) -> dict[str, Any]:
    """Costs of a curve with gaps; two rows are always among them."""
    decimals = st.decimals("0.000001", 999, places=6).map(lambda number: f"{number:f}")
    rows = draw(st.dictionaries(st.integers(1, 70).map(str), decimals, max_size=9))
    return {
        "draft_step": draw(decimals),
        "rebuild": draw(decimals),
        "refill": draw(decimals),
        "rows": {"2": "1.9", **rows, "1": "1.0"},
    }


@st.composite
def sections(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that a manifest may state: mostly sound, or every plan would be refused."""
    k = draw(widths)
    fixed = draw(st.booleans())
    seldom = st.sampled_from([False] * 7 + [True])
    return {
        "speculation": {
            "spec_draft_max": k,
            "spec_draft_min": draw(st.integers(0, k if draw(seldom) else 1)),
            "spec_draft_p_min": draw(st.floats(0, 1)),
            "spec_mtp_recurrent_snapshots": draw(widths),
            "spec_mtp_fr_vocab_size": draw(
                st.integers(1024, 60_000) if draw(seldom) else st.none()
            ),
            "spec_mtp_adaptive": draw(seldom),
            "controller": draw(st.sampled_from([None, None, None, "fixed", "cost"])),
            "cost": draw(st.none() | costs()),
        },
        "graph": {
            "shape": "fixed" if fixed else "natural",
            "rows": draw(st.none() | st.integers(k + 1, k + 4)) if fixed else None,
            "batch": draw(st.none() | st.integers(k if draw(seldom) else k + 4, k + 8)),
            "context": draw(st.integers(100, 8192)),
            "flash_attention": draw(st.sampled_from(["on", "off"])),
            "micro_batch": draw(st.none() | st.integers(1, 512)),
            "repack": draw(st.sampled_from(["auto", "on", "off"])),
        },
        "host": {"require": draw(st.sampled_from([[], ["cuda"]]))},
        "sampling": {
            "temperature": draw(st.floats(0, 100)),
            "grammar": draw(st.none() | grammars),
            "seed": draw(st.integers(0, 2**32 - 2)),
        },
        "exactness": {"level": draw(st.sampled_from(["rule", "serial", "shape"][: 2 + fixed]))},
        "bounds": {"min_acceptance": draw(st.none() | st.floats(0, 1))},
        "preflight": {
            "cpu_percent": draw(st.none() | st.integers(0, 100)),
            "governor": draw(st.sampled_from([None, "performance"])),
        },
    }


@st.composite
def inputs(draw: st.DrawFn, mode: str | None = None) -> Inputs:
    kind = draw(st.sampled_from(MODES))
    stated = draw(sections())
    asked = ["auto", kind] if kind else ["auto", "off", "prompt-lookup", "ngram-context"]
    stated["speculation"]["spec_mode"] = mode or draw(st.sampled_from(asked))
    target = draw(digests)
    draft = None
    if kind is not None:
        pinned = Draft(
            kind=kind,  # type: ignore[arg-type]
            path="d/d.gguf",
            bytes=1,
            sha256=draw(digests),
            target_sha256=target,
        )
        limit, own = draw(st.none() | st.integers(32, 64)), draw(st.none() | st.integers(1, 49152))
        table = kind == "mtp"  # no model, and nothing but rows
        rows = 1024 if table else own
        pair = PairFacts(kind, None if table else limit, rows, ("a note",))
        draft = DraftFacts(pinned, None if table else HEADER, pair)
    return Inputs(
        name="m",
        manifest=Source(name="m", sha256=draw(digests)),
        profile=None,
        settings=Settings.model_validate(stated),
        target=Target(path="t.gguf", bytes=draw(st.integers(1, 2**53 - 1)), sha256=target),
        target_header=replace(
            HEADER, recurrent=draw(st.booleans()), nextn_layers=draw(st.integers(0, 1))
        ),
        draft=draft,
        engine=ENGINE,
    )


def compiled(given_: Inputs) -> Plan | None:
    try:
        return compile_plan(given_)
    except PowerError:
        return None


@given(inputs())
@settings(max_examples=400)
def test_a_plan_is_sound_and_reads_back_to_the_same_bytes(given_: Inputs) -> None:
    plan = compiled(given_)
    assume(plan is not None)
    assert plan is not None
    text = lock.dumps(plan)
    assert lock.dumps(compile_plan(given_)) == text
    assert lock.loads(text, "m.lock") == plan
    assert rules.findings(plan) == incoherent(plan) == ()
    assert show_text(plan).isprintable() is False  # line feeds, and nothing else unprintable:
    assert all(line.isprintable() for line in show_text(plan).split("\n"))


@given(inputs())
@settings(max_examples=400)
def test_the_rules_of_widths_hold_in_every_plan(given_: Inputs) -> None:
    plan = compiled(given_)
    assume(plan is not None and plan.speculation.strategy != "off")
    assert plan is not None
    spec, graph = plan.speculation, plan.graph
    k, s, b = spec.spec_draft_max, spec.spec_mtp_recurrent_snapshots, graph.batch
    assert k is not None
    assert s is not None
    assert b is not None
    assert b >= k + 2
    assert spec.effective_snapshots == min(s, k)
    assert graph.rows is None or k + 1 <= graph.rows <= b
    if spec.rollback == "snapshots" and graph.rows is not None:
        assert graph.rows - 1 <= min(s, k)
    if plan.draft is not None and plan.draft.contract.max_width is not None:
        assert k <= plan.draft.contract.max_width
    assert (spec.spec_mtp_fr_vocab_size or 0) <= HEADER.vocabulary


@given(inputs(mode="off"), sections())
@settings(max_examples=200)
def test_dead_settings_do_not_change_an_off_plan(given_: Inputs, other: dict[str, Any]) -> None:
    """Another K, S, FR, p_min, adaptive or draft: the same plan, byte for byte."""
    before = given_.settings.model_dump()
    natural = {**before["graph"], "shape": "natural", "rows": None}
    first = before | {"graph": natural | {"batch": None}}
    second = before | {
        "graph": natural | {"batch": other["graph"]["batch"]},
        "speculation": other["speculation"] | {"spec_mode": "off"},
    }
    plans = [
        compiled(replace(given_, settings=Settings.model_validate(stated), draft=draft))
        for stated, draft in ((first, given_.draft), (second, None))
    ]
    assume(plans[0] is not None)
    assert plans[0] == plans[1]


@given(inputs(mode="off"), widths)
def test_stated_rows_of_an_off_plan_do_not_depend_on_k(given_: Inputs, k: int) -> None:
    stated = given_.settings.model_dump()
    stated["graph"] |= {"shape": "fixed", "rows": 4, "batch": 11}
    first = compiled(replace(given_, settings=Settings.model_validate(stated)))
    stated["speculation"]["spec_draft_max"] = k
    assert first == compiled(replace(given_, settings=Settings.model_validate(stated)))


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
@settings(max_examples=500)
def test_any_replaced_character_of_a_lock_is_refused(position: int, char: str) -> None:
    assume(GOOD[position] != char)
    with pytest.raises(PowerError):
        lock.loads(GOOD[:position] + char + GOOD[position + 1 :], "m.lock")


@given(st.integers(0, len(GOOD)), st.integers(0, 80))
@settings(max_examples=300)
def test_any_cut_of_a_lock_is_refused(start: int, length: int) -> None:
    cut = GOOD[:start] + GOOD[start + length :]
    assume(cut != GOOD)
    with pytest.raises(PowerError):
        lock.loads(cut, "m.lock")


@given(st.integers(0, len(GOOD)), st.text(st.characters(codec="utf-8"), min_size=1))
@settings(max_examples=300)
def test_any_insertion_into_a_lock_is_refused(position: int, text: str) -> None:
    with pytest.raises(PowerError):
        lock.loads(GOOD[:position] + text + GOOD[position:], "m.lock")


@given(st.text(st.characters(codec="utf-8")))
@settings(max_examples=200)
def test_any_text_is_refused_by_a_diagnostic(text: str) -> None:
    with pytest.raises(PowerError):
        lock.loads(text, "m.lock")
