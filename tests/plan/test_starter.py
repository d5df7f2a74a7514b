"""`power init` on real files: what it writes compiles, wherever the manifest lies."""

from __future__ import annotations

import pytest

from power.diagnostics import PowerError
from power.manifest.form import canonical
from power.manifest.load import parse_manifest
from power.plan.starter import at_hand, starter
from tests.plan.conftest import Workspace

TINY = "gguf/good-v3-target.gguf"
SPLIT = "m-{:05}-of-00002.gguf"


def test_the_first_manifest_compiles(workspace: Workspace) -> None:
    target = workspace.add(TINY, "models/Tiny Llama.gguf")
    workspace.manifest.write_text(starter(target, folder=workspace.folder), "utf-8")
    plan = workspace.compile().plan
    assert (plan.name, plan.target.path) == ("tiny-llama", "models/Tiny Llama.gguf")
    assert plan.speculation.strategy == "prompt-lookup"


def test_a_draft_is_pinned_and_bound(workspace: Workspace) -> None:
    target, draft = (workspace.folder / name for name in ("t.gguf", "d.gguf"))
    workspace.manifest.write_text(starter(target, draft=draft, folder=workspace.folder), "utf-8")
    plan = workspace.compile().plan
    assert plan.draft is not None
    assert (plan.draft.path, plan.draft.target_sha256) == ("d.gguf", plan.target.sha256)


def test_an_artifact_elsewhere_needs_a_root(workspace: Workspace) -> None:
    target = workspace.add(TINY, "store/t.gguf")
    folder = workspace.folder / "manifests"
    folder.mkdir()
    text = starter(target, folder=folder)
    assert "`--artifacts`" in text
    assert parse_manifest(text.encode(), "m").manifest.target.path == "t.gguf"


def test_progress_covers_every_byte(workspace: Workspace) -> None:
    target = workspace.folder / "t.gguf"
    seen: list[tuple[int, int]] = []
    starter(
        target, folder=workspace.folder, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (target.stat().st_size, target.stat().st_size)


def test_what_is_no_model_is_refused(workspace: Workspace) -> None:
    path = workspace.folder / "notes.gguf"
    path.write_text("not a model at all, only words", "utf-8")
    with pytest.raises(PowerError) as caught:
        starter(path, folder=workspace.folder)
    assert caught.value.diagnostics[0].code.startswith("P2")


def test_a_file_that_is_not_there_is_looked_for_nowhere_else(workspace: Workspace) -> None:
    path = workspace.folder / "nowhere.gguf"
    with pytest.raises(PowerError) as caught:
        starter(path, folder=workspace.folder)
    (found,) = caught.value.diagnostics
    assert (found.code, found.expected, found.hint) == ("P221", str(path), "check the path")


def test_a_name_that_is_none_is_refused(workspace: Workspace) -> None:
    target = workspace.folder / "t.gguf"
    with pytest.raises(PowerError) as caught:
        starter(target, name="Not A Name", folder=workspace.folder)
    assert [found.code for found in caught.value.diagnostics] == ["P117"]


def test_every_file_of_a_split_model_is_pinned(workspace: Workspace) -> None:
    for number in (1, 2):
        workspace.add(f"split/good-split-2/{SPLIT.format(number)}")
    target = workspace.folder / SPLIT.format(1)
    workspace.manifest.write_text(starter(target, folder=workspace.folder), "utf-8")
    shards = workspace.compile().plan.target.shards
    assert shards is not None
    assert [shard.path for shard in shards] == [SPLIT.format(1), SPLIT.format(2)]


def test_the_first_manifest_is_in_its_canonical_form(workspace: Workspace) -> None:
    text = starter(workspace.folder / "t.gguf", draft=workspace.folder / "d.gguf")
    assert canonical(text, "m") == text


def test_two_files_are_told_apart(workspace: Workspace) -> None:
    (target, draft) = at_hand(workspace.folder)
    assert {target.name, draft and draft.name} == {"t.gguf", "d.gguf"}


def test_the_one_file_is_the_target_and_later_shards_are_no_files(workspace: Workspace) -> None:
    folder = workspace.folder / "split"
    for number in (1, 2):
        workspace.add(f"split/good-split-2/{SPLIT.format(number)}", f"split/{SPLIT.format(number)}")
    assert at_hand(folder) == (folder / SPLIT.format(1), None)


@pytest.mark.parametrize("more", ["none", "three"])
def test_what_cannot_be_told_is_asked_for(workspace: Workspace, more: str) -> None:
    folder = workspace.folder if more == "three" else workspace.folder / "empty"
    folder.mkdir(exist_ok=True)
    workspace.add(TINY, "third.gguf")
    with pytest.raises(PowerError) as caught:
        at_hand(folder)
    assert caught.value.diagnostics[0].code == "P703"


def test_a_draft_that_is_none_is_refused(workspace: Workspace) -> None:
    wrong = workspace.add("gguf/draft-vocab-swapped.gguf")
    with pytest.raises(PowerError) as caught:
        starter(workspace.folder / "t.gguf", draft=wrong)
    assert caught.value.diagnostics[0].code.startswith("P3")
