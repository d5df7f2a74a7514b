"""A plan for a person."""

from power.plan import lock
from power.plan.compiler import compile_plan
from power.plan.show import show_text
from tests.plan import vectors
from tests.plan.conftest import MakeInputs


def test_the_good_plan_as_a_person_sees_it() -> None:
    plan = lock.load(vectors.FOLDER / "good.lock")
    assert show_text(plan) == (vectors.FOLDER / "good.txt").read_text("utf-8")


def test_a_draft_is_shown_with_its_contract_and_the_widths_that_follow(
    make_inputs: MakeInputs,
) -> None:
    plan = compile_plan(
        make_inputs(
            kind="dspark",
            max_width=7,
            fr_vocabulary=2048,
            notes=("the chat template differs",),
            header={"recurrent": True},
            speculation={"spec_mtp_recurrent_snapshots": 6, "spec_draft_p_min": 0.5},
            host={"cpu_affinity": [0, 2], "cuda_high_priority": True},
            sampling={"temperature": 0.7, "top_k": 40},
        )
    )
    text = show_text(plan)
    for line in (
        "  draft         d.gguf",
        "kind dspark; at most 7 tokens a proposal; own head of 2048 rows",
        "note: the chat template differs",
        "  strategy      dspark  (asked for: auto)",
        "K 7  S 6 (effective 6)  B 9",
        "snapshots: window 6, more is replayed",
        "least 0, stop below p 0.5, fixed width, draft vocabulary of 2048 rows (d2t)",
        "  shape         natural",
        "physical cores on CPUs [0, 2], normal priority, high-priority CUDA streams",
        "sampled: temperature 0.7, top_k 40, seed 0",
    ):
        assert line in text


def test_a_draft_without_limits_says_so(make_inputs: MakeInputs) -> None:
    text = show_text(compile_plan(make_inputs(kind="draft-model")))
    assert "kind draft-model; no width limit of its own\n" in text
    assert "full draft vocabulary" in text


def test_terminal_escapes_in_a_plan_are_shown_not_obeyed() -> None:
    plan = lock.load(vectors.FOLDER / "good.lock")
    # No lock file can hold such a licence; what is shown is escaped all the same.
    target = plan.target.model_copy(update={"license": "\x1b[2J\u202eMIT"})
    assert "\\x1b[2J\\u202eMIT" in show_text(plan.model_copy(update={"target": target}))
