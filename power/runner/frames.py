"""Reading the worker's frames in the parent, where nothing of them is trusted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from power.diagnostics import CODES
from power.runner.messages import FromWorker, Refused
from power.runner.protocol import FrameError

_FRAME: TypeAdapter[FromWorker] = TypeAdapter(Annotated[FromWorker, Field(discriminator="type")])


def parse_frame(body: bytes) -> FromWorker:
    """The message in a frame's body; raises FrameError saying what is wrong with it."""
    try:
        message = _FRAME.validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise FrameError(f"{where or 'frame'}: {first['msg']}") from None
    if isinstance(message, Refused):
        unknown = [d.code for d in message.diagnostics if d.code not in CODES]
        if unknown or not message.diagnostics:
            raise FrameError(f"diagnostics: there is no code {unknown or 'at all'}")
    return message
