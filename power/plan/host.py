"""Whether this engine and this host are those that the plan asks for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from power.diagnostics import Diagnostic, PowerError
from power.plan.capabilities import EngineFacts
from power.plan.model import Plan

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_SEEN_FROM_HERE = {"cuda"}
# Any of these: there may be a device with memory of its own that the engine offloads to.
_ACCELERATORS = (_NVIDIA_DRIVER, Path("/dev/kfd"), Path("/dev/dri"))


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a plan may ask of a host, found without native code.

    cpus: logical CPU numbers that this process may use.
    features: those of `cuda` that this host has. What else `host.require` may
        name is a device that only the loaded engine can see; the runner checks it.
    """

    cpus: frozenset[int]
    features: frozenset[str]


def read_host() -> HostFacts:
    """This host. `cuda`: an NVIDIA driver is loaded; the engine still has to find a device."""
    features = {"cuda"} if _NVIDIA_DRIVER.exists() else set()
    return HostFacts(frozenset(os.sched_getaffinity(0)), frozenset(features))


def may_offload(plan: Plan) -> bool:
    """Whether `plan` may put layers, and their caches with them, into a device's own memory.

    Only the loaded engine knows; here, a plan that asks for it and a host where
    something looks like such a device.
    """
    return plan.graph.gpu_layers != 0 and any(path.exists() for path in _ACCELERATORS)


def check_host(plan: Plan, host: HostFacts) -> None:
    """Return when `host` has all that `plan` requires.

    Raises PowerError P443, a diagnostic for each thing that is missing: a required
    feature, or CPUs of `cpu_affinity` that do not exist or are not ours to use.
    """
    problems = [
        Diagnostic(
            code="P443",
            message=f"the plan requires `{feature}`, and this host has none",
            expected=f"host.require: {feature}",
            found="no NVIDIA driver",
            hint="run it on a host that has it, or compile for this one",
        )
        for feature in plan.host.require
        if feature in _SEEN_FROM_HERE - host.features
    ]
    missing = sorted(set(plan.host.cpu_affinity or ()) - host.cpus)
    if missing:
        problems.append(
            Diagnostic(
                code="P443",
                message="the plan pins CPUs that this process cannot use",
                expected=f"host.cpu_affinity: {plan.host.cpu_affinity}",
                found=f"CPUs {_ranges(host.cpus)}; not {_ranges(frozenset(missing))}",
                hint="change `cpu_affinity` in the manifest and compile again",
            )
        )
    if problems:
        raise PowerError(tuple(problems))


def _ranges(numbers: frozenset[int]) -> str:
    """`0-3, 8` for 0, 1, 2, 3, 8."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def check_engine(plan: Plan, engine: EngineFacts) -> None:
    """Return when `engine` is the one the plan was compiled for and still executes it.

    Raises PowerError P442, a diagnostic for each fact that differs.
    """
    pin = plan.engine
    problems = [
        Diagnostic(
            code="P442",
            message=f"the engine's {what} is not the one the plan was compiled for",
            expected=expected,
            found=found,
            hint="install the engine of the plan, or compile the manifest again and review",
        )
        for what, expected, found in (
            ("package", pin.package, engine.package),
            ("version", pin.version, engine.version),
            ("llama.cpp version", pin.llama_cpp, engine.llama_cpp),
        )
        if expected != found
    ]
    for strategy in pin.capabilities:
        reason = engine.capabilities.get(strategy, "it does not know it")
        if reason is not None:
            problems.append(
                Diagnostic(
                    code="P442",
                    message=f"the engine no longer executes `{strategy}`, on which the plan relies",
                    expected=f"`{strategy}`",
                    found=reason,
                    hint="`power doctor` lists what this engine executes",
                )
            )
    if problems:
        raise PowerError(tuple(problems))
