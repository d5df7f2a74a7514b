"""Ctrl-C, and what ends a process like it: SIGTERM and the loss of the terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from power.cli import leave

_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.005
_waiting: list[int] = []  # signals that came in the midst of an import


def end_like_interrupts() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, so that they clean up as Ctrl-C does.

    One that the caller ignores (nohup) stays ignored.
    """
    signal.signal(signal.SIGALRM, _again)
    for number in _ENDS:
        if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler, leave}:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, in the midst of an import as soon as that is over.

    What an import runs may swallow it (native code that builds a class's validator does),
    or turn it into another error.
    """
    if _importing(frame):
        _waiting.append(number)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        raise KeyboardInterrupt


def _again(_number: int, _frame: FrameType | None) -> None:
    """Send what waited once more, to whatever hears it by now."""
    waited = _waiting.copy()
    _waiting.clear()  # a signal that has to wait longer comes back into it at once
    for number in waited:
        signal.raise_signal(number)


def _importing(frame: FrameType | None) -> bool:
    """Whether code of ours is being imported; how we came to run ourselves is no matter."""
    while frame is not None and frame.f_globals.get("__name__") != "power.cli.app":
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Within the block the first of these signals calls `cancel`, the next one interrupts."""
    before = {n: signal.getsignal(n) for n in _ENDS if callable(signal.getsignal(n))}

    def first(_signum: int, _frame: FrameType | None) -> None:
        restore()
        cancel()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, first)
    try:
        yield
    finally:
        restore()


def hold_interrupts() -> None:
    """Let nothing interrupt from here to the end of the process, which is near."""
    for number in (*_ENDS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Within the block these signals wait; they come when it is left."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_ENDS, signal.SIGALRM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
