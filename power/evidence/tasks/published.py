"""Published forms of tasks, as their makers and the common mirrors write them as JSON lines.

Only the keys that are named here are looked at. Sources: the data cards of GSM8K
(openai/grade-school-math), MMLU (cais/mmlu), ARC (allenai/ai2_arc and the original
release), CommonsenseQA (tau/commonsense_qa), HellaSwag (Rowan/hellaswag) and C-Eval
(ceval/ceval-exam).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from power.evidence.tasks.task import Task, is_texts, letters, make_task
from power.runner.json_line import LineError

_GSM8K_MARK = "####"
_CEVAL = ("A", "B", "C", "D")


def is_gsm8k(raw: Mapping[str, Any]) -> bool:
    """GSM8K: `question`, and an `answer` whose last line is `#### N`."""
    answer = raw.get("answer")
    return "question" in raw and isinstance(answer, str) and _GSM8K_MARK in answer


def read_gsm8k(raw: Mapping[str, Any], name: str) -> Task:
    """A word problem; what stands before `####` is the way to its answer."""
    number = raw["answer"].rpartition(_GSM8K_MARK)[2].strip().replace(",", "")
    return make_task(_name(raw, name), _text(raw, "question"), (), number, "number")


def is_mmlu(raw: Mapping[str, Any]) -> bool:
    """MMLU: `question`, a list of `choices`, and `answer`, an index from 0 or a letter."""
    return {"question", "choices", "answer"} <= raw.keys() and isinstance(raw["choices"], list)


def read_mmlu(raw: Mapping[str, Any], name: str) -> Task:
    """A question with choices."""
    choices, answer = _texts(raw, "choices"), raw["answer"]
    letter = answer if isinstance(answer, str) else _letter(answer, len(choices), "answer")
    return make_task(_name(raw, name), _text(raw, "question"), choices, letter, "choice")


def is_arc(raw: Mapping[str, Any]) -> bool:
    """ARC and CommonsenseQA: `answerKey`, with choices that have labels of their own."""
    return {"question", "answerKey"} <= raw.keys()


def read_arc(raw: Mapping[str, Any], name: str) -> Task:
    """A question with labelled choices, as `{text: [], label: []}` or `[{text, label}]`."""
    question, choices = raw["question"], raw.get("choices")
    if isinstance(question, dict):
        choices = question.get("choices")
        question = question.get("stem")
    if isinstance(choices, list) and all(isinstance(one, dict) for one in choices):
        choices = {key: [one.get(key) for one in choices] for key in ("text", "label")}
    texts, labels = (
        (choices.get("text"), choices.get("label")) if isinstance(choices, dict) else (None, None)
    )
    if not isinstance(question, str) or not is_texts(texts) or not is_texts(labels):
        raise LineError("a question with labelled choices is missing", "texts and labels")
    if len(texts) != len(labels) or labels.count(raw["answerKey"]) != 1:
        raise LineError("`answerKey` is the label of no choice", ", ".join(labels))
    letter = _letter(labels.index(raw["answerKey"]), len(texts), "answerKey")
    return make_task(_name(raw, name), question, texts, letter, "choice")


def is_hellaswag(raw: Mapping[str, Any]) -> bool:
    """HellaSwag: `ctx`, a list of `endings`, and `label`, an index from 0."""
    return {"ctx", "endings", "label"} <= raw.keys()


def read_hellaswag(raw: Mapping[str, Any], name: str) -> Task:
    """A text and its possible endings, asked as a question."""
    endings, label = _texts(raw, "endings"), raw["label"]
    index = int(label) if isinstance(label, str) and label.isdecimal() else label
    question = f"How does this text go on?\n{_text(raw, 'ctx')}"
    letter = _letter(index, len(endings), "label")
    return make_task(_name(raw, name), question, endings, letter, "choice")


def is_ceval(raw: Mapping[str, Any]) -> bool:
    """C-Eval: `question`, the choices `A` to `D`, and `answer`, a letter."""
    return {"question", "answer", *_CEVAL} <= raw.keys()


def read_ceval(raw: Mapping[str, Any], name: str) -> Task:
    """A question with four choices, each under its letter."""
    choices = [_text(raw, letter) for letter in _CEVAL]
    question, answer = _text(raw, "question"), _text(raw, "answer")
    return make_task(_name(raw, name), question, choices, answer, "choice")


def is_code(raw: Mapping[str, Any]) -> bool:
    """HumanEval and MBPP, which are known and not read: judging them would run what they write."""
    return bool({"entry_point", "test_list", "canonical_solution"} & raw.keys())


def _name(raw: Mapping[str, Any], name: str) -> str:
    """The `id` of a line, else the name it is given: that of its place."""
    given = raw.get("id", name)
    if isinstance(given, bool) or not isinstance(given, (str, int)) or given == "":
        return name
    return str(given)


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw[key]
    if not isinstance(value, str):
        raise LineError(f"`{key}` is no text", "text")
    return value


def _texts(raw: Mapping[str, Any], key: str) -> list[str]:
    value = raw[key]
    if not is_texts(value):
        raise LineError(f"`{key}` is no list of text", "a list of text")
    return value


def _letter(index: object, count: int, key: str) -> str:
    """The letter of the choice at `index`."""
    whole = isinstance(index, int) and not isinstance(index, bool)
    if not whole or not 0 <= int(str(index)) < min(count, 26):
        raise LineError(f"`{key}` is the index of no choice", f"0 to {count - 1}")
    return letters(count)[int(str(index))]
