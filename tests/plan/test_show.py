"""A plan for a person."""

from power.plan import lock
from power.plan.show import show_text
from tests.plan import vectors


def test_the_good_plan_as_a_person_sees_it() -> None:
    plan = lock.load(vectors.FOLDER / "good.lock")
    assert show_text(plan) == (vectors.FOLDER / "good.txt").read_text("utf-8")


def test_terminal_escapes_in_a_plan_are_shown_not_obeyed() -> None:
    plan = lock.load(vectors.FOLDER / "good.lock")
    body = plan.body()
    body["target"]["license"] = "\x1b[2J\u202eMIT"
    assert "\\x1b[2J\\u202eMIT" in show_text(lock.seal(body))
