"""The rooms of the house: who may import whom, and how large a module is."""

import ast
import subprocess
import sys

import pytest

from tests.house.sources import ROOT, Module, package

# room -> rooms it stands on; what those stand on is allowed too
STANDS_ON = {
    "diagnostics": set[str](),
    "artifact": {"diagnostics"},
    "manifest": {"diagnostics"},
    "plan": {"artifact", "manifest"},
    "speculation": {"diagnostics"},
    "backends": {"speculation"},
    "runner": {"plan", "backends"},
    "receipt": {"plan", "runner"},
    "review": {"receipt"},
    "evidence": {"receipt"},
    "cli": {"review", "evidence"},
}
LINES = 500
HEAVY = {"numpy", "pydantic", "llama_cpp"}


def allowed(room: str) -> set[str]:
    """The rooms that `room` may import: itself, and everything below it."""
    return {room}.union(*(allowed(below) for below in STANDS_ON[room]))


def offences(module: Module) -> list[str]:
    """Imports of `module` that look up the corridor."""
    found = []
    for line, name in module.imports():
        top, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if top == "power" and room in STANDS_ON and room not in allowed(module.room):
            found.append(f"{module.path.relative_to(ROOT)}:{line} imports {name}")
    return found


def test_every_room_is_in_the_table() -> None:
    rooms = {p.name for p in (ROOT / "power").iterdir() if (p / "__init__.py").is_file()}
    assert rooms == set(STANDS_ON)


def test_no_room_looks_back_up() -> None:
    assert [o for m in package() if m.room in STANDS_ON for o in offences(m)] == []


def test_an_import_from_below_is_seen() -> None:
    tree = ast.parse("def f():\n    from power.plan import lock\n")
    module = Module(ROOT / "power/artifact/x.py", "power.artifact.x", tree)
    assert offences(module) == ["power/artifact/x.py:2 imports power.plan.lock"]


def test_imports_are_absolute() -> None:
    relative = [
        f"{module.path.relative_to(ROOT)}:{node.lineno}"
        for module in package()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_only_the_engine_room_imports_the_engine() -> None:
    strays = [
        f"{module.path.relative_to(ROOT)}:{line}"
        for module in package()
        for line, name in module.imports()
        if name.split(".")[0] == "llama_cpp"
        and not module.name.startswith("power.backends.llamacpp")
    ]
    assert strays == []


def test_a_module_is_one_idea() -> None:
    lines = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for folder in ("power", "tests", "tools")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {path: count for path, count in lines.items() if count > LINES} == {}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["key", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['power', *{arguments!r}]\n"
        "from power.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout
    assert "click" in run.stderr.split()
    assert HEAVY & set(run.stderr.split()) == set()
