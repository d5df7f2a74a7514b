"""Whether a host is quiet enough to measure on: limits, readings, and the judgement. Pure.

The record is written before any model is loaded. A limit that was not met keeps
the model from being loaded, and the record stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from power.diagnostics import Diagnostic, PowerError
from power.evidence.parts import Count, Part, Text, Time

Percent = Annotated[int, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a host must be like; None: not asked.

    idle_ms: how long it is watched. cpu_percent, gpu_percent: highest share of all
    CPUs, and of a GPU, that may be busy in any interval of that time.
    busy_processes: most other processes that may use a tenth of a CPU or more.
    free_memory_bytes: least memory left. governor: what every CPU's frequency is
    governed by. gpu: a GPU must be there to be read.
    """

    free_memory_bytes: int
    idle_ms: int = 3000
    cpu_percent: int = 20
    gpu_percent: int = 20
    busy_processes: int | None = None
    governor: str | None = None
    gpu: bool = False


class Gpu(Part):
    """One NVIDIA GPU while it was watched, without its serial number."""

    name: Text
    driver: Text
    busy_percent: Annotated[list[Percent], Field(min_length=1)]
    free_memory_bytes: Count
    total_memory_bytes: Count
    clock_mhz: Count | None = None
    processes: Count | None = None


class Reading(Part):
    """What was seen. Shares are of all CPUs, one an interval, rounded up.

    governors and the range of clocks are absent where the host does not say.
    """

    started: Time
    interval_ms: Annotated[int, Field(ge=1)]
    cpu_percent: Annotated[list[Percent], Field(min_length=1)]
    busy_processes: Count
    free_memory_bytes: Count
    governors: list[Text] | None = None
    clock_mhz: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None
    gpus: list[Gpu] | None = None


class Gate(Part):
    """One limit and what was found."""

    name: Text
    required: Text
    found: Text
    met: bool

    def finding(self, code: str, message: str, hint: str, place: str | None = None) -> Diagnostic:
        """What is said where it was not met."""
        return Diagnostic(
            code, message, place=place, expected=self.required, found=self.found, hint=hint
        )


class Preflight(Part):
    """The record. `overridden`: the user measured all the same."""

    schema_: Literal["power.preflight.v1"] = Field("power.preflight.v1", alias="schema")
    reading: Reading
    gates: list[Gate]
    passed: bool
    overridden: bool = False

    @property
    def missed(self) -> list[Gate]:
        """The gates that were not met."""
        return [gate for gate in self.gates if not gate.met]


def judge(reading: Reading, limits: Limits, *, overridden: bool = False) -> Preflight:
    """Hold `reading` against `limits`."""
    gates = list(_gates(reading, limits))
    passed = all(gate.met for gate in gates)
    return Preflight(
        reading=reading, gates=gates, passed=passed, overridden=overridden and not passed
    )


def require_quiet(found: Preflight, place: str, otherwise: str = "") -> None:
    """Raise PowerError P820 for each limit of a quiet host that was not met.

    otherwise: what else its hint advises, behind `run it again`.
    """
    if found.passed or found.overridden:
        return
    raise PowerError(
        tuple(
            gate.finding(
                "P820",
                f"the host is not fit to measure on: `{gate.name}`",
                f"end other work and run it again{otherwise}; "
                "`--anyway` measures all the same and says so in the report",
                place,
            )
            for gate in found.missed
        )
    )


def _gates(reading: Reading, limits: Limits) -> Iterator[Gate]:
    yield _at_most("cpu_percent", limits.cpu_percent, max(reading.cpu_percent))
    if limits.busy_processes is not None:
        yield _at_most("busy_processes", limits.busy_processes, reading.busy_processes)
    free = reading.free_memory_bytes
    yield Gate(
        name="free_memory_bytes",
        required=f"at least {limits.free_memory_bytes}",
        found=str(free),
        met=free >= limits.free_memory_bytes,
    )
    if limits.governor is not None:
        yield _governor(limits.governor, reading.governors)
    if limits.gpu and not reading.gpus:
        yield Gate(name="gpu", required="at least one that can be read", found="none", met=False)
    for number, gpu in enumerate(reading.gpus or ()):
        yield _at_most(f"gpu{number}_percent", limits.gpu_percent, max(gpu.busy_percent))


def _at_most(name: str, limit: int, found: int) -> Gate:
    return Gate(name=name, required=f"at most {limit}", found=str(found), met=found <= limit)


def _governor(wanted: str, found: Sequence[str] | None) -> Gate:
    shown = ", ".join(found) if found else "the host does not say"
    return Gate(name="governor", required=wanted, found=shown, met=found == [wanted])
