"""NaN checks of values that fixed point stores: IsNan and the ElementWiseSelect that it steers.

PyTorch exports ``where(isnan(p), 0, p)`` after the Softmax of each attention, for rows that are masked as a
whole.  A fixed-point number is never NaN, and only some generations of HTP have IsNan.
"""

from __future__ import annotations

from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor
from xdlc.quant.existing_encodings import given_bits
from xdlc.quant.placement import Placement


def drop_nan_checks(graph: Graph, placement: Placement) -> list[str]:
    """Remove the NaN checks of what is stored in fixed point, and return a note on them, if there are any.

    Args:
        graph: The float graph, which is changed.
        placement: Which of its ops are quantized; it is to be settled anew after a change.
    """
    names = []
    for op in list(graph.ops):
        source = op.inputs[0] if op.inputs else None
        if not _is_native(op, "IsNan") or source is None or not placement.is_written_fixed(source):
            continue
        flags = op.outputs[0]
        for select in graph.consumers(flags):
            if _drops(select, flags, source):
                _take_out(graph, select, source)
        if not graph.consumers(flags) and not graph.is_output(flags):
            _hand_over(op, source)
            graph.remove(op)
            names.append(op.name)
    if not names:
        return []
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return [f"NaN check {names[0]!r}{more}: removed, for fixed point holds no NaN"]


def _is_native(op: Op, kind: str) -> bool:
    return op.package == NATIVE_PACKAGE and op.type == kind


def _drops(op: Op, flags: Tensor, source: Tensor) -> bool:
    """Return whether an op gives ``source`` where no flag is set, in a form that nobody prescribed."""
    return (
        _is_native(op, "ElementWiseSelect")
        and op.inputs[0] is flags
        and op.inputs[2] is source
        and op.outputs[0].shape == source.shape
        and given_bits(op.outputs[0]) is None
    )


def _take_out(graph: Graph, select: Op, source: Tensor) -> None:
    """Give what reads the result of a Select its last input."""
    result = select.outputs[0]
    if graph.is_output(result):
        graph.replace_op(select, Op("Reshape", [source], [result], name=select.name, origin=select.origin))
        return
    _hand_over(select, source)
    graph.replace(result, source)
    graph.remove(select)


def _hand_over(op: Op, source: Tensor) -> None:
    """Add the source nodes of an op that goes to those of the op that writes ``source``."""
    if source.producer is not None:
        source.producer.origin = source.producer.origin.merged(op.origin)
