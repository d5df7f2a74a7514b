"""The contract of native prediction: a block of the target's own, and a table for its head."""

from collections.abc import Callable

import pytest

from power.artifact.contracts.common import detect_kind
from power.artifact.contracts.pair import check_pair, draft_facts
from tests.artifact import build
from tests.artifact.build import (
    STRING,
    TOKENS,
    TYPES,
    U32,
    WIDTH,
    Gguf,
    llama,
    native_table,
    qwen35,
)
from tests.artifact.conftest import Read, Refusal

Change = Callable[[Gguf], object]


def test_native_prediction(read: Read, refusal: Refusal) -> None:
    target = read(qwen35())
    assert check_pair("mtp", target, target).max_width is None
    own = draft_facts("mtp", target)
    assert own is not None
    assert own.nextn_layers == 1
    own_head = read(qwen35().tensor("blk.2.nextn.shared_head_head.weight", (WIDTH, len(TOKENS))))
    assert check_pair("mtp", own_head, own_head).kind == "mtp"
    reduced_head = read(qwen35().tensor("blk.2.nextn.shared_head_head.weight", (WIDTH, 20)))
    assert "shared_head_head" in refusal(lambda: check_pair("mtp", reduced_head, reduced_head))


@pytest.mark.parametrize("blocks", [0, 2])
def test_native_prediction_has_one_block(blocks: int, read: Read, refusal: Refusal) -> None:
    target = read(qwen35(blocks))
    shown = refusal(lambda: check_pair("mtp", target, target))
    assert "error[P332]" in shown
    assert f"{blocks} native prediction blocks" in shown


def test_native_prediction_of_other_architectures(read: Read, refusal: Refusal) -> None:
    gguf = llama().put("llama.nextn_predict_layers", U32, 1)
    target = read(gguf.tensor("blk.2.nextn.eh_proj.weight", (2 * WIDTH, WIDTH)))
    assert "`llama`" in refusal(lambda: check_pair("mtp", target, target))


def test_native_prediction_takes_no_second_file(read: Read, refusal: Refusal) -> None:
    draft, target = read(qwen35()), read(qwen35())
    assert "another file" in refusal(lambda: check_pair("mtp", draft, target))


def test_a_table_for_a_native_head(read: Read) -> None:
    table = read(native_table([9, 2, 5]).put("general.name", STRING, "a corpus"))
    assert detect_kind(table) == "mtp"
    facts = check_pair("mtp", table, read(qwen35()))
    assert (facts.kind, facts.max_width, facts.fr_vocabulary) == ("mtp", None, 3)
    assert draft_facts("mtp", table) is None


def test_a_table_is_judged_with_the_block_it_is_for(read: Read, refusal: Refusal) -> None:
    table = read(native_table([9, 2, 5]))
    assert "0 native prediction blocks" in refusal(
        lambda: check_pair("mtp", table, read(qwen35(0)))
    )


BROKEN_TABLES: dict[str, tuple[Change, str, str]] = {
    "no table": (lambda g: g.drop("d2t"), "P305", "`d2t` is missing"),
    "a head beside it": (
        lambda g: g.tensor("output.weight", (WIDTH, 3)),
        "P307",
        "`output.weight` does not belong",
    ),
    "a key of a model": (
        lambda g: g.put("mtp-head.block_count", U32, 1),
        "P304",
        "`mtp-head.block_count`",
    ),
    "ids of 32 bits": (
        lambda g: g.tensor("d2t", type=TYPES["I32"], data=bytes(12)),
        "P333",
        "64-bit",
    ),
    "an id outside": (
        lambda g: g.tensor("d2t", data=build.ids_of([9, len(TOKENS), 5])),
        "P333",
        f"row 1 of `d2t` is token {len(TOKENS)}, outside the vocabulary of {len(TOKENS)}",
    ),
    "a negative id": (
        lambda g: g.tensor("d2t", data=build.ids_of([9, 2, -1])),
        "P333",
        "token -1",
    ),
    "an id twice": (lambda g: g.tensor("d2t", data=build.ids_of([9, 2, 9])), "P333", "twice"),
    "half its origin": (
        lambda g: g.put("power.compact_head.tool", STRING, "mine"),
        "P302",
        "corpus_sha256",
    ),
}


@pytest.mark.parametrize("name", BROKEN_TABLES)
def test_a_table_that_is_none(name: str, read: Read, refusal: Refusal) -> None:
    change, code, says = BROKEN_TABLES[name]
    gguf = native_table([9, 2, 5])
    change(gguf)
    shown = refusal(lambda: check_pair("mtp", read(gguf), read(qwen35())))
    assert f"error[{code}]" in shown
    assert says in shown


def test_a_table_alone_is_held_to_what_needs_no_target(read: Read, refusal: Refusal) -> None:
    assert draft_facts("mtp", read(native_table([999]))) is None
    shown = refusal(lambda: draft_facts("mtp", read(native_table([3, -7]))))
    assert "token -7, outside any vocabulary" in shown
