"""Files that cannot be a manifest, whatever is written in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from power.diagnostics import Diagnostic, PowerError
from power.manifest.load import load_manifest, parse_manifest
from power.manifest.read import SIZE_LIMIT, decode, read_bytes, span_at

Refused = Callable[[str | bytes], tuple[Diagnostic, ...]]


def refusal(path: Path) -> Diagnostic:
    with pytest.raises(PowerError) as caught:
        load_manifest(path)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.place == str(path)
    return diagnostic


def test_a_missing_file_names_the_one_that_was_meant(tmp_path: Path, head: str) -> None:
    (tmp_path / "manifest.toml").write_text(head)
    found = refusal(tmp_path / "manifst.toml")
    assert found.code == "P101"
    assert found.hint == f"did you mean `{tmp_path / 'manifest.toml'}`?"


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    found = refusal(tmp_path / "no" / "manifest.toml")
    assert (found.code, found.hint) == ("P101", f"there is no folder `{tmp_path / 'no'}` either")


def test_a_nul_in_the_path_is_no_traceback() -> None:
    assert refusal(Path("a\0b")).code == "P101"


def test_a_folder_is_no_manifest(tmp_path: Path) -> None:
    found = refusal(tmp_path)
    assert (found.code, found.message) == (
        "P102",
        "the manifest is not a regular file: it is a folder",
    )


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = refusal(tmp_path / "pipe")
    assert found.code == "P102"
    assert found.message.endswith("it is a pipe")


def test_a_device_is_no_manifest() -> None:
    assert refusal(Path("/dev/zero")).code == "P102"


def test_the_size_limit_is_exact(tmp_path: Path, head: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(head.ljust(SIZE_LIMIT, "\n"))
    assert load_manifest(path).manifest.name == "tiny"
    path.write_text(head.ljust(SIZE_LIMIT + 1, "\n"))
    assert refusal(path).code == "P103"


@pytest.mark.parametrize(
    ("data", "code", "found"),
    [
        (b'schema = 1\nname = "\xff"', "P104", "byte 0xff"),
        ("schema = 1".encode("utf-16"), "P104", "UTF-16"),
        (b"GGUF\x03\x00\x00\x00", "P104", "a GGUF"),
        (b"\xef\xbb\xbfschema = 1", "P105", None),
        (b"schema = 1\x00", "P106", None),
        (b"schema = 1\rname = 2", "P106", None),
        (b"", "P108", None),
        (b" \r\n\t\n", "P108", None),
    ],
)
def test_bytes_that_are_no_toml_text(
    refused: Refused, data: bytes, code: str, found: str | None
) -> None:
    (diagnostic,) = refused(data)
    assert (diagnostic.code, diagnostic.found) == (code, found)
    assert diagnostic.hint


def test_the_first_wrong_byte_is_placed(refused: Refused) -> None:
    (diagnostic,) = refused(b'schema = 1\nname = "\xff"')
    assert diagnostic.place == "m.toml:2:9 (byte 19)"


def test_windows_line_ends_mean_the_same_and_keep_their_places(head: str, refused: Refused) -> None:
    windows = head.replace("\n", "\r\n")
    read, expected = (parse_manifest(text.encode(), "m").manifest for text in (windows, head))
    assert read == expected
    (diagnostic,) = refused(windows + "[graph]\r\nbatch = 0\r\n")
    (span,) = diagnostic.spans
    assert (span.line, span.column, span.width, span.source) == (9, 9, 1, "batch = 0")


def test_a_span_ends_with_its_line() -> None:
    span = span_at('a = 1\nb = """x\ny"""\n', 10, "f", width=9)
    assert (span.line, span.column, span.width, span.source) == (2, 5, 4, 'b = """x')


def test_a_span_can_stand_behind_the_last_character() -> None:
    span = span_at("a =", 3, "f")
    assert (span.line, span.column, span.width) == (1, 4, 1)


@pytest.mark.parametrize(
    ("what", "hint"),
    [
        ("manifest", "`power init`"),
        ("profile", "another profile"),
        ("document", "check the path"),
        ("trust file", "`[key.NAME]`"),
    ],
)
def test_an_empty_file_gets_the_advice_of_its_kind(what: str, hint: str) -> None:
    with pytest.raises(PowerError) as caught:
        decode(b" \n", "f", what)
    (found,) = caught.value.diagnostics
    assert found.code == "P108"
    assert hint in (found.hint or "")


@pytest.mark.parametrize("what", ["manifest", "document"])
def test_a_file_that_is_missing_gets_a_hint(tmp_path: Path, what: str) -> None:
    with pytest.raises(PowerError) as caught:
        read_bytes(tmp_path / "nothing-like-it.toml", what)
    assert caught.value.diagnostics[0].hint == "check the path"
