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
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from power.diagnostics import fail, first_line

LOCAL = "local"
_STORE_BYTES = 80 * 2**20  # near the least that Ray takes: records are all that it carries
_ANSWER_S = 10.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a client begins, with empty settings: RFC 9113, section 3.4."""
_SETTINGS = bytes((4, 0, 0, 0, 0, 0))  # behind the length: what each server's first frame is
_ONE_TRY = "RAY_gcs_server_port_wait_time_s"  # tries to join, of some 40 s each; Ray's own are 20
_KEPT_OUT = ("POWER_KEY", "POWER_KEY_PASSPHRASE")
_TOKEN = "RAY_AUTH_TOKEN"  # noqa: S105 - the name of a variable


@contextmanager
def joined(address: str, cpus: int) -> Iterator[Any]:
    """The `ray` module, connected to the cluster at `address`; left again afterwards.

    `local`: a cluster of this machine alone, which offers `cpus` CPUs and is gone at
    the end, with its files. A program that has joined a cluster already stays in that.
    Raises PowerError P870 without Ray, P871 where the cluster cannot be joined: within ten
    seconds where nobody answers at the address or something that is no gRPC server, after
    one try of Ray's own, about a minute, where it is another one.
    """
    ray = _imported()
    _check_address(address)
    if ray.is_initialized():
        yield ray
        return
    with ExitStack() as stack:
        options = stack.enter_context(_started(cpus)) if address == LOCAL else {"address": address}
        tries = {} if address == LOCAL else {_ONE_TRY: os.environ.get(_ONE_TRY, "1")}
        try:
            with _signals_kept(), _environment({"RAY_USAGE_STATS_ENABLED": "0", **tries}):
                ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            ray.shutdown()
            _refuse(address, first_line(error))
        stack.callback(ray.shutdown)
        yield ray


def _check_address(address: str) -> None:
    """Refuse (P871) where no gRPC server answers: Ray would try for a quarter of an hour.

    Behind TLS (RAY_USE_TLS) it is only seen that somebody listens.
    """
    if address in {LOCAL, "auto"}:
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        _refuse(address, "no address")
    end = time.monotonic() + _ANSWER_S
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S) as server:
            if os.environ.get("RAY_USE_TLS", "0").lower() in {"1", "true"}:
                return
            server.sendall(_PREFACE)
            answer = _received(server, 3 + len(_SETTINGS), end)
    except TimeoutError:
        _refuse(address, f"no answer within {_ANSWER_S:g} s")
    except OSError as error:
        _refuse(address, error.strerror or str(error))
    if answer[3:] != _SETTINGS:
        _refuse(address, "something that is not Ray" if answer else "a server that hangs up")


def _received(server: socket.socket, count: int, end: float) -> bytes:
    """The first `count` bytes that come, fewer where no more do. Raises TimeoutError at `end`."""
    found = b""
    while len(found) < count:
        server.settimeout(max(end - time.monotonic(), 0.001))
        more = server.recv(count - len(found))
        if not more:
            break
        found += more
    return found


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
