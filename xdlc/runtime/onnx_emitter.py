"""Emitter of ONNX nodes: names of nodes and values, and constants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import ArrayData, DType, Op, TensorData, packed
from xdlc.ir.names import FreeNames
from xdlc.runtime.host_kernels import HOST_OPSET

EMBED_LIMIT = 1024
"""Initializers above this many bytes stay outside of the protobuf."""


Perm = tuple[int, ...]


def compute_dtype(dtype: DType) -> Any:
    """Return the numpy dtype that values of a QNN type are computed in.

    Raises:
        ModelError: For strings and the undefined type.
    """
    if dtype.kind == "bool":
        return numpy.dtype(numpy.bool_)
    if dtype.kind in ("string", "undefined"):
        raise ModelError(f"the host cannot compute values of type {dtype}")
    if dtype.is_integer:
        wide = dtype.bits == 64 or dtype.name == "uint32"
        return numpy.dtype(numpy.int64 if wide else numpy.int32)
    return numpy.dtype(numpy.float64 if dtype.name == "float64" else numpy.float32)


def channels_first(rank: int) -> Perm:
    """Return the axis order that makes channel-last values channel-first."""
    return (0, rank - 1, *range(1, rank - 1))


class OnnxEmitter:
    """Appends ONNX nodes on behalf of one op at a time.

    Attributes:
        op: The op that nodes are appended for; None before the first.
        constants: The initializers so far, of the outermost graph.
        initializers: Data of those that stay outside of the protobuf, by name.
        node_ops: The op of each node, by the node's name.
        opsets: Versions of operator domains that the model needs.

    Args:
        outer: What emits the graph around this one; names are unique across both, and constants go to the
            outermost graph, which all inside can read.
    """

    def __init__(self, outer: OnnxEmitter | None = None, nodes: list[Any] | None = None) -> None:
        self.op: Op | None = None
        self.nodes: list[Any] = [] if nodes is None else nodes
        self._owner = None if outer is None or nodes is None else outer.op
        self._is_inner = outer is not None
        self.constants: list[Any] = outer.constants if outer else []
        self.initializers: dict[str, TensorData] = outer.initializers if outer else {}
        self.node_ops: dict[str, Op | None] = outer.node_ops if outer else {}
        self.opsets: dict[str, int] = outer.opsets if outer else {"": HOST_OPSET}
        self._taken: set[str] = outer._taken if outer else set()
        self._reserved: set[str] = outer._reserved if outer else set()
        self._free_name: FreeNames = (
            outer._free_name if outer else FreeNames(self._taken, self._reserved, mark="~")
        )
        self._free_label: FreeNames = outer._free_label if outer else FreeNames(self.node_ops, mark="~")
        self._shared: dict[tuple[str, tuple[int, ...], bytes], str] = outer._shared if outer else {}

    def name(self, hint: str) -> str:
        """Return a free ONNX value name like ``hint``."""
        base = hint or "value"
        free = self._free_name(base)
        self._taken.add(free)
        return free

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve the names of the graph's tensors for the values that represent them."""
        self._reserved.update(names)

    def release(self) -> None:
        """Let reserved names be used: all ops are lowered."""
        self._reserved.clear()

    def input_name(self, name: str) -> str:
        """Return the ONNX name of a graph input: its own, unless that is empty."""
        self._reserved.discard(name)
        return self.name(name)

    def node(self, type: str, inputs: Sequence[str], *, domain: str = "", **attrs: Any) -> str:
        """Append an ONNX node of one output; return the output's name.

        Attributes that are None are omitted; an empty input name omits an optional input.
        """
        return self.nodes_out(type, inputs, 1, domain=domain, **attrs)[0]

    def nodes_out(
        self, type: str, inputs: Sequence[str], count: int | Sequence[bool], *, domain: str = "", **attrs: Any
    ) -> tuple[str, ...]:
        """Append an ONNX node; return the names of its outputs.

        Args:
            inputs: Names of values; an empty one leaves an input out.
            count: Number of outputs, or for each whether it is wanted; others get the name ``""``.
            attrs: Attributes; those that are None are omitted.
        """
        from onnx import helper

        owner = self._owner or self.op
        base = owner.name if owner else "graph"
        hint = self.op.outputs[0].name if self.op and self.op.outputs else base
        wanted = [True] * count if isinstance(count, int) else count
        outputs = tuple(self.name(f"{hint}~") if one else "" for one in wanted)
        label = self._free_label(base)
        self.node_ops[label] = owner
        given = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(helper.make_node(type, list(inputs), outputs, name=label, domain=domain, **given))
        return outputs

    def require_opset(self, domain: str, version: int) -> None:
        """Require at least this version of an operator domain."""
        self.opsets[domain] = max(version, self.opsets.get(domain, 0))

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of an initializer for ``value``; equal small ones are shared."""
        array = numpy.asarray(value, dtype)
        key = (array.dtype.name, array.shape, array.tobytes() if array.nbytes <= EMBED_LIMIT else b"")
        if array.nbytes > EMBED_LIMIT:
            return self.initializer("constant", ArrayData(array))
        if key not in self._shared:
            self._shared[key] = self.initializer("constant", ArrayData(array))
        return self._shared[key]

    def ints(self, *values: int) -> str:
        """Return a constant int64 vector: shapes, axes, pads."""
        return self.constant(numpy.asarray(values, numpy.int64))

    def initializer(self, hint: str, data: TensorData) -> str:
        """Return the name of an initializer for ``data``, similar to ``hint``."""
        from onnx import TensorProto, helper, numpy_helper

        name = self.name(hint)
        shape = data.shape
        if data.nbytes <= EMBED_LIMIT:
            array = numpy.ascontiguousarray(data.numpy()).reshape(data.shape)
            self.constants.append(numpy_helper.from_array(array, name))
            return name
        element = helper.np_dtype_to_tensor_dtype(data.dtype)
        if element in (TensorProto.INT4, TensorProto.UINT4):
            data = packed(data)
        proto = TensorProto(
            name=name,
            data_type=element,
            dims=shape,
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", "initializers"), ("offset", "0"), ("length", str(data.nbytes))):
            proto.external_data.add(key=key, value=value)
        self.constants.append(proto)
        self.initializers[name] = data
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """Return ``value`` converted to a numpy dtype."""
        from onnx import helper

        return self.node("Cast", [value], to=helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype)))

    def transpose(self, value: str, perm: Sequence[int]) -> str:
        """Return ``value`` with permuted axes; no node is added for the identity."""
        if tuple(perm) == tuple(range(len(perm))):
            return value
        return self.node("Transpose", [value], perm=list(perm))

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Return ``value`` under another shape."""
        return self.node("Reshape", [value, self.ints(*shape)], allowzero=1 if 0 in shape else None)
