"""Which tensors a model must have, and their shapes, by architecture.

Shapes are in ggml's order, row length first. Source: `load_arch_tensors` of
each architecture in llama.cpp, src/models/. Architectures without a recipe here
are held to what all of them share: embeddings and at least one tensor a block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from power.artifact.dimensions import Dimensions
from power.artifact.findings import Findings
from power.artifact.header import Header
from power.artifact.reader import Reader
from power.artifact.tensors import Tensor

Shape = tuple[int, ...]
Layout = dict[str, Shape]

_ELEMENTWISE = ("_conv_base", "_conv1d.weight")  # matrices in shape alone
_NO_PRODUCT = frozenset({"F64", "Q8_1", "Q8_K"})  # types without a dot product of their own
_BLOCK = re.compile(r"blk\.(\d+)\.")
_INDICES = ".ffn_gate_tid2eid"  # from a token to the experts that it goes to
_MATRIX_OF_ONE_ROW = "conf_proj.weight"  # its second dimension may be dropped


def check_tensors(
    findings: Findings,
    header: Header,
    required: Mapping[str, Shape],
    optional: Mapping[str, Shape] | None = None,
) -> None:
    """Find missing tensors (P305), and wrong shapes (P306); types are `check_storage`'s."""
    for name, shape in required.items():
        if name not in header.tensors:
            findings.add(
                "P305",
                f"tensor `{name}` is missing",
                place=header.name,
                expected=_shown(shape),
                found="nothing",
                hint="the file is incomplete, or its metadata is another model's",
            )
    for name, shape in (dict(required) | dict(optional or {})).items():
        tensor = header.tensors.get(name)
        if tensor is None:
            continue
        if tensor.shape != shape:
            findings.add(
                "P306",
                f"tensor `{name}` has another shape than its metadata says",
                place=f"{tensor.file}: {name} at byte {tensor.at}",
                expected=_shown(shape),
                found=_shown(tensor.shape),
                hint="the file was put together from two models: fetch the original",
            )


def check_storage(findings: Findings, header: Header) -> None:
    """Find tensors of a type that the engine has no arithmetic for (P306); it ends its process.

    Source: `binary_op` and `type_traits_cpu` in llama.cpp, ggml/src/ggml-cpu. Vectors
    and the kernels of small convolutions are added and multiplied element by
    element, which takes 32-bit floats; everything else is a factor of a matrix
    product, but for two tables of indices. That holds for every architecture.
    """
    for name, tensor in header.tensors.items():
        if tensor.type.integer:
            if name != "d2t" and _INDICES not in name:
                _no_integers(findings, tensor)
            continue
        vector = len(tensor.shape) == 1 and name != _MATRIX_OF_ONE_ROW
        single = vector or name.endswith(_ELEMENTWISE)
        if tensor.type.name == "F32" if single else tensor.type.name not in _NO_PRODUCT:
            continue
        findings.add(
            "P306",
            f"tensor `{name}` is stored as {tensor.type.name}: the engine cannot compute with it",
            place=f"{tensor.file}: {name} at byte {tensor.at}",
            expected="F32" if single else "a type that matrices are stored in, such as F16 or Q8_0",
            found=tensor.type.name,
            hint="convert the model again with a current llama.cpp",
        )


def _no_integers(findings: Findings, tensor: Tensor) -> None:
    findings.add(
        "P306",
        f"tensor `{tensor.name}` stores weights as integers",
        place=f"{tensor.file}: {tensor.name} at byte {tensor.at}",
        expected="a floating-point or quantised type",
        found=tensor.type.name,
        hint="the engine ends its process on this: convert the model again",
    )


def known_tensors(dimensions: Dimensions) -> bool:
    """Whether `check_model_tensors` knows every tensor of such a model, or what all share."""
    return dimensions.architecture in _RECIPES and dimensions.uniform


