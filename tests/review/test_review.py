"""The review of a branch, on a real repository: what is touched, stale, edited, missing, void."""

from __future__ import annotations

import hashlib
import json

import pytest

from power.diagnostics import PowerError
from power.plan import lock
from power.receipt.bundle import sign
from power.review.consequences import Class, Evidence
from power.review.review import Review
from tests.receipt import samples
from tests.receipt.certificates import sample_certificate
from tests.review.conftest import PROFILE, Repository
from tests.review.test_explain import KEYS

MANIFEST, LOCK, HOUSE = (
    "manifests/tiny.toml",
    "manifests/tiny.lock",
    "manifests/profiles/house.toml",
)


def touched(found: Review) -> dict[str, str]:
    return {entry.path: entry.status for entry in found.entries}


def states(found: Review) -> dict[str, str]:
    return {plan.path: plan.state for plan in found.plans}


def codes(found: Review) -> list[str]:
    return [problem.code for problem in found.problems]


def test_nothing_changed(repository: Repository) -> None:
    found = repository.review()
    assert (found.entries, found.plans, found.problems) == ((), (), ())


def test_a_manifest_with_its_plan_is_current(repository: Repository) -> None:
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    repository.compile(MANIFEST)
    found = repository.review()
    assert touched(found) == {MANIFEST: "changed", LOCK: "changed"}
    assert states(found) == {LOCK: "current"}
    assert found.problems == ()
    assert found.count(Class.OUTPUT) == 2
    assert found.voids == tuple(Evidence)
    assert len(found.unjudged) == 1
    assert "power compile manifests/tiny.toml --check" in found.unjudged[0]


def test_a_manifest_without_its_plan_is_stale(repository: Repository) -> None:
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    found = repository.review()
    assert (states(found), codes(found)) == ({LOCK: "stale"}, ["P460"])
    (span,) = found.problems[0].spans
    assert (span.file, span.source[:6]) == (LOCK, "sha256")


def test_the_hint_is_the_command_that_makes_this_plan_again(repository: Repository) -> None:
    repository.write("evidence/README.md", "words")
    other = repository.compile(MANIFEST, profile="off", lock="evidence/tiny-off.lock")
    repository.commit("another plan")
    repository.git("branch", "--force", "main")
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    hints = {str(p.spans[0].file): str(p.hint) for p in repository.review().problems}
    assert f"`power compile {MANIFEST}` and" in hints[LOCK]
    assert f"`power compile {MANIFEST} --profile off -o {other}` and" in hints[other]


def test_a_plan_in_an_evidence_package_tells_of_what_was(repository: Repository) -> None:
    repository.write("evidence/index.sigstore.json", "{}")
    repository.compile(MANIFEST, profile="off", lock="evidence/tiny-off.lock")
    repository.commit("a package")
    repository.git("branch", "--force", "main")
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    assert states(repository.review()) == {LOCK: "stale"}


def test_a_plan_in_an_evidence_package_is_not_the_manifests_own(repository: Repository) -> None:
    repository.write("evidence/index.sigstore.json", "{}")
    repository.write("evidence/plans/README.md", "words")
    repository.compile(MANIFEST, profile="off", lock="evidence/plans/tiny-off.lock")
    repository.commit("a package")
    repository.git("branch", "--force", "main")
    repository.git("rm", "--quiet", LOCK)
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    found = repository.review()
    assert (states(found), codes(found)) == ({LOCK: "missing"}, ["P463"])


def test_a_comment_in_a_manifest_makes_nothing_stale(repository: Repository) -> None:
    repository.edit(MANIFEST, "[sampling]", "# words\n[sampling]")
    found = repository.review()
    assert (touched(found), states(found)) == ({MANIFEST: "changed"}, {LOCK: "current"})
    assert found.diffs[0].changes == ()


def test_a_profile_without_its_plans_is_stale_and_reaches_the_manifest(
    repository: Repository,
) -> None:
    repository.edit(HOUSE, "spec_draft_max = 6", "spec_draft_max = 7")
    found = repository.review()
    assert touched(found) == {HOUSE: "changed", MANIFEST: "reached"}
    assert (states(found), codes(found)) == ({LOCK: "stale"}, ["P461"])
    reached = next(entry for entry in found.entries if entry.status == "reached")
    assert reached.diff is not None
    paths = {(c.path, c.old, c.new, c.new_from) for c in reached.diff.changes}
    assert paths == {("speculation.spec_draft_max", 6, 7, "profile")}


