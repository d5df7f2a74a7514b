"""Packages: what was packed verifies, and whatever a maker or a thief changed is named."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.diagnostics import ExitCode, PowerError
from power.evidence import package
from power.evidence.compare import Asked
from power.evidence.comparing import compare_files, write_comparison
from power.evidence.index import INDEX, sign_index
from power.receipt.digests import sha256
from power.receipt.trust import trust_in
from tests.evidence.conftest import KEY, Scripted
from tests.published import own_problems, problems
from tests.receipt import samples
from tests.receipt.scripted import scripted_plan

TRUST = trust_in(KEY.public_key(), "mine")
OTHER = samples.ed25519_key("another")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report of three arms, its comparison, and a note; not packed."""
    folder = tmp_path_factory.mktemp("made")
    scripted = Scripted(folder)
    plan = scripted_plan("prompt-lookup")
    arms = [
        scripted.arm("control", plan, control=True),
        scripted.arm("context", scripted_plan("ngram-context")),
        scripted.arm("plan", plan),
    ]
    bench = scripted.bench(arms, warmup=0)
    scripted.run(bench)
    found = compare_files(bench.layout.report, None, Asked(min_speedup="0"))
    write_comparison(found, folder / "c.json")
    (folder / "README.md").write_text("What this shows.\n")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "p"))


@pytest.fixture
def packed(folder: Path) -> Path:
    package.pack(folder, KEY)
    return folder


def refusal(folder: Path, trust: Any = TRUST) -> PowerError:
    with pytest.raises(PowerError) as refused:
        package.verify(folder, trust)
    return refused.value


def repacked(folder: Path) -> None:
    """What a maker does who lies: the index is signed anew over whatever is there."""
    index = folder / INDEX
    index.unlink()
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    files = {name: sha256((folder / name).read_bytes()) for name in names}
    index.write_bytes(sign_index(files, ["x.json"], ["c.json"], KEY))


def edited(path: Path, edit: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document, indent=1) + "\n")


def test_what_was_packed_verifies(packed: Path) -> None:
    held = package.verify(packed, TRUST)
    assert (list(held.reports), list(held.comparisons)) == (["x.json"], ["c.json"])
    assert held.receipts == 3 * 2 * 2
    assert {"README.md", "x.json", "x.plan.lock", "x.context.lock"} <= held.files.keys()
    assert INDEX not in held.files
    assert held.key == "mine"


def test_it_is_as_its_schemas_say(packed: Path) -> None:
    payload = json.loads((packed / INDEX).read_bytes())["dsseEnvelope"]["payload"]
    statement = json.loads(base64.b64decode(payload))
    assert problems("evidence-v1", statement["predicate"]) == []
    for name in ("x.json", "c.json"):
        assert own_problems(json.loads((packed / name).read_bytes())) == []


def test_the_same_files_give_the_same_index(folder: Path) -> None:
    package.pack(folder, KEY)
    first = (folder / INDEX).read_bytes()
    (folder / INDEX).unlink()
    package.pack(folder, KEY)
    assert (folder / INDEX).read_bytes() == first


def test_a_package_moves(packed: Path, tmp_path: Path) -> None:
    moved = Path(shutil.move(packed, tmp_path / "elsewhere"))
    assert package.verify(moved, TRUST).receipts == 12


class TestThieves:
    """Changes to a package that was signed honestly."""

    @pytest.mark.parametrize("name", ["x.json", "c.json", "README.md", "x.plan.lock"])
    def test_a_changed_byte(self, packed: Path, name: str) -> None:
        path = packed / name
        path.write_bytes(path.read_bytes() + b" ")
        error = refusal(packed)
        assert [d.code for d in error.diagnostics] == ["P850"]
        assert name in error.diagnostics[0].message
        assert error.exit_code is ExitCode.BROKEN_TRUST

    def test_a_missing_file(self, packed: Path) -> None:
        (packed / "x.receipts" / "001-plan-0001.sigstore.json").unlink()
        assert refusal(packed).diagnostics[0].code == "P856"

    def test_an_added_file(self, packed: Path) -> None:
        (packed / "x.receipts" / "more.json").write_text("{}")
        error = refusal(packed)
        assert error.diagnostics[0].code == "P856"
        assert "not a file of" in error.diagnostics[0].message

    def test_a_link_to_a_file(self, packed: Path) -> None:
        path = packed / "README.md"
        path.rename(packed.parent / "elsewhere.md")
        path.symlink_to(packed.parent / "elsewhere.md")
        (found,) = refusal(packed).diagnostics
        assert (found.code, found.found) == ("P856", "a symbolic link")

    def test_a_folder_in_a_folder(self, packed: Path) -> None:
        (packed / "a" / "b").mkdir(parents=True)
        assert refusal(packed).diagnostics[0].code == "P856"

    def test_another_index(self, packed: Path) -> None:
        (packed / INDEX).write_bytes(sign_index({"x": "0" * 64}, [], [], OTHER))
        assert refusal(packed).diagnostics[0].code == "P613"

    def test_an_index_with_another_payload(self, packed: Path) -> None:
        receipt = packed / "x.receipts" / "001-plan-0001.sigstore.json"
        (packed / INDEX).write_bytes(receipt.read_bytes())
        assert refusal(packed).diagnostics[0].code == "P625"

    def test_no_index(self, folder: Path) -> None:
        assert refusal(folder).diagnostics[0].code == "P853"

    def test_a_key_that_is_not_trusted(self, packed: Path) -> None:
        error = refusal(packed, trust_in(OTHER.public_key(), "another"))
        assert error.diagnostics[0].code == "P613"


