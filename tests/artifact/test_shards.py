"""Split models: found by name, numbered, counted, read as one."""

import hashlib
from pathlib import Path

import pytest

from power.artifact.opened import OpenArtifact
from power.artifact.shards import check_shard_names
from power.artifact.target import check_target
from tests.artifact.build import I32, U16, U32, Gguf, llama
from tests.artifact.conftest import Refusal

FIRST, SECOND, THIRD = (f"m-{n:05}-of-00003.gguf" for n in (1, 2, 3))


def _split(whole: Gguf) -> list[Gguf]:
    """The model's tensors over three shards, the metadata in the first."""
    total = len(whole.tensors)
    cut = total // 3
    parts = [whole.tensors[:cut], whole.tensors[cut : 2 * cut], whole.tensors[2 * cut :]]
    shards = [Gguf(pairs=list(whole.pairs) if index == 0 else []) for index in range(3)]
    for index, shard in enumerate(shards):
        shard.tensors = list(parts[index])
        shard.put("split.no", U16, index).put("split.count", U16, 3)
        shard.put("split.tensors.count", I32, total)
    return shards


def _write(folder: Path, shards: list[Gguf]) -> None:
    for name, shard in zip((FIRST, SECOND, THIRD), shards, strict=True):
        (folder / name).write_bytes(shard.encode())


def test_siblings_are_found_and_read_as_one(tmp_path: Path) -> None:
    _write(tmp_path, _split(llama()))
    with OpenArtifact.open(FIRST, [tmp_path]) as artifact:
        assert [file.name for file in artifact.files] == [FIRST, SECOND, THIRD]
        header = artifact.header
        assert header.files == 3
        assert header.size == artifact.size == sum(f.stat().st_size for f in tmp_path.iterdir())
        assert list(header.tensors) == [tensor.name for tensor in llama().tensors]
        assert header.tensors["blk.2.ffn_down.weight"].file == THIRD
        assert check_target(header).layers == 3


def test_the_facts_do_not_depend_on_the_split(tmp_path: Path) -> None:
    _write(tmp_path, _split(llama()))
    (tmp_path / "whole.gguf").write_bytes(llama().encode())
    with (
        OpenArtifact.open(FIRST, [tmp_path]) as split,
        OpenArtifact.open("whole.gguf", [tmp_path]) as whole,
    ):
        assert check_target(split.header) == check_target(whole.header)


def test_shards_in_a_folder_and_declared(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    _write(tmp_path / "sub", _split(llama()))
    names = [f"sub/{name}" for name in (FIRST, SECOND, THIRD)]
    for shards in ((), names):
        with OpenArtifact.open(names[0], [tmp_path], shards) as artifact:
            assert [file.name for file in artifact.files] == names


def test_shards_linked_into_a_blob_store(tmp_path: Path) -> None:
    """The layout of hub caches: names are links to files named by digest."""
    blobs, names = tmp_path / "blobs", tmp_path / "names"
    blobs.mkdir()
    names.mkdir()
    for name, shard in zip((FIRST, SECOND, THIRD), _split(llama()), strict=True):
        data = shard.encode()
        blob = blobs / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (names / name).symlink_to(blob)
    with OpenArtifact.open(FIRST, [names, blobs]) as artifact:
        assert len(artifact.files) == 3


@pytest.mark.parametrize(
    ("change", "mention"),
    [
        (lambda s: s[1].put("split.no", U16, 2), "`split.no` of `m-00002-of-00003.gguf` is 2"),
        (lambda s: s[1].put("split.no", U16, None), "`split.no`"),
        (lambda s: s[2].put("split.count", U16, 4), "`split.count` of `m-00003-of-00003.gguf`"),
        (lambda s: s[2].drop("blk.2.ffn_down.weight"), "`split.tensors.count` is 29"),
        (lambda s: s[1].tensor("token_embd.weight", (8,)), "`token_embd.weight` is in two shards"),
        (lambda s: s[0].put("split.count", U16, 1001), "`split.count` is 1001"),
        (lambda s: s[0].put("split.count", U16, 2), "-00001-of-00002.gguf"),
        (lambda s: s[0].put("split.no", U16, 1), "`split.no` of `m-00001-of-00003.gguf` is 1"),
    ],
)
def test_shards_that_do_not_fit(
    change: object, mention: str, tmp_path: Path, refusal: Refusal
) -> None:
    shards = _split(llama())
    assert callable(change)
    change(shards)
    _write(tmp_path, shards)
    shown = refusal(lambda: OpenArtifact.open(FIRST, [tmp_path]))
    assert "error[P211]" in shown
    assert mention in shown


def test_a_missing_shard_leaves_nothing_open(tmp_path: Path, refusal: Refusal) -> None:
    _write(tmp_path, _split(llama()))
    (tmp_path / THIRD).unlink()
    before = len(list(Path("/proc/self/fd").iterdir()))
    shown = refusal(lambda: OpenArtifact.open(FIRST, [tmp_path]))
    assert "error[P221]" in shown
    assert THIRD in shown
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_later_shard_named_as_the_artifact(tmp_path: Path, refusal: Refusal) -> None:
    _write(tmp_path, _split(llama()))
    shown = refusal(lambda: OpenArtifact.open(SECOND, [tmp_path]))
    assert "not the first shard" in shown
    assert FIRST in shown


def test_a_renamed_shard(tmp_path: Path, refusal: Refusal) -> None:
    _write(tmp_path, _split(llama()))
    (tmp_path / FIRST).rename(tmp_path / "model.gguf")
    assert "`split.count` is 3" in refusal(lambda: OpenArtifact.open("model.gguf", [tmp_path]))


def test_split_count_of_one_is_a_whole_model(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(llama().put("split.count", U16, 1).encode())
    with OpenArtifact.open("m.gguf", [tmp_path]) as artifact:
        assert artifact.header.files == 1


@pytest.mark.parametrize("value", [(U32, 3), (I32, -1)])
def test_a_split_count_that_is_no_count(
    value: tuple[object, int], tmp_path: Path, refusal: Refusal
) -> None:
    kind, number = value
    (tmp_path / "m.gguf").write_bytes(llama().put("split.count", kind, number).encode())  # type: ignore[arg-type]
    assert "`split.count`" in refusal(lambda: OpenArtifact.open("m.gguf", [tmp_path]))


@pytest.mark.parametrize(
    ("path", "shards"),
    [
        (FIRST, [FIRST, THIRD, SECOND]),
        (SECOND, [FIRST, SECOND, THIRD]),
        (FIRST, [FIRST, SECOND]),
        ("m.gguf", ["m.gguf", SECOND, THIRD]),
        (FIRST, [FIRST, f"sub/{SECOND}", THIRD]),
    ],
)
def test_declared_shards_follow_the_names(path: str, shards: list[str], refusal: Refusal) -> None:
    assert "error[P211]" in refusal(lambda: check_shard_names(path, shards))


def test_well_declared_shards_pass() -> None:
    check_shard_names(FIRST, [FIRST, SECOND, THIRD])
