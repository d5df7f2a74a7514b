"""The request of a receipt, recovered from what the verifier has: a prompt, or a batch's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from power.artifact.header import Header
from power.cli.console import Report, Verb
from power.cli.prompt import PromptOptions, read_prompt, rendered
from power.plan.model import Plan
from power.receipt.predicate import RequestPart
from power.receipt.replay import find_request, recover_request
from power.runner.chat import render_for_header
from power.runner.prompts import Prompt, read_prompts
from power.runner.types import Request


def finder(
    verb: Verb, plan: Plan, asked: RequestPart, options: PromptOptions, prompts: Path | None
) -> Callable[[Header], Request]:
    """What gives the signed request, once there is a header to render chats with.

    Raises PowerError: P57x for the prompts, else as `read_prompt`; the result
    raises P640 when the verifier's prompt is not the receipt's.
    """
    if prompts is None:
        text = read_prompt(options)
        return lambda header: recover_request(asked, rendered(header, text, options), options.stop)
    lines = read_prompts(prompts, plan.sampling, chat=True)

    def find(header: Header) -> Request:
        with verb.progress("finding the prompt") as progress:
            counted = lines if progress is None else _counted(lines, progress)
            return find_request(asked, counted, lambda said: render_for_header(header, said))

    return find


def _counted(lines: Sequence[Prompt], progress: Report) -> Iterator[Prompt]:
    for number, line in enumerate(lines):
        progress(number, len(lines))
        yield line
