"""How a model is asked: a task as a prompt. Pure, and the same bytes every time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from power.evidence.tasks.finding import FORM
from power.evidence.tasks.read import TaskSet
from power.evidence.tasks.task import Scorer, Task, letters

_ASKED: dict[Scorer, str] = {
    "choice": f"End with one line: `{FORM}` and the letter of the right choice.",
    "number": f"End with one line: `{FORM}` and the number, in digits.",
    "text": f"End with one line: `{FORM}` and the answer, word for word.",
}
_NEXT = "\nQuestion:"  # where a model that was not trained to chat would go on


@dataclass(frozen=True, slots=True)
class Questions:
    """Tasks, and how they are asked.

    chat: each as a message through the model's chat template; else as text that ends in
    `Answer:`. max_tokens: None is what the plan allows.
    """

    tasks: TaskSet
    chat: bool
    max_tokens: int | None

    def prompts(self) -> bytes:
        """The file of prompts: one a task, in order, under the task's id."""
        return b"".join(
            json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in self._lines()
        )

    def _lines(self) -> Iterator[dict[str, Any]]:
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        for task in self.tasks.tasks:
            yield {"id": task.id, **(_message(task) if self.chat else _text(task)), **limit}


def whole(output: bytes, *, chat: bool) -> str:
    """What is judged: the output, behind the beginning that the prompt gave it."""
    text = output.decode("utf-8", "replace")
    return text if chat else FORM + text


def _message(task: Task) -> dict[str, Any]:
    content = f"{_question(task)}\n\n{_ASKED[task.scorer]}"
    return {"messages": [{"role": "user", "content": content}]}


def _text(task: Task) -> dict[str, Any]:
    return {"prompt": f"Question: {_question(task)}\n{FORM}", "stop": [_NEXT]}


def _question(task: Task) -> str:
    marks = letters(len(task.choices))
    listed = (f"{mark}. {text}" for mark, text in zip(marks, task.choices, strict=True))
    return "\n".join([task.question, *listed])
