"""The two rules of speculation that other rooms hold, broken on purpose."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from power.artifact import comparison
from power.artifact.findings import Findings
from power.artifact.header import read_header
from power.artifact.vocabulary import MODEL, Vocabulary, vocabulary_of
from power.backends.scripted.model import ScriptedModel
from power.backends.scripted.target import ScriptedTarget
from power.plan import rules
from tests.artifact.build import STRING, TOKENS, Gguf, tokenizer
from tests.property.mutation import Mutant

BATCH = Mutant("B >= K + 1", "power.plan.rules", "batch < k + 2:", "batch < k + 1:")
FROM_FIVE = Mutant(
    "vocabularies compared from id 5",
    "power.artifact.comparison",
    "enumerate(pairs) if a != b), None)",
    "enumerate(pairs) if a != b and index >= 5), None)",
)


def allows(module: ModuleType, k: int, batch: int) -> bool:
    """Whether the plan rules let a batch of `batch` rows pass for a width of `k`."""
    plan = SimpleNamespace(
        speculation=SimpleNamespace(spec_draft_max=k), graph=SimpleNamespace(batch=batch)
    )
    return not list(module._batch_room(plan))


def runs(k: int, batch: int) -> bool:
    """Whether an engine with K rollback planes works at that batch."""
    try:
        ScriptedTarget(ScriptedModel(8), context=64, window=k, batch=batch)
    except ValueError:
        return False
    return True


def disagreements(module: ModuleType) -> list[tuple[int, int]]:
    """Widths and batches that the rules allow and the engine refuses, or the reverse."""
    return [
        (k, batch)
        for k in range(1, 9)
        for batch in range(1, 13)
        if allows(module, k, batch) != runs(k, batch)
    ]


def test_a_batch_is_allowed_where_the_engine_has_room_for_it() -> None:
    assert disagreements(rules) == []


@pytest.mark.complaint(n=12)
def test_a_staging_row_less_is_noticed() -> None:
    assert disagreements(BATCH.build()) == [(k, k + 1) for k in range(1, 9)]


@pytest.fixture
def vocabularies(tmp_path: Path) -> list[Vocabulary]:
    """A vocabulary, then one with another text at id 0, at id 1, and so on to id 31."""
    others = [[*TOKENS[:i], "other", *TOKENS[i + 1 :]] for i in range(len(TOKENS))][:32]
    return [_read(tmp_path / f"{i}.gguf", tokens) for i, tokens in enumerate([TOKENS, *others])]


def _read(path: Path, tokens: list[str] | list[str | bytes]) -> Vocabulary:
    gguf = tokenizer(Gguf(), tokens).put(MODEL, STRING, "t5")  # any text may be any other
    path.write_bytes(gguf.encode())
    fd = os.open(path, os.O_RDONLY)
    try:
        return vocabulary_of(read_header(fd, path.stat().st_size, path.name))
    finally:
        os.close(fd)


def unnoticed(module: ModuleType, vocabularies: list[Vocabulary]) -> list[int]:
    """The ids at which another text goes unnoticed."""
    target, *drafts = vocabularies
    missed = []
    for index, draft in enumerate(drafts):
        findings = Findings()
        module._texts(findings, draft, target)
        if not len(findings):
            missed.append(index)
    return missed


def test_another_text_is_noticed_at_every_id(vocabularies: list[Vocabulary]) -> None:
    assert unnoticed(comparison, vocabularies) == []


@pytest.mark.complaint(n=3)
def test_comparing_from_id_five_is_noticed(vocabularies: list[Vocabulary]) -> None:
    assert unnoticed(FROM_FIVE.build(), vocabularies) == [0, 1, 2, 3, 4]
