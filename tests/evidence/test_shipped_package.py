"""The package that ships: it verifies without the models, and profiles say what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from power.evidence import package
from power.evidence.package import Package
from power.manifest.load import load_profile
from power.manifest.meaning import profile_sha256
from power.manifest.profile import Profile
from power.manifest.shipped import shipped
from power.plan.lock import loads
from power.receipt.digests import sha256
from power.receipt.keys import load_public
from power.receipt.trust import trust_in

BOTH = pytest.mark.parametrize("model", ["smollm2", "qwen-coder"])
FOLDER = shipped("profiles") / "evidence" / "tuned"


@pytest.fixture(scope="module")
def held() -> Package:
    """The package, verified."""
    return package.verify(
        FOLDER, trust_in(load_public(FOLDER.with_name("signer.pub")), "the maker")
    )


def profile_of(model: str) -> Profile:
    return load_profile(FOLDER.parent.parent / f"tuned-{model}.toml").profile


def test_the_package_holds_both_benches(held: Package) -> None:
    """Two arms on 14 prompts: seven rounds of the one, three of the other."""
    assert (len(held.reports), held.receipts) == (2, 2 * 14 * (7 + 3))


@pytest.mark.parametrize(("model", "mean"), [("smollm2", "1.10"), ("qwen-coder", "1.02")])
def test_both_benches_meet_their_goals(model: str, mean: str) -> None:
    """Worst prompt, mean, outputs, phases, and the share of the ideal on copying prompts."""
    bench, tuned = (str(FOLDER / f"tuned-{model}.{kind}.json") for kind in ("bench", "tune"))
    judged = subprocess.run(
        [sys.executable, "-m", "tools.bench_speed", bench, "--tuned", tuned, "--mean", mean],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr


@BOTH
def test_what_was_timed_is_in_it_and_the_profile_has_its_figures(held: Package, model: str) -> None:
    name = f"tuned-{model}.bench.json"
    data = (FOLDER / name).read_bytes()
    assert held.files[name] == sha256(data)
    profile = profile_of(model)
    (entry,) = (e for e in profile.evidence if e.report_sha256 == sha256(data))
    assert entry.report == f"evidence/tuned/{name}"
    control, plan = json.loads(data)["figures"]
    assert entry.figures == {
        "control_decode_median_tok_s": float(control["decode_tok_s"]["median"]),
        "plan_decode_median_tok_s": float(plan["decode_tok_s"]["median"]),
        "plan_tokens_per_pass_ratio": float(plan["tokens_per_pass"]),
    }


@BOTH
def test_what_was_tuned_is_in_it_and_the_profile_has_its_figures(held: Package, model: str) -> None:
    data = (FOLDER / f"tuned-{model}.tune.json").read_bytes()
    assert held.files[f"tuned-{model}.tune.json"] == sha256(data)
    profile = profile_of(model)
    (entry,) = (e for e in profile.evidence if e.report_sha256 == sha256(data))
    assert entry.report == f"evidence/tuned/tuned-{model}.tune.json"
    tuned = json.loads(data)
    assert entry.figures == {
        "predicted_gain_ratio": float(tuned["predicted"]),
        "measured_gain_ratio": float(tuned["measured"]),
        "equal_outputs_count": sum(one["equal"] for one in tuned["by_prompt"]),
        "prompts_count": len(tuned["by_prompt"]),
    }


@BOTH
def test_the_plan_that_was_timed_is_of_the_profile_as_it_is(model: str) -> None:
    name = f"tuned-{model}.bench.plan.lock"
    plan = loads((FOLDER / name).read_text("utf-8"), name)
    profile = profile_of(model)
    assert plan.profile is not None
    assert plan.profile.sha256 == profile_sha256(profile)
