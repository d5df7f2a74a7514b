"""What a draft head's logits propose: one token, or nothing."""

from __future__ import annotations

import math

import numpy as np

from power.backends.errors import EngineError
from power.backends.llamacpp.context import Row


def most_probable(logits: Row, p_min: float) -> int | None:
    """The first token of the highest logit, float32 [tokens], or None for no proposal.

    None where its softmax probability is below `p_min` (0 to 1; 0 asks for none).
    Raises EngineError as `check_number`: a broken head would go on as a slow success.
    """
    token = int(logits.argmax())
    top = logits[token]
    check_number(top)
    if p_min > 0 and 1.0 / float(np.exp(logits - top).sum()) < p_min:
        return None
    return token


def check_number(score: float) -> None:
    """Raise EngineError, kind `logits`, where what a draft chooses by is NaN or infinite."""
    if not math.isfinite(score):
        raise EngineError("logits", "what the draft computed is no number")
