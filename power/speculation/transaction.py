"""The checkpoints of one round: all or nothing for target, proposer, sampler and text."""

from __future__ import annotations

from typing import Protocol

from power.speculation.decoder import Decoder
from power.speculation.protocols import Proposer, Sampler, Target


class _Stateful(Protocol):
    def checkpoint(self) -> object: ...

    def restore(self, checkpoint: object) -> None: ...


class Transaction:
    """Opened before a round touches anything, closed once its text is out."""

    __slots__ = ("_members", "_saved")

    def __init__(
        self, target: Target, proposer: Proposer, sampler: Sampler, decoder: Decoder
    ) -> None:
        self._members: tuple[_Stateful, ...] = (target, proposer, sampler, decoder)
        self._saved: tuple[object, ...] | None = None

    @property
    def target_checkpoint(self) -> object:
        """Where a replay starts; only while the transaction is open."""
        if self._saved is None:
            raise RuntimeError("no round is open")
        return self._saved[0]

    def open(self) -> None:
        """Checkpoint every member. One that fails leaves the transaction closed."""
        target, proposer, sampler, decoder = self._members
        self._saved = (
            target.checkpoint(),
            proposer.checkpoint(),
            sampler.checkpoint(),
            decoder.checkpoint(),
        )

    def close(self) -> None:
        """The round stands: its checkpoints are no longer needed."""
        self._saved = None

    def restore(self) -> list[Exception]:
        """Return every member to its checkpoint; nothing to do between rounds.

        A member that fails does not keep the others from being restored: the
        failures are returned, in order.
        """
        failures: list[Exception] = []
        saved, self._saved = self._saved, None
        for member, checkpoint in zip(self._members, saved or (), strict=False):
            try:
                member.restore(checkpoint)
            except Exception as error:  # noqa: BLE001 - an engine may raise anything
                failures.append(error)
        return failures
