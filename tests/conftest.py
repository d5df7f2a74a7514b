"""What every test needs of the process that runs it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How fast this machine is, is no property of the code.
settings.register_profile("power", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("power")


def pytest_configure() -> None:
    """Each process of a parallel run keeps to one CPU, and so do the engines that it starts.

    Threads of two engines that share two CPUs wait for each other at every operation.
    """
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number and hasattr(os, "sched_setaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[int(number) % len(cpus)]})


@pytest.fixture(scope="session", autouse=True)
def children_get_default_signals() -> Iterator[None]:
    """A child inherits what is ignored here: by nohup, or in a background job of a shell."""
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            # A handler, unlike SIG_IGN, does not survive the exec; and it keeps this process alive.
            signal.signal(number, lambda *_: None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
