"""Rules within one file: binding, provenance, shards, evidence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from power.diagnostics import Diagnostic
from power.manifest.load import parse_manifest, parse_profile

Refused = Callable[[str | bytes], tuple[Diagnostic, ...]]
ProfileRefused = Callable[[str], tuple[Diagnostic, ...]]
COMMIT = "10b6bccfcc109bda0666d0aed4b7871aac357b99"
HUB = "https://huggingface.co/owner/name"


def shard(path: str, size: int = 96, digest: str = "ab" * 32) -> str:
    return f'[[target.shards]]\npath = "{path}"\nbytes = {size}\nsha256 = "{digest}"\n'


def test_a_draft_for_another_target(head: str, refused: Refused) -> None:
    (found,) = refused(
        f'{head}[draft]\nkind = "dspark"\npath = "d"\nbytes = 1\n'
        f'sha256 = "{"cd" * 32}"\ntarget_sha256 = "{"ef" * 32}"\n'
    )
    assert found.code == "P139"
    assert (found.expected, found.found) == ("ab" * 32, "ef" * 32)
    assert [span.line for span in found.spans] == [13, 7]


@pytest.mark.parametrize(
    "lines",
    [
        f'source = "{HUB}"\nrevision = "{COMMIT}"',
        f'source = "{HUB}/resolve/{COMMIT}/x.gguf"\nrevision = "{COMMIT}"',
        'source = "https://example.org/x.gguf"',
        'source = "https://example.org/x.gguf"\nrevision = "v1.2"',
        'source = "pkg:pypi/name@1.0"',
        'license = "MIT"',
    ],
)
def test_provenance(head: str, lines: str) -> None:
    assert parse_manifest(f"{head}{lines}\n".encode(), "m").manifest.name == "tiny"


@pytest.mark.complaint(n=20)
@pytest.mark.parametrize(
    ("lines", "places"),
    [
        (f'source = "{HUB}"', [8]),
        (f'source = "{HUB}"\nrevision = "main"', [9]),
        (f'source = "{HUB}"\nrevision = "{COMMIT[:39]}"', [9]),
        (f'source = "{HUB}"\nrevision = "{COMMIT.upper()}"', [9]),
        ('source = "https://www.huggingface.co/a/b"', [8]),
        ('source = "https://hf.co/a/b"', [8]),
        ('source = "HTTPS://HuggingFace.co/a/b"', [8]),
        (f'source = "{HUB}/resolve/main/x.gguf"\nrevision = "{COMMIT}"', [8, 9]),
        (f'revision = "{COMMIT}"', [8]),
    ],
)
def test_provenance_that_can_move(
    head: str, refused: Refused, lines: str, places: list[int]
) -> None:
    (found,) = refused(f"{head}{lines}\n")
    assert found.code == "P141"
    assert [span.line for span in found.spans] == places


def test_shards_in_order(head: str) -> None:
    text = head.replace("tiny.gguf", "a-00001-of-00002.gguf")
    text += shard("a-00001-of-00002.gguf") + shard("a-00002-of-00002.gguf", 5, "cd" * 32)
    shards = parse_manifest(text.encode(), "m").manifest.target.shards
    assert shards is not None
    assert [s.bytes for s in shards] == [96, 5]


@pytest.mark.parametrize(
    "first", [shard("other.gguf"), shard("tiny.gguf", 95), shard("tiny.gguf", 96, "cd" * 32)]
)
def test_the_first_shard_is_the_artifact_itself(head: str, refused: Refused, first: str) -> None:
    (found,) = refused(head + first + shard("second.gguf"))
    assert found.code == "P142"
    assert len(found.spans) == 2
    assert found.spans[0].line > found.spans[1].line


def test_a_shard_is_listed_once(head: str, refused: Refused) -> None:
    (found,) = refused(head + shard("tiny.gguf") + shard("b.gguf") + shard("b.gguf"))
    assert (found.code, [span.line for span in found.spans]) == ("P142", [17, 13])


def test_one_shard_is_no_split(head: str, refused: Refused) -> None:
    (found,) = refused(head + shard("tiny.gguf"))
    assert found.code == "P115"


ENTRY = '[[evidence]]\nby = "{by}"\nwhat = "decode"\nwhere = "a host"\nartifact = "a model"\n'
REPORTED = ENTRY.format(by="reported")
MEASURED = ENTRY.format(by="measured")
PROOF = f'artifact_sha256 = "{"ab" * 32}"\nreport = "r.json"\nreport_sha256 = "{"cd" * 32}"\n'


@pytest.mark.parametrize("entry", [REPORTED + 'source = "a paper"\n', MEASURED + PROOF])
def test_evidence(entry: str) -> None:
    text = f'schema = 1\nname = "p"\nsummary = "s"\n{entry}'
    assert len(parse_profile(text.encode(), "p").profile.evidence) == 1


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        (REPORTED, ["P145"]),
        (MEASURED, ["P145", "P145", "P145"]),
        (REPORTED + 'source = "a paper"\nreport = "r.json"\n', ["P146"]),
        (MEASURED + PROOF + 'source = "a paper"\n', ["P146"]),
        (REPORTED + 'source = "a paper"\nfigures = { speed = 1 }\n', ["P117"]),
        (REPORTED + 'source = "a paper"\nfigures = { speed_tok_s = true }\n', ["P114"]),
        (REPORTED + 'source = "a paper"\nfigures = { speed_tok_s = nan }\n', ["P115"]),
        (ENTRY.format(by="guessed"), ["P116"]),
    ],
)
def test_evidence_that_proves_nothing(
    profile_refused: ProfileRefused, entry: str, codes: list[str]
) -> None:
    assert [found.code for found in profile_refused(entry)] == codes


def test_evidence_is_placed_by_its_entry(profile_refused: ProfileRefused) -> None:
    good = REPORTED + 'source = "a paper"\n'
    (found,) = profile_refused(good + REPORTED)
    assert found.spans[0].line == 3 + good.count("\n") + 2
