"""Builder of lowerings: maps values of the IR to ONNX nodes.

A tensor's value exists as float values and, where the graph runs quantized, as quantized values, and
each in any axis order requested.  Layout changes happen on the integers, so that onnxruntime finds
DequantizeLinear - op - QuantizeLinear next to each other and runs its integer kernels.

Numbers are computed in: float32 for float16, bfloat16, float32 and fixed point; int32 for integers of 8 and
16 bits; int64 for uint32 and 64-bit integers; for onnxruntime has few CPU kernels for others.  Results of
bfloat16 are rounded, those of float16 on demand.  The types of graph inputs and outputs change at the
boundary.  For export, float16 stays: onnxruntime converts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir import AxisScaleOffset, Graph, Op, Tensor, TensorData
from xdlc.ir.dtype import FLOAT16
from xdlc.ir.names import place_of
from xdlc.ir.quantization import encoding_of, float_data, unpacked
from xdlc.opdefs.model import OpDef
from xdlc.runtime import qdq
from xdlc.runtime.onnx_emitter import OnnxEmitter, Perm, compute_dtype

Array = Any  # numpy.ndarray


class Builder(OnnxEmitter):
    """Collects the ONNX nodes of lowered ops, and the values of their tensors.

    Args:
        quantized: Whether fixed-point tensors are rounded to their encodings.
        native: Whether values between ops keep the types that the graph states, float16 while they are
            computed too; ops read integers in the type that they are computed in.
        graphs: The graphs that ops may run, by name.
        stated: Whether every fixed-point tensor is rounded, also where HTP would not.
        halves: Whether results of float16 are rounded.
        outer: The builder of the graph around this one.
        nodes: Where nodes go; see ``OnnxEmitter``.

    Attributes:
        inner_graphs: What the graphs in attributes of a node were made by, by node and attribute.
        adjusted: Names of the inputs for scale, zero point and upper end by tensor; None where these are
            constants.
        udos: Definitions of UDOs by package and type; None without kernels of these.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        quantized: bool,
        native: bool = False,
        graphs: Mapping[str, Graph] | None = None,
        stated: bool = False,
        halves: bool = False,
        outer: Builder | None = None,
        nodes: list[Any] | None = None,
    ) -> None:
        super().__init__(outer, nodes)
        self.graph = graph
        self.quantized = quantized
        self.native = native
        self.graphs = graphs or {}
        self.inner_graphs: dict[str, dict[str, Builder]] = outer.inner_graphs if outer else {}
        self.stated = stated
        self.halves = halves
        self.adjusted: dict[Tensor, tuple[str, str, str]] | None = None
        self.udos: Mapping[tuple[str, str], OpDef] | None = None
        self._float: dict[Tensor, dict[Perm, str]] = {}
        self._stored: dict[Tensor, dict[Perm, str]] = {}
        self._unrounded: dict[Tensor, tuple[Perm, str]] = {}
        self._views: set[Tensor] = set()
        self._converted: dict[tuple[Tensor, Perm, str], str] = {}

    def inner(self, graph: Graph, nodes: list[Any] | None = None) -> Builder:
        """Return a builder for a graph that the current op runs.

        Names are unique across both; constants go to the outermost graph, which all inside can read.

        Args:
            nodes: Where its nodes go, which then belong to the current op; default: a list of their own.
        """
        inner = Builder(
            graph,
            quantized=self.quantized,
            native=self.native,
            graphs=self.graphs,
            stated=self.stated,
            halves=self.halves,
            outer=self,
            nodes=nodes,
        )
        inner.udos = self.udos
        return inner

    def initializer(self, hint: str, data: TensorData) -> str:
        """Return the name of an initializer for ``data``, or of a static tensor."""
        tensor = self.graph.tensors.get(hint)
        if tensor is not None and tensor.is_static and not self._is_inner:
            self._reserved.discard(hint)
        return super().initializer(hint, data)

    def like(self, tensor: Tensor, value: float) -> str:
        """Return a scalar constant of the type that ``tensor`` is computed in."""
        return self.constant(value, self.dtype(tensor))

    def note_inner(self, **graphs: Builder) -> None:
        """Record the builders of the last node's sub-graphs, by attribute."""
        self.inner_graphs[self.nodes[-1].name] = graphs

    def dtype(self, tensor: Tensor) -> Any:
        """Return the numpy dtype that ``tensor`` is computed in."""
        if self.native and tensor.dtype.name == "float16":
            return tensor.dtype.numpy
        return compute_dtype(tensor.dtype)

    def held(self, tensor: Tensor) -> Any:
        """Return the numpy dtype of the values of ``tensor`` between ops."""
        return tensor.dtype.numpy if self.native and tensor.dtype.is_integer else self.dtype(tensor)

    def is_rounded(self, tensor: Tensor) -> bool:
        """Return whether values of ``tensor`` are rounded to its encoding."""
        return self.quantized and tensor.dtype.is_fixed and tensor.dtype.bits <= 16

    def read(
        self,
        tensor: Tensor,
        perm: Sequence[int] | None = None,
        *,
        dtype: Any = None,
        rounded: bool = True,
    ) -> str:
        """Return the ONNX value of ``tensor`` as float values.

        Args:
            tensor: Any tensor that exists already: static, input, or output of an earlier op.
            perm: Axis order of the value: its axis i is axis ``perm[i]`` of the tensor.
            dtype: Numpy dtype of the value; default: the one ``tensor`` is computed in.
            rounded: Whether the value is rounded to the tensor's encoding where the graph runs
                quantized; False for ops that HTP computes as one with the op before, which counts
                unless the encodings are ``stated``.

        Raises:
            ModelError: If a static tensor has no usable encoding.
        """
        order = tuple(range(tensor.rank)) if perm is None else tuple(perm)
        if not rounded and not self.stated and tensor in self._unrounded:
            have, value = self._unrounded[tensor]
            return self._reordered(tensor, {have: value}, order)
        target = self.dtype(tensor) if dtype is None else dtype
        converted = target != self.held(tensor)
        if converted and tensor.is_static and not tensor.dtype.is_fixed:
            return self._static_as(tensor, order, target)
        by_order = self._float.setdefault(tensor, {})
        if order not in by_order:
            by_order[order] = self._make_float(tensor, order)
        return self.cast(by_order[order], target) if converted else by_order[order]

    def _static_as(self, tensor: Tensor, order: Perm, dtype: Any) -> str:
        """Return static data in another type, converted once and without a node."""
        key = (tensor, order, str(dtype))
        if key not in self._converted:
            data = unpacked(tensor).cast(dtype).transpose(order)
            self._converted[key] = self.initializer(tensor.name, data)
        return self._converted[key]

    def orders(self, tensor: Tensor) -> tuple[Perm, ...]:
        """Return the axis orders that values of ``tensor`` exist in, the first made first."""
        if tensor not in self._stored and tensor in self._unrounded:
            return (self._unrounded[tensor][0],)
        return tuple(self._stored.get(tensor) or self._float.get(tensor) or ())

    def values(self, tensor: Tensor) -> tuple[str, ...]:
        """Return the ONNX values of ``tensor`` as floats, first the one of its own op."""
        unrounded = (self._unrounded[tensor][1],) if tensor in self._unrounded else ()
        return (*unrounded, *self._float.get(tensor, {}).values())

    def form(self, tensor: Tensor) -> tuple[str, Perm]:
        """Return the first of ``values`` and its axis order, or an empty name."""
        if tensor in self._unrounded:
            order, value = self._unrounded[tensor]
            return value, order
        return next(((value, order) for order, value in self._float.get(tensor, {}).items()), ("", ()))

    def _make_float(self, tensor: Tensor, order: Perm) -> str:
        if tensor.is_static:
            return self._make_static(tensor, order)
        if self._stored_forms(tensor):
            return qdq.dequantize(self, self.read_stored_as(tensor, order), tensor, order)
        held = self._float.get(tensor)
        if not held:
            raise KeyError(f"tensor {tensor.name!r} has no value yet")
        return self._reordered(tensor, held, order)

    def _stored_forms(self, tensor: Tensor) -> dict[Perm, str] | None:
        """Return the quantized values of ``tensor`` by axis order, computed once."""
        if tensor not in self._stored and tensor in self._unrounded:
            order, value = self._unrounded[tensor]
            reader, self.op = self.op, tensor.producer
            self._stored[tensor] = {order: qdq.quantize(self, value, tensor, order)}
            self.op = reader
        return self._stored.get(tensor)

    def _reordered(self, tensor: Tensor, held: dict[Perm, str], order: Perm) -> str:
        """Return a value in another axis order, the node of a Transpose if that is it."""
        have, value = next(iter(held.items()))
        reader = self.op
        if tensor in self._views and order == tuple(range(tensor.rank)):
            self.op = tensor.producer
        made = self.transpose(value, [have.index(axis) for axis in order])
        self.op = reader
        return made

    def _make_static(self, tensor: Tensor, order: Perm) -> str:
        if tensor.dtype.is_fixed:
            encoding_of(tensor)
            on_floats = self._is_read_as_floats(tensor)
            value = None
            if self.quantized and (self.native or not on_floats):  # else the node would run each time
                value = qdq.static(self, tensor, order, any_zeros=on_floats)
            if value is None:
                value = self.initializer(tensor.name, float_data(tensor).transpose(order))
            results = [] if self.op is None else [result.dtype for result in self.op.outputs]
            return self.cast(value, FLOAT16.numpy) if self.native and FLOAT16 in results else value
        data = unpacked(tensor).cast(self.held(tensor))
        return self.initializer(tensor.name, data.transpose(order))

    def _is_read_as_floats(self, tensor: Tensor) -> bool:
        """Return whether only ops on floats read static integers."""
        computed = [
            value
            for op in self.graph.consumers(tensor)
            for value in (*op.inputs, *op.outputs)
            if value is not None and not value.is_static
        ]
        return bool(computed) and not any(value.dtype.is_fixed for value in computed)

    def write(
        self, tensor: Tensor, value: str, perm: Sequence[int] | None = None, *, dtype: Any = None
    ) -> None:
        """Make ``value`` the value of ``tensor``, rounded if the graph is quantized.

        Args:
            perm: Axis order that the value is in, as for :meth:`read`.
            dtype: Numpy dtype of the value; default: the one ``tensor`` is computed in.

        Raises:
            ModelError: If the value has another number of axes than the tensor.
        """
        order = tuple(range(tensor.rank)) if perm is None else tuple(perm)
        if len(order) != tensor.rank:
            raise ModelError(
                f"the op computes {len(order)} axes of {tensor.name!r}, whose shape is {list(tensor.shape)}"
            )
        held = self.held(tensor)
        computed = self.dtype(tensor) if dtype is None else dtype
        if computed != held:
            value = self.cast(value, held)
        if self.is_rounded(tensor):
            if qdq.has_form(tensor):
                self._unrounded[tensor] = order, value
                return
            value = qdq.rounded(self, value, tensor, order)
        elif self._is_narrow(tensor) and tensor.dtype.numpy != computed:
            value = self.rounded(value, tensor)
        self._float[tensor] = {order: value}

    def _is_narrow(self, tensor: Tensor) -> bool:
        """Return whether results are rounded to the float type of ``tensor``."""
        return tensor.dtype.name == "bfloat16" or (self.halves and tensor.dtype.name == "float16")

    def rounded(self, value: str, tensor: Tensor) -> str:
        """Return a computed value in the plain type of ``tensor``; float16 saturates."""
        if self.halves and tensor.dtype.name == "float16":
            largest = numpy.array(numpy.finfo(numpy.float16).max, self.dtype(tensor))
            value = self.node("Clip", [value, self.constant(-largest), self.constant(largest)])
        return self.cast(self.cast(value, tensor.dtype.numpy), self.dtype(tensor))

    def wrapped(self, value: str, tensor: Tensor) -> str:
        """Return a computed value with integers wrapped to the type of ``tensor``.

        For ops that can leave the range of a type that is computed in a wider one.
        """
        stated = tensor.dtype
        if self.native or not stated.is_integer or stated.numpy.itemsize == self.dtype(tensor).itemsize:
            return value
        return self.rounded(value, tensor)

    def round(self, tensor: Tensor) -> None:
        """Round a tensor here instead of before its first reader."""
        self._stored_forms(tensor)

    def read_stored(self, tensor: Tensor) -> tuple[str, Perm]:
        """Return the quantized values of a rounded tensor and their axis order."""
        self._stored_forms(tensor)
        order, value = next(iter(self._stored[tensor].items()))
        return value, order

    def read_stored_as(self, tensor: Tensor, order: Perm) -> str:
        """Return the quantized values of a rounded tensor in an axis order."""
        self._stored_forms(tensor)
        held = self._stored[tensor]
        if order not in held:
            held[order] = self._reordered(tensor, held, order)
        return held[order]

    def write_stored(self, tensor: Tensor, value: str, perm: Perm) -> None:
        """Set the quantized values of a rounded tensor."""
        self._stored[tensor] = {perm: value}

    def stored(self, tensor: Tensor) -> str | None:
        """Return the first ONNX value with quantized values of ``tensor``, or None."""
        return next(iter(self._stored.get(tensor, {}).values()), None)

    def write_view(self, tensor: Tensor, source: Tensor, perm: Sequence[int]) -> None:
        """Make ``tensor`` a permuted ``source``, without a node if possible.

        What exists of ``source`` is used as it is, under the axis order that it is in for ``tensor``:
        a Transpose costs nothing until somebody reads the other order.

        Args:
            perm: Axis i of ``tensor`` is axis ``perm[i]`` of ``source``.
        """
        same = tensor.dtype is source.dtype and tensor.encoding == source.encoding
        forms = None
        if same and not source.is_static:
            forms = self._stored_forms(source) or self._float.get(source)
        if not forms or isinstance(tensor.encoding, AxisScaleOffset):
            self.write(tensor, self.read(source, perm, dtype=self.held(source)), dtype=self.held(source))
            return
        held = {tuple(perm.index(axis) for axis in order): value for order, value in forms.items()}
        (self._stored if source in self._stored else self._float)[tensor] = held
        self._views.add(tensor)

    def write_reshaped(self, tensor: Tensor, value: str, shape: Sequence[int]) -> None:
        """Make ``value`` the value of ``tensor``, its shape changed after rounding."""
        if self.is_rounded(tensor) and qdq.has_form(tensor) and qdq.is_per_tensor(tensor):
            order = tuple(range(tensor.rank))
            stored = qdq.quantize(self, value, tensor, order)
            self._stored[tensor] = {order: self.reshape(stored, shape)}
        else:
            self.write(tensor, self.reshape(value, shape))

    def invalidate(self, op: Op) -> None:
        """Set dummy outputs for an op that cannot be lowered, so that the rest is checked."""
        for tensor in op.outputs:
            self._float[tensor] = {tuple(range(tensor.rank)): self.name("missing")}

    def unsupported(self, problem: str, fix: str | None = None) -> UnsupportedOp:
        """Return the error for a part of the current op that cannot be lowered."""
        place = f"graph {self.graph.name!r}" if self.op is None else place_of(self.op)
        return UnsupportedOp(problem, where=place, fix=fix)
