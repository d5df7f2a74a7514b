"""What the engine tools share: engines on model files, whole requests, prompts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from power.backends.interface import Engine, EngineConfig, SamplingConfig, Session
from power.backends.registry import backend
from power.manifest.shipped import prompts_path
from power.speculation.controller import make_controller
from power.speculation.outcome import Outcome, Settings
from power.speculation.protocols import Proposer, Sampler
from power.speculation.scheduler import generate

ROOT = Path(__file__).parent.parent
ARTIFACTS = Path(os.environ.get("POWER_ARTIFACTS", ROOT / "artifacts"))
FIRST = 24
"""Prompts of the shipped set that the tools run."""
CONTEXT = 1024


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the set. chat: to be put into the ChatML form both model families use."""

    name: str
    chat: bool
    text: str

    def ids(self, engine: Engine) -> list[int]:
        """Its token ids."""
        if not self.chat:
            return engine.tokenize(self.text, special=False)
        turn = f"<|im_start|>user\n{self.text}<|im_end|>\n<|im_start|>assistant\n"
        return engine.tokenize(turn, special=True)


def prompts() -> list[Prompt]:
    """The first prompts of the shipped set."""
    lines = prompts_path().read_text("utf-8").splitlines()[:FIRST]
    return [_prompt(json.loads(line)) for line in lines]


def _prompt(line: dict[str, Any]) -> Prompt:
    if "prompt" in line:
        return Prompt(line["id"], chat=False, text=line["prompt"])
    (message,) = line["messages"]
    return Prompt(line["id"], chat=True, text=message["content"])


@contextmanager
def opened(target: Path, draft: Path | None = None, **config: Any) -> Iterator[Engine]:
    """An engine on model files, closed at the end. `config`: fields of EngineConfig."""
    with ExitStack() as stack:
        fds = []
        for path in (target, draft):
            if path is not None:
                fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                stack.callback(os.close, fds[-1])
        engine = backend().open(
            EngineConfig(
                target=tuple(fds[:1]), draft=tuple(fds[1:]), **({"context": CONTEXT} | config)
            ),
            lambda _: None,
        )
        stack.callback(engine.close)
        yield engine


def run(  # noqa: PLR0913 - what one request is made of
    engine: Engine,
    ids: list[int],
    *,
    draft_max: int = 0,
    max_tokens: int,
    control: bool = False,
    session: Session | None = None,
    sampler: Sampler | None = None,
) -> Outcome:
    """One greedy request. Raises what the engine raised."""
    settings = Settings(
        draft_max=draft_max, draft_min=0, window=draft_max, snapshots=draft_max, context=CONTEXT
    )
    session = session or engine.session(SamplingConfig(), control=control)
    outcome = request(
        engine,
        session,
        ids,
        settings,
        max_tokens=max_tokens,
        clock=time.perf_counter_ns,
        sampler=sampler,
    )
    if outcome.error is not None:
        raise outcome.error
    return outcome


def request(  # noqa: PLR0913 - what one request is made of
    engine: Engine,
    session: Session,
    ids: Sequence[int],
    settings: Settings,
    *,
    max_tokens: int,
    clock: Callable[[], int],
    proposer: Proposer | None = None,
    sampler: Sampler | None = None,
) -> Outcome:
    """One request through the scheduler; `proposer` and `sampler` in place of the session's own."""
    proposer = proposer or session.proposer
    return generate(
        prompt=ids,
        target=session.target,
        proposer=proposer,
        sampler=sampler or session.sampler,
        vocabulary=engine.vocabulary,
        controller=make_controller(settings, proposer),
        settings=settings,
        max_tokens=max_tokens,
        stop=(),
        emit=lambda _ids, _text: None,
        cancelled=lambda: False,
        clock=clock,
    )
