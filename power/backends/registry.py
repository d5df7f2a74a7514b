"""Finding an engine by name, among the installed packages that offer one."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from power.backends.interface import Backend
from power.diagnostics import fail

GROUP = "power.backends"
"""The entry point group; an entry names a module-level `Backend`."""


def backend_names() -> tuple[str, ...]:
    """Names of the installed backends, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def backend(name: str = "llamacpp") -> Backend:
    """The backend of that name; importing it loads no native code.

    Raises PowerError: P501 when no installed package offers it, P502 when the
    package that does cannot be imported.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        fail(
            "P501",
            f"there is no backend named `{name}`",
            expected=", ".join(backend_names()) or "an installed backend",
            found=name,
            hint="name one of the installed backends, or install the package that offers this one",
        )
    try:
        return cast(Backend, found[0].load())
    except Exception as error:  # noqa: BLE001 - a foreign package may raise anything on import
        fail(
            "P502",
            f"the backend `{name}` cannot be imported from `{found[0].value}`",
            found=f"{type(error).__name__}: {error}",
            hint="repair or remove the package that offers this backend",
        )
