"""A review as text, Markdown, JSON and annotations, within GitHub's limits."""

from __future__ import annotations

import json
import re

import pytest

from power.diagnostics import Diagnostic, Span
from power.review.annotations import annotated
from power.review.consequences import Class
from power.review.policy import refused
from power.review.review import Review
from power.review.review_markdown import COMMENT_LIMIT, MARK, SUMMARY_LIMIT, review_markdown
from power.review.review_output import review_json, review_text
from tests.review.conftest import Repository
from tests.review.test_review import HOUSE, LOCK, MANIFEST


@pytest.fixture
def found(repository: Repository) -> Review:
    """A profile changed without its plan."""
    repository.edit(HOUSE, "spec_draft_max = 6", "spec_draft_max = 8")
    return repository.review()


def test_text(found: Review) -> None:
    assert review_text(found).replace(found.commit[:12], "COMMIT") == (
        """\
review against main (COMMIT)

profile manifests/profiles/house.toml (changed)

  Shape: other passes; output may differ where two tokens nearly tie
    speculation.spec_draft_max: 6 -> 8
        K: proposals of up to 8 tokens, before 6; a pass has 1 to 9 rows, before 1 to 7; K = 8 is \
past S = 7: a rejection of more than 7 rows, on a recurrent target, opens the guarded replay, once \
a request, and the width falls to 7

manifest manifests/tiny.toml (not changed itself, but what it names is)

  Shape: other passes; output may differ where two tokens nearly tie
    speculation.spec_draft_max: 6 (from the profile) -> 8 (from the profile)
        K: proposals of up to 8 tokens, before 6; a pass has 1 to 9 rows, before 1 to 7; K = 8 is \
past S = 7: a rejection of more than 7 rows, on a recurrent target, opens the guarded replay, once \
a request, and the width falls to 7

plans
  manifests/tiny.lock: stale

void from here on
  claims of earlier receipts: a new run need not repeat them
  the exactness certificate, which names a plan by digest: certify the new one
  measured speed and acceptance: measure the new plan

1 defect, no warnings; 2 documents touched, 1 plan judged
"""
    )


def test_markdown(found: Review) -> None:
    text = review_markdown(found).replace(found.commit[:12], "COMMIT")
    assert text.startswith(
        f"""\
{MARK}
## Power review: 1 defect, no warnings; 2 documents touched, 1 plan judged

Compared with `main` at `COMMIT`.

| identity | output | shape | speed | trust | words |
| --- | --- | --- | --- | --- | --- |
|  |  | 2 |  |  |  |

### Defects

- **P461** `manifests/tiny.lock:14`: ``the plan is stale: its profile `house` says something \
else now`` Next: ``run `power compile manifests/tiny.toml`: a profile changes together with \
its plans``

### Changes

#### Profile `manifests/profiles/house.toml` (changed)

**Shape: other passes; output may differ where two tokens nearly tie**

- `speculation.spec_draft_max`: `6` → `8`
"""
    )
    assert "\n### Plans\n\n- `manifests/tiny.lock`: stale\n" in text


def test_json(found: Review) -> None:
    data = json.loads(json.dumps(review_json(found)))
    assert [(d["path"], d["status"]) for d in data["documents"]] == [
        (HOUSE, "changed"),
        (MANIFEST, "reached"),
    ]
    assert data["plans"] == [{"path": LOCK, "manifest": MANIFEST, "state": "stale"}]
    assert data["counts"]["shape"] == 2
    assert data["defects"] == 1


def test_a_policy_is_a_defect_that_names_the_keys(found: Review) -> None:
    broken = tuple(refused(found.diffs, {Class.SHAPE, Class.IDENTITY}))
    assert [(b.code, b.spans[0].file, b.spans[0].source) for b in broken] == [
        ("P456", HOUSE, "spec_draft_max = 8"),
        ("P456", MANIFEST, 'profile = "profiles/house.toml"'),
    ]
    assert "`speculation.spec_draft_max`" in broken[0].message
    assert len(found.with_problems(broken).errors) == 3


def without_code(markdown: str) -> str:
    return re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "CODE", markdown)


def test_names_and_texts_of_files_are_never_markup(repository: Repository) -> None:
    """A file's name and what it says are the author's; the comment is the reviewer's."""
    attack = "`@team <img src=x> [x](y) ## | \u202e #1"
    repository.write(f"manifests/profiles/{attack}.toml", repository.read(HOUSE))
    repository.edit(HOUSE, "what this house runs", attack)
    repository.edit(HOUSE, 'name = "house"', f'name = "{attack}"')
    text = without_code(review_markdown(repository.review()))
    for mark in ("@team", "<img", "](y)", "\u202e", "#1"):
        assert mark not in text


@pytest.mark.parametrize("limit", [2_000, COMMENT_LIMIT, SUMMARY_LIMIT])
def test_what_is_too_long_is_cut_at_a_line_and_says_so(repository: Repository, limit: int) -> None:
    for number in range(12):
        lines = "".join(f"\nfact_{n}_s = {n}" for n in range(900))
        repository.write(
            f"manifests/profiles/p{number}.toml",
            f'schema = 1\nname = "p{number}"\nsummary = "é"\n\n[[evidence]]\nby = "reported"\n'
            f'what = "x"\nwhere = "x"\nartifact = "x"\nsource = "x"\n\n[evidence.figures]{lines}\n',
        )
    repository.commit("many")
    repository.git("branch", "--force", "main")
    for number in range(12):
        path = f"manifests/profiles/p{number}.toml"
        repository.write(path, re.sub(r"_s = (\d+)", r"_s = 1\1", repository.read(path)))
    text = review_markdown(repository.review(), limit)
    whole = limit == SUMMARY_LIMIT and "Cut here" not in text
    assert len(text.encode()) <= limit
    if not whole:
        assert re.search(
            r"\n\n\*\*Cut here:\*\* \d+ more lines would not fit into [\d,]+ bytes", text
        )
        assert text.endswith("`power review --base main` shows all.\n")


def problem(number: int, severity: str = "error") -> Diagnostic:
    span = Span(f"a,b:{number}.toml", number + 1, 1, 3, "key")
    return Diagnostic(
        "P460",
        f"message {number}",
        (span,),
        hint="hint",
        severity=severity,  # type: ignore[arg-type]
    )


def test_an_annotation_is_at_its_file_and_line() -> None:
    assert annotated([problem(1)]) == (
        "::error file=a%2Cb%3A1.toml,line=2,col=1,endColumn=4,title=P460::message 1%0Ahint: hint"
    )


@pytest.mark.parametrize(("errors", "lines", "left"), [(10, 10, None), (11, 10, 2), (40, 10, 31)])
def test_at_most_ten_annotations_a_level(errors: int, lines: int, left: int | None) -> None:
    known = [problem(n) for n in range(errors)] + [problem(n, "warning") for n in range(3)]
    found = annotated(known).split("\n")
    assert [line.split(" ")[0] for line in found] == ["::error"] * lines + ["::warning"] * 3
    if left is not None:
        assert f"::{left} more errors are in the summary" in found[9]
