"""The table of the results, and what in it is not as it has to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tools.exactness_matrix.lab import Key, Tally

HEAD = (
    "| target | draft | strategy | head | width | shape | ids equal to the control's "
    "| accepted, greedy | accepted, sampled | replays a request, at most |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def markdown(table: Mapping[Key, Tally]) -> str:
    """One line a row."""
    lines = [HEAD]
    for key, tally in table.items():
        pair = key.pair
        native = "native head" if pair.strategy == "mtp" else "no model"
        cells = (
            pair.target,
            pair.draft or native,
            pair.strategy,
            key.head if pair.modelled else "",
            "adaptive" if key.adaptive else "fixed",
            key.shape,
            f"{tally.equal} of {tally.runs}",
            _share(tally.acceptance("greedy")),
            _share(tally.acceptance("sampled")),
            str(tally.most_replays),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "none drafted" if value is None else f"{value:.3f}"


def problems(table: Mapping[Key, Tally]) -> Iterator[str]:
    """Runs that differ from their control, and drafts of which nothing or all was accepted.

    Of an oracle everything has to be accepted, of an anti-oracle nothing. More than
    one replay of a request is one that the guard should have prevented.
    """
    for key, tally in table.items():
        pair = key.pair
        name = f"{pair.target} {pair.draft or pair.strategy} ({key.head}, {key.shape})"
        yield from (f"{name} {fork}" for fork in tally.forks)
        if tally.most_replays > 1:
            yield f"{name}: {tally.most_replays} replays in one request"
        found = tally.acceptance("greedy")
        if pair.modelled and (found is None or not 0 < found < 1):
            yield f"{name}: greedy acceptance is {_share(found)}"
        expected = {"oracle": 1.0, "anti-oracle": 0.0, "empty": None}
        if pair.strategy in expected and found != expected[pair.strategy]:
            yield f"{name}: acceptance is {_share(found)}"
