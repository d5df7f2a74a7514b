"""Before a run: every artifact and every fact of the plan is checked again, on sealed bytes."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan import host, lock, verified
from power.plan.model import Plan
from power.plan.verified import open_verified
from tests.artifact import build
from tests.plan.conftest import Engine, Workspace


@pytest.fixture
def plan(workspace: Workspace) -> Plan:
    return workspace.compile().plan


def refusal(plan: Plan, workspace: Workspace) -> PowerError:
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(PowerError) as caught:
        open_verified(plan, workspace.lock, [])
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    return caught.value


def edited(plan: Plan, change: Callable[[dict[str, Any]], None]) -> Plan:
    body = plan.body()
    change(body)
    return lock.seal(body)


def test_what_is_handed_over_is_the_sealed_bytes_of_the_plan(
    plan: Plan, workspace: Workspace
) -> None:
    seen: list[tuple[int, int]] = []
    with open_verified(plan, workspace.lock, [], lambda *at: seen.append(at)) as found:
        assert [file.sha256 for file in found.target] == [plan.target.sha256]
        assert plan.draft is not None
        assert [file.sha256 for file in found.draft] == [plan.draft.sha256]
        assert found.target_header.text("general.architecture") == "llama"
        (workspace.folder / "t.gguf").write_bytes(b"swapped afterwards")
        data = os.pread(found.target[0].fd, plan.target.bytes, 0)
        assert data[:4] == b"GGUF"
        with pytest.raises(PermissionError):
            os.pwrite(found.target[0].fd, b"X", 0)
    assert seen[-1][0] == seen[-1][1] == plan.target.bytes + plan.draft.bytes


def test_artifacts_are_found_beside_the_lock_or_below_a_root(
    plan: Plan, workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with open_verified(plan, elsewhere / "plan.lock", [workspace.folder]) as found:
        assert len(found.draft) == 1


@pytest.mark.complaint(n=20)
@pytest.mark.parametrize("name", ["t.gguf", "d.gguf"])
def test_one_flipped_bit_is_an_integrity_error(plan: Plan, workspace: Workspace, name: str) -> None:
    path = workspace.folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    error = refusal(plan, workspace)
    assert [(d.code, d.place) for d in error.diagnostics] == [("P231", str(path))]
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_a_truncated_file_is_an_integrity_error(plan: Plan, workspace: Workspace) -> None:
    path = workspace.folder / "t.gguf"
    path.write_bytes(path.read_bytes()[:-1])
    error = refusal(plan, workspace)
    assert error.diagnostics[0].code == "P444"
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_a_missing_file_cannot_be_judged(plan: Plan, workspace: Workspace) -> None:
    (workspace.folder / "d.gguf").unlink()
    assert refusal(plan, workspace).diagnostics[0].code == "P221"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("target.header.architecture", "qwen2"),
        ("target.header.file_type", "MOSTLY_Q8_0"),
        ("target.header.layers", 99),
        ("target.header.width", 99),
        ("target.header.vocabulary", 321),
        ("target.header.context", 4096),
        ("target.header.tokenizer_model", "llama"),
        ("target.header.pre_tokenizer", "other"),
        ("target.header.vocabulary_sha256", "0" * 64),
        ("target.header.chat_template_sha256", "0" * 64),
        ("draft.header.layers", 99),
        ("draft.contract.max_width", 64),
        ("draft.contract.notes", ["all is well"]),
        ("speculation.rollback", "snapshots"),
    ],
)
def test_every_header_fact_is_compared(
    plan: Plan, workspace: Workspace, path: str, value: object
) -> None:
    """A plan whose digest was made to fit still has to say what the files say."""

    def change(body: dict[str, Any]) -> None:
        *tables, key = path.split(".")
        for table in tables:
            body = body[table]
        body[key] = value

    error = refusal(edited(plan, change), workspace)
    assert [d.code for d in error.diagnostics] == ["P445"]
    assert f"`{path}`" in error.diagnostics[0].message
    assert error.diagnostics[0].expected == str(value)
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_every_key_of_the_recorded_header_is_among_the_compared(plan: Plan) -> None:
    """A key added to the plan must be added to the table above."""
    assert set(type(plan.target.header).model_fields) == {
        "architecture",
        "file_type",
        "layers",
        "width",
        "vocabulary",
        "context",
        "tokenizer_model",
        "pre_tokenizer",
        "vocabulary_sha256",
        "chat_template_sha256",
    }


def test_a_path_out_of_the_roots_is_refused(plan: Plan, workspace: Workspace) -> None:
    outside = edited(plan, lambda body: body["target"].update(path="../t.gguf"))
    assert refusal(outside, workspace).diagnostics[0].code == "P220"


@pytest.mark.complaint(n=16)
@pytest.mark.parametrize(("layers", "device"), [(0, True), ("all", False)])
def test_a_plan_that_does_not_fit_into_memory_is_refused_before_it_is_loaded(
    plan: Plan,
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    layers: int | str,
    device: bool,
) -> None:
    monkeypatch.setattr(verified, "available_memory", lambda: 1000)
    monkeypatch.setattr(host, "_ACCELERATORS", (workspace.folder,) if device else ())
    asked = edited(plan, lambda body: body["graph"].update(gpu_layers=layers))
    error = refusal(asked, workspace)
    assert [d.code for d in error.diagnostics] == ["P448"]


def test_the_caches_of_offloaded_layers_are_the_device_s(
    plan: Plan, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified, "available_memory", lambda: 1000)
    monkeypatch.setattr(host, "_ACCELERATORS", (workspace.folder,))
    with open_verified(plan, workspace.lock, []) as found:
        assert found.draft


def test_split_models_are_handed_over_shard_by_shard(workspace: Workspace) -> None:
    names = [f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    for name in names:
        workspace.add(f"split/good-split-2/{name}")
    workspace.write(names[0])
    pins = "".join(f"\n[[target.shards]]\n{workspace.pin(name)}" for name in names)
    text = workspace.manifest.read_text("utf-8")
    workspace.manifest.write_text(text.replace("\n[graph]", f"{pins}\n[graph]"), "utf-8")
    plan = workspace.compile().plan
    with open_verified(plan, workspace.lock, []) as found:
        assert [Path(file.name).name for file in found.target] == names
        assert found.draft == ()


def kind_workspace(
    folder: Path,
    target: build.Gguf,
    mode: str,
    draft: build.Gguf | None,
    kind: str | None = None,
) -> Plan:
    """The plan of a manifest with these files, which asks for `mode`; `kind` of the draft: it."""
    workspace = Workspace(folder, Engine(capabilities={"dspark": None, "mtp": None}))
    (folder / "t.gguf").write_bytes(target.encode())
    if draft is not None:
        (folder / "d.gguf").write_bytes(draft.encode())
    settings = f'\n[speculation]\nspec_mode = "{mode}"\n'
    workspace.write(draft=None if draft is None else "d.gguf", settings=settings)
    text = workspace.manifest.read_text("utf-8")
    workspace.manifest.write_text(text.replace('"draft-model"', f'"{kind or mode}"'), "utf-8")
    return workspace.compile().plan


@pytest.fixture
def reduced_plan(tmp_path: Path) -> Plan:
    """A DSpark draft whose own head knows the tokens 9, 5 and 2."""
    draft = build.reduced(build.dspark(), [9, 5, 2])
    draft.tensor("markov_w2.weight", (4, 3))
    return kind_workspace(tmp_path, build.llama(), "dspark", draft)


def test_the_tokens_of_a_draft_s_own_table_are_handed_over(
    reduced_plan: Plan, tmp_path: Path
) -> None:
    with open_verified(reduced_plan, tmp_path / "plan.lock", []) as found:
        assert found.reduced_vocabulary == {2, 5, 9}


def test_the_tokens_of_a_prefix_are_handed_over(tmp_path: Path) -> None:
    whole = kind_workspace(tmp_path, build.qwen35(), "mtp", None)
    with open_verified(whole, tmp_path / "plan.lock", []) as found:
        assert found.reduced_vocabulary is None

    def reduce(body: dict[str, Any]) -> None:
        body["speculation"] |= {"fr_rule": "prefix", "spec_mtp_fr_vocab_size": 7}

    with open_verified(edited(whole, reduce), tmp_path / "plan.lock", []) as found:
        assert found.reduced_vocabulary == range(7)


@pytest.mark.parametrize("mode", ["auto", "mtp"])
def test_the_tokens_of_a_native_table_are_handed_over(tmp_path: Path, mode: str) -> None:
    plan = kind_workspace(tmp_path, build.qwen35(), mode, build.native_table([9, 5, 2]), "mtp")
    assert (plan.speculation.fr_rule, plan.speculation.spec_mtp_fr_vocab_size) == ("d2t", 3)
    with open_verified(plan, tmp_path / "plan.lock", []) as found:
        assert found.reduced_vocabulary == {2, 5, 9}
    changed = edited(plan, lambda body: body["draft"]["contract"].update(fr_vocabulary=4))
    with pytest.raises(PowerError) as caught:
        open_verified(changed, tmp_path / "plan.lock", [])
    assert "`draft.contract.fr_vocabulary`" in caught.value.diagnostics[0].message


def test_a_model_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(PowerError) as caught:
        kind_workspace(tmp_path, build.qwen35(), "mtp", build.qwen35(), "mtp")
    (found,) = caught.value.diagnostics
    assert (found.code, found.hint) == ("P332", "leave the draft out")


def test_another_table_than_the_plan_s_is_refused(reduced_plan: Plan, tmp_path: Path) -> None:
    changed = edited(reduced_plan, lambda body: body["speculation"].update(fr_sha256="0" * 64))
    with pytest.raises(PowerError) as caught:
        open_verified(changed, tmp_path / "plan.lock", [])
    assert "`speculation.fr_sha256`" in caught.value.diagnostics[0].message
