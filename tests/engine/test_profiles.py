"""Every shipped profile compiles and runs: on a tiny pair of the kind that it is for.

A manifest's own keys win, so each may shrink the context to what its fixture was
made for and run on a host without the device that the profile asks for. Widths,
shapes, draft vocabulary and controller are the profile's.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from power.backends.llamacpp import BACKEND
from power.manifest.shipped import profile_names
from power.plan.compile import compile_manifest, write_lock
from power.plan.lock import load
from power.plan.model import Plan
from power.plan.verified import open_verified
from power.runner.runner import Runner
from power.runner.types import Request, RunRecord
from tools.build_drafts.catalogue import BLOCK_DRAFTS, NATIVE_TABLES, ROWS, SMALL, Recipe
from tools.build_drafts.dflash import BlockDraft
from tools.build_drafts.qwen35 import RECIPES
from tools.build_drafts.targets import LlamaTarget

FILES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        LlamaTarget("walk", SMALL, push=0.5),
        *RECIPES,
        *BLOCK_DRAFTS,
        *NATIVE_TABLES,
        BlockDraft("dspark-ten", "dspark", SMALL, block=10),
    )
}
PROMPT = "".join(chr(33 + 7 * i % 90) for i in range(40))


@dataclass(frozen=True)
class Use:
    """What a profile runs on, and what has to come of it."""

    target: str
    strategy: str
    k: int | None = None
    s: int | None = None
    draft: tuple[str, str] | None = None  # kind, file


USES: Mapping[str, Use] = {
    "off": Use("walk", "off"),
    "lookup-cpu": Use("walk", "prompt-lookup", 7, 7),
    "serial-cpu": Use("walk", "prompt-lookup", 6, 6),
    "tuned-qwen-coder": Use("walk", "prompt-lookup", 2, 2),
    "tuned-smollm2": Use("walk", "ngram-context", 10, 10),
    "balanced": Use("qwen35", "mtp", 7, 7),
    "short-task": Use("qwen35", "mtp", 6, 6),
    "adaptive": Use("qwen35", "mtp", 10, 6),
    "peak-fr8192": Use("qwen35-wide", "mtp", 7, 6),
    "dspark-k10s6": Use("qwen35", "dspark", 10, 6, ("dspark", "dspark-ten")),
    "dflash2-fixed": Use("qwen35", "dflash2", 7, 7, ("dflash2", "dflash2")),
}


class Bench:
    """A folder with fixtures, manifests and plans."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pin(self, name: str) -> str:
        path = self.folder / f"{name}.gguf"
        if not path.exists():
            FILES[name].write(self.folder)
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        return f'path = "{path.name}"\nbytes = {len(data)}\nsha256 = "{digest}"\n'

    def plan(self, use: Use, profile: str | None, mode: str | None = None) -> Plan:
        """The plan of `use`, compiled and read back from its lock file."""
        text = f'schema = 1\nname = "tiny"\n\n[target]\n{self.pin(use.target)}'
        if use.draft is not None:
            kind, name = use.draft
            target = (self.folder / f"{use.target}.gguf").read_bytes()
            bound = hashlib.sha256(target).hexdigest()
            text += f'\n[draft]\nkind = "{kind}"\n{self.pin(name)}target_sha256 = "{bound}"\n'
        text += "\n[graph]\ncontext = 512\nprefill_batch = 64\n"
        text += "\n[host]\nthreads = 1\nrequire = []\n\n[sampling]\nmax_tokens = 40\n"
        if mode is not None:
            text += f'\n[speculation]\nspec_mode = "{mode}"\n'
        manifest = self.folder / "manifest.toml"
        manifest.write_text(text, "utf-8")
        compiled = compile_manifest(manifest, profile=profile, roots=(), engine=BACKEND.describe())
        write_lock(self.folder / "plan.lock", compiled)
        return load(self.folder / "plan.lock")

    def run(self, plan: Plan) -> tuple[RunRecord, RunRecord]:
        """A run and its control, in one worker."""
        with (
            open_verified(plan, self.folder / "plan.lock", ()) as artifacts,
            Runner(plan, artifacts) as runner,
        ):
            return runner.generate(Request(PROMPT)), runner.generate(Request(PROMPT, control=True))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_no_profile_is_left_out() -> None:
    assert set(USES) == set(profile_names())


@pytest.mark.parametrize("profile", USES)
def test_a_profile_compiles_and_runs(bench: Bench, profile: str) -> None:
    use = USES[profile]
    plan = bench.plan(use, profile)
    spec = plan.speculation
    assert plan.profile is not None
    assert (plan.profile.name, spec.strategy) == (profile, use.strategy)
    assert (spec.spec_draft_max, spec.effective_snapshots) == (use.k, use.s)
    run, control = bench.run(plan)
    assert run.strategy == use.strategy
    assert (run.ids, run.text, run.finish) == (control.ids, control.text, control.finish)
    assert len(run.ids) == 40
    assert run.counters["replays"] <= (1 if (use.k or 0) > (use.s or 0) else 0)
    if plan.speculation.spec_draft_p_min is not None:  # a model proposes
        assert 0 < run.counters["accepted"] < run.counters["drafted"]
    assert control.counters["drafted"] == 0


def test_the_peak_profile_reduces_the_head_and_counts_what_it_covers(bench: Bench) -> None:
    plan = bench.plan(USES["peak-fr8192"], "peak-fr8192")
    assert (plan.speculation.fr_rule, plan.speculation.spec_mtp_fr_vocab_size) == ("prefix", 8192)
    run, control = bench.run(plan)
    assert run.fr_covered == sum(token < 8192 for token in run.ids)
    assert control.fr_covered is None


def test_a_ranked_native_head_counts_what_it_covers(bench: Bench) -> None:
    """The same profile with a table in the manifest: the rule is the table's."""
    plan = bench.plan(Use("qwen35", "mtp", draft=("mtp", "mtp-d2t")), None, "auto")
    spec = plan.speculation
    assert (spec.strategy, spec.fr_rule, spec.spec_mtp_fr_vocab_size) == ("mtp", "d2t", ROWS)
    run, control = bench.run(plan)
    named = set(SMALL.frequent(ROWS).tolist())
    assert run.ids == control.ids
    assert run.fr_covered == sum(token in named for token in run.ids) < len(run.ids)
    assert 0 < run.counters["accepted"] < run.counters["drafted"]


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (
            Use("qwen35", "dspark", draft=("dspark", "dspark")),
            "the manifest declares a verified external draft",
        ),
        (
            Use("qwen35", "mtp", draft=("mtp", "mtp-d2t")),
            "the manifest declares a verified table for the target's native MTP block",
        ),
        (
            Use("qwen35", "mtp"),
            "the manifest declares no draft and the target has a native MTP block",
        ),
        (
            Use("qwen35-no-mtp", "off"),
            (
                "the manifest declares no draft and the target has no native MTP block "
                "(`nextn_predict_layers` is absent or 0)"
            ),
        ),
    ],
    ids=["external draft", "table for the native head", "native head", "neither"],
)
def test_auto_takes_the_draft_then_the_native_head_then_nothing(
    bench: Bench, use: Use, reason: str
) -> None:
    plan = bench.plan(use, None, "auto")
    spec = plan.speculation
    assert (spec.requested, spec.strategy, spec.reason) == ("auto", use.strategy, reason)
    assert (plan.draft is None) == (use.draft is None)
    run, control = bench.run(plan)
    assert run.strategy == use.strategy
    assert run.ids == control.ids