class TestLiars:
    """Packages whose maker signs something that does not follow."""

    @pytest.mark.parametrize(
        ("edit", "place"),
        [
            (lambda d: d["figures"][2]["decode_tok_s"].update(median="1"), "decode_tok_s.median"),
            (lambda d: d["figures"][2].update(request_tok_s="99999"), "figures[2].request_tok_s"),
            (lambda d: d["figures"][0].update(replays=1), "figures[0].replays"),
            (lambda d: d["by_prompt"][0].update(wall_us=1), "by_prompt[0].wall_us"),
            (lambda d: d["samples"][3].update(accepted=0), "samples[3].accepted"),
            (lambda d: d["samples"].pop(), "samples"),
            (lambda d: d["host"].update(cpu="A faster CPU"), "host.cpu"),
            (lambda d: d["engine"]["libraries"].append(
                {"name": "libx.so", "digest": {"sha256": "0" * 64}}), "engine.libraries"),
            (lambda d: d["preflight"][0]["reading"].update(busy_processes=9), "busy_processes"),
            (lambda d: d["arms"][2].update(strategy="mtp"), "arms[2].strategy"),
            (lambda d: d["design"].update(warmup=7), "design.warmup"),
        ],
    )  # fmt: skip
    def test_the_first_figure_that_does_not_follow_is_named(
        self, packed: Path, edit: Callable[[Any], None], place: str
    ) -> None:
        edited(packed / "x.json", edit)
        repacked(packed)
        error = refusal(packed)
        assert [d.code for d in error.diagnostics] == ["P854"]
        assert place in (error.diagnostics[0].place or "")
        assert error.exit_code is ExitCode.BROKEN_TRUST

    @pytest.mark.parametrize(
        ("edit", "place"),
        [
            (lambda d: d.update(passed=False), "passed"),
            (lambda d: d["decode"].update(high="9"), "decode.high"),
            (lambda d: d["gates"][0].update(found="same"), "gates[0].found"),
            (lambda d: d["prompts"][1].update(ratio="2"), "prompts[1].ratio"),
            (lambda d: d["base"].update(report_sha256="0" * 64), "base.report_sha256"),
        ],
    )
    def test_a_comparison_that_does_not_follow(
        self, packed: Path, edit: Callable[[Any], None], place: str
    ) -> None:
        edited(packed / "c.json", edit)
        repacked(packed)
        error = refusal(packed)
        assert [d.code for d in error.diagnostics] == ["P854"]
        assert place in (error.diagnostics[0].place or "")

    def test_a_sample_that_was_left_out(self, packed: Path) -> None:
        journal = packed / "x.journal.jsonl"
        journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
        repacked(packed)
        assert refusal(packed).diagnostics[0].code == "P852"

    @pytest.mark.parametrize("body", [{"text_base64": "x"}, {"text": "\ud800"}, {}])
    def test_an_output_that_is_none(self, packed: Path, body: dict[str, str]) -> None:
        journal = packed / "x.journal.jsonl"
        *head, last = journal.read_text().splitlines(keepends=True)
        line = json.loads(last)
        line["body"] = {k: v for k, v in line["body"].items() if k != "text"} | body
        journal.write_text("".join([*head, json.dumps(line) + "\n"]))
        repacked(packed)
        assert refusal(packed).diagnostics[0].code == "P803"

    def test_samples_in_another_order(self, packed: Path) -> None:
        journal = packed / "x.journal.jsonl"
        *head, last, but_one = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join([*head, but_one, last]))
        repacked(packed)
        assert refusal(packed).diagnostics[0].code == "P852"

    def test_a_busy_host_that_is_said_to_be_quiet(self, packed: Path) -> None:
        journal = packed / "x.journal.jsonl"
        lines = journal.read_text().splitlines(keepends=True)
        line = json.loads(lines[1])
        line["body"]["reading"]["cpu_percent"] = [90]
        lines[1] = json.dumps(line) + "\n"
        journal.write_text("".join(lines))
        repacked(packed)
        error = refusal(packed)
        assert (error.diagnostics[0].code, error.diagnostics[0].place) == (
            "P854",
            "preflight[0].gates",
        )


class TestPacking:
    def test_a_folder_without_a_report(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("x")
        with pytest.raises(PowerError) as refused:
            package.pack(tmp_path, KEY)
        assert refused.value.diagnostics[0].code == "P855"

    def test_what_is_no_file(self, folder: Path) -> None:
        (folder / "link").symlink_to("README.md")
        with pytest.raises(PowerError) as refused:
            package.pack(folder, KEY)
        (found,) = refused.value.diagnostics
        assert (found.code, found.hint) == ("P855", "move it out of the folder")

    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(PowerError) as refused:
            package.pack(tmp_path / "none", KEY)
        assert refused.value.diagnostics[0].code == "P855"

    def test_what_would_not_verify_is_not_signed(self, folder: Path) -> None:
        edited(folder / "x.json", lambda d: d["figures"][0].update(replays=1))
        with pytest.raises(PowerError) as refused:
            package.pack(folder, KEY)
        assert refused.value.diagnostics[0].code == "P854"
        assert not (folder / INDEX).exists()

    def test_an_index_that_is_there(self, packed: Path) -> None:
        with pytest.raises(PowerError) as refused:
            package.pack(packed, KEY)
        assert refused.value.diagnostics[0].code == "P440"


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"a": 2}, ("a", "1", "2")),
        ({"a": 1, "b": 2}, {"a": 1}, ("b", "2", "absent")),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ("a[1].b", "2", "3")),
        ({"a": [1, 2]}, {"a": [1]}, ("a[1]", "2", "absent")),
        ({"a": 1}, {"a": True}, None),
    ],
)
def test_the_first_difference(expected: Any, found: Any, difference: Any) -> None:
    """A bool where a number belongs never gets here: documents are read strictly."""
    assert package.first_difference(expected, found) == difference
