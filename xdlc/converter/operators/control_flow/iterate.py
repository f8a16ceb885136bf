"""Chooses how a loop is written: its iterations one after the other, or as a ``While``."""

from __future__ import annotations

from xdlc.converter.operators.control_flow.interface import Importer
from xdlc.converter.operators.control_flow.repeat import Repeat
from xdlc.converter.operators.control_flow.unroll import unrolled
from xdlc.converter.operators.control_flow.while_loop import looped
from xdlc.converter.values import AnyValue


def iterated(importer: Importer, loop: Repeat) -> list[AnyValue]:
    """Return the final states and the scan outputs.

    Raises:
        UnsupportedOp: If a state is a sequence or an optional and the loop cannot be unrolled.
    """
    results = unrolled(importer, loop)
    if results is not None:
        return results
    if loop.holds_tensors:
        return looped(importer, loop)
    raise loop.node.problem(
        "a state is a sequence or an optional, which a DLC cannot hold, and the loop cannot be unrolled: "
        "its length is not known, or too large",
        "keep the state in a tensor, for instance as a scan output, or make the length constant",
    )
