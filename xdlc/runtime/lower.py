"""Lowering of an IR graph to an ONNX model, for onnxruntime and for export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from xdlc.errors import (
    ModelError,
    UnsupportedOp,
    UsageError,
    XdlcError,
    each_problem,
    nearest_names,
    raise_all,
)
from xdlc.ir import NATIVE_PACKAGE, DType, Graph, Op, Tensor, TensorData
from xdlc.ir.dtype import FLOAT32
from xdlc.ir.graph import is_udo
from xdlc.ir.names import place_of
from xdlc.opdefs.control_flow import called, has_open_rank, reachable
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.shapes.base import verify_shapes
from xdlc.opdefs.verify import verify_op
from xdlc.runtime import qdq
from xdlc.runtime.builder import Builder
from xdlc.runtime.fed_products import fuse_convolutions
from xdlc.runtime.ops import Lowering, find, known_types

IR_VERSION = 10
_UNKNOWN_DIMS = ("NonZero", "NonMaxSuppression")


class Lowered:
    """A graph as ONNX, open for more nodes.

    Attributes:
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
        """The ``onnx.ModelProto`` of everything lowered and added so far."""
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
        """Return the ONNX value with a tensor's float values.

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
                f"has no tensor {tensor!r}",
                where=f"graph {self.graph.name!r}",
                fix=hint or "run `xdlc info --ops` to list tensors",
            )
        orders = self._builder.orders(graph_tensor)
        return self._builder.read(graph_tensor, orders[0] if any_layout and orders else None)

    def values(self, tensor: Tensor) -> tuple[str, ...]:
        """Return the ONNX values of a tensor as floats, first the one of its own op."""
        return self._builder.values(tensor)

    def stored(self, tensor: Tensor) -> str | None:
        """Return the ONNX value of a fixed-point tensor's quantized values, if any."""
        return self._builder.stored(tensor)

    def form(self, tensor: Tensor) -> tuple[str, tuple[int, ...]]:
        """Return the first of ``values`` and its axis order, or an empty name."""
        return self._builder.form(tensor)

    def dtype(self, tensor: Tensor) -> Any:
        """Return the numpy dtype of the ONNX values of a tensor."""
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
        """Inputs for scale, zero point and upper end of adjustable activations."""
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
    """Return whether callers exchange values of this type as float32."""
    return dtype.is_fixed or dtype.name == "bfloat16"


def dims_of(tensor: Tensor, *, ranked: bool = False) -> list[int | None] | None:
    """Return dimensions, None if dynamic; None for a dynamic rank."""
    if has_open_rank(tensor) and not ranked:
        return None
    return [None if axis in tensor.dynamic_axes else size for axis, size in enumerate(tensor.shape)]


def lower(
    graph: Graph,
    *,
    quantized: bool = True,
    native: bool = False,
    outputs: Iterable[str] | None = None,
    graphs: Mapping[str, Graph] | None = None,
    stated: bool = False,
    halves: bool = False,
    adjustable: bool = False,
    udos: Mapping[tuple[str, str], OpDef] | None = None,
) -> Lowered:
    """Return the graph as an ONNX model.

    Args:
        graph: Any graph of QNN operations and host-only ones.
        quantized: Round fixed-point tensors to their encodings (QuantizeLinear and
            DequantizeLinear, which onnxruntime turns into integer kernels).  Otherwise encodings of
            activations are ignored and weights are dequantized.
        native: Keep the types that the graph states, for export; otherwise values are in the types that
            they are computed in.
        outputs: Names of tensors to output in addition to the graph's outputs.
        graphs: The graphs that ops of the graph run, by name; they become graphs inside of the model.
        stated: Round every fixed-point tensor, as the source of its encodings does; otherwise values
            between ops that HTP computes as one are not rounded.
        halves: Round results of float16 as HTP does; otherwise they keep the bits that they are computed in,
            as with the source's own engine.
        adjustable: Make scales and zero points of activations inputs, see ``Lowered.adjusted``.
        udos: Definitions of UDOs by package and type: such ops become nodes of a domain, which
            onnxruntime does not run; without it they cannot be lowered.

    Raises:
        UnsupportedOp: If an op cannot be lowered; several make a ProblemList.
        ModelError: If a tensor has no usable encoding, or the graph reads what nothing produces.
        ConstraintError: If an op states an output that does not follow from its parameters, or one that runs
            other graphs breaks a rule of control flow.
        UsageError: If an extra output is not a tensor of the graph.
    """
    known = {**(graphs or {}), graph.name: graph}
    raise_all([problem for each in reachable(graph, known) for problem in verify_shapes(each)])
    raise_all(verify_control_flow(known, graph))
    extra = check_outputs(graph, outputs)
    b = Builder(graph, quantized=quantized, native=native, graphs=known, stated=stated, halves=halves)
    b.adjusted = {} if adjustable else None
    b.udos = udos
    b.reserve(graph.tensors)
    inputs, infos = _inputs(graph, b)
    lower_ops(graph, b)
    b.release()
    lowered = Lowered(graph, b, inputs, infos)
    for tensor in graph.outputs:
        lowered.add_tensor_output(tensor)
    for name in extra:
        if name not in lowered.outputs:
            lowered.add_tensor_output(graph.tensors[name])
    for tensor, names in lowered.adjusted.items():
        for name, dtype in zip(names, (FLOAT32, tensor.dtype, FLOAT32), strict=True):
            lowered.add_input(name, dtype)
    if adjustable:
        fuse_convolutions(b)
    return lowered


