"""What goes wrong inside an engine, as one exception that crosses the worker's edge."""

from __future__ import annotations

from typing import Literal

from power.diagnostics import Diagnostic

Kind = Literal["load", "memory", "context", "decode", "logits", "grammar"]


class EngineError(Exception):
    """The engine failed at run time; the input was not at fault as far as Power can tell.

    kind: `load` the model was refused, `memory` an allocation failed, `context`
    no context could be made, `decode` an evaluation or a trim failed, `logits`
    a row to choose a token from was not finite, `grammar` no token fits the grammar any more.
    detail: what the native library said about it, one line each, or "".
    """

    def __init__(self, kind: Kind, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.detail = detail

    def __reduce__(self) -> tuple[type[EngineError], tuple[Kind, str, str]]:
        """Keep all three parts when the error is pickled out of the worker."""
        return EngineError, (self.kind, self.message, self.detail)

    def diagnostic(self) -> Diagnostic:
        """The finding to show; `found` holds the native library's words."""
        found = self.detail or None
        match self.kind:
            case "load":
                return Diagnostic("P540", self.message, found=found, hint=_LOAD)
            case "memory":
                return Diagnostic("P541", self.message, found=found, hint=_MEMORY)
            case "context":
                return Diagnostic("P542", self.message, found=found, hint=_CONTEXT)
            case "decode":
                return Diagnostic("P543", self.message, found=found, hint=_DECODE)
            case "logits":
                return Diagnostic("P544", self.message, found=found, hint=_LOGITS)
            case "grammar":
                return Diagnostic("P545", self.message, found=found, hint=_GRAMMAR)


_LOAD = "run `power inspect` on the file, then fetch it again from its source"
_MEMORY = "lower `graph.context` or `graph.prefill_batch`, or use a smaller quantisation"
_CONTEXT = "check `graph.context`, `graph.batch` and `graph.flash_attention` against the model"
_DECODE = "run the request again; if it fails at the same token, report it with this message"
_LOGITS = "the weights or the kernels produce no numbers: check the artifact and the host"
_GRAMMAR = "change the grammar so that every text it starts can be continued or ended"
