"""The predicate's page names every field, whether it must be there, and a valid example."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter

from power.receipt import digests
from power.receipt.predicate import PREDICATE_TYPE, SUBJECTS, Statement
from power.speculation.outcome import Finish, Phase
from tests.receipt import samples
from tests.receipt.documents import places

PAGE = (
    Path(__file__).parents[2] / f"docs/predicates/{PREDICATE_TYPE.split(':')[2]}-v1.md"
).read_text("utf-8")
ROW = re.compile(
    r"^\| `([^`]+)` \| ([^|]+) \| (required|optional) \|[^|]*\| `(.*)` \|$", re.MULTILINE
)


def fields(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, bool, Any]]:
    """Each field of a model and of the models in it: path, required, type."""
    for name, info in model.model_fields.items():
        here = f"{path}.{info.alias or name}".lstrip(".")
        annotation: Any = info.annotation
        if info.metadata:
            annotation = Annotated[annotation, *info.metadata]
        yield here, info.is_required(), annotation
        yield from below(info.annotation, here)


def below(annotation: Any, path: str) -> Iterator[tuple[str, bool, Any]]:
    arguments = [a for a in get_args(annotation) if a is not NoneType]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from fields(annotation, path)
    elif get_origin(annotation) is list:
        yield from below(arguments[0], f"{path}[]")
    elif get_origin(annotation) is dict:
        yield f"{path}.*", True, arguments[1]
    elif get_origin(annotation) is not None and NoneType in get_args(annotation):
        yield from below(arguments[0], path)


FIELDS = {path: (required, annotation) for path, required, annotation in fields(Statement)}
ROWS = {path: (required == "required", example) for path, _, required, example in ROW.findall(PAGE)}


def test_every_field_is_on_the_page_and_no_other() -> None:
    assert sorted(ROWS) == sorted(FIELDS)
    assert len(ROW.findall(PAGE)) == len(ROWS)


def test_the_page_says_what_must_be_there() -> None:
    assert {path: required for path, (required, _) in ROWS.items()} == {
        path: required for path, (required, _) in FIELDS.items()
    }


@pytest.mark.parametrize("path", [path for path, row in ROWS.items() if row[1] != "see below"])
def test_an_example_is_valid(path: str) -> None:
    TypeAdapter(FIELDS[path][1]).validate_json(ROWS[path][1], strict=True)


def test_only_containers_lack_an_example() -> None:
    for path in (path for path, row in ROWS.items() if row[1] == "see below"):
        assert any(other.startswith((f"{path}.", f"{path}[].")) for other in ROWS)


@pytest.mark.parametrize(
    "statement",
    [samples.sample_statement(), samples.control_statement(), samples.off_statement()],
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
    assert [word for word in words if f"`{word}`" not in PAGE] == []


def test_the_claim_is_made_as_the_page_says() -> None:
    """Follow the page's own words, with nothing of ours but its document."""
    import hashlib

    import rfc8785

    statement = samples.sample_statement()
    block = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
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
