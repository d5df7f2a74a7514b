"""Draft contracts: the right file passes for its target, and each single thing wrong does not."""

import struct
from collections.abc import Callable

import pytest

from power.artifact.contracts.common import KINDS, detect_kind
from power.artifact.contracts.pair import check_pair, draft_facts
from tests.artifact import build
from tests.artifact.build import (
    BOOL,
    F32,
    HEAD,
    I32,
    STRING,
    TOKENS,
    TYPES,
    U32,
    WIDTH,
    Gguf,
    llama,
    qwen35,
    reduced,
)
from tests.artifact.conftest import Read, Refusal

HEADS: dict[str, Callable[[], Gguf]] = {
    "eagle3": build.eagle3,
    "dflash": build.dflash,
    "dflash2": build.dflash2,
    "dspark": build.dspark,
}
Change = Callable[[Gguf], object]


@pytest.mark.parametrize(
    ("kind", "width"), [("eagle3", None), ("dflash", 7), ("dflash2", 7), ("dspark", 8)]
)
@pytest.mark.parametrize("target", [llama, qwen35])
def test_a_head_for_its_target(
    kind: str, width: int | None, target: Callable[[], Gguf], read: Read
) -> None:
    layers = [0, 1, 1] if kind == "eagle3" else [0, 1]
    arch = "eagle3" if kind == "eagle3" else "dflash"
    gguf = HEADS[kind]().put_array(f"{arch}.target_layers", I32, layers)
    draft = read(gguf)
    assert detect_kind(draft) == kind
    facts = check_pair(kind, draft, read(target()))
    assert facts.kind == kind
    assert facts.max_width == width
    assert facts.fr_vocabulary is None
    own = draft_facts(kind, draft)
    assert own is not None
    assert own.vocabulary == len(TOKENS)


@pytest.mark.parametrize("declared", KINDS)
@pytest.mark.parametrize("kind", [*HEADS, "draft-model"])
def test_a_file_declared_as_another_kind(
    declared: str, kind: str, read: Read, refusal: Refusal
) -> None:
    if declared == kind or (declared, kind) == ("mtp", "draft-model"):
        return
    draft = read(HEADS.get(kind, llama)())
    shown = refusal(lambda: check_pair(declared, draft, read(llama())))
    assert "error[P330]" in shown
    assert f"`{declared}`" in shown
    assert f"`{kind}`" in shown


def test_a_kind_that_does_not_exist(read: Read, refusal: Refusal) -> None:
    shown = refusal(lambda: check_pair("medusa", read(llama()), read(llama())))
    assert "error[P334]" in shown
    assert all(kind in shown for kind in KINDS)


# Without these a file is still a draft of its kind: values are the keys, a bias is nothing.
OPTIONAL = {
    ("dflash", "blk.0.attn_v.weight"),
    ("dflash2", "blk.0.attn_v.weight"),
    ("dspark", "blk.0.attn_v.weight"),
    ("dspark", "conf_proj.bias"),
}
TENSORS = [(kind, str(tensor.name)) for kind in HEADS for tensor in HEADS[kind]().tensors]


@pytest.mark.parametrize(("kind", "name"), sorted({*TENSORS} - OPTIONAL))
def test_a_missing_tensor(kind: str, name: str, read: Read, refusal: Refusal) -> None:
    draft, target = read(HEADS[kind]().drop(name)), read(llama())
    shown = refusal(lambda: check_pair(kind, draft, target))
    # What tells a DSpark draft from a DFlash one is this tensor.
    assert ("`dflash`" if name == "markov_w1.weight" else f"`{name}` is missing") in shown


@pytest.mark.parametrize(("kind", "name"), sorted(OPTIONAL))
def test_a_tensor_that_may_be_missing(kind: str, name: str, read: Read) -> None:
    assert check_pair(kind, read(HEADS[kind]().drop(name)), read(llama())).kind == kind


@pytest.mark.parametrize(("kind", "name"), TENSORS)
def test_a_tensor_of_another_shape(kind: str, name: str, read: Read, refusal: Refusal) -> None:
    draft, target = read(HEADS[kind]().tensor(name, (WIDTH, 2, 2))), read(llama())
    assert f"`{name}` has another shape" in refusal(lambda: check_pair(kind, draft, target))


