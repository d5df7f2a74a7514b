"""A compact head: the right rows, a table that names them, and where both came from."""

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from power.artifact.contracts import provenance
from power.artifact.contracts.pair import check_pair
from power.artifact.header import Header
from power.artifact.opened import OpenArtifact
from power.diagnostics import PowerError, as_text
from tests.artifact import build
from tools import build_compact_head as tool
from tools.build_drafts import catalogue
from tools.build_drafts.qwen35 import Qwen35Target
from tools.exactness_matrix.cases import Pair
from tools.exactness_matrix.lab import Controls, measure
from tools.exactness_matrix.report import problems

NONE: frozenset[int] = frozenset()
COUNTS = {10: 4, 5: 9, 7: 4, 200: 1}
CORPUS = tool.Corpus(COUNTS, "ab" * 32)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    names = ["walk", "dflash", "dflash-d2t", "dspark-own", "eagle3-own", "dflash2"]
    folder = tmp_path_factory.mktemp("drafts")
    hybrid = Qwen35Target("qwen35", catalogue.SMALL).write(folder)
    return {**catalogue.build(folder, names), "qwen35": hybrid}


def header_of(path: Path) -> Header:
    with OpenArtifact.open(path.name, [path.parent]) as opened:
        return opened.header


def table_of(path: Path) -> list[int]:
    data = header_of(path).contents["d2t"]
    return list(struct.unpack(f"<{len(data) // 8}q", data))


@pytest.mark.parametrize(
    ("rows", "forced", "ids"),
    [
        (1, NONE, [5]),
        (4, NONE, [5, 7, 10, 200]),
        (6, NONE, [5, 7, 10, 200, 0, 1]),
        (3, frozenset({2}), [5, 7, 2]),
        (3, frozenset({7}), [5, 7, 10]),
        (3, frozenset({5, 2, 9}), [5, 2, 9]),
        (2, frozenset({2, 9}), [2, 9]),
    ],
    ids=["one", "ties by id", "filled by id", "forced", "frequent anyway", "two", "nothing else"],
)
def test_rows_are_ranked_by_count_then_id(
    rows: int, forced: frozenset[int], ids: list[int]
) -> None:
    assert tool.ranked(COUNTS, 320, rows, forced) == ids


@pytest.mark.parametrize(
    ("counts", "rows", "says"),
    [
        ({320: 1}, 8, "token 320, the vocabulary 320"),
        ({-1: 1}, 8, "token -1"),
        ({}, 320, "give 2 to 319"),
        ({}, 1, "give 2 to 319"),
    ],
)
def test_what_fits_no_head_is_refused(counts: dict[int, int], rows: int, says: str) -> None:
    with pytest.raises(tool.Refusal, match=says):
        tool.ranked(counts, 320, rows, frozenset({2, 3}))


