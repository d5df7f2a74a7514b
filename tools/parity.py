"""Show that speculative runs emit the tokens of plain decoding, on real models.

    python -m tools.parity smollm2 [--first N] [--prompts N] [--tokens 128]
    python -m tools.parity qwen [--first N] [--prompts N] [--tokens 128]

smollm2  SmolLM2-135M at its natural shape, flash attention on: prompt lookup and a Q4_0
         requantisation of the model itself as draft must emit the ids of plain one-row
         decoding (level `serial`) on every prompt.
qwen     Qwen2.5-Coder-1.5B at a fixed shape of 8 rows: prompt lookup and the 0.5B draft must
         emit the ids of the control run at that shape (level `shape`) on every prompt. Plain
         one-row decoding is compared too and promised nothing: where it forks, the table
         has the first token that differs and the margin between the two highest logits there.

Exits 1 when a promised equality does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from power.backends.interface import Engine, SamplingConfig
from power.runner.host import usable_cores
from power.runner.observed import MarginSampler
from power.speculation.outcome import Outcome
from tools.harness import ARTIFACTS, Prompt, opened, prompts, run
from tools.requantise import requantise


@dataclass(frozen=True, slots=True)
class Case:
    """One target with its draft, and the level that is promised."""

    target: str
    draft: str | None  # None: the target's own requantisation
    rows: int | None
    draft_max: int
    level: str


CASES = {
    "smollm2": Case("SmolLM2-135M-Instruct.Q4_1.gguf", None, None, 7, "serial"),
    "qwen": Case(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        8,
        7,
        "shape",
    ),
}
STRATEGIES = ("prompt-lookup", "draft-model")


@dataclass(slots=True)
class Line:
    """The ids of one prompt by arm, the draft counts, and the margins of the serial run."""

    prompt: Prompt
    ids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    margins: list[str] = field(default_factory=list)

    def add(self, arm: str, outcome: Outcome) -> None:
        self.ids[arm] = outcome.ids
        self.counts[arm] = (outcome.counters.drafted, outcome.counters.accepted)


def measure(case: Case, lines: Sequence[Line], tokens: int, threads: int) -> None:
    """Run every arm over every prompt, one engine at a time."""
    target = ARTIFACTS / case.target
    both: dict[str, Any] = {"prefill_batch": 256, "threads": threads}
    own = {"draft_max": case.draft_max} | both
    if case.level == "shape":
        with opened(target, strategy="off", **both) as engine:
            _serial(engine, lines, tokens)
    for strategy in STRATEGIES:
        draft = None
        if strategy == "draft-model":
            draft = ARTIFACTS / case.draft if case.draft else requantise(target)
        with opened(target, draft, strategy=strategy, rows=case.rows, **own) as engine:
            if strategy == STRATEGIES[0]:
                if case.level == "serial":
                    _serial(engine, lines, tokens)
                else:
                    _arm(engine, "control", lines, tokens, control=True)
            _arm(engine, strategy, lines, tokens, draft_max=case.draft_max)


def _serial(engine: Engine, lines: Sequence[Line], tokens: int) -> None:
    start = time.perf_counter()
    for line in lines:
        session = engine.session(SamplingConfig(), control=True)
        sampler = MarginSampler(session.sampler, session.target)
        ids = line.prompt.ids(engine)
        line.add("serial", run(engine, ids, max_tokens=tokens, session=session, sampler=sampler))
        line.margins = sampler.margins
    _say("serial", start)


def _arm(engine: Engine, arm: str, lines: Sequence[Line], tokens: int, **how: Any) -> None:
    start = time.perf_counter()
    for line in lines:
        line.add(arm, run(engine, line.prompt.ids(engine), max_tokens=tokens, **how))
    _say(arm, start)


def _say(arm: str, start: float) -> None:
    print(f"{arm}: {time.perf_counter() - start:.0f} s", file=sys.stderr)


def fork(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first token that differs, or None."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))


def report(case: Case, lines: Sequence[Line]) -> bool:
    """Print the table; whether the promise holds on every prompt."""
    reference = "serial" if case.level == "serial" else "control"
    print(f"target {case.target}, K {case.draft_max}, rows {case.rows or 'natural'}")
    print(f"promised: ids equal to the {reference} run (level `{case.level}`)\n")
    print(f"| prompt | tokens | {' | '.join(STRATEGIES)} | against serial |")
    print("| --- | ---: | --- | --- | --- |")
    kept = dict.fromkeys(STRATEGIES, 0)
    serial = 0
    for line in lines:
        cells = []
        for strategy in STRATEGIES:
            at = fork(line.ids[reference], line.ids[strategy])
            kept[strategy] += at is None
            drafted, accepted = line.counts[strategy]
            verdict = "equal" if at is None else f"FORKS at {at}"
            cells.append(f"{verdict}, {accepted} of {drafted}")
        at = fork(line.ids["serial"], line.ids[reference])
        serial += at is None
        cells.append("equal" if at is None else f"forks at {at}, margin {_margin(line, at)}")
        print(f"| {line.prompt.name} | {len(line.ids[reference])} | {' | '.join(cells)} |")
    total = len(lines)
    print()
    for strategy in STRATEGIES:
        print(f"{strategy}: {kept[strategy]} of {total} equal the {reference} run")
    if reference != "serial":
        print(f"serial: {serial} of {total} control runs equal plain one-row decoding")
    return all(count == total for count in kept.values())


def _margin(line: Line, at: int) -> str:
    return line.margins[at] if at < len(line.margins) else "none: one run ended"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--first", type=int, default=0, help="prompts of the set to leave out")
    parser.add_argument("--prompts", type=int, help="prompts to run from there on (all)")
    parser.add_argument("--tokens", type=int, default=128, help="most tokens a prompt (128)")
    parser.add_argument(
        "--threads", type=int, default=usable_cores(), help="of the engine (usable cores)"
    )
    options = parser.parse_args()
    case = CASES[options.case]
    for name in filter(None, (case.target, case.draft)):
        if not (ARTIFACTS / name).is_file():
            sys.exit(f"{Path(ARTIFACTS) / name} is not there; fetch it with tools/fetch_models.py")
    end = None if options.prompts is None else options.first + options.prompts
    lines = [Line(prompt) for prompt in prompts()[options.first : end]]
    measure(case, lines, options.tokens, options.threads)
    sys.exit(0 if report(case, lines) else 1)


if __name__ == "__main__":
    main()
