"""Which function makes layers of which QNN operation, and what it gets to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc import ir, opdefs
from xdlc.container.read3 import PACKAGE
from xdlc.converter.snpe.static_tensors import as_bytes
from xdlc.errors import UnsupportedOp
from xdlc.ir import Graph, Op, Origin, Param, ScaleOffset, Tensor, i32
from xdlc.ir.dtype import FLOAT32, UFIXED8, UFIXED16
from xdlc.ir.graph import NATIVE_PACKAGE
from xdlc.registry import Registry


def has_place(tensor: Tensor) -> bool:
    """Return whether a layer can give a tensor of this type: float32, or unsigned with one scale."""
    if tensor.dtype in (UFIXED8, UFIXED16):
        return isinstance(tensor.encoding, ScaleOffset) and tensor.encoding.bits is None
    return tensor.dtype is FLOAT32 and tensor.encoding is None


class Layers:
    """A graph of layers under construction.

    Attributes:
        graph: The graph.
        tensors: What stands for the tensors of the source graph so far.
        made: Ids of the layers that stand for each op.
    """

    def __init__(self) -> None:
        self.graph = Graph("model")
        self.tensors: dict[Tensor, Tensor] = {}
        self.made: dict[Op, list[int]] = {}

    def append(
        self,
        type: str,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        params: Mapping[str, Param],
        origin: Origin,
    ) -> int:
        """Add a layer and return its id."""
        id = len(self.graph.inputs) + len(self.graph)
        numbered = {"layer_id": i32(id), **params}
        for key, param in params.items():
            if isinstance(param, Tensor):
                param.name = f"{name}_{key}"  # as the reader names it
        op = Op(type, list(inputs), list(outputs), numbered, name=name, package=PACKAGE, origin=origin)
        self.graph.append(op)
        return id

    def output(self, tensor: Tensor) -> Tensor:
        """Return what stands for a tensor that a layer is to give."""
        if tensor not in self.tensors:
            self.tensors[tensor] = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.encoding)
        return self.tensors[tensor]


class Operation:
    """A QNN operation, and the layers that are made of it.

    Attributes:
        op: The operation.
        layers: The graph under construction.
        merged: Ops behind it that the layers made stand for too.

    Args:
        op: The operation.
        layers: The graph under construction.
        reader: Returns the op that alone reads a tensor and may be merged with the one that gives it.
    """

    def __init__(self, op: Op, layers: Layers, reader: Callable[[Tensor], Op | None]) -> None:
        self.op = op
        self.layers = layers
        self.reader = reader
        self.merged: list[Op] = []

    @property
    def source(self) -> Tensor:
        """The first input.

        Raises:
            UnsupportedOp: If there is none.
        """
        found = self.op.inputs[0] if self.op.inputs else None
        if found is None:
            raise self.problem("has no first input")
        return found

    @property
    def output(self) -> Tensor:
        """The first output."""
        return self.op.outputs[0]

    def number(self, name: str) -> Any:
        """Return the value of a scalar parameter, or its default by the OpDef."""
        value = self.op.param(name, None)
        if value is not None:
            return value
        import json

        definition = opdefs.find(self.op.type, self.op.package)
        held = definition.params.get(name) if definition else None
        if held is None or held.default is None:
            raise self.problem(f"has no parameter {name!r}")
        return json.loads(str(held.default).lower())

    def table(self, name: str, default: Sequence[int] | None = None) -> list[Any]:
        """Return a tensor parameter as nested lists."""
        held = self.op.params.get(name)
        if isinstance(held, Tensor):
            found: list[Any] = held.numpy().tolist()
            return found
        if default is None:
            raise self.problem(f"has no parameter {name!r}")
        return list(default)

    def plain(self, *names: str) -> None:
        """Check that parameters have the value 0, with which they change nothing.

        Raises:
            UnsupportedOp: If one has another.
        """
        for name in names:
            value = self.op.param(name, 0)
            if value:
                raise self.problem(f"has {name} {value}, which no known layer has")

    def _check(self, tensor: Tensor | None) -> None:
        """Check that something can stand for an input."""
        if tensor is None:
            raise self.problem("leaves an input out")
        if tensor not in self.layers.tensors and self._value(tensor) is None:
            raise self.problem(
                f"reads {tensor.name!r}, static and {tensor.dtype}, which no known layer gives"
            )

    def _value(self, tensor: Tensor) -> Tensor | None:
        held = tensor if tensor.dtype is FLOAT32 else as_bytes(tensor, tensor.name)
        return held if held is not None and has_place(held) else None

    def _operand(self, tensor: Tensor) -> Tensor:
        """Return what stands for an input; a Const layer is made for a static one."""
        found = self.layers.tensors.get(tensor)
        if found is not None:
            return found
        held = self._value(tensor)
        assert held is not None
        name = self.layers.graph.unique_name(tensor.name)
        value = Tensor(f"{name}.value", held.shape, held.dtype, held.encoding, held.data, held.role)
        made = self.layers.tensors[tensor] = Tensor(tensor.name, held.shape, held.dtype, held.encoding)
        self._note(self.layers.append("Const", name, [value], [made], {}, Origin()))
        return made

    def emit(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        params: Mapping[str, Param],
        weights: Mapping[str, Tensor | None] | None = None,
        outputs: Sequence[Tensor] | None = None,
    ) -> None:
        """Add the layer that stands for the operation.

        Args:
            type: Type of the layer.
            inputs: Tensors of the source graph.
            params: Attributes.
            weights: Weights by their names in the layer; None is passed over.
            outputs: Tensors of the source graph; default: those of the op.

        Raises:
            UnsupportedOp: If an input is left out, or static and of a type that no layer gives; nothing is
                added then.
        """
        for tensor in inputs:
            self._check(tensor)
        given = self.op.outputs if outputs is None else outputs
        named = self.op.name
        operands = [self._operand(tensor) for tensor in inputs if tensor is not None]
        for name, weight in (weights or {}).items():
            if weight is not None:
                label = f"{named}.{name}"
                operands.append(
                    Tensor(label, weight.shape, weight.dtype, weight.encoding, weight.data, weight.role)
                )
        results = [self.layers.output(tensor) for tensor in given]
        self._note(self.layers.append(type, named, operands, results, params, self.op.origin))

    def _note(self, id: int) -> None:
        for op in (self.op, *self.merged):
            self.layers.made.setdefault(op, []).append(id)

    def problem(self, text: str) -> UnsupportedOp:
        """Return an error about this operation, to be raised."""
        return UnsupportedOp(
            text,
            where=f"op {self.op.name!r} ({self.op.type})",
            fix="write format 4.1, which holds every operation",
            node=self.op.name,
            op=self.op.type,
        )


Inverse = Callable[[Operation], None]
_TABLE: Registry[str, Inverse] = Registry("xdlc.converter.snpe.operations", "translation")


def operation(*types: str) -> Callable[[Inverse], Inverse]:
    """Register a function as the one that makes layers of operations.

    Raises:
        ValueError: If a type is registered twice.
    """
    return _TABLE.register(*types)


def find(op: Op) -> Inverse | None:
    """Return the function for an operation; None if no layer for its type is known from real files."""
    return _TABLE.find(op.type) if op.package == NATIVE_PACKAGE else None


def u32(value: int) -> Param:
    """Return an attribute of type natural."""
    return ir.u32(value)


def ints(values: Sequence[int]) -> Param:
    """Return an attribute that lists whole numbers."""
    import numpy

    return ir.static("", numpy.asarray(values, numpy.int32))
