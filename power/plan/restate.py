"""The plan that a manifest gives if its artifacts are what another plan says of them.

Compiling needs the artifacts, which a reviewer and a CI often lack. All but their
header facts and the engine is a function of manifest and profile, so with those two
taken from the plan that is under review, the rest can be made again and compared: a
plan whose digest was made to fit an edit does not follow from its manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from power.artifact.facts import HeaderFacts, PairFacts
from power.manifest.merge import Effective
from power.plan.capabilities import STRATEGIES
from power.plan.compiler import DraftFacts, compile_plan
from power.plan.inputs import inputs
from power.plan.model import Draft, Header, Plan

_NO_DRAFT = "the manifest declares no draft and "


@dataclass(frozen=True, slots=True)
class _Engine:
    """The engine that a plan names, able to do whatever is asked."""

    package: str
    version: str
    llama_cpp: str
    capabilities: Mapping[str, str | None]


def restate(effective: Effective, plan: Plan) -> Plan:
    """The plan for `effective`, with the facts of artifacts and engine that `plan` states.

    Raises PowerError as `compile_plan`: with these facts the manifest does not compile.
    """
    spec = plan.speculation
    # Why `auto` found no native head is a fact of artifact or engine, and so the plan's.
    lacks = spec.reason.removeprefix(_NO_DRAFT) if spec.strategy == "off" else None
    used = effective.draft is not None and effective.requested != "off"
    return compile_plan(
        inputs(
            effective,
            target=_header(plan.target.header, recurrent=spec.rollback == "snapshots"),
            draft=_draft(effective, plan, plan.draft) if used and plan.draft else None,
            engine=_Engine(
                plan.engine.package,
                plan.engine.version,
                plan.engine.llama_cpp,
                dict.fromkeys(STRATEGIES),
            ),
            native_lacks=lacks,
        )
    )


def _draft(effective: Effective, plan: Plan, stated: Draft) -> DraftFacts | None:
    if effective.draft is None:
        return None
    spec, contract = plan.speculation, stated.contract
    return DraftFacts(
        effective.draft,
        None if stated.header is None else _header(stated.header, recurrent=False),
        PairFacts(stated.kind, contract.max_width, contract.fr_vocabulary, tuple(contract.notes)),
        spec.fr_sha256 if spec.fr_rule == "d2t" else None,
    )


def _header(stated: Header, *, recurrent: bool) -> HeaderFacts:
    return HeaderFacts(
        architecture=stated.architecture,
        file_type=stated.file_type,
        layers=stated.layers,
        width=stated.width,
        vocabulary=stated.vocabulary,
        context=stated.context,
        tokenizer_model=stated.tokenizer_model,
        pre_tokenizer=stated.pre_tokenizer,
        vocabulary_sha256=stated.vocabulary_sha256,
        chat_template_sha256=stated.chat_template_sha256,
        recurrent=recurrent,
        nextn_layers=1,  # whether there is a head at all, `native_lacks` says
    )
