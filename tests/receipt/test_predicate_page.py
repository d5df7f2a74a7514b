"""The predicates' pages name every field, whether it must be there, and a valid example."""

import json
import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from power.evidence.index import PREDICATE_TYPE as EVIDENCE_TYPE
from power.evidence.index import IndexStatement
from power.receipt import digests
from power.receipt.certificate import CERTIFICATE_TYPE, PROPOSERS, Certificate
from power.receipt.predicate import PREDICATE_TYPE, SUBJECTS, Statement
from power.speculation.outcome import Finish, Phase
from tests.receipt import samples
from tests.receipt.certificates import sample_certificate
from tests.receipt.documents import places
from tests.receipt.pages import Page

RUN = Page(PREDICATE_TYPE, Statement)
PAGES = {
    "run": RUN,
    "certificate": Page(CERTIFICATE_TYPE, Certificate),
    "evidence": Page(EVIDENCE_TYPE, IndexStatement),
}
ROWS = RUN.rows
EXAMPLES = [
    pytest.param(page.fields[path][1], example, id=f"{name} {path}")
    for name, page in PAGES.items()
    for path, (_, example) in page.rows.items()
    if example != "see below" and path in page.fields
]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Page:
    return PAGES[request.param]


def test_every_field_is_on_the_page_and_no_other(page: Page) -> None:
    assert sorted(page.rows) == sorted(page.fields)


def test_the_page_says_what_must_be_there(page: Page) -> None:
    assert {path: required for path, (required, _) in page.rows.items()} == {
        path: required for path, (required, _) in page.fields.items()
    }


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_an_example_is_valid(kind: Any, example: str) -> None:
    TypeAdapter(kind).validate_json(example, strict=True)


def test_only_containers_lack_an_example(page: Page) -> None:
    for path in (path for path, row in page.rows.items() if row[1] == "see below"):
        assert any(other.startswith((f"{path}.", f"{path}[].")) for other in page.rows)


@pytest.mark.parametrize(
    "statement",
    [
        samples.sample_statement(),
        samples.control_statement(),
        samples.off_statement(),
    ],
    ids=["sample", "control", "off"],
)
def test_each_key_of_a_built_statement_is_on_the_page(statement: dict[str, Any]) -> None:
    for path, _ in places(statement):
        name = ""
        for part in path:
            name += "[]" if isinstance(part, int) else f".{part}"
        name = re.sub(r"(phases_us)\..*", r"\1.*", name.lstrip("."))
        assert name.removesuffix("[]") in ROWS


def test_a_full_statement_has_every_field() -> None:
    """So that tampering with each place of it tampers with each field."""
    built = {
        re.sub(r"(phases_us)\..*", r"\1.*", re.sub(r"\.(\d+)", "[]", ".".join(map(str, path))))
        for path, _ in places(samples.sample_statement())
    }
    assert set(ROWS) <= built


def test_a_full_certificate_has_every_field() -> None:
    page = PAGES["certificate"]
    built = {
        re.sub(r"\.(\d+)", "[]", ".".join(map(str, p))) for p, _ in places(sample_certificate())
    }
    assert set(page.rows) <= built
    words = [*PROPOSERS, "none", "power-rows-v1", "power-certified-prompts-v1"]
    assert [word for word in words if f"`{word}`" not in page.text] == []


def test_names_and_words_are_on_the_page() -> None:
    words = [*SUBJECTS, *Phase]
    words += [f for f in Finish if f not in {Finish.CANCELLED, Finish.FAILED}]
    for domain in (
        digests.TOKEN_IDS_DOMAIN,
        digests.STOP_DOMAIN,
        digests.SAMPLING_DOMAIN,
        digests.CLAIM_DOMAIN,
    ):
        words.append(domain.decode().removesuffix("\0"))
    assert [word for word in words if f"`{word}`" not in RUN.text] == []


def test_the_claim_is_made_as_the_page_says() -> None:
    """Follow the page's own words, with nothing of ours but its document."""
    import hashlib

    import rfc8785

    statement = samples.sample_statement()
    block = re.search(r"```json\n(.*?)```", RUN.text, re.DOTALL)
    assert block is not None
    names = json.loads(block.group(1))
    predicate = statement["predicate"]
    values = {
        "target": [
            artifact["digest"]["sha256"]
            for artifact in predicate["artifacts"]
            if artifact["annotations"]["role"] == "target"
        ],
        "prompt_token_ids_sha256": predicate["request"]["prompt_token_ids_sha256"],
        "sampling_sha256": predicate["request"]["sampling_sha256"],
        "output_token_ids_sha256": statement["subject"][1]["digest"]["sha256"],
        "output_text_sha256": statement["subject"][2]["digest"]["sha256"],
    }
    assert set(names) == set(values)
    claim = hashlib.sha256(b"power-claim-v1\0" + rfc8785.dumps(values)).hexdigest()
    assert claim == predicate["claim_sha256"]
