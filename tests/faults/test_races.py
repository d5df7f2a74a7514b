"""Several processes on one file at once: one of them wins, whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import End, Zygote
from tests.faults.test_files import DEEDS, left_over

CROWD = 8


def crowd(zygote: Zygote, folder: Path, *arguments: str, **more: Any) -> list[End]:
    return zygote.together([{"folder": str(folder), "arguments": arguments} | more] * CROWD)


@pytest.mark.parametrize("name", ["key", "receipt", "init"])
def test_a_new_file_is_made_by_one(zygote: Zygote, folder: Path, name: str) -> None:
    deed = DEEDS[name]
    ends = crowd(zygote, folder, *deed.arguments, call=deed.call)
    assert sorted(end.code for end in ends) == [0] + [2] * (CROWD - 1)
    assert all("error[P440]" in end.stderr for end in ends if end.code)
    deed.sound(folder / deed.file)
    assert left_over(folder) == []


def test_one_lock_by_many_is_one_lock(zygote: Zygote, folder: Path) -> None:
    ends = crowd(zygote, folder, "compile", "manifest.toml", "--format", "json")
    assert [end.code for end in ends] == [0] * CROWD, ends
    (digest,) = {json.loads(end.stdout)["plan_sha256"] for end in ends}
    assert digest in (folder / "plan.lock").read_text("utf-8")
    assert left_over(folder) == []


def test_plans_of_two_manifests_to_one_lock_never_mix(zygote: Zygote, folder: Path) -> None:
    manifest = (folder / "manifest.toml").read_text("utf-8")
    (folder / "other.toml").write_text(manifest.replace("max_tokens = 48", "max_tokens = 47"))
    names = ("manifest.toml", "other.toml") * (CROWD // 2)
    ends = zygote.together(
        [
            {"folder": str(folder), "arguments": ["compile", name, "-o", "plan.lock"]}
            for name in names
        ]
    )
    assert [end.code for end in ends] == [0] * CROWD
    assert zygote(folder, "show", "plan.lock").code == 0
