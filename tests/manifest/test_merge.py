"""The manifest over the profile over the defaults, each value with its origin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from power.diagnostics import PowerError, as_text
from power.manifest.effective import load_effective
from power.manifest.load import parse_manifest, parse_profile
from power.manifest.merge import merge

Written = Callable[[str, str], Path]
PROFILE = """\
schema = 1
name = "mine"
summary = "One line"
[speculation]
spec_draft_max = 5
spec_draft_min = 2
[graph]
context = 1000
shape = "fixed"
rows = 6
"""


def with_profile(head: str, reference: str) -> str:
    return head.replace('name = "tiny"\n', f'name = "tiny"\nprofile = "{reference}"\n')


def test_each_layer_wins_over_the_one_below(written: Written, head: str) -> None:
    written("mine.toml", PROFILE)
    text = with_profile(head, "mine.toml") + "[speculation]\nspec_draft_max = 4\n"
    found = load_effective(written("m.toml", text))
    speculation = found.settings.speculation
    assert (speculation.spec_draft_max, speculation.spec_draft_min) == (4, 2)
    assert speculation.spec_mtp_recurrent_snapshots == 7
    assert [
        found.origin("speculation", key)
        for key in ("spec_draft_max", "spec_draft_min", "spec_mtp_recurrent_snapshots")
    ] == ["manifest", "profile", "default"]


def test_a_value_is_placed_in_the_file_it_came_from(written: Written, head: str) -> None:
    profile = written("mine.toml", PROFILE)
    path = written("m.toml", with_profile(head, "mine.toml") + "[graph]\ncontext = 2000\n")
    found = load_effective(path)
    here, there = found.span("graph", "context"), found.span("speculation", "spec_draft_max")
    assert here is not None
    assert there is not None
    assert (here.file, here.source) == (str(path), "context = 2000")
    assert (there.file, there.source) == (str(profile), "spec_draft_max = 5")
    assert found.span("host", "threads") is None
    target = found.span("target", "sha256")
    assert target is not None
    assert target.file == str(path)


def test_the_rows_of_a_shape_that_was_replaced_go_with_it(written: Written, head: str) -> None:
    written("mine.toml", PROFILE)
    text = with_profile(head, "mine.toml") + '[graph]\nshape = "natural"\n'
    assert load_effective(written("m.toml", text)).rows is None


def test_another_profile_replaces_the_one_that_is_named(written: Written, head: str) -> None:
    written("mine.toml", PROFILE)
    path = written("m.toml", with_profile(head, "mine.toml"))
    found = load_effective(path, profile="off")
    assert found.profile is not None
    assert found.profile.profile.name == "off"
    assert found.requested == "off"


def test_a_profile_from_the_command_line_lies_below_the_working_folder(
    written: Written, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = written("elsewhere/own.toml", PROFILE)
    path = written("manifests/m.toml", head)
    monkeypatch.chdir(own.parent)
    found = load_effective(path, profile="own.toml")
    assert found.settings.graph.context == 1000


def test_a_profile_in_the_manifest_lies_beside_the_manifest(
    written: Written, head: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written("manifests/below/mine.toml", PROFILE)
    path = written("manifests/m.toml", with_profile(head, "below/mine.toml"))
    monkeypatch.chdir(tmp_path)
    assert load_effective(path).settings.graph.context == 1000


def test_an_unknown_profile_lists_the_known(written: Written, head: str) -> None:
    path = written("m.toml", with_profile(head, "balance"))
    with pytest.raises(PowerError) as caught:
        load_effective(path)
    (found,) = caught.value.diagnostics
    assert (found.code, found.hint) == ("P121", "did you mean `balanced`?")
    assert found.spans[0].source == 'profile = "balance"'
    assert found.expected is not None
    assert "`lookup-cpu`" in found.expected


def test_an_unknown_profile_of_the_command_line(written: Written, head: str) -> None:
    with pytest.raises(PowerError) as caught:
        load_effective(written("m.toml", head), profile="zzz")
    (found,) = caught.value.diagnostics
    assert (found.code, found.place) == ("P121", "--profile")


@pytest.mark.parametrize("reference", ["../mine.toml", "/mine.toml", "a/b", "Mine"])
def test_a_profile_cannot_be_named_from_outside(
    written: Written, head: str, reference: str
) -> None:
    with pytest.raises(PowerError) as caught:
        load_effective(written("m.toml", with_profile(head, reference)))
    assert [d.code for d in caught.value.diagnostics] == ["P117"]


WIDTHS = st.fixed_dictionaries(
    {},
    optional={
        "spec_draft_max": st.integers(1, 64),
        "spec_draft_min": st.integers(0, 64),
        "spec_mtp_recurrent_snapshots": st.integers(1, 64),
        "spec_mtp_adaptive": st.booleans(),
    },
)
DEFAULTS = {
    "spec_draft_max": 7,
    "spec_draft_min": 0,
    "spec_mtp_recurrent_snapshots": 7,
    "spec_mtp_adaptive": False,
}


@given(WIDTHS, WIDTHS)
def test_merging_is_the_union_with_the_manifest_on_top(
    above: dict[str, object], below: dict[str, object]
) -> None:
    def section(values: dict[str, object]) -> str:
        lines = (f"{key} = {str(value).lower()}" for key, value in values.items())
        return "\n[speculation]\n" + "\n".join(lines) + "\n"

    head = f'schema = 1\nname = "m"\n[target]\npath = "x"\nbytes = 1\nsha256 = "{"0" * 64}"'
    found = merge(
        parse_manifest((head + section(above)).encode(), "m"),
        parse_profile(('schema = 1\nname = "p"\nsummary = "s"' + section(below)).encode(), "p"),
    )
    merged = found.settings.speculation.model_dump()
    assert {key: merged[key] for key in DEFAULTS} == {**DEFAULTS, **below, **above}
    for key in DEFAULTS:
        layer = "manifest" if key in above else "profile" if key in below else "default"
        assert found.origin("speculation", key) == layer


@pytest.mark.parametrize(
    ("above", "below", "kind"),
    [
        ("", "spec_mtp_adaptive = true", "adaptive"),
        ('controller = "fixed"', "spec_mtp_adaptive = true", "fixed"),
        ("spec_mtp_adaptive = true", 'controller = "cost"', "adaptive"),
        ("spec_mtp_adaptive = false", 'controller = "cost"', "fixed"),
        ("", 'controller = "cost"', "cost"),
        ("", "", "fixed"),
    ],
)
def test_one_spelling_of_the_controller_replaces_the_other(
    above: str, below: str, kind: str
) -> None:
    head = f'schema = 1\nname = "m"\n[target]\npath = "x"\nbytes = 1\nsha256 = "{"0" * 64}"'
    found = merge(
        parse_manifest(f"{head}\n[speculation]\n{above}\n".encode(), "m"),
        parse_profile(
            f'schema = 1\nname = "p"\nsummary = "s"\n[speculation]\n{below}\n'.encode(), "p"
        ),
    )
    assert found.settings.speculation.width_controller == kind


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_profile_by_a_link_out_of_the_folder_is_not_opened(
    written: Callable[[str, str], Path], head: str, link: str
) -> None:
    secret = written("elsewhere/p.toml", "a secret of this machine\n")
    if link == "file":
        path = written("here/m.toml", f'profile = "p.toml"\n{head}')
        (path.parent / "p.toml").symlink_to(secret)
    else:
        path = written("here/m.toml", f'profile = "sub/p.toml"\n{head}')
        (path.parent / "sub").symlink_to(secret.parent)
    with pytest.raises(PowerError) as caught:
        load_effective(path)
    (found,) = caught.value.diagnostics
    assert (found.code, found.spans[0].line) == ("P122", 1)
    assert "secret" not in as_text([found])


def test_a_profile_by_a_link_inside_the_folder(
    written: Callable[[str, str], Path], head: str
) -> None:
    path = written("m.toml", f'profile = "link.toml"\n{head}')
    written("deep/p.toml", 'schema = 1\nname = "p"\nsummary = "s"\n')
    (path.parent / "link.toml").symlink_to("deep/p.toml")
    assert load_effective(path).profile is not None
