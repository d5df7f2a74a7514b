"""Models from open files: whole, split, unlinked, sealed, or refused with a reason."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from power.artifact.sealing import close_to_writers
from power.backends.errors import EngineError
from power.backends.interface import EngineConfig
from power.backends.llamacpp import BACKEND
from power.backends.llamacpp.library import native, repacks
from power.backends.llamacpp.model import LOAD_MMAP, LOAD_READ, safe_load_mode
from power.diagnostics import PowerError

PROMPT = [1, 10, 20, 30, 40]


def open_fds(*fds: int, **config: Any) -> Any:
    return BACKEND.open(EngineConfig(target=fds, context=256, threads=1, **config), lambda _: None)


def test_the_same_fixtures_come_out_every_time(
    build_fixtures: Callable[[Path], Mapping[str, tuple[Path, ...]]],
    models: Mapping[str, tuple[Path, ...]],
    tmp_path: Path,
) -> None:
    again = build_fixtures(tmp_path)
    assert again.keys() == models.keys()
    for name, paths in models.items():
        assert len(again[name]) == len(paths)
        for path, other in zip(paths, again[name], strict=True):
            assert path.name == other.name
            assert path.read_bytes() == other.read_bytes()
            assert path.stat().st_size < 16_000_000


def test_a_split_model_says_what_the_whole_one_says(lab: Any) -> None:
    whole, split = lab.open(), lab.open(target="split")
    assert len(lab.models["split"]) == 2
    assert lab.run(whole, PROMPT).ids == lab.run(split, PROMPT).ids


def test_an_unlinked_file_loads_by_its_descriptor(lab: Any, tmp_path: Path) -> None:
    """What was opened is loaded, whatever has the path by now."""
    path = tmp_path / "model.gguf"
    shutil.copy(lab.models["target"][0], path)
    fd = os.open(path, os.O_RDONLY)
    path.unlink()
    path.write_bytes(b"something else")
    try:
        engine = open_fds(fd)
    finally:
        os.close(fd)
    lab.engines.append(engine)
    assert lab.run(engine, PROMPT).ids == lab.run(lab.open(), PROMPT).ids


def test_a_sealed_memory_file_loads(lab: Any) -> None:
    fd = os.memfd_create("model", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(lab.models["target"][0].read_bytes())
        close_to_writers(fd)
        engine = open_fds(fd)
    finally:
        os.close(fd)
    lab.engines.append(engine)
    assert lab.run(engine, PROMPT).ids == lab.run(lab.open(), PROMPT).ids


def test_an_edit_of_the_file_does_not_reach_a_live_model(lab: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    shutil.copy(lab.models["target"][0], path)
    fd = os.open(path, os.O_RDONLY)
    engine = open_fds(fd)
    os.close(fd)
    lab.engines.append(engine)
    before = lab.run(engine, PROMPT).ids
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(bytes(size - size // 2))
    assert lab.run(engine, PROMPT).ids == before


def test_nan_weights_are_refused_by_the_tensors_name(lab: Any) -> None:
    with pytest.raises(EngineError) as caught:
        lab.open(target="nan")
    assert caught.value.kind == "load"
    assert "blk.1.ffn_down.weight" in caught.value.detail
    diagnostic = caught.value.diagnostic()
    assert diagnostic.code == "P540"
    assert "blk.1.ffn_down.weight" in str(diagnostic.found)


@pytest.mark.parametrize("keep", [0, 4, 100, 100_000])
def test_a_cut_file_is_refused(lab: Any, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(lab.models["target"][0].read_bytes()[:keep])
    fd = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(EngineError) as caught:
            open_fds(fd)
    finally:
        os.close(fd)
    assert caught.value.kind == "load"
    assert caught.value.detail


def test_a_context_beyond_the_memory_is_no_crash(lab: Any) -> None:
    with pytest.raises(EngineError) as caught:
        lab.open(context=2**31 - 1000)
    assert caught.value.kind == "memory"
    assert caught.value.diagnostic().code == "P541"


def test_a_prefill_batch_above_the_context_is_cut_to_it(lab: Any) -> None:
    engine = lab.open(prefill_batch=1_000_000)
    assert lab.run(engine, PROMPT).ids == lab.run(lab.open(), PROMPT).ids


def test_repacked_weights_are_refused_beside_amx(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    system = b"CPU : AVX512 = 1 | AMX_INT8 = 1 | REPACK = 1"
    monkeypatch.setattr(native(), "llama_print_system_info", lambda: system)
    assert (repacks(asked=None), repacks(asked=False)) == (False, False)
    with pytest.raises(PowerError) as caught:
        lab.open(repack=True)
    assert caught.value.diagnostics[0].code == "P531"
    monkeypatch.setattr(native(), "llama_print_system_info", lambda: b"CPU : AVX512 = 1")
    assert (repacks(asked=None), repacks(asked=False), repacks(asked=True)) == (True, False, True)


def test_an_engine_error_survives_the_way_out_of_the_worker() -> None:
    error = pickle.loads(pickle.dumps(EngineError("decode", "no", "because")))
    assert (error.kind, error.message, error.detail) == ("decode", "no", "because")


def test_a_draft_of_another_vocabulary_is_refused(lab: Any) -> None:
    with pytest.raises(PowerError) as caught:
        lab.open("draft-model", draft="other-vocabulary")
    assert caught.value.diagnostics[0].code == "P528"


def test_a_draft_strategy_needs_a_draft(lab: Any) -> None:
    """Said before the target is loaded."""
    with lab.fds("target") as fds, pytest.raises(PowerError) as caught:
        open_fds(*fds, strategy="draft-model", draft_max=3)
    assert caught.value.diagnostics[0].code == "P529"


def test_an_unknown_strategy_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(PowerError) as caught:
        BACKEND.open(EngineConfig(target=(-1,), strategy="no-such"), lambda _: None)
    assert caught.value.diagnostics[0].code == "P522"


def test_progress_goes_from_nothing_to_all(lab: Any) -> None:
    seen: list[float] = []
    lab.open("draft-model", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[0] < 0.1
    assert seen[-1] == 1.0


def test_an_exception_in_progress_stops_the_loading(lab: Any) -> None:
    def stop(fraction: float) -> None:
        if fraction > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.open(progress=stop)


def test_the_library_writes_to_no_stream(lab: Any, capfd: pytest.CaptureFixture[str]) -> None:
    lab.run(lab.open("draft-model"), PROMPT)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(EngineError):
        lab.open(target="nan")
    assert capfd.readouterr().out == ""  # the tensor check writes to stderr by itself


def test_engines_share_a_process(lab: Any) -> None:
    """Closing one leaves the other alone."""
    first, second = lab.open("draft-model"), lab.open("draft-model")
    expected = lab.run(first, PROMPT).ids
    first.close()
    assert lab.run(second, PROMPT).ids == expected


def test_only_what_is_sealed_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    plain = os.open(path, os.O_RDONLY)
    memory = os.memfd_create("open", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    sealed = os.memfd_create("sealed", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    try:
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
        fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        assert safe_load_mode([plain]) == LOAD_READ
        assert safe_load_mode([memory]) == LOAD_READ
        assert safe_load_mode([sealed]) == LOAD_MMAP
        assert safe_load_mode([sealed, plain]) == LOAD_READ
    finally:
        for fd in (plain, memory, sealed):
            os.close(fd)
