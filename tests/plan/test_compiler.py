"""The compiler: K, S, B, FR, shapes and limits, and what a plan leaves out."""

from dataclasses import replace
from typing import Any

import pytest

from power.diagnostics import PowerError
from power.plan import lock
from power.plan.capabilities import prefix_sha256
from power.plan.compiler import Inputs, compile_plan
from power.plan.show import show_text
from tests.plan.conftest import D, Engine, MakeInputs


def codes(inputs: Inputs) -> list[str]:
    with pytest.raises(PowerError) as caught:
        compile_plan(inputs)
    return [d.code for d in caught.value.diagnostics]


def lookup(**more: Any) -> dict[str, Any]:
    return {"spec_mode": "prompt-lookup", **more}


def test_defaults_make_room_for_the_proposal(make_inputs: MakeInputs) -> None:
    plan = compile_plan(make_inputs(speculation=lookup(spec_draft_max=5)))
    assert (plan.graph.batch, plan.graph.rows, plan.graph.shape) == (7, None, "natural")
    assert plan.engine.capabilities == ["prompt-lookup"]


@pytest.mark.parametrize(("k", "s", "effective"), [(7, 7, 7), (7, 6, 6), (4, 64, 4)])
def test_effective_snapshots_are_the_smaller_of_k_and_s(
    make_inputs: MakeInputs, k: int, s: int, effective: int
) -> None:
    asked = lookup(spec_draft_max=k, spec_mtp_recurrent_snapshots=s)
    spec = compile_plan(make_inputs(speculation=asked)).speculation
    assert (spec.spec_mtp_recurrent_snapshots, spec.effective_snapshots) == (s, effective)


@pytest.mark.parametrize(("recurrent", "rule"), [(False, "trim"), (True, "snapshots")])
def test_the_rollback_rule_follows_the_target(
    make_inputs: MakeInputs, recurrent: bool, rule: str
) -> None:
    plan = compile_plan(make_inputs(speculation=lookup(), header={"recurrent": recurrent}))
    assert plan.speculation.rollback == rule


@pytest.mark.complaint(n=12)
@pytest.mark.parametrize(("batch", "refused"), [(8, ["P411"]), (9, [])])
def test_batch_holds_k_plus_two_rows(
    make_inputs: MakeInputs, batch: int, refused: list[str]
) -> None:
    inputs = make_inputs(speculation=lookup(spec_draft_max=7), graph={"batch": batch})
    if refused:
        assert codes(inputs) == refused
    else:
        assert compile_plan(inputs).graph.batch == batch


@pytest.mark.parametrize(
    ("graph", "refused"),
    [
        ({"rows": 7, "batch": 9}, ["P412"]),
        ({"rows": 8, "batch": 9}, []),
        ({"rows": 10, "batch": 9}, ["P412"]),
        ({"rows": 10}, []),
        ({}, []),
    ],
)
def test_rows_lie_between_k_plus_one_and_batch(
    make_inputs: MakeInputs, graph: dict[str, int], refused: list[str]
) -> None:
    inputs = make_inputs(speculation=lookup(spec_draft_max=7), graph={"shape": "fixed", **graph})
    if refused:
        assert codes(inputs) == refused
    else:
        assert compile_plan(inputs).graph.rows == graph.get("rows", 8)


@pytest.mark.parametrize(
    ("k", "s", "rows", "fits"),
    [(7, 7, 8, True), (7, 64, 8, True), (7, 7, 9, False), (7, 6, 8, False), (3, 7, 8, False)],
)
def test_a_recurrent_target_drops_padding_only_within_its_snapshots(
    make_inputs: MakeInputs, k: int, s: int, rows: int, fits: bool
) -> None:
    inputs = make_inputs(
        speculation=lookup(spec_draft_max=k, spec_mtp_recurrent_snapshots=s),
        graph={"shape": "fixed", "rows": rows, "batch": 12},
        header={"recurrent": True},
    )
    if fits:
        assert compile_plan(inputs).graph.rows == rows
    else:
        assert codes(inputs) == ["P413"]


@pytest.mark.parametrize(("rows", "fits"), [(1, True), (2, False)])
def test_a_recurrent_target_without_a_proposer_cannot_pad(
    make_inputs: MakeInputs, rows: int, fits: bool
) -> None:
    inputs = make_inputs(
        speculation={"spec_mode": "off"},
        graph={"shape": "fixed", "rows": rows},
        header={"recurrent": True},
    )
    if fits:
        assert compile_plan(inputs).graph.rows == 1
    else:
        assert codes(inputs) == ["P413"]


