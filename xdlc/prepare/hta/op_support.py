"""Op support of HTA: its supplement of OpDefs, and rules of whole graphs.

Beside the supplement (``opdefs/data/backends/hta.xml``):

- an input of the network has 4 axes, NHWC, and at most 16 channels;
- an activation has one scale and offset.

Weights may be signed symmetric 8-bit integers, with one scale or one for each output channel, as our
quantizer writes them, where the vendor's supplement has unsigned ones: with one scale they are unsigned ones
with an offset of -128.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from xdlc.errors import ConstraintError
from xdlc.ir import NATIVE_PACKAGE, Graph, Op, ScaleOffset, Tensor
from xdlc.opdefs.loader import supplement
from xdlc.opdefs.verify import verify_op

MOST_INPUT_CHANNELS = 16


@dataclass(frozen=True, slots=True)
class RejectedOp:
    """An op that HTA does not support.

    Attributes:
        reasons: Rule, value found and value accepted, in words.
    """

    layer: int
    op: str
    type: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"layer {self.layer} {self.op!r} ({self.type}): {'; '.join(self.reasons)}"


def check_quantized(graph: Graph) -> None:
    """Check that a graph has fixed-point activations at all.

    Raises:
        ConstraintError: If it has none.
    """
    made = [tensor for op in graph.ops for tensor in op.outputs]
    if not any(tensor.dtype.is_fixed for tensor in made):
        found = ", ".join(dict.fromkeys(tensor.dtype.name for tensor in made)) or "no op"
        raise ConstraintError(
            f"is not quantized: HTA computes with ufixed8 and ufixed16, not {found}",
            where=f"graph {graph.name!r}",
            fix="quantize the model first: `xdlc quantize net.dlc -l samples.txt --enable-hta`",
        )


def reasons(layers: Iterable[Op], fed: Collection[Tensor]) -> dict[Op, tuple[str, ...]]:
    """Return the layers that HTA does not support, with the rules that they break.

    Args:
        fed: Inputs of the network, also after conversions.
    """
    reasons_of = {op: _reasons(fed, op) for op in layers}
    return {op: why for op, why in reasons_of.items() if why}


def _reasons(fed: Collection[Tensor], op: Op) -> tuple[str, ...]:
    if op.package != NATIVE_PACKAGE:
        return (f"package: expected {NATIVE_PACKAGE}, found {op.package}",)
    breaches = verify_op(op, backend="hta")
    if supplement("hta").supports(op.type):
        breaches += [*_input_breaches(fed, op), *_encoding_breaches(op)]
    return tuple(dict.fromkeys(breaches))


def _input_breaches(fed: Collection[Tensor], op: Op) -> Iterator[str]:
    for index, tensor in enumerate(op.inputs):
        if tensor is None or tensor not in fed:
            continue
        subject = f"HTA: in[{index}] {tensor.name!r}, an input of the network"
        if tensor.rank != 4:
            yield f"{subject}: expected 4 axes, NHWC, found rank {tensor.rank} {list(tensor.shape)}"
        elif tensor.shape[3] > MOST_INPUT_CHANNELS:
            yield (
                f"{subject}: expected at most {MOST_INPUT_CHANNELS} channels on axis 3, "
                f"found shape {list(tensor.shape)}"
            )


def _encoding_breaches(op: Op) -> Iterator[str]:
    for side, tensors in (("in", op.inputs), ("out", op.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is None or tensor.is_static:
                continue
            subject = f"HTA: {side}[{index}] {tensor.name!r}"
            if tensor.dtype.is_fixed and not isinstance(tensor.encoding, ScaleOffset):
                kind = type(tensor.encoding).__name__ if tensor.encoding else "no encoding"
                yield f"{subject}: expected one scale and offset, found {kind}"
            if tensor.dynamic_axes:
                axes = ", ".join(map(str, tensor.dynamic_axes))
                yield f"{subject}: expected a known shape, found a dynamic dimension on axis {axes}"
