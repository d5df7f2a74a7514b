"""The digest of meaning: blind to layout, sharp on content."""

from __future__ import annotations

import hashlib

import pytest

from power.manifest.load import parse_manifest, parse_profile
from power.manifest.meaning import meaning, meaning_sha256, profile_sha256

DIGEST = "ab" * 32
TEXT = f"""\
schema = 1
name = "tiny"
[target]
path = "tiny.gguf"
bytes = 96
sha256 = "{DIGEST}"
[sampling]
temperature = 0.5
"""
INLINE = f"""\
sampling.temperature = 0.5
target = {{sha256 = "{DIGEST}", bytes = 96, path = "tiny.gguf"}}
name = "tiny"
schema = 1
"""


def sha256(text: str) -> str:
    return meaning_sha256(parse_manifest(text.encode(), "m").manifest)


@pytest.mark.parametrize(
    "same",
    [
        TEXT.replace("\n", "\r\n"),
        "# a comment\n" + TEXT.replace(" = ", "="),
        TEXT.replace("temperature = 0.5", "temperature = 5e-1 # warm"),
        TEXT.replace('"tiny"', "'tiny'").replace("bytes = 96", "bytes = 0x60"),
        INLINE,
    ],
)
def test_layout_does_not_count(same: str) -> None:
    assert sha256(same) == sha256(TEXT)


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace('"tiny"', '"tinier"'),
        TEXT.replace("96", "97"),
        TEXT.replace("0.5", "0.6"),
        TEXT + "seed = 0\n",
        TEXT.replace("temperature = 0.5", "top_p = 0.5"),
    ],
)
def test_content_counts(other: str) -> None:
    assert sha256(other) != sha256(TEXT)


def test_the_digest_is_one_for_all_times() -> None:
    """Lock files hold it: changing it makes every lock stale."""
    canonical = (
        '{"name":"tiny","sampling":{"temperature":0.5},"schema":1,'
        f'"target":{{"bytes":96,"path":"tiny.gguf","sha256":"{DIGEST}"}}}}'
    )
    assert sha256(TEXT) == hashlib.sha256(canonical.encode()).hexdigest()


def test_what_was_measured_is_no_part_of_a_profiles_digest() -> None:
    """Else no profile could hold evidence of a plan that was made with it."""
    said = 'schema = 1\nname = "p"\nsummary = "s"\n[graph]\nbatch = 9\n'
    evidence = (
        '[[evidence]]\nby = "reported"\nwhat = "w"\nwhere = "h"\nartifact = "a"\nsource = "x"\n'
    )

    def digest(text: str) -> str:
        return profile_sha256(parse_profile(text.encode(), "p.toml").profile)

    assert digest(said + evidence) == digest(said)
    assert digest(said.replace("9", "10")) != digest(said)


def test_meaning_speaks_in_the_keys_of_the_file() -> None:
    assert meaning(parse_manifest(TEXT.encode(), "m").manifest) == {
        "schema": 1,
        "name": "tiny",
        "target": {"path": "tiny.gguf", "bytes": 96, "sha256": DIGEST},
        "sampling": {"temperature": 0.5},
    }
