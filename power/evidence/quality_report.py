"""The report of a quality matrix, `power.quality-report.v1`: what modes answer, and how equal.

A mode is an arm of a bench over tasks. The unit is the task: it is right in a mode, or equal in
two, when it is so in every repetition. Repetitions of one task are no further evidence, so no
count grows by repeating. Every figure follows from receipts and tasks.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from power.diagnostics import Diagnostic
from power.evidence.compare import Difference
from power.evidence.parts import Count, Decimal, FileName, FileRef, Hex, Name, Part, Text, Time
from power.evidence.preflight import Gate
from power.evidence.report import ArmPart
from power.evidence.samples import Round
from power.receipt.predicate import EnginePart, HostPart

SCHEMA = "power.quality-report.v1"

_NEXT = {
    "identity": "give plans of the same model, settings and engine",
    "base": "give a plan whose strategy is `off` first, or `--control`",
    "speculated": "nothing was proposed, so nothing is shown: give tasks on which it proposes",
    "untruncated": "no text was seen to its end: give a higher `--max-tokens`, as far as the plans "
    "allow, or tasks with shorter answers",
    "complete_outputs": "keep the candidate opt-in; docs/explanation/exactness.md says why "
    "outputs fork",
    "lenient_losses": "look at these tasks in the report, and keep the candidate opt-in",
    "strict_losses": "look at these tasks in the report, and keep the candidate opt-in",
}


class TasksPart(Part):
    """The tasks, and how they were asked: in a chat, or as text; with a limit of tokens or none."""

    file: FileName
    sha256: Hex
    form: Name
    count: Count
    chat: bool
    max_tokens: Count | None = None


class Run(Part):
    """One run: what its signed receipt says, what was found in its output, how it was judged.

    answer: absent where none was found; long ones are cut.
    """

    round: Round
    mode: Name
    task: str
    receipt: FileName
    receipt_id: Hex
    output_ids_sha256: Hex
    finish: Literal["end", "stop", "length", "context"]
    prompt_tokens: Count
    tokens: Count
    rounds: Count
    drafted: Count
    accepted: Count
    replays: Count
    answer: Text | None = None
    lenient: bool
    strict: bool


class Standing(Part):
    """How a mode stands on a task, over all repetitions.

    answer: what every output holds; absent where one holds none, or another one.
    """

    mode: Name
    lenient: bool
    strict: bool
    stable: bool
    truncated: bool
    answer: Text | None = None


class TaskPart(Part):
    """One task in every mode."""

    task: str
    scorer: Literal["choice", "number", "text"]
    expected: Text
    modes: list[Standing]


class ModeScore(Part):
    """What one mode came to, in tasks out of `of`.

    stable: every repetition gave the same tokens. truncated: some output was cut by a
    limit. unanswered: no answer was found in some output. tokens to replays: sums over runs.
    """

    mode: Name
    of: Count
    lenient: Count
    strict: Count
    stable: Count
    truncated: Count
    unanswered: Count
    tokens: Count
    rounds: Count
    drafted: Count
    accepted: Count
    replays: Count


class Share(Part):
    """So many tasks of so many are equal in both modes."""

    equal: Count
    of: Count


class Change(Part):
    """Tasks that only the candidate got right, and only the base.

    p: of the exact two-sided McNemar test, to twelve places.
    """

    gains: list[str]
    losses: list[str]
    p: Decimal


class TaskFork(Part):
    """The first token, from 0, at which an output of the candidate is not the base's."""

    task: str
    token: Count


class Pair(Part):
    """A mode against the base, which is the first mode.

    outputs, answers: over all tasks; no answer found in either counts as equal.
    untruncated_*: over the tasks that no limit cut in either mode.
    """

    base: Name
    candidate: Name
    identity: list[Difference]
    strategy: list[Difference]
    outputs: Share
    answers: Share
    untruncated_outputs: Share
    untruncated_answers: Share
    lenient: Change
    strict: Change
    forks: list[TaskFork]
    gates: list[Gate]
    eligible: bool

    @property
    def missed(self) -> list[Gate]:
        """The gates that were not met."""
        return [gate for gate in self.gates if not gate.met]

    def findings(self) -> list[Diagnostic]:
        """One P883 for each gate that was missed."""
        return [
            gate.finding(
                "P883",
                f"`{self.candidate}` is not fit as the default: it missed `{gate.name}`",
                _NEXT[gate.name],
            )
            for gate in self.missed
        ]


class Matrix(Part):
    """The whole report. Runs are in the order in which they were kept."""

    schema_: Literal["power.quality-report.v1"] = Field("power.quality-report.v1", alias="schema")
    modes: Annotated[list[ArmPart], Field(min_length=2)]
    tasks: TasksPart
    prompts: FileRef
    journal: FileRef
    repetitions: Count
    engine: EnginePart
    host: HostPart
    started: Time
    finished: Time
    scores: list[ModeScore]
    pairs: list[Pair]
    by_task: list[TaskPart]
    runs: Annotated[list[Run], Field(min_length=1)]

    @model_validator(mode="after")
    def _every_part_is_of_the_modes(self) -> Self:
        names = [mode.name for mode in self.modes]
        parts = [[score.mode for score in self.scores]]
        parts += [[standing.mode for standing in task.modes] for task in self.by_task]
        parts.append(names[:1] + [pair.candidate for pair in self.pairs])
        if any(part != names for part in parts):
            message = "scores, pairs and tasks are not those of the modes"
            raise ValueError(message)
        return self

    def mode(self, name: str) -> ArmPart:
        """The mode of that name; LookupError without one."""
        return next(mode for mode in self.modes if mode.name == name)
