"""What the verbs of this room say with `--format json`, behind `schema` and `exit_code`."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from power.evidence.compare import Comparison
from power.evidence.package import Package
from power.evidence.parts import Count, Decimal, FileName, Hex, Part
from power.evidence.planner import Prediction
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

    report: Report = Field(description="the file that was read")


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
    predicted: Decimal
    measured: Decimal
    by_prompt: list[Compared]


class PackageOutput(Part):
    """What `power evidence pack` and `power evidence verify` say."""

    files: dict[FileName, Hex] = Field(description="SHA-256 by name; the index is not among them")
    reports: list[FileName]
    comparisons: list[FileName]
    receipts: Count = Field(description="how many the reports rest on")
    key: str = Field(description="what the key that signed the index is called")

    @classmethod
    def of(cls, package: Package) -> Self:
        """What is said of `package`."""
        return cls(
            files=dict(package.files),
            reports=sorted(package.reports),
            comparisons=sorted(package.comparisons),
            receipts=package.receipts,
            key=package.key,
        )
