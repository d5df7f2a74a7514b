"""What a forked child may be asked to do that is no whole command."""

from __future__ import annotations

import sys
from pathlib import Path

from power.cli.console import Verb
from power.cli.signals import end_like_interrupts
from power.receipt import bundle
from power.receipt.files import write_receipt
from tests.receipt import samples


def issue() -> None:
    """Sign the sample run and write its receipt to the path given, or to a new name."""
    end_like_interrupts()
    with Verb("run", "human"):
        receipt = bundle.sign(samples.sample_statement(), samples.KEYS["ed25519"])
        write_receipt(receipt, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
