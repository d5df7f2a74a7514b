"""A quality matrix for people: for a terminal, as Markdown, and as one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from power.diagnostics import escape
from power.evidence.quality_report import Change, Matrix, Pair, Share, Standing, TaskPart
from power.evidence.report import ArmPart
from power.manifest.templates import render, render_html

_SHOWN = 60  # characters of an answer in a cell


def matrix_text(matrix: Matrix) -> str:
    """For a terminal."""
    return "\n".join(_lines(matrix))


def matrix_markdown(matrix: Matrix, sha256: str | None = None) -> str:
    """For a pull request or a repository; sha256: that of its file."""
    return render("quality.md.j2", _values(matrix, sha256))


def matrix_html(matrix: Matrix, sha256: str) -> str:
    """As one HTML page that needs nothing else."""
    return render_html("quality.html.j2", _values(matrix, sha256))


def verdict(pair: Pair) -> str:
    """The one sentence that a pair comes to."""
    if not pair.eligible:
        missed = ", ".join(gate.name for gate in pair.missed)
        return f"not eligible as production default: missed {missed}"
    cut = pair.outputs.of - pair.untruncated_outputs.of
    much = f"; {cut} of {pair.outputs.of} outputs only up to where a limit cut them" if cut else ""
    return f"eligible as production default{much}"


def parity(pair: Pair) -> Iterator[tuple[str, str]]:
    """What is equal in both modes and what changed, each with its name."""
    yield "complete outputs", _share(pair.outputs)
    yield "answers", _share(pair.answers)
    yield "untruncated outputs", _share(pair.untruncated_outputs)
    yield "answers of untruncated", _share(pair.untruncated_answers)
    yield "lenient score", _change(pair.lenient)
    yield "strict score", _change(pair.strict)


def _lines(matrix: Matrix) -> Iterator[str]:
    for score in matrix.scores:
        strategy = matrix.mode(score.mode).strategy
        accepted = f", {score.accepted} of {score.drafted} accepted" if score.drafted else ""
        yield (
            f"{score.mode:<16} {strategy:<16} right of {score.of}: {score.lenient} lenient, "
            f"{score.strict} strict; {score.stable} stable, {score.truncated} cut{accepted}"
        )
    for pair in matrix.pairs:
        yield f"{pair.candidate} against {pair.base}"
        for name, text in parity(pair):
            yield f"  {name:<23} {escape(text)}"
        for gate in pair.gates:
            mark = "met   " if gate.met else "MISSED"
            yield f"  {mark} {gate.name:<16} {gate.required}; found {escape(gate.found)}"
        yield f"  {verdict(pair)}"
    yield from _notes(matrix)


def _share(share: Share) -> str:
    return f"{share.equal} of {share.of} equal" if share.of else "none to compare"


def _change(change: Change) -> str:
    def named(tasks: list[str], what: str) -> str:
        return f"{len(tasks)} {what}" + (f" ({', '.join(tasks)})" if tasks else "")

    return f"{named(change.gains, 'gained')}, {named(change.losses, 'lost')}; p = {change.p}"


def _notes(matrix: Matrix) -> Iterator[str]:
    """What the figures do not show."""
    base = matrix.scores[0]
    if not base.lenient:
        yield "The base got nothing right, so no score can be lost: only parity speaks."


def _passes(mode: ArmPart) -> str:
    """How many rows the passes of a mode have: the base's decide what parity with it shows."""
    rows = mode.settings.get("graph.rows")
    return mode.settings.get("graph.shape", "natural") + (f", {rows} rows" if rows else "")


def _standings(task: TaskPart) -> list[str]:
    """How each mode stands on a task; a mode that stands as the base does says so in short."""
    base, *others = (_standing(standing) for standing in task.modes)
    return [base, *("the same" if other == base else other for other in others)]


def _standing(standing: Standing) -> str:
    score = "strict" if standing.strict else "lenient" if standing.lenient else "wrong"
    answer = standing.answer or ("nothing" if standing.stable else "not the same each time")
    answer = answer if len(answer) <= _SHOWN else answer[: _SHOWN - 1] + "…"
    return f"{score}: {answer}{' (cut)' if standing.truncated else ''}"


def _outputs(matrix: Matrix) -> Callable[[str], str]:
    """What the column of outputs says of a task: whether every mode's are those of the base."""
    forks: dict[str, list[str]] = {}
    for pair in matrix.pairs:
        which = f"{pair.candidate}: " if len(matrix.pairs) > 1 else ""
        for fork in pair.forks:
            forks.setdefault(fork.task, []).append(f"{which}fork at token {fork.token}")
    return lambda task: "; ".join(forks[task]) if task in forks else "equal"


def _values(matrix: Matrix, sha256: str | None) -> dict[str, Any]:
    return {
        "r": matrix,
        "sha256": sha256,
        "verdict": verdict,
        "parity": parity,
        "passes": _passes,
        "standings": _standings,
        "outputs": _outputs(matrix),
        "notes": list(_notes(matrix)),
        "shown": escape,
    }