@pytest.mark.complaint(n=12)
@pytest.mark.parametrize(
    ("k", "s", "micro", "recurrent", "fits"),
    [
        (7, 7, 9, True, True),
        (7, 7, 8, True, False),  # the snapshots need 7 + 2
        (10, 6, 11, True, True),
        (10, 6, 10, True, False),  # a pass has 11 rows
        (7, 7, 8, False, True),
        (7, 7, 7, False, False),
    ],
)
def test_a_micro_batch_holds_a_pass(
    make_inputs: MakeInputs, k: int, s: int, micro: int, *, recurrent: bool, fits: bool
) -> None:
    inputs = make_inputs(
        speculation=lookup(spec_draft_max=k, spec_mtp_recurrent_snapshots=s),
        graph={"micro_batch": micro},
        header={"recurrent": recurrent},
    )
    if fits:
        assert compile_plan(inputs).graph.micro_batch == micro
    else:
        assert codes(inputs) == ["P426"]


def test_kernel_settings_are_locked_as_they_were_asked_for(make_inputs: MakeInputs) -> None:
    graphs: tuple[dict[str, Any], ...] = (
        {},
        {"repack": "auto"},
        {"repack": "off", "micro_batch": 3},
        {"repack": "on"},
    )
    plans = [compile_plan(make_inputs(graph=graph)) for graph in graphs]
    assert [(p.graph.repack, p.graph.micro_batch) for p in plans] == [
        *((None, None), (None, None)),
        *(("off", 3), ("on", None)),
    ]
    assert plans[0].lock == plans[1].lock
    assert len({plan.lock.plan_sha256 for plan in plans}) == 3


@pytest.mark.complaint(n=4)
def test_a_proposal_wider_than_the_draft_is_refused_not_cut(make_inputs: MakeInputs) -> None:
    inputs = make_inputs(kind="dspark", max_width=6, speculation={"spec_draft_max": 7})
    with pytest.raises(PowerError) as caught:
        compile_plan(inputs)
    (found,) = caught.value.diagnostics
    assert found.code == "P410"
    assert "spec_draft_max` is 7" in found.message
    assert "at most 6" in found.message
    assert "d.gguf" in found.message


def test_the_draft_width_itself_is_allowed(make_inputs: MakeInputs) -> None:
    inputs = make_inputs(kind="dspark", max_width=7, speculation={"spec_draft_max": 7})
    assert compile_plan(inputs).speculation.spec_draft_max == 7


def mtp(make_inputs: MakeInputs, **more: Any) -> Inputs:
    return make_inputs(
        speculation={"spec_mode": "mtp", **more}, header={"nextn_layers": 1, "recurrent": True}
    )


def test_auto_passes_over_a_native_head_that_breaks_its_contract(make_inputs: MakeInputs) -> None:
    inputs = make_inputs(header={"nextn_layers": 2})
    broken = compile_plan(replace(inputs, native_lacks="it has 2 blocks")).speculation
    assert (broken.strategy, broken.reason) == (
        "off",
        "the manifest declares no draft and it has 2 blocks",
    )
    assert compile_plan(inputs).speculation.strategy == "mtp"


def test_fr_is_a_prefix_of_the_native_head(make_inputs: MakeInputs) -> None:
    spec = compile_plan(mtp(make_inputs, spec_mtp_fr_vocab_size=8192)).speculation
    assert (spec.fr_rule, spec.spec_mtp_fr_vocab_size) == ("prefix", 8192)
    assert spec.fr_sha256 == prefix_sha256(8192)


def test_fr_of_all_rows_is_the_full_head(make_inputs: MakeInputs) -> None:
    spec = compile_plan(mtp(make_inputs, spec_mtp_fr_vocab_size=49152)).speculation
    assert spec == compile_plan(mtp(make_inputs)).speculation
    assert spec.fr_rule == "full"


def test_fr_above_the_vocabulary_is_refused(make_inputs: MakeInputs) -> None:
    assert codes(mtp(make_inputs, spec_mtp_fr_vocab_size=49153)) == ["P416"]


