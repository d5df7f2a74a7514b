"""A certificate believed or not: who signed it, what it is about, and whether it fits a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from power.diagnostics import Diagnostic, PowerError
from power.plan.exactness import Shown, shows
from power.receipt.authentic import authenticate, check_window, parse
from power.receipt.bundle import CERTIFICATE
from power.receipt.certificate import CERTIFICATE_TYPE, Certificate, contradictions
from power.receipt.digests import sha256
from power.receipt.predicate import EnginePart, HostPart, Statement
from power.receipt.statement import engine_part, host_part
from power.receipt.trust import Trust
from power.runner.types import EngineRecord, HostRecord


@dataclass(frozen=True, slots=True)
class Certified:
    """A certificate whose signature holds and that does not contradict itself.

    data: its file, byte for byte. key: the verifier's name for its key.
    """

    statement: Certificate
    data: bytes
    key: str
    keyid: str

    @property
    def sha256(self) -> str:
        """Digest (hex) of the file, which receipts name."""
        return sha256(self.data)

    @property
    def shown(self) -> Shown:
        """What it shows, for the rule of plans."""
        predicate = self.statement.predicate
        return Shown(predicate.plan.plan_sha256, predicate.level)


def verify_certificate(data: bytes, trust: Trust, *, name: str = "certificate") -> Certified:
    """Verify a certificate's file against keys from outside.

    Raises PowerError as `verify_receipt` does: P620 to P625, P613, P615, P614, and
    P626 when it contradicts itself.
    """
    authentic = authenticate(data, trust, name=name, kind=CERTIFICATE)
    statement = parse(authentic.envelope, Certificate, CERTIFICATE_TYPE, name, CERTIFICATE)
    place = f"{name}: predicate.finished"
    check_window(authentic.key, statement.predicate.finished, place)
    found = contradictions(statement)
    if found:
        raise PowerError(found)
    return Certified(statement, data, authentic.key.name, authentic.key.keyid)


def against_certificate(statement: Statement, certified: Certified) -> list[Diagnostic]:
    """Why `certified` is not what the receipt's level rests on: P634 and P635; empty when it is."""
    predicate, shown = statement.predicate, certified.shown
    named = predicate.exactness.certificate_sha256
    pairs = [
        ("the receipt names another certificate", named or "none", certified.sha256),
        ("the certificate is for another plan", predicate.plan.plan_sha256, shown.plan_sha256),
    ]
    if not shows(shown.level, predicate.exactness.level):
        claim = predicate.exactness.level
        pairs.append(("the certificate shows less than the receipt claims", claim, shown.level))
    found = [
        Diagnostic(
            code="P634",
            message=what,
            place="predicate.exactness",
            expected=expected,
            found=value,
            hint="give the certificate that the run rested on",
        )
        for what, expected, value in pairs
        if expected != value
    ]
    return found + list(other_place(certified, predicate.engine, predicate.host))


def check_place(certified: Certified, engine: EngineRecord, host: HostRecord) -> None:
    """Return when a loaded engine and its host are those of the certificate; else P635."""
    found = other_place(certified, engine_part(engine), host_part(host, engine))
    if found:
        raise PowerError(found)


def other_place(certified: Certified, engine: EnginePart, host: HostPart) -> tuple[Diagnostic, ...]:
    """What is another engine, CPU, device or thread count than was measured: a P635 each.

    The bits of a row are those of one build on one processor, with the work split
    between so many threads.
    """
    return tuple(
        Diagnostic(
            code="P635",
            message=f"the certificate was measured with another {what}",
            place=place,
            expected=expected,
            found=found,
            hint="certify the plan on this host with this engine: `power certify`",
        )
        for what, place, expected, found in _differences(certified, engine, host)
    )


def _differences(
    certified: Certified, engine: EnginePart, host: HostPart
) -> Iterator[tuple[str, str, str, str]]:
    predicate = certified.statement.predicate
    for name in ("package", "version", "llama_cpp"):
        expected, found = getattr(predicate.engine, name), getattr(engine, name)
        if expected != found:
            yield "engine", f"engine.{name}", expected, found
    measured, loaded = _libraries(predicate.engine), _libraries(engine)
    for name in sorted(measured.keys() | loaded.keys()):
        expected, found = measured.get(name, "not loaded"), loaded.get(name, "not loaded")
        if expected != found:
            yield "native library", f"engine.libraries.{name}", expected, found
    for what, name in (("machine", "machine"), ("CPU", "cpu"), ("number of threads", "threads")):
        expected, found = getattr(predicate.host, name), getattr(host, name)
        if expected != found:
            yield what, f"host.{name}", str(expected), str(found)
    if predicate.host.devices != host.devices:
        expected, found = ", ".join(predicate.host.devices), ", ".join(host.devices)
        yield "device", "host.devices", expected, found


def _libraries(engine: EnginePart) -> dict[str, str]:
    return {library.name: library.digest.sha256 for library in engine.libraries}
