"""`power certify`, and what a plan that claims exactness needs to run."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from power.receipt import bundle, keys
from tests.cli.conftest import Bench, Result
from tests.receipt.documents import put

pytestmark = pytest.mark.engine
PROMPTS = '{"prompt": "ab ab ab ab"}\n{"prompt": "one two one"}\n'
CERTIFY = ("certify", "plan.lock", "--prompts", "p.jsonl", "--max-tokens", "8")
RUN = ("run", "plan.lock", "--prompt", "ab ab ab", "--max-tokens", "8")


@pytest.fixture
def shaped(bench: Bench) -> Bench:
    """A key, and a plan of a fixed shape that claims `shape`."""
    bench.edit("manifest.toml", 'shape = "natural"', 'shape = "fixed"\nrows = 5')
    bench.edit("manifest.toml", "[sampling]", '[exactness]\nlevel = "shape"\n\n[sampling]')
    bench.write("p.jsonl", PROMPTS)
    assert bench("key", "new").code == 0
    assert bench("compile", "manifest.toml", "-o", "plan.lock").code == 0
    return bench


@pytest.fixture
def certified(shaped: Bench) -> Bench:
    """The same, with its certificate."""
    assert shaped(*CERTIFY).code == 0
    return shaped


def resigned(bench: Bench, path: tuple[str | int, ...], value: Any, key: str = "key.pem") -> None:
    """Change the certificate at `path` and sign it again."""
    place = bench.folder / "plan.cert.sigstore.json"
    envelope = json.loads(place.read_bytes())["dsseEnvelope"]
    statement = put(json.loads(base64.b64decode(envelope["payload"])), path, value)
    place.write_bytes(bundle.sign(statement, keys.load_private(bench.folder / key)))


def test_a_certificate_is_written_and_the_plan_runs(
    shaped: Bench, snapshot_of: Callable[[Result], None]
) -> None:
    assert shaped(*RUN).code == 3
    snapshot_of(shaped(*CERTIFY))
    done = shaped(*RUN)
    assert done.code == 0
    assert shaped.receipts
    receipt, certificate = str(shaped.receipts[0]), "plan.cert.sigstore.json"
    verify = ("verify", receipt, "--key", "key.pem.pub", "--plan", "plan.lock")
    checked = shaped(*verify, "--certificate", certificate, "--format", "json").json["checked"]
    assert checked == ["signature", "consistency", "plan", "certificate"]
    again = shaped(*CERTIFY)
    assert (again.code, "P440" in again.stderr) == (2, True)
    assert shaped(*CERTIFY, "--force").code == 0  # another time, so another certificate
    other = shaped(*verify, "--certificate", certificate)
    assert (other.code, "P634" in other.stderr) == (3, True)


def test_the_object_of_a_program(shaped: Bench) -> None:
    result = shaped(*CERTIFY, "--format", "json")
    found = result.json
    assert (result.code, found["exit_code"], found["level"], found["demanded"]) == (
        *(0, 0),
        *("shape", "shape"),
    )
    assert [arm["equal"] for arm in found["runs"]["arms"]] == [2] * 6
    assert found["serial"] is None
    assert found["rows"]["counts"] == [1, 2, 3, 4, 5]


def test_a_level_that_is_not_shown_is_no_and_the_truth_is_written(shaped: Bench) -> None:
    """Rows of 32-bit weights differ between a pass of one row and others (docs: exactness)."""
    result = shaped(*CERTIFY, "--level", "serial", "--format", "json")
    assert (result.code, result.json["level"], result.json["serial"]["runs"]) == (1, "shape", 2)
    assert (shaped.folder / "plan.cert.sigstore.json").is_file()
    assert shaped(*RUN).code == 0  # it shows what the plan claims


def test_a_certificate_of_another_key_is_believed_only_when_it_is_named(certified: Bench) -> None:
    assert certified("key", "new", "other.pem").code == 0
    theirs = (*RUN, "--key", "other.pem")
    refused = certified(*theirs)
    assert (refused.code, "P613" in refused.stderr, refused.stdout) == (3, True, b"")
    assert certified(*theirs, "--certificate-key", "key.pem.pub").code == 0
    certified.write("trust.toml", 'schema = 1\n[key.ci]\npublic_key = "key.pem.pub"\n')
    assert certified(*theirs, "--certificate-trust", "trust.toml").code == 0
    both = ("--certificate-key", "key.pem.pub", "--certificate-trust", "trust.toml")
    assert certified(*theirs, *both).code == 2


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("predicate", "host", "threads"), 7, "host.threads"),
        (("predicate", "host", "cpu"), "Another CPU", "host.cpu"),
        (("predicate", "engine", "libraries", 0, "digest", "sha256"), "0" * 64, "libraries"),
    ],
)
def test_another_engine_or_host_is_refused_before_the_first_token(
    certified: Bench, path: tuple[str | int, ...], value: Any, place: str
) -> None:
    resigned(certified, path, value)
    refused = certified(*RUN)
    assert (refused.code, refused.stdout, certified.receipts) == (3, b"", [])
    assert "P635" in refused.stderr
    assert place in refused.stderr


def test_a_certificate_that_was_edited_is_refused(certified: Bench) -> None:
    place = certified.folder / "plan.cert.sigstore.json"
    resigned(certified, ("predicate", "level"), "serial")
    assert "P626" in certified(*RUN).stderr
    place.write_bytes(b"{}")
    assert "P620" in certified(*RUN).stderr
    assert "P605" in certified(*RUN, "--certificate", "nowhere.json").stderr


def test_a_certificate_of_another_plan_is_refused(certified: Bench) -> None:
    certified.edit("manifest.toml", "rows = 5", "rows = 6")
    assert certified("compile", "manifest.toml", "-o", "plan.lock").code == 0
    refused = certified(*RUN)
    assert (refused.code, "P446" in refused.stderr) == (3, True)
    assert certified(*RUN, "--control").code == 0  # claims nothing about a proposer


def test_a_context_without_room_is_refused(shaped: Bench) -> None:
    shaped.edit("manifest.toml", "context = 128", "context = 12")
    shaped.edit("manifest.toml", "prefill_batch = 64", "prefill_batch = 8")
    shaped.edit("manifest.toml", "max_tokens = 48", "max_tokens = 8")
    assert shaped("compile", "manifest.toml", "-o", "plan.lock").code == 0
    refused = shaped(*CERTIFY)
    assert (refused.code, "P840" in refused.stderr) == (2, True)


def test_a_model_without_a_chat_template_gets_the_shipped_prompts_as_text(shaped: Bench) -> None:
    shaped.edit("manifest.toml", "context = 128", "context = 256")
    assert shaped("compile", "manifest.toml", "-o", "plan.lock").code == 0
    result = shaped("certify", "plan.lock", "--first", "2", "--max-tokens", "4", "--format", "json")
    assert (result.code, result.json["runs"]["prompts"]) == (0, 2)
