"""The scheduler: one transaction a round until the request ends.

Sample-and-match: the emitted tokens are a function of the target's rows and the
sampler's state alone; a proposal only decides how many of them one pass yields.
It knows no model, no strategy and no engine, and reads no clock but the one
handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from power.speculation.controller import Controller
from power.speculation.decoder import Decoder
from power.speculation.guard import ReplayGuard
from power.speculation.outcome import Finish, Outcome, Phase, Settings
from power.speculation.protocols import Proposer, Sampler, Target, Vocabulary
from power.speculation.tally import PhaseClock, Tally
from power.speculation.transaction import Transaction

Emit = Callable[[Sequence[int], bytes], None]

# Looking a member up on its enum costs more than the call that takes it.
_PREFILL = Phase.PREFILL
_DRAFT = Phase.DRAFT
_VERIFY = Phase.VERIFY
_SAMPLE = Phase.SAMPLE
_COMMIT = Phase.COMMIT
_REPLAY = Phase.REPLAY
_DETOKENISE = Phase.DETOKENISE
_OTHER = Phase.OTHER


class PositionError(RuntimeError):
    """After a commit the target holds another number of tokens than were kept."""


class _Cancelled(Exception):  # noqa: N818 - a way out, not an error
    """The caller asked to stop."""


def generate(  # noqa: PLR0913 - the parts of one request
    *,
    prompt: Sequence[int],
    target: Target,
    proposer: Proposer,
    sampler: Sampler,
    vocabulary: Vocabulary,
    controller: Controller,
    settings: Settings,
    max_tokens: int,
    stop: Sequence[bytes],
    emit: Emit,
    cancelled: Callable[[], bool],
    clock: Callable[[], int],
    prefilled: Callable[[int], None] = lambda _: None,
) -> Outcome:
    """Run one request to its end.

    prompt: at least one token; target, proposer and sampler are fresh.
    max_tokens: >= 1, tokens to emit at most, an end-of-generation token included.
    stop: non-empty byte sequences that end generation and are cut from the text.
    emit: called once a committed round with its tokens and the bytes of text that
        can be let out (`Decoder.take`).
    cancelled: polled between chunks of the prompt and the steps of a round.
    clock: monotonic, in ns.
    prefilled: called after each chunk of the prompt with the number of tokens so far.

    An exception from any of these parts ends the request with `Finish.FAILED`:
    the round it broke is rolled back and every token emitted before is in the
    outcome. On `FAILED` and `CANCELLED` text that was still held back is in the
    outcome but was never given to `emit`. An exception that is not an
    `Exception` (KeyboardInterrupt) rolls back and is raised again.
    """
    if not prompt or max_tokens < 1:
        raise ValueError("a request needs a prompt token and room for one token")
    request = _Request(
        prompt=prompt,
        target=target,
        proposer=proposer,
        sampler=sampler,
        is_end=vocabulary.is_end,
        decoder=Decoder(vocabulary, stop),
        controller=controller,
        settings=settings,
        max_tokens=max_tokens,
        emit=emit,
        cancelled=cancelled,
        clock=PhaseClock(clock),
        prefilled=prefilled,
    )
    return request.run()


class _Request:
    """One request between its first and its last round."""

    def __init__(  # noqa: PLR0913 - the parts of one request
        self,
        *,
        prompt: Sequence[int],
        target: Target,
        proposer: Proposer,
        sampler: Sampler,
        is_end: Callable[[int], bool],
        decoder: Decoder,
        controller: Controller,
        settings: Settings,
        max_tokens: int,
        emit: Emit,
        cancelled: Callable[[], bool],
        clock: PhaseClock,
        prefilled: Callable[[int], None],
    ) -> None:
        self._prompt = prompt
        self._target = target
        self._proposer = proposer
        self._sample_row = sampler.sample
        self._is_end = is_end
        self._decoder = decoder
        self._push = decoder.push
        self._controller = controller
        self._settings = settings
        self._max_tokens = max_tokens
        self._emit = emit
        self._cancelled = cancelled
        self._prefilled = prefilled
        self._enter = clock.enter
        self._clock = clock
        self._guard = ReplayGuard(settings)
        self._tally = Tally(settings.draft_max)
        self._transaction = Transaction(target, proposer, sampler, decoder)
        self._ids: list[int] = []
        self._anchor = prompt[-1]

    def run(self) -> Outcome:
        """Generate until something ends it, and say what did."""
        error: Exception | None = None
        try:
            finish = self._generate()
        except _Cancelled:
            failures = self._rollback()
            finish = Finish.FAILED if failures else Finish.CANCELLED
            error = failures[0] if failures else None
        except Exception as raised:  # noqa: BLE001 - an engine may raise anything; it is reported
            for failure in self._rollback():
                raised.add_note(f"restoring the last committed round failed too: {failure!r}")
            finish, error = Finish.FAILED, raised
        except BaseException:
            self._rollback()
            raise
        self._enter(_OTHER)
        counters = self._tally.counters(self._guard, self._controller, self._clock)
        return Outcome(tuple(self._ids), self._decoder.text, finish, counters, error)

    def _generate(self) -> Finish:
        prompt = self._prompt
        if len(prompt) > self._settings.context:
            return Finish.CONTEXT
        self._enter(_PREFILL)
        self._target.prefill(prompt[:-1], self._taken)
        self._proposer.begin(prompt)
        self._enter(_OTHER)
        finish = None
        while finish is None:
            self._poll()
            finish = self._round()
        return finish

    def _round(self) -> Finish | None:
        """One transaction; the reason to end, or None to go on."""
        enter, poll = self._enter, self._poll
        enter(_COMMIT)
        self._transaction.open()
        enter(_OTHER)
        poll()
        proposal, width = self._propose()
        poll()
        enter(_VERIFY)
        self._target.evaluate([self._anchor, *proposal])
        enter(_OTHER)
        poll()
        emitted, accepted, finish = self._sample(proposal)
        poll()
        rejected = len(proposal) + 1 - len(emitted)
        replayed = self._commit(emitted, rejected)
        enter(_DRAFT)
        self._proposer.commit(emitted, accepted)
        enter(_OTHER)
        poll()
        finish = finish or self._exhausted(len(self._ids) + len(emitted))
        enter(_DETOKENISE)
        self._emit(emitted, self._decoder.take(final=finish is not None))
        enter(_OTHER)
        self._transaction.close()
        self._ids += emitted
        self._anchor = emitted[-1]
        drafted = len(proposal)
        self._tally.add(width=width, drafted=drafted, accepted=accepted, replayed=replayed)
        self._guard.observe(self._tally.rounds, rejected)
        self._controller.observe(self._tally.rounds, drafted, accepted, emitted)
        return finish

    def _propose(self) -> tuple[list[int], int]:
        """What to verify, and its width before the request's own ends are looked at."""
        allowed = min(self._guard.ceiling, self._settings.draft_max, self._proposer.max_width)
        proposed = self._proposed(min(allowed, self._controller.ask()))
        width = min(allowed, self._controller.width(proposed))
        return proposed[:width], width

    def _proposed(self, width: int) -> list[int]:
        """A proposal that fits: within the limit and of known tokens only."""
        wanted = self._max_tokens - len(self._ids)
        left = self._settings.context - self._position(len(self._ids))
        # One token of the request and one cell of the context belong to the
        # anchor's own row, which yields a token whatever the proposal does.
        limit = min(width, wanted - 1, left - 1)
        if limit < 1 or limit < self._settings.draft_min:
            return []
        self._enter(_DRAFT)
        proposed = self._proposer.propose(limit)
        self._enter(_OTHER)
        size = self._target.vocabulary_size
        proposal: list[int] = []
        for token in proposed:
            if len(proposal) == limit or not 0 <= token < size:
                break
            proposal.append(token)
        return proposal

    def _sample(self, proposal: Sequence[int]) -> tuple[list[int], int, Finish | None]:
        """Sample rows through the first mismatch: (emitted, accepted, end or None).

        A row behind the first mismatch, the end of generation or a completed
        stop sequence is never sampled, so the sampler advances once a token.
        """
        enter, sample, is_end, push = self._enter, self._sample_row, self._is_end, self._push
        drafted = len(proposal)
        emitted: list[int] = []
        accepted = 0
        finish = None
        for row in range(drafted + 1):
            enter(_SAMPLE)
            token = sample(row)
            enter(_DETOKENISE)
            emitted.append(token)
            matched = row < drafted and token == proposal[row]
            accepted += matched
            if is_end(token):
                finish = Finish.END
                break
            if push(token):
                finish = Finish.STOP
                break
            if not matched:
                break
        enter(_OTHER)
        return emitted, accepted, finish

    def _commit(self, emitted: Sequence[int], rejected: int) -> bool:
        """Keep the anchor and all emitted tokens but the last; True after a replay."""
        target, keep = self._target, len(emitted)
        replay = self._guard.exceeds(rejected)
        if not replay:
            self._enter(_COMMIT)
            replay = not target.commit(keep)
        if replay:
            self._enter(_REPLAY)
            target.replay(self._transaction.target_checkpoint, [self._anchor, *emitted[:-1]])
        self._enter(_OTHER)
        expected = self._position(len(self._ids) + keep)
        if target.position != expected:
            raise PositionError(f"the target holds {target.position} tokens, not {expected}")
        return replay

    def _position(self, emitted: int) -> int:
        """Committed tokens once `emitted` tokens are out: all but the anchor."""
        return len(self._prompt) - 1 + emitted

    def _exhausted(self, emitted: int) -> Finish | None:
        if emitted >= self._max_tokens:
            return Finish.LENGTH
        if self._position(emitted) >= self._settings.context:
            return Finish.CONTEXT
        return None

    def _taken(self, tokens: int) -> None:
        self._prefilled(tokens)
        self._poll()

    def _poll(self) -> None:
        if self._cancelled():
            raise _Cancelled

    def _rollback(self) -> list[Exception]:
        self._enter(_COMMIT)
        return self._transaction.restore()
