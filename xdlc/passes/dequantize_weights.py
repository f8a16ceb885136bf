"""Dequantization of the weights of float operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import BlockScaleOffset, Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT16, DType
from xdlc.ir.quantization import float_data
from xdlc.opdefs.traits import traits
from xdlc.passes._fixed_point_rules import suits_fixed_point
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp", after=("widen_bytes",))
@dataclass(frozen=True, slots=True)
class DequantizeWeights:
    """Dequantize static fixed-point operands of float operations.

    HTP supports none beside float32.  Beside float16 it supports weights of 8 bits with a scale for each
    channel, of Conv2d in kernels of 1x1 only (emulation of SDK 2.51, SM8650); scales per block it supports
    only as blockwise expansion.

    Attributes:
        refused_only: Whether operands stay that HTP supports.
    """

    name: str = "dequantize_weights"
    refused_only: bool = True

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        made: dict[tuple[Tensor, DType], Tensor] = {}
        changed = [self._dequantize(graph, op, made) for op in list(graph.ops)]
        for (stored, _), real in made.items():
            graph.supersede(stored, real)
        return any(changed)

    def _dequantize(self, graph: Graph, op: Op, made: dict[tuple[Tensor, DType], Tensor]) -> bool:
        dtype = _computed_in(op)
        if dtype is None or not any(_is_stored(tensor) for tensor in op.inputs):
            return False
        reals = [_real(tensor, dtype, made) for tensor in op.inputs]
        if self.refused_only and _is_taken(op, reals):
            return False
        for tensor in reals:
            if tensor is not None and graph.tensors.get(tensor.name) is not tensor:
                tensor.name = graph.unique_name(f"{tensor.name}_{dtype}")
        graph.set_inputs(op, reals)
        return True


def _computed_in(op: Op) -> DType | None:
    """Return the float type that an op computes in, or None."""
    if op.package != ir.NATIVE_PACKAGE or traits(op).recodes or op.type == "Cast":
        return None
    computed = [
        tensor.dtype for tensor in (*op.inputs, *op.outputs) if tensor is not None and not tensor.is_static
    ]
    reals = {dtype for dtype in computed if dtype.is_float or dtype.is_fixed}
    found = reals.pop() if len(reals) == 1 else None
    return found if found is not None and found.is_float else None


def _is_stored(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.is_static and tensor.dtype.is_fixed


def _real(tensor: Tensor | None, dtype: DType, reals: dict[tuple[Tensor, DType], Tensor]) -> Tensor | None:
    if tensor is None or not _is_stored(tensor):
        return tensor
    if (tensor, dtype) not in reals:
        data = float_data(tensor).cast(dtype.numpy)
        reals[tensor, dtype] = Tensor(tensor.name, tensor.shape, dtype, None, data, Role.STATIC)
    return reals[tensor, dtype]


def _is_taken(op: Op, reals: Sequence[Tensor | None]) -> bool:
    """Return whether HTP supports an op as it is at least as well as with floats."""
    stored = [tensor for tensor in op.inputs if tensor is not None and _is_stored(tensor)]
    if any(isinstance(tensor.encoding, BlockScaleOffset) for tensor in stored):
        return False
    weight = op.inputs[1] if len(op.inputs) > 1 else None
    if weight is not None and _is_stored(weight) and _computed_in(op) is FLOAT16:
        has_kernel = op.type == "Conv2d" and weight.shape[:2] != (1, 1)
        if has_kernel or isinstance(weight.encoding, ScaleOffset):
            return False
    real = Op(op.type, reals, op.outputs, op.params, name=op.name, package=op.package)
    return suits_fixed_point(op, real)
