"""Options that several verbs share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from power.diagnostics import fail

F = TypeVar("F", bound=Callable[..., Any])


class _Decimal(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since 8.3
    """A decimal of at least 0, kept as it is written: `1.05`."""

    name = "decimal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"(0|[1-9][0-9]{0,11})(\.[0-9]{1,9})?", str(value)):
            self.fail(f"`{value}` is not a decimal such as 1.05", param, ctx)
        text = str(value)
        return text.rstrip("0").rstrip(".") if "." in text else text


class _File(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since 8.3
    """A path with a name at its end: `.`, `/` and nothing at all cannot be a file.

    Whoever reads the file says what else is wrong with it: click's own checks would
    make usage errors of that.
    """

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        if not path.name:
            self.fail(f"`{value}` names no file", param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return click.Path().shell_complete(ctx, param, incomplete)


class _Folder(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since 8.3
    """A folder that is there."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not os.path.isdir(value):  # noqa: PTH112 - `Path.is_dir` raises where it may not look
            self.fail(f"`{value}` is no folder", param, ctx)
        return Path(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return click.Path(file_okay=False).shell_complete(ctx, param, incomplete)


DECIMAL = _Decimal()
FILE = _File()
FOLDER = _Folder()


def format_option(*choices: str) -> Callable[[F], F]:
    """`--format`, the first choice being the default."""
    return click.option(
        "--format",
        "fmt",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How the result is written.",
    )


def output_option(metavar: str, text: str) -> Callable[[F], F]:
    """`-o, --output`: a file that is written; `text` is its help."""
    return click.option("-o", "--output", type=FILE, metavar=metavar, help=text)


def count_option(
    name: str,
    text: str,
    *,
    default: int | None = None,
    least: int = 1,
    most: int | None = None,
    metavar: str = "N",
) -> Callable[[F], F]:
    """An option that takes a whole number from `least` to `most`; `text` is its help."""
    return click.option(
        name,
        type=click.IntRange(least, most),
        default=default,
        show_default=default is not None,
        metavar=metavar,
        help=text,
    )


def anyway_option(command: F) -> F:
    """`--anyway`, for the verbs that measure time."""
    return click.option(
        "--anyway",
        is_flag=True,
        help="Measure also on a host that is not quiet, and report it so.",
    )(command)


def fail_on_option(command: F) -> F:
    """`--fail-on CLASS`, repeatable; the classes are those of `power.review.consequences`."""
    return click.option(
        "--fail-on",
        type=click.Choice(("identity", "output", "shape", "speed", "trust", "words")),
        multiple=True,
        metavar="CLASS",
        help="Exit 1 when there is a change of CLASS (identity, output, shape, speed, trust or "
        "words), and name it; may be given more than once.",
    )(command)


def artifacts_option(command: F) -> F:
    """`--artifacts DIR`, repeatable."""
    return click.option(
        "--artifacts",
        type=FOLDER,
        multiple=True,
        metavar="DIR",
        help="Where to look for artifacts after the file's own folder; may be given more "
        "than once. POWER_ARTIFACTS adds folders after these.",
    )(command)


def artifact_roots(given: tuple[Path, ...]) -> tuple[Path, ...]:
    """The artifact roots: those given, then those of POWER_ARTIFACTS (`:`-separated)."""
    from power.artifact.locate import environment_roots

    return (*given, *environment_roots())


def workers_options(command: F) -> F:
    """`--workers N` and `--ray ADDRESS`, for verbs that time nothing."""
    workers = count_option(
        "--workers",
        "Engine processes at once, each with the threads that its plan says.",
        default=1,
        most=1024,
    )
    ray = click.option(
        "--ray",
        metavar="ADDRESS",
        help="Run them on a Ray cluster: `HOST:PORT`, `auto`, or `local` for one of this "
        "machine alone. Needs the extra `power-spec[ray]`.",
    )
    return workers(ray(command))


def key_option(command: F) -> F:
    """`--key FILE`, for the verbs that sign."""
    return click.option(
        "--key",
        type=FILE,
        metavar="FILE",
        help="The private key that signs; by default POWER_KEY, else the key of `power key new`.",
    )(command)


def trust_options(command: F) -> F:
    """`--key PUB` and `--trust trust.toml`, for the verbs that verify."""
    for option in reversed(
        (
            click.option("--key", type=FILE, metavar="PUB", help="The signer's public key."),
            click.option(
                "--trust", type=FILE, metavar="trust.toml", help="Your own list of trusted keys."
            ),
        )
    ):
        command = option(command)
    return command


def passphrase_option(command: F) -> F:
    """`--passphrase-file FILE`, for the verbs that open or make a private key."""
    return click.option(
        "--passphrase-file",
        type=FILE,
        metavar="FILE",
        help="The key's passphrase is the first line of FILE; POWER_KEY_PASSPHRASE holds it too.",
    )(command)


def certificate_options(command: F) -> F:
    """The certificate of a plan that claims more than `rule`, and who is believed about it."""
    for option in reversed(
        (
            click.option(
                "--certificate",
                type=FILE,
                metavar="FILE",
                help="The exactness certificate; by default NAME.cert.sigstore.json beside "
                "NAME.lock.",
            ),
            click.option(
                "--certificate-key",
                type=FILE,
                metavar="PUB",
                help="The public key of who certified; by default the key that signs here.",
            ),
            click.option(
                "--certificate-trust",
                type=FILE,
                metavar="trust.toml",
                help="Your own list of keys that are believed about certificates.",
            ),
        )
    ):
        command = option(command)
    return command


def check_certificate_options(key: Path | None, trust: Path | None) -> None:
    """Refuse (P704) two answers to whom to believe."""
    if key is not None and trust is not None:
        fail(
            "P704",
            "`--certificate-key` and `--certificate-trust` exclude each other",
            hint="give one",
        )


def prompt_options(command: F) -> F:
    """The prompt: an argument, a file or standard input; with or without a chat template."""
    for option in reversed(
        (
            click.option("--prompt", metavar="TEXT", help="The prompt."),
            click.option(
                "--prompt-file",
                type=FILE,
                metavar="FILE",
                help="Read the prompt from FILE (UTF-8, taken as it is). Without this and "
                "--prompt it is read from standard input.",
            ),
            click.option(
                "--chat",
                is_flag=True,
                help="Put the prompt through the model's chat template. Control tokens that the "
                "prompt or the system message spell stay plain text.",
            ),
            click.option(
                "--system", metavar="TEXT", help="The system message of a chat; needs --chat."
            ),
            click.option(
                "--stop",
                metavar="TEXT",
                multiple=True,
                help="End the text before TEXT; may be given more than once.",
            ),
        )
    ):
        command = option(command)
    return command
