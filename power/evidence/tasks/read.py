"""Files of tasks: JSON lines of one form, which is told by its keys and never guessed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from power.diagnostics import fail
from power.evidence.tasks import own, published
from power.evidence.tasks.task import Task
from power.manifest.files import UnreadableError, nearby, read_regular
from power.manifest.shipped import tasks_path
from power.runner.json_line import LineError, LineProblems, json_object, lines_of

MAX_FILE = 64 << 20
"""Bytes of a file."""

MAX_TASKS = 20_000
MAX_QUESTION = 64 << 10
"""Characters of a line: no question is longer."""

_EXAMPLE = '{"question": "What is 2 + 3?", "answer": "5", "scorer": "number"}'
_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Form:
    """One form. keys: what a line of it holds, for people."""

    name: str
    keys: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Mapping[str, Any], str], Task]


OWN = Form("power", "question, answer, scorer", own.is_own, own.read_own)
PUBLISHED: tuple[Form, ...] = (
    Form("gsm8k", "question, answer with `####`", published.is_gsm8k, published.read_gsm8k),
    Form("mmlu", "question, choices, answer", published.is_mmlu, published.read_mmlu),
    Form("arc", "question, choices, answerKey", published.is_arc, published.read_arc),
    Form("hellaswag", "ctx, endings, label", published.is_hellaswag, published.read_hellaswag),
    Form("ceval", "question, A, B, C, D, answer", published.is_ceval, published.read_ceval),
)


class FormError(LineError):
    """A line that is of no form, or of another one than it has to be."""


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a file, in order, its bytes, and the name of its form."""

    form: str
    data: bytes
    tasks: tuple[Task, ...]


def read_tasks(reference: str) -> TaskSet:
    """The tasks of a file (`F.jsonl`), or of a set that comes with Power (`small`).

    Raises PowerError: P882 it cannot be read or there is no such set; else as `parse_tasks`.
    """
    path = Path(reference)
    if not reference.endswith(_SUFFIX):
        path = _shipped(reference)
    try:
        data = read_regular(path, MAX_FILE)
    except UnreadableError as error:
        hint = (nearby(path) if error.why == "absent" else None) or "check the path"
        fail("P882", f"the tasks cannot be read: {error}", place=str(path), hint=hint)
    return parse_tasks(data, path)


def set_names() -> list[str]:
    """The sets of tasks that come with Power."""
    return sorted(path.stem for path in tasks_path().glob(f"*{_SUFFIX}"))


def form_of(raw: Mapping[str, Any]) -> Form:
    """The one form that the keys of a line tell of; FormError for none and for several."""
    if OWN.fits(raw):
        return OWN
    found = [form for form in PUBLISHED if form.fits(raw)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{form.name} ({form.keys})" for form in (OWN, *PUBLISHED))
    if published.is_code(raw):
        message = "this asks for a program, and judging it would run what a model wrote"
        raise FormError(message, known)
    if found:
        names = " and ".join(f"`{form.name}`" for form in found)
        raise FormError(f"these keys are those of {names}", known)
    raise FormError("these keys are of no form that is known", known)


def parse_tasks(data: bytes, path: Path) -> TaskSet:
    """The tasks in `data`, the content of `path`.

    The first line says which form all of them have.
    Raises PowerError: P881 for a line of no form or of another one, P880 for a line that
    is not what its form asks for; the first 20 such lines.
    """
    tasks: list[Task] = []
    problems = LineProblems(path, "tasks", _EXAMPLE)
    numbers: dict[str, int] = {}
    form: Form | None = None
    for number, line in enumerate(lines_of(data), 1):
        try:
            raw = json_object(line)
            form = _same_form(form, form_of(raw))
            task = form.read(raw, str(number))
            _check(task, numbers)
        except LineError as error:
            code = "P881" if isinstance(error, FormError) else "P880"
            problems.add(code, number, line, error)
        else:
            numbers[task.id] = number
            tasks.append(task)
    problems.check(len(tasks))
    if form is None or len(tasks) > MAX_TASKS:
        fail(
            "P880",
            f"the file holds {len(tasks)} tasks",
            place=str(path),
            expected=f"1 to {MAX_TASKS}",
            hint="write one JSON object a line",
        )
    return TaskSet(form.name, data, tuple(tasks))


def _same_form(first: Form | None, found: Form) -> Form:
    if first is not None and found is not first:
        raise FormError(f"a line of the form `{found.name}`", f"`{first.name}`, as above")
    return found


def _check(task: Task, numbers: Mapping[str, int]) -> None:
    if task.id in numbers:
        raise LineError(f"the id `{task.id}` is that of line {numbers[task.id]} too")
    if sum(map(len, (task.question, *task.choices))) > MAX_QUESTION:
        raise LineError("the question is too long", f"at most {MAX_QUESTION} characters")


def _shipped(name: str) -> Path:
    names = set_names()
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        fail(
            "P882",
            f"there is no set of tasks `{name}`",
            place="--tasks",
            expected=", ".join(f"`{known}`" for known in names),
            found=name,
            hint=f"did you mean `{close[0]}`?"
            if close
            else f"a file of your own is named by its path, ending in `{_SUFFIX}`",
        )
    return tasks_path() / f"{name}{_SUFFIX}"
