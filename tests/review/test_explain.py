"""What a change means by the rules of speculation: the guard, rows, dead settings, claims."""

from __future__ import annotations

from pathlib import Path

import pytest

from power.plan import lock
from power.review.consequences import Class, Evidence
from power.review.diff import Change, Diff, diff
from power.review.documents import Document, parse_document

HEAD = f"""\
schema = 1
name = "tiny"
[target]
path = "t.gguf"
bytes = 9
sha256 = "{"ab" * 32}"
"""
KEYS = [
    (Path(__file__).parents[1] / f"vectors/receipts/{name}.pub").read_text("utf-8")
    for name in ("ed25519", "stolen")
]
GOOD = (Path(__file__).parents[1] / "vectors/plans/good.lock").read_text("utf-8")


def manifest(
    k: int = 6, s: int = 6, batch: int = 12, shape: str = "natural", more: str = ""
) -> Document:
    text = (
        f"{HEAD}[speculation]\nspec_draft_max = {k}\nspec_mtp_recurrent_snapshots = {s}\n"
        f'[graph]\nbatch = {batch}\nshape = "{shape}"\n{more}'
    )
    return parse_document(text.encode(), "m.toml")


def at_eight_rows(k: int, s: int) -> Document:
    return manifest(k, s, shape="fixed", more="rows = 8\n")


def only(found: Diff, path: str) -> Change:
    (change,) = (change for change in found.changes if change.path == path)
    return change


def test_k_past_s_opens_the_guarded_replay() -> None:
    change = only(diff(at_eight_rows(6, 6), at_eight_rows(7, 6)), "speculation.spec_draft_max")
    assert change.kind is Class.SHAPE
    assert change.means.says == (
        "K: proposals of up to 7 tokens, before 6; K = 7 is past S = 6: a rejection of more than 6 "
        "rows, on a recurrent target, opens the guarded replay, once a request, and the width "
        "falls to 6"
    )
    assert change.means.voids == tuple(Evidence)


def test_s_below_k_opens_it_too_and_s_at_k_closes_it() -> None:
    path = "speculation.spec_mtp_recurrent_snapshots"
    opened = only(diff(manifest(7, 7), manifest(7, 6)), path)
    closed = only(diff(manifest(7, 6), manifest(7, 7)), path)
    assert "opens the guarded replay" in opened.means.says
    assert "no rejection replays" in closed.means.says
    assert (opened.kind, closed.kind) == (Class.SHAPE, Class.SHAPE)


def test_k_within_s_at_one_shape_is_speed() -> None:
    change = only(diff(at_eight_rows(6, 7), at_eight_rows(7, 7)), "speculation.spec_draft_max")
    assert (change.kind, change.means.voids) == (Class.SPEED, (Evidence.MEASUREMENTS,))
    assert change.means.says == "K: proposals of up to 7 tokens, before 6"


def test_at_a_natural_shape_k_decides_the_rows() -> None:
    change = only(diff(manifest(6, 7), manifest(7, 7)), "speculation.spec_draft_max")
    assert change.kind is Class.SHAPE
    assert change.means.says.endswith("a pass has 1 to 8 rows, before 1 to 7")


def test_costs_are_compared_one_by_one() -> None:
    """The path of a nested value is dotted; who sets the width is speed alone."""

    def weighed(cost: str) -> Document:
        return parse_document(
            f'{HEAD}[speculation]\nspec_mode = "prompt-lookup"\n{cost}'.encode(), "m.toml"
        )

    first = weighed('controller = "cost"\ncost.rows = { 1 = "1.0", 8 = "4.6" }\n')
    again = weighed('controller = "cost"\ncost.rows = { 8 = "4.60", 1 = "1" }\n')
    other = weighed('controller = "cost"\ncost.rows = { 1 = "1", 8 = "3.5" }\n')
    assert diff(first, again).changes == ()
    (change,) = diff(first, other).changes
    assert (change.path, change.kind) == ("speculation.cost.rows.8", Class.SPEED)
    fixed = weighed("")
    change = only(diff(fixed, first), "speculation.controller")
    assert (change.kind, change.means.says) == (
        Class.SPEED,
        "the width is what pays, by the costs and by what the request accepts",
    )


def plan(**changes: dict[str, object]) -> Document:
    body = lock.loads(GOOD, "good.lock").body()
    for section, values in changes.items():
        body[section] |= values
    return parse_document(lock.dumps(lock.seal(body)).encode(), "p.lock")