def check_model_tensors(reader: Reader, dimensions: Dimensions, vocabulary: int) -> None:
    """Check a whole model's tensors against its architecture's recipe."""
    header, findings = reader.header, reader.findings
    embedding: Layout = {"token_embd.weight": (dimensions.width, vocabulary)}
    recipe = _RECIPES.get(dimensions.architecture)
    if recipe is not None:
        require_sizes(reader, dimensions.architecture)
    if recipe is None or not known_tensors(dimensions):
        check_tensors(findings, header, embedding)
        _check_blocks(findings, header, dimensions.layers)
    else:
        required = embedding | {"output_norm.weight": (dimensions.width,)}
        required |= recipe(reader, dimensions)
        check_tensors(findings, header, required, {"output.weight": (dimensions.width, vocabulary)})
    check_storage(findings, header)
    if dimensions.nextn and dimensions.architecture not in _NEXTN_IN_RECIPE:
        _check_nextn(reader, dimensions)


def require_sizes(reader: Reader, architecture: str) -> None:
    """Find what the graphs that are known here cannot do without."""
    for name in ("feed_forward_length", "attention.layer_norm_rms_epsilon"):
        key = f"{architecture}.{name}"
        if key not in reader.header.values:
            reader.missing(key)


def _check_blocks(findings: Findings, header: Header, layers: int) -> None:
    present = {int(match[1]) for name in header.tensors if (match := _BLOCK.match(name))}
    missing = next((index for index in range(layers) if index not in present), None)
    if missing is not None:
        findings.add(
            "P305",
            f"no tensor of block {missing}: nothing named `blk.{missing}.*`",
            place=header.name,
            expected=f"tensors of {layers} blocks",
            found=f"tensors of {len(present)} blocks",
            hint="the file is incomplete, or its block count is another model's",
        )


def _check_nextn(reader: Reader, dimensions: Dimensions) -> None:
    key = f"{dimensions.architecture}.nextn_predict_layers"
    for index in range(dimensions.layers - dimensions.nextn, dimensions.layers):
        if not any(name.startswith(f"blk.{index}.nextn.") for name in reader.header.tensors):
            reader.out_of_range(
                key,
                f"`{key}` is {dimensions.nextn}, but block {index} has no `nextn` tensors",
                expected=f"`blk.{index}.nextn.eh_proj.weight` and its companions",
                found="none",
            )


def attention(header: Header, block: int, width: int, d: Dimensions, query: int = 1) -> Layout:
    """Attention projections of one block; `query` is 2 where a gate is fused into the query."""
    heads, kv_heads = _one(d.heads), _one(d.kv_heads)
    sizes = {
        "q": heads * d.key_length * query,
        "k": kv_heads * d.key_length,
        "v": kv_heads * d.value_length,
    }
    name = f"blk.{block}.attn_"
    out: Layout = {f"{name}output.weight": (heads * d.key_length, d.width)}
    if f"{name}qkv.weight" in header.tensors:
        return out | {f"{name}qkv.weight": (width, sum(sizes.values()))}
    return out | {f"{name}{part}.weight": (width, size) for part, size in sizes.items()}


def feed_forward(block: int, d: Dimensions) -> Layout:
    """The gated feed-forward tensors of one block."""
    inner = _one(d.feed_forward)
    return {
        f"blk.{block}.ffn_gate.weight": (d.width, inner),
        f"blk.{block}.ffn_up.weight": (d.width, inner),
        f"blk.{block}.ffn_down.weight": (inner, d.width),
    }


def vectors(block: int, length: int, names: Iterable[str]) -> Layout:
    """One-dimensional weights of one block."""
    return {f"blk.{block}.{name}.weight": (length,) for name in names}


def _one(size: int | list[int] | None) -> int:
    assert isinstance(size, int), "recipes are for uniform models"  # noqa: S101
    return size


def _dense(norms: tuple[str, ...], head_norms: tuple[str, ...] = ()) -> _Recipe:
    def recipe(reader: Reader, d: Dimensions) -> Layout:
        out: Layout = {}
        for block in range(d.layers - d.nextn):
            out |= vectors(block, d.width, norms)
            out |= vectors(block, d.key_length, head_norms)
            out |= attention(reader.header, block, d.width, d)
            out |= feed_forward(block, d)
        return out

    return recipe


