"""Finding the answer in what a model wrote: in the form that was asked for, or wherever it is.

Pure. docs/reference/tasks.md states the rules for people.
"""

from __future__ import annotations

import re

from power.evidence.tasks.numbers import is_plain, numbers, plain
from power.evidence.tasks.task import Task, letters
from power.evidence.tasks.words import holds, words

FORM = "Answer:"
"""How the line begins that a model is asked to end with."""

_MARK = re.compile(r"\banswer(?:\s+is\b|\W{0,3}:)|####", re.IGNORECASE)
# Nothing of it is given back: a text that opens and opens would take the square of its length.
_OPEN = r"[\s*_`\"':(\[$]*+(?:(?:option|choice|letter)\s++)?+[*_`\"'(\[]*+"
# A letter that stands alone. `A` and `I` are words too: then a small word follows, but not `is`.
_LETTER = (
    r"(?:(?<=[(\[])([A-Za-z])(?=[)\]])|([A-Z])(?![\w'\u2019]))(?!(?<=[AI])[ \t]+(?!is\b)[a-z])"
)
_FIRST = re.compile(_OPEN + _LETTER)
_SMALL = re.compile(r"[\s*_`\"']*([a-z])[\s*_`\"'.)]*")  # all there is
_LISTED = re.compile(r"^[ \t*]*(?:\(([A-Z])\)|([A-Z])[.):])", re.MULTILINE)
_BRACKETED = re.compile(r"\(([A-Z])\)|^[ \t*]*([A-Z])[.):]", re.MULTILINE)


def asked_form(task: Task, text: str) -> str | None:
    """The answer of a text that keeps to the form: None where it does not.

    Exactly one line begins with `Answer:`. It is the last one that is not blank, and
    behind one space it holds the answer alone: a letter, a plain number, or text.
    """
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    if sum(line.startswith(FORM) for line in lines) != 1 or not lines[-1].startswith(FORM + " "):
        return None
    answer = lines[-1].removeprefix(FORM + " ")
    match task.scorer:
        case "choice":
            return answer if len(answer) == 1 and answer in letters(len(task.choices)) else None
        case "number":
            return plain(answer) if is_plain(answer) else None
        case "text":
            return answer or None


def anywhere(task: Task, text: str) -> str | None:
    """The answer as far as one can be found in `text`.

    A number in the form of `plain`, a letter, or the `words` that an answer is looked for in.
    """
    marks = list(_MARK.finditer(text))
    behind = text[marks[-1].end() :] if marks else None
    match task.scorer:
        case "number":
            if behind is not None and (found := numbers(behind)):
                return found[0]
            return next(reversed(numbers(text)), None)
        case "choice":
            return _choice(task, text, behind)
        case "text":
            line = _first_line(behind) if behind is not None else ""
            return words(line) or words(text) or None


def _first_line(text: str) -> str:
    return next((line for line in text.split("\n") if words(line)), "")


def _choice(task: Task, text: str, behind: str | None) -> str | None:
    allowed = letters(len(task.choices))
    for part in (behind, text):
        if part is None:
            continue
        found = None if _repeats_the_list(part) else _leading(part)
        if found is None or found not in allowed:
            found = _named(task, _first_line(part) if part is behind else part)
        if found is None and not _repeats_the_list(part):
            marked = [next(filter(None, m.groups())) for m in _BRACKETED.finditer(part)]
            found = next((letter for letter in reversed(marked) if letter in allowed), None)
        if found is not None:
            return found
    return None


def _leading(text: str) -> str | None:
    """The letter that `text` begins with, alone."""
    if (small := _SMALL.fullmatch(text)) is not None:
        return small[1].upper()
    found = _FIRST.match(text)
    return None if found is None else (found[1] or found[2]).upper()


def _repeats_the_list(text: str) -> bool:
    """Whether `text` lists choices again, which names none of them."""
    return len({next(filter(None, m.groups())) for m in _LISTED.finditer(text)}) > 1


def _named(task: Task, text: str) -> str | None:
    """The one choice whose words stand in `text`; None for several.

    A choice that is part of another one that is there does not count.
    """
    said = words(text)
    there = [choice for choice in task.choices if words(choice) and holds(said, words(choice))]
    most = [c for c in there if not any(c != o and holds(words(o), words(c)) for o in there)]
    return letters(len(task.choices))[task.choices.index(most[0])] if len(most) == 1 else None
