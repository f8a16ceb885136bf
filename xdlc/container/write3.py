"""Writes format 3 (SNPE 1.x): the counterpart of ``read3``.

A model that was read and not changed gives the bytes it was read from: tables are laid out as the vendor's
writer does (``flatbuffer_build``), and numbers that cannot be computed again were kept.  Whatever was kept
counts only as long as it agrees with the graph, so a changed model gives what it says now.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.container.attributes3 import INTEGERS, NATURAL, POSITIONS, array, from_params, from_plain, nested
from xdlc.container.encodings3 import NEW, Held, made, write_encodings
from xdlc.container.flatbuffer_build import build_parts
from xdlc.container.flatbuffer_encode import Part, Stream
from xdlc.container.read3 import BUFFERS, FLOAT_DATA, INPUT, KEPT, PACKAGE, SHAPES, UINT8_DATA
from xdlc.errors import ContainerError
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.dtype import FLOAT32, UINT8
from xdlc.schema._generated import dlc3_model, dlc3_params
from xdlc.schema._generated.dlc3_model import Attribute

PREFIX = struct.pack("<HHHH", 0x0AD5, 3, 0, 0)
LAYER_ID = "layer_id"
# As SNPE 1.68 has them for images; lists of other ranks say that the axes have no known meaning.
IMAGE_AXES = (4, 1, 2, 3)
OTHER_AXES = (7,)
ELEMENT_BITS = 32
COLOR_SPACE = 4
FIX = "translate the model into layers of SNPE 1, or write format 4.1"
LARGE = "write format 4.1, which has no such limit"


def make_entries(model: Model) -> tuple[list[Part], list[Part]]:
    """Return the entries ``model`` and ``model.params`` for the layers of a model, as parts.

    Raises:
        ContainerError: If the model is not one graph of package ``snpe``, or something of it has no form in
            format 3: names the layer or tensor.
    """
    writer = _LayerWriter(model)
    nodes = writer.nodes()
    unknown = writer.kept.get("unknown") or [0, (), ()]
    content = dlc3_model.Model(unknown[0], nodes, unknown[1], unknown[2], writer.model_attributes(nodes))
    params = dlc3_params.Params(writer.params())
    return (
        [PREFIX, *build_parts(content, fix=LARGE)],
        [PREFIX, *build_parts(params, by_name="nodes", fix=LARGE)],
    )


class _LayerWriter:
    def __init__(self, model: Model) -> None:
        if len(model.graphs) != 1:
            raise ContainerError(
                f"holds {len(model.graphs)} graphs, format 3 holds one", fix="write format 4.1"
            )
        self.graph: Graph = model.main
        self.kept: Mapping[str, Any] = model.metadata.get(KEPT, {})
        self.is_new = KEPT not in model.metadata
        self.form = self.kept.get("form", NEW)

    def nodes(self) -> list[dlc3_model.Node]:
        """Return the layers, Input layers at the positions that they had, or first."""
        nodes = [self.node(op) for op in self.graph.ops]
        inputs = {tensor.name: tensor for tensor in self.graph.inputs}
        known: set[str] = set()
        for position, id, name, buffers, plain in self.kept.get("inputs", ()):
            held = [inputs[buffer] for buffer in buffers if buffer in inputs]
            known.update(buffers)
            if held:
                attributes = [from_plain(item) for item in plain]
                nodes.insert(position, self.input(id, name, held, attributes))
        late = [tensor for tensor in self.graph.inputs if tensor.name not in known]
        for position, tensor in enumerate(late):
            facts = {"input_color_space": COLOR_SPACE, "input_type": 0, "output_color_space": COLOR_SPACE}
            attributes = [Attribute(name, NATURAL, natural=value) for name, value in facts.items()]
            nodes.insert(position, self.input(position, tensor.name, [tensor], attributes))
        return nodes

    def input(
        self, id: int, name: str, tensors: Sequence[Tensor], attributes: Sequence[Attribute]
    ) -> dlc3_model.Node:
        names = [tensor.name for tensor in tensors]
        attributes = self.attributes(attributes, tensors)
        return dlc3_model.Node(id, name, INPUT, names, names, attributes)

    def node(self, op: Op) -> dlc3_model.Node:
        where = f"layer {op.name!r} ({op.type})"
        if op.package != PACKAGE:
            raise ContainerError(f"is of package {op.package!r}, not a layer of SNPE 1", where=where, fix=FIX)
        inputs = []
        for tensor in op.inputs:
            if tensor is None:
                raise ContainerError("leaves an input out, which format 3 has no form for", where=where)
            if not tensor.is_static:
                inputs.append(tensor.name)
        params = {name: param for name, param in op.params.items() if name != LAYER_ID}
        own = from_params(params, self.kept.get("kinds", {}).get(op.name, {}), where)
        attributes = self.attributes(own, op.outputs)
        outputs = [tensor.name for tensor in op.outputs]
        return dlc3_model.Node(op.param(LAYER_ID, 0), op.name, op.type, inputs, outputs, attributes)

    def attributes(self, own: Sequence[Attribute], outputs: Sequence[Tensor]) -> list[Attribute]:
        """Return all attributes of a layer in the order of their names."""
        shapes = [Attribute("", INTEGERS, integers=tensor.shape) for tensor in outputs]
        encodings = write_encodings([self.encoding(tensor) for tensor in outputs])
        held = [*own, *encodings, *([array(SHAPES, shapes)] if shapes else [])]
        return sorted(held, key=lambda attribute: (attribute.name or "").encode("utf-8"))

    def encoding(self, tensor: Tensor) -> Held | None:
        """Return the encoding of a tensor as it was read, unless it has another one now."""
        where = f"tensor {tensor.name!r}"
        kept = self.kept.get("encodings", {}).get(tensor.name)
        if kept is not None:
            form, axis, numbers = kept
            held = Held(form, axis, tuple([tuple(item) for item in numbers]))
            if held.decoded(where) == (tensor.encoding and (tensor.encoding, tensor.dtype)):
                return held
        found = made(tensor, self.form, where)
        if found is None and tensor.dtype not in (FLOAT32, UINT8):
            raise ContainerError(
                f"is {tensor.dtype}; format 3 holds float32 and quantized tensors", where=where, fix=FIX
            )
        return found

    def model_attributes(self, nodes: Sequence[dlc3_model.Node]) -> list[Attribute]:
        """Return the attributes of the model, the facts about buffers brought up to date."""
        held = [from_plain(plain) for plain in self.kept.get("attributes", ())]
        infos = next((attribute for attribute in held if attribute.name == BUFFERS), None)
        if infos is None and not self.is_new:
            return held
        if infos is None:
            infos = nested(BUFFERS, [])
            held.append(infos)
        known = {attribute.name: attribute for attribute in infos.attributes or ()}
        names = [name for node in nodes for name in node.outputs or ()]
        infos.attributes = [self.buffer(self.graph.tensors[name], known.get(name)) for name in names]
        return held

    def buffer(self, tensor: Tensor, known: Attribute | None) -> Attribute:
        if known is None:
            axes = IMAGE_AXES if tensor.rank == len(IMAGE_AXES) else OTHER_AXES
            facts = [
                Attribute("axis_order", POSITIONS, positions=axes),
                Attribute("data_size", NATURAL, natural=ELEMENT_BITS),
                Attribute("dims", INTEGERS, integers=tensor.shape),
            ]
            return nested(tensor.name, facts)
        for fact in known.attributes or ():
            if fact.name == "dims":
                fact.integers = tensor.shape
        return known

    def params(self) -> list[dlc3_params.NodeParams]:
        """Return the weights of the layers that have some."""
        found = []
        for op in self.graph.ops:
            held = [tensor for tensor in op.inputs if tensor is not None and tensor.is_static]
            weights = [self.weight(op, tensor) for tensor in held]
            if weights:
                weights.sort(key=lambda weight: weight.name != "bias")
                found.append(dlc3_params.NodeParams(op.name, weights))
        return found

    def weight(self, op: Op, tensor: Tensor) -> dlc3_params.Weight:
        where, prefix = f"layer {op.name!r}: tensor {tensor.name!r}", f"{op.name}."
        data = tensor.data
        if data is None or not tensor.name.startswith(prefix):
            raise ContainerError(
                f"should be named {prefix}..., as a weight of its layer", where=where, fix=FIX
            )
        if tensor.dtype.bits and data.nbytes != tensor.nbytes:
            raise ContainerError(f"has {data.nbytes} bytes of data, needs {tensor.nbytes}", where=where)
        if tensor.dtype is FLOAT32:
            content = dlc3_params.Elements(FLOAT_DATA, reals=Stream(data))
        elif tensor.dtype.bits == 8 and not tensor.dtype.is_signed and tensor.dtype.kind != "bool":
            content = dlc3_params.Elements(UINT8_DATA, octets=Stream(data))
        else:
            raise ContainerError(
                f"is {tensor.dtype}; format 3 holds weights as float32 or 8 unsigned bits",
                where=where,
                fix=FIX,
            )
        attributes = [from_plain(plain) for plain in self.kept.get("weights", {}).get(tensor.name, ())]
        attributes += write_encodings([self.encoding(tensor)])
        attributes.sort(key=lambda attribute: (attribute.name or "").encode("utf-8"))
        name = tensor.name.removeprefix(prefix)
        return dlc3_params.Weight(name, tensor.shape, content, attributes or None)