def _qwen35(reader: Reader, d: Dimensions) -> Layout:
    """The hybrid of gated delta-net and attention blocks, and its prediction blocks."""
    trunk = d.layers - d.nextn
    recurrent = recurrent_blocks(reader, d, trunk)
    sizes = {
        name: reader.integer(f"qwen35.ssm.{name}", 1, 1 << 20, required=True)
        for name in ("conv_kernel", "state_size", "time_step_rank", "group_count", "inner_size")
    }
    _check_delta_net(reader, sizes)
    out: Layout = {}
    for block in range(d.layers):
        out |= vectors(block, d.width, ("attn_norm", "post_attention_norm"))
        out |= feed_forward(block, d)
        if block in recurrent:
            if None not in sizes.values():
                out |= _delta_net(block, d.width, {k: v or 0 for k, v in sizes.items()})
        else:
            out |= attention(reader.header, block, d.width, d, query=2)
            out |= vectors(block, d.key_length, ("attn_q_norm", "attn_k_norm"))
        if block >= trunk:
            out |= prediction_block(block, d.width)
    return out


def recurrent_blocks(reader: Reader, d: Dimensions, trunk: int) -> set[int]:
    """Blocks of a Qwen3.5 model that have a recurrent state in place of attention."""
    flags = reader.flags(f"{d.architecture}.attention.recurrent_layers")
    if flags is not None:
        return {index for index, flag in enumerate(flags[: d.layers]) if flag}
    key = f"{d.architecture}.full_attention_interval"
    interval = reader.integer(key, 1, 512, default=4) or 4
    return {index for index in range(trunk) if (index + 1) % interval}


def _check_delta_net(reader: Reader, sizes: Mapping[str, int | None]) -> None:
    """The engine asserts that value heads fill the inner size and share the key heads evenly."""
    state, rank = sizes["state_size"], sizes["time_step_rank"]
    groups, inner = sizes["group_count"], sizes["inner_size"]
    if state is None or rank is None or groups is None or inner is None:
        return
    if inner != state * rank:
        key = "qwen35.ssm.inner_size"
        message = f"`{key}` is not the state size times the time step rank"
        reader.out_of_range(key, message, expected=state * rank, found=inner)
    if rank % groups:
        key = "qwen35.ssm.group_count"
        message = f"`{key}` does not divide the time step rank"
        reader.out_of_range(key, message, expected=f"a divisor of {rank}", found=groups)


def _delta_net(block: int, width: int, sizes: Mapping[str, int]) -> Layout:
    state, rank = sizes["state_size"], sizes["time_step_rank"]
    values = state * rank
    mixed = 2 * state * sizes["group_count"] + values
    name = f"blk.{block}."
    return {
        f"{name}attn_qkv.weight": (width, mixed),
        f"{name}attn_gate.weight": (width, values),
        f"{name}ssm_conv1d.weight": (sizes["conv_kernel"], mixed),
        f"{name}ssm_dt.bias": (rank,),
        f"{name}ssm_a": (rank,),
        f"{name}ssm_beta.weight": (width, rank),
        f"{name}ssm_alpha.weight": (width, rank),
        f"{name}ssm_norm.weight": (state,),
        f"{name}ssm_out.weight": (values, width),
    }


def prediction_block(block: int, width: int) -> Layout:
    """What makes a block a native prediction (MTP) block."""
    return {f"blk.{block}.nextn.eh_proj.weight": (2 * width, width)} | vectors(
        block, width, ("nextn.enorm", "nextn.hnorm")
    )


def _shown(shape: Shape) -> str:
    return " x ".join(map(str, shape))


_Recipe = Callable[[Reader, Dimensions], Layout]
_PLAIN = ("attn_norm", "ffn_norm")
_HEAD_NORMS = ("attn_q_norm", "attn_k_norm")
_RECIPES: dict[str, _Recipe] = {
    "llama": _dense(_PLAIN),
    "qwen2": _dense(_PLAIN),
    "qwen3": _dense(_PLAIN, _HEAD_NORMS),
    "gemma3": _dense((*_PLAIN, "post_attention_norm", "post_ffw_norm"), _HEAD_NORMS),
    "qwen35": _qwen35,
}
KNOWN_ARCHITECTURES = frozenset(_RECIPES)
"""Those whose tensors are known one by one, where all layers are alike."""
_NEXTN_IN_RECIPE = frozenset({"qwen35"})