@pytest.mark.parametrize(("kind", "name"), TENSORS)
def test_a_tensor_of_integers(kind: str, name: str, read: Read, refusal: Refusal) -> None:
    draft, target = read(HEADS[kind]().tensor(name, type=TYPES["I16"])), read(llama())
    assert f"`{name}` stores weights as integers" in refusal(
        lambda: check_pair(kind, draft, target)
    )


WRONG: dict[str, tuple[str, Change, str, str]] = {
    "a tensor nobody asked for": (
        "dflash",
        lambda g: g.tensor("surprise.weight", (8,)),
        "P307",
        "surprise.weight",
    ),
    "a fork's selector names": (
        "dflash2",
        lambda g: g.tensor("selector_pred.weight", (4, len(TOKENS))),
        "P307",
        "selector_pred.weight",
    ),
    "a key nobody asked for": (
        "dflash",
        lambda g: g.put("dflash.pooling_type", U32, 1),
        "P304",
        "pooling_type",
    ),
    "another backbone": (
        "dspark",
        lambda g: g.put("dflash.hyper_connection.count", U32, 4),
        "P304",
        "hyper_connection.count",
    ),
    "no layers": ("dflash", lambda g: g.drop("dflash.target_layers"), "P302", "target_layers"),
    "an empty list of layers": (
        "dflash",
        lambda g: g.put_array("dflash.target_layers", I32, []),
        "P304",
        "target_layers",
    ),
    "layers as one number": (
        "dflash",
        lambda g: g.drop("dflash.target_layers").put("dflash.target_layers", U32, 2),
        "P303",
        "target_layers",
    ),
    "a negative layer": (
        "dflash",
        lambda g: g.put_array("dflash.target_layers", I32, [0, -1]),
        "P331",
        "layer -1",
    ),
    "the output of the last layer, which llama does not offer": (
        "dflash",
        lambda g: g.put_array("dflash.target_layers", I32, [0, 3]),
        "P331",
        "layer 3",
    ),
    "two layers for EAGLE-3": (
        "eagle3",
        lambda g: g.put_array("eagle3.target_layers", I32, [0, 1]),
        "P304",
        "names 2 layers",
    ),
    "two blocks for EAGLE-3": (
        "eagle3",
        lambda g: g.put("eagle3.block_count", U32, 2),
        "P304",
        "one block",
    ),
    "features of another width": (
        "eagle3",
        lambda g: g.put("eagle3.target_hidden_size", U32, 64),
        "P331",
        "target_hidden_size",
    ),
    "another width": (
        "dflash",
        lambda g: g.put("dflash.embedding_length", U32, 64),
        "P331",
        "embedding_length",
    ),
    "values longer than keys": (
        "dflash",
        lambda g: g.put("dflash.attention.value_length", U32, 16),
        "P304",
        "value_length",
    ),
    "values longer than keys in EAGLE-3": (
        "eagle3",
        lambda g: g.put("eagle3.attention.value_length", U32, 16),
        "P304",
        "value_length",
    ),
    "no block size": ("dspark", lambda g: g.drop("dflash.block_size"), "P302", "block_size"),
    "a block of nothing": (
        "dspark",
        lambda g: g.put("dflash.block_size", U32, 0),
        "P304",
        "block_size",
    ),
    "a block of the anchor alone": (
        "dflash",
        lambda g: g.put("dflash.block_size", U32, 1),
        "P304",
        "block_size",
    ),
    "a bonus block of the anchor alone": (
        "dspark",
        lambda g: (
            g.put("dflash.block_size", U32, 1),
            g.put("dflash.sample_from_anchor", BOOL, 0),
        ),
        "P304",
        "block_size",
    ),
    "no mask token": (
        "dflash",
        lambda g: g.drop("tokenizer.ggml.mask_token_id"),
        "P312",
        "mask_token_id",
    ),
    "a mask token outside": (
        "dflash",
        lambda g: g.put("tokenizer.ggml.mask_token_id", U32, 999),
        "P312",
        "mask_token_id",
    ),
    "an unknown activation": (
        "dflash",
        lambda g: g.put("dflash.hidden_activation", STRING, "relu"),
        "P304",
        "hidden_activation",
    ),
    "a window and no layer that slides": (
        "dflash",
        lambda g: (
            g.put("dflash.attention.sliding_window", U32, 4),
            g.put_array("dflash.attention.sliding_window_pattern", BOOL, [0]),
        ),
        "P304",
        "no layer slides",
    ),
    "a window without a pattern": (
        "dflash",
        lambda g: g.put("dflash.attention.sliding_window", U32, 4),
        "P304",
        "no layer slides",
    ),
    "confidence claimed without its head": (
        "dspark",
        lambda g: g.drop("conf_proj.weight"),
        "P305",
        "conf_proj.weight",
    ),
    "a Markov head of two ranks": (
        "dspark",
        lambda g: g.tensor("markov_w2.weight", (5, len(TOKENS))),
        "P306",
        "markov_w2.weight",
    ),
    "groups that do not divide": (
        "dflash2",
        lambda g: g.put("dflash.conv_group_size", U32, 5),
        "P304",
        "conv_group_size",
    ),
    "a lattice wider than a row": (
        "dflash2",
        lambda g: g.put("dflash.selector_top_k", U32, 6),
        "P304",
        "selector_top_k",
    ),
    "no selector rank": (
        "dflash2",
        lambda g: g.put("dflash.selector_rank", U32, 0),
        "P304",
        "selector_rank",
    ),
    "a reduced head for DFlash2": ("dflash2", lambda g: reduced(g, [1, 2]), "P333", "DFlash2"),
    "a NaN epsilon": (
        "dflash",
        lambda g: g.put("dflash.attention.layer_norm_rms_epsilon", F32, float("nan")),
        "P304",
        "epsilon",
    ),
    "ids of 32 bits": (
        "dflash",
        lambda g: reduced(g, [1, 2]).tensor("d2t", type=TYPES["I32"], data=bytes(8)),
        "P333",
        "64-bit",
    ),
    "an id outside": ("dflash", lambda g: reduced(g, [1, 272]), "P333", "token 272"),
    "a negative id": ("eagle3", lambda g: reduced(g, [-1, 2]), "P333", "token -1"),
    "an id twice": ("eagle3", lambda g: reduced(g, [2, 2]), "P333", "twice"),
    "ids without a head": (
        "eagle3",
        lambda g: reduced(g, [1, 2]).drop("output.weight"),
        "P333",
        "no `output.weight`",
    ),
    "a head of other rows": (
        "dflash",
        lambda g: reduced(g, [1, 2]).tensor("output.weight", (WIDTH, 3)),
        "P333",
        "3 rows",
    ),
    "a token of another text": (
        "dflash",
        lambda g: g.put_array("tokenizer.ggml.tokens", STRING, [*TOKENS[:-1], "other"]),
        "P320",
        "token 271",
    ),
    "a vocabulary one longer": (
        "eagle3",
        lambda g: build.tokenizer(g, [*TOKENS, "more"]),
        "P320",
        "273 tokens",
    ),
    "an adapter": ("dflash", lambda g: g.put("general.type", STRING, "adapter"), "P301", "adapter"),
}