def test_an_edited_plan_is_told_at_its_line(repository: Repository) -> None:
    repository.edit(LOCK, "max_tokens = 16", "max_tokens = 99")
    found = repository.review()
    assert (states(found), codes(found)) == ({LOCK: "edited"}, ["P462"])
    (span,) = found.problems[0].spans
    assert (span.file, span.source) == (LOCK, "max_tokens = 99")


def test_an_edit_whose_digest_was_made_to_fit_does_not_follow(repository: Repository) -> None:
    body = lock.loads(repository.read(LOCK), LOCK).body()
    body["sampling"] |= {"max_tokens": 48, "seed": 7}
    repository.write(LOCK, lock.dumps(lock.seal(body)))
    found = repository.review()
    assert (states(found), codes(found)) == ({LOCK: "edited"}, ["P465", "P465"])
    lines = [(p.spans[0].source, p.expected, p.found) for p in found.problems]
    assert lines == [("seed = 7", "0", "7"), ("max_tokens = 48", "16", "48")]


def test_another_target_under_the_old_manifest_does_not_follow(repository: Repository) -> None:
    body = lock.loads(repository.read(LOCK), LOCK).body()
    body["target"] |= {"sha256": "ab" * 32}
    repository.write(LOCK, lock.dumps(lock.seal(body)))
    found = repository.review()
    assert [(p.code, p.expected is not None) for p in found.problems] == [("P465", True)]
    assert found.diffs[0].of(Class.IDENTITY)[0].path == "target.sha256"


def test_a_removed_plan_is_missing(repository: Repository) -> None:
    (repository.root / LOCK).unlink()
    found = repository.review()
    assert touched(found) == {LOCK: "removed"}
    assert (states(found), codes(found)) == ({LOCK: "missing"}, ["P463"])
    assert found.problems[0].severity == "error"


def test_a_new_manifest_without_a_plan_is_a_warning(repository: Repository) -> None:
    repository.manifest("second", None)
    found = repository.review()
    assert touched(found) == {"manifests/second.toml": "added"}
    assert [(p.code, p.severity) for p in found.problems] == [("P463", "warning")]
    assert found.errors == ()
    repository.commit("second")
    repository.git("branch", "--force", "main")
    repository.edit("manifests/second.toml", "[sampling]", "# only words\n[sampling]")
    assert repository.review().problems == ()


@pytest.mark.parametrize("staged", [True, False])
def test_a_rename_is_a_rename(repository: Repository, staged: bool) -> None:
    for name in (MANIFEST, LOCK):
        (repository.root / name).rename(repository.root / name.replace("tiny", "small"))
    if staged:
        repository.git("add", "--all")
    found = repository.review()
    assert {(e.path, e.status, e.old) for e in found.entries} == {
        ("manifests/small.toml", "renamed", MANIFEST),
        ("manifests/small.lock", "renamed", LOCK),
    }
    assert states(found) == {"manifests/small.lock": "current"}
    assert found.problems == ()


def test_a_manifest_that_was_renamed_away_from_its_plan(repository: Repository) -> None:
    (repository.root / MANIFEST).rename(repository.root / "manifests/small.toml")
    found = repository.review()
    # The plan still goes with the only manifest of the name that it holds.
    assert states(found) == {LOCK: "current"}
    repository.edit("manifests/small.toml", 'name = "tiny"', 'name = "small"')
    assert states(repository.review())["manifests/small.lock"] == "missing"


def test_a_plan_without_its_manifest(repository: Repository) -> None:
    (repository.root / MANIFEST).unlink()
    repository.edit(LOCK, "# To make", "# To make")
    repository.write("other.lock", repository.read(LOCK))
    found = repository.review()
    assert states(found)["other.lock"] == "orphan"
    assert {p.code for p in found.problems} == {"P464"}


def test_conflict_markers_are_told_as_such(repository: Repository) -> None:
    for branch, tokens in (("other", "17"), ("change", "18")):
        repository.git("checkout", "--quiet", "-B", branch, "main")
        repository.edit(MANIFEST, "max_tokens = 16", f"max_tokens = {tokens}")
        repository.edit(HOUSE, "spec_draft_max = 6", f"spec_draft_max = {int(tokens) - 10}")
        repository.compile(MANIFEST)
        repository.commit(branch)
    assert "CONFLICT" in repository.git("merge", "other", check=False)
    found = repository.review()
    assert states(found) == {LOCK: "conflict"}
    assert sorted(codes(found)) == ["P107", "P107", "P431"]
    places = {(p.spans[0].file, p.spans[0].source) for p in found.problems}
    assert places == {(name, "<<<<<<< HEAD") for name in (MANIFEST, LOCK, HOUSE)}


