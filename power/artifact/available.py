"""How much memory this process may still take: of the host, and of every control group around it.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst,
and proc(5) for /proc/self/cgroup and /proc/self/mountinfo.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class _Version:
    """Where a version of control groups keeps a group's limit and use, and the file cache in it.

    The cache counts as used, but is given back under pressure.
    """

    limit: str
    used: str
    cache: frozenset[str]


_V1 = _Version(
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    frozenset({"total_inactive_file", "total_active_file"}),
)
_V2 = _Version("memory.max", "memory.current", frozenset({"inactive_file", "active_file"}))


def available_memory(root: Path = _ROOT) -> int | None:
    """Bytes this process may still take; None where nothing says so.

    root: where `proc` and `sys` are.
    """
    known = [limit for limit in (_host(root), *_groups(root)) if limit is not None]
    return min(known) if known else None


def _host(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def _groups(root: Path) -> Iterator[int | None]:
    """What every control group of memory leaves, from this process's own to the outermost.

    A limit holds for all that is below it, so the tightest decides.
    """
    for version, mount, inside in _hierarchies(root):
        for group in (inside, *inside.parents):
            yield _left(mount / group, version)


def _hierarchies(root: Path) -> Iterator[tuple[_Version, Path, PurePosixPath]]:
    """(version, where it is mounted, our group below that) of each hierarchy with memory."""
    own = dict(_own_groups(root))
    for top, point, kind, options in _mounts(root):
        version = {"cgroup2": _V2, "cgroup": _V1 if "memory" in options else None}.get(kind)
        path = own.get("memory" if version is _V1 else "")
        if version is None or path is None:
            continue
        # A container may see a part of the hierarchy alone (`top`), or be shown paths that
        # begin at a part it does not see: then the mount itself is the nearest that there is.
        visible = path.is_relative_to(top) and ".." not in path.parts
        inside = path.relative_to(top) if visible else PurePosixPath()
        yield version, root / point.relative_to("/"), inside


def _own_groups(root: Path) -> Iterator[tuple[str, PurePosixPath]]:
    """Controller -> path of this process's group; the empty controller is version 2."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        for controller in controllers.split(","):
            yield controller, PurePosixPath(path)


def _mounts(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath, str, list[str]]]:
    """(path within the file system, mount point, type, its options) of every mount."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) > 4 and len(kind) > 2 and fields[4].startswith("/"):  # noqa: PLR2004
            top, point = map(PurePosixPath, fields[3:5])
            yield top, point, kind[0], kind[2].split(",")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []


def _left(group: Path, version: _Version) -> int | None:
    """What this group leaves; None without a limit. Version 1 writes a huge one for none."""
    try:
        limit = int((group / version.limit).read_text("ascii"))
        used = int((group / version.used).read_text("ascii"))
        for line in (group / "memory.stat").read_text("ascii").splitlines():
            name, _, value = line.partition(" ")
            if name in version.cache:
                used -= int(value)
    except (OSError, ValueError):  # ValueError: `max`
        return None
    return max(0, limit - used)
