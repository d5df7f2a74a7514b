"""Whether a request may run under a plan, before the engine hears of it."""

from __future__ import annotations

from power.diagnostics import fail
from power.plan.model import Sampling
from power.runner.types import Request

MAX_SEED = 2**32 - 2  # the next one tells the engine to draw a seed of its own
MAX_STOPS = 16
MAX_STOP_BYTES = 1024


def check_request(request: Request, sampling: Sampling) -> None:
    """Refuse (P512, P513, P515) what no engine needs to see."""
    if not request.text:
        fail("P513", "the prompt is empty", hint="give a prompt")
    _check_text(request.text, "prompt")
    _check_limit(request.max_tokens, sampling.max_tokens)
    if request.seed is not None and not 0 <= request.seed <= MAX_SEED:
        fail(
            "P515",
            "the seed is out of range",
            expected=f"0 to {MAX_SEED}",
            found=request.seed,
            hint="choose a seed in this range",
        )
    if len(request.stop) > MAX_STOPS:
        fail(
            "P515",
            "there are too many stop sequences",
            expected=f"at most {MAX_STOPS}",
            found=len(request.stop),
            hint="give fewer",
        )
    for stop in request.stop:
        _check_text(stop, "stop sequence")
        if not 0 < len(stop.encode()) <= MAX_STOP_BYTES:
            fail(
                "P515",
                "a stop sequence is empty or too long",
                expected=f"1 to {MAX_STOP_BYTES} bytes",
                found=f"{len(stop.encode())} bytes",
                hint="leave it out or shorten it",
            )


def _check_limit(asked: int | None, planned: int) -> None:
    if asked is None or 1 <= asked <= planned:
        return
    fail(
        "P512",
        f"the request asks for {asked} tokens, the plan allows 1 to {planned}",
        expected=f"1 to {planned}",
        found=asked,
        hint="ask for at least one token"
        if asked < 1
        else "ask for less, or raise `sampling.max_tokens` and compile again",
    )


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        fail(
            "P515",
            f"the {what} is not valid Unicode",
            place=f"character {error.start}",
            found=f"the lone surrogate U+{ord(text[error.start]):04X}",
            hint="give text that can be written as UTF-8",
        )
