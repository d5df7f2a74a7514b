"""Joining a Ray cluster, or starting one on this machine, and leaving nothing behind."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from power.diagnostics import fail

LOCAL = "local"
_STORE_BYTES = 80 * 2**20  # near the least that Ray takes: records are all that it carries
_ANSWER_S = 10.0
_KEPT_OUT = ("POWER_KEY", "POWER_KEY_PASSPHRASE")
_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - the name of a variable


@contextmanager
def joined(address: str, cpus: int) -> Iterator[Any]:
    """The `ray` module, connected to the cluster at `address`; left again afterwards.

    `local`: a cluster of this machine alone, which offers `cpus` CPUs and is gone at
    the end, with its files. A program that has joined a cluster already stays in that.
    Raises PowerError P870 without Ray, P871 where the cluster cannot be joined.
    """
    ray = _imported()
    _check_address(address)
    if ray.is_initialized():
        yield ray
        return
    with ExitStack() as stack:
        options = stack.enter_context(_started(cpus)) if address == LOCAL else {"address": address}
        try:
            with _signals_kept(), _environment({"RAY_USAGE_STATS_ENABLED": "0"}):
                ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            _refuse(address, f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        stack.callback(ray.shutdown)
        yield ray


def _check_address(address: str) -> None:
    """Refuse (P871) what nobody answers at: Ray itself would try for a quarter of an hour."""
    if address in {LOCAL, "auto"}:
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        _refuse(address, "no address")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
    except OSError as error:
        _refuse(address, error.strerror or str(error))


def _refuse(address: str, found: str) -> NoReturn:
    fail(
        "P871",
        f"the Ray cluster `{address}` cannot be joined",
        expected="`HOST:PORT` of a cluster that runs, `auto` or `local`",
        found=found,
        hint="give the address that `ray start` printed, from a machine that reaches it",
    )


def _imported() -> Any:
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        fail(
            "P870",
            "Ray is not installed",
            found=str(error),
            hint="`pip install 'power-spec[ray]'`, on every machine of the cluster",
        )
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


@contextmanager
def _started(cpus: int) -> Iterator[Mapping[str, Any]]:
    """Options of a small cluster of our own, whose files are removed at the end.

    A token of its own keeps others out; none is written into the user's home.
    """
    folder = Path(tempfile.mkdtemp(prefix="power-ray-", dir="/tmp"))  # paths of sockets are short
    own = {_TOKEN: os.environ.get(_TOKEN, _token())}
    try:
        with _environment({**own, **dict.fromkeys(_KEPT_OUT)}):
            yield {
                "address": LOCAL,
                "num_cpus": cpus,
                "include_dashboard": False,
                "object_store_memory": _STORE_BYTES,
                "_temp_dir": str(folder),
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _token() -> str:
    """One for the process: Ray reads it once."""
    return secrets.token_hex(32)


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Within the block these variables are so, None: not there."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Give our own handler of SIGTERM back, which Ray replaces in a main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
