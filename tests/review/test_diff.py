"""Comparing by meaning: what counts as a change, in which class, in which order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from power.diagnostics import PowerError
from power.manifest.model import Manifest
from power.manifest.profile import Profile
from power.manifest.shipped import shipped
from power.plan import lock
from power.plan.model import Plan
from power.review.consequences import RULES, Class, rule_for
from power.review.diff import Diff, diff
from power.review.documents import Document, load_document, parse_document

VECTORS = Path(__file__).parents[1] / "vectors"
MANIFEST = """\
schema = 1
name = "tiny"
[target]
path = "t.gguf"
bytes = 9
sha256 = "{digest}"
[graph]
shape = "fixed"
rows = 8
""".format(digest="ab" * 32)


def document(text: str, spec: str = "m.toml") -> Document:
    return parse_document(text.encode(), spec)


def changed(old: str, new: str) -> Diff:
    return diff(document(MANIFEST + old), document(MANIFEST + new))


@pytest.mark.parametrize(
    "path",
    [
        *sorted(shipped("manifests").glob("*.toml")),
        *sorted(shipped("profiles").glob("*.toml")),
        VECTORS / "plans" / "good.lock",
    ],
    ids=lambda path: path.name,
)
def test_nothing_differs_from_itself(path: Path) -> None:
    one = load_document(str(path))
    assert one.kind == {"manifests": "manifest", "profiles": "profile"}.get(
        path.parent.name, "plan"
    )
    assert diff(one, one).changes == ()


def test_layout_is_no_change() -> None:
    other = MANIFEST.replace(" = ", "=").replace("rows=8", "# eight\nrows = 0x8")
    assert diff(document(MANIFEST), document(other)).changes == ()


@pytest.mark.parametrize(
    ("new", "path", "kind"),
    [
        ("[sampling]\ntemperature = 0.5\n", "sampling.temperature", Class.OUTPUT),
        ("[sampling]\nseed = 1\n", "sampling.seed", Class.OUTPUT),
        ("context = 999\n", "graph.context", Class.OUTPUT),
        ("[exactness]\nlevel = 'shape'\n", "exactness.level", Class.OUTPUT),
        ("batch = 12\n", "graph.batch", Class.SHAPE),
        ('flash_attention = "off"\n', "graph.flash_attention", Class.SHAPE),
        ("micro_batch = 7\n", "graph.micro_batch", Class.SHAPE),
        ('repack = "off"\n', "graph.repack", Class.SHAPE),
        ("[speculation]\nspec_draft_max = 6\n", "speculation.spec_draft_max", Class.SPEED),
        ("[host]\nthreads = 2\n", "host.threads", Class.SPEED),
        ('[host]\nrequire = ["cuda"]\n', "host.require", Class.TRUST),
        ("[bounds]\nmin_acceptance = 0.5\n", "bounds.min_acceptance", Class.TRUST),
        ("[preflight]\ncpu_percent = 5\n", "preflight.cpu_percent", Class.TRUST),
    ],
)
def test_a_change_has_its_class_and_both_values(new: str, path: str, kind: Class) -> None:
    forth = {change.path: change for change in changed("", new).changes}
    back = {change.path: change for change in changed(new, "").changes}
    change = forth.pop(path)
    assert (change.kind, change.new_from) == (kind, "manifest")
    assert all(other.new_from == "derived" for other in forth.values())
    reverse = back[path]
    assert (reverse.kind, reverse.old, reverse.new) == (kind, change.new, change.old)


def test_what_a_value_settles_is_seen_too() -> None:
    """Without `rows` a fixed shape has K + 1 rows, so K decides the shape of every pass."""
    head = MANIFEST.replace("rows = 8\n", "")
    old, new = (document(f"{head}[speculation]\nspec_draft_max = {k}\n") for k in (6, 7))
    found = {c.path: (c.old, c.new, c.kind, c.new_from) for c in diff(old, new).changes}
    assert found == {
        "speculation.spec_draft_max": (6, 7, Class.SHAPE, "manifest"),
        "graph.rows": (7, 8, Class.SHAPE, "derived"),
        "graph.batch": (8, 9, Class.SHAPE, "derived"),
    }


def test_a_default_that_is_written_down_changes_words_only() -> None:
    (change,) = changed("", "[speculation]\nspec_draft_max = 7\n").changes
    assert (change.kind, change.old, change.new) == (Class.WORDS, 7, 7)
    assert change.means.says == "written down now: the value that holds is the same"
    assert (change.old_from, change.new_from) == ("default", "manifest")


def test_another_profile_is_seen_by_what_it_sets() -> None:
    old, new = (
        document(MANIFEST.replace("[target]", f'profile = "{name}"\n[target]'))
        for name in ("balanced", "short-task")
    )
    found = {c.path: (c.old, c.new, c.kind) for c in diff(old, new).changes}
    assert found["speculation.spec_draft_max"] == (7, 6, Class.SPEED)
    assert found["profile"] == ("balanced", "short-task", Class.WORDS)
    assert {c.new_from for c in diff(old, new).changes if c.path.startswith("spec")} == {"profile"}


def test_a_profile_that_cannot_be_read_is_said() -> None:
    old, new = (
        document(MANIFEST.replace("[target]", f'profile = "{name}.toml"\n[target]'))
        for name in ("a", "b")
    )
    found = diff(old, new)
    assert [(c.path, c.kind) for c in found.changes] == [("profile", Class.OUTPUT)]
    assert [w.code for w in found.warnings] == ["P457", "P457"]


def test_other_weights_come_first() -> None:
    old, new = (
        document(MANIFEST),
        document(
            MANIFEST.replace("ab" * 32, "cd" * 32).replace('"tiny"', '"small"').replace("8", "9")
        ),
    )
    kinds = [change.kind for change in diff(old, new).changes]
    assert kinds == [Class.IDENTITY, Class.SHAPE, Class.WORDS]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('shape = "fixed"\nrows = 8', 'shape = "fixed"\nrows = 8', Class.SPEED),
        ('shape = "fixed"\nrows = 8', 'shape = "fixed"\nrows = 9', Class.SHAPE),
        ('shape = "natural"', 'shape = "natural"', Class.SHAPE),
        ('shape = "fixed"', 'shape = "fixed"', Class.SHAPE),
    ],
)
@pytest.mark.parametrize("key", ["spec_draft_max", "spec_mode"])
def test_a_width_is_only_speed_at_one_fixed_shape(
    old: str, new: str, kind: Class, key: str
) -> None:
    """At another shape the passes have other row counts, and with them other last bits."""
    values = {"spec_draft_max": ("5", "6"), "spec_mode": ('"off"', '"prompt-lookup"')}[key]
    head = MANIFEST.replace('shape = "fixed"\nrows = 8\n', "")
    before, after = (
        document(f"{head}{shape}\n[speculation]\n{key} = {value}\n")
        for shape, value in zip((old, new), values, strict=True)
    )
    found = {change.path: change.kind for change in diff(before, after).changes}
    assert found[f"speculation.{key}"] is kind


PROFILE = 'schema = 1\nname = "p"\nsummary = "s"\n'


def entry(what: str, number: float) -> str:
    return (
        f'[[evidence]]\nby = "reported"\nwhat = "{what}"\nwhere = "here"\nartifact = "a"\n'
        f'source = "a paper"\nfigures = {{ rate_tok_s = {number} }}\n'
    )


def test_a_new_entry_of_evidence_is_one_change() -> None:
    old, new = PROFILE + entry("one", 1), PROFILE + entry("two", 2) + entry("one", 1)
    (change,) = diff(document(old), document(new)).changes
    assert (change.path, change.kind, change.old) == ("evidence[two]", Class.TRUST, None)
    assert change.new["figures"] == {"rate_tok_s": 2.0}


def test_the_order_of_evidence_is_no_change() -> None:
    old, new = entry("one", 1) + entry("two", 2), entry("two", 2) + entry("one", 1)
    assert diff(document(PROFILE + old), document(PROFILE + new)).changes == ()


def test_a_corrected_number_is_one_change() -> None:
    old, new = (document(PROFILE + entry("one", number)) for number in (1, 2))
    (change,) = diff(old, new).changes
    assert change.path == "evidence[one].figures.rate_tok_s"
    assert (change.old, change.new) == (1.0, 2.0)


def test_evidence_of_one_title_twice_is_two_entries() -> None:
    twice = document(PROFILE + entry("one", 1) + entry("one", 2))
    (change,) = diff(document(PROFILE + entry("one", 1)), twice).changes
    assert change.path == "evidence[one (2)]"


def test_a_new_draft_shows_each_of_its_facts() -> None:
    lines = '[draft]\nkind = "dspark"\npath = "d"\nbytes = 1\n'
    lines += f'sha256 = "{"cd" * 32}"\ntarget_sha256 = "{"ab" * 32}"\n'
    found = changed("", lines)
    assert [change.path for change in found.of(Class.IDENTITY)] == [
        "draft.bytes",
        "draft.sha256",
        "draft.kind",
        "draft.target_sha256",
    ]
    assert [change.path for change in found.of(Class.WORDS)] == ["draft.path"]


def test_plans_are_compared_without_their_own_digest() -> None:
    text = (VECTORS / "plans" / "good.lock").read_text("utf-8")
    old = lock.loads(text, "old")
    body = old.body()
    body["sampling"]["seed"] = body["sampling"]["seed"] + 1
    new = lock.dumps(lock.seal(body))
    (change,) = diff(document(text, "old"), document(new, "new")).changes
    assert (change.path, change.kind) == ("sampling.seed", Class.OUTPUT)


def test_an_edited_plan_is_not_compared() -> None:
    text = (VECTORS / "plans" / "good.lock").read_text("utf-8").replace("seed = 42", "seed = 43")
    with pytest.raises(PowerError) as caught:
        document(text)
    assert caught.value.diagnostics[0].code == "P435"


@pytest.mark.parametrize(
    ("other", "hint"),
    [("profiles/off.toml", "one kind"), ("tests/vectors/plans/good.lock", "compare the plans")],
)
def test_two_kinds_are_not_compared(other: str, hint: str) -> None:
    root = Path(__file__).parents[2]
    with pytest.raises(PowerError) as caught:
        diff(document(MANIFEST), load_document(str(root / other)))
    (found,) = caught.value.diagnostics
    assert found.code == "P450"
    assert found.hint is not None
    assert hint in found.hint


@pytest.mark.parametrize("text", ["a = 1\n", 'schema = 1\nname = "x"\n'])
def test_what_is_none_of_the_three(text: str) -> None:
    with pytest.raises(PowerError) as caught:
        document(text)
    assert [found.code for found in caught.value.diagnostics] == ["P451"]


def leaves(model: type[BaseModel], path: str = "") -> list[str]:
    """Every key of a model as a diff would name it."""
    found = []
    for name, info in model.model_fields.items():
        here = f"{path}.{info.alias or name}" if path else info.alias or name
        nested = tables(info.annotation)
        if here == "evidence":
            found.append("evidence[what was measured]")
        for table, indexed in nested:
            found += leaves(table, f"{here}[0]" if indexed else here)
        if not nested:
            found.append(here)
    return found


def tables(annotation: Any) -> list[tuple[type[BaseModel], bool]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, False)]
    indexed = getattr(annotation, "__origin__", None) in {list, tuple}
    return [(t, indexed or i) for arg in get_args(annotation) for t, i in tables(arg)]


KEYS = sorted(
    {"key.release.keyid"}
    | ({key for model in (Manifest, Profile, Plan) for key in leaves(model)} - {""})
)


@pytest.mark.parametrize("path", [key for key in KEYS if not key.startswith("lock.")])
def test_every_key_of_every_document_has_a_consequence(path: str) -> None:
    assert rule_for(path).consequence.says


def test_every_rule_has_a_key() -> None:
    used = {next(rule for rule in RULES if rule.matches(key)) for key in KEYS if "lock." not in key}
    assert [rule.pattern for rule in RULES if rule not in used] == []


def test_a_key_that_nobody_thought_of_is_no_silent_class() -> None:
    with pytest.raises(LookupError):
        rule_for("graph.novelty")


CHANGES = st.dictionaries(
    st.sampled_from(["spec_draft_max", "spec_draft_min", "spec_mtp_recurrent_snapshots"]),
    st.integers(1, 64),
)


@given(CHANGES, CHANGES, st.randoms(use_true_random=False))
def test_a_diff_is_what_differs_and_reverses(
    old: dict[str, int], new: dict[str, int], order: random.Random
) -> None:
    def text(values: dict[str, int]) -> str:
        items = list(values.items())
        order.shuffle(items)
        return MANIFEST + "[speculation]\n" + "".join(f"{key} = {v}\n" for key, v in items)

    forth, back = (
        diff(document(text(old)), document(text(new))),
        diff(document(text(new)), document(text(old))),
    )
    default = {"spec_draft_max": 7, "spec_draft_min": 0, "spec_mtp_recurrent_snapshots": 7}
    expected = {
        (f"speculation.{key}", old.get(key, default[key]), new.get(key, default[key]))
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    }
    assert expected == {
        (c.path, c.old, c.new) for c in forth.changes if c.path.startswith("speculation.")
    }
    assert {(c.path, c.old, c.new) for c in forth.changes} == {
        (c.path, c.new, c.old) for c in back.changes
    }
    ranks = [change.kind.rank for change in forth.changes]
    assert ranks == sorted(ranks)
