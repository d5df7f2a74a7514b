"""Judging an output: strictly, by the form that was asked for, and leniently. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from power.evidence.tasks.asking import whole
from power.evidence.tasks.finding import anywhere, asked_form
from power.evidence.tasks.task import Task
from power.evidence.tasks.words import holds, words


@dataclass(frozen=True, slots=True)
class Score:
    """answer: what was found, None for nothing. What is strictly right is leniently right."""

    answer: str | None
    lenient: bool
    strict: bool


def score(task: Task, output: bytes, *, chat: bool, truncated: bool) -> Score:
    """Judge `output`, which was `truncated` where it did not end by itself.

    A truncated output is never strictly right: what follows might have been the rest
    of a number.
    """
    text = whole(output, chat=chat)
    formal, found = asked_form(task, text), anywhere(task, text)
    strict = formal == task.answer and not truncated
    if task.scorer == "text":
        lenient = found is not None and holds(found, words(task.answer))
        answer = words(formal) if formal is not None else found
    else:
        lenient = found == task.answer
        answer = formal if formal is not None else found
    return Score(answer or None, lenient or strict, strict)
