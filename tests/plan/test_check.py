"""`--check`: the lock is what compiling now gives, or it is told how it is not."""

import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan.check import check_lock
from power.plan.compile import write_lock
from tests.plan.conftest import Workspace


def refusal(workspace: Workspace) -> PowerError:
    with pytest.raises(PowerError) as caught:
        check_lock(workspace.lock, workspace.compile())
    return caught.value


@pytest.fixture
def locked(workspace: Workspace) -> Workspace:
    write_lock(workspace.lock, workspace.compile())
    return workspace


def test_a_current_lock_passes(locked: Workspace) -> None:
    check_lock(locked.lock, locked.compile())


def test_a_stale_lock_names_each_fact_with_both_values(locked: Workspace) -> None:
    locked.write(draft="d.gguf", settings="[speculation]\nspec_draft_max = 4\n")
    error = refusal(locked)
    assert error.exit_code is ExitCode.NO
    assert {d.code for d in error.diagnostics} == {"P437"}
    told = {d.message.split("`")[1]: (d.found, d.expected) for d in error.diagnostics}
    del told["manifest.sha256"]
    assert told == {
        "speculation.spec_draft_max": ("7", "4"),
        "speculation.effective_snapshots": ("7", "4"),
        "graph.batch": ("9", "6"),
    }
    assert all(d.spans[0].file == str(locked.lock) for d in error.diagnostics)


def test_a_fact_that_came_or_went_is_told_as_absent(locked: Workspace) -> None:
    locked.write(draft="d.gguf", settings="[bounds]\nmin_acceptance = 0.5\n")
    told = {d.message.split("`")[1]: (d.found, d.expected) for d in refusal(locked).diagnostics}
    assert told["bounds.min_acceptance"] == ("absent", "0.5")


def test_many_changes_are_cut_to_a_dozen(locked: Workspace) -> None:
    locked.write(settings="[sampling]\ntemperature = 0.5\n")
    found = refusal(locked).diagnostics
    assert len(found) == 13
    assert "more facts" in found[-1].message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("context = 64", "context = 32"),
        ("context = 64", "context =  64"),
        ("context = 64", "context = '64'"),
        ("context = 64", "context = 64\nturbo = true"),
        ("context = 64", "context ="),
    ],
)
def test_an_edited_lock_is_told_as_edited(locked: Workspace, old: str, new: str) -> None:
    text = locked.lock.read_text("utf-8")
    locked.lock.write_text(text.replace(f"\n{old}\n", f"\n{new}\n"), "utf-8")
    error = refusal(locked)
    assert [d.code for d in error.diagnostics] == ["P438"]
    assert error.exit_code is ExitCode.NO


def test_conflict_markers_keep_their_own_message(locked: Workspace) -> None:
    locked.lock.write_text("<<<<<<< ours\n" + locked.lock.read_text("utf-8"), "utf-8")
    assert [d.code for d in refusal(locked).diagnostics] == ["P431"]


def test_a_missing_lock_is_told(workspace: Workspace) -> None:
    found = refusal(workspace).diagnostics[0]
    assert (found.code, found.hint) == ("P430", "make it with `power compile`")
