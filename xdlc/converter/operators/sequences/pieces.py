"""Import of SplitToSequence and ConcatFromSequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.converter.operators.control_flow.steps import ints
from xdlc.converter.operators.protobuf import INT64
from xdlc.converter.operators.registry import ANY, structural
from xdlc.converter.operators.sequence_values import count_listed, elements_of, sequence, spend, tensor
from xdlc.converter.session.node import Node, bind_dims
from xdlc.converter.values import AnyValue, Value

if TYPE_CHECKING:
    from xdlc.converter.operators.dispatch import Operators


@structural("SplitToSequence", layout=ANY)
def import_split(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a SplitToSequence: a Split into as many pieces as are known."""
    value = tensor(node, 0)
    shape = value.dims
    axis, keeps = int(node.attr("axis", 0)), node.flag("keepdims", 1)
    if shape is None:
        raise node.problem(
            "the rank of its input is only known when the graph runs", "bind the open dimensions"
        )
    if not -len(shape) <= axis < len(shape):
        raise node.invalid(f"it splits axis {axis} of a value of rank {len(shape)}")
    chosen = None if node.input(1) is None else tensor(node, 1)
    if chosen is not None and chosen.dims != ():
        pieces = _cut_by(importer, node, value, axis, chosen)
    else:
        pieces = _cut_evenly(importer, node, value, axis, chosen)
        if chosen is None and not keeps:
            along = ints(importer, axis)
            pieces = [importer("Squeeze", [piece, along]) for piece in pieces]
    return [sequence(importer, node, pieces)]


def _cut_by(importer: Operators, node: Node, value: Value, axis: int, sizes: Value) -> list[Value]:
    """Return pieces whose sizes are listed, or computed if only their number is known."""
    shape = sizes.dims
    _check_integers(node, sizes)
    if shape is None or len(shape) != 1 or shape[0] is None:
        raise node.problem(
            "the number of its pieces is only known when the graph runs", "give it a constant list of sizes"
        )
    if not shape[0]:
        raise node.invalid("it splits into no pieces")
    spend(importer, node, shape[0], "its pieces")
    extent = (value.dims or ())[axis]
    if sizes.is_static:
        listed = [int(size) for size in sizes.numpy()]
        if min(listed) < 0 or (extent is not None and sum(listed) != extent):
            raise node.invalid(f"sizes {listed} do not cut an axis of {'?' if extent is None else extent}")
    if sizes.dtype.numpy.name != "int64":
        sizes = importer("Cast", [sizes], to=INT64)
    return importer.apply("Split", [value, sizes], {"axis": axis}, shape[0])


def _cut_evenly(
    importer: Operators, node: Node, value: Value, axis: int, chosen: Value | None
) -> list[Value]:
    """Return pieces of one size, 1 if none is given; the last one may be smaller."""
    extent = (value.dims or ())[axis]
    if extent is None:
        raise node.problem(
            f"it splits axis {axis}, which is dynamic, so the number of pieces is not known",
            bind_dims(),
        )
    size = 1
    if chosen is not None:
        _check_integers(node, chosen)
        if not chosen.is_static:
            raise node.problem(
                "the size of its pieces is computed when the graph runs, and so is their number",
                "give it a constant size",
            )
        size = int(chosen.numpy())
    if size < 1:
        raise node.invalid(f"the size of its pieces is {size}")
    count = -(-extent // size)
    spend(importer, node, count, "its pieces")
    if not count:
        return []
    sizes = [min(size, extent - size * index) for index in range(count)]
    return importer.apply("Split", [value, ints(importer, *sizes)], {"axis": axis}, count)


def _check_integers(node: Node, value: Value) -> None:
    if value.dtype.numpy.kind != "i":
        raise node.invalid(f"the sizes of its pieces are {value.dtype}, not integers")


@structural("ConcatFromSequence", layout=ANY)
def import_concat(node: Node, importer: Operators) -> list[AnyValue]:
    """Import a ConcatFromSequence: a Concat, along a new axis if the node states that."""
    elements, axis, adds = elements_of(node, 0), node.attr("axis"), node.flag("new_axis")
    if not elements:
        raise node.invalid("joins the elements of an empty sequence")
    shape = elements[0].dims
    rank = None if shape is None else len(shape) + adds
    if not isinstance(axis, int) or (rank is not None and not -rank <= axis < rank):
        raise node.invalid(
            f"it joins along axis {axis}, the result is of rank {'?' if rank is None else rank}"
        )
    count_listed(importer, node, len(elements))
    pieces = list(elements)
    if adds:
        spend(importer, node, len(pieces), "its elements")
        along = ints(importer, axis)
        pieces = [importer("Unsqueeze", [piece, along]) for piece in pieces]
    return [importer("Concat", pieces, axis=axis)]
