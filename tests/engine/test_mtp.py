"""Native MTP: what the block sees is what the target really said, after any round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from power.backends.errors import EngineError
from power.backends.interface import EngineConfig, SamplingConfig
from power.backends.llamacpp import BACKEND
from power.backends.llamacpp.context import Context, ContextConfig
from power.backends.llamacpp.mtp import Mtp
from power.backends.llamacpp.reduced_head import read_head
from power.backends.llamacpp.tensor_file import find_tensors
from power.diagnostics import PowerError
from power.speculation.outcome import Outcome

Models = Mapping[str, tuple[Path, ...]]
PROMPT = [7, 100, 200, 33, 12, 250, 9]
PROMPTS = (PROMPT, [5], [1, 10, 20, 30, 40], list(range(3, 60)), [44, 45, 46])


class Pair:
    """Target and block driven by hand, as the scheduler drives them."""

    def __init__(self, engine: Any, prompt: list[int]) -> None:
        session = engine.session(SamplingConfig(), control=False)
        self.target, self.mtp = session.target, session.proposer
        assert isinstance(self.mtp, Mtp)
        self.text = list(prompt)
        self.target.prefill(prompt[:-1])
        self.mtp.begin(prompt)

    def round(self, accepted: int, width: int, last: int = 200) -> None:
        """A round that accepts so many of `width` proposed tokens and then emits `last`."""
        proposal = self.mtp.propose(width) if width else []
        assert len(proposal) == width
        self.emit(proposal, [*proposal[:accepted], last], accepted)

    def emit(self, proposal: list[int], emitted: list[int], accepted: int) -> None:
        self.target.evaluate([self.text[-1], *proposal])
        assert self.target.commit(len(emitted))
        self.mtp.commit(emitted, accepted)
        self.text += emitted


@pytest.fixture
def engine(lab: Any) -> Any:
    return lab.open("mtp", target="qwen35", snapshots=7, rows=8)


def expected(engine: Any, text: list[int]) -> list[int]:
    """What a block proposes that saw `text` once, token by token."""
    pair = Pair(engine, PROMPT)
    for token in text[len(PROMPT) :]:
        pair.round(0, 0, token)
    return list(pair.mtp.propose(7))


@pytest.mark.parametrize("accepted", range(8))
@pytest.mark.parametrize("width", [1, 7])
def test_after_any_round_it_proposes_what_a_fresh_one_would(
    engine: Any, width: int, accepted: int
) -> None:
    pair = Pair(engine, PROMPT)
    for _ in range(3):
        pair.round(min(accepted, width), width)
        pair.round(0, 7, last=201)  # all wrong
        pair.round(0, 0, last=202)  # not asked
    proposal = pair.mtp.propose(7)
    assert proposal == expected(engine, pair.text)
    assert len(set(proposal)) > 1


def test_the_block_holds_one_row_a_token(engine: Any) -> None:
    """Rows with stand-in states never stay, and none is missing when it proposes."""
    pair = Pair(engine, PROMPT)
    for accepted in (7, 0, 3, 7, 7, 1):
        pair.round(accepted, 7)
        before = len(pair.text)
        pair.mtp.propose(1)
        assert pair.mtp._context.filled() == before
        pair.mtp.restore(pair.mtp.checkpoint())
        pair.round(0, 0)


def test_an_accepted_end_has_no_bonus_behind_it(engine: Any) -> None:
    """A round may emit just what it accepted: its last token is then the next anchor."""
    pair = Pair(engine, PROMPT)
    proposal = pair.mtp.propose(5)
    pair.emit(proposal, proposal[:3], 3)
    actual = pair.mtp.propose(7)
    assert actual == expected(engine, pair.text)


def test_restore_forgets_proposals_and_commits(engine: Any) -> None:
    pair = Pair(engine, PROMPT)
    pair.round(2, 5)
    at, of_target = pair.mtp.checkpoint(), pair.target.checkpoint()
    text = list(pair.text)
    first = pair.mtp.propose(7)
    pair.mtp.restore(at)
    for accepted in (0, 3, 7):
        assert pair.mtp.propose(7) == first
        pair.emit(first, [*first[:accepted], 200], accepted)
        pair.mtp.propose(5)
        pair.target.restore(of_target)  # evaluates the committed pieces again
        pair.mtp.restore(at)
        pair.text = list(text)
    assert pair.mtp.propose(7) == first


def test_a_replayed_pass_is_seen_again(lab: Any) -> None:
    engine = lab.open("mtp", target="qwen35", snapshots=3)
    pair = Pair(engine, PROMPT)
    checkpoint = pair.target.checkpoint()
    proposal = pair.mtp.propose(7)
    anchor = pair.text[-1]
    pair.target.evaluate([anchor, *proposal])
    assert not pair.target.commit(3)
    pair.target.replay(checkpoint, [anchor, *proposal[:2]])
    pair.mtp.commit([*proposal[:2], 200], 2)
    pair.text += [*proposal[:2], 200]
    actual = pair.mtp.propose(7)
    assert actual == expected(engine, pair.text)


def test_a_foreign_checkpoint_is_refused(engine: Any) -> None:
    with pytest.raises(ValueError, match="checkpoint"):
        Pair(engine, PROMPT).mtp.restore(object())


def test_a_prompt_that_nobody_showed_is_refused(engine: Any) -> None:
    """Without the target's states the block would propose from nothing and only cost time."""
    session = engine.session(SamplingConfig(), control=False)
    with pytest.raises(RuntimeError, match="observed"):
        session.proposer.begin(PROMPT)


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many rounds accepted how many tokens, of every run of the test."""
    seen: Counter[int] = Counter()
    commit = Mtp.commit

    def spy(self: Mtp, emitted: Any, count: int) -> None:
        seen[count] += 1
        commit(self, emitted, count)

    monkeypatch.setattr(Mtp, "commit", spy)
    return seen


def runs(lab: Any, engine: Any, **settings: Any) -> list[Outcome]:
    """One run a prompt, each with the ids of its control run."""
    out = []
    for prompt in PROMPTS:
        control = lab.run(engine, prompt, control=True, **settings)
        assert control.counters.drafted == 0
        outcome = lab.run(engine, prompt, **settings)
        assert outcome.error is None
        assert outcome.ids == control.ids
        out.append(outcome)
    return out


def table_of(path: Path) -> list[int]:
    with path.open("rb") as file:
        return [int(i) for i in find_tensors(file.fileno(), lambda _: True)["d2t"].integers()]


def rate(outcomes: list[Outcome]) -> float:
    return sum(o.counters.accepted for o in outcomes) / sum(o.counters.drafted for o in outcomes)


@pytest.mark.parametrize("rows", [True, False], ids=["fixed", "natural"])
@pytest.mark.parametrize("target", ["qwen35", "qwen35-wide"])
@pytest.mark.parametrize("k", [1, 3, 7, 8])
def test_the_ids_are_the_controls(lab: Any, k: int, target: str, rows: bool) -> None:
    engine = lab.open("mtp", target=target, draft_max=k, snapshots=k, rows=k + 1 if rows else None)
    assert 0 < rate(runs(lab, engine, k=k)) < 1


@pytest.mark.parametrize("target", ["qwen35", "qwen35-wide"])
def test_rejected_suffixes_of_every_length_occur(
    lab: Any, accepted: Counter[int], target: str
) -> None:
    runs(lab, lab.open("mtp", target=target, snapshots=7, rows=8))
    assert set(accepted) == set(range(8))


def test_sampled_ids_are_the_controls(lab: Any, engine: Any) -> None:
    sampling = SamplingConfig(temperature=0.8, top_k=40, seed=7)
    assert rate(runs(lab, engine, sampling=sampling)) > 0


@pytest.mark.parametrize("target", ["qwen35", "qwen35-wide"])
def test_without_the_targets_states_nothing_is_right(
    lab: Any, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """The fixture tells a block that reads the states from one that does not: none is a hit."""
    engine = lab.open("mtp", target=target, snapshots=7, rows=8)
    nextn = Context.nextn
    monkeypatch.setattr(Context, "nextn", lambda self, rows: np.zeros_like(nextn(self, rows)))
    outcomes = runs(lab, engine)
    assert all(outcome.counters.drafted for outcome in outcomes)
    assert [outcome.counters.accepted for outcome in outcomes] == [0] * len(PROMPTS)


@pytest.mark.complaint(n=22)
def test_the_adaptive_width_keeps_the_ids(lab: Any) -> None:
    engine = lab.open("mtp", target="qwen35", snapshots=4, draft_max=7)
    outcomes = runs(lab, engine, snapshots=4, controller="adaptive")
    assert 0 < rate(outcomes) < 1
    assert {width for o in outcomes for width, _ in o.counters.widths} >= {4}


def test_p_min_shortens_proposals(lab: Any) -> None:
    """From 0, which asks for nothing, to 1, which few float32 sums reach."""
    drafted = []
    for p_min in (0.0, 0.6, 1.0):
        engine = lab.open("mtp", target="qwen35", snapshots=7, rows=8, draft_p_min=p_min)
        drafted.append(sum(o.counters.drafted for o in runs(lab, engine)))
    assert drafted[0] > drafted[1] > drafted[2]


def test_the_head_of_all_rows_is_the_engines_own(lab: Any) -> None:
    """Projected outside, a hidden row says what the engine's head says of it, up to rounding."""
    with lab.fds("qwen35") as fds:
        head = read_head(fds, 320)
    assert head.rows == 320
    engine = lab.open("mtp", target="qwen35", snapshots=7, rows=8)
    pair = Pair(engine, PROMPT)
    block = pair.mtp._context
    hidden = np.ones((1, 64), np.float32)
    logits = block.decode([42], len(PROMPT) - 1, 1, hidden)[0].copy()
    assert np.allclose(head.project(block.nextn(1)[0]), logits, atol=1e-3)


