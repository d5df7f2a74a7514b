"""Finding the certificate of a plan, and whom to believe about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from power.cli.trusting import given_trust
from power.plan.exactness import needs_certificate, require_level
from power.plan.model import Plan
from power.receipt.bundle import CERTIFICATE
from power.receipt.certified import Certified, verify_certificate
from power.receipt.files import default_certificate, read_signed
from power.receipt.keys import PublicKey
from power.receipt.trust import trust_in


@dataclass(frozen=True, slots=True)
class Backing:
    """Where a plan's certificate is, and the keys from outside that are believed about it.

    file: named by the user; else it lies beside the lock. key, trust: files, of which
    at most one is given; without both the key of `own` is believed, which signs what
    follows from the certificate.
    """

    own: Callable[[], PublicKey] | None = None
    file: Path | None = None
    key: Path | None = None
    trust: Path | None = None

    def certified(self, plan: Plan, lock: Path, *, control: bool) -> Certified | None:
        """The certificate that a run of `plan` rests on; None where it needs none.

        One that the user named is verified and has to fit in any case.
        Raises PowerError: P446 none, one for another plan or of a lower level; P605 it
        cannot be read; P61x and P62x it is not to be believed.
        """
        path = self.file
        if path is None:
            if not needs_certificate(plan, control=control):
                return None
            path = default_certificate(lock)
            if not os.path.lexists(path):
                require_level(plan, None, control=control)
        certified = self.verified(path)
        require_level(plan, certified.shown, control=control)
        return certified

    def verified(self, path: Path) -> Certified:
        """The certificate at `path`; raises as `verify_certificate`, and P605."""
        data = read_signed(path, CERTIFICATE)
        if self.own is not None and self.key is None and self.trust is None:
            trust = trust_in(self.own())
        else:
            trust = given_trust(self.key, self.trust, str(path))
        return verify_certificate(data, trust, name=str(path))
