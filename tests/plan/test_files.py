"""Files appear whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from power.diagnostics import PowerError
from power.plan.files import check_new, write_atomic, write_new


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def refusal(path: Path, *, overwrite: bool) -> str:
    with pytest.raises(PowerError) as caught:
        write_atomic(path, b"new", overwrite=overwrite)
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_new_file_is_whole_and_alone(tmp_path: Path, overwrite: bool) -> None:
    path = tmp_path / "a.lock"
    write_atomic(path, b"text", overwrite=overwrite)
    assert path.read_bytes() == b"text"
    assert names(tmp_path) == ["a.lock"]


def test_an_existing_file_stays_unless_overwriting_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    path.write_bytes(b"old")
    assert refusal(path, overwrite=False) == "P440"
    assert path.read_bytes() == b"old"
    write_atomic(path, b"new", overwrite=True)
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.lock"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_mode_holds_whatever_the_umask(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o777)
    try:
        write_atomic(tmp_path / "a", b"", overwrite=False, mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    behind = tmp_path / "behind"
    behind.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(behind)
    assert refusal(link, overwrite=False) == "P440"
    write_atomic(link, b"new", overwrite=True)
    assert (behind.read_bytes(), link.read_bytes(), link.is_symlink()) == (b"old", b"new", False)


def test_a_dangling_link_counts_as_there(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    assert refusal(link, overwrite=False) == "P440"
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_is_not_written_over_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert refusal(tmp_path / "folder", overwrite=True) == "P441"
    assert refusal(tmp_path / "missing" / "a", overwrite=True) == "P441"
    assert names(tmp_path) == ["folder"]


def test_an_interruption_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.lock"
    path.write_bytes(b"old")

    def interrupted(_fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new", overwrite=True)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.lock"]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    write_atomic(path, b"", overwrite=False)
    assert path.exists()


def test_a_place_is_checked_before_the_work_that_fills_it(tmp_path: Path) -> None:
    check_new(tmp_path / "free")
    (tmp_path / "taken").symlink_to("nowhere")
    for path, code in ((tmp_path / "taken", "P440"), (tmp_path / "no" / "folder", "P441")):
        with pytest.raises(PowerError) as caught:
            check_new(path)
        assert caught.value.diagnostics[0].code == code


@pytest.fixture(params=["unnamed files", "none"])
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Some file systems have no files without a name."""
    if request.param == "none":
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    return str(request.param)


def test_a_new_file_on_any_disk(disk: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"new", overwrite=False, mode=0o600)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert refusal(path, overwrite=False) == "P440"
    assert names(tmp_path) == ["a"]


def test_trying_a_place_out_leaves_nothing(disk: str, tmp_path: Path) -> None:
    check_new(tmp_path / "a")
    assert names(tmp_path) == []


def test_a_place_that_says_yes_and_takes_nothing_is_found_out() -> None:
    """A superuser may write to any folder, but some take no files."""
    with pytest.raises(PowerError) as caught:
        check_new(Path("/sys/receipt"))
    assert [d.code for d in caught.value.diagnostics] == ["P441"]


def test_files_that_are_one_result_are_all_there_or_none(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    write_new({one: b"1", two: b"2"})
    assert (one.read_bytes(), two.read_bytes()) == (b"1", b"2")
    one.unlink()
    with pytest.raises(PowerError):
        write_new({one: b"new", two: b"new", three: b"new"})
    assert (names(tmp_path), two.read_bytes()) == (["two"], b"2")
