"""GitHub's annotations at file and line, within what it shows of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from power.diagnostics import Diagnostic, as_github

MOST = 10  # annotations of one level that GitHub shows for a step


def annotated(problems: Iterable[Diagnostic]) -> str:
    """Workflow commands, at most 10 a level: the last one of more says how many are left."""
    lines = []
    known = list(problems)
    for severity in ("error", "warning"):
        found = [problem for problem in known if problem.severity == severity]
        shown = found if len(found) <= MOST else found[: MOST - 1]
        lines += [as_github([problem]) for problem in shown]
        left = len(found) - len(shown)
        if left:
            more = replace(
                found[MOST - 1],
                message=f"{left} more {severity}s are in the summary; the next one: "
                f"{found[MOST - 1].message}",
            )
            lines.append(as_github([more]))
    return "\n".join(lines)
