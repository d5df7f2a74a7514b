"""The how-to that uses no Power: its blocks, run on a receipt that Power made."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from power.review.consequences import Class
from tests.house.sources import ROOT

PAGE = ROOT / "docs/how-to/verify-a-receipt-without-power.md"
VECTORS = ROOT / "tests/vectors/receipts"
BLOCKS: list[str] = re.findall(
    r"^```bash\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)


def script(kind: str) -> str:
    """What the page says to run for a key of `kind`."""
    take_apart, _, ed25519 = BLOCKS[0].rpartition("openssl")
    return take_apart + (f"openssl{ed25519}" if kind == "ed25519" else BLOCKS[1])


def verify(folder: Path, kind: str, receipt: bytes) -> int:
    """Exit code of the page's commands for `receipt`."""
    (folder / "receipt.sigstore.json").write_bytes(receipt)
    shutil.copy(VECTORS / f"{kind}.pub", folder / "key.pem.pub")
    run = subprocess.run(
        ["bash", "-ec", script(kind)], cwd=folder, capture_output=True, text=True, check=False
    )
    return run.returncode


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_openssl_verifies_as_the_page_says(tmp_path: Path, kind: str) -> None:
    receipt = (VECTORS / f"{kind}.sigstore.json").read_bytes()
    assert verify(tmp_path, kind, receipt) == 0
    assert b'"predicateType":"urn:power:speculative-run:v1"' in (
        (tmp_path / "statement.json").read_bytes()
    )


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_openssl_refuses_another_receipts_signature(tmp_path: Path, kind: str) -> None:
    changed = (VECTORS / "changed-payload.sigstore.json").read_bytes()
    assert verify(tmp_path, kind, changed) != 0


def test_the_review_page_names_every_class_of_change() -> None:
    page = (ROOT / "docs/how-to/review-a-profile-change.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \|", page, re.MULTILINE)[2:]
    assert rows == [kind.title.partition(":")[0] for kind in Class]
