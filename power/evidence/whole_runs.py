"""Whole requests under every proposer, each against the control run of its prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from power.receipt.certificate import (
    PROPOSERS,
    ArmPart,
    Fork,
    Proposer,
    RunsPart,
    SerialPart,
)
from power.receipt.digests import decimal, document_sha256, stop_sha256, token_ids_sha256
from power.runner.messages import Advice, Tried
from power.runner.runner import Runner
from power.runner.types import Request
from power.speculation.outcome import Finish

PROMPTS_DOMAIN = b"power-certified-prompts-v1\0"
SEED = 1
"""Of the proposers that draw at random."""

Step = Callable[[], None]


@dataclass
class _Arm:
    """What came of the runs under one proposer."""

    equal: int = 0
    drafted: int = 0
    accepted: int = 0
    replayed: int = 0
    replayed_equal: int = 0

    def add(self, tried: Tried, *, equal: bool) -> None:
        counters = tried.done.counters
        self.equal += equal
        self.drafted += counters.drafted
        self.accepted += counters.accepted
        self.replayed += counters.replays > 0
        self.replayed_equal += counters.replays > 0 and equal


@dataclass
class WholeRuns:
    """Runs every prompt under every arm on one open runner.

    serial: whether control runs are compared with one-row decoding too, which
    makes sense where the plan's passes have more rows. step: called after each run.
    """

    runner: Runner
    requests: Sequence[Request]
    serial: bool
    step: Step
    texts: list[tuple[int, ...]] = field(default_factory=list)  # prompt and output, each prompt
    _arms: dict[Proposer, _Arm] = field(default_factory=dict)
    _forks: list[Fork] = field(default_factory=list)
    _serial_forks: list[Fork] = field(default_factory=list)
    _asked: list[dict[str, object]] = field(default_factory=list)
    _tokens: int = 0

    @property
    def proposers(self) -> tuple[Proposer, ...]:
        """Who proposes; nobody where the plan does not speculate."""
        return () if self.runner.plan.speculation.strategy == "off" else PROPOSERS

    @property
    def steps(self) -> int:
        """Runs in all."""
        return len(self.requests) * (1 + self.serial + len(self.proposers))

    def run(self) -> None:
        """Run all; KeyboardInterrupt when the runner was cancelled, else as `Runner.trial`."""
        self._arms = {proposer: _Arm() for proposer in self.proposers}
        for number, request in enumerate(self.requests, 1):
            control = self._try(request, Advice("none"))
            self._note(request, control)
            if self.serial:
                plain = self._try(request, Advice("none"), rows=1)
                self._serial_forks += _forks("none", number, plain, control)
            for proposer, arm in self._arms.items():
                tried = self._try(request, Advice(proposer, control.done.ids, SEED))
                forks = _forks(proposer, number, control, tried)
                self._forks += forks
                arm.add(tried, equal=not forks)

    def _try(self, request: Request, advice: Advice, rows: int | None = None) -> Tried:
        reference = advice.kind == "none"
        told = advice if advice.kind != "own" else Advice()
        tried = self.runner.trial(request, told, rows=rows, margins=reference)
        if tried.done.finish is Finish.CANCELLED:
            raise KeyboardInterrupt
        self.step()
        return tried

    def _note(self, request: Request, control: Tried) -> None:
        done = control.done
        self.texts.append((*done.prompt_ids, *done.ids))
        self._tokens += len(done.ids)
        self._asked.append(
            {
                "token_ids_sha256": token_ids_sha256(done.prompt_ids),
                "max_tokens": request.max_tokens or self.runner.plan.sampling.max_tokens,
                "seed": self._seed(request),
                "stop_sha256": stop_sha256(request.stop) or "",
            }
        )

    def _seed(self, request: Request) -> int:
        return self.runner.plan.sampling.seed if request.seed is None else request.seed

    def runs_part(self) -> RunsPart:
        """Every arm against the control runs."""
        count, most = len(self.requests), self.runner.plan.sampling.max_tokens
        return RunsPart(
            prompts=count,
            prompts_sha256=document_sha256(PROMPTS_DOMAIN, self._asked),
            max_tokens=max(request.max_tokens or most for request in self.requests),
            tokens=self._tokens,
            arms=[
                ArmPart(
                    proposer=proposer,
                    runs=count,
                    equal=arm.equal,
                    drafted=arm.drafted,
                    accepted=arm.accepted,
                    replayed=arm.replayed,
                    replayed_equal=arm.replayed_equal,
                )
                for proposer, arm in self._arms.items()
            ],
            forks=self._forks,
        )

    def serial_part(self) -> SerialPart | None:
        """The control runs against one-row decoding; None where that was not run."""
        if not self.serial:
            return None
        count, forks = len(self.requests), self._serial_forks
        return SerialPart(runs=count, equal=count - len(forks), forks=forks)


def _forks(
    proposer: Proposer | Literal["none"], prompt: int, reference: Tried, tried: Tried
) -> list[Fork]:
    """Where `tried` leaves `reference`: one fork, or none."""
    expected, found = reference.done.ids, tried.done.ids
    if expected == found:
        return []
    pairs = zip(expected, found, strict=False)
    shorter = min(len(expected), len(found))
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
    margin = reference.margins[at] if at < shorter else "inf"
    # A row that holds an infinity has no margin that could be written.
    value = decimal(float(margin)) if margin not in {"inf", "nan"} else None
    return [Fork(proposer=proposer, prompt=prompt, token=at, margin=value)]
