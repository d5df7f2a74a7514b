"""What a task is: a question with an answer that can be judged without running anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard, get_args

from power.evidence.tasks.numbers import is_plain, plain
from power.evidence.tasks.words import words
from power.runner.json_line import LineError

Scorer = Literal["choice", "number", "text"]
SCORERS: tuple[Scorer, ...] = get_args(Scorer)

MIN_CHOICES, MAX_CHOICES = 2, 26
MAX_ANSWER = 200
"""Characters of an answer."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task. answer: a letter of `choices`, a plain number (`-3.5`), or a text."""

    id: str
    question: str
    choices: tuple[str, ...]
    answer: str
    scorer: Scorer


def letters(count: int) -> str:
    """The letters of so many choices: `ABCD` for four."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]


def make_task(
    name: str, question: str, choices: Sequence[str], answer: str, scorer: Scorer
) -> Task:
    """A task whose parts fit together, its answer in canonical form; else LineError."""
    if not question.strip():
        raise LineError("the question is empty", "text")
    match scorer:
        case "choice":
            _check_choices(choices)
            if len(answer) != 1 or answer not in letters(len(choices)):
                raise LineError(
                    f"the answer `{answer[:40]}` is no letter of the choices",
                    ", ".join(letters(len(choices))),
                )
        case "number":
            if not is_plain(answer):
                raise LineError(
                    f"the answer `{answer[:40]}` is no plain number",
                    "digits, with a `-` before and a `.` among them where needed",
                )
            answer = plain(answer)
        case "text":
            answer = answer.strip()
            if not words(answer) or re.search(r"[\r\n]", answer):
                raise LineError("the answer is no line of words", "words on one line")
    if len(answer) > MAX_ANSWER:
        raise LineError("the answer is too long", f"at most {MAX_ANSWER} characters")
    return Task(name, question.strip(), tuple(choices), answer, scorer)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Whether `value` is a list of text."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_choices(choices: Sequence[str]) -> None:
    if not MIN_CHOICES <= len(choices) <= MAX_CHOICES:
        raise LineError(f"there are {len(choices)} choices", f"{MIN_CHOICES} to {MAX_CHOICES}")
    if not all(choice.strip() for choice in choices):
        raise LineError("a choice is empty", "text")
    if len(set(choices)) != len(choices):
        raise LineError("two choices are the same", "different texts")