def lower_ops(graph: Graph, b: Builder) -> None:
    """Lower the ops of a graph whose inputs have their values.

    Raises:
        XdlcError: All problems of the ops, together.
    """
    problems: list[XdlcError] = []
    for op in graph.ops:
        problem = _lower_op(graph, op, b)
        if problem is not None:
            problems += each_problem(problem)
            b.invalidate(op)
    b.op = None
    raise_all(problems)


def check_outputs(graph: Graph, outputs: Iterable[str] | None) -> list[str]:
    """Return the names of the tensors to output, without repeats.

    Raises:
        UsageError: If one is not a tensor of the graph.
    """
    names = list(dict.fromkeys(outputs or ()))
    problems: list[XdlcError] = [
        UsageError(
            f"has no tensor {name!r}, which you request as an output",
            where=f"graph {graph.name!r}",
            fix=nearest_names(name, graph.tensors) or "use a name from the list of tensors",
        )
        for name in names
        if name not in graph.tensors
    ]
    raise_all(problems)
    return names


def _inputs(graph: Graph, b: Builder) -> tuple[dict[str, str], list[Any]]:
    from onnx import helper

    names, infos = {}, []
    ranked = b.native and not any(graph.name in called(op) for other in b.graphs.values() for op in other.ops)
    for tensor in graph.inputs:
        name = b.input_name(tensor.name)
        dtype = FLOAT32 if as_float(tensor.dtype) else tensor.dtype
        names[tensor.name] = name
        elements = helper.np_dtype_to_tensor_dtype(dtype.numpy)
        infos.append(helper.make_tensor_value_info(name, elements, dims_of(tensor, ranked=ranked)))
        if b.is_rounded(tensor):
            qdq.check(tensor)
        b.write(tensor, name, dtype=dtype.numpy)
    return names, infos


def _lower_op(graph: Graph, op: Op, b: Builder) -> XdlcError | None:
    function = _function(op, b)
    b.op = op
    if function is None:
        known = [name for package, name in known_types() if package == op.package]
        return UnsupportedOp(
            f"package {op.package!r} has no host implementation of {op.type}",
            where=place_of(op),
            fix=nearest_names(op.type, known)
            or "run it with a user-defined kernel, or cut the graph before it",
        )
    for tensor in op.inputs:
        if tensor is not None and not tensor.is_static and not b.orders(tensor):
            return ModelError(
                f"the op reads {tensor.name!r} before another op writes this tensor",
                where=place_of(op),
            )
    try:
        if b.quantized:
            for tensor in op.outputs:
                if b.is_rounded(tensor):
                    qdq.check(tensor)
        function(op, b)
    except XdlcError as error:
        if error.where is None or error.where.startswith("tensor "):
            place = place_of(op)
            error.where = f"{place}: {error.where}" if error.where else place
        return error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        return _misfit(graph, op, error)
    return None


def _function(op: Op, b: Builder) -> Lowering | None:
    """Return the function that lowers an op."""
    if b.udos is None or not is_udo(op):
        return find(op)
    from xdlc.runtime.export import write_node

    return partial(write_node, definition=b.udos.get((op.package, op.type)))


def _misfit(graph: Graph, op: Op, error: Exception) -> ModelError:
    """Return the error of a failed lowering: the violations of the definition."""
    violations = verify_op(op) if op.package == NATIVE_PACKAGE else []
    return ModelError(
        "; ".join(violations) or f"the inputs and parameters of the op do not fit together ({error})",
        where=place_of(op),
        fix="convert the source model again with xdlc",
    )
