"""Ops that join values of unlike size: Concat of boxes and scores, sum with a grid, factors per channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.ir import Graph, Op, Tensor
from xdlc.quant.attention_masks import Masks
from xdlc.quant.op_specs import is_real, rule_of, single_name
from xdlc.quant.placement import Placement
from xdlc.quant.precision import follows
from xdlc.quant.ranges import NOTHING, Range, range_of
from xdlc.quant.widening.tensor_slices import UNLIKE, factors

if TYPE_CHECKING:
    from xdlc.quant.calibration.calibrate import Calibration

UNLIKE_INSIDE = 32.0
"""The same where other layers compute with the result, and of sums: 3 of 8 bits are left then."""

FEW = 64
"""Most weights of what counts as arithmetic, not as a layer."""

_SUMS = ("ElementWiseAdd", "ElementWiseSubtract")


@dataclass(frozen=True, slots=True)
class Join:
    """An op that joins values of unlike size.

    Attributes:
        op: The op.
        narrow: Width of the range of its smallest part.
        wide: Width of the range of its largest part.
        large: Its inputs that are not much narrower than the widest.
        onward: The ops that need the bits of its result for the small values to be kept, itself the first.
        written: What these write, and the ops between them that only move values.
        is_final: Whether the result reaches an output, or ops in float, by these alone.
    """

    op: Op
    narrow: float
    wide: float
    large: tuple[Tensor, ...]
    onward: tuple[Op, ...]
    written: tuple[Tensor, ...]
    is_final: bool


def find_joins(graph: Graph, placement: Placement, calibration: Calibration, masks: Masks) -> list[Join]:
    """Return the quantized ops that join values of unlike size, in execution order.

    Args:
        masks: Its attention masks, which join what they hide with nothing.
    """
    order = {op: place for place, op in enumerate(placement.fixed)}
    found = []
    for op in placement.fixed:
        parts = _parts(op, calibration)
        widths = [width for _, width in parts]
        if not widths or max(widths) < UNLIKE * min(widths) or op.outputs[0] in masks.hiding:
            continue
        onward, written, is_final = _onward(graph, placement, op, order)
        limit = UNLIKE if is_final and single_name(op) not in _SUMS else UNLIKE_INSIDE
        gathers = bool(_gathered(op))
        if max(widths) < limit * min(widths) or not (gathers or is_final):
            continue
        large = (tensor for tensor, width in parts if width * UNLIKE > max(widths))
        found.append(
            Join(op, min(widths), max(widths), tuple(dict.fromkeys(large)), onward, written, is_final)
        )
    return found


def _gathered(op: Op) -> list[Tensor]:
    """Return the float tensors whose values an op gathers unchanged."""
    rule = rule_of(op)
    places = rule.gathers if rule is not None else ()
    inputs = [op.inputs[index] for index in places if index < len(op.inputs)]
    return [tensor for tensor in inputs if tensor is not None and is_real(tensor)]


def _parts(op: Op, calibration: Calibration) -> list[tuple[Tensor, float]]:
    """Return what an op joins, and the width of the range of each; those of zeros alone are omitted."""
    kind = single_name(op)
    # A slice of a tensor has the range of the whole where nothing else is known of it.
    most = range_of_values(op.outputs[0], calibration).width or float("inf")
    parts = [(tensor, min(range_of_values(tensor, calibration).width, most)) for tensor in _gathered(op)]
    moving = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    if not parts and len(moving) == 1 and len(op.inputs) == 2:
        source = moving[0]
        width = range_of_values(source, calibration).width
        static = next(tensor for tensor in op.inputs if tensor is not None and tensor is not source)
        if kind in _SUMS:
            # A small constant, as in front of a root, needs no steps of its own.
            added = range_of_values(static, calibration).width
            parts = [(source, width), (static, added)] if added > width else []
        else:
            parts = [(source, width * factor) for factor in factors(op)]
    return [(tensor, width) for tensor, width in parts if 0.0 < width < float("inf")]


def range_of_values(tensor: Tensor, calibration: Calibration) -> Range:
    """Return the range that the values of a tensor have, or the one that its op bounds them to."""
    if tensor.is_static:
        return range_of(tensor.numpy()) if tensor.dtype.is_float else NOTHING
    op = writer(tensor)
    rule = rule_of(op) if op is not None else None
    if rule is not None and rule.unit_low is not None:
        return Range(float(rule.unit_low), 1.0)
    found = calibration.found.get(tensor)
    return NOTHING if found is None else found.seen


def _onward(
    graph: Graph, placement: Placement, first: Op, order: dict[Op, int]
) -> tuple[tuple[Op, ...], tuple[Tensor, ...], bool]:
    """Return the ops that carry the result of an op on, what they write, and whether that reaches an output.

    If it does, those on the way are returned; if not, those up to the layers that compute with it, and these.
    """
    reached = _reached(graph, placement, first, lambda op: hands_on(op) or bool(_gathered(op)))
    ends: set[Op] = set()
    for op in sorted((op for op, carries in reached.items() if carries), key=order.__getitem__, reverse=True):
        reals = [tensor for tensor in op.outputs if is_real(tensor)]
        if not reals:
            ends.add(op)
        for tensor in reals:
            readers = graph.consumers(tensor)
            if graph.is_output(tensor) or any(r not in placement.fixed or r in ends for r in readers):
                ends.add(op)
    is_final = first in ends
    if is_final:
        reached = {op: True for op in reached if op in ends}
    else:  # a sum with something else, as of a residual stream, is a layer of its own
        reached = _reached(graph, placement, first, lambda op: bool(_gathered(op)) or _is_of_one(op))
    on_way = sorted(reached, key=order.__getitem__)
    written = tuple(tensor for op in on_way if reached[op] for tensor in op.outputs)
    return tuple(op for op in on_way if not follows(op)), written, is_final


def _reached(graph: Graph, placement: Placement, first: Op, carries: Callable[[Op], bool]) -> dict[Op, bool]:
    """Return the quantized ops that values reach through ops that carry them on, and whether each does."""
    reached = {first: True}
    queue = [first]
    for op in queue:
        for tensor in filter(is_real, op.outputs):
            for reader in graph.consumers(tensor):
                if reader not in reached and reader in placement.fixed:
                    reached[reader] = carries(reader)
                    queue += [reader] if reached[reader] else []
    return reached


def _is_of_one(op: Op) -> bool:
    return hands_on(op) and sum(t is not None and not t.is_static for t in op.inputs) == 1


def _combines_few(op: Op) -> bool:
    """Return whether an op is a product of as many values with a few constants, as of centres to corners."""
    rule, source = rule_of(op), op.inputs[0] if op.inputs else None
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    if rule is None or rule.weight is None or weight is None or not weight.is_static or source is None:
        return False
    return weight.size <= FEW and source.size <= op.outputs[0].size


def writer(tensor: Tensor) -> Op | None:
    """Return the op that computes what a tensor holds: ops that only move values are followed back."""
    op = tensor.producer
    while op is not None and follows(op):
        first = op.inputs[0]
        op = first.producer if first is not None else None
    return op


def hands_on(op: Op) -> bool:
    """Return whether an op computes element by element, or moves values, without bounds of its own."""
    rule = rule_of(op)
    if rule is None or rule.unit_low is not None:
        return False
    return follows(op) or rule.clamps or single_name(op).startswith("ElementWise")


def makers(graph: Graph, placement: Placement, tensors: Iterable[Tensor]) -> Iterator[Op]:
    """Yield the ops that compute tensors element by element from the results of layers, the last ones first.

    Args:
        tensors: The tensors.
    """
    queue = list(tensors)
    seen = set(queue)
    for tensor in queue:
        op = tensor.producer
        if op is None or op not in placement.fixed:
            continue
        if not (hands_on(op) or _gathered(op) or _combines_few(op)):
            continue
        inputs = op.inputs[:1] if follows(op) else op.inputs
        more = [t for t in inputs if t is not None and t not in seen and not t.is_static and is_real(t)]
        seen.update(more)
        queue += more
        if not follows(op):
            yield op
