"""What a run checks again before anything native sees a byte: the artifacts of the plan.

The bytes that are hashed are sealed copies, and these copies are what the engine
is given: a file that changes on disk afterwards changes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from power.artifact.available import available_memory
from power.artifact.closing import Closing
from power.artifact.facts import HeaderFacts, PairFacts
from power.artifact.header import Header
from power.artifact.sealing import SealedFile, seal_files
from power.artifact.values import int64_items
from power.diagnostics import Diagnostic, PowerError
from power.plan.artifacts import Headers, Pinned, Progress, check_digests, headers_of, opened
from power.plan.host import may_offload
from power.plan.judge import Judged, judge, judge_native
from power.plan.memory import estimate, require_room
from power.plan.model import Plan


@dataclass(frozen=True, slots=True)
class VerifiedArtifacts(Closing):
    """Sealed files of a plan's artifacts, in shard order; a context manager that closes them.

    `draft` is empty without one; `target_header` is the target's, of all shards.
    reduced_vocabulary: the token ids that the draft's head can propose, where the
    plan has it project fewer rows than the vocabulary (FR), else None.
    """

    target: tuple[SealedFile, ...]
    draft: tuple[SealedFile, ...]
    target_header: Header
    reduced_vocabulary: Container[int] | None = None

    def close(self) -> None:
        """Give the memory back, once no process maps the files."""
        for file in (*self.target, *self.draft):
            file.close()


def open_verified(
    plan: Plan, lock_path: Path, roots: Sequence[Path], progress: Progress | None = None
) -> VerifiedArtifacts:
    """The artifacts of `plan`, found below the lock file's folder or `roots`, sealed and checked.

    progress: (bytes copied and hashed, bytes in all).
    Raises PowerError: P22x a file cannot be found or opened, P444 a size and P231
    a digest is not the plan's, P445 a header fact or a contract is not, P20x and
    P3xx a header cannot be judged at all, P233 and P234 no sealed memory, P448 no
    room beside it for what the plan takes. Nothing stays open then.
    """
    artifacts: list[tuple[str, Pinned]] = [("target", plan.target)]
    if plan.draft is not None:
        artifacts.append(("draft", plan.draft))
    with opened(artifacts, [lock_path.parent, *roots]) as pinned:
        sealed = seal_files([p.file for p in pinned], progress)
        try:
            check_digests(pinned, [file.sha256 for file in sealed])
            whose = [p.whose for p in pinned]
            headers = headers_of(list(zip(whose, sealed, strict=True)))
            _check_headers(plan, headers)
            if not may_offload(plan):
                memory = estimate(plan, headers.target, headers.draft)
                require_room(memory, available_memory())
        except BaseException:
            for file in sealed:
                file.close()
            raise
    count = whose.count("target")
    reduced = _reduced_vocabulary(plan, headers.draft)
    return VerifiedArtifacts(sealed[:count], sealed[count:], headers.target, reduced)


def _reduced_vocabulary(plan: Plan, draft: Header | None) -> Container[int] | None:
    spec = plan.speculation
    if spec.fr_rule == "prefix" and spec.spec_mtp_fr_vocab_size is not None:
        return range(spec.spec_mtp_fr_vocab_size)
    if spec.fr_rule == "d2t" and draft is not None:
        return frozenset(int(token) for token in int64_items(draft.contents["d2t"]))
    return None


def _check_headers(plan: Plan, headers: Headers) -> None:
    kind = None if plan.draft is None else plan.draft.kind
    judged = judge(headers.target, headers.draft, kind)
    if plan.speculation.strategy == "mtp":
        judge_native(headers.target)
    problems = tuple(_differences(plan, judged))
    if problems:
        raise PowerError(problems)


def _differences(plan: Plan, judged: Judged) -> Iterator[Diagnostic]:
    """P445 for each fact of the plan that the sealed bytes do not state."""
    yield from _compare("target.header", plan.target.header.model_dump(), _facts(judged.target))
    if plan.draft is not None and judged.draft is not None:
        draft = judged.draft
        if plan.draft.header is not None and draft.header is not None:
            stated = plan.draft.header.model_dump()
            yield from _compare("draft.header", stated, _facts(draft.header))
        contract = plan.draft.contract.model_dump()
        yield from _compare("draft.contract", contract, _contract(draft.pair))
    stated = plan.speculation.model_dump()
    found = dict(stated)
    if plan.speculation.rollback is not None:
        found["rollback"] = "snapshots" if judged.target.recurrent else "trim"
    if plan.speculation.fr_rule == "d2t" and judged.draft is not None:
        found["fr_sha256"] = judged.draft.d2t_sha256
    yield from _compare("speculation", stated, found)


def _facts(facts: HeaderFacts) -> dict[str, Any]:
    return asdict(facts)


def _contract(pair: PairFacts) -> dict[str, Any]:
    return asdict(pair) | {"notes": list(pair.notes)}


def _compare(table: str, expected: dict[str, Any], found: dict[str, Any]) -> Iterator[Diagnostic]:
    for key, value in expected.items():
        if found[key] != value:
            yield Diagnostic(
                code="P445",
                message=f"`{table}.{key}` is not what the file says",
                expected="absent" if value is None else str(value),
                found="absent" if found[key] is None else str(found[key]),
                hint="compile the manifest again, with the Power that is to run it",
            )
