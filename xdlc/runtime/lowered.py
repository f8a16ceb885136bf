"""A lowered graph: the ONNX model of an IR graph, open for more nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import DType, Graph, Op, Tensor, TensorData
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.control_flow import has_open_rank
from xdlc.runtime.builder import Builder

IR_VERSION = 10
_UNKNOWN_DIMS = ("NonZero", "NonMaxSuppression")


class Lowered:
    """A graph as ONNX.

    Attributes:
        graph: The graph it comes from.
        inputs: ONNX input name by name of the graph's input.
        outputs: ONNX output name by name of the tensor; the graph's outputs first, extra ones after.
    """

    def __init__(self, graph: Graph, builder: Builder, inputs: dict[str, str], infos: list[Any]) -> None:
        self.graph = graph
        self.inputs = inputs
        self.outputs: dict[str, str] = {}
        self._builder = builder
        self._input_infos = infos
        self._output_infos: list[Any] = []

    @property
    def initializers(self) -> dict[str, TensorData]:
        """Data of the large initializers by ONNX name.

        The proto holds only their types and shapes, as external data at location ``initializers``.
        """
        return self._builder.initializers

    @property
    def proto(self) -> Any:
        """The ``onnx.ModelProto`` of what has been lowered and added so far."""
        from onnx import helper

        graph = helper.make_graph(
            self._builder.nodes,
            self.graph.name or "graph",
            self._input_infos,
            self._output_infos,
            self._builder.constants,
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*entry) for entry in sorted(self._builder.opsets.items())],
            ir_version=IR_VERSION,
            producer_name="xdlc",
        )

    def value(self, tensor: str, *, any_layout: bool = False) -> str:
        """Return the ONNX value that holds a tensor's float values.

        Args:
            tensor: Name of any tensor of the graph.
            any_layout: Take the axis order that the value has already, which costs no Transpose;
                enough for minima, maxima and histograms.

        Raises:
            UsageError: If the graph has no such tensor.
        """
        graph_tensor = self.graph.tensors.get(tensor)
        if graph_tensor is None:
            hint = nearest_names(tensor, self.graph.tensors)
            raise UsageError(
                f"has no tensor {tensor!r}", where=f"graph {self.graph.name!r}", fix=hint or "see xdlc-info"
            )
        orders = self._builder.orders(graph_tensor)
        return self._builder.read(graph_tensor, orders[0] if any_layout and orders else None)

    def values(self, tensor: Tensor) -> tuple[str, ...]:
        """Return the ONNX values of a tensor as floats, the one of its op first."""
        return self._builder.values(tensor)

    def stored(self, tensor: Tensor) -> str | None:
        """Return the ONNX value of a fixed-point tensor's quantized values, if any."""
        return self._builder.stored(tensor)

    def form(self, tensor: Tensor) -> tuple[str, tuple[int, ...]]:
        """Return the first of ``values`` and its axis order, or an empty name."""
        return self._builder.form(tensor)

    def dtype(self, tensor: Tensor) -> Any:
        """Return the numpy dtype of the ONNX values that hold a tensor."""
        return self._builder.held(tensor)

    def layout(self, tensor: str) -> tuple[int, ...]:
        """Return the axis order of ``value(tensor, any_layout=True)``."""
        found = self.graph.tensors[tensor]
        return next(iter(self._builder.orders(found)), tuple(range(found.rank)))

    def add_node(self, type: str, inputs: Sequence[str], *, count: int = 1, **attrs: Any) -> tuple[str, ...]:
        """Append an ONNX node; return the names of its outputs."""
        return self._builder.nodes_out(type, inputs, count, **attrs)

    def add_constant(self, array: Any) -> str:
        """Return the name of a new initializer."""
        return self._builder.constant(array)

    def inner(self, node: str) -> dict[str, Lowered]:
        """Return the graphs that an ONNX node runs, by its attributes."""
        made = self._builder.inner_graphs.get(node, {})
        return {key: Lowered(inner.graph, inner, {}, []) for key, inner in made.items()}

    def op_of(self, node: str) -> Op | None:
        """Return the op that an ONNX node was made for, or None."""
        return self._builder.node_ops.get(node)

    @property
    def adjusted(self) -> dict[Tensor, tuple[str, str, str]]:
        """The inputs for scale, zero point and upper end of adjustable activations."""
        return self._builder.adjusted or {}

    def add_input(self, name: str, dtype: DType) -> None:
        """Make a value that nodes read a scalar input under its own name."""
        from onnx import helper

        elements = helper.np_dtype_to_tensor_dtype(dtype.numpy)
        self._input_infos.append(helper.make_tensor_value_info(name, elements, []))
        self.inputs[name] = name

    def add_output(
        self, name: str, value: str, dtype: DType, shape: Sequence[int | None] | None = None
    ) -> None:
        """Make an ONNX value an output of the model.

        Args:
            name: Key of the result; must be free.
            value: ONNX value name.
            dtype: Its type.
            shape: Its shape, None for unknown dimensions; default: unknown.

        Raises:
            UsageError: If an output has that name.
        """
        from onnx import helper

        if name in self.outputs:
            raise UsageError(f"two outputs are named {name!r}", where=f"graph {self.graph.name!r}")
        onnx_name = self._builder.name(name)
        self._builder.nodes.append(
            helper.make_node("Identity", [value], [onnx_name], name=f"{onnx_name}~out")
        )
        self.outputs[name] = onnx_name
        elements = helper.np_dtype_to_tensor_dtype(dtype.numpy)
        self._output_infos.append(helper.make_tensor_value_info(onnx_name, elements, shape))

    def add_shift(self, tensor: str) -> str:
        """Add a new input to a tensor; return the key of the input.

        All that reads the tensor reads the sum.  The input has the axis order of ``layout(tensor)``,
        and dynamic dimensions: a single zero leaves the tensor as it is.

        Args:
            tensor: A float32 tensor that an op computes or the graph has as input, and no inner graph reads.
        """
        from onnx import TensorProto, helper

        value = self.form(self.graph.tensors[tensor])[0]
        key = f"shift:{tensor}"
        name = self.inputs[key] = self._builder.name(key)
        dims = [None] * self.graph.tensors[tensor].rank
        self._input_infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        nodes = self._builder.nodes
        readers = [node for node in nodes if value in node.input]
        (total,) = self.add_node("Add", [value, name])
        made = [index for index, node in enumerate(nodes) if value in node.output]
        nodes.insert(made[0] + 1 if made else 0, nodes.pop())
        for node in readers:
            node.input[:] = [total if read == value else read for read in node.input]
        return key

    def add_tensor_output(self, tensor: Tensor) -> None:
        """Make a tensor an output; fixed point and bfloat16 become float32."""
        b = self._builder
        value = b.read(tensor, dtype=b.held(tensor))
        dtype = FLOAT32 if as_float(tensor.dtype) else tensor.dtype
        if dtype.numpy != b.held(tensor):
            value = b.cast(value, dtype.numpy)
        unknown = tensor.producer is not None and tensor.producer.type in _UNKNOWN_DIMS
        self.add_output(tensor.name, value, dtype, None if unknown else dims_of(tensor))


def as_float(dtype: DType) -> bool:
    """Return whether the boundary has float32 for values of this type."""
    return dtype.is_fixed or dtype.name == "bfloat16"


def dims_of(tensor: Tensor, *, ranked: bool = False) -> list[int | None] | None:
    """Return dimensions, None if dynamic; None for a dynamic rank."""
    if has_open_rank(tensor) and not ranked:
        return None
    return [None if axis in tensor.dynamic_axes else size for axis, size in enumerate(tensor.shape)]
