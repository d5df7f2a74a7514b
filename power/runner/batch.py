"""Many prompts on one loaded engine, an answer a line; a killed batch goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from power.diagnostics import PowerError, fail
from power.plan.model import Plan
from power.runner.answers import Answers
from power.runner.digests import token_ids_sha256
from power.runner.literal import Rendered
from power.runner.prompts import Prompt, located, read_prompts
from power.runner.types import Request, RunRecord
from power.speculation.outcome import Finish

Chat = Callable[[Sequence[Mapping[str, Any]]], Rendered]


class Generator(Protocol):
    """What a batch needs of `power.runner.runner.Runner`."""

    @property
    def plan(self) -> Plan:
        """The plan that it runs."""
        ...

    def generate(self, request: Request) -> RunRecord:
        """Run one request to its end."""
        ...


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """total: prompts of the file. resumed: answered before; answered: now."""

    total: int
    resumed: int
    answered: int
    cancelled: bool


def run_batch(  # noqa: PLR0913 - the parts of a batch
    runner: Generator,
    prompts: Path,
    out: Path,
    *,
    chat: Chat | None = None,
    control: bool = False,
    progress: Callable[[int, int], None] | None = None,
    on_record: Callable[[Prompt, Request, RunRecord], None] | None = None,
) -> BatchSummary:
    """Answer every prompt of the JSON Lines file `prompts` in `out`, in order.

    Prompts that an earlier run of the same batch has answered are left out. An
    answer is on the disk before the next request starts; a cancelled request
    ends the batch and has no answer.

    chat: renders `messages`; without it such a prompt is refused.
    progress: gets (answered, total), also once at the start.
    on_record: called before the answer is written, so that whatever it leaves
    behind (a receipt) is there for every answer; after a kill it may be called
    again for the same prompt.
    Raises PowerError: P57x for the two files, else as `Runner.generate`, with the
    prompt's line as its place.
    """
    plan = runner.plan
    if _same_file(prompts, out):
        fail(
            "P573", "the prompts and the answers are one file", place=str(out), hint="name another"
        )
    asked = read_prompts(prompts, plan.sampling, chat=chat is not None and plan.target.header.chats)
    binding = {"plan_sha256": plan.lock.plan_sha256, "control": control}
    with Answers(out, asked, binding) as answers:
        resumed = answers.finished
        for prompt in asked[resumed:]:
            if progress is not None:
                progress(answers.finished, len(asked))
            try:
                request = prompt.request(rendered_line(prompt, chat), control=control)
                record = runner.generate(request)
            except PowerError as error:
                raise located(error, prompts, prompt.line) from error
            if record.finish == Finish.CANCELLED:
                return BatchSummary(len(asked), resumed, answers.finished - resumed, cancelled=True)
            if on_record is not None:
                on_record(prompt, request, record)
            answers.append(prompt, answer(request, record))
        if progress is not None:
            progress(len(asked), len(asked))
        return BatchSummary(len(asked), resumed, answers.finished - resumed, cancelled=False)


def _same_file(prompts: Path, out: Path) -> bool:
    try:
        return prompts.samefile(out)
    except OSError:  # one of them is not there
        return False


def rendered_line(prompt: Prompt, chat: Chat | None) -> Rendered:
    """The prompt's own text, or its messages through `chat`."""
    if prompt.messages is None:
        return Rendered(prompt.text or "")
    if chat is None:
        raise ValueError("`messages` without a chat template were let through")
    return chat(prompt.messages)


def answer(request: Request, record: RunRecord) -> dict[str, Any]:
    """What a line of the answers says of one run. Times are integer microseconds."""
    return {
        "prompt_sha256": hashlib.sha256(request.text.encode()).hexdigest(),
        "text": record.text.decode("utf-8", "replace"),
        "text_sha256": hashlib.sha256(record.text).hexdigest(),
        "ids_sha256": token_ids_sha256(record.ids),
        "prompt_tokens": len(record.prompt_ids),
        "tokens": len(record.ids),
        "finish": record.finish,
        "strategy": record.strategy,
        "seed": record.seed,
        "max_tokens": record.max_tokens,
        "rounds": record.counters["rounds"],
        "drafted": record.counters["drafted"],
        "accepted": record.counters["accepted"],
        "wall_us": record.wall_us,
        "first_token_us": record.first_token_us,
        "first_tokens": record.first_tokens,
        "phases_us": record.phases_us,
    }
