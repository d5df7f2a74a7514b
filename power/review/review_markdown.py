"""A review as one Markdown text for a job summary or a comment, within GitHub's limits."""

from __future__ import annotations

from collections.abc import Iterator

from power.diagnostics import Diagnostic, counted
from power.manifest.templates import markdown_code
from power.review.consequences import Class
from power.review.diff_output import UNCHANGED, both
from power.review.entries import Entry
from power.review.review import Review
from power.review.review_output import STATE, STATUS, verdict

MARK = "<!-- power review -->"
"""The first line, by which a program finds, among its own comments, the one to write over."""
COMMENT_LIMIT = 65_536  # characters of a comment; counted as bytes, which are never fewer
SUMMARY_LIMIT = 1 << 20  # bytes of a step's job summary
_RESERVE = 400  # for the word on what was cut


def review_markdown(found: Review, limit: int = COMMENT_LIMIT) -> str:
    """The review in at most `limit` bytes of UTF-8; what is cut is said, at a line's end.

    Text from files stands in code spans alone, so that nothing in it is markup.
    """
    blocks = list(_blocks(found))
    taken: list[str] = []
    size = 0
    for block in blocks:
        size += len(block.encode("utf-8", "surrogatepass")) + 1
        if size > limit - _RESERVE:
            break
        taken.append(block)
    left = len(blocks) - len(taken)
    if left:
        command = markdown_code(f"power review --base {found.base}")
        cut = f"{counted(left, 'more line')} would not fit into {limit:,} bytes"
        taken += ["", f"**Cut here:** {cut}. {command} shows all."]
    return "\n".join(taken) + "\n"


def _blocks(found: Review) -> Iterator[str]:
    """The text, line by line; a line is never cut."""
    yield MARK
    yield f"## Power review: {verdict(found)}"
    yield ""
    yield f"Compared with {markdown_code(found.base)} at {markdown_code(found.commit[:12])}."
    yield from _counts(found)
    for title, severity in (("Defects", "error"), ("Warnings", "warning")):
        problems = [problem for problem in found.problems if problem.severity == severity]
        yield from _section(title, (_problem(problem) for problem in problems))
    if found.entries:
        yield from ("", "### Changes")
    for entry in found.entries:
        yield from _entry(entry)
    yield from _section(
        "Plans", (f"- {markdown_code(plan.path)}: {STATE[plan.state]}" for plan in found.plans)
    )
    yield from _section("Void from here on", (f"- {kind.title}" for kind in found.voids))
    yield from _section("Not judged", (f"- {markdown_code(text)}" for text in found.unjudged))


def _counts(found: Review) -> Iterator[str]:
    counts = [(kind, found.count(kind)) for kind in Class]
    if any(count for _, count in counts):
        yield ""
        yield "| " + " | ".join(kind.value for kind, _ in counts) + " |"
        yield "| " + " | ".join("---" for _ in counts) + " |"
        yield "| " + " | ".join(str(count or "") for _, count in counts) + " |"


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    first = next(lines, None)
    if first is not None:
        yield from ("", f"### {title}", "", first)
        yield from lines


def _problem(problem: Diagnostic) -> str:
    span = problem.spans[0] if problem.spans else None
    place = problem.place if span is None else f"{span.file}:{span.line}"
    where = "" if place is None else f"{markdown_code(place)}: "
    hint = "" if problem.hint is None else f" Next: {markdown_code(problem.hint)}"
    return f"- **{problem.code}** {where}{markdown_code(problem.message)}{hint}"


def _entry(entry: Entry) -> Iterator[str]:
    was = "" if entry.old is None else f", was {markdown_code(entry.old)}"
    yield ""
    kind, path = entry.kind.capitalize(), markdown_code(entry.path)
    yield f"#### {kind} {path} ({STATUS[entry.status]}{was})"
    if entry.diff is None:
        return
    if not entry.diff.changes:
        yield from ("", f"{UNCHANGED.capitalize()}.")
    for group in Class:
        changes = entry.diff.of(group)
        if changes:
            yield from ("", f"**{group.title}**", "")
        for change in changes:
            old, new = (markdown_code(text) for text in both(change, entry.kind))
            yield f"- {markdown_code(change.path)}: {old} → {new}\n  {change.means.says}"