def test_what_cannot_be_read_is_a_defect_at_its_line(repository: Repository) -> None:
    repository.edit(MANIFEST, "max_tokens = 16", 'max_tokens = "16"')
    found = repository.review()
    assert "P114" in codes(found)
    (problem,) = (p for p in found.problems if p.code == "P114")
    assert (problem.spans[0].file, problem.spans[0].source) == (MANIFEST, 'max_tokens = "16"')


def test_settings_that_do_not_go_together_are_a_defect(repository: Repository) -> None:
    repository.edit(HOUSE, "batch = 12", "batch = 7")
    found = repository.review()
    assert {(p.code, p.severity) for p in found.problems} == {("P130", "error"), ("P461", "error")}


def test_a_profile_that_is_gone_is_a_defect_of_the_manifest(repository: Repository) -> None:
    (repository.root / HOUSE).unlink()
    found = repository.review()
    assert ("P457", "error") in {(p.code, p.severity) for p in found.problems}


def test_a_plan_with_another_profile_than_the_manifest_names(repository: Repository) -> None:
    repository.compile(MANIFEST, profile="off", lock="manifests/control.lock")
    found = repository.review()
    assert states(found) == {"manifests/control.lock": "current"}
    assert found.problems == ()


def test_the_fork_point_is_compared_with_and_not_what_others_did_since(
    repository: Repository,
) -> None:
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    repository.compile(MANIFEST)
    repository.commit("mine")
    repository.git("checkout", "--quiet", "main")
    repository.write("manifests/profiles/new.toml", PROFILE.replace("house", "new"))
    repository.commit("theirs")
    repository.git("checkout", "--quiet", "change")
    assert touched(repository.review()) == {MANIFEST: "changed", LOCK: "changed"}


def test_other_tools_files_are_not_ours(repository: Repository) -> None:
    repository.write("Cargo.toml", "[target.'cfg(unix)'.dependencies]\na = '1'\n")
    repository.write("poetry.lock", "[[package]]\nname = 'x'\n")
    repository.write("uv.lock", "version = 1\nlock = 3\n")
    repository.write("broken.toml", "= nothing\n")
    repository.edit("pyproject.toml", "other", "another")
    assert repository.review().entries == ()


def test_a_megabyte_of_empty_lines_is_read_once(repository: Repository) -> None:
    """To look for a table from every one of them would take a quarter of an hour."""
    repository.write("other.toml", "\n" * 1_000_000 + "= nothing\n")
    assert repository.review().entries == ()


def test_pathspecs_leave_files_out(repository: Repository) -> None:
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    assert repository.review("main", ":!manifests").entries == ()


def measured(report: bytes, name: str = "report.json") -> str:
    digest = hashlib.sha256(report).hexdigest()
    return (
        f'{PROFILE}\n[[evidence]]\nby = "measured"\nwhat = "decode"\nwhere = "here"\n'
        f'artifact = "tiny"\nartifact_sha256 = "{"ab" * 32}"\nreport = "{name}"\n'
        f'report_sha256 = "{digest}"\n'
    )


def test_measured_evidence_needs_its_report_and_its_plan(repository: Repository) -> None:
    plan = lock.loads(repository.read(LOCK), LOCK).lock.plan_sha256
    report = json.dumps({"arms": [{"plan_sha256": plan}]})
    profile = "manifests/profiles/measured.toml"
    repository.write(profile, measured(report.encode()).replace("house", "fast"))
    repository.commit("evidence")

    assert codes(repository.review()) == ["P466"]
    repository.write("manifests/profiles/report.json", report + "\n")
    assert codes(repository.review()) == ["P467"]
    repository.write("manifests/profiles/report.json", report)
    assert codes(repository.review()) == []
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    repository.compile(MANIFEST)
    found = repository.review()
    assert codes(found) == ["P468"]
    assert (found.problems[0].spans[0].file, found.problems[0].spans[0].line) == (profile, 18)


def certificate(plan_sha256: str) -> bytes:
    """A certificate of that plan, signed by somebody."""
    document = sample_certificate()
    document["predicate"]["plan"]["plan_sha256"] = plan_sha256
    return sign(document, samples.ed25519_key("somebody"))


