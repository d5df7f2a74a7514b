"""A recorded run: what a target said, and what a proposer would have said at every position.

A trace is recorded target-only, at the largest K that is of interest. Everything
else about a width can be computed from it (`power.evidence.simulate`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from power.diagnostics import fail
from power.evidence.parts import Count, Decimal, Hex, Part, Text, naming_schema
from power.manifest.files import UnreadableError, read_regular
from power.receipt import strict_json
from power.receipt.shape import refusal

Width = Annotated[int, Field(ge=1, le=64)]
TokenId = Annotated[int, Field(ge=0, le=2**31 - 1)]
_HINT = "give a trace that `power tune` wrote"


class TracedCosts(Part):
    """What a round costs, in passes of one row, as `[speculation.cost]` says it."""

    draft_call: Decimal
    draft_step: Decimal
    draft_prefill: Decimal | None = None
    rebuild: Decimal = "0"
    refill: Decimal = "0"
    rows: dict[Annotated[str, Field(pattern=r"^[1-9][0-9]{0,3}$")], Decimal]


class Traced(Part):
    """One request. ids: all that was emitted; of `end` the last one ended the text.

    proposals: what the proposer said before each round in which there was room for
    a proposal, from the first on, at most K tokens each; empty where no model
    proposes, because a lookup needs the text alone.
    """

    id: Text
    prompt_ids: Annotated[list[TokenId], Field(min_length=1)]
    ids: Annotated[list[TokenId], Field(min_length=1)]
    finish: Literal["end", "stop", "length", "context"]
    max_tokens: Annotated[int, Field(ge=1)]
    proposals: list[list[TokenId]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if len(self.ids) > self.max_tokens:
            raise ValueError("more tokens than were asked for")
        if self.proposals and len(self.proposals) not in {len(self.ids), len(self.ids) - 1}:
            raise ValueError("not one list of proposed tokens for each round")
        return self


class Trace(Part):
    """Requests of one plan. draft_max: K of the recording. context: cells."""

    schema_: Literal["power.trace.v1"] = Field("power.trace.v1", alias="schema")
    plan_sha256: Hex
    strategy: Text
    draft_max: Width
    context: Count
    recurrent: bool
    costs: TracedCosts | None = None
    requests: Annotated[list[Traced], Field(min_length=1)]

    @model_validator(mode="after")
    def _within(self) -> Self:
        if any(len(p) > self.draft_max for r in self.requests for p in r.proposals):
            raise ValueError("a proposal of more than `draft_max` tokens")
        return self


def trace_bytes(trace: Trace) -> bytes:
    """The trace as its file holds it: one request a line."""
    document = trace.document()
    requests = document.pop("requests")
    head = json.dumps(document, separators=(",", ":"))[:-1]
    lines = ",\n".join(json.dumps(request, separators=(",", ":")) for request in requests)
    return f'{head},"requests":[\n{lines}\n]}}\n'.encode("ascii")


def parse_trace(data: bytes, name: str) -> Trace:
    """The trace in `data`; `name` is its file's in messages.

    Raises PowerError P806 for what is no trace, all its problems at once.
    """
    try:
        return Trace.model_validate(naming_schema(strict_json.loads(data)))
    except strict_json.JSONRefusedError as error:
        fail("P806", f"the trace is not readable: {error}", place=name, hint=_HINT)
    except ValidationError as error:
        raise refusal(error, "P806", "the trace is not readable", name, _HINT) from None


def read_trace(path: Path) -> Trace:
    """The trace in the file at `path`; raises PowerError P806."""
    try:
        data = read_regular(path, strict_json.SIZE_LIMIT)
    except UnreadableError as error:
        fail("P806", f"the trace cannot be read: {error}", place=str(path), hint=_HINT)
    return parse_trace(data, str(path))
