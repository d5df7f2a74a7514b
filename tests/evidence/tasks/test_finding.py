"""Answers in outputs: numbers, letters and words, in the form that was asked for or elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.evidence.tasks.numbers import is_plain, numbers, plain
from power.evidence.tasks.scoring import Score, score
from power.evidence.tasks.task import SCORERS, Scorer, Task, make_task
from power.evidence.tasks.words import holds, words

CITIES = ("Ulm", "Aalen", "Lindau am See", "Lindau")


def task(scorer: Scorer, answer: str) -> Task:
    return make_task("t", "?", CITIES if scorer == "choice" else (), answer, scorer)


def judged(one: Task, text: str, *, chat: bool = True, truncated: bool = False) -> Score:
    return score(one, text.encode(), chat=chat, truncated=truncated)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,200", ["1200"]),
        ("1,234,567.50", ["1234567.5"]),
        ("5,6 and 1,2000", ["5", "6", "1", "2000"]),
        ("12.", ["12"]),
        ("12...", ["12"]),
        (".5", ["0.5"]),
        ("0.50", ["0.5"]),
        ("007", ["7"]),
        ("-7", ["-7"]),
        ("\u22127 degrees", ["-7"]),
        ("-0", ["0"]),
        ("-0.0", ["0"]),
        ("10-3", ["10", "3"]),
        ("(4)-3", ["4", "3"]),
        ("- 5 apples", ["5"]),
        ("$1,000", ["1000"]),
        ("-$5.25", ["-5.25"]),
        ("$-5.25", ["-5.25"]),
        ("50%", ["50"]),
        ("5kg", ["5"]),
        ("B2 x12 _3", []),
        ("3/4", ["3", "4"]),
        ("2024-03-01", ["2024", "3", "1"]),
        ("\u0663", []),
        ("none", []),
        ("", []),
    ],
)
def test_numbers_in_text(text: str, expected: list[str]) -> None:
    assert numbers(text) == expected


@given(st.integers(), st.integers(0, 10**6))
def test_a_number_is_found_in_every_spelling(whole: int, part: int) -> None:
    text = f"{whole}.{part}"
    value = plain(text)
    assert is_plain(value)
    assert plain(value) == value
    for spelled in (text, f"{whole:,}.{part}", f"{text}00", f"so {text}, or", f"${text}."):
        assert numbers(spelled) == [value]


@given(st.text())
def test_every_number_that_is_found_is_in_its_one_form(text: str) -> None:
    assert all(is_plain(one) and plain(one) == one for one in numbers(text))


@pytest.mark.parametrize(
    ("text", "answer", "lenient", "strict"),
    [
        ("12 * 6 = 72\nAnswer: 72", "72", True, True),
        ("Answer: 72\n\n", "72", True, True),
        ("Answer: 72.0", "72", True, True),
        ("Answer: 72.", "72", True, False),
        ("Answer: 7,2", "7", False, False),
        ("Answer: $72", "72", True, False),
        ("answer: 72", "72", True, False),
        ("Answer:72", "72", True, False),
        ("  Answer: 72", "72", True, False),
        ("**Answer:** 72", "72", True, False),
        ("The answer is 72 cars, since 18 * 4 is 72.0", "72", True, False),
        ("So it takes 72", "72", True, False),
        ("#### 72", "72", True, False),
        ("72 cars in 4 crossings", "4", False, False),
        ("Answer: 72\nAnswer: 72", "72", True, False),
        ("Answer: 12\nNo. Answer: 72", "72", True, False),
        ("Answer: 72\nBut wait", "72", True, False),
        ("It is 72. Answer:", "72", True, False),
        ("seventy-two", None, False, False),
        ("", None, False, False),
    ],
)
def test_a_number(text: str, answer: str | None, lenient: bool, strict: bool) -> None:
    assert judged(task("number", "72"), text) == Score(answer, lenient, strict)


@pytest.mark.parametrize(
    ("text", "answer", "strict"),
    [
        ("Answer: B", "B", True),
        ("It is in the east.\nAnswer: B", "B", True),
        ("Answer: (B)", "B", False),
        ("Answer: B.", "B", False),
        ("Answer: **B**", "B", False),
        ("Answer: b", "B", False),
        ("The correct answer is option B, because", "B", False),
        ("B", "B", False),
        ("b", "B", False),
        ("(B)", "B", False),
        ("(b) since", "B", False),
        ("B.", "B", False),
        ("B) Aalen", "B", False),
        ("B: Aalen", "B", False),
        ("B because of the lake", "B", False),
        ("I think (C), no, it must be (B)", "B", False),
        ("They change in Aalen.", "B", False),
        ("Answer: Aalen, not Ulm\nas Ulm is far", None, False),
        ("A. Ulm\nB. Aalen\nC. Lindau am See\nD. Lindau", None, False),
        ("A. Ulm\nB. Aalen\n\nAnswer: B", "B", True),
        ("A train leaves", None, False),
        ("A is far, yet", "A", False),
        ("Answer: E", None, False),
        ("E", None, False),
        ("Because", None, False),
        ("I'd say", None, False),
        ("Answer: Lindau am See", "C", False),
        ("Answer: Lindau", "D", False),
        ("", None, False),
    ],
)
def test_a_choice(text: str, answer: str | None, strict: bool) -> None:
    assert judged(task("choice", "B"), text) == Score(answer, answer == "B", strict)


@pytest.mark.parametrize(
    ("text", "lenient", "strict"),
    [
        ("Answer: grey heron", True, True),
        ("Answer: Grey heron", True, False),
        ("Answer: grey heron.", True, False),
        ("The answer is the GREY  heron", True, False),
        ("It says: the grey-heron waits", True, False),
        ("grey and heron", False, False),
        ("grey herons", False, False),
        ("Answer: stork\nNo: the grey heron", False, False),
        ("Answer:\nthe grey heron", True, False),
        ("", False, False),
    ],
)
def test_a_text(text: str, lenient: bool, strict: bool) -> None:
    found = judged(task("text", "grey heron"), text)
    assert (found.lenient, found.strict) == (lenient, strict)


@pytest.mark.parametrize("scorer", SCORERS)
def test_what_was_cut_is_never_strictly_right(scorer: Scorer) -> None:
    one = task(scorer, "1" if scorer == "number" else "A")
    text = f"Answer: {one.answer}"
    assert judged(one, text).strict
    cut = judged(one, text, truncated=True)
    assert (cut.lenient, cut.strict) == (True, False)


@pytest.mark.parametrize(
    "text", ["*", "(", "'( ", "answer ", "1,", "Answer: A ", "\n", " A.\n", "ﷺ"]
)
@pytest.mark.parametrize("scorer", SCORERS)
def test_a_model_that_repeats_itself_for_ever_is_judged(scorer: Scorer, text: str) -> None:
    """In time that grows as the text does: with its square, this would take minutes."""
    one = task(scorer, {"number": "5", "choice": "B", "text": "far"}[scorer])
    assert not judged(one, text * 100_000).strict


def test_text_that_the_prompt_began_is_judged_with_it() -> None:
    assert judged(task("number", "72"), " 72", chat=False) == Score("72", lenient=True, strict=True)
    assert not judged(task("number", "72"), " 72").strict


def test_bytes_that_are_no_text_are_judged_all_the_same() -> None:
    found = score(task("number", "72"), b"\xff 72", chat=True, truncated=False)
    assert found == Score("72", lenient=True, strict=False)


def answers() -> st.SearchStrategy[Task]:
    """Sound tasks of every scorer."""

    def numeric(value: Any) -> Task:
        return task("number", str(value))

    lines = st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=40
    )
    return st.one_of(
        st.integers().map(numeric),
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-9, max_value=9).map(
            lambda value: numeric(format(value, "f"))
        ),
        st.sampled_from("ABCD").map(lambda letter: task("choice", letter)),
        lines.filter(words).map(lambda text: task("text", text)),
    )


@given(answers(), st.text(max_size=30))
def test_the_form_that_was_asked_for_is_right(one: Task, before: str) -> None:
    text = f"{before.replace('Answer', '')}\nAnswer: {one.answer}\n"
    found = judged(one, text)
    assert (found.lenient, found.strict) == (True, True)


@given(answers(), st.text(), st.booleans(), st.booleans())
def test_what_is_strictly_right_is_leniently_right(
    one: Task, text: str, chat: bool, truncated: bool
) -> None:
    found = judged(one, text, chat=chat, truncated=truncated)
    assert found.lenient >= found.strict
    assert found.answer != ""


@given(st.text())
def test_words_have_one_form(text: str) -> None:
    assert words(words(text)) == words(text)
    assert not words(text) or holds(words(f"so {text} it"), words(text))
