"""What the verbs of this room say with `--format json`, behind `schema` and `exit_code`."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from power.evidence.compare import Comparison
from power.evidence.package import Package
from power.evidence.parts import Count, Decimal, FileName, Hex, Name, Part
from power.evidence.planner import Prediction
from power.evidence.quality_report import Matrix, ModeScore, Pair
from power.evidence.report import ArmFigures, Report
from power.evidence.trace import TracedCosts
from power.evidence.tuned import Compared


class BenchOutput(Part):
    """What `power bench` says."""

    report: str = Field(description="the file that holds all of it")
    arms: list[ArmFigures]


class CompareOutput(Part):
    """What `power compare` says."""

    comparison: Comparison = Field(description="as `--output` writes it")


class ReportOutput(Part):
    """What `power report` says."""

    report: Report | Matrix = Field(description="the file that was read")


class QualityOutput(Part):
    """What `power quality` says."""

    report: str = Field(description="the file that holds all of it")
    eligible: list[Name] = Field(description="the modes that are fit as production default")
    scores: list[ModeScore]
    pairs: list[Pair]

    @classmethod
    def of(cls, matrix: Matrix, report: str) -> Self:
        """What is said of `matrix`, which was written to the file `report`."""
        eligible = [pair.candidate for pair in matrix.pairs if pair.eligible]
        return cls(report=report, eligible=eligible, scores=matrix.scores, pairs=matrix.pairs)


class SimulateOutput(Part):
    """What `power simulate` says."""

    settings: list[Prediction] = Field(description="every setting, the best first")
    chosen: Prediction | None = Field(None, description="the best that pays, if any does")


class TuneOutput(Part):
    """What `power tune` says. predicted, measured: geometric means over `by_prompt`."""

    profile: str = Field(description="the profile that was written")
    report: str = Field(description="the report that its evidence names")
    trace: str = Field(description="what `power simulate` reads")
    cost: TracedCosts
    chosen: Prediction | None = Field(None, description="absent where nothing pays")
    without_draft: Prediction | None = Field(
        None, description="a faster one that the manifest's draft stands in the way of"
    )
    predicted: Decimal
    measured: Decimal
    by_prompt: list[Compared]


class PackageOutput(Part):
    """What `power evidence pack` and `power evidence verify` say."""

    files: dict[FileName, Hex] = Field(description="SHA-256 by name; the index is not among them")
    reports: list[FileName]
    comparisons: list[FileName]
    matrices: list[FileName]
    receipts: Count = Field(description="how many the reports rest on")
    key: str = Field(description="what the key that signed the index is called")

    @classmethod
    def of(cls, package: Package) -> Self:
        """What is said of `package`."""
        return cls(
            files=dict(package.files),
            reports=sorted(package.reports),
            comparisons=sorted(package.comparisons),
            matrices=sorted(package.matrices),
            receipts=package.receipts,
            key=package.key,
        )