@pytest.mark.parametrize("kind", ["dflash", "dspark", "eagle3"])
def test_fr_is_a_prefix_of_the_head_of_a_draft_without_a_table(
    make_inputs: MakeInputs, kind: str
) -> None:
    engine = Engine(capabilities={kind: None})
    asked = {"spec_mtp_fr_vocab_size": 8192}
    spec = compile_plan(make_inputs(kind=kind, engine=engine, speculation=asked)).speculation
    assert (spec.fr_rule, spec.spec_mtp_fr_vocab_size) == ("prefix", 8192)
    assert spec.fr_sha256 == prefix_sha256(8192)
    beyond = {"spec_mtp_fr_vocab_size": 49153}
    assert codes(make_inputs(kind=kind, engine=engine, speculation=beyond)) == ["P416"]


@pytest.mark.parametrize("kind", [None, "draft-model", "dflash2"])
def test_fr_is_refused_where_no_head_can_be_reduced(
    make_inputs: MakeInputs, kind: str | None
) -> None:
    mode = "prompt-lookup" if kind is None else kind
    asked = {"spec_mode": mode, "spec_mtp_fr_vocab_size": 2048}
    assert codes(make_inputs(kind=kind, speculation=asked)) == ["P415"]


@pytest.mark.parametrize("kind", ["dflash", "dspark"])
@pytest.mark.parametrize(("asked", "fits"), [(None, True), (2048, True), (4096, False)])
def test_a_draft_with_its_own_table_decides_fr(
    make_inputs: MakeInputs, kind: str, asked: int | None, fits: bool
) -> None:
    wish = {} if asked is None else {"spec_mtp_fr_vocab_size": asked}
    inputs = make_inputs(kind=kind, fr_vocabulary=2048, speculation=wish)
    if fits:
        spec = compile_plan(inputs).speculation
        assert (spec.fr_rule, spec.spec_mtp_fr_vocab_size) == ("d2t", 2048)
    else:
        assert codes(inputs) == ["P415"]


@pytest.mark.parametrize("mode", ["auto", "mtp"])
def test_a_table_reduces_the_native_head(make_inputs: MakeInputs, mode: str) -> None:
    native = {"nextn_layers": 1, "recurrent": True}
    inputs = make_inputs(
        kind="mtp", fr_vocabulary=700, header=native, speculation={"spec_mode": mode}
    )
    plan = compile_plan(inputs)
    spec = plan.speculation
    assert (spec.strategy, spec.fr_rule, spec.spec_mtp_fr_vocab_size) == ("mtp", "d2t", 700)
    assert (spec.fr_sha256, plan.engine.capabilities) == (D, ["mtp"])
    assert plan.draft is not None
    assert plan.draft.header is None
    assert plan.draft.contract.fr_vocabulary == 700
    assert lock.loads(lock.dumps(plan), "t.lock") == plan
    assert "the target's head of 700 rows" in show_text(plan)
    off = make_inputs(kind="mtp", fr_vocabulary=700, speculation={"spec_mode": "off"})
    assert compile_plan(off).draft is None


@pytest.mark.parametrize("kind", ["dflash2", None])
def test_adaptive_is_for_model_backed_proposers_with_evidence(
    make_inputs: MakeInputs, kind: str | None
) -> None:
    asked = {"spec_mode": kind or "ngram-context", "spec_mtp_adaptive": True}
    assert codes(make_inputs(kind=kind, speculation=asked)) == ["P417"]


def test_adaptive_must_be_able_to_start(make_inputs: MakeInputs) -> None:
    asked = {"spec_mtp_adaptive": True, "spec_draft_min": 3, "spec_mtp_recurrent_snapshots": 2}
    assert codes(make_inputs(kind="draft-model", speculation=asked)) == ["P418"]


@pytest.mark.parametrize(("recurrent", "found"), [(True, ["P418"]), (False, [])])
def test_a_width_that_the_guard_clamps_may_still_be_drafted(
    make_inputs: MakeInputs, *, recurrent: bool, found: list[str]
) -> None:
    asked = lookup(spec_draft_max=7, spec_draft_min=5, spec_mtp_recurrent_snapshots=3)
    inputs = make_inputs(speculation=asked, header={"recurrent": recurrent})
    if found:
        assert codes(inputs) == found
    else:
        assert compile_plan(inputs).speculation.spec_draft_min == 5


def weighed(**rows: str) -> dict[str, Any]:
    """The cost controller with these passes; `r8` for 8 rows."""
    table = {name.removeprefix("r"): cost for name, cost in rows.items()}
    cost = {"rebuild": "0.080", "refill": "0.02", "rows": table}
    return lookup(controller="cost", spec_draft_max=7, cost=cost)