def test_a_reduced_head_says_the_first_tokens_only(lab: Any) -> None:
    full = lab.open("mtp", target="qwen35-wide", snapshots=7, rows=8)
    reduced = lab.open(
        "mtp", target="qwen35-wide", snapshots=7, rows=8, fr_rule="prefix", fr_vocab_size=8192
    )
    assert 0 < rate(runs(lab, reduced)) <= rate(runs(lab, full))
    highest = 0
    for start in range(0, 9000, 1500):
        pair = Pair(reduced, [start + 3 + i for i in range(5)])
        highest = max(highest, *pair.mtp.propose(7))
    assert 4096 < highest < 8192


RANKED = {"fr_rule": "d2t", "fr_vocab_size": 280, "draft": "mtp-d2t"}


@pytest.mark.parametrize("rows", [8, None], ids=["fixed", "natural"])
def test_a_table_says_its_own_tokens(lab: Any, models: Models, rows: int | None) -> None:
    """As many as it names, by name; the ids are the control's all the same."""
    ids = set(table_of(models["mtp-d2t"][0]))
    ranked = lab.open("mtp", target="qwen35", snapshots=7, rows=rows, **RANKED)
    full = lab.open("mtp", target="qwen35", snapshots=7, rows=rows)
    assert 0 < rate(runs(lab, ranked)) <= rate(runs(lab, full))
    for start in range(3, 300, 29):
        proposal = Pair(ranked, [start, start + 1, start + 2]).mtp.propose(7)
        assert ids.issuperset(proposal)


