"""Emitter of the ops of one source node at a time, with the source's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdlc import ir
from xdlc.converter.values import (
    FILLS_LIMIT,
    LIST_LIMIT,
    TABLE_LIMIT,
    TABLES_LIMIT,
    Value,
    check_shape,
    check_table,
)
from xdlc.errors import UnsupportedOp
from xdlc.ir import DType, Graph, Origin, Param, Tensor
from xdlc.ir.dtype import FLOAT32

_CONVERSIONS = ("Cast", "Quantize", "Dequantize", "Reinterpret")


class RecordedNames(NamedTuple):
    """Names that the source records for an op.

    Attributes:
        type: Its type; empty if that is not recorded.
        statics: Names of its static operands in order; empty if they are not recorded.
        node: The source node that the op was made for.
    """

    name: str
    type: str
    statics: tuple[str, ...] = ()
    node: str = ""


class Emitter:
    """Adds ops to a graph on behalf of one source node at a time.

    Attributes:
        graph: The graph under construction.
        noted: What the source notes of the op of that node, until an op has the name; None otherwise.
        base: What names of its other ops begin with, if not with its own name.
        stem: What names of its constants begin with.
        stored: Fixed-point tensors by the float tensor, in no graph, that stands for each; ops read them.
        restored: Results of a Dequantize by the fixed-point tensor that it reads.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.stored: dict[Tensor | None, Tensor] = {}
        self.restored: dict[Tensor, Tensor] = {}
        self._standing: dict[Tensor, Tensor] = {}
        self.node = ""
        self._laid_out = 0
        self._filled = 0

    @property
    def node(self) -> str:
        """Name of the source node being imported."""
        return self._node

    @node.setter
    def node(self, name: str) -> None:
        self._node = self.stem = name
        self.noted: RecordedNames | None = None
        self.base: str | None = None

    def begin(self, node: str, noted: RecordedNames | None = None) -> None:
        """Work for another source node, of whose op the source may record names."""
        self.node = node
        if noted is not None:
            self.noted = noted
            self.base = self.stem = noted.node

    def standing(self, fixed: Tensor) -> Tensor:
        """Return the float tensor that stands for a fixed-point tensor."""
        tensor = self._standing.get(fixed)
        if tensor is None:
            tensor = Tensor(fixed.name, fixed.shape, FLOAT32, dynamic_axes=fixed.dynamic_axes)
            self._standing[fixed], self.stored[tensor] = tensor, fixed
        return tensor

    def emit(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        shape: Sequence[int],
        dtype: DType,
        params: Mapping[str, Param] | None = None,
        *,
        encoding: ir.Encoding | None = None,
        package: str = ir.NATIVE_PACKAGE,
        why: str | None = None,
    ) -> Tensor:
        """Append an op with one output and return the output.

        Args:
            type: QNN operation name.
            inputs: Tensors by position; None leaves an optional one out.
            dtype: Data type of the output.
            encoding: Encoding of a quantized output.
            why: Reason, for an op that the source model does not have.
        """
        return self.emit_many(
            type, inputs, [(shape, dtype)], params, encodings=[encoding], package=package, why=why
        )[0]

    def emit_many(
        self,
        type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[tuple[Sequence[int], DType]],
        params: Mapping[str, Param] | None = None,
        *,
        encodings: Sequence[ir.Encoding | None] | None = None,
        package: str = ir.NATIVE_PACKAGE,
        why: str | None = None,
    ) -> list[Tensor]:
        """Append an op with several outputs, given as (shape, dtype), and return them."""
        if self.stored:
            inputs = [self.stored.get(tensor, tensor) for tensor in inputs]
        for tensor in inputs:
            if tensor is not None and tensor.is_static:
                self._linked(tensor)
        for shape, dtype in outputs:
            check_shape(self.node, shape, dtype)
        noted = self.noted
        name = self.new_op_name(type, inserted=why is not None)
        if noted is not None and noted.name == name:
            self._name_statics(inputs, noted.statics)
        results = [
            Tensor(
                self.graph.unique_name(f"{name}_out{index}" if len(outputs) > 1 else f"{name}_out"),
                tuple(shape),
                dtype,
                encodings[index] if encodings else None,
            )
            for index, (shape, dtype) in enumerate(outputs)
        ]
        origin = Origin((self.node,) if self.node else (), why)
        self.graph.append(
            ir.make_op(self.graph, type, inputs, results, params, name=name, package=package, origin=origin)
        )
        return results

    def _name_statics(self, operands: Sequence[Tensor | None], names: Sequence[str]) -> None:
        """Name static operands; keep the old name where the new one is not free."""
        statics = [tensor for tensor in operands if tensor is not None and tensor.is_static]
        for tensor, name in zip(statics, names, strict=False):
            if name not in self.graph.tensors:
                self.graph.rename(tensor, name)

    def new_op_name(self, type: str, *, inserted: bool = False) -> str:
        """Return the name of the next op: the recorded one if free, else the node's."""
        base = self.base or self.node or type
        if inserted or self.noted is None:
            return self.graph.unique_name(base)
        name, kind, *_ = self.noted
        if type != kind:  # an op beside it
            return self.graph.unique_name(
                f"{name}~" if type in _CONVERSIONS and kind not in _CONVERSIONS else base
            )
        self.noted, self.base = None, f"{name}~"
        return name if self.graph.unique_name(name) == name else self.graph.unique_name(base)

    def adopt(self, value: Value, name: str) -> None:
        """Name the op of a result as recorded, unless another op of its type has the name.

        It may also be an inserted op of an earlier node, which has computed the result already.

        Args:
            value: The result of the node.
            name: What the source calls it.
        """
        op, graph, noted = value.tensor.producer, self.graph, self.noted
        if (
            noted is None
            or op is None
            or op.graph is not graph
            or graph.unique_name(noted.name) != noted.name
        ):
            return
        if op.is_inserted and op.type == noted.type and name not in graph.tensors:
            graph.rename(value.tensor, name)
        elif op.is_inserted or op.origin.nodes[-1:] != (self.node,) or op.type in _CONVERSIONS:
            return
        graph.rename_op(op, noted.name)
        self.noted = None

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that removes everything added after this call."""
        graph, mark = self.graph, self.graph.mark()
        noted, base = self.noted, self.base

        def rollback() -> None:
            graph.retract(mark)
            self.noted, self.base = noted, base

        return rollback

    def _linked(self, tensor: Tensor) -> Tensor:
        """Add a static tensor to the graph under a free name, if it is not there yet."""
        if self.graph.tensors.get(tensor.name) is not tensor:
            tensor.name = self.graph.unique_name(tensor.name)
            self.graph.add_tensor(tensor)
        return tensor

    def check_table(self, *dims: int) -> None:
        """Refuse a table that a small model requests, once all tables are large.

        Raises:
            UnsupportedOp: If it is too large; the host may compute it when the graph runs.
        """
        check_table(*dims)
        count = math.prod(dims)
        if self._laid_out + count > TABLES_LIMIT:
            raise UnsupportedOp(
                f"the node needs a table of {count} elements; other tables already have {self._laid_out}"
            )
        self._laid_out += count

    def takes_fill(self, data: ir.TensorData) -> bool:
        """Return whether repeated elements are few enough, all of the model together.

        They are made when they are written, and not held together: weights of test models are such.
        Importers look at the elements of lists, like scales and statistics, and at integers.
        """
        limit = (
            LIST_LIMIT if len(data.shape) < 2 else TABLE_LIMIT if data.dtype.kind in "iub" else FILLS_LIMIT
        )
        fits = math.prod(data.shape) <= limit and self._filled + data.nbytes <= FILLS_LIMIT
        self._filled += data.nbytes if fits else 0
        return fits