def test_the_costs_that_the_shape_uses_are_in_the_plan(make_inputs: MakeInputs) -> None:
    asked = weighed(r12="6.42", r1="1.00", r8="4.620", r2="1.84")
    natural = compile_plan(make_inputs(speculation=asked))
    assert natural.speculation.cost is not None
    assert natural.speculation.cost.model_dump() == {
        "draft_call": "0",
        "draft_step": "0",
        "draft_prefill": None,
        "rebuild": "0.08",
        "refill": "0.02",
        "rows": {"1": "1", "2": "1.84", "8": "4.62"},
    }
    text = lock.dumps(natural)
    assert '[speculation.cost.rows]\n1 = "1"\n2 = "1.84"\n8 = "4.62"\n' in text
    assert lock.loads(text, "t.lock") == natural
    assert "the width that pays" in show_text(natural)
    assert "1.84 for 2" in show_text(natural)
    assert "another row count than before: 0.08, and 0.02 for each row less" in show_text(natural)
    asked["cost"]["draft_prefill"] = "0.03"  # for a draft model, which this is not
    fixed = make_inputs(speculation=asked, graph={"shape": "fixed", "rows": 12, "batch": 12})
    cost = compile_plan(fixed).speculation.cost
    assert cost is not None
    assert cost.rows == {"12": "6.42"}
    assert (cost.rebuild, cost.refill) == ("0", "0")  # no pass follows one of another shape
    assert cost.draft_prefill is None
    model = make_inputs(kind="draft-model", speculation=asked | {"spec_mode": "draft-model"})
    reads = compile_plan(model).speculation.cost
    assert reads is not None
    assert reads.draft_prefill == "0.03"


def test_a_plan_lists_row_counts_in_order(make_inputs: MakeInputs) -> None:
    """Otherwise one plan would have two forms: its digest does not know the order."""
    text = lock.dumps(compile_plan(make_inputs(speculation=weighed(r1="1", r2="2"))))
    for swapped in ('2 = "2"\n1 = "1"\n', '1 = "1.0"\n2 = "2"\n', '01 = "1"\n2 = "2"\n'):
        with pytest.raises(PowerError) as caught:
            lock.loads(text.replace('1 = "1"\n2 = "2"\n', swapped), "t.lock")
        assert [d.code for d in caught.value.diagnostics] == ["P434"]


def test_the_cost_controller_needs_costs(make_inputs: MakeInputs) -> None:
    assert codes(make_inputs(speculation=lookup(controller="cost"))) == ["P427"]


@pytest.mark.parametrize(
    ("rows", "more", "graph", "fits"),
    [
        ({"r1": "1", "r8": "4"}, {}, {}, True),
        ({"r1": "1", "r9": "4"}, {}, {}, False),  # K + 1 is 8
        ({"r8": "4"}, {}, {}, False),
        ({"r1": "1", "r2": "2"}, {"spec_draft_min": 2}, {}, False),
        ({"r1": "1", "r3": "2"}, {"spec_draft_min": 2}, {}, True),
        ({"r8": "4"}, {}, {"shape": "fixed"}, True),
        ({"r1": "1", "r2": "4"}, {}, {"shape": "fixed"}, False),
    ],
)
def test_the_costs_leave_a_width_to_choose(
    make_inputs: MakeInputs,
    rows: dict[str, str],
    more: dict[str, Any],
    graph: dict[str, Any],
    fits: bool,
) -> None:
    asked = weighed(**rows) | more
    inputs = make_inputs(speculation=asked, graph=graph)
    if fits:
        assert compile_plan(inputs).speculation.controller == "cost"
    else:
        assert codes(inputs) == ["P428"]


def test_the_costs_end_at_the_rollback_window(make_inputs: MakeInputs) -> None:
    """A recurrent target drops min(S, K) rows: wider proposals could replay."""
    asked = weighed(r1="1", r6="2") | {"spec_mtp_recurrent_snapshots": 4}
    assert compile_plan(make_inputs(speculation=asked)).speculation.rollback == "trim"
    assert codes(make_inputs(speculation=asked, header={"recurrent": True})) == ["P428"]


def test_the_cost_controller_is_for_proposers_with_a_choice(make_inputs: MakeInputs) -> None:
    asked = weighed(r1="1", r2="2") | {"spec_mode": "dflash2"}
    assert codes(make_inputs(kind="dflash2", speculation=asked)) == ["P417"]


def test_two_spellings_of_the_adaptive_controller_are_one_plan(make_inputs: MakeInputs) -> None:
    plans = [
        compile_plan(make_inputs(kind="draft-model", speculation=said))
        for said in ({"controller": "adaptive"}, {"spec_mtp_adaptive": True})
    ]
    assert plans[0] == plans[1]
    assert plans[0].speculation.spec_mtp_adaptive is True


