"""The draft's memory always holds the text as it was emitted, whatever was proposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from power.backends.llamacpp.context import Context, ContextConfig
from power.backends.llamacpp.draft_model import DraftModel
from power.backends.llamacpp.model import Model

PROMPT = [1, 10, 20, 30, 40, 50]
Make = Callable[..., DraftModel]


@pytest.fixture
def make(lab: Any, models: Mapping[str, tuple[Path, ...]]) -> Iterator[Make]:
    """A draft on a context of its own. The model depends on all of the text before."""
    assert "target" in models
    with ExitStack() as stack, lab.fds("target") as fds:
        model = Model(fds, what="draft")
        stack.callback(model.close)

        def make(prompt: list[int] = PROMPT, *, p_min: float = 0.0) -> DraftModel:
            context = Context(model, ContextConfig(512, 16, 1, 1))
            stack.callback(context.close)
            draft = DraftModel(context, max_width=7, p_min=p_min)
            draft.begin(prompt)
            return draft

        yield make


@pytest.mark.complaint(n=8)
@pytest.mark.parametrize("accepted", range(8))
@pytest.mark.parametrize("width", [1, 7])
def test_after_any_round_it_proposes_what_a_fresh_one_would(
    make: Make, width: int, accepted: int
) -> None:
    accepted = min(accepted, width)
    draft, text = make(), list(PROMPT)
    for _ in range(3):
        emitted = [*draft.propose(width)[:accepted], 200]
        draft.commit(emitted, accepted)
        text += emitted
        assert len(draft.propose(7)) == 7
        draft.commit([201], 0)  # and after a proposal that was all wrong
        text.append(201)
    assert draft.propose(7) == make(text).propose(7)


@pytest.mark.complaint(n=22)
def test_it_keeps_up_when_it_is_not_asked(make: Make) -> None:
    draft, text = make(), list(PROMPT)
    assert draft.backlog() == len(PROMPT) - 1
    draft.propose(1)
    assert draft.backlog() == 0
    for token in range(100, 140):  # more than a batch
        draft.commit([token], 0)
        text.append(token)
    assert draft.backlog() == 39  # the last one is the anchor
    assert draft.propose(7) == make(text).propose(7)


def test_only_the_last_of_an_accepted_proposal_is_still_to_be_evaluated(make: Make) -> None:
    draft = make()
    proposal = draft.propose(3)
    draft.commit([*proposal, 200], 3)
    assert draft.backlog() == 1
    draft.propose(3)
    draft.commit([201], 0)
    assert draft.backlog() == 0


def test_restore_forgets_proposals_and_commits(make: Make) -> None:
    draft = make()
    expected = make().propose(7)
    checkpoint = draft.checkpoint()
    for accepted in (0, 3, 7):
        draft.propose(7)
        draft.restore(checkpoint)
        assert draft.propose(7) == expected
        draft.commit([*expected[:accepted], 200], accepted)
        draft.propose(5)
        draft.restore(checkpoint)
        assert draft.propose(7) == expected


def test_a_refused_trim_costs_time_only(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = make()
    monkeypatch.setattr(Context, "trim", lambda _self, _cells: False)
    draft.propose(7)
    draft.commit([200], 0)
    assert draft.propose(7) == make([*PROMPT, 200]).propose(7)


def test_one_token_is_a_prompt(make: Make) -> None:
    assert make([5]).propose(3) == make([5]).propose(7)[:3]


def test_a_foreign_checkpoint_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        make().restore(object())
