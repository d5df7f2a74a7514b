"""trust.toml: strict, with places, and every problem at once."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from power.diagnostics import PowerError
from power.receipt import keys
from power.receipt.trust import Revocation, Trust, load_trust
from tests.receipt import samples

ED, P256 = (samples.KEYS[kind].public_key() for kind in ("ed25519", "p256"))


HEAD = "schema = 1\n[key.a]\npublic_key = 'release.pub'\n"


def load(tmp_path: Path, text: str) -> Trust:
    (tmp_path / "release.pub").write_bytes(keys.public_pem(ED))
    path = tmp_path / "trust.toml"
    path.write_text(text, "utf-8")
    return load_trust(path)


def refuse(tmp_path: Path, text: str) -> PowerError:
    with pytest.raises(PowerError) as refused:
        load(tmp_path, text)
    return refused.value


def test_keys_by_file_and_by_text(tmp_path: Path) -> None:
    pem = keys.public_pem(P256).decode()
    trust = load(
        tmp_path,
        f"""
schema = 1

[key.release]
public_key = "release.pub"
not_before = 2026-01-01T00:00:00Z
not_after  = 2026-12-31T23:59:59+02:00

[key."old laptop"]
public_key = '''
{pem}'''
revoked = {{ at = 2026-08-01T00:00:00Z, reason = "stolen" }}
""",
    )
    release, old = trust.keys
    assert (release.name, old.name) == ("release", "old laptop")
    assert (release.keyid, old.keyid) == (keys.keyid(ED), keys.keyid(P256))
    assert release.not_before == datetime(2026, 1, 1, tzinfo=UTC)
    assert release.not_after == datetime(2026, 12, 31, 21, 59, 59, tzinfo=UTC)
    assert old.revoked == Revocation(datetime(2026, 8, 1, tzinfo=UTC), "stolen")
    assert trust.find(keys.keyid(P256)) is old
    assert trust.find("AAAA") is None


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[key.a]\npublic_key = 'release.pub'\n", 1, "`schema` is missing"),
        ("schema = 1\n", 1, "`key` is missing"),
        ("schema = 1\n[key]\n", 2, "`key` is refused"),
        ("schema = 2\n[key.a]\npublic_key = 'release.pub'\n", 1, "`schema` is above 1"),
        ("schema = true\n[key.a]\npublic_key = 'release.pub'\n", 1, "`schema` is not an integer"),
        ("schema = 1\n[key.a]\n", 2, "`key.a.public_key` is missing"),
        (
            f"{HEAD}revokd = true\n",
            4,
            "`key.a.revokd` is not a field",
        ),
        (
            f"{HEAD}revoked = true\n",
            4,
            "`key.a.revoked` is not a table",
        ),
        (
            f"{HEAD}revoked = {{ at = 2026-01-01T00:00:00Z }}\n",
            4,
            "`key.a.revoked.reason` is missing",
        ),
        (
            f"{HEAD}not_after = 2026-01-01\n",
            4,
            "`key.a.not_after` is refused",
        ),
        (
            f"{HEAD}not_after = 2026-01-01T00:00:00\n",
            4,
            "`key.a.not_after` is refused",
        ),
        (
            f"{HEAD}not_after = '2026-01-01T00:00:00Z'\n",
            4,
            "`key.a.not_after` is refused",
        ),
        (
            f"{HEAD}not_before = 2026-01-02T00:00:00Z\nnot_after = 2026-01-01T00:00:00Z\n",
            5,
            "ends before it begins",
        ),
        (
            f"{HEAD}[key.b]\npublic_key = './release.pub'\n",
            5,
            "are the same key",
        ),
        ('schema = 1\n[key.a]\npublic_key = "a\\u0000b"\n', 3, "neither PEM text nor a path"),
    ],
)
def test_what_is_refused_and_where(tmp_path: Path, text: str, line: int, says: str) -> None:
    (found,) = refuse(tmp_path, text).diagnostics
    assert found.code == "P610"
    assert says in found.message
    assert [span.line for span in found.spans] == [line]
    assert found.hint


def test_all_problems_at_once(tmp_path: Path) -> None:
    error = refuse(tmp_path, "schema = 1\nx = 1\n[key.a]\ny = 1\n[key.b]\npublic_key = 7\n")
    assert [d.spans[0].line for d in error.diagnostics] == [2, 3, 4, 6]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("missing.pub", "P605"),
        ("trust.toml", "P603"),
        ("-----BEGIN PUBLIC KEY-----", "P603"),
        ("-----BEGIN PRIVATE KEY-----", "P603"),
    ],
)
def test_a_key_that_is_none(tmp_path: Path, value: str, code: str) -> None:
    error = refuse(tmp_path, f"schema = 1\n[key.a]\npublic_key = '{value}'\n")
    assert [d.code for d in error.diagnostics] == [code]


@pytest.mark.parametrize("text", ["schema = ", "schema = 1\nschema = 1\n", "\0", ""])
def test_what_is_no_toml(tmp_path: Path, text: str) -> None:
    assert {d.code[:2] for d in refuse(tmp_path, text).diagnostics} == {"P1"}


def test_the_reference_page_shows_a_trust_file_that_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/trust.md").read_text("utf-8")
    example = page.split("```toml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "laptop.pub").write_bytes(keys.public_pem(P256))
    names = [key.name for key in load(tmp_path, example).keys]
    assert names == ["release", "build server", "old laptop"]
