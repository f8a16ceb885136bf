"""Fusion of float operations between borders into fixed point."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType

from xdlc import ir
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE, Graph, Op, Origin, Tensor, make_op
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.opdefs.model import OpDef
from xdlc.passes._fixed_point_plan import BORDERS, Plan, form_of
from xdlc.passes._match import is_reinterpret, is_type, turn_into
from xdlc.passes._static_fixed_point import store
from xdlc.passes.base import graph_pass


@graph_pass(
    stage="converter",
    after=("fold_transpose_into_fully_connected", "shift_signed"),
    needs=(*BORDERS, "Reinterpret", ir.Dequantized),
)
def fold_quantize_dequantize(
    graph: Graph,
    *,
    io: bool = True,
    udos: Mapping[tuple[str, str], Sequence[OpDef]] = MappingProxyType({}),
) -> bool:
    """Set the encodings that Quantize, Dequantize and Reinterpret state.

    An operation becomes one on fixed point if every float operand is dequantized, static data that are
    stored as integers, or the result of such an operation, if every float result is quantized or has its
    operand's values, and if HTP takes the operation in fixed point at least as well as on floats.
    Operations that move values, and those that cut them off, take over the encoding of their result or
    of their operand.  What every reader rounds in the same way is rounded by its producer, up to the
    inputs of the graph.  Results stay what they were to the last bit: whatever reads the unrounded values
    still gets them, and between regions of different kinds Quantize, Dequantize and Convert remain.

    Args:
        io: Whether inputs and outputs of the graph may become fixed point; not so for a graph that
            another one runs, whose values must be of the same types on both sides.
        udos: Definitions of UDOs by package and type, one for each backend, which state what of them is
            fixed point; others stay float.
    """
    plan = Plan(graph, io, udos)
    plan.decide(list(graph.ops))
    return _Rewriting(graph, plan).run()


class _Rewriting:
    """Edits a graph to a plan."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.changed = False
        self._reals: dict[Tensor, Tensor] = {}
        self._plain: dict[Tensor, DType] = {}
        self._statics: dict[Hashable, Tensor] = {}

    def run(self) -> bool:
        plan, graph = self.plan, self.graph
        ops = list(graph.ops)
        for tensor in graph.inputs:
            self._store(tensor)
        for op in ops:
            if op in plan.fixed:
                self._fix(op, plan.fixed[op])
            elif is_type(op, *BORDERS) or is_reinterpret(op) or _recodes(op):
                self._meet(op)
            else:
                self._keep(op)
        for op in reversed(ops):
            if op.graph is graph and (is_type(op, *BORDERS) or is_reinterpret(op)):
                self._leave(op)
        return self.changed

    def _store(self, tensor: Tensor) -> None:
        """Make a tensor that the plan stores itself fixed point."""
        form = self.plan.forms.get(tensor)
        if form is not None and tensor not in self.plan.holders and not tensor.dtype.is_fixed:
            self._plain[tensor] = tensor.dtype
            tensor.dtype, tensor.encoding = form
            self.changed = True

    def _fix(self, op: Op, statics: dict[int, Tensor]) -> None:
        """Let an op read and write fixed point."""
        if statics:
            store(self.graph, op, statics, self._statics)
            self.changed = True
        reals = self.plan.reals.get(op, ())
        inputs = [
            self._real(tensor) if tensor is not None and tensor in reals else self._stored(tensor)
            for tensor in op.inputs
        ]
        self._read(op, inputs)
        for tensor in op.outputs:
            self._store(tensor)

    def _stored(self, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else self.plan.holder(tensor)

    def _read(self, op: Op, inputs: Sequence[Tensor | None]) -> None:
        if list(inputs) != list(op.inputs):
            self.graph.set_inputs(op, inputs)
            self.changed = True

    def _keep(self, op: Op) -> None:
        """Let an op on floats read floats."""
        if not any(tensor in self.plan.forms for tensor in op.inputs if tensor is not None):
            return
        self._read(op, [None if tensor is None else self._real(tensor) for tensor in op.inputs])

    def _real(self, tensor: Tensor) -> Tensor:
        """Return the plain values of a quantized tensor, restored at the first use."""
        if tensor not in self.plan.forms or tensor in self.plan.holders:
            return tensor
        if tensor not in self._reals:
            graph, plain = self.graph, self._plain[tensor]
            is_real = plain is FLOAT32
            name = graph.unique_name(f"{tensor.name}_{'float' if is_real else plain}")
            restored = Tensor(name, tensor.shape, plain, dynamic_axes=tensor.dynamic_axes)
            nodes = tensor.producer.origin.nodes if tensor.producer is not None else ()
            origin = Origin(nodes, f"operations on {'reals' if is_real else 'integers'} read {tensor.name!r}")
            type, package = ("Dequantize", NATIVE_PACKAGE) if is_real else ("Reinterpret", HOST_PACKAGE)
            op = make_op(graph, type, [tensor], [restored], name=f"{name}_op", package=package, origin=origin)
            if tensor.producer is not None:
                graph.insert_after(tensor.producer, op)
            else:
                graph.insert_before(graph.ops[0], op)
            self._reals[tensor] = restored
        return self._reals[tensor]

    def _meet(self, op: Op) -> None:
        """Drop a Quantize of an operand in fixed point, or make it a Convert.

        A Dequantize stays for the readers that need plain values; other readers bypass it.
        """
        source, result = op.inputs[0], op.outputs[0]
        if source is None or source not in self.plan.forms or not result.dtype.is_fixed:
            self._read(op, [self._stored(tensor) for tensor in op.inputs])
            return
        stored = self.plan.holder(source)
        if result in self.plan.holders:
            if not self.graph.is_output(result):
                self.graph.replace(result, stored)
                self._drop(op, stored)
            return
        if op.type == "Quantize":
            origin = Origin(op.origin.nodes, op.origin.reason or "the source changes the encoding here")
            self.graph.replace_op(op, Op("Convert", [stored], [result], name=op.name, origin=origin))
            self.changed = True

    def _leave(self, op: Op) -> None:
        """Drop a border that nobody reads, or let the producer write its output.

        A Dequantize makes the output fixed point then; a Quantize is one whose operand is stored already.
        """
        source, result = op.inputs[0], op.outputs[0]
        graph = self.graph
        is_stored = op.type == "Quantize" and source is not None and source.dtype.is_fixed
        if source is None or (graph.consumers(result) and not is_stored):
            return
        if not graph.is_output(result):
            self._drop(op, source)
            return
        producer, form = source.producer, form_of(source)
        if not is_stored and (
            not self.plan.io or op.type != "Dequantize" or producer is None or form is None
        ):
            return
        if producer is None or form is None or graph.is_output(source) or producer.outputs.count(source) != 1:
            if is_stored:
                turn_into(graph, op, "Reshape", [source])
                self.changed = True
            return
        graph.unlink(op)
        result.dtype, result.encoding = form
        producer.origin = producer.origin.merged(op.origin)
        graph.set_output(producer, producer.outputs.index(source), result)
        graph.replace(source, result)
        graph.tensors.pop(source.name, None)
        self.changed = True

    def _drop(self, op: Op, held: Tensor) -> None:
        """Remove a border; the op that stores its values has its source nodes too."""
        if held.producer is not None:
            held.producer.origin = held.producer.origin.merged(Origin(op.origin.nodes))
        self.graph.remove(op)
        self.changed = True


def _recodes(op: Op) -> bool:
    """Return whether an op changes the encoding of fixed-point values."""
    return is_type(op, "Convert") and op.outputs[0].dtype.is_fixed
