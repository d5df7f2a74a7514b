"""The reference backend as an engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from power.backends.interface import EngineConfig, SamplingConfig
from power.backends.scripted import BACKEND
from power.backends.scripted.draft import KINDS, ModelDraft
from power.backends.scripted.faults import Faults, ScriptedError, Step
from power.backends.scripted.model import BEGIN, END, TURN_BEGIN, TURN_END, byte_model
from power.speculation.controller import make_controller
from power.speculation.outcome import Finish, Outcome, Settings
from power.speculation.scheduler import generate

PROMPT = "one two one two"
STRATEGIES = ("off", "prompt-lookup", "ngram-context", "draft-model")


def run(
    strategy: str,
    sampling: SamplingConfig | None = None,
    *,
    control: bool = False,
    max_tokens: int = 60,
    **options: Any,
) -> Outcome:
    k = 0 if strategy == "off" else 5
    config = EngineConfig(
        target=(0,),  # never read
        strategy=strategy,
        draft_max=k,
        batch=k + 2,
        context=256,
        extra={"scripted": options},
    )
    engine = BACKEND.open(config, lambda _done: None)
    session = engine.session(sampling or SamplingConfig(), control=control)
    settings = Settings(draft_max=k, draft_min=0, window=k, snapshots=5, context=256)
    outcome = generate(
        prompt=engine.tokenize(PROMPT, special=False),
        target=session.target,
        proposer=session.proposer,
        sampler=session.sampler,
        vocabulary=engine.vocabulary,
        controller=make_controller(settings, session.proposer),
        settings=settings,
        max_tokens=max_tokens,
        stop=(),
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=lambda: 0,
    )
    engine.close()
    return outcome


def test_it_says_what_it_executes_and_why_not_the_rest() -> None:
    facts = BACKEND.describe()
    assert facts.package == "power-scripted"
    assert [name for name, reason in facts.capabilities.items() if reason is None] == [*STRATEGIES]
    with pytest.raises(ValueError, match="no draft head"):
        run("mtp")
    with pytest.raises(ValueError, match="unknown strategy"):
        run("dflush")


@pytest.mark.parametrize(
    "sampling",
    [SamplingConfig(), SamplingConfig(temperature=0.8, top_p=0.95, repeat_penalty=1.1, seed=5)],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_writes_what_the_control_run_writes(
    strategy: str, sampling: SamplingConfig
) -> None:
    plain = run("off", sampling)
    done, control = run(strategy, sampling), run(strategy, sampling, control=True)
    assert done.ids == control.ids == plain.ids
    assert (done.finish, done.error) == (plain.finish, None)
    assert control.counters.drafted == 0
    assert (done.counters.drafted > 0) is (strategy != "off")


def test_a_draft_that_knows_part_of_the_prefix_is_partly_right() -> None:
    counters = run("draft-model").counters
    assert 0 < counters.accepted < counters.drafted


@pytest.mark.parametrize("kind", [kind.replace("N", "1") for kind in KINDS])
def test_a_proposer_of_any_kind_can_take_the_place_of_the_strategys(kind: str) -> None:
    done = run("draft-model", proposer=kind)
    assert done.ids == run("off").ids
    assert done.error is None
    perfect = done.counters.accepted == done.counters.drafted
    assert perfect is (kind in {"oracle", "too-long", "empty", "out-of-vocabulary"})
    assert (done.counters.drafted == 0) is (kind == "empty")


def test_a_seed_makes_another_model() -> None:
    assert run("off", seed=1).ids != run("off", seed=2).ids


def test_a_refused_trim_and_a_window_make_no_difference_to_the_text() -> None:
    plain = run("off").ids
    refused = run("prompt-lookup", trim="refuse")
    windowed = run("draft-model", window=5, proposer="wrong-at-0")
    assert refused.ids == windowed.ids == plain
    assert refused.counters.replays > 0
    assert windowed.counters.replays == 0


def test_text_is_tokenised_by_the_byte_behind_a_beginning() -> None:
    engine = BACKEND.open(EngineConfig(target=(0,)), lambda _done: None)
    text = "a<|im_start|>é<|im_end|></s>"
    ids = engine.tokenize(text, special=True)
    assert ids == [BEGIN, ord("a"), TURN_BEGIN, *"é".encode(), TURN_END, END]
    plain = engine.tokenize(text, special=False)
    assert plain == [BEGIN, *text.encode()]
    assert b"".join(map(engine.vocabulary.piece, plain)) == text.encode()


def test_a_grammar_is_obeyed() -> None:
    done = run("prompt-lookup", SamplingConfig(grammar='root ::= ("ab" | "ba")+ "."'))
    assert done.error is None
    assert set(done.text) <= set(b"ab.")


@pytest.mark.parametrize(
    ("options", "kept"),
    [({"error_at_pass": 4}, 3), ({"oom_at_pass": 4}, 3), ({"error_at_sample": 3}, 2)],
)
def test_a_fault_ends_the_request_and_keeps_what_was_emitted(
    options: dict[str, Any], kept: int
) -> None:
    done = run("off", **options)
    assert done.finish is Finish.FAILED
    assert isinstance(done.error, ScriptedError | MemoryError)
    assert len(done.ids) == kept


def test_a_draft_that_was_rolled_back_proposes_the_same_again() -> None:
    draft = ModelDraft(byte_model(0).without_noise(), 4)
    draft.begin([BEGIN, 97])
    mark = draft.checkpoint()
    first = list(draft.propose(4))
    draft.commit(first[:2], 2)
    assert list(draft.propose(2)) == first[2:]
    draft.restore(mark)
    assert list(draft.propose(4)) == first


def test_faults_go_on_counting_over_requests() -> None:
    faults = Faults.from_options({"error_at_pass": 2})
    faults.trip(Step.PASS)
    faults.trip(Step.SAMPLE)
    with pytest.raises(ScriptedError, match="pass 2"):
        faults.trip(Step.PASS)
    faults.trip(Step.PASS)


@pytest.mark.parametrize("options", [{"crash_at": 1}, {"crash_at_dinner": 1}, {"sed": 1}])
def test_an_option_that_does_not_exist_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown option"):
        run("off", **options)


def test_a_fault_at_load_fails_the_load() -> None:
    with pytest.raises(ScriptedError, match="load 1"):
        run("off", error_at_load=1)


@pytest.mark.parametrize(("action", "signal"), [("crash", -6), ("kill", -9)])
def test_a_process_can_be_made_to_die(action: str, signal: int) -> None:
    program = f"""
from power.backends.scripted.faults import Faults, Step
Faults.from_options({{"{action}_at_pass": 1}}).trip(Step.PASS)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == signal


def test_a_draft_refuses_to_have_accepted_what_it_did_not_propose() -> None:
    draft = ModelDraft(byte_model(0), 4)
    draft.begin([BEGIN, 97])
    proposed: Sequence[int] = draft.propose(3)
    with pytest.raises(RuntimeError, match="not proposed"):
        draft.commit([(proposed[0] + 1) % 256, 5], 1)


def test_an_unknown_proposer_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown proposer"):
        run("draft-model", proposer="psychic")
