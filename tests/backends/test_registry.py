"""Backends by name."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from power.backends import registry
from power.backends.registry import backend, backend_names
from power.diagnostics import PowerError


def offer(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    """Let the installed packages offer these entry points and no others."""
    points = [EntryPoint(name, value, registry.GROUP) for name, value in entries.items()]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: points)


def test_the_backends_of_this_package_are_found() -> None:
    assert {"llamacpp", "scripted"} <= set(backend_names())
    assert backend("scripted").name == "scripted"
    assert backend().name == "llamacpp"


def test_an_unknown_name_lists_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, zeta="a:B", alpha="a:B")
    with pytest.raises(PowerError) as refused:
        backend("llama")
    (finding,) = refused.value.diagnostics
    assert (finding.code, finding.expected, finding.found) == ("P501", "alpha, zeta", "llama")
    assert finding.hint is not None


def test_a_backend_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, broken="power.backends.no_such_module:BACKEND", bare="power.backends:NONE")
    for name, reason in (("broken", "ModuleNotFoundError"), ("bare", "AttributeError")):
        with pytest.raises(PowerError) as refused:
            backend(name)
        (finding,) = refused.value.diagnostics
        assert finding.code == "P502"
        assert finding.found is not None
        assert finding.found.startswith(reason)


def test_describing_backends_loads_no_native_code() -> None:
    """The process that asks may hold a signing key."""
    program = """
import sys
from power.backends.registry import backend, backend_names
for name in ("llamacpp", "scripted"):
    backend(name).describe()
loaded = {"llama_cpp", "numpy", "gguf"} & set(sys.modules)
assert not loaded, loaded
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
