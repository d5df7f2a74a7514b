"""Compiling real files: lookup, sizes, digests, headers, contracts, and the same bytes anywhere."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from power.diagnostics import ExitCode, PowerError
from power.plan import lock
from power.plan.compile import compile_manifest, default_lock_path, write_lock
from tests.artifact import build
from tests.artifact.build import Gguf
from tests.plan.conftest import Workspace

ALONE = """\
import sys
from pathlib import Path
from tests.plan.conftest import Engine
from power.plan.compile import compile_manifest
manifest, *roots = map(Path, sys.argv[1:])
done = compile_manifest(manifest, profile=None, roots=roots, engine=Engine())
sys.stdout.buffer.write(done.text.encode())
"""
REPOSITORY = Path(__file__).parents[2]
FD_FOLDER = Path("/proc/self/fd")


def refusal(workspace: Workspace) -> PowerError:
    with pytest.raises(PowerError) as caught:
        workspace.compile()
    return caught.value


def codes(error: PowerError) -> list[str]:
    return [d.code for d in error.diagnostics]


def test_a_pair_compiles_to_a_draft_model_plan(workspace: Workspace) -> None:
    done = workspace.compile()
    assert done.plan.speculation.strategy == "draft-model"
    assert done.plan.draft is not None
    assert done.plan.draft.header is not None
    assert done.plan.draft.header.vocabulary == done.plan.target.header.vocabulary == 320
    assert lock.loads(done.text, "plan.lock") == done.plan
    assert done.draft is not None
    assert done.pair is not None


def test_progress_counts_every_byte_of_both_files(workspace: Workspace) -> None:
    seen: list[tuple[int, int]] = []
    workspace.compile(progress=lambda done, total: seen.append((done, total)))
    total = sum((workspace.folder / name).stat().st_size for name in ("t.gguf", "d.gguf"))
    assert seen[-1] == (total, total)


def test_the_manifests_folder_comes_before_the_roots(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("roots")
    (elsewhere / "t.gguf").write_bytes(b"another file")
    first = workspace.compile(roots=[elsewhere])
    (workspace.folder / "t.gguf").rename(elsewhere / "t.gguf")
    assert workspace.compile(roots=[elsewhere]).text == first.text


def test_windows_line_ends_give_the_same_lock(workspace: Workspace) -> None:
    unix = workspace.compile().text
    workspace.manifest.write_bytes(workspace.manifest.read_bytes().replace(b"\n", b"\r\n"))
    assert workspace.compile().text == unix


def test_everything_that_is_not_found_is_told_at_once(workspace: Workspace) -> None:
    for name in ("t.gguf", "d.gguf"):
        (workspace.folder / name).unlink()
    assert codes(refusal(workspace)) == ["P221", "P221"]


def test_a_wrong_size_is_told_before_anything_is_hashed(workspace: Workspace) -> None:
    target = workspace.folder / "t.gguf"
    pinned = target.stat().st_size
    target.write_bytes(target.read_bytes() + b"\0")
    hashed: list[int] = []
    with pytest.raises(PowerError) as caught:
        workspace.compile(progress=lambda done, _total: hashed.append(done))
    (found,) = caught.value.diagnostics
    assert (found.code, found.expected) == ("P444", f"{pinned} bytes")
    assert found.place == str(target)
    assert caught.value.exit_code is ExitCode.BROKEN_TRUST
    assert hashed == []


def test_every_wrong_digest_is_told_with_its_path(workspace: Workspace) -> None:
    for name in ("t.gguf", "d.gguf"):
        path = workspace.folder / name
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    error = refusal(workspace)
    assert codes(error) == ["P231", "P231"]
    assert [d.place for d in error.diagnostics] == [
        str(workspace.folder / name) for name in ("t.gguf", "d.gguf")
    ]
    assert error.exit_code is ExitCode.BROKEN_TRUST


def test_a_wrong_digest_explains_a_broken_header(workspace: Workspace) -> None:
    """A damaged file is damaged, not malformed: exit 3, not 2."""
    path = workspace.folder / "t.gguf"
    path.write_bytes(b"X" + path.read_bytes()[1:])
    assert codes(refusal(workspace)) == ["P231"]


def test_a_pinned_file_that_is_no_model_is_refused_by_the_header_reader(
    workspace: Workspace,
) -> None:
    (workspace.folder / "t.gguf").write_bytes(b"GGML" * 100)
    workspace.write(draft="d.gguf")
    assert codes(refusal(workspace)) == ["P201"]


@pytest.mark.complaint(n=3)
def test_a_draft_of_another_vocabulary_is_refused(workspace: Workspace) -> None:
    workspace.add("gguf/draft-vocab-swapped.gguf", "d.gguf")
    workspace.write(draft="d.gguf")
    error = refusal(workspace)
    assert all(code.startswith("P3") for code in codes(error))
    assert error.exit_code is ExitCode.CANNOT_JUDGE


def test_allowed_differences_are_warnings_at_the_drafts_line(workspace: Workspace) -> None:
    done = workspace.compile()
    assert done.plan.draft is not None
    notes = done.plan.draft.contract.notes
    assert [d.message.endswith(n) for d, n in zip(done.warnings, notes, strict=True)] == [
        True for _ in notes
    ]
    assert all(d.severity == "warning" and d.spans for d in done.warnings)


def test_a_model_that_only_the_engine_knows_is_a_warning(workspace: Workspace) -> None:
    """It compiles and runs; who pins it is told whom they trust."""
    model = build.tokenizer(build.sizes(Gguf(), "olmo", 1))
    model.tensor("token_embd.weight", (build.WIDTH, len(build.TOKENS)))
    model.tensor("blk.0.x.weight", (build.INNER,))
    (workspace.folder / "t.gguf").write_bytes(model.encode())
    workspace.write()
    done = workspace.compile()
    assert [(d.code, d.severity, len(d.spans)) for d in done.warnings] == [("P308", "warning", 1)]
    assert "the target is the architecture `olmo`" in done.warnings[0].message
    assert "P308" not in done.text


@pytest.mark.complaint(n=5)
def test_an_off_plan_does_not_open_the_draft(workspace: Workspace) -> None:
    workspace.write(draft="d.gguf", settings='[speculation]\nspec_mode = "off"\n')
    (workspace.folder / "d.gguf").unlink()
    plan = workspace.compile().plan
    assert (plan.speculation.strategy, plan.draft) == ("off", None)


def test_auto_without_draft_or_head_is_off_with_the_reason(workspace: Workspace) -> None:
    workspace.write()
    spec = workspace.compile().plan.speculation
    assert spec.strategy == "off"
    assert "no native MTP block" in spec.reason


@pytest.mark.parametrize("mode", ["auto", "mtp", "off"])
def test_a_target_that_claims_a_native_head_without_its_tensors_is_refused(
    workspace: Workspace, mode: str
) -> None:
    """The engine would refuse to load it, whatever the strategy."""
    workspace.add("gguf/mtp-claimed.gguf", "t.gguf")
    workspace.write(settings=f'[speculation]\nspec_mode = "{mode}"\n')
    assert codes(refusal(workspace)) == ["P304"]


def test_an_engine_that_cannot_is_told_before_any_file_is_opened(workspace: Workspace) -> None:
    (workspace.folder / "t.gguf").unlink()
    workspace.engine.capabilities["draft-model"] = "built without"  # type: ignore[index]
    assert codes(refusal(workspace)) == ["P401"]


def test_rules_point_at_the_lines_of_the_manifest(workspace: Workspace) -> None:
    manifest = workspace.manifest
    manifest.write_text(manifest.read_text("utf-8").replace("context = 64", "context = 65536"))
    found = refusal(workspace).diagnostics
    assert [d.code for d in found] == ["P419", "P419"]
    assert {d.spans[0].source for d in found} == {"context = 65536"}


def split(workspace: Workspace, shards: bool = True) -> None:
    names = [f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    for name in names:
        workspace.add(f"split/good-split-2/{name}")
    workspace.write(names[0])
    if shards:
        pins = "".join(f"\n[[target.shards]]\n{workspace.pin(name)}" for name in names)
        text = workspace.manifest.read_text("utf-8")
        workspace.manifest.write_text(text.replace("\n[graph]", f"{pins}\n[graph]"), "utf-8")


def test_a_split_model_pins_every_shard(workspace: Workspace) -> None:
    split(workspace)
    target = workspace.compile().plan.target
    assert target.shards is not None
    assert [shard.path for shard in target.shards] == [
        "m-00001-of-00002.gguf",
        "m-00002-of-00002.gguf",
    ]


def test_a_shard_of_another_model_is_told_by_its_digest_alone(workspace: Workspace) -> None:
    """The corpus entry `split-mixed`: its headers are those of `good-split-2`, byte for byte."""
    split(workspace)
    assert workspace.compile().plan.target.shards is not None
    for number in (1, 2):
        name = f"m-0000{number}-of-00002.gguf"
        workspace.add(f"split/split-mixed/{name}")
    error = refusal(workspace)
    (found,) = error.diagnostics
    assert (found.code, error.exit_code) == ("P231", ExitCode.BROKEN_TRUST)
    assert "m-00002-of-00002.gguf" in found.message


def test_a_split_model_without_its_shards_pinned_is_refused(workspace: Workspace) -> None:
    split(workspace, shards=False)
    assert codes(refusal(workspace)) == ["P447"]


@pytest.mark.complaint(n=20)
def test_a_damaged_second_shard_is_found(workspace: Workspace) -> None:
    split(workspace)
    path = workspace.folder / "m-00002-of-00002.gguf"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    error = refusal(workspace)
    assert codes(error) == ["P231"]
    assert error.diagnostics[0].place == str(path)


def test_a_link_that_leaves_the_folder_is_not_followed(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "t.gguf"
    (workspace.folder / "t.gguf").rename(outside)
    (workspace.folder / "t.gguf").symlink_to(outside)
    assert codes(refusal(workspace)) == ["P222"]
    assert workspace.compile(roots=[outside.parent]).plan.name == "tiny"


def test_no_file_stays_open(workspace: Workspace) -> None:
    def open_files() -> set[str]:
        return {os.path.realpath(fd) for fd in FD_FOLDER.iterdir()}

    workspace.compile()
    (workspace.folder / "d.gguf").write_bytes(b"")
    refusal(workspace)
    assert not any(str(workspace.folder) in name for name in open_files())


@pytest.mark.parametrize(
    ("environment", "moved"),
    [
        ({"LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1"}, False),
        ({"LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns", "PYTHONHASHSEED": "77"}, True),
        ({"LANG": "de_DE", "HOME": "/nowhere", "USER": "someone", "COLUMNS": "20"}, True),
    ],
)
def test_the_lock_is_the_same_on_another_machine(
    workspace: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, str],
    moved: bool,
) -> None:
    """Another process, locale, time zone, hash seed, folder and artifact root: the same bytes."""
    expected = workspace.compile().text.encode()
    manifest, roots = workspace.manifest, []
    if moved:
        home = tmp_path_factory.mktemp("another folder é")
        roots = [tmp_path_factory.mktemp("models")]
        manifest = manifest.rename(home / "renamed.toml")
        for name in ("t.gguf", "d.gguf"):
            (workspace.folder / name).rename(roots[0] / name)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(manifest), *map(str, roots)],
        cwd=manifest.parent,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)} | environment,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    assert done.stdout == expected


def test_layout_and_comments_of_a_manifest_do_not_change_the_plan(workspace: Workspace) -> None:
    before = workspace.compile().text
    text = workspace.manifest.read_text("utf-8")
    workspace.manifest.write_text("# a remark\n" + text.replace(" = ", "  =  "), "utf-8")
    assert workspace.compile().text == before


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("manifest.toml", "plan.lock"),
        ("qwen2.5-coder.toml", "qwen2.5-coder.lock"),
        ("a/manifest.toml", "a/plan.lock"),
        ("bare", "bare.lock"),
    ],
)
def test_the_lock_lies_beside_its_manifest(manifest: str, expected: str) -> None:
    assert default_lock_path(Path(manifest)) == Path(expected)


def test_a_lock_is_written_once_and_then_only_when_it_differs(workspace: Workspace) -> None:
    done = workspace.compile()
    assert write_lock(workspace.lock, done) is True
    assert workspace.lock.read_text("utf-8") == done.text
    assert write_lock(workspace.lock, done) is False


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("context = 64", "context = 32"),
        lambda text: "<<<<<<< ours\n" + text,
        lambda text: text.replace("\n[host]", "\n<<<<<<< ours\n[host]"),
        lambda text: text[:300],
    ],
)
def test_a_lock_that_power_wrote_is_made_again(workspace: Workspace, edit: object) -> None:
    assert callable(edit)
    done = workspace.compile()
    workspace.lock.write_text(edit(done.text), "utf-8")
    assert write_lock(workspace.lock, done) is True
    assert workspace.lock.read_text("utf-8") == done.text


@pytest.mark.parametrize("data", [b"", b"my notes\n", b"\xff\xfe", b"<<<<<<< a\nmy notes\n"])
def test_a_file_that_power_did_not_write_is_left_alone(workspace: Workspace, data: bytes) -> None:
    workspace.lock.write_bytes(data)
    with pytest.raises(PowerError) as caught:
        write_lock(workspace.lock, workspace.compile())
    assert codes(caught.value) == ["P439"]
    assert workspace.lock.read_bytes() == data


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_no_plan_either(
    workspace: Workspace, make: Callable[[Path], None]
) -> None:
    make(workspace.lock)
    with pytest.raises(PowerError) as caught:
        write_lock(workspace.lock, workspace.compile())
    assert codes(caught.value) == ["P439"]


@pytest.mark.parametrize("edit", [lambda text: text, lambda text: "<<<<<<< ours\n" + text[:200]])
def test_the_plan_of_another_manifest_is_left_alone(
    workspace: Workspace, edit: Callable[[str], str]
) -> None:
    """`manifest.toml` and `plan.toml` beside each other have one place for their plans."""
    assert default_lock_path(Path("manifest.toml")) == default_lock_path(Path("plan.toml"))
    other = edit(workspace.compile().text)
    workspace.lock.write_text(other, "utf-8")
    renamed = workspace.manifest.read_text("utf-8").replace('name = "tiny"', 'name = "other"')
    workspace.manifest.write_text(renamed, "utf-8")
    with pytest.raises(PowerError) as caught:
        write_lock(workspace.lock, workspace.compile())
    (found,) = caught.value.diagnostics
    assert (found.code, found.found) == ("P439", "the plan of the manifest `tiny`")
    assert workspace.lock.read_text("utf-8") == other


def test_a_grammar_that_the_engine_would_not_take_is_told_at_its_place(
    workspace: Workspace,
) -> None:
    workspace.write(settings='\n[sampling]\ngrammar = "root = 1"\n')
    error = refusal(workspace)
    (found,) = error.diagnostics
    assert (found.code, found.found) == ("P526", "no rule")
    assert [span.source for span in found.spans] == ['grammar = "root = 1"']
    workspace.write(settings='\n[sampling]\ngrammar = "root ::= [a-z]+"\n')
    assert workspace.compile().plan.sampling.grammar == "root ::= [a-z]+"


def test_a_missing_manifest_is_a_diagnostic(tmp_path: Path, workspace: Workspace) -> None:
    with pytest.raises(PowerError):
        compile_manifest(tmp_path / "no.toml", profile=None, roots=(), engine=workspace.engine)
