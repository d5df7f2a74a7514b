"""The target's inner layers, as the heads that were trained on them read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from power.backends.llamacpp.context import Context, Row
from power.backends.llamacpp.extensions import extension
from power.backends.llamacpp.model import Model


class Features:
    """Inputs of some layers of the target, side by side, for every row of its last decode.

    layers: numbers of blocks, from 0, in the order that the head takes them.
    """

    def __init__(self, target: Context, layers: Sequence[int]) -> None:
        self._target = target
        self._layers = tuple(layers)
        for layer in self._layers:
            target.expose_layer_input(layer)

    def read(self, rows: int) -> Row:
        """The first `rows` rows: float32 [rows, layers * width of the target], a copy."""
        return np.concatenate(
            [self._target.layer_input(layer, rows) for layer in self._layers], axis=1
        )


def layers_of(draft: Model) -> tuple[int, ...]:
    """The layers of the target that the head `draft` was trained on, as its file names them."""
    count = extension("model_target_layer_ids_n")(draft.handle)
    ids = extension("model_target_layer_ids")(draft.handle)
    return tuple(ids[:count])
