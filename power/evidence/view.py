"""A report as pages show it: rows of tables and charts, nothing that is computed only here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from power.diagnostics import counted, escape
from power.evidence.charts import Bar, Group, Mark, Timeline, bars, timelines
from power.evidence.compare import Asked, Comparison, compare, pick
from power.evidence.render import ratio_text
from power.evidence.report import ArmFigures, Report
from power.evidence.samples import Sample
from power.manifest.templates import render, render_html

_MOST_TIMELINES = 24
_MARKS = (
    ("guard_round", "G", "the guard clamped the width"),
    ("widened_round", "W", "the wide shape opened"),
    ("circuit_round", "C", "the circuit opened: target only"),
)


@dataclass(frozen=True, slots=True)
class Position:
    """How often a position of a proposal was drafted and accepted."""

    arm: str
    position: int
    drafted: int
    accepted: int


def report_markdown(report: Report, sha256: str) -> str:
    """The report as Markdown, for a pull request or a repository."""
    return render("report.md.j2", _values(report, sha256))


def report_html(report: Report, sha256: str) -> str:
    """The report as one HTML page that needs nothing else."""
    charts = [
        ("Speed by prompt", _speed(report)),
        ("Acceptance by position", _acceptance(report)),
        ("Width by round", _widths(report)),
    ]
    drawn = [(title, Markup(chart)) for title, chart in charts if chart]  # noqa: S704 - ours, escaped
    return render_html("report.html.j2", _values(report, sha256) | {"charts": drawn})


def _values(report: Report, sha256: str) -> dict[str, Any]:
    return {
        "r": report,
        "sha256": sha256,
        "comparisons": _comparisons(report, sha256),
        "ratio_text": ratio_text,
        "positions": _positions(report),
        "phases": _phases(report),
        "busy": [gate for p in report.preflight if p.overridden for gate in p.missed],
        "shown": escape,
        "counted": counted,
    }


def _comparisons(report: Report, sha256: str) -> list[Comparison]:
    """Every further arm against the first one; no gate but that the work is the same."""
    base = report.arms[0].name
    return [
        compare(
            pick(report, sha256, base, first=True),
            pick(report, sha256, arm.name, first=True),
            Asked(min_speedup=None),
        )
        for arm in report.arms[1:]
    ]


def _positions(report: Report) -> list[Position]:
    return [
        Position(figures.arm, number, drafted, accepted)
        for figures in report.figures
        for number, (drafted, accepted) in enumerate(
            zip(figures.drafted_by_position, _padded(figures), strict=True), 1
        )
    ]


def _padded(figures: ArmFigures) -> list[int]:
    """Accepted counts, as long as the drafted ones."""
    short = len(figures.drafted_by_position) - len(figures.accepted_by_position)
    return figures.accepted_by_position + [0] * short


def _phases(report: Report) -> list[tuple[str, list[int]]]:
    """Each phase with its microseconds by arm; together they are the whole time."""
    names = sorted({phase for figures in report.figures for phase in figures.phases_us})
    return [
        (name, [figures.phases_us.get(name, 0) for figures in report.figures]) for name in names
    ]


def _speed(report: Report) -> str:
    arms = [arm.name for arm in report.arms]
    most = max((float(p.decode_tok_s) for p in report.by_prompt if p.decode_tok_s), default=0.0)
    if not most:
        return ""
    groups: dict[str, list[Bar]] = {}
    for p in report.by_prompt:
        if p.decode_tok_s is not None:
            bar = Bar(arms.index(p.arm), float(p.decode_tok_s) / most, f"{p.decode_tok_s} tok/s")
            groups.setdefault(p.prompt, []).append(bar)
    return bars(
        "Speed by prompt", [Group(escape(name), found) for name, found in groups.items()], arms
    )


def _acceptance(report: Report) -> str:
    arms = [arm.name for arm in report.arms]
    groups: dict[int, list[Bar]] = {}
    for p in _positions(report):
        text = f"{p.accepted} of {p.drafted}"
        bar = Bar(arms.index(p.arm), p.accepted / p.drafted if p.drafted else 0.0, text)
        groups.setdefault(p.position, []).append(bar)
    if not groups:
        return ""
    named = [Group(f"position {number}", found) for number, found in sorted(groups.items())]
    return bars("Acceptance by position", named, arms)


def _widths(report: Report) -> str:
    """The first sample of each prompt, in each arm that speculates."""
    seen: set[tuple[str, str]] = set()
    lines, widest = list[Timeline](), 1
    for sample in report.samples:
        key = (sample.arm, sample.prompt)
        runs = sample.width_by_round if sample.drafted else []
        if key in seen or not runs or len(lines) == _MOST_TIMELINES:
            continue
        seen.add(key)
        lines.append(_timeline(sample))
        widest = max(widest, *(run.width for run in runs))
    return timelines("Width by round", lines, widest) if lines else ""


def _timeline(sample: Sample) -> Timeline:
    marks: Sequence[tuple[int | None, str, str]] = [
        (getattr(sample, name), letter, text) for name, letter, text in _MARKS
    ]
    return Timeline(
        name=f"{escape(sample.prompt)} ({sample.arm})",
        runs=[(run.width, run.rounds) for run in sample.width_by_round],
        marks=[Mark(number, letter, text) for number, letter, text in marks if number is not None],
        note=counted(sample.replays, "replay"),
    )
