"""Verifying with the test key, and what a refusal says."""

from typing import Any

import pytest

from power.diagnostics import PowerError
from power.receipt import bundle
from power.receipt.trust import trust_in
from power.receipt.verify import Verified, verify_receipt
from tests.receipt import samples

KEY = samples.KEYS["ed25519"]
PUBLIC = KEY.public_key()
TRUST = trust_in(PUBLIC)
STATEMENT = samples.sample_statement()
RECEIPT = bundle.sign(STATEMENT, KEY)
PLAN = samples.plan_bytes(samples.sample_plan())


def verify(data: bytes, **more: Any) -> Verified:
    """Verify with the test key, unless another trust is given."""
    return verify_receipt(data, **({"trust": TRUST} | more))


def refusal(data: bytes, **more: Any) -> PowerError:
    """The error that verifying must raise."""
    with pytest.raises(PowerError) as refused:
        verify(data, **more)
    return refused.value


def codes(error: PowerError) -> set[str]:
    return {d.code for d in error.diagnostics}


def resigned(statement: Any) -> bytes:
    """The bundle that an honest key would make of a dishonest statement."""
    return bundle.sign(statement, KEY)
