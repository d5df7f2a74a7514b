"""What of a plan changes nothing on this build of the engine, and what the build does without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from power.backends.llamacpp.installation import PACKAGE

AMX = "AMX_INT8 = 1"
"""How the library's own list of features names the kernels that docs/adr/0005 is about."""

_FLAGS = ("NATIVE=OFF", "AVX512=ON", "AVX512_VBMI=ON", "AVX512_VNNI=ON", "AVX512_BF16=ON")
WITHOUT_AMX = (
    f'CMAKE_ARGS="{" ".join(f"-DGGML_{flag}" for flag in _FLAGS)}" '
    "pip install --no-cache-dir --force-reinstall --no-deps {package}=={version}"
)
"""Builds the engine for any CPU that has AMX, with all that such a CPU has but AMX."""


def without_effect(*, has_gpu: bool, devices: Sequence[str]) -> Mapping[str, str]:
    """Setting of a plan's `[graph]` or `[host]` -> why this engine does not heed it.

    has_gpu: the library was built for one. devices: as `EngineIdentity.devices`.
    """
    found = {"host.cuda_high_priority": "llama.cpp makes its CUDA streams without a priority"}
    if not has_gpu:
        gpu = ("graph.gpu_layers", "graph.main_gpu", "graph.cuda_graphs")
        found |= dict.fromkeys(gpu, "this build of llama.cpp has no GPU")
    elif not any(device.startswith("CUDA") for device in devices):
        found["graph.cuda_graphs"] = "the engine sees no CUDA device"
    return dict(sorted(found.items()))


def remarks(system_info: str, version: str) -> tuple[str, ...]:
    """What a build with AMX does without, and how to make another one of package `version`."""
    if AMX not in system_info:
        return ()
    command = WITHOUT_AMX.format(package=PACKAGE, version=version)
    return (
        (
            "built with AMX: weights stay in the plain layout (docs/adr/0005); "
            f"for repacked ones build it without: {command}"
        ),
    )
