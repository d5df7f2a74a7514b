"""Where the data that comes with Power lies: manifests, profiles, templates, vectors."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Literal, NoReturn

from power.diagnostics import Span, fail

_PACKAGE = Path(__file__).resolve().parent.parent

Folder = Literal["manifests", "profiles", "templates", "schemas", "vectors"]
_ELSEWHERE = {"schemas": "docs/schemas", "vectors": "tests/vectors"}  # in a checkout


def shipped(folder: Folder) -> Path:
    """The folder in the wheel (`power/_shipped`), or in a checkout beside `power/`."""
    wheel = _PACKAGE / "_shipped" / folder
    return wheel if wheel.is_dir() else _PACKAGE.parent / _ELSEWHERE.get(folder, folder)


def profile_names() -> list[str]:
    """The names of the shipped profiles, sorted."""
    return sorted(path.stem for path in shipped("profiles").glob("*.toml"))


def prompts_path(name: Literal["mixed", "tuning"] = "mixed") -> Path:
    """A shipped set of prompts, as `power run --prompts` reads them.

    mixed: one hundred, of copying, code, prose, maths and many languages; each kind is
    among the first 24. tuning: the fourteen that `power tune` measures acceptance on.
    """
    return shipped("templates") / "prompts" / f"{name}.jsonl"


def tasks_path() -> Path:
    """The folder of the shipped task sets."""
    return shipped("templates") / "tasks"


def profile_path(reference: str, base: Path, span: Span | None = None) -> Path:
    """The file that a profile reference names.

    A reference that ends in `.toml` is a path relative to `base`; any other is
    the name of a shipped profile. `span` is where the reference stands, for
    P121 (no such profile).
    """
    if reference.endswith(".toml"):
        return base / reference
    names = profile_names()
    if reference not in names:
        _refuse(reference, names, span)
    return shipped("profiles") / f"{reference}.toml"


def _refuse(reference: str, names: list[str], span: Span | None) -> NoReturn:
    close = difflib.get_close_matches(reference, names, n=1)
    fail(
        "P121",
        f"there is no profile `{reference}`",
        spans=() if span is None else (span,),
        place="--profile" if span is None else None,
        expected="one of " + ", ".join(f"`{name}`" for name in names),
        found=reference,
        hint=f"did you mean `{close[0]}`?"
        if close
        else "a profile of your own is named by its path, ending in `.toml`",
    )