def test_a_table_proposes_what_the_whole_head_would_where_it_has_it(
    lab: Any, models: Models
) -> None:
    """A row is the token that its table says: the first proposed token is the full head's."""
    ids = set(table_of(models["mtp-d2t"][0]))
    ranked = lab.open("mtp", target="qwen35", snapshots=7, **RANKED)
    full = lab.open("mtp", target="qwen35", snapshots=7)
    same = 0
    for start in range(3, 300, 11):
        prompt = [start, start + 1, start + 2]
        (expected,) = Pair(full, prompt).mtp.propose(1)
        if expected in ids:
            assert Pair(ranked, prompt).mtp.propose(1) == [expected]
            same += 1
    assert same > 15


def test_a_table_of_a_larger_vocabulary(lab: Any) -> None:
    wide = {**RANKED, "fr_vocab_size": 8192, "draft": "mtp-d2t-wide"}
    ranked = lab.open("mtp", target="qwen35-wide", snapshots=7, rows=8, **wide)
    assert 0 < rate(runs(lab, ranked)) < 1


def test_p_min_is_a_share_of_the_rows_that_are_there(lab: Any) -> None:
    drafted = []
    for p_min in (0.0, 0.6, 1.0):
        engine = lab.open("mtp", target="qwen35", snapshots=7, draft_p_min=p_min, **RANKED)
        drafted.append(sum(o.counters.drafted for o in runs(lab, engine)))
    assert drafted[0] > drafted[1] > drafted[2]


