"""Files of tasks: every form by its keys, each refusal with its line, and the shipped set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.diagnostics import ExitCode, PowerError
from power.evidence.tasks import own, published
from power.evidence.tasks.asking import Questions
from power.evidence.tasks.read import PUBLISHED, TaskSet, parse_tasks, read_tasks, set_names
from power.evidence.tasks.scoring import score
from power.evidence.tasks.task import Task

PATH = Path("t.jsonl")
OWN = {"question": "2 + 3?", "answer": "5", "scorer": "number"}
GSM8K = {"question": "2 + 1,198?", "answer": "2 + 1,198 = <<2+1198=1200>>1,200.\n#### 1,200"}
MMLU = {"question": "Which?", "subject": "s", "choices": ["w", "x", "y", "z"], "answer": 2}
ARC = {
    "id": "M_1",
    "question": "Which?",
    "choices": {"text": ["w", "x", "y", "z"], "label": ["1", "2", "3", "4"]},
    "answerKey": "3",
}
ARC_FIRST = {
    "id": "M_1",
    "question": {
        "stem": "Which?",
        "choices": [{"text": t, "label": n} for t, n in zip("wxyz", "ABCD", strict=True)],
    },
    "answerKey": "C",
}
HELLASWAG = {"ind": 4, "ctx": "A man", "endings": ["w", "x", "y", "z"], "label": "2"}
CEVAL = {"id": 0, "question": "Which?", "A": "w", "B": "x", "C": "y", "D": "z", "answer": "C"}
KEYS = [
    *("id", "question", "choices", "answer", "answerKey", "scorer", "ctx", "endings", "label"),
    *"ABCD",
]
CHOICE = Task("1", "Which?", ("w", "x", "y", "z"), "C", "choice")


def tasks(*lines: Any) -> TaskSet:
    data = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
    return parse_tasks(data.encode(), PATH)


def refused(*lines: Any) -> PowerError:
    with pytest.raises(PowerError) as error:
        tasks(*lines)
    assert error.value.exit_code is ExitCode.CANNOT_JUDGE
    return error.value


@pytest.mark.parametrize(
    ("line", "form", "task"),
    [
        (OWN, "power", Task("1", "2 + 3?", (), "5", "number")),
        (OWN | {"id": "s", "answer": "-05.50"}, "power", Task("s", "2 + 3?", (), "-5.5", "number")),
        (GSM8K, "gsm8k", Task("1", "2 + 1,198?", (), "1200", "number")),
        (MMLU, "mmlu", CHOICE),
        (MMLU | {"answer": "C"}, "mmlu", CHOICE),
        (ARC, "arc", Task("M_1", "Which?", ("w", "x", "y", "z"), "C", "choice")),
        (ARC_FIRST, "arc", Task("M_1", "Which?", ("w", "x", "y", "z"), "C", "choice")),
        (
            HELLASWAG,
            "hellaswag",
            Task("1", "How does this text go on?\nA man", ("w", "x", "y", "z"), "C", "choice"),
        ),
        (CEVAL, "ceval", Task("0", "Which?", ("w", "x", "y", "z"), "C", "choice")),
    ],
)  # fmt: skip
def test_a_form_is_told_by_its_keys(line: dict[str, Any], form: str, task: Task) -> None:
    found = tasks(line)
    assert (found.form, found.tasks) == (form, (task,))


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ({"prompt": "x"}, "P881", "of no form"),
        ({"question": "q", "answer": "12"}, "P881", "of no form"),
        ({}, "P881", "of no form"),
        ({"task_id": "H/0", "prompt": "def", "entry_point": "f", "test": ""}, "P881", "a program"),
        ({"text": "write", "code": "", "test_list": []}, "P881", "a program"),
        (MMLU | {"answer": "#### 2"}, "P881", "those of `gsm8k` and `mmlu`"),
        (OWN | {"anwser": "5"}, "P880", "unknown key `anwser`; did you mean `answer`?"),
        (OWN | {"weight": 2}, "P880", "unknown key `weight`"),
        (OWN | {"scorer": "exact"}, "P880", "`exact` is no scorer"),
        (OWN | {"scorer": None}, "P880", "no scorer"),
        (OWN | {"scorer": ["number"]}, "P880", "no scorer"),
        (OWN | {"answer": 5}, "P880", "`answer` is missing or no text"),
        (OWN | {"question": None}, "P880", "`question` is missing"),
        (OWN | {"question": "  "}, "P880", "the question is empty"),
        (OWN | {"question": "x" * 70_000}, "P880", "too long"),
        (OWN | {"answer": "1,200"}, "P880", "no plain number"),
        (OWN | {"answer": "five"}, "P880", "no plain number"),
        (OWN | {"answer": "1" * 201}, "P880", "the answer is too long"),
        (OWN | {"id": ""}, "P880", "`id`"),
        (OWN | {"id": 3}, "P880", "`id`"),
        (OWN | {"choices": ["5", "6"]}, "P880", "go together"),
        (OWN | {"scorer": "choice"}, "P880", "go together"),
        (OWN | {"scorer": "choice", "choices": "AB", "answer": "A"}, "P880", "no list of text"),
        (OWN | {"scorer": "choice", "choices": ["x"], "answer": "A"}, "P880", "1 choices"),
        (OWN | {"scorer": "choice", "choices": ["x", "x"], "answer": "A"}, "P880", "the same"),
        (OWN | {"scorer": "choice", "choices": ["x", " "], "answer": "A"}, "P880", "is empty"),
        (OWN | {"scorer": "choice", "choices": ["x", "y"], "answer": "C"}, "P880", "no letter"),
        (OWN | {"scorer": "choice", "choices": ["x", "y"], "answer": "AB"}, "P880", "no letter"),
        (OWN | {"scorer": "text", "answer": "?!"}, "P880", "no line of words"),
        (OWN | {"scorer": "text", "answer": "one\ntwo"}, "P880", "no line of words"),
        (GSM8K | {"answer": "####"}, "P880", "no plain number"),
        (GSM8K | {"question": 1}, "P880", "`question` is no text"),
        (MMLU | {"answer": 4}, "P880", "the index of no choice"),
        (MMLU | {"answer": True}, "P880", "the index of no choice"),
        (MMLU | {"answer": 1.0}, "P880", "the index of no choice"),
        (MMLU | {"answer": None}, "P880", "the index of no choice"),
        (MMLU | {"choices": [1, 2]}, "P880", "no list of text"),
        (MMLU | {"choices": []}, "P880", "the index of no choice"),
        (ARC | {"answerKey": "C"}, "P880", "the label of no choice"),
        (ARC | {"answerKey": ["C"]}, "P880", "the label of no choice"),
        (ARC | {"choices": None}, "P880", "labelled choices is missing"),
        (ARC | {"choices": [1]}, "P880", "labelled choices is missing"),
        (ARC | {"choices": {"text": ["w"], "label": ["1", "2"]}}, "P880", "the label of no choice"),
        (ARC_FIRST | {"question": {}}, "P880", "labelled choices is missing"),
        (HELLASWAG | {"label": ""}, "P880", "the index of no choice"),
        (HELLASWAG | {"label": "-1"}, "P880", "the index of no choice"),
        (CEVAL | {"answer": ""}, "P880", "no letter"),
        (CEVAL | {"B": 2}, "P880", "`B` is no text"),
        ("[]", "P880", "no object"),
        ("", "P880", "no JSON"),
        ("{", "P880", "no JSON"),
        ('{"a": NaN}', "P880", "no JSON number"),
        ('{"answer": "1", "answer": "2"}', "P880", "more than once"),
    ],
)
def test_a_line_that_is_no_task(line: Any, code: str, words: str) -> None:
    (problem,) = refused(line).diagnostics
    assert problem.code == code
    assert words in problem.message
    assert (problem.spans[0].file, problem.spans[0].line) == ("t.jsonl", 1)


def test_an_unknown_form_lists_those_that_are_known() -> None:
    (problem,) = refused({"prompt": "x"}).diagnostics
    assert problem.expected is not None
    assert [form.name for form in PUBLISHED if f"{form.name} (" not in problem.expected] == []


def test_a_file_has_one_form() -> None:
    (problem,) = refused(GSM8K, OWN, GSM8K).diagnostics
    assert (problem.code, problem.spans[0].line) == ("P881", 2)
    assert problem.expected == "`gsm8k`, as above"


def test_an_id_stands_once() -> None:
    (problem,) = refused(OWN, OWN | {"id": "1"}).diagnostics
    assert "the id `1` is that of line 1 too" in problem.message


def test_all_problems_are_told_at_once_up_to_a_limit() -> None:
    assert [d.spans[0].line for d in refused("x", OWN, "y").diagnostics] == [1, 3]
    problems = refused(*["{}"] * 25).diagnostics
    assert (len(problems), problems[-1].message) == (
        21,
        "5 more problems in these tasks are not shown",
    )


def test_an_empty_file() -> None:
    with pytest.raises(PowerError) as error:
        parse_tasks(b"", PATH)
    assert error.value.diagnostics[0].code == "P880"


def test_a_file_of_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("power.evidence.tasks.read.MAX_TASKS", 1)
    assert "2 tasks" in refused(OWN, OWN).diagnostics[0].message


def test_a_set_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(PowerError) as error:
        read_tasks("smal")
    (problem,) = error.value.diagnostics
    assert (problem.code, problem.hint) == ("P882", "did you mean `small`?")
    with pytest.raises(PowerError) as error:
        read_tasks(str(tmp_path / "none.jsonl"))
    assert error.value.diagnostics[0].code == "P882"
    with pytest.raises(PowerError) as error:
        read_tasks("gpqa")
    assert "`.jsonl`" in (error.value.diagnostics[0].hint or "")


@given(
    st.dictionaries(
        st.sampled_from(KEYS),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=6)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=4),
                st.dictionaries(st.sampled_from(["text", "label", "stem"]), inner, max_size=3),
            ),
            max_leaves=8,
        ),
    )
)
def test_whatever_a_line_holds_it_is_a_task_or_refused(line: dict[str, Any]) -> None:
    try:
        (found,) = tasks(line).tasks
    except PowerError as error:
        codes = {d.code for d in error.diagnostics}
    else:
        formal = f"Answer: {found.answer}".encode()
        codes = set() if score(found, formal, chat=True, truncated=False).strict else {"lost"}
    assert codes <= {"P880", "P881"}


class TestShipped:
    @pytest.mark.parametrize("name", set_names())
    def test_a_set_is_read(self, name: str) -> None:
        found = read_tasks(name)
        assert found.form == "power"
        assert {task.scorer for task in found.tasks} == {"number", "choice", "text"}

    def test_the_small_one_has_no_favourite_letter(self) -> None:
        answers = [t.answer for t in read_tasks("small").tasks if t.scorer == "choice"]
        assert {letter: answers.count(letter) for letter in "ABCD"} == {
            "A": 3,
            "B": 2,
            "C": 4,
            "D": 2,
        }

    def test_no_question_gives_its_own_answer_away(self) -> None:
        """A number or letter; what is to be copied has to stand there."""
        for task in read_tasks("small").tasks:
            if task.scorer == "number":
                echoed = score(task, task.question.encode(), chat=True, truncated=False)
                assert not echoed.lenient, task.id


def test_a_task_is_asked_in_a_chat_or_as_text() -> None:
    found = tasks(OWN | {"id": "s"})
    chat = [json.loads(x) for x in Questions(found, chat=True, max_tokens=9).prompts().splitlines()]
    assert chat[0] == {
        "id": "s",
        "messages": [
            {
                "role": "user",
                "content": "2 + 3?\n\nEnd with one line: `Answer:` and the number, in digits.",
            }
        ],
        "max_tokens": 9,
    }
    plain = [
        json.loads(x)
        for x in Questions(tasks(MMLU), chat=False, max_tokens=None).prompts().splitlines()
    ]
    assert plain == [
        {
            "id": "1",
            "prompt": "Question: Which?\nA. w\nB. x\nC. y\nD. z\nAnswer:",
            "stop": ["\nQuestion:"],
        }
    ]


def test_a_form_of_others_is_not_read_when_the_line_says_that_it_is_ours() -> None:
    line = MMLU | {"scorer": "choice"}
    assert own.is_own(line)
    assert published.is_mmlu(line)
    assert "unknown key `subject`" in refused(line).diagnostics[0].message