def certified(repository: Repository) -> str:
    """Commit a certificate of the one plan as evidence of its own profile, and beside the plan."""
    plan = lock.loads(repository.read(LOCK), LOCK).lock.plan_sha256
    data = certificate(plan)
    for name in ("manifests/profiles/c.sigstore.json", "manifests/tiny.cert.sigstore.json"):
        repository.write(name, data.decode())
    repository.write(HOUSE, measured(data, "c.sigstore.json"))
    return plan


def test_a_certificate_is_evidence_like_a_report(repository: Repository) -> None:
    certified(repository)
    found = repository.review()
    assert (codes(found), states(found)) == ([], {})  # writing evidence down makes nothing stale
    repository.commit("certified")
    repository.git("branch", "--force", "main")
    assert codes(repository.review()) == []


def test_evidence_of_a_plan_that_is_gone(repository: Repository) -> None:
    certified(repository)
    repository.commit("certified")
    repository.edit(MANIFEST, "max_tokens = 16", "max_tokens = 17")
    repository.compile(MANIFEST)
    found = repository.review()
    assert codes(found) == ["P468", "P468"]
    places = [(p.spans[0].file, p.spans[0].source.partition(" ")[0]) for p in found.problems]
    assert places == [(HOUSE, "report"), (LOCK, "plan_sha256")]


def test_evidence_of_what_the_profile_said_before(repository: Repository) -> None:
    certified(repository)
    repository.commit("certified")
    repository.edit(HOUSE, "spec_draft_max = 6", "spec_draft_max = 7")
    found = repository.review()
    assert codes(found) == ["P461", "P469"]
    assert (found.problems[1].spans[0].file, found.problems[1].spans[0].line) == (HOUSE, 18)


def test_a_certificate_beside_a_plan_that_says_nothing(repository: Repository) -> None:
    repository.write("manifests/tiny.cert.sigstore.json", "{}")
    found = repository.review()
    assert codes(found) == []
    assert any("tiny.cert.sigstore.json" in text for text in found.unjudged)


def test_a_report_that_names_no_plan_is_not_judged(repository: Repository) -> None:
    repository.write("manifests/profiles/m.toml", measured(b"{}").replace("house", "fast"))
    repository.write("manifests/profiles/report.json", "{}")
    found = repository.review()
    assert codes(found) == []
    assert any("it names none" in text for text in found.unjudged)


def test_a_tuning_holds_for_what_it_chose(repository: Repository) -> None:
    chosen = {
        "strategy": "prompt-lookup",
        "draft_max": 6,
        "controller": "fixed",
        "shape": "natural",
    }

    def reviewed(chosen: object) -> Review:
        report = json.dumps({"schema": "power.tune-report.v1", "chosen": chosen})
        profile = measured(report.encode()).replace("house", "fast")
        repository.write("manifests/profiles/fast.toml", profile)
        repository.write("manifests/profiles/report.json", report)
        return repository.review()

    sound = reviewed(chosen)
    assert (codes(sound), sound.unjudged) == ([], ())
    (edited,) = reviewed(chosen | {"draft_max": 7, "controller": "cost"}).problems
    assert (edited.code, edited.expected, edited.found) == (
        "P469",
        "draft_max 7, controller cost",
        "draft_max 6, controller fixed",
    )
    (off,) = reviewed(None).problems
    assert (off.expected, off.found) == ("strategy off", "strategy prompt-lookup")


def test_an_exchanged_key_file_is_a_change_of_trust(repository: Repository) -> None:
    repository.write("keys/release.pub", KEYS[0])
    repository.write("trust.toml", 'schema = 1\n[key.release]\npublic_key = "keys/release.pub"\n')
    repository.commit("trust")
    repository.git("branch", "--force", "main")
    repository.write("keys/release.pub", KEYS[1])
    found = repository.review()
    assert touched(found) == {"trust.toml": "reached"}
    assert found.diffs[0].changes[0].path == "key.release.keyid"
    assert found.count(Class.TRUST) == 1


@pytest.mark.parametrize(("base", "code"), [("nowhere", "P453"), ("--help", "P455"), ("", "P455")])
def test_a_base_that_is_none(repository: Repository, base: str, code: str) -> None:
    with pytest.raises(PowerError) as caught:
        repository.review(base)
    assert caught.value.diagnostics[0].code == code
