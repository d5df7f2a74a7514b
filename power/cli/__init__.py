"""The command line: one module a verb; each parses, calls a room and prints."""

from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run `power` and leave the process with its exit code."""
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, leave)
        from power.cli.app import run

        run()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def leave(_number: int, _frame: FrameType | None) -> None:
    """Ctrl-C while modules are imported: nothing is under way, and an import may hide it."""
    import os

    os._exit(INTERRUPTED)
