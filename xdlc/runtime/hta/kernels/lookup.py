"""``lookup``: each stored integer through a table, which may differ along the axes.

Constant ``table`` has a row per choice and a column per stored integer of the input, which broadcasts to the
output's shape.  Constant ``choice`` says which row is taken where, and broadcasts to that shape too; without
it there is one row.
"""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.registry import Run, Step, kernel
from xdlc.runtime.hta.stored import broadcast, count_of, is_unsigned

Array = Any  # numpy.ndarray


@kernel("lookup")
def lookup(step: Step) -> Run:
    """Look up one buffer in a table."""
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if not is_unsigned(source):
        step.fail(f"cannot look up {source.dtype}")
    table = step.constant("table", target.dtype.name)
    if table.ndim != 2 or table.shape[1] != count_of(source) or not table.shape[0]:
        step.fail(f"has a table {list(table.shape)}, should have {count_of(source)} columns")
    if table.shape[0] > 1:
        return _chosen(step, table)
    only, (spread,) = table[0], broadcast(step, [source])

    def run() -> None:
        only.take(spread, out=target, mode="clip")

    return run


def _chosen(step: Step, table: Array) -> Run:
    import numpy as np

    choice = step.constant("choice", "int32")
    if choice.size and (choice.min() < 0 or choice.max() >= table.shape[0]):
        step.fail(f"chooses rows {choice.min()} to {choice.max()} of a table of {table.shape[0]}")
    spread, start = broadcast(step, [step.inputs[0], choice.astype(np.int64) * table.shape[1]])
    flat, (target,) = table.reshape(-1), step.outputs

    def run() -> None:
        flat.take(start + spread, out=target, mode="clip")

    return run
