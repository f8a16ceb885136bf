"""AIP records of prepared sections.

A record covers all layers with sections on HTA and HNN by turns, in the layout of SNPE 1
(:mod:`xdlc.container.aip_record`).  A buffer's id names a layer and which of its inputs or outputs it is:
of an input the first layer of the section that reads it.  The memory that dimensions describe is HTA's,
innermost axis first: blocks of 32 channels, rows, blocks, columns.  A network input is not in blocks: the
vendor's records name its rows, columns and channels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from xdlc.container.aip_record import (
    OWN_FLAVOUR,
    AipBuffer,
    AipRecord,
    Dimension,
    Engine,
    Section,
    buffer_id,
)
from xdlc.errors import ConstraintError
from xdlc.ir import Op, Tensor
from xdlc.runtime.htp_fusion import Partition
from xdlc.version import VERSION

RECORD_VERSION = "1.2.0.0"
BLOCK = 32  # channels
MOST_LAYERS = 1 << 16
MOST_TENSORS = 1 << 12


def section_of(
    engine: Engine,
    span: tuple[int, int],
    part: Partition,
    ids: Mapping[Op, int],
    fed: Collection[str],
    payload: bytes,
) -> Section:
    """Return the record's entry of a section.

    Args:
        engine: Its engine.
        span: Ids of its first and last layer.
        part: Its ops.
        ids: Layer ids of all ops.
        fed: Names of the network inputs, also after conversions.
        payload: The sub-graph of a section on HTA; empty for HNN.

    Raises:
        ConstraintError: If a number does not fit the record.
    """
    buffers = [
        *(_buffer(engine, tensor, part, ids, fed, is_output=False) for tensor in part.graph.inputs),
        *(_buffer(engine, tensor, part, ids, fed, is_output=True) for tensor in part.graph.outputs),
    ]
    return Section(engine, *span, tuple(buffers), payload)


def record_of(sections: Sequence[Section]) -> AipRecord:
    """Return the record of sections that cover all layers."""
    return AipRecord(RECORD_VERSION, f"{VERSION}.0", OWN_FLAVOUR, tuple(sections))


def _buffer(
    engine: Engine,
    tensor: Tensor,
    part: Partition,
    ids: Mapping[Op, int],
    fed: Collection[str],
    *,
    is_output: bool,
) -> AipBuffer:
    op, index = _owner(tensor.name, part, is_output)
    layer = ids[op]
    for other in part.ops[: part.ops.index(op)]:  # ops of a layer of format 3 share its id
        if ids[other] == layer:
            index += len(other.outputs if is_output else other.inputs)
    if layer >= MOST_LAYERS or index >= MOST_TENSORS:
        raise ConstraintError(
            f"is tensor {index} of layer {layer}, but AIP records support at most {MOST_TENSORS} and "
            f"{MOST_LAYERS}",
            where=f"tensor {tensor.name!r}",
            fix="prepare a smaller model",
        )
    dimensions: tuple[Dimension, ...] = ()
    if engine is Engine.HTA:
        dimensions = _dimensions(tensor, blocked=is_output or tensor.name not in fed)
    return AipBuffer(tensor.name, is_output, layer, buffer_id(layer, index, is_output=is_output), dimensions)


def _owner(name: str, part: Partition, is_output: bool) -> tuple[Op, int]:
    """Return the op of a section that reads or writes a value, and the position.

    Values that only lent ops read belong to the first op.
    """
    for op in part.ops:
        for index, tensor in enumerate(op.outputs if is_output else op.inputs):
            if tensor is not None and tensor.name == name:
                return op, index
    lent = [tensor for op in (*part.lent, *part.readers) for tensor in op.inputs]
    return part.ops[0], len(part.ops[0].inputs) + [tensor and tensor.name for tensor in lent].index(name)


def _dimensions(tensor: Tensor, *, blocked: bool) -> tuple[Dimension, ...]:
    """Return a tensor's axes in HTA's memory; batches count as rows."""
    *outer, channels = tensor.shape or (1,)
    width = outer.pop() if outer else 1
    height = math.prod(outer)
    if not blocked:
        plain = (("height", height), ("width", width), ("channel", channels))
        return tuple([Dimension(axis, size, channels) for axis, size in plain])
    blocks = -(-channels // BLOCK)
    padded = blocks * BLOCK
    axes = (("channel", BLOCK), ("height", height), ("channel", blocks), ("width", width))
    return tuple([Dimension(axis, size, padded) for axis, size in axes])
