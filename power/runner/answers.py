"""The file of answers that a batch writes: appended line by line, and gone on with after a kill.

The lines are always the answers to the first prompts, in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

from power.artifact.closing import Closing
from power.diagnostics import Span, fail
from power.runner.line_file import LineFile, Words
from power.runner.prompts import Prompt

SCHEMA = "power.batch.v1"
_WORDS = Words("answers file", "batch", "--out", damaged="P572", unwritable="P573")


class Answers(Closing):
    """The answers file of one batch, locked while it is open.

    Entering reads what an earlier run has finished (`finished` lines), cuts off
    a torn last line, and refuses (P571) lines that answer other prompts or come
    from another plan, (P572) lines that are damaged, (P573) a file that cannot
    be written or that another process writes. A refused file is left as it was.
    """

    def __init__(self, path: Path, prompts: Sequence[Prompt], binding: Mapping[str, Any]) -> None:
        self.finished = 0
        self._file = LineFile(path, SCHEMA, _WORDS, self._take)
        self._prompts = prompts
        self._binding = binding  # what every line has to hold: the plan's digest, control or not

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def close(self) -> None:
        """Give the file free."""
        self._file.close()

    def append(self, prompt: Prompt, answer: Mapping[str, Any]) -> None:
        """Write the answer to the next prompt and see it on the disk. Raises PowerError P573."""
        asked = {"id": prompt.id, "request_sha256": prompt.sha256}
        self._file.append({**asked, **self._binding, **answer})
        self.finished += 1

    def _take(self, number: int, found: Mapping[str, Any]) -> None:
        """Refuse a line that is not the answer to the next prompt under this plan."""
        if self.finished >= len(self._prompts):
            self._refuse_foreign(number, "answers no prompt", f"{len(self._prompts)} lines", None)
        prompt = self._prompts[self.finished]
        expected = {"id": prompt.id, "request_sha256": prompt.sha256, **self._binding}
        for key, value in expected.items():
            if found.get(key) != value:
                self._refuse_foreign(number, f"has another `{key}`", value, found.get(key))
        if not _fits_digest(found):
            self._file.refuse_damaged(number)
        self.finished += 1

    def _refuse_foreign(self, line: int, how: str, expected: object, found: object) -> NoReturn:
        fail(
            "P571",
            f"the answers file belongs to another batch: line {line} {how}",
            spans=(Span(str(self._file.path), line, 1),),
            expected=expected,
            found=found,
            hint="give another `--out`, or the prompts and the plan that this file began with",
        )


def _fits_digest(answer: Mapping[str, Any]) -> bool:
    """Whether the answer's text is the one that was digested, as far as text can tell.

    U+FFFD in it may stand for bytes that are no UTF-8, which only the digest knows.
    """
    text = answer.get("text")
    if not isinstance(text, str):
        return False
    if "\ufffd" in text:
        return True
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return bool(digest == answer.get("text_sha256"))
