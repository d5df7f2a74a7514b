"""The command line: one module a verb; each parses, calls a room and prints."""


def main() -> None:
    """Run `power` and leave the process with its exit code."""
    from power.cli.app import run

    run()
