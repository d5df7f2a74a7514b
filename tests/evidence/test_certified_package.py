"""Packages of plans that claim more than `rule`: the certificate is there, and it is the one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence import package
from power.evidence.index import INDEX, sign_index
from power.plan.exactness import needs_certificate
from power.plan.model import Plan
from power.receipt import bundle
from power.receipt.digests import sha256
from power.receipt.keys import PrivateKey
from power.receipt.planned import planned
from power.receipt.predicate import PLAN_SUBJECT, Subject
from power.receipt.statement import engine_part, host_part
from power.receipt.trust import trust_in
from tests.evidence.conftest import KEY, Scripted
from tests.receipt import certificates, samples
from tests.receipt.scripted import open_runner, scripted_plan

TRUST = trust_in(KEY.public_key(), "mine")
CERTIFICATE = "x.plan.cert.sigstore.json"
Edit = Callable[[dict[str, Any]], object]


def claiming_plan(level: str = "shape", seed: int = 3) -> Plan:
    return scripted_plan("prompt-lookup", level, seed=seed)


def certificate_of(plan: Plan, edit: Edit | None = None, key: PrivateKey = KEY) -> bytes:
    """A certificate of level `serial`, measured with the reference backend on this host."""
    with open_runner(plan) as runner:
        engine, host = runner.engine, runner.host
    derived = planned(plan, samples.plan_bytes(plan), control=False)
    shown = certificates.certificate(
        certificates.one_class(), certificates.equal_runs(), certificates.equal_serial()
    )
    predicate = shown.predicate.model_copy(
        update={
            "plan": derived.plan,
            "artifacts": derived.artifacts,
            "graph": derived.graph,
            "widths": derived.widths,
            "engine": engine_part(engine),
            "host": host_part(host, engine),
        }
    )
    subject = [Subject(name=PLAN_SUBJECT, digest=derived.plan.digest)]
    document = shown.model_copy(update={"subject": subject, "predicate": predicate}).document()
    if edit is not None:
        edit(document["predicate"])
    return bundle.sign(document, key)


def run(folder: Path, plan: Plan, certificate: bytes | None) -> None:
    """Bench the plan with its control, which has the certificate only where it needs one."""
    scripted = Scripted(folder)
    needed = certificate if needs_certificate(plan, control=True) else None
    arms = [
        replace(scripted.arm("control", plan, control=True), certificate=needed),
        replace(scripted.arm("plan", plan), certificate=certificate),
    ]
    scripted.run(scripted.bench(arms, warmup=0, rounds=1))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bench of a certified plan and its control, which needs no certificate; not packed."""
    folder = tmp_path_factory.mktemp("made")
    plan = claiming_plan()
    run(folder, plan, certificate_of(plan))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "p"))


def refusal(folder: Path) -> PowerError:
    """What is said of a package whose index a lying maker signed over whatever is there."""
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    files = {name: sha256((folder / name).read_bytes()) for name in names}
    (folder / INDEX).write_bytes(sign_index(files, ["x.json"], [], KEY))
    with pytest.raises(PowerError) as refused:
        package.verify(folder, TRUST)
    assert refused.value.exit_code is ExitCode.BROKEN_TRUST
    return refused.value


def test_the_certificate_is_packed_and_verified(folder: Path) -> None:
    package.pack(folder, KEY)
    held = package.verify(folder, TRUST)
    assert CERTIFICATE in held.files
    assert held.receipts == 4


def test_it_lies_where_power_run_looks_for_it(folder: Path) -> None:
    assert (folder / "x.plan.lock").is_file()
    assert (folder / CERTIFICATE).is_file()


class TestTampering:
    def test_a_missing_certificate(self, folder: Path) -> None:
        named = sha256((folder / CERTIFICATE).read_bytes())
        (folder / CERTIFICATE).unlink()
        (found,) = refusal(folder).diagnostics
        assert (found.code, found.expected) == ("P857", named)
        assert found.place == "x.receipts/001-plan-0001.sigstore.json: predicate.exactness"

    def test_a_missing_certificate_is_not_packed(self, folder: Path) -> None:
        (folder / CERTIFICATE).unlink()
        with pytest.raises(PowerError) as refused:
            package.pack(folder, KEY)
        assert refused.value.diagnostics[0].code == "P857"
        assert not (folder / INDEX).exists()

    def test_another_certificate_of_the_same_plan(self, folder: Path) -> None:
        again = certificate_of(claiming_plan(), lambda p: p.update(not_covered=[]))
        (folder / CERTIFICATE).write_bytes(again)
        (found,) = refusal(folder).diagnostics
        assert (found.code, found.message) == ("P634", "the receipt names another certificate")

    def test_the_certificate_of_another_plan(self, folder: Path) -> None:
        (folder / CERTIFICATE).write_bytes(certificate_of(claiming_plan(seed=4)))
        messages = [found.message for found in refusal(folder).diagnostics]
        assert "the certificate is for another plan" in messages

    def test_a_certificate_that_somebody_else_signed(self, folder: Path) -> None:
        other = samples.ed25519_key("another")
        (folder / CERTIFICATE).write_bytes(certificate_of(claiming_plan(), key=other))
        assert refusal(folder).diagnostics[0].code == "P613"

    def test_a_changed_certificate(self, folder: Path) -> None:
        document = json.loads((folder / CERTIFICATE).read_text())
        other = json.loads(certificate_of(claiming_plan(), lambda p: p.update(not_covered=[])))
        document["dsseEnvelope"]["payload"] = other["dsseEnvelope"]["payload"]
        (folder / CERTIFICATE).write_text(json.dumps(document))
        assert refusal(folder).diagnostics[0].code == "P624"

    def test_something_else_in_its_place(self, folder: Path) -> None:
        receipt = folder / "x.receipts/001-plan-0001.sigstore.json"
        (folder / CERTIFICATE).write_bytes(receipt.read_bytes())
        assert [found.code for found in self._unjudged(folder)] == ["P625"]

    def _unjudged(self, folder: Path) -> tuple[Any, ...]:
        with pytest.raises(PowerError) as refused:
            package.pack(folder, KEY)
        return refused.value.diagnostics


class TestBenches:
    """What would not verify is not measured on."""

    def test_a_certificate_of_another_engine(self, tmp_path: Path) -> None:
        plan = claiming_plan()
        other = certificate_of(plan, lambda p: p["engine"].update(llama_cpp="other"))
        with pytest.raises(PowerError) as refused:
            run(tmp_path, plan, other)
        (found,) = refused.value.diagnostics
        assert (found.code, (found.place or "").rpartition(" ")[2]) == ("P635", "engine.llama_cpp")

    def test_a_certificate_that_shows_less_than_the_plan_claims(self, tmp_path: Path) -> None:
        plan = claiming_plan("serial")

        def less(predicate: dict[str, Any]) -> None:
            predicate.update(level="shape")
            del predicate["serial"]

        with pytest.raises(PowerError) as refused:
            run(tmp_path, plan, certificate_of(plan, less))
        (found,) = refused.value.diagnostics
        assert (found.code, found.expected, found.found) == ("P634", "serial", "shape")

    def test_a_claim_without_a_certificate(self, tmp_path: Path) -> None:
        with pytest.raises(PowerError) as refused:
            run(tmp_path, claiming_plan(), None)
        assert [found.code for found in refused.value.diagnostics] == ["P857"]
