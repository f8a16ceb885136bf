"""Ops whose results have the shape of an operand, or that of all operands spread over each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdlc.ir import HOST_PACKAGE, Op, Tensor
from xdlc.opdefs.loader import all_types
from xdlc.opdefs.loader import find as definition
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.runtime import args

# Their further operands hold positions, or their shapes follow other laws.
_OTHERS = ("BatchPermutation", "If", "RotaryEmbedding", "ScatterElements", "ScatterNd")


def _types(law: str) -> Iterator[str]:
    for name in all_types():
        found = definition(name)
        outputs = found.outputs if found is not None else ()
        if name not in _OTHERS and outputs:
            texts = ([constraint.text for constraint in output.constraints] for output in outputs)
            if all(any(text.startswith(law) for text in held) for held in texts):
                yield name


@rule(*_types("shape = in[0]"))
def like_first(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the shape of the first operand, over which the others must spread."""
    source = args.operand(op, 0)
    others = [tensor for tensor in op.inputs[1:] if tensor is not None]
    for tensor in others:
        if spread([source, tensor]) != source.shape:
            raise Misfit(unfit([source, tensor]))
    return [source.shape for _ in op.outputs]


@rule("Reinterpret", package=HOST_PACKAGE)
def reinterpret(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the shape of the operand."""
    return like_first(op, context)


@rule(*_types("shape = broadcast("))
def spread_out(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the shape that all operands spread to."""
    return [spread([tensor for tensor in op.inputs if tensor is not None])]


def spread(tensors: Sequence[Tensor]) -> Shape:
    """Return the shape of tensors spread over each other.

    Raises:
        Misfit: If two extents of one axis differ and none is 1.
    """
    rank = max(tensor.rank for tensor in tensors)
    shape = []
    for axis in range(-rank, 0):
        extents = {tensor.shape[axis] for tensor in tensors if -axis <= tensor.rank} - {1}
        if len(extents) > 1:
            raise Misfit(unfit(tensors))
        shape.append(extents.pop() if extents else 1)
    return tuple(shape)


def unfit(tensors: Sequence[Tensor]) -> str:
    """Return what is wrong with operands whose shapes do not go together."""
    shapes = " and ".join(f"{tensor.name!r} {list(tensor.shape)}" for tensor in tensors)
    constant = next((tensor for tensor in tensors if tensor.is_static), None)
    because = f": constant {constant.name!r} was made for the old dimensions" if constant is not None else ""
    return f"its operands {shapes} do not go together{because}"
