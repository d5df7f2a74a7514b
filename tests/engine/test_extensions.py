"""Functions that upstream calls experimental: told from the file, resolved in the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from power.backends.llamacpp import extensions
from power.backends.llamacpp.capabilities import NEEDS, capabilities
from power.backends.llamacpp.drafters import DRAFTERS
from power.backends.llamacpp.extensions import extension
from power.backends.llamacpp.installation import library_path
from power.backends.llamacpp.symbols import NEXTN, SYMBOLS, exported
from power.diagnostics import PowerError


def test_the_installed_library_exports_all_of_them() -> None:
    assert exported(library_path()) == set(SYMBOLS)


@pytest.mark.parametrize("name", SYMBOLS)
def test_each_resolves_with_its_signature(name: str) -> None:
    function = extension(name)
    assert function.argtypes
    assert function is extension(name)


@pytest.mark.parametrize("missing", NEXTN)
def test_a_build_without_one_loses_the_strategies_that_need_it(
    tmp_path: Path, missing: str
) -> None:
    library = tmp_path / "libllama.so"
    library.write_bytes(b"\0".join(s.encode() for n, s in SYMBOLS.items() if n != missing) + b"\0")
    told = capabilities(library)
    assert told["mtp"] == f"this build of llama.cpp does not export `llama_{missing}`"
    assert told["draft-model"] is None


@pytest.mark.parametrize("content", [None, b""])
def test_a_library_that_cannot_be_read_exports_nothing(
    tmp_path: Path, content: bytes | None
) -> None:
    library = tmp_path / "libllama.so"
    if content is not None:
        library.write_bytes(content)
    assert exported(library) == frozenset()


def test_a_longer_name_is_another_function(tmp_path: Path) -> None:
    """`get_embeddings_nextn` is a prefix of the name of `get_embeddings_nextn_ith`."""
    library = tmp_path / "libllama.so"
    library.write_bytes(SYMBOLS["get_embeddings_nextn"].encode() + b"_ith\0")
    assert exported(library) == frozenset()


def test_a_library_put_in_its_place_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "SYMBOLS", {"get_embeddings_nextn": "_Z4nonev"})
    extension.cache_clear()
    try:
        with pytest.raises(PowerError) as caught:
            extension("get_embeddings_nextn")
    finally:
        extension.cache_clear()
    assert caught.value.diagnostics[0].code == "P530"


def test_what_runs_can_be_opened() -> None:
    """Every strategy that is said to run has a drafter, and every drafter is said to run."""
    assert {name for name, needs in NEEDS.items() if needs is not None} == set(DRAFTERS)


def test_at_most_one_place_a_draft_comes_from() -> None:
    assert not any(drafter.external and drafter.native for drafter in DRAFTERS.values())
