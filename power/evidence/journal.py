"""The journal of a bench: what was planned, what the host was like, and every finished sample.

One JSON object a line, appended and synced before the next sample starts, so
that an interrupted bench goes on. The report is derived from it, and so is what
a verifier compares the report with.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from power.artifact.closing import Closing
from power.diagnostics import Span, fail
from power.evidence.parts import FileName, Hex, Name, Part
from power.evidence.preflight import Preflight
from power.runner.line_file import LineFile, Words

SCHEMA = "power.bench-journal.v1"
_WORDS = Words("journal", "bench", "-o", damaged="P803", unwritable="P804")

MAX_ARMS = 16

TokenId = Annotated[int, Field(ge=0, lt=2**31)]


def _utf8(text: str) -> str:
    text.encode()
    return text


def _base64(text: str) -> str:
    base64.b64decode(text, validate=True)
    return text


Base64 = Annotated[str, AfterValidator(_base64)]
Utf8 = Annotated[str, AfterValidator(_utf8)]
"""Text without lone surrogates, which JSON can hold and no output is."""


class ArmLine(Part):
    """One arm as it was planned."""

    name: Name
    control: bool
    plan_sha256: Hex
    lock_sha256: Hex


class TasksLine(Part):
    """The tasks that prompts were made of, and how: these decide every prompt, and more.

    chat, max_tokens: as `Questions`.
    """

    sha256: Hex
    chat: bool
    max_tokens: Annotated[int, Field(ge=1)] | None = None


class DesignLine(Part):
    """The first line: everything that decides which samples there are.

    kind: `speed` for prompts, `tasks` for scored tasks, which then are named.
    natural: a text may end before its limit of tokens.
    """

    kind: Literal["speed", "tasks"]
    arms: Annotated[list[ArmLine], Field(min_length=1, max_length=MAX_ARMS)]
    prompts_sha256: Hex
    prompts: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=1, le=1000)]
    warmup: Annotated[int, Field(ge=0, le=100)]
    natural: bool
    tasks: TasksLine | None = None

    @model_validator(mode="after")
    def _tasks_are_named(self) -> Self:
        if (self.kind == "tasks") != (self.tasks is not None):
            message = "the kind `tasks` and the tasks go together"
            raise ValueError(message)
        return self

    def owner(self, arm: ArmLine) -> str:
        """The arm under whose name the plan of `arm` is kept: arms of one plan share it."""
        return [other.name for other in self.arms if other.lock_sha256 == arm.lock_sha256][-1]


class PromptLine(Part):
    """A prompt as the chat template made it. id: the prompt's."""

    id: str
    text: Utf8


class SampleLine(Part):
    """One finished sample: which one, its receipt, and what came out.

    text: the output; instead as base64 where it is no UTF-8.
    """

    round: Annotated[int, Field(ge=1)]
    arm: Name
    prompt: str
    receipt: FileName
    receipt_id: Hex
    ids: list[TokenId]
    text: Utf8 | None = None
    text_base64: Base64 | None = None

    @model_validator(mode="after")
    def _output_is_there(self) -> Self:
        if (self.text is None) == (self.text_base64 is None):
            message = "a sample has its `text` or its `text_base64`"
            raise ValueError(message)
        return self

    @property
    def output(self) -> bytes:
        """The output text, byte for byte."""
        if self.text is not None:
            return self.text.encode()
        return base64.b64decode(self.text_base64 or "")


def output_fields(output: bytes) -> dict[str, str]:
    """`output` as the fields of a SampleLine."""
    try:
        return {"text": output.decode("utf-8")}
    except UnicodeDecodeError:
        return {"text_base64": base64.b64encode(output).decode("ascii")}


class Journal:
    """What the lines of a journal say, taken in one by one.

    rendered: id -> the prompt's text, for prompts that went through a chat template.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.design: DesignLine | None = None
        self.preflights: list[Preflight] = []
        self.rendered: dict[str, str] = {}
        self.samples: list[SampleLine] = []

    def take(self, number: int, line: Mapping[str, Any]) -> None:
        """Take in line `number`; raises PowerError P803 where no bench wrote it so."""
        kind, body = line.get("line"), line.get("body")
        try:
            match kind:
                case "design" if number == 1:
                    self.design = DesignLine.model_validate(body)
                case "preflight" if number > 1:
                    self.preflights.append(Preflight.model_validate(body))
                case "sample" if number > 1:
                    self.samples.append(SampleLine.model_validate(body))
                case "prompt" if number > 1:
                    prompt = PromptLine.model_validate(body)
                    self.rendered[prompt.id] = prompt.text
                case _:
                    self._refuse(number, f"`{kind}` is no line of a journal here")
        except ValidationError as error:
            self._refuse(number, str(error.errors(include_url=False)[0]["msg"]))

    def _refuse(self, number: int, why: str) -> NoReturn:
        fail(
            "P803",
            f"line {number} of the journal is not one that a bench wrote: {why}",
            spans=(Span(str(self.path), number, 1),),
            hint="give another `-o`; this file was left as it is",
        )


class OpenJournal(Journal, Closing):
    """A journal that is appended to, locked while it is open.

    Entering reads what is there, and refuses (P802) one of another design, (P803)
    damaged lines, (P804) a file that cannot be written or that another bench writes.
    """

    def __init__(self, path: Path, design: DesignLine) -> None:
        super().__init__(path)
        self._file = LineFile(path, SCHEMA, _WORDS, self.take)
        self._wanted = design

    def __enter__(self) -> Self:
        self._file.__enter__()
        try:
            if self.design is None:
                self._append("design", self._wanted)
            elif self.design != self._wanted:
                self._refuse_other(self.design)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Give the file free."""
        self._file.close()

    def add_preflight(self, preflight: Preflight) -> None:
        """Keep what the host was like, before any model is loaded."""
        self._append("preflight", preflight)

    def add_prompt(self, prompt: str, text: str) -> None:
        """Keep the text that the chat template made of a prompt."""
        if prompt not in self.rendered:
            self._append("prompt", PromptLine(id=prompt, text=text))

    def add_sample(self, sample: SampleLine) -> None:
        """Keep one finished sample; its receipt is on the disk already."""
        self._append("sample", sample)

    def _append(self, line: str, body: Part) -> None:
        self._file.append({"line": line, "body": body.document()})
        match body:
            case DesignLine():
                self.design = body
            case Preflight():
                self.preflights.append(body)
            case PromptLine():
                self.rendered[body.id] = body.text
            case SampleLine():
                self.samples.append(body)

    def _refuse_other(self, found: DesignLine) -> None:
        mine, theirs = self._wanted.document(), found.document()
        keys = [key for key in mine if mine[key] != theirs.get(key)]
        fail(
            "P802",
            f"the journal belongs to another bench: another {', '.join(f'`{k}`' for k in keys)}",
            place=str(self.path),
            expected="; ".join(f"{key} {json.dumps(mine[key])}" for key in keys),
            found="; ".join(f"{key} {json.dumps(theirs.get(key))}" for key in keys),
            hint="give another `-o`, or the plans, prompts and options that this bench began with",
        )


def parse_journal(data: bytes, path: Path) -> Journal:
    """A whole journal; raises PowerError P803 for a line that no bench wrote."""
    journal = Journal(path)
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            journal.take(number, {})
        else:
            journal.take(number, found)
    return journal
