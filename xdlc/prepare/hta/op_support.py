"""Op support of HTA: its supplement of OpDefs, and rules of whole graphs.

Beside the supplement (``opdefs/data/backends/hta.xml``):

- an input of the network has 4 axes, NHWC, and at most 16 channels;
- the batch is 1; a larger one only if all layers are on HTA, Softmax excepted;
- an activation has one scale and offset.

Weights may be signed symmetric 8-bit integers, with one scale or one for each output channel, as our
quantizer writes them, where the vendor's supplement has unsigned ones: with one scale they are unsigned ones
with an offset of -128.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from xdlc.errors import ConstraintError, XdlcError
from xdlc.ir import NATIVE_PACKAGE, Graph, Op, ScaleOffset, Tensor
from xdlc.opdefs import supplement, verify_op

MOST_INPUT_CHANNELS = 16


@dataclass(frozen=True, slots=True)
class RejectedOp:
    """An op that HTA does not support.

    Attributes:
        layer: Its layer id.
        op: Its name.
        type: Its type.
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


def reasons(graph: Graph, layers: Collection[Op], fed: Collection[Tensor]) -> dict[Op, tuple[str, ...]]:
    """Return the layers that HTA does not support, with the rules that they break.

    Args:
        layers: Its layers.
        fed: What the network takes in: inputs, also after conversions.
    """
    reasons_of = {op: _reasons(fed, op, op) for op in layers}
    batch = _batch(graph)
    if batch > 1:
        single = {op: _reasons(fed, op, _for_one(op, batch)) for op in reasons_of}
        if not any(why for op, why in single.items() if op.type != "Softmax"):
            reasons_of = single
    return {op: why for op, why in reasons_of.items() if why}


def check_batch(graph: Graph, layers: Collection[Op], on_hta: Collection[Op]) -> list[XdlcError]:
    """Return the problems of the layers chosen for HTA if the batch is larger than 1."""
    batch = _batch(graph)
    left = [op for op in layers if op not in on_hta and op.type != "Softmax"]
    if batch == 1 or not left or not on_hta:
        return []
    names = ", ".join(repr(op.name) for op in left[:3]) + (" ..." if len(left) > 3 else "")
    return [
        ConstraintError(
            f"the batch is {batch}: HTA must compute all layers but Softmax, and cannot compute "
            f"{len(left)}: {names}",
            where=f"graph {graph.name!r}",
            fix="convert the model with a batch of 1",
        )
    ]


def _reasons(fed: Collection[Tensor], op: Op, judged: Op) -> tuple[str, ...]:
    if op.package != NATIVE_PACKAGE:
        return (f"package: expected {NATIVE_PACKAGE}, found {op.package}",)
    breaches = verify_op(judged, backend="hta")
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


def _batch(graph: Graph) -> int:
    """Return the batch of the network inputs."""
    return max((tensor.shape[0] for tensor in graph.inputs if tensor.rank >= 2), default=1)


def _for_one(op: Op, batch: int) -> Op:
    """Return a copy of an op with tensors of batch size 1."""
    twins: dict[Tensor, Tensor] = {}

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            batched = tensor.rank >= 2 and tensor.shape[0] == batch and not tensor.is_static
            shape = (1, *tensor.shape[1:]) if batched else tensor.shape
            twins[tensor] = replace(tensor, shape=shape, producer=None)
        return twins[tensor]

    return op.twin(twin)
