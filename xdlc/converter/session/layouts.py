"""Layout pre-pass: the channel-first values of the source that can be channel-last from the start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SOURCE, ANY, CHANNEL_LAST = "source", "any", "channel_last"
"""Layouts in which an importer works: the source's, that of its inputs, or channels last."""


def wants_channel_last(nodes: Iterable[tuple[str, Sequence[str], Sequence[str]]]) -> set[str]:
    """Return the values that reach a channel-last op through ops of any layout.

    Args:
        nodes: Layout of the importer, names of the inputs and names of the outputs of each node of one
            graph, producers first.
    """
    wanted: set[str] = set()
    for layout, inputs, outputs in reversed(list(nodes)):
        if layout == CHANNEL_LAST:
            wanted.add(inputs[0])
        if layout == ANY and any(name in wanted for name in outputs):
            wanted.update(name for name in inputs if name)
    return wanted
