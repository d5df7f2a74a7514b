"""From finished runs of tasks to the quality matrix: judged, grouped, paired, and gated. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from power.evidence.compare import differences, shortened
from power.evidence.parts import FileRef
from power.evidence.preflight import Gate
from power.evidence.quality_report import (
    Change,
    Matrix,
    ModeScore,
    Pair,
    Run,
    Share,
    Standing,
    TaskFork,
    TaskPart,
    TasksPart,
)
from power.evidence.report import ArmPart, Sources
from power.evidence.samples import Measured, fork
from power.evidence.statistics import decimal, mcnemar
from power.evidence.tasks.asking import Questions
from power.evidence.tasks.scoring import Score, score
from power.evidence.tasks.task import Task

_SHOWN = 200  # characters of an answer
_PLACES = 12
_CUT = frozenset({"length", "context"})


@dataclass(frozen=True, slots=True)
class Judged:
    """A run, and how its output was judged."""

    measured: Measured
    score: Score

    @property
    def truncated(self) -> bool:
        """Whether a limit ended it."""
        return self.measured.sample.finish in _CUT


Runs = Mapping[str, Sequence[Judged]]
"""The runs of one mode: by task, one a repetition."""


def build_matrix(sources: Sources, asked: Questions, tasks_file: FileRef) -> Matrix:
    """The matrix of finished runs: every mode on every task that was asked, in each repetition."""
    tasks = {task.id: task for task in asked.tasks.tasks}
    judged = [_judged(one, tasks[one.sample.prompt], chat=asked.chat) for one in sources.measured]
    modes = sources.arms
    base = modes[0]
    found: dict[str, dict[str, list[Judged]]] = {
        mode.name: {name: [] for name in tasks} for mode in modes
    }
    for one in sorted(judged, key=lambda one: one.measured.sample.round):
        found[one.measured.sample.arm][one.measured.sample.prompt].append(one)
    return Matrix(
        modes=modes,
        tasks=TasksPart(
            file=tasks_file.file,
            sha256=tasks_file.sha256,
            form=asked.tasks.form,
            count=len(tasks),
            chat=asked.chat,
            max_tokens=asked.max_tokens,
        ),
        prompts=sources.prompts_file,
        journal=sources.journal_file,
        repetitions=sources.design.rounds,
        engine=sources.engine,
        host=sources.host,
        started=sources.started,
        finished=sources.finished,
        scores=[_mode_score(mode.name, found[mode.name]) for mode in modes],
        pairs=[pair(base, mode, found[base.name], found[mode.name]) for mode in modes[1:]],
        by_task=[
            TaskPart(
                task=task.id,
                scorer=task.scorer,
                expected=task.answer,
                modes=[_standing(mode.name, found[mode.name][task.id]) for mode in modes],
            )
            for task in tasks.values()
        ],
        runs=[_run(one) for one in judged],
    )


def pair(base: ArmPart, candidate: ArmPart, ours: Runs, theirs: Runs) -> Pair:
    """`candidate` with its runs `theirs` held against `base` with `ours`, task by task."""
    whole = [task for task in ours if not any(r.truncated for r in (*ours[task], *theirs[task]))]
    outputs = {task: len(_outputs(ours[task]) | _outputs(theirs[task])) == 1 for task in ours}
    answers = {task: len(_answers(ours[task]) | _answers(theirs[task])) == 1 for task in ours}
    differing = list(differences(base.identity, candidate.identity))
    made = Pair(
        base=base.name,
        candidate=candidate.name,
        identity=differing,
        strategy=list(differences(base.settings, candidate.settings)),
        outputs=_share(outputs, ours),
        answers=_share(answers, ours),
        untruncated_outputs=_share(outputs, whole),
        untruncated_answers=_share(answers, whole),
        lenient=_change(
            {task for task in ours if _lenient(ours[task])},
            {task for task in ours if _lenient(theirs[task])},
            ours,
        ),
        strict=_change(
            {task for task in ours if _strict(ours[task])},
            {task for task in ours if _strict(theirs[task])},
            ours,
        ),
        forks=[
            TaskFork(task=task, token=_fork(ours[task], theirs[task]))
            for task, equal in outputs.items()
            if not equal
        ],
        gates=[],
        eligible=False,
    )
    drafted = sum(run.measured.sample.drafted for runs in theirs.values() for run in runs)
    gates = list(_gates(made, base, candidate, drafted))
    return made.model_copy(update={"gates": gates, "eligible": all(gate.met for gate in gates)})


def _gates(found: Pair, base: ArmPart, candidate: ArmPart, drafted: int) -> Iterator[Gate]:
    paths = ", ".join(difference.path for difference in found.identity)
    yield Gate(
        name="identity",
        required="equal but for the strategy",
        found=shortened(paths) if paths else "equal",
        met=not found.identity,
    )
    yield Gate(
        name="base",
        required="target-only",
        found="target-only" if base.strategy == "off" else base.strategy,
        met=base.strategy == "off",
    )
    if candidate.strategy != "off":
        yield Gate(
            name="speculated",
            required="at least 1 token proposed",
            found=f"{drafted} proposed",
            met=drafted > 0,
        )
    outputs, whole = found.outputs, found.untruncated_outputs
    yield Gate(
        name="untruncated",
        required="at least 1 task that no limit cut",
        found=f"{whole.of} of {outputs.of}",
        met=whole.of > 0,
    )
    yield Gate(
        name="complete_outputs",
        required=f"{outputs.of} of {outputs.of} equal",
        found=f"{outputs.equal} of {outputs.of} equal",
        met=outputs.equal == outputs.of,
    )
    for name, change in (("lenient_losses", found.lenient), ("strict_losses", found.strict)):
        lost = shortened(", ".join(change.losses))
        yield Gate(
            name=name,
            required="none",
            found=f"{len(change.losses)}: {lost}" if change.losses else "none",
            met=not change.losses,
        )


def _judged(one: Measured, task: Task, *, chat: bool) -> Judged:
    cut = one.sample.finish in _CUT
    return Judged(one, score(task, one.output, chat=chat, truncated=cut))


def _lenient(runs: Sequence[Judged]) -> bool:
    return all(run.score.lenient for run in runs)


def _strict(runs: Sequence[Judged]) -> bool:
    return all(run.score.strict for run in runs)


def _outputs(runs: Sequence[Judged]) -> set[str]:
    return {run.measured.sample.output_ids_sha256 for run in runs}


def _answers(runs: Sequence[Judged]) -> set[str | None]:
    return {run.score.answer for run in runs}


def _fork(ours: Sequence[Judged], theirs: Sequence[Judged]) -> int:
    """The first token at which any two outputs differ."""
    first = ours[0].measured.ids
    others = (run.measured for run in (*ours, *theirs))
    return min(fork(first, other.ids) for other in others if other.ids != first)


def _share(equal: Mapping[str, bool], tasks: Iterable[str]) -> Share:
    counted = [equal[task] for task in tasks]
    return Share(equal=sum(counted), of=len(counted))


def _change(base: set[str], candidate: set[str], order: Runs) -> Change:
    gains = [task for task in order if task in candidate - base]
    losses = [task for task in order if task in base - candidate]
    p = mcnemar(len(gains), len(losses))
    return Change(gains=gains, losses=losses, p=decimal(p, _PLACES))


def _mode_score(mode: str, runs: Runs) -> ModeScore:
    samples = [run.measured.sample for group in runs.values() for run in group]
    groups = runs.values()
    return ModeScore(
        mode=mode,
        of=len(runs),
        lenient=sum(map(_lenient, groups)),
        strict=sum(map(_strict, groups)),
        stable=sum(len(_outputs(group)) == 1 for group in groups),
        truncated=sum(any(run.truncated for run in group) for group in groups),
        unanswered=sum(None in _answers(group) for group in groups),
        tokens=sum(s.tokens for s in samples),
        rounds=sum(s.rounds for s in samples),
        drafted=sum(s.drafted for s in samples),
        accepted=sum(s.accepted for s in samples),
        replays=sum(s.replays for s in samples),
    )


def _standing(mode: str, runs: Sequence[Judged]) -> Standing:
    answers = _answers(runs)
    return Standing(
        mode=mode,
        lenient=_lenient(runs),
        strict=_strict(runs),
        stable=len(_outputs(runs)) == 1,
        truncated=any(run.truncated for run in runs),
        answer=_shown(next(iter(answers))) if len(answers) == 1 else None,
    )


def _shown(answer: str | None) -> str | None:
    return answer if answer is None or len(answer) <= _SHOWN else answer[: _SHOWN - 1] + "…"


def _run(one: Judged) -> Run:
    sample = one.measured.sample
    return Run(
        round=sample.round,
        mode=sample.arm,
        task=sample.prompt,
        receipt=sample.receipt,
        receipt_id=sample.receipt_id,
        output_ids_sha256=sample.output_ids_sha256,
        finish=sample.finish,
        prompt_tokens=sample.prompt_tokens,
        tokens=sample.tokens,
        rounds=sample.rounds,
        drafted=sample.drafted,
        accepted=sample.accepted,
        replays=sample.replays,
        answer=_shown(one.score.answer),
        lenient=one.score.lenient,
        strict=one.score.strict,
    )