def test_the_least_proposal_is_not_above_the_widest(make_inputs: MakeInputs) -> None:
    assert codes(make_inputs(speculation=lookup(spec_draft_max=2, spec_draft_min=3))) == ["P414"]


def test_context_is_within_the_target(make_inputs: MakeInputs) -> None:
    with pytest.raises(PowerError) as caught:
        compile_plan(make_inputs(graph={"context": 8193}))
    (found,) = caught.value.diagnostics
    assert (found.code, found.hint) == ("P419", "set `context = 8192` or less")
    assert compile_plan(make_inputs(graph={"context": 8192})).graph.context == 8192


def test_a_context_that_nobody_wrote_is_told_as_the_default(make_inputs: MakeInputs) -> None:
    with pytest.raises(PowerError) as caught:
        compile_plan(make_inputs(header={"context": 2048}), lambda _section, _key: ())
    (found,) = caught.value.diagnostics
    assert (found.code, found.found) == ("P419", "context = 4096 (default)")


def test_context_is_within_the_draft(make_inputs: MakeInputs) -> None:
    assert codes(make_inputs(kind="draft-model", draft_context=2048)) == ["P419"]


def test_output_leaves_room_for_a_prompt(make_inputs: MakeInputs) -> None:
    assert codes(make_inputs(graph={"context": 64}, sampling={"max_tokens": 64})) == ["P420"]
    assert compile_plan(make_inputs(graph={"context": 64})).sampling.max_tokens == 63


def test_level_shape_needs_a_fixed_shape_unless_nothing_proposes(make_inputs: MakeInputs) -> None:
    claim = {"level": "shape"}
    assert codes(make_inputs(speculation=lookup(), exactness=claim)) == ["P421"]
    assert compile_plan(make_inputs(exactness=claim)).exactness.level == "shape"
    fixed = make_inputs(speculation=lookup(), exactness=claim, graph={"shape": "fixed"})
    assert compile_plan(fixed).exactness.level == "shape"


def test_a_draft_for_another_target_is_refused(make_inputs: MakeInputs) -> None:
    inputs = make_inputs(kind="draft-model")
    assert inputs.draft is not None
    pinned = inputs.draft.artifact.model_copy(update={"target_sha256": "0" * 64})
    wrong = replace(inputs, draft=replace(inputs.draft, artifact=pinned))
    assert codes(wrong) == ["P422"]


def test_all_broken_rules_are_told_at_once(make_inputs: MakeInputs) -> None:
    inputs = make_inputs(
        speculation=lookup(spec_draft_max=7, spec_mtp_adaptive=True, spec_draft_min=9),
        graph={"batch": 4, "shape": "fixed", "rows": 5, "context": 9000},
    )
    assert codes(inputs) == ["P414", "P411", "P412", "P412", "P417", "P418", "P419"]


def test_an_off_plan_holds_no_dead_setting(make_inputs: MakeInputs) -> None:
    spec = compile_plan(make_inputs(speculation={"spec_mode": "off"})).body()["speculation"]
    assert sorted(spec) == ["reason", "requested", "strategy"]
    assert (
        "batch" not in compile_plan(make_inputs(speculation={"spec_mode": "off"})).body()["graph"]
    )


def test_an_off_plan_leaves_the_declared_draft_out(make_inputs: MakeInputs) -> None:
    off = {"spec_mode": "off"}
    with_draft = compile_plan(make_inputs(kind="dspark", speculation=off))
    assert with_draft == compile_plan(make_inputs(speculation=off))


def test_a_lookup_reads_no_probabilities(make_inputs: MakeInputs) -> None:
    plain = compile_plan(make_inputs(speculation=lookup()))
    assert compile_plan(make_inputs(speculation=lookup(spec_draft_p_min=0.9))) == plain


def test_spans_of_both_keys_reach_the_diagnostic(make_inputs: MakeInputs) -> None:
    from power.diagnostics import Span

    def spans_of(section: str, key: str) -> tuple[Span, ...]:
        return (Span("m.toml", len(section), len(key)),)

    with pytest.raises(PowerError) as caught:
        compile_plan(make_inputs(speculation=lookup(), graph={"batch": 3}), spans_of)
    spans = caught.value.diagnostics[0].spans
    assert [(s.line, s.column, s.label) for s in spans] == [
        (5, 5, "batch"),
        (11, 14, "spec_draft_max"),
    ]