def test_s_of_a_pure_cache_changes_nothing() -> None:
    spec = lock.loads(GOOD, "good.lock").speculation
    assert (spec.rollback, spec.effective_snapshots) == ("trim", 6)
    other = plan(speculation={"spec_mtp_recurrent_snapshots": 2, "effective_snapshots": 2})
    change = only(diff(plan(), other), "speculation.spec_mtp_recurrent_snapshots")
    assert (change.kind, change.means.voids) == (Class.WORDS, ())
    assert "pure KV cache" in change.means.says


def test_a_width_without_a_proposer_changes_nothing() -> None:
    old, new = (
        parse_document(
            f'{HEAD}[speculation]\nspec_mode = "off"\nspec_draft_max = {k}\n'.encode(), "m"
        )
        for k in (4, 5)
    )
    (change,) = diff(old, new).changes
    assert (change.kind, change.means.says) == (
        Class.WORDS,
        "no effect: nothing proposes, before or after",
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rule", "shape", "claims more"),
        ("serial", "shape", "claims less: with a proposer it runs only with a certificate"),
        ("shape", "rule", "claims less: no certificate is asked for"),
    ],
)
def test_a_claim_goes_up_or_down(old: str, new: str, says: str) -> None:
    sides = (
        manifest(shape="fixed", more=f'rows = 8\n[exactness]\nlevel = "{level}"\n')
        for level in (old, new)
    )
    change = only(diff(*sides), "exactness.level")
    assert change.means.says.startswith(says)
    assert (change.kind, change.means.voids) == (Class.OUTPUT, ())


def test_a_seed_without_draws_makes_claims_void_and_no_measurement() -> None:
    greedy, drawn = (
        diff(
            manifest(more=f"[sampling]\ntemperature = {t}\nseed = 1\n"),
            manifest(more=f"[sampling]\ntemperature = {t}\nseed = 2\n"),
        )
        for t in ("0.0", "0.8")
    )
    assert (only(greedy, "sampling.seed").kind, greedy.voids) == (
        Class.OUTPUT,
        (Evidence.RECEIPTS, Evidence.CERTIFICATE),
    )
    assert drawn.voids == tuple(Evidence)


def test_threads_are_speed_and_void_the_certificate() -> None:
    found = diff(manifest(), manifest(more="[host]\nthreads = 2\n"))
    assert only(found, "host.threads").kind is Class.SPEED
    assert found.voids == (Evidence.CERTIFICATE, Evidence.MEASUREMENTS)


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        (manifest(6, 6, 8), manifest(7, 7, 8), ["P130"]),
        (
            manifest(6, 6, 8, "fixed", "rows = 7\n"),
            manifest(7, 6, 9, "fixed", "rows = 7\n"),
            ["P131"],
        ),
        (
            manifest(6, 6, 8, "fixed", "rows = 7\n"),
            manifest(6, 6, 8, "fixed", "rows = 9\n"),
            ["P132", "P458"],
        ),
        (manifest(7, 7), manifest(6, 7), ["P458"]),
        (manifest(7, 6, more=""), manifest(7, 6, 13), []),
    ],
)
def test_what_no_longer_fits_is_a_warning(old: Document, new: Document, codes: list[str]) -> None:
    found = diff(old, new).warnings
    assert [(w.code, w.severity) for w in found] == [(code, "warning") for code in codes]


def test_an_odd_pair_that_was_there_before_is_not_told_again() -> None:
    assert diff(manifest(6, 7), manifest(6, 7, 13)).warnings == ()


def test_trusted_keys_are_compared_by_the_key_itself() -> None:
    pem, other = KEYS
    text = 'schema = 1\n[key."build server"]\npublic_key = """\n{}"""\n{}'
    old = parse_document(text.format(pem, "").encode(), "old")
    new = parse_document(text.format(other, "not_after = 2026-12-31T00:00:00Z\n").encode(), "new")
    by_path = parse_document(
        b'schema = 1\n[key."build server"]\npublic_key = "a.pub"\n', "p", lambda _: pem.encode()
    )
    assert diff(old, by_path).changes == ()
    found = {c.path: (c.kind, c.means.says) for c in diff(old, new).changes}
    assert found == {
        'key."build server".keyid': (
            Class.TRUST,
            "another key under this name: the old one is no longer believed",
        ),
        'key."build server".not_after': (Class.TRUST, "runs of another period are believed"),
    }
