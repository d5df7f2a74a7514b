"""What a profile may say: shared settings, and the evidence they rest on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from power.manifest import text_rules
from power.manifest.model import ArtifactPath, Head, Line, Origin, Section, Settings, Sha256
from power.manifest.text_rules import Expected

Figure = Annotated[float, Field(ge=-1e15, le=1e15)]
FigureName = Annotated[
    str,
    AfterValidator(text_rules.figure_name),
    Expected(
        "lower-case words with `_` between them, the last one the unit",
        f"^{text_rules.FIGURE.pattern}$",
    ),
]


class Evidence(Section):
    """One observation that a setting rests on.

    `by = "reported"`: somebody else's numbers, with the `source` that says so.
    `by = "measured"`: measured with this project; `report` is the file that it
    wrote (relative to the profile) and `report_sha256` its digest.
    """

    by: Literal["reported", "measured"]
    what: Line = Field(description="what was measured, in one sentence")
    where: Line = Field(description="devices and engine it was measured on")
    artifact: Line = Field(description="the target's name")
    artifact_sha256: Sha256 | None = Field(
        None, description="the target's digest; always known when measured"
    )
    draft_sha256: Sha256 | None = None
    source: Origin | None = None
    report: ArtifactPath | None = None
    report_sha256: Sha256 | None = None
    figures: dict[FigureName, Figure] = Field(
        default_factory=dict, description="numbers by name and unit, as in `decode_median_tok_s`"
    )
    note: Line | None = Field(None, description="what the numbers do not show")


class ProfileHead(Head):
    """What only a profile has, ahead of its settings."""

    summary: Line


class ProfileTail(Section):
    """What only a profile has, behind its settings."""

    evidence: Annotated[tuple[Evidence, ...], Field(strict=False, max_length=64)] = ()


class Profile(ProfileTail, Settings, ProfileHead):
    """One named set of settings, with the evidence it rests on."""
