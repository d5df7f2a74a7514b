"""Paths from manifests: only portable ones, only inside the roots, only regular files."""

import os
import socket
from pathlib import Path

import pytest

from power.artifact import opened
from power.artifact.locate import check_path, locate
from power.artifact.opened import OpenArtifact, open_file
from tests.artifact.build import llama
from tests.artifact.conftest import Refusal

BAD_PATHS = {
    "": "empty",
    "/etc/passwd": "absolute",
    "~/model.gguf": "absolute",
    "../model.gguf": "`..`",
    "a/../../b": "`..`",
    "a//b": "empty part",
    "a/": "empty part",
    "./a": "`.`",
    "a\\b": "backslash",
    "C:model.gguf": "drive",
    "c:/model.gguf": "drive",
    "https://example.org/m.gguf": "URL",
    "file:/m.gguf": "URL",
    "a\0b": "control character",
    "a\nb": "control character",
    "a\x1b[31m": "control character",
    "a\x9bb": "control character",
    "a\udc80b": "Unicode",
    "a" * 4097: "longer",
}


@pytest.mark.parametrize("path", BAD_PATHS, ids=ascii)
def test_paths_that_name_no_artifact(path: str, refusal: Refusal) -> None:
    shown = refusal(lambda: check_path(path))
    assert "error[P220]" in shown
    assert BAD_PATHS[path] in shown


@pytest.mark.parametrize("path", ["m.gguf", "a/b c/m.gguf", "..m.gguf", "a/...", "モデル.gguf"])
def test_portable_paths(path: str, tmp_path: Path) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x")
    assert locate(path, [tmp_path]) == file.resolve()


def test_roots_are_searched_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for root in (first, second):
        root.mkdir()
    (second / "m.gguf").write_bytes(b"2")
    assert locate("m.gguf", [first, second]) == second / "m.gguf"
    (first / "m.gguf").write_bytes(b"1")
    assert locate("m.gguf", [first, second]) == first / "m.gguf"


def test_nothing_there(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in ("m.gguf", "file/m.gguf"):
        shown = refusal(lambda path=path: locate(path, [tmp_path]))  # type: ignore[misc]
        assert "error[P221]" in shown
        assert str(tmp_path / path) in shown
    assert "error[P221]" in refusal(lambda: locate("m.gguf", []))


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ("Model.GGUF", "model.gguf"),
        ("mode\u0300le.gguf", "mod\u00e8le.gguf"),
        ("STRASSE", "straße"),
    ],
)
def test_a_twin_by_case_or_unicode_form_is_named_and_not_taken(
    tmp_path: Path, refusal: Refusal, there: str, asked: str
) -> None:
    """Some systems would open it; a plan means one file on all of them."""
    (tmp_path / there).write_bytes(b"x")
    shown = refusal(lambda: locate(asked, [tmp_path]))
    assert "error[P221]" in shown
    assert f"`{tmp_path / there}`" in shown


def test_a_link_inside_a_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    (tmp_path / "m.gguf").symlink_to("blob")
    assert locate("m.gguf", [tmp_path]) == tmp_path / "blob"


def test_a_link_into_another_root_is_followed(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for root in (one, two):
        root.mkdir()
    (two / "blob").write_bytes(b"x")
    (one / "m.gguf").symlink_to(two / "blob")
    assert locate("m.gguf", [one, two]) == two / "blob"


@pytest.mark.parametrize("through", ["file", "folder"])
def test_a_link_out_of_every_root_is_refused(
    through: str, tmp_path: Path, refusal: Refusal
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    (outside / "m.gguf").write_bytes(b"x")
    if through == "file":
        (root / "m.gguf").symlink_to(outside / "m.gguf")
    else:
        (root / "sub").symlink_to(outside)
    path = "m.gguf" if through == "file" else "sub/m.gguf"
    assert "error[P222]" in refusal(lambda: locate(path, [root]))


def test_a_root_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "m.gguf").write_bytes(b"x")
    (tmp_path / "root").symlink_to("real")
    assert locate("m.gguf", [tmp_path / "root"]) == tmp_path / "real" / "m.gguf"


def test_a_broken_link_and_a_loop(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    assert "broken link" in refusal(lambda: locate("broken", [tmp_path]))
    assert "error[P224]" in refusal(lambda: locate("loop", [tmp_path]))


def test_only_regular_files(tmp_path: Path, refusal: Refusal) -> None:
    """A pipe is refused without being opened for reading, which would wait for a writer."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))
        for name, kind in (
            ("folder", "a folder"),
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
        ):
            shown = refusal(lambda name=name: open_file(name, [tmp_path]))  # type: ignore[misc]
            assert "error[P223]" in shown
            assert kind in shown
    shown = refusal(lambda: locate("null", [tmp_path, Path("/dev")]))
    assert "a character device" in shown


def _swap(monkeypatch: pytest.MonkeyPatch, path: Path, becomes: Path) -> None:
    """Let `path` become `becomes` after it was located and before it is opened."""
    found = locate

    def located(name: str, roots: object) -> Path:
        out = found(name, roots)  # type: ignore[arg-type]
        path.unlink()
        becomes.rename(path)
        return out

    monkeypatch.setattr(opened, "locate", located)


def test_a_pipe_put_in_the_files_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    _swap(monkeypatch, tmp_path / "m.gguf", tmp_path / "pipe")
    assert "a named pipe" in refusal(lambda: open_file("m.gguf", [tmp_path]))


def test_a_link_put_in_the_files_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    (tmp_path / "m.gguf").write_bytes(b"x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    _swap(monkeypatch, tmp_path / "m.gguf", tmp_path / "link")
    assert "error[P224]" in refusal(lambda: open_file("m.gguf", [tmp_path]))


def test_a_folder_on_the_way_becomes_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    """The kernel says where the open file is, whatever its path was."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    for folder in (root / "sub", outside):
        (folder / "m.gguf").write_bytes(b"x")
    found = locate

    def located(name: str, roots: object) -> Path:
        out = found(name, roots)  # type: ignore[arg-type]
        (root / "sub").rename(root / "old")
        (root / "sub").symlink_to(outside)
        return out

    monkeypatch.setattr(opened, "locate", located)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert "error[P222]" in refusal(lambda: open_file("sub/m.gguf", [root]))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_open_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(llama().encode())
    with OpenArtifact.open("m.gguf", [tmp_path]) as artifact:
        path.unlink()
        path.write_bytes(b"another")
        assert artifact.header.integer("llama.block_count") == 3
        assert artifact.size == len(llama().encode())
        file = artifact.files[0]
        assert (file.name, file.path) == ("m.gguf", path)
        assert not os.get_inheritable(file.fd)
    artifact.close()
    assert artifact.files == ()
