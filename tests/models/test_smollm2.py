"""The engine on SmolLM2-135M: the smallest real model that is public."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from power.backends.interface import Engine, EngineConfig, SamplingConfig
from power.backends.llamacpp import BACKEND
from power.speculation.controller import make_controller
from power.speculation.outcome import Finish, Outcome, Settings
from power.speculation.scheduler import generate

pytestmark = pytest.mark.model

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
ARTIFACTS = Path(os.environ.get("POWER_ARTIFACTS", Path(__file__).parents[2] / "artifacts"))
QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
COPY = (
    "<|im_start|>user\nSay this twice: red green blue red green blue.<|im_end|>\n"
    "<|im_start|>assistant\n"
)


@pytest.fixture(scope="module")
def smollm2() -> Path:
    path = ARTIFACTS / NAME
    if not path.is_file():
        pytest.skip(f"NOT RUN: {path} is missing; `python tools/fetch_models.py smollm2-135m`")
    return path


@pytest.fixture(scope="module")
def engine(smollm2: Path) -> Iterator[Engine]:
    """With itself as draft, so that one engine shows drafts, verification and control."""
    fd = os.open(smollm2, os.O_RDONLY)
    config = EngineConfig(
        target=(fd,), draft=(fd,), strategy="draft-model", draft_max=4, context=512, threads=1
    )
    engine = BACKEND.open(config, lambda _: None)
    os.close(fd)
    yield engine
    engine.close()


def ask(engine: Engine, text: str, *, control: bool, sampling: SamplingConfig) -> Outcome:
    settings = Settings(draft_max=4, draft_min=0, window=4, snapshots=4, context=512)
    session = engine.session(sampling, control=control)
    outcome = generate(
        prompt=engine.tokenize(text, special=True),
        target=session.target,
        proposer=session.proposer,
        sampler=session.sampler,
        vocabulary=engine.vocabulary,
        controller=make_controller(settings, session.proposer),
        settings=settings,
        max_tokens=24,
        stop=(),
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=time.perf_counter_ns,
    )
    assert outcome.error is None
    return outcome


def test_it_knows_paris(engine: Engine) -> None:
    outcome = ask(engine, QUESTION, control=True, sampling=SamplingConfig())
    assert outcome.text == b"The capital of France is Paris."
    assert outcome.finish is Finish.END


def test_tokens_of_a_chat_prompt(engine: Engine) -> None:
    """Control tokens are single tokens, and this vocabulary asks for no BOS."""
    ids = engine.tokenize("<|im_start|>user\nhi<|im_end|>\n", special=True)
    assert ids == [1, 4093, 198, 6004, 2, 198]
    assert engine.vocabulary.is_end(2)
    assert engine.vocabulary.piece(2) == b""


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingConfig(),
        SamplingConfig(temperature=0.9, top_k=40, top_p=0.95, min_p=0.05, seed=7),
        SamplingConfig(repeat_penalty=1.2, repeat_last_n=64),
        SamplingConfig(grammar='root ::= [A-Z] [a-z ]+ "."'),
    ],
    ids=["greedy", "drawn", "penalty", "grammar"],
)
def test_a_draft_changes_nothing(engine: Engine, sampling: SamplingConfig) -> None:
    for text in (QUESTION, COPY):
        expected = ask(engine, text, control=True, sampling=sampling)
        actual = ask(engine, text, control=False, sampling=sampling)
        assert actual.ids == expected.ids
        assert actual.text == expected.text
        assert actual.counters.drafted > 0
        assert actual.counters.rounds < expected.counters.rounds
