"""What a run of a plan will hold in memory, estimated from the headers.

At compile it is for a person; a run that cannot have it is refused before it
loads. The engine's work buffers and repacked weights come on top of it: what a
run really held is in its receipt (`peak_rss_bytes`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from power.artifact.header import Header
from power.artifact.memory import footprint
from power.diagnostics import fail
from power.plan.model import Draft, Plan, Target

_CELL_STEP = 256  # llama.cpp rounds the cells of a context up to it
_F32 = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by what holds them; `draft_weights` and `draft_cache` are 0 without a draft.

    cache: keys and values of the target's context. state: its recurrent state.
    snapshots: the further states that it can go back to, and the saved one that a
    replay starts from. draft_head: the rows of a native head that are projected
    outside of the engine (FR). logits: rows of one pass.
    """

    weights: int
    draft_weights: int
    cache: int
    state: int
    snapshots: int
    draft_cache: int
    draft_head: int
    logits: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(asdict(self).values())

    @property
    def beside_weights(self) -> int:
        """What is still to be taken when the artifacts are in memory."""
        return self.total - self.weights - self.draft_weights

    def text(self) -> str:
        """For a person, on one line: the sum, then each part that there is."""
        parts = [
            f"{name.replace('_', ' ')} {_mebibytes(value)}"
            for name, value in asdict(self).items()
            if value
        ]
        return f"about {_mebibytes(self.total)}: {', '.join(parts)}"


_LOWER = {
    "cache": "`graph.context`",
    "draft_cache": "`graph.context`",
    "snapshots": "`spec_mtp_recurrent_snapshots`",
    "draft_head": "`spec_mtp_fr_vocab_size`",
    "logits": "`spec_draft_max`",
}
"""Part -> the key that it grows with."""


def require_room(memory: Memory | None, free: int | None) -> None:
    """Return when `free` bytes have room for what comes beside the artifacts, already in memory.

    None: nobody knows, and the engine has to say. The estimate is short of what a
    run takes, so one that does not fit cannot run. Raises PowerError P448.
    """
    if memory is None or free is None or memory.beside_weights <= free:
        return
    parts = {key: size for key, size in asdict(memory).items() if key in _LOWER}
    largest = max(parts, key=parts.__getitem__)
    fail(
        "P448",
        "this host has not enough memory for the plan, beside the artifacts",
        expected=f"{_mebibytes(memory.beside_weights)} free; in all {memory.text()}",
        found=f"{_mebibytes(free)} free",
        hint=f"lower {_LOWER[largest]} and compile again, or close other programs",
    )


def estimate(plan: Plan, target: Header, draft: Header | None) -> Memory | None:
    """The estimate for `plan`, whose artifacts have these headers; None when it cannot be made."""
    own = footprint(target)
    table = plan.draft is not None and plan.draft.header is None
    model = None if table else draft
    other = None if model is None else footprint(model)
    if own is None or (model is not None and other is None):
        return None
    spec = plan.speculation
    width = spec.spec_draft_max or 0
    rows = plan.graph.rows or width + 1
    snapshots = (spec.effective_snapshots or 0) if spec.rollback == "snapshots" else 0
    replays = 1 if 0 < snapshots < width else 0
    cells = _rounded(plan.graph.context + rows)
    drafted = own.prediction_cell if spec.strategy == "mtp" else 0
    drafted = drafted if other is None else other.cell
    return Memory(
        weights=_size(plan.target),
        draft_weights=0 if plan.draft is None else _size(plan.draft),
        cache=own.cell * cells,
        state=own.state,
        snapshots=own.state * (snapshots + replays),
        draft_cache=drafted * _rounded(plan.graph.context + width + 1),
        draft_head=_reduced_native_head(plan),
        logits=rows * plan.target.header.vocabulary * _F32,
    )


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


def _size(artifact: Target | Draft) -> int:
    if artifact.shards is None:
        return artifact.bytes
    return sum(shard.bytes for shard in artifact.shards)


def _reduced_native_head(plan: Plan) -> int:
    spec = plan.speculation
    if spec.strategy != "mtp" or spec.spec_mtp_fr_vocab_size is None:
        return 0
    return spec.spec_mtp_fr_vocab_size * plan.target.header.width * _F32


def _rounded(cells: int) -> int:
    return -(-cells // _CELL_STEP) * _CELL_STEP
