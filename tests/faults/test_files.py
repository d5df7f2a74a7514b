"""A fault at every step of writing a file: the old file or the new one, and going on works."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from power.receipt.keys import load_private, load_public
from power.receipt.trust import trust_in
from power.receipt.verify import verify_receipt
from tests.faults.conftest import End, Zygote
from tests.faults.points import FAULTS
from tests.receipt import samples

MOST = 40
"""More steps than any of these commands has."""
CODES = {
    "kill": {-9},
    "term": {130, -15},
    "interrupt": {130},
    "full": {2},
    "broken": {2},
    "memory": {4},
}


@dataclass(frozen=True)
class Deed:
    """A command that writes `file`; `sound` says whether the bytes there are a whole new one."""

    arguments: tuple[str, ...]
    file: str
    sound: Callable[[Path], None]
    overwrites: bool = False
    call: str = "power.cli.app:run"


def _plan(path: Path) -> None:
    assert path.read_text("utf-8").startswith("# Made by `power compile")
    assert re.search(r'\nplan_sha256 = "[0-9a-f]{64}"\n\Z', path.read_text("utf-8"))


def _key(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    private = load_private(path)
    assert load_public(path.with_name("key.pem.pub")) == private.public_key()


def _receipt(path: Path) -> None:
    verify_receipt(path.read_bytes(), trust_in(samples.KEYS["ed25519"].public_key()))


def _manifest(path: Path) -> None:
    assert "[target]" in path.read_text("utf-8")


DEEDS = {
    "compile": Deed(("compile", "manifest.toml"), "plan.lock", _plan, overwrites=True),
    "key": Deed(("key", "new", "key.pem"), "key.pem", _key),
    "receipt": Deed(
        ("r.sigstore.json",), "r.sigstore.json", _receipt, call="tests.faults.deeds:issue"
    ),
    "init": Deed(("init", "target.gguf", "-o", "new.toml"), "new.toml", _manifest),
}


def older(zygote: Zygote, folder: Path) -> bytes:
    """The plan of the manifest before it was changed."""
    assert zygote(folder, "compile", "manifest.toml").code == 0
    manifest = folder / "manifest.toml"
    manifest.write_text(manifest.read_text("utf-8").replace("max_tokens = 48", "max_tokens = 47"))
    return (folder / "plan.lock").read_bytes()


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".power-*"))


def check_end(end: End, fault: str, what: str) -> None:
    assert end.code in {0} | CODES[fault], (what, end)
    assert "Traceback" not in end.stderr, (what, end.stderr)
    if end.code == 2:
        assert "error[P" in end.stderr


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", DEEDS)
def test_a_fault_at_every_step(zygote: Zygote, folder: Path, name: str, fault: str) -> None:
    deed = DEEDS[name]
    file = folder / deed.file
    old = older(zygote, folder) if deed.overwrites else b""
    met = 0
    for step in range(MOST):
        for path in folder.glob("*.pem*"):
            path.unlink()
        file.unlink(missing_ok=True)
        if deed.overwrites:
            file.write_bytes(old)
        end = zygote(folder, *deed.arguments, call=deed.call, fault=fault, step=step)
        check_end(end, fault, f"{fault} at step {step}")
        met += end.code != 0
        if file.exists() and file.read_bytes() != old:
            deed.sound(file)
        elif end.code == 0:
            pytest.fail(f"step {step}: {deed.file} is not there: {end.stderr}")
        if fault != "kill":
            assert left_over(folder) == [], step
        if end.code == 0 and step > met + 4:
            break
    else:
        pytest.fail("the steps have no end")
    assert met >= 4
