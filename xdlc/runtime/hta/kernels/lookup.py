"""``lookup``: each stored integer through a table, which may differ along the axes.

Constant ``table`` has a row per choice and a column per stored integer of the input.  Constant ``choice``
says which row is taken where, and broadcasts to the input's shape; without it there is one row.
"""

from __future__ import annotations

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import count_of, is_unsigned


@kernel("lookup")
def lookup(step: Step) -> Run:
    """Look up one buffer in a table."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if not is_unsigned(source) or source.shape != target.shape:
        step.fail(f"cannot look up {source.dtype}{list(source.shape)} for {target.dtype}{list(target.shape)}")
    table = step.constant("table", target.dtype.name)
    if table.ndim != 2 or table.shape[1] != count_of(source) or not table.shape[0]:
        step.fail(f"has a table {list(table.shape)}, should have {count_of(source)} columns")
    if table.shape[0] == 1:
        only = table[0]

        def run() -> None:
            only.take(source, out=target, mode="clip")

        return run
    return _chosen(step, table)


def _chosen(step: Step, table: object) -> Run:
    import numpy as np

    (source,), (target,) = step.inputs, step.outputs
    held = np.asarray(table)
    choice = step.constant("choice", "int32")
    if choice.size and (choice.min() < 0 or choice.max() >= held.shape[0]):
        step.fail(f"chooses rows {choice.min()} to {choice.max()} of a table of {held.shape[0]}")
    try:
        start = np.broadcast_to(choice.astype(np.int64) * held.shape[1], source.shape)
    except ValueError:
        step.fail(f"has choices {list(choice.shape)} for an input {list(source.shape)}")
    flat = held.reshape(-1)

    def run() -> None:
        flat.take(start + source, out=target, mode="clip")

    return run
