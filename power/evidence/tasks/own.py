"""Power's own form of a task, read strictly: no unknown key, no other type than is asked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from power.evidence.tasks.task import SCORERS, Task, is_texts, make_task
from power.runner.json_line import LineError

KEYS = ("id", "question", "choices", "answer", "scorer")


def is_own(raw: Mapping[str, Any]) -> bool:
    """Whether a line means to be of this form: only it says how it is scored."""
    return "scorer" in raw


def read_own(raw: Mapping[str, Any], name: str) -> Task:
    """The task on a line; LineError for what is not exactly one. name: that of a line without."""
    unknown = [key for key in raw if key not in KEYS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], KEYS, n=1)
        guess = f"; did you mean `{near[0]}`?" if near else ""
        raise LineError(f"unknown key `{unknown[0]}`{guess}", ", ".join(KEYS))
    scorer = raw["scorer"]
    if scorer not in SCORERS:
        raise LineError(f"`{scorer}` is no scorer", ", ".join(SCORERS))
    for key in ("question", "answer"):
        if not isinstance(raw.get(key), str):
            raise LineError(f"`{key}` is missing or no text", "text")
    choices = raw.get("choices", [])
    if not is_texts(choices):
        raise LineError("`choices` is no list of text", "a list of text")
    if bool(choices) != (scorer == "choice"):
        raise LineError("`choices` and the scorer `choice` go together", "both or neither")
    given = raw.get("id", name)
    if not isinstance(given, str) or not given:
        raise LineError("`id` is no text", "text of one character or more")
    return make_task(given, raw["question"], choices, raw["answer"], scorer)
