"""The command line: one module a verb; each parses, calls a room and prints."""


def main() -> None:
    """Run `power` and leave the process with its exit code."""
    try:
        from power.cli.app import run

        run()
    except KeyboardInterrupt:  # also one that comes while modules are imported
        raise SystemExit(130) from None
