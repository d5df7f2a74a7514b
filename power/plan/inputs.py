"""What a plan takes from manifest and profile, whoever has the artifacts."""

from __future__ import annotations

from power.artifact.facts import HeaderFacts
from power.manifest.meaning import meaning_sha256, profile_sha256
from power.manifest.merge import Effective
from power.plan.capabilities import EngineFacts
from power.plan.compiler import DraftFacts, Inputs
from power.plan.model import Source


def inputs(
    effective: Effective,
    *,
    target: HeaderFacts,
    draft: DraftFacts | None,
    engine: EngineFacts,
    native_lacks: str | None,
) -> Inputs:
    """The compiler's inputs for `effective`, with facts of artifacts and engine."""
    profile = effective.profile
    return Inputs(
        name=effective.name,
        manifest=Source(name=effective.name, sha256=meaning_sha256(effective.loaded.manifest)),
        profile=None
        if profile is None
        else Source(name=profile.profile.name, sha256=profile_sha256(profile.profile)),
        settings=effective.settings,
        target=effective.target,
        target_header=target,
        draft=draft,
        engine=engine,
        native_lacks=native_lacks,
    )
