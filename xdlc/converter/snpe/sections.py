"""The record of a model's HTA sections, from ops to layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xdlc.container.aip_record import OWN_RECORD, AipBuffer, Section, buffer_id, parse_aip, write_aip
from xdlc.converter.snpe.inverse import Layers
from xdlc.ir import Model, Op, TensorData
from xdlc.ir.data import raw_data
from xdlc.runtime.section_record import placed

INDEX_BITS = 0xFFF


def section_of_ops(model: Model) -> Mapping[Op, int]:
    """Return the number of the section that each op of a model belongs to; nothing without sections.

    Raises:
        ContainerError: If the record is damaged, or does not fit the model.
    """
    if OWN_RECORD not in model.records:
        return {}
    record = parse_aip(model.records[OWN_RECORD].numpy().tobytes(), where=f"record {OWN_RECORD!r}")
    sections = placed(model, OWN_RECORD, record)
    return {op: number for number, section in enumerate(sections) for op in section.ops}


def renumbered(model: Model, layers: Layers) -> TensorData:
    """Return the record of a model's sections in terms of the layers made of its ops.

    Input layers belong to the first section, layers between others to the one of the op that they are for.

    Args:
        model: The model; its record fits it.
        layers: The layers, and which of them stand for each op.

    Raises:
        ContainerError: If a number does not fit the record.
    """
    record = parse_aip(model.records[OWN_RECORD].numpy().tobytes(), where=f"record {OWN_RECORD!r}")
    inputs = {tensor.name: id for id, tensor in enumerate(layers.graph.inputs)}
    given = {tensor.name: int(op.param("layer_id")) for op in layers.graph.ops for tensor in op.outputs}
    sections: list[Section] = []
    first = 0
    for part in placed(model, OWN_RECORD, record):
        made = [id for op in part.ops for id in layers.made[op]]
        last = max(made, default=first)
        readers: dict[str, int] = {}
        for op in part.ops:
            for tensor in op.inputs:
                if tensor is not None:
                    readers.setdefault(tensor.name, layers.made[op][-1])
        entering = readers if sections else readers | inputs
        buffers = [_buffer(held, entering, given, made) for held in part.section.buffers]
        sections.append(replace(part.section, first=first, last=last, buffers=tuple(buffers)))
        first = last + 1
    return raw_data(write_aip(replace(record, sections=tuple(sections))))


def _buffer(
    buffer: AipBuffer, entering: Mapping[str, int], given: Mapping[str, int], made: list[int]
) -> AipBuffer:
    """Return a buffer in terms of layers: its Input layer, its first reader, or what gives it."""
    known = given if buffer.is_output else entering
    layer = known.get(buffer.name, min(made, default=0))
    index = buffer.id & INDEX_BITS
    return replace(buffer, layer=layer, id=buffer_id(layer, index, is_output=buffer.is_output))