def test_a_table_of_another_model_s_tokens_is_refused(lab: Any) -> None:
    """Past the contracts: a row that the head does not have ends the loading, not the process."""
    with pytest.raises(EngineError, match="no output head of"):
        lab.open("mtp", target="qwen35", snapshots=7, **{**RANKED, "draft": "mtp-d2t-wide"})
    with pytest.raises(EngineError, match="no table"):
        lab.open("mtp", target="qwen35", snapshots=7, **{**RANKED, "draft": "draft"})


def test_a_table_that_the_plan_does_not_use_is_refused(lab: Any) -> None:
    with lab.fds("qwen35") as target, lab.fds("mtp-d2t") as draft:
        for rule, given in (("full", draft), ("d2t", ())):
            config = EngineConfig(target, given, "mtp", draft_max=7, snapshots=7, fr_rule=rule)
            with pytest.raises(PowerError) as caught:
                BACKEND.open(config, lambda _: None)
            assert caught.value.diagnostics[0].code == "P529"


def test_a_head_of_more_rows_than_tokens_is_refused(lab: Any) -> None:
    with pytest.raises(Exception, match="no output head of 321 rows"), lab.fds("qwen35") as fds:
        read_head(fds, 321)


@pytest.mark.complaint(n=5)
def test_the_block_is_loaded_for_mtp_alone(lab: Any) -> None:
    """And a context of it without the block, which would end the process, is refused."""
    assert lab.open("mtp", target="qwen35", snapshots=7)._model.has_mtp
    plain = lab.open("off", target="qwen35", draft_max=0)._model
    assert not plain.has_mtp
    with pytest.raises(ValueError, match="MTP"):
        Context(plain, ContextConfig(512, 32, 1, 1, kind="mtp"))


def test_a_target_without_a_block_is_refused(lab: Any) -> None:
    with pytest.raises(PowerError) as caught:
        lab.open("mtp", target="qwen35-no-mtp", snapshots=7)
    assert caught.value.diagnostics[0].code == "P529"


@pytest.mark.complaint(n=23)
def test_two_drafts_are_never_loaded(lab: Any) -> None:
    with lab.fds("qwen35") as target, lab.fds("draft") as draft:
        config = EngineConfig(target=target, draft=draft, strategy="mtp", draft_max=7, snapshots=7)
        with pytest.raises(PowerError) as caught:
            BACKEND.open(config, lambda _: None)
    assert caught.value.diagnostics[0].code == "P529"


def test_tokens_alone_are_no_rows_of_the_block(engine: Any) -> None:
    """The library takes them, and uses whatever states it saw last."""
    block = Pair(engine, PROMPT).mtp._context
    with pytest.raises(ValueError, match="embeddings"):
        block.decode([5], len(PROMPT) - 1, outputs=1)
