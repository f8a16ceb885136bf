"""Sub-graphs of a TFLite file as source graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.session.context import DEPTH, UNROLLED_NODES, Source
from xdlc.converter.session.node import GraphInput, Node, SourceGraph
from xdlc.converter.tflite.file import NAMES, TfliteFile, defaults_of, options_of
from xdlc.converter.tflite.flex import FLEX, node_attributes
from xdlc.converter.tflite.flexbuffers import decoded
from xdlc.converter.tflite.tensors import DTYPES, TensorInfo


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """Description of an operator in the file: the ``message`` of its node.

    Attributes:
        index: Its position in the sub-graph.
        inputs: Its input tensors; None for an omitted one.
        intermediates: Tensors that only hold quantization parameters.
    """

    index: int
    version: int
    inputs: Sequence[TensorInfo | None]
    outputs: Sequence[TensorInfo]
    intermediates: Sequence[TensorInfo] = ()


class TfliteSource(Source):
    """A TFLite file as errors and records name it."""

    def describe(self, node: Node) -> str:
        """Return words for a node, like ``operator 3 'conv1/Relu' (CONV_2D)``."""
        index = f"{node.message.index} " if isinstance(node.message, Operator) else ""
        return f"{self.unit} {index}{node.own_name!r} ({node.type})"


class Graphs:
    """Source graphs of a file's sub-graphs, built at first use."""

    def __init__(self, file: TfliteFile) -> None:
        self._file = file
        self._made: dict[int, tuple[SourceGraph, int]] = {}
        self._open: set[int] = set()
        stated = sum(len(table.operators or ()) for table in file.model.subgraphs or ())
        self._most = stated + UNROLLED_NODES

    def graph(self, index: int) -> SourceGraph:
        """Return the source graph of a sub-graph.

        Raises:
            ModelError: If it breaks the format's rules, or runs itself.
        """
        return self._sized(index)[0]

    def _sized(self, index: int) -> tuple[SourceGraph, int]:
        """Return a sub-graph as a source graph, and its node count with nested graphs."""
        file = self._file
        file.index(index, "sub-graph", file.tensors)
        if index in self._open:
            raise file.damaged(f"the model has sub-graph {index}, which is recursive")
        if len(self._open) >= DEPTH:
            raise file.damaged(f"the model has sub-graphs nested more than {DEPTH} deep")
        if index not in self._made:
            self._open.add(index)
            self._made[index] = self._read(index)
            self._open.discard(index)
        return self._made[index]

    def _read(self, index: int) -> tuple[SourceGraph, int]:
        file = self._file
        table, tensors = file.model.subgraphs[index], file.tensors[index]  # type: ignore[index]
        inputs = [tensors[file.index(number, "tensor", tensors)] for number in table.inputs or ()]
        outputs = [tensors[file.index(number, "tensor", tensors)].name for number in table.outputs or ()]
        nodes, size = [], 0
        for position, operator in enumerate(table.operators or ()):
            node, inner = self._node(position, operator, tensors)
            nodes.append(node)
            size += 1 + inner
            if size > self._most:
                raise file.damaged(
                    f"the model runs more than {self._most} operators from sub-graph {index} on"
                )
        written = {name for node in nodes for name in node.outputs}
        constants = {}
        for tensor in tensors:
            data = None if tensor.name in written else file.data(tensor)
            if data is None and tensor.type in DTYPES and 0 in tensor.shape and tensor not in inputs:
                data = ir.ArrayData(np.zeros(tensor.shape, tensor.dtype))  # no elements need no data
            if data is not None:
                constants[tensor.name] = data
        graph_inputs = [
            GraphInput(tensor.name, tensor.qnn_dtype, tensor.shape)
            for tensor in inputs
            if tensor.name not in constants
        ]
        return SourceGraph(graph_inputs, outputs, nodes, constants), size

    def _node(self, position: int, table: Any, tensors: Sequence[TensorInfo]) -> tuple[Node, int]:
        file = self._file
        operators = file.operators
        type = operators[file.index(table.opcode_index, "operator code", operators)]
        version = file.model.operator_codes[table.opcode_index].version  # type: ignore[index]

        def tensor(number: int) -> TensorInfo:
            return tensors[file.index(number, "tensor", tensors)]

        inputs = [None if number == -1 else tensor(number) for number in table.inputs or ()]
        outputs = [tensor(number) for number in table.outputs or ()]
        message = Operator(position, version, inputs, outputs, [tensor(n) for n in table.intermediates or ()])
        attributes, size = self._attributes(type, table, position)
        name = outputs[0].name if outputs else f"{type}_{position}"
        names = ["" if entry is None else entry.name for entry in inputs]
        written = [entry.name for entry in outputs]
        defaults = defaults_of(type)
        return Node(type, names, written, attributes, name, message=message, defaults=defaults), size

    def _attributes(self, type: str, table: Any, position: int) -> tuple[dict[str, Any], int]:
        """Return an operator's options that differ from defaults, and their node count."""
        options_type = options_of(type)
        options = table.builtin_options or table.builtin_options2
        attributes: dict[str, Any] = {}
        size = 0
        if options_type is not None and options is not None:
            if not isinstance(options, options_type):
                raise self._file.damaged(
                    f"the model has {options.__class__.__name__} at operator {position}, {type}: "
                    f"{options_type.__name__} are its options"
                )
            for field in options.FIELDS:
                value = getattr(options, field.name)
                if field.name.endswith("subgraph_index"):
                    attributes[field.name.removesuffix("_index")], inner = self._sized(value)
                    size += inner
                elif value != field.default:
                    attributes[field.name] = value
        if type not in NAMES:
            attributes |= self._custom(type, table, position)
        return attributes, size

    def _custom(self, type: str, table: Any, position: int) -> dict[str, Any]:
        """Return a custom operator's options: a map's entries, or bytes."""
        data = bytes(table.custom_options or b"")
        if table.large_custom_options_offset > 1:
            first, size = table.large_custom_options_offset, table.large_custom_options_size
            data = self._file.read(first, size, f"the options of operator {position}, {type}")
        try:
            options = decoded(data)
        except ValueError:
            options = None
        if isinstance(options, dict):
            return options
        if type.startswith(FLEX) and isinstance(options, list) and len(options) == 2:
            return node_attributes(options[1], f"{self._file.path}: operator {position} ({type})")
        return {"custom_options": data} if data else {}
