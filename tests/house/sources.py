"""The repository's own files, as the tests of this folder read them."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """One module of the package; `name` is dotted, `room` the part behind `power.`."""

    path: Path
    name: str
    tree: ast.Module

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    def imports(self) -> list[tuple[int, str]]:
        """Every import with its line, wherever it stands: dotted absolute names."""
        found = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
        return found


@cache
def package() -> tuple[Module, ...]:
    """Every module below power/."""
    modules = []
    for path in sorted((ROOT / "power").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules.append(Module(path, name, ast.parse(path.read_text("utf-8"), str(path))))
    return tuple(modules)


@cache
def committed() -> tuple[Path, ...]:
    """Every file that git keeps or would keep: tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(path for path in paths if path.is_file())


@cache
def texts() -> dict[str, str]:
    """The committed files that are UTF-8 text, by their path in the repository."""
    found = {}
    for path in committed():
        data = path.read_bytes()
        if b"\0" not in data:
            found[path.relative_to(ROOT).as_posix()] = data.decode("utf-8", "replace")
    return found
