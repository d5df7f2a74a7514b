"""How much memory is left: the host's word, and that of every control group around the process."""

from pathlib import Path

import pytest

from power.artifact.available import available_memory

MIB = 1 << 20
NO_LIMIT = 0x7FFFFFFFFFFFF000  # what version 1 writes for none
V2 = "30 20 0:26 {top} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "35 31 0:32 {top} /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n"
CPU = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"


class Host:
    """A file tree as /proc and /sys show it, its numbers in MiB."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal: 9\nMemAvailable: {1000 * 1024} kB\n")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text, "ascii")

    def in_group(self, cgroup: str, mounts: str) -> None:
        self.write("proc/self/cgroup", cgroup)
        self.write("proc/self/mountinfo", "23 0 8:1 / / rw - ext4 /dev/a rw\n" + mounts)

    def v2(self, group: str, limit: int | None, used: int, cache: int = 0) -> None:
        folder = f"sys/fs/cgroup/{group}"
        self.write(f"{folder}/memory.max", "max\n" if limit is None else f"{limit * MIB}\n")
        self.write(f"{folder}/memory.current", f"{used * MIB}\n")
        stat = f"anon 1\ninactive_file {cache * MIB}\nactive_file 0\n"
        self.write(f"{folder}/memory.stat", stat)

    def v1(self, group: str, limit: int | None, used: int, cache: int = 0) -> None:
        folder = f"sys/fs/cgroup/memory/{group}"
        number = NO_LIMIT if limit is None else limit * MIB
        self.write(f"{folder}/memory.limit_in_bytes", f"{number}\n")
        self.write(f"{folder}/memory.usage_in_bytes", f"{used * MIB}\n")
        stat = f"cache 7\ninactive_file 5\ntotal_inactive_file {cache * MIB}\ntotal_active_file 0\n"
        self.write(f"{folder}/memory.stat", stat)

    @property
    def mib(self) -> float | None:
        found = available_memory(self.root)
        return None if found is None else found / MIB


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_without_groups_the_host_decides(host: Host) -> None:
    assert host.mib == 1000


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None


def test_a_group_seen_from_inside(host: Host) -> None:
    """A container with a namespace of its own: its group is the root of what it sees."""
    host.in_group("0::/\n", V2.format(top="/"))
    host.v2(".", 500, 300, cache=100)
    assert host.mib == 300


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ((None, None, None), 1000),
        ((None, None, 500), 400),
        ((None, 300, 500), 150),
        ((None, 300, None), 150),
        ((400, 300, 500), 150),
        ((260, None, None), 60),
    ],
)
def test_the_tightest_of_nested_groups_decides(
    host: Host, limits: tuple[int | None, ...], left: int
) -> None:
    host.in_group("0::/user.slice/job\n", V2.format(top="/"))
    for group, limit, used in zip(
        (".", "user.slice", "user.slice/job"), limits, (200, 150, 100), strict=True
    ):
        host.v2(group, limit, used)
    assert host.mib == left


def test_a_root_group_without_files_is_passed_over(host: Host) -> None:
    """The real root of version 2 has no `memory.max`."""
    host.in_group("0::/a/b\n", V2.format(top="/"))
    host.v2("a", 100, 40)
    assert host.mib == 60


def test_a_group_that_used_more_than_its_limit_leaves_nothing(host: Host) -> None:
    host.in_group("0::/a\n", V2.format(top="/"))
    host.v2("a", 100, 140)
    assert host.mib == 0


@pytest.mark.parametrize(
    ("outer", "inner", "left"), [(None, 50, 30), (70, None, 40), (None, None, 1000)]
)
def test_version_1(host: Host, outer: int | None, inner: int | None, left: int) -> None:
    host.in_group(
        "9:name=systemd:/x\n4:memory:/job/one\n1:cpu,cpuacct:/\n0::/\n", CPU + V1.format(top="/")
    )
    host.v1("job", outer, 40, cache=10)
    host.v1("job/one", inner, 20)
    assert host.mib == left


def test_version_1_of_a_container_that_sees_the_hosts_paths(host: Host) -> None:
    host.in_group("4:memory:/docker/0a1b\n", V1.format(top="/docker/0a1b"))
    host.v1(".", 90, 20)
    assert host.mib == 70


@pytest.mark.parametrize("path", ["/../../outside", "/elsewhere"])
def test_a_group_that_cannot_be_seen(host: Host, path: str) -> None:
    """The mount is then the nearest group there is."""
    host.in_group(f"4:memory:{path}\n", V1.format(top="/docker/0a1b"))
    host.v1(".", 90, 20)
    assert host.mib == 70


def test_both_versions_at_once(host: Host) -> None:
    host.in_group("4:memory:/a\n0::/b\n", V1.format(top="/") + V2.format(top="/"))
    host.v1("a", 90, 20)
    host.v2("b", 80, 20)
    assert host.mib == 60


@pytest.mark.parametrize(
    ("cgroup", "mountinfo"),
    [
        ("", ""),
        ("nonsense\n::\n", "1 2 3\n - \n"),
        ("0::/a\n", V2.format(top="x").replace("/sys", "sys")),
    ],
)
def test_what_makes_no_sense_is_passed_over(host: Host, cgroup: str, mountinfo: str) -> None:
    host.in_group(cgroup, mountinfo)
    assert host.mib == 1000


def test_this_machine_says_something() -> None:
    found = available_memory()
    assert found is not None
    assert found > 0