def test_a_native_head_gets_a_table_and_keeps_its_rows(
    files: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out.gguf"
    assert tool.build(files["qwen35"], out, CORPUS, 40) == sum(COUNTS.values())
    (only,) = gguf.GGUFReader(out).tensors
    assert (only.name, only.tensor_type.name) == ("d2t", "I64")
    table = table_of(out)
    assert table == only.data.tolist()
    assert table[:4] == [5, 7, 10, 200]
    assert check_pair("mtp", header_of(out), header_of(files["qwen35"])).fr_vocabulary == 40
    source = header_of(out).text(provenance.SOURCE)
    assert source == hashlib.sha256(files["qwen35"].read_bytes()).hexdigest()
    with pytest.raises(tool.Refusal, match="reduced head already"):
        tool.build(out, tmp_path / "again.gguf", CORPUS, 40)
    with pytest.raises(PowerError, match="0 native prediction blocks"):
        tool.build(files["walk"], tmp_path / "again.gguf", CORPUS, 40)


@pytest.mark.parametrize("name", ["dflash", "dspark-own", "eagle3-own"])
def test_the_new_file_is_the_old_one_with_fewer_rows(
    files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out.gguf"
    covered = tool.build(files[name], out, CORPUS, 40, files["walk"])
    table = table_of(out)
    assert table[:4] == [5, 7, 10, 200]
    assert 2 in table  # </s>, which the corpus does not hold
    assert covered == sum(COUNTS.values())
    old, new = ({t.name: t for t in gguf.GGUFReader(path).tensors} for path in (files[name], out))
    borrowed = {t.name: t for t in gguf.GGUFReader(files["walk"]).tensors}
    reduced = {"output.weight", "markov_w2.weight"}
    assert new.keys() == old.keys() | {"output.weight", "d2t"}
    for key in new.keys() & reduced:
        source = old.get(key, borrowed["output.weight"])
        assert np.array_equal(new[key].data, source.data[table])
    for key in old.keys() - reduced:
        assert np.array_equal(new[key].data, old[key].data)
    kind = name.split("-", maxsplit=1)[0]
    assert check_pair(kind, header_of(out), header_of(files["walk"])).fr_vocabulary == 40


def test_the_same_input_gives_the_same_bytes(files: dict[str, Path], tmp_path: Path) -> None:
    outs = [tmp_path / f"{index}.gguf" for index in range(2)]
    for out in outs:
        tool.build(files["eagle3-own"], out, CORPUS, 40)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == outs


def test_the_file_says_what_it_was_made_from(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    tool.build(files["eagle3-own"], out, CORPUS, 40)
    header = header_of(out)
    lines = b"5 9\n7 4\n10 4\n200 1\n"
    assert {key: header.text(key) for key in provenance.KEYS} == {
        provenance.TOOL: tool.TOOL,
        provenance.SOURCE: hashlib.sha256(files["eagle3-own"].read_bytes()).hexdigest(),
        provenance.CORPUS: CORPUS.sha256,
        provenance.COUNTS: hashlib.sha256(lines).hexdigest(),
        provenance.TABLE: hashlib.sha256(header.contents["d2t"]).hexdigest(),
    }


def test_quantised_rows_stay_as_they_are(tmp_path: Path) -> None:
    """A Q8_0 row of 32 numbers is one block of 34 bytes."""
    rows = [bytes([index % 251]) * 34 for index in range(len(build.TOKENS))]
    draft = build.eagle3().tensor(
        "output.weight",
        (build.WIDTH, len(rows)),
        type=build.TYPES["Q8_0"],
        data=b"".join(rows),
    )
    source, out = tmp_path / "draft.gguf", tmp_path / "out.gguf"
    source.write_bytes(draft.encode())
    tool.build(source, out, tool.Corpus({9: 1, 4: 2}, "ab" * 32), 5)
    head = next(t for t in gguf.GGUFReader(out).tensors if t.name == "output.weight")
    assert head.tensor_type.name == "Q8_0"
    assert [bytes(row) for row in head.data] == [rows[token] for token in table_of(out)]
    assert table_of(out) == [4, 9, 0, 1, 2]


@pytest.mark.parametrize(
    ("name", "says"),
    [("dflash2", "no head"), ("dflash-d2t", "reduced head already"), ("dflash", "--target")],
)
def test_what_cannot_be_reduced_is_refused(
    files: dict[str, Path], tmp_path: Path, name: str, says: str
) -> None:
    with pytest.raises(tool.Refusal, match=says):
        tool.build(files[name], tmp_path / "out.gguf", CORPUS, 40)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    out.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        tool.build(files["eagle3-own"], out, CORPUS, 40)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


@pytest.mark.engine
def test_a_text_is_tokenised_by_the_engine(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = tmp_path / "corpus.txt", tmp_path / "out.gguf"
    text.write_text("aab</s>\nba", "utf-8")
    arguments = [files["eagle3-own"], out, "--rows", "12", "--text", text]
    assert tool.main([str(argument) for argument in arguments]) == 0
    said = capsys.readouterr().out
    assert said == f"{out}: 12 rows, 100.0% of the corpus\n"
    byte = {chr(value): 3 + value for value in range(256)}  # the fixtures have a token a byte
    assert table_of(out)[:2] == [byte["a"], byte["b"]]
    assert byte["\n"] in table_of(out)


def test_ids_are_counted(files: dict[str, Path], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("[5, 5, 7]\n\n[7, 5]\n", "utf-8")
    found = tool.count_ids(corpus)
    assert found == tool.Corpus({5: 3, 7: 2}, hashlib.sha256(corpus.read_bytes()).hexdigest())


@pytest.mark.parametrize("line", ["{}", "[1.0]", "[true]", '["a"]', "[1", "7"])
def test_a_line_of_something_else_is_refused(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(f"[5]\n{line}\n", "utf-8")
    arguments = [str(files["eagle3-own"]), str(tmp_path / "o"), "--rows", "9", "--ids", str(corpus)]
    assert tool.main(arguments) == 2
    assert "error: corpus.jsonl:2: " in capsys.readouterr().err


@pytest.mark.engine
@pytest.mark.parametrize("name", ["dflash", "dspark-own", "eagle3-own", "qwen35"])
def test_a_compact_head_drafts_and_changes_nothing(
    files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """The commonest 200 tokens of the walk itself: much is proposed, and nothing else differs."""
    out = tmp_path / "out.gguf"
    common = tool.Corpus({token: 1000 - token for token in range(3, 203)}, "ab" * 32)
    native = name == "qwen35"
    tool.build(files[name], out, common, 204, None if native else files["walk"])
    kind = "mtp" if native else name.split("-", maxsplit=1)[0]
    target = name if native else "walk"
    pair = Pair(target, kind, recurrent=native, draft="out", max_width=3, own_rows=204)
    table = measure(pair, Controls({**files, "out": out}, count=2, max_tokens=60))
    assert list(problems(table)) == []


Change = Callable[[build.Gguf], build.Gguf]


def noted(gguf_: build.Gguf) -> build.Gguf:
    table = next(t.data for t in gguf_.tensors if t.name == "d2t")
    assert table is not None
    for key in provenance.KEYS:
        gguf_.put(key, build.STRING, "ab" * 32)
    return gguf_.put(provenance.TABLE, build.STRING, hashlib.sha256(table).hexdigest())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda g: g, None),
        (lambda g: g.put(provenance.CORPUS, build.STRING, "x"), "is no SHA-256"),
        (lambda g: g.put(provenance.CORPUS, build.U32, 7), "corpus_sha256"),
        (lambda g: g.drop(provenance.COUNTS), "counts_sha256` is missing"),
        (lambda g: g.put("power.compact_head.more", build.STRING, "x"), "is no key"),
        (lambda g: g.put(provenance.TABLE, build.STRING, "cd" * 32), "not the digest"),
    ],
    ids=["sound", "no digest", "no text", "one missing", "one more", "another table"],
)
def test_provenance_is_whole_and_about_this_table(
    tmp_path: Path, change: Change, says: str | None
) -> None:
    path = tmp_path / "draft.gguf"
    path.write_bytes(change(noted(build.reduced(build.eagle3(), [9, 5, 2]))).encode())
    target = tmp_path / "target.gguf"
    target.write_bytes(build.llama().encode())
    if says is None:
        assert check_pair("eagle3", header_of(path), header_of(target)).fr_vocabulary == 3
        return
    with pytest.raises(PowerError) as caught:
        check_pair("eagle3", header_of(path), header_of(target))
    assert says in as_text(caught.value.diagnostics)
