"""Comparisons and reports for people."""

from __future__ import annotations

from collections.abc import Iterator

from power.diagnostics import escape
from power.evidence.compare import Comparison, Ratio
from power.manifest.templates import render


def comparison_text(comparison: Comparison) -> str:
    """For a terminal."""
    return "\n".join(_lines(comparison))


def _lines(found: Comparison) -> Iterator[str]:
    base, candidate = found.base, found.candidate
    yield (
        f"{escape(candidate.plan)} `{candidate.strategy}` ({candidate.arm}) against "
        f"{escape(base.plan)} `{base.strategy}` ({base.arm})"
    )
    for what, ratio in (("steady decoding", found.decode), ("whole requests", found.request)):
        if ratio is not None:
            yield f"  {what:<16} {ratio_text(ratio)}"
    yield f"  {'equal outputs':<16} {found.same_outputs} of {len(found.prompts)}"
    for gate in found.gates:
        mark = "met   " if gate.met else "MISSED"
        yield f"  {mark} {gate.name:<16} {gate.required}; found {escape(gate.found)}"


def ratio_text(ratio: Ratio) -> str:
    """A ratio with its interval, in words."""
    interval = (
        "one prompt, no interval" if ratio.low is None else f"95% {ratio.low} to {ratio.high}"
    )
    return f"{ratio.median}x at the median prompt; mean {ratio.mean}x ({interval})"


def comparison_markdown(comparison: Comparison) -> str:
    """For a pull request."""
    return render(
        "comparison.md.j2",
        {"c": comparison, "ratio_text": ratio_text},
    )
