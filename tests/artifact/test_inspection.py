"""What `power inspect` reports: complete, JSON-ready, and harmless to a terminal."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from power.artifact.inspection import inspect
from tests.artifact import build
from tests.artifact.build import F32, STRING, TOKENS, U32, Gguf, llama, native_table, qwen35
from tests.artifact.conftest import Refusal

Inspect = Callable[..., dict[str, Any]]


@pytest.fixture
def look(tmp_path: Path) -> Inspect:
    """Inspect a built file, as a kind and for a target if they are given."""

    def run(gguf: Gguf, kind: str | None = None, target: Gguf | None = None) -> dict[str, Any]:
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf.encode())
        other = None
        if target is not None:
            other = tmp_path / "t.gguf"
            other.write_bytes(target.encode())
        report = inspect(path, kind, other)
        json.dumps(report, allow_nan=False)
        return report

    return run


def _holding(report: dict[str, Any]) -> list[str]:
    return [contract["kind"] for contract in report["contracts"] if contract["holds"]]


def test_a_target(look: Inspect) -> None:
    report = look(llama())
    assert report["file"] == "m.gguf"
    assert report["bytes"] == len(llama().encode())
    assert report["judged_as"] == "target"
    assert report["facts"]["layers"] == 3
    assert report["tensors"]["types"] == {"F32": 29}
    assert report["metadata"]["llama.block_count"] == 3
    assert report["metadata"]["tokenizer.ggml.tokens"] == {
        "type": "array of string",
        "count": len(TOKENS),
        "first": TOKENS[:3],
    }
    assert report["special_tokens"]["eos"] == {"id": 2, "text": "</s>"}
    assert report["end_of_generation"] == [2]
    assert report["serves"] == ["draft-model", "eagle3", "dflash", "dflash2", "dspark"]
    assert _holding(report) == ["draft-model"]


def test_a_target_with_native_prediction(look: Inspect) -> None:
    report = look(qwen35())
    assert "mtp" in report["serves"]
    assert _holding(report) == ["draft-model", "mtp"]
    assert look(qwen35(), "mtp")["pair"]["kind"] == "mtp"


def test_a_table_for_a_native_head(look: Inspect) -> None:
    """Alone, as its kind, and for a target."""
    for arguments in ((), ("mtp",), ("mtp", qwen35()), (None, qwen35())):
        report = look(native_table([9, 2]), *arguments)
        assert (report["judged_as"], report["facts"]) == ("mtp", None)
        assert _holding(report) == ["mtp"]
        assert ("pair" in report) == (len(arguments) == 2)
    assert report["pair"]["fr_vocabulary"] == 2
    reasons = {contract["kind"]: contract["reasons"] for contract in report["contracts"]}
    assert reasons["draft-model"] == ["the file is of kind `mtp`"]


def test_a_model_is_a_native_draft_for_itself_alone(look: Inspect, refusal: Refusal) -> None:
    assert "another file" in refusal(lambda: look(qwen35(), "mtp", qwen35()))


@pytest.mark.parametrize("kind", ["eagle3", "dflash", "dflash2", "dspark"])
def test_a_draft_head(kind: str, look: Inspect) -> None:
    """Alone, as a kind, and for a target: the kind is found when it is not given."""
    gguf = getattr(build, kind)()
    for arguments in ((), (kind,), (kind, llama()), (None, llama())):
        report = look(gguf, *arguments)
        assert report["judged_as"] == kind
        assert _holding(report) == [kind]
        assert ("pair" in report) == (len(arguments) == 2)
    reasons = {contract["kind"]: contract["reasons"] for contract in report["contracts"]}
    assert reasons["draft-model"] == [f"the file is of kind `{kind}`"]


def test_a_bare_container_is_described(look: Inspect) -> None:
    report = look(Gguf().put("general.architecture", STRING, "llama").tensor("a.weight", (8,)))
    assert report["facts"] is None
    assert report["judged_as"] == "container"
    assert _holding(report) == []


def test_a_bare_container_is_no_draft(look: Inspect, refusal: Refusal) -> None:
    bare = Gguf().put("general.architecture", STRING, "llama").tensor("a.weight", (8,))
    assert "`llama.block_count` is missing" in refusal(lambda: look(bare, "draft-model"))


@pytest.mark.parametrize("key", ["llama.block_count", "tokenizer.ggml.model", "general.type"])
def test_a_claim_to_be_a_model_is_judged(key: str, look: Inspect, refusal: Refusal) -> None:
    bare = Gguf().put("general.architecture", STRING, "llama").tensor("a.weight", (8,))
    bare.put(key, STRING, "adapter")
    assert "error[P30" in refusal(lambda: look(bare))


def test_a_bad_target_is_refused(look: Inspect, refusal: Refusal) -> None:
    target = llama().put("llama.context_length", U32, 0)
    assert "t.gguf: llama.context_length" in refusal(lambda: look(llama(), None, target))


def test_text_from_the_file_is_escaped(look: Inspect) -> None:
    hostile = "\x1b]52;c;eA==\x07\u202eabc"
    gguf = llama().put("general.name", STRING, hostile).put_array("x.tags", STRING, [hostile])
    gguf.put("x.nan", F32, math.nan).put_array("x.infs", F32, [math.inf])
    report = look(gguf)
    assert report["metadata"]["general.name"] == "\\x1b]52;c;eA==\\x07\\u202eabc"
    assert report["metadata"]["x.tags"]["first"] == ["\\x1b]52;c;eA==\\x07\\u202eabc"]
    assert report["metadata"]["x.nan"] == "nan"
    assert report["metadata"]["x.infs"]["first"] == ["inf"]


def test_long_texts_are_cut(look: Inspect) -> None:
    report = look(llama().put("tokenizer.chat_template", STRING, "x" * 10_000))
    assert len(report["metadata"]["tokenizer.chat_template"]) == 200
    assert len(report["facts"]["chat_template_sha256"]) == 64


def test_what_a_pair_established(look: Inspect) -> None:
    assert look(build.dspark(), "dspark", llama())["pair"]["max_width"] == 8
    other = llama(1).put("tokenizer.chat_template", STRING, "x")
    (note,) = look(other, "draft-model", llama())["pair"]["notes"]
    assert note.startswith("`tokenizer.chat_template` differs")


def test_a_link_may_lead_anywhere_when_the_user_names_it(tmp_path: Path) -> None:
    blobs, names = tmp_path / "blobs", tmp_path / "names"
    blobs.mkdir()
    names.mkdir()
    (blobs / "abc").write_bytes(llama().encode())
    (names / "m.gguf").symlink_to(blobs / "abc")
    assert inspect(names / "m.gguf", None, None)["file"] == "m.gguf"


def test_a_file_that_is_not_there(tmp_path: Path, refusal: Refusal) -> None:
    missing = refusal(lambda: inspect(tmp_path / "m.gguf", None, None))
    assert "error[P221]" in missing
    assert "hint: check the path" in missing
    assert "--artifacts" not in missing
    assert "error[P223]" in refusal(lambda: inspect(tmp_path, None, None))
