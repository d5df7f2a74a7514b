"""The `power` command: its verbs, and the one place where errors end."""

from __future__ import annotations

import itertools
import sys
from difflib import get_close_matches
from importlib import import_module

import click

from power import __version__
from power.cli.console import (
    OUT_OF_MEMORY,
    drop_stdout,
    open_standard_streams,
    own_fault,
    unwritable,
    wants_color,
    wants_traceback,
    write_json,
    write_stderr,
)
from power.cli.signals import end_like_interrupts, hold_interrupts
from power.diagnostics import Diagnostic, ExitCode, PowerError, as_text

# verb -> (module, one line for `power --help`)
VERBS: dict[str, tuple[str, str]] = {
    "init": ("init", "Write a manifest from the artifacts at hand."),
    "fmt": ("fmt", "Bring manifests and profiles into their canonical form."),
    "compile": ("compile", "Verify a manifest and its artifacts and lock the plan."),
    "certify": ("certify", "Measure what a plan's outputs depend on here, and sign it."),
    "run": ("run", "Verify a plan, execute it, and sign a receipt."),
    "verify": ("verify", "Check a receipt, and run it again if asked."),
    "bench": ("bench", "Time plans against each other on prompts."),
    "compare": ("compare", "Compare two arms of benches, with gates."),
    "quality": (
        "quality",
        "Say whether a plan is fit as the default, on scored tasks.",
    ),
    "tune": ("tune", "Measure, simulate, and write the profile that pays."),
    "simulate": ("simulate", "Compute what every setting would do on a recorded trace."),
    "report": ("report", "Show a bench or quality matrix as Markdown or one HTML page."),
    "evidence": ("evidence", "Pack reports with all they rest on, and verify such packages."),
    "diff": ("diff", "Show what changed between two manifests, profiles or plans."),
    "review": ("review", "Review what a branch does to manifests, profiles and plans."),
    "git": ("git", "Have git show and merge plans."),
    "show": ("show", "Show a plan for a person."),
    "inspect": ("inspect", "Show what a GGUF file holds and which draft contracts hold."),
    "doctor": ("doctor", "Show the engine, its devices and what it can execute."),
    "conformance": ("conformance", "Hold this installation against what it must refuse."),
    "key": ("key", "Make and show signing keys."),
    "schema": ("schema", "Print the JSON Schema of a format, for editors and checks."),
    "explain": ("explain", "Explain a diagnostic code."),
}


class _Verbs(click.Group):
    """Verbs in the order of a day's work, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in VERBS:
            return None
        module = import_module(f"power.cli.verbs.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            near = get_close_matches(args[0], VERBS, n=1)
            guess = f"; did you mean `{near[0]}`?" if near else ""
            ctx.fail(f"there is no verb `{args[0]}`{guess}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 yes, 1 no, 2 cannot judge, 3 integrity or trust broken, "
    "4 the engine failed, 130 interrupted.",
)
@click.version_option(__version__, prog_name="power", message="%(prog)s %(version)s")
def app() -> None:
    """Speculative decoding that people can review, lock, run and prove."""


def run() -> None:
    """Run the command line; usage errors become diagnostics, and nothing a traceback."""
    open_standard_streams()
    end_like_interrupts()
    try:
        _parse_and_run()
    except (click.Abort, KeyboardInterrupt):
        hold_interrupts()
        write_stderr("interrupted")
        raise SystemExit(int(ExitCode.INTERRUPTED)) from None
    except BrokenPipeError:
        drop_stdout()
        raise SystemExit(int(ExitCode.INTERRUPTED)) from None
    except PowerError as error:
        write_stderr(as_text(error.diagnostics, color=wants_color()))
        raise SystemExit(int(error.exit_code)) from None
    except MemoryError:
        write_stderr(as_text([OUT_OF_MEMORY], color=wants_color()))
        raise SystemExit(int(ExitCode.ENGINE_FAILED)) from None
    except OSError as error:
        # Only `--help` and `--version` print without `write_stdout`.
        drop_stdout()
        write_stderr(as_text([unwritable(error)], color=wants_color()))
        raise SystemExit(int(ExitCode.CANNOT_JUDGE)) from None
    except Exception as error:
        if wants_traceback(error):
            raise
        write_stderr(as_text([own_fault(error)], color=wants_color()))
        raise SystemExit(int(ExitCode.CANNOT_JUDGE)) from None
    finally:
        hold_interrupts()


def _parse_and_run() -> None:
    try:
        app.main(prog_name="power", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        write_stderr(error.format_message())
        raise SystemExit(int(ExitCode.CANNOT_JUDGE)) from None
    except click.exceptions.Exit as error:
        raise SystemExit(error.exit_code) from None
    except click.ClickException as error:
        _usage(error)


def _usage(error: click.ClickException) -> None:
    """A usage error as diagnostic P701, as JSON where JSON was asked for."""
    ctx = getattr(error, "ctx", None)
    where = ctx.command_path if ctx is not None else "power"
    message = " ".join(error.format_message().split()).rstrip(".")
    diagnostic = Diagnostic(
        code="P701",
        message=message[:1].lower() + message[1:],
        hint=f"see `{where} --help`",
    )
    arguments = sys.argv[1:]
    if "--format=json" in arguments or ("--format", "json") in itertools.pairwise(arguments):
        # "power key new" is the verb `key-new`; without a verb it is the usage itself.
        verb = "-".join(where.split()[1:]) or "usage"
        write_json(verb, ExitCode.CANNOT_JUDGE, {}, [diagnostic])
    else:
        write_stderr(as_text([diagnostic], color=wants_color()))
    raise SystemExit(int(ExitCode.CANNOT_JUDGE))
