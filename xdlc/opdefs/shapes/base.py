"""Registry of shape functions, laws of definitions, and checks of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from xdlc.errors import ConstraintError, ModelError
from xdlc.ir import NATIVE_PACKAGE, Graph, Op, Tensor
from xdlc.ir.names import place_of
from xdlc.opdefs.args import operand
from xdlc.opdefs.loader import all_types
from xdlc.opdefs.loader import find as definition
from xdlc.registry import Registry

Dims: TypeAlias = tuple[int | None, ...]
"""Dimensions of a tensor, None for one that operands and parameters leave open."""
ShapeFunction: TypeAlias = "Callable[[Op], list[Dims] | None]"

_FUNCTIONS: Registry[tuple[str, str], ShapeFunction] = Registry("xdlc.opdefs.shapes", "shape function")
_FAULTS = (ModelError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)


class ShapeError(Exception):
    """Operands or parameters of an op that do not fit together."""


def shape(*types: str, package: str = NATIVE_PACKAGE) -> Callable[[ShapeFunction], ShapeFunction]:
    """Register the shape function of op types.

    It takes an op whose inputs have their shapes, and returns those of its outputs, or None where the op
    leaves them open.  It raises ``ShapeError`` or ``ModelError``.

    Raises:
        ValueError: If an op type has another one already; by the decorator.
    """
    return _FUNCTIONS.register(*((package, name) for name in types))


def infer(op: Op) -> list[Dims] | None:
    """Return the shapes of an op's results; None if they cannot be inferred.

    An op type without shape function of its own may have the law that its definition states.

    Raises:
        ShapeError: If operands or parameters do not go together.
        ModelError: If an operand or a parameter is missing.
    """
    function = shape_function(op)
    return None if function is None else function(op)


def shape_function(op: Op) -> ShapeFunction | None:
    """Return the shape function of an op, or None."""
    found = _FUNCTIONS.find((op.package, op.type))
    is_known = op.package == NATIVE_PACKAGE and op.type in all_types()
    return found or (_stated_law(op.type) if is_known else None)


def verify_shapes(graph: Graph) -> list[ConstraintError]:
    """Return a problem for each op whose operands contradict its output shapes.

    A graph whose Conv2d states a padding of millions but an output of a few elements would make an
    engine allocate what the parameters state: files are untrusted input.  Operands that do not go together
    break the definition, which ``verify_op`` reports.
    """
    problems = []
    for op in graph.ops:
        try:
            shapes = infer(op)
        except (ShapeError, *_FAULTS):
            continue
        pairs = zip(op.outputs, shapes or (), strict=False)
        wrong = next((pair for pair in pairs if not _fits(*pair)), None)
        if wrong is not None:
            stated = ", ".join("?" if size is None else str(size) for size in wrong[1])
            problems.append(
                ConstraintError(
                    f"its parameters make the output [{stated}], but it is {list(wrong[0].shape)}",
                    where=place_of(op),
                    fix="convert the source model again: the file is damaged, or a faulty tool wrote it",
                )
            )
    return problems


def _fits(tensor: Tensor, dims: Dims) -> bool:
    """Return whether a tensor has the dimensions; dynamic dimensions always fit.

    A scalar may have the shape [1]: some tools and backends have no rank 0.
    """
    if not dims and tensor.shape == (1,):
        return True
    return tensor.rank == len(dims) and all(
        stated is None or size == stated or axis in tensor.dynamic_axes
        for axis, (size, stated) in enumerate(zip(tensor.shape, dims, strict=True))
    )


@cache
def _stated_law(type: str) -> ShapeFunction | None:
    """Return the law that constrains the shapes of all outputs of an op type."""
    found = definition(type)
    outputs = found.outputs if found is not None else ()
    for text, law in (("shape = in[0]", like_first), ("shape = broadcast(", broadcast)):
        if outputs and all(any(c.text.startswith(text) for c in output.constraints) for output in outputs):
            return law
    return None


def like_first(op: Op) -> list[Dims]:
    """Return the shape of the first operand; the others must broadcast to it."""
    source = operand(op, 0)
    for tensor in op.inputs[1:]:
        if tensor is not None and broadcast_shape([source, tensor]) != source.shape:
            raise ShapeError(mismatch([source, tensor]))
    return [source.shape for _ in op.outputs]


def broadcast(op: Op) -> list[Dims]:
    """Return the shape that all operands broadcast to."""
    return [broadcast_shape([tensor for tensor in op.inputs if tensor is not None])]


def broadcast_shape(tensors: Sequence[Tensor], *, last: int = 0) -> tuple[int, ...]:
    """Return the shape that tensors broadcast to, without the ``last`` axes.

    Raises:
        ShapeError: If two dimensions of one axis differ and none is 1.
    """
    shapes = [tensor.shape[: tensor.rank - last] for tensor in tensors]
    rank = max(map(len, shapes))
    dims = []
    for axis in range(-rank, 0):
        sizes = {held[axis] for held in shapes if -axis <= len(held)} - {1}
        if len(sizes) > 1:
            raise ShapeError(mismatch(tensors))
        dims.append(sizes.pop() if sizes else 1)
    return tuple(dims)


def mismatch(tensors: Sequence[Tensor]) -> str:
    """Return the text of an error about operands with shapes that do not fit together."""
    shapes = " and ".join(f"{tensor.name!r} {list(tensor.shape)}" for tensor in tensors)
    constant = next((tensor for tensor in tensors if tensor.is_static), None)
    because = f": constant {constant.name!r} belongs to the old dimensions" if constant is not None else ""
    return f"its operands {shapes} do not fit together{because}"