@pytest.mark.complaint(n=4)
@pytest.mark.parametrize("name", WRONG)
def test_refused(name: str, read: Read, refusal: Refusal) -> None:
    kind, change, code, mention = WRONG[name]
    gguf = HEADS[kind]()
    change(gguf)
    draft, target = read(gguf), read(llama())
    shown = refusal(lambda: check_pair(kind, draft, target))
    assert f"error[{code}]" in shown
    assert mention in shown


ALLOWED: dict[str, tuple[str, Change, int | None]] = {
    "a head and embeddings of its own": (
        "dflash",
        lambda g: g.tensor("output.weight", (WIDTH, len(TOKENS))).tensor(
            "token_embd.weight", (WIDTH, len(TOKENS))
        ),
        None,
    ),
    "a reduced head": ("dflash", lambda g: reduced(g, [7, 1, 30]), 3),
    "a reduced head of EAGLE-3": ("eagle3", lambda g: reduced(g, [7, 1, 30]), 3),
    "a reduced head of DSpark": (
        "dspark",
        lambda g: reduced(g, [7, 1]).tensor("markov_w2.weight", (4, 2)),
        2,
    ),
    "no values: they are the keys": ("dflash", lambda g: g.drop("blk.0.attn_v.weight"), None),
    "no confidence head": (
        "dspark",
        lambda g: g.drop("dflash.has_confidence_head", "conf_proj.weight", "conf_proj.bias"),
        None,
    ),
    "a confidence head written as a vector": (
        "dspark",
        lambda g: g.tensor("conf_proj.weight", (WIDTH + 4,)),
        None,
    ),
    "a window and a layer that slides": (
        "dflash",
        lambda g: (
            g.put("dflash.attention.sliding_window", U32, 4),
            g.put_array("dflash.attention.sliding_window_pattern", BOOL, [1]),
        ),
        None,
    ),
    "features normed before they are fused": (
        "eagle3",
        lambda g: g.put("eagle3.norm_before_fc", BOOL, 1).tensor(
            "enc.output_norm.weight", (3 * WIDTH,)
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str, read: Read) -> None:
    kind, change, rows = ALLOWED[name]
    gguf = HEADS[kind]()
    change(gguf)
    assert check_pair(kind, read(gguf), read(llama())).fr_vocabulary == rows


def test_a_bonus_block_proposes_one_less(read: Read) -> None:
    gguf = build.dspark().put("dflash.sample_from_anchor", BOOL, 0)
    assert check_pair("dspark", read(gguf), read(llama())).max_width == 7


def test_a_target_that_does_not_show_its_layers(read: Read, refusal: Refusal) -> None:
    gguf = llama()
    for key, _, _ in list(gguf.pairs):
        assert isinstance(key, str)
        gguf.pairs = [(str(k).replace("llama.", "olmo."), kind, v) for k, kind, v in gguf.pairs]
    gguf.put("general.architecture", STRING, "olmo")
    shown = refusal(lambda: check_pair("eagle3", read(build.eagle3()), read(gguf)))
    assert "error[P332]" in shown
    assert "`olmo`" in shown


def test_eagle3_of_another_width_needs_its_own_embeddings(read: Read, refusal: Refusal) -> None:
    """What it borrows from the target has the target's width."""
    target = llama()
    for name, shape in (("token_embd.weight", (64, len(TOKENS))), ("output_norm.weight", (64,))):
        target.tensor(name, shape)
    target.put("llama.embedding_length", U32, 64)
    draft = build.eagle3().put("eagle3.target_hidden_size", U32, 64)
    draft.tensor("fc.weight", (3 * 64, WIDTH))
    shown = refusal(lambda: check_pair("eagle3", read(draft), read(target)))
    assert "`eagle3.embedding_length` is 32, the target's width 64" in shown
    draft.tensor("token_embd.weight", (WIDTH, len(TOKENS))).tensor(
        "output.weight", (WIDTH, len(TOKENS))
    )
    assert check_pair("eagle3", read(draft), read(target)).kind == "eagle3"


def test_a_draft_model_speaks_the_targets_tokens(read: Read, refusal: Refusal) -> None:
    target = read(llama())
    assert check_pair("draft-model", read(llama(1)), target).notes == ()
    other = llama(1).put("tokenizer.chat_template", STRING, "{{ x }}")
    (note,) = check_pair("draft-model", read(other), target).notes
    assert "tokenizer.chat_template" in note
    swapped = [TOKENS[1], TOKENS[0], *TOKENS[2:]]
    wrong = read(llama(1).put_array("tokenizer.ggml.tokens", STRING, swapped))
    assert "token 0 " in refusal(lambda: check_pair("draft-model", wrong, target))


def test_a_draft_model_is_a_model(read: Read, refusal: Refusal) -> None:
    broken = llama(1).drop("blk.0.attn_norm.weight").put("tokenizer.ggml.bos_token_id", U32, 2)
    shown = refusal(lambda: check_pair("draft-model", read(broken), read(llama())))
    assert "blk.0.attn_norm.weight" in shown
    assert "bos_token_id" in shown


def test_the_head_of_a_sparse_table_is_not_read(read: Read, refusal: Refusal) -> None:
    """A `d2t` larger than any vocabulary is refused without reading it."""
    rows = (8 << 20) // 8 + 1
    gguf = reduced(build.dflash(), [1])
    gguf.tensor("d2t", (rows,), type=TYPES["I64"], data=struct.pack("<q", 0) * rows)
    gguf.tensors.sort(key=lambda tensor: tensor.name == "d2t")
    assert "larger than any" in refusal(lambda: check_pair("dflash", read(gguf), read(llama())))


def test_rotation_factors_are_allowed(read: Read) -> None:
    gguf = build.dflash().tensor("rope_freqs.weight", (HEAD // 2,))
    assert check_pair("dflash", read(gguf), read(llama())).kind == "dflash"
