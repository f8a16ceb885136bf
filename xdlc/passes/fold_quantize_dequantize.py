"""Makes operations on fixed-point tensors of operations on reals between Dequantize and Quantize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdlc import ir
from xdlc.ir import (
    HOST_PACKAGE,
    NATIVE_PACKAGE,
    Encoding,
    Graph,
    Op,
    Origin,
    Role,
    ScaleOffset,
    Tensor,
    make_op,
)
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.passes._carriers import carried, clamps, moves, weight_axes
from xdlc.passes._placing import suits_fixed_point
from xdlc.passes._stored import Form, stored_constant, stored_weight

BORDERS = ("Quantize", "Dequantize")


@dataclass(frozen=True, slots=True)
class FoldQuantizeDequantize:
    """Give tensors the encodings that Quantize, Dequantize and Reinterpret beside them state.

    An operation becomes one on fixed point if every real operand is dequantized, static data that are
    stored as integers, or the result of such an operation, if every real result is quantized or has its
    operand's values, and if HTP takes the operation in fixed point at least as well as on reals.
    Operations that move values, and those that cut them off, take over the encoding of their result or
    of their operand.  What every reader rounds in the same way is rounded by its producer, up to the
    inputs of the graph.  Results stay what they were to the last bit: whatever reads the unrounded reals
    still gets them, and between regions of different kinds Quantize, Dequantize and Convert remain.

    Attributes:
        name: Name of the pass.
        ports: Whether inputs and outputs of the graph may become fixed point; not so for a graph that
            another one runs, whose values must be of the same types on both sides.
    """

    name: str = "fold_quantize_dequantize"
    ports: bool = True

    def apply(self, graph: Graph) -> bool:
        if not any(_is_border(op) or _is_reinterpret(op) for op in graph.ops) and not any(
            isinstance(tensor.data, ir.Dequantized) for tensor in graph.tensors.values()
        ):
            return False
        plan = _Plan(graph, self.ports)
        plan.decide()
        return _Rewriting(graph, plan).run()


def _is_border(op: Op) -> bool:
    return op.package == ir.NATIVE_PACKAGE and op.type in BORDERS


def _is_reinterpret(op: Op) -> bool:
    return op.package == ir.HOST_PACKAGE and op.type == "Reinterpret"


def _form(tensor: Tensor) -> Form | None:
    """Return how a computed tensor is stored; several scales are not for operations to compute with."""
    encoding = tensor.encoding
    return (tensor.dtype, encoding) if tensor.dtype.is_fixed and isinstance(encoding, ScaleOffset) else None


def _is_open(tensor: Tensor | None) -> bool:
    """Return whether a tensor may get an encoding: it is float32 or plain integers."""
    return tensor is not None and (tensor.dtype is FLOAT32 or tensor.dtype.is_integer)


def _is_known_integers(tensor: Tensor | None) -> bool:
    """Return whether a tensor holds static plain integers, which any encoding of their type can store."""
    return tensor is not None and tensor.is_static and tensor.dtype.is_integer


@dataclass(slots=True)
class _Plan:
    """What becomes fixed point; decides, changes nothing.

    Attributes:
        graph: The graph.
        ports: Whether inputs and outputs of the graph may become fixed point.
        wanted: The form that every reader of a tensor rounds it to.
        forms: Form of each tensor that is stored in fixed point.
        homes: The tensor that holds the stored values of another.
        fixed: The operations that turn into ones on fixed point, with their static operands by position.
    """

    graph: Graph
    ports: bool
    wanted: dict[Tensor, Form] = field(default_factory=dict)
    forms: dict[Tensor, Form] = field(default_factory=dict)
    homes: dict[Tensor, Tensor] = field(default_factory=dict)
    fixed: dict[Op, dict[int, Tensor]] = field(default_factory=dict)

    def decide(self) -> None:
        ops = list(self.graph.ops)
        for op in reversed(ops):
            for tensor in op.outputs:
                self._note_wanted(tensor)
        for tensor in self.graph.inputs if self.ports else ():
            self._note_wanted(tensor)
            if tensor in self.wanted:
                self.forms[tensor] = self.wanted[tensor]
        for op in ops:
            self._place(op)

    # ------------------------------------------------------------------ what readers ask for

    def _note_wanted(self, tensor: Tensor) -> None:
        if not _is_open(tensor) or self.graph.is_output(tensor):
            return
        asked = {self._asked(op, tensor) for op in self.graph.consumers(tensor)}
        form = asked.pop() if len(asked) == 1 else None
        if form is not None:
            self.wanted[tensor] = form

    def _asked(self, reader: Op, tensor: Tensor) -> Form | None:
        """Return the form that one reader rounds a tensor to, whatever else it does."""
        rounds = reader.type == "Quantize" if tensor.dtype is FLOAT32 else _is_reinterpret(reader)
        if rounds and reader.package in (ir.NATIVE_PACKAGE, ir.HOST_PACKAGE):
            return _form(reader.outputs[0])
        if not _carries(reader, tensor):
            return None
        asked = {self.wanted.get(result) for result in reader.outputs if self._is_read(result)}
        return asked.pop() if len(asked) == 1 else None

    def _is_read(self, tensor: Tensor) -> bool:
        return bool(self.graph.consumers(tensor)) or self.graph.is_output(tensor)

    # ------------------------------------------------------------------ what can be stored

    def _place(self, op: Op) -> None:
        if _is_reinterpret(op) or _is_border(op):
            self._cross(op)
            return
        if op.package != ir.NATIVE_PACKAGE or op.type in ("Cast", "Convert"):
            return
        reals = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
        if any(tensor.dtype is FLOAT32 for tensor in reals):
            _ = self._move(op) or self._compute(op)
        elif any(tensor in self.forms for tensor in op.inputs if tensor is not None):
            self._move(op)

    def _cross(self, op: Op) -> None:
        """Note where values enter or leave fixed point."""
        source, result = op.inputs[0], op.outputs[0]
        if source is None:
            return
        form = _form(source)
        if form is not None and _form(result) is None:
            if result.dtype is FLOAT32 or self.wanted.get(result) == form:
                self.forms[result] = form
                self.homes[result] = self.home(source)
        elif form is None and source in self.forms and self.forms[source] == _form(result):
            self.homes[result] = self.home(source)

    def home(self, tensor: Tensor) -> Tensor:
        """Return the tensor that holds what ``tensor`` stores."""
        return self.homes.get(tensor, tensor)

    def _move(self, op: Op) -> bool:
        """Let an op that moves values hand the form of its operands on; return whether it does."""
        positions = moves(op)
        if not positions:
            return False
        operands = [op.inputs[index] for index in positions]
        statics: dict[int, Tensor] = {}
        table = stored_weight(operands[0], None) if op.type == "Gather" and operands[0] is not None else None
        if table is not None:
            statics[positions[0]] = operands[0] = table
        found = {self._held(tensor) for tensor in operands if not _is_known_integers(tensor)}
        form = found.pop() if len(found) == 1 else None
        if form is None:
            return False
        for position, tensor in zip(positions, operands, strict=True):
            if tensor is not None and _is_known_integers(tensor):
                if tensor.dtype.bits != form[0].bits or tensor.dtype.is_signed != form[0].is_signed:
                    return False
                statics[position] = Tensor(tensor.name, tensor.shape, *form, tensor.data, Role.STATIC)
        if clamps(op) and self.wanted.get(op.outputs[0], form) != form:
            return False
        if any(not self._may_move(result, form) for result in op.outputs):
            return False
        return self._accept(op, statics, dict.fromkeys(op.outputs, form))

    def _may_move(self, result: Tensor, form: Form) -> bool:
        if result.dtype is FLOAT32:
            return self.ports or not self.graph.is_output(result)
        # Integers that anything else reads stay plain: only Reinterpret gives and takes them.
        return self.wanted.get(result) == form or not self._is_read(result)

    def _held(self, tensor: Tensor | None) -> Form | None:
        if tensor is None:
            return None
        return self.forms.get(tensor) or _form(tensor)

    def _compute(self, op: Op) -> bool:
        """Let an op compute in fixed point if its operands are stored and its results rounded."""
        results: dict[Tensor, Form] = {}
        for tensor in op.outputs:
            if tensor.dtype is FLOAT32 and tensor in self.wanted:
                results[tensor] = self.wanted[tensor]
            elif tensor.dtype.is_float:
                return False
        types = [form[0] for form in map(self._held, op.inputs) if form is not None]
        if not types or (op.type == "ElementWiseBinary" and len(set(types)) > 1):
            return False
        axes, statics = weight_axes(op), dict[int, Tensor]()
        for index, operand in enumerate(op.inputs):
            if operand is None or not operand.dtype.is_float or self._held(operand) is not None:
                continue
            axis = axes.get(index)
            found = stored_weight(operand, axis) if index in axes else stored_constant(operand, types[0])
            if found is None:
                return False
            statics[index] = found
        return self._accept(op, statics, results)

    def _accept(self, op: Op, statics: dict[int, Tensor], results: dict[Tensor, Form]) -> bool:
        """Note an op as one on fixed point, unless HTP would rather have it on reals."""
        inputs = [statics.get(index) or self._stand_in(tensor) for index, tensor in enumerate(op.inputs)]
        outputs = [self._typed(tensor, results.get(tensor)) for tensor in op.outputs]
        twin = Op(op.type, inputs, outputs, op.params, name=op.name, package=op.package)
        if not suits_fixed_point(twin, op):
            return False
        self.forms.update(results)
        self.fixed[op] = statics
        return True

    def _stand_in(self, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else self._typed(tensor, self.forms.get(tensor))

    def _typed(self, tensor: Tensor, form: Form | None) -> Tensor:
        if form is None:
            return tensor
        return Tensor(tensor.name, tensor.shape, *form, dynamic_axes=tensor.dynamic_axes)


def _carries(reader: Op, tensor: Tensor) -> bool:
    """Return whether rounding ``tensor`` first leaves the rounded result of its reader as it is."""
    positions = carried(reader) if tensor.dtype is FLOAT32 else moves(reader)
    uses = [index for index, operand in enumerate(reader.inputs) if operand is tensor]
    return bool(uses) and all(index in positions for index in uses)


class _Rewriting:
    """Edits a graph as a plan says."""

    def __init__(self, graph: Graph, plan: _Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.changed = False
        self._reals: dict[Tensor, Tensor] = {}
        self._plain: dict[Tensor, DType] = {}
        self._statics: dict[tuple[Tensor, DType, Encoding | None], Tensor] = {}

    def run(self) -> bool:
        plan, graph = self.plan, self.graph
        ops = list(graph.ops)
        for tensor in graph.inputs:
            self._store(tensor)
        for op in ops:
            if op in plan.fixed:
                self._fix(op, plan.fixed[op])
            elif _is_border(op) or _is_reinterpret(op):
                self._meet(op)
            else:
                self._keep(op)
        for op in reversed(ops):
            if op.graph is graph and (_is_border(op) or _is_reinterpret(op)):
                self._leave(op)
        return self.changed

    def _store(self, tensor: Tensor) -> None:
        """Make a tensor that the plan stores itself fixed point."""
        form = self.plan.forms.get(tensor)
        if form is not None and tensor not in self.plan.homes and not tensor.dtype.is_fixed:
            self._plain[tensor] = tensor.dtype
            tensor.dtype, tensor.encoding = form
            self.changed = True

    def _fix(self, op: Op, statics: dict[int, Tensor]) -> None:
        """Let an op read and write fixed point."""
        inputs = [
            self._static(tensor, statics[index])
            if tensor is not None and index in statics
            else self._stored(tensor)
            for index, tensor in enumerate(op.inputs)
        ]
        self._read(op, inputs)
        for tensor in op.outputs:
            self._store(tensor)

    def _stored(self, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else self.plan.home(tensor)

    def _static(self, tensor: Tensor, stored: Tensor) -> Tensor:
        key = (tensor, stored.dtype, stored.encoding)
        if key not in self._statics:
            stored.name = self.graph.unique_name(tensor.name)
            self._statics[key] = self.graph.add_tensor(stored)
        return self._statics[key]

    def _read(self, op: Op, inputs: Sequence[Tensor | None]) -> None:
        if list(inputs) == list(op.inputs):
            return
        before = [tensor for tensor in op.inputs if tensor is not None]
        self.graph.set_inputs(op, inputs)
        for tensor in before:
            if tensor.is_static and not self.graph.consumers(tensor) and tensor.name in self.graph.tensors:
                name = tensor.name
                del self.graph.tensors[name]
                new = self._latest(tensor)
                if new is not None:
                    self.graph.rename(new, name)
        self.changed = True

    def _latest(self, tensor: Tensor) -> Tensor | None:
        return next((new for (old, *_), new in self._statics.items() if old is tensor), None)

    def _keep(self, op: Op) -> None:
        """Let an op on reals read reals."""
        if not any(tensor in self.plan.forms for tensor in op.inputs if tensor is not None):
            return
        self._read(op, [None if tensor is None else self._real(tensor) for tensor in op.inputs])

    def _real(self, tensor: Tensor) -> Tensor:
        """Return the reals or integers that a stored tensor was; the first who asks brings them back."""
        if tensor not in self.plan.forms or tensor in self.plan.homes:
            return tensor
        if tensor not in self._reals:
            graph, plain = self.graph, self._plain[tensor]
            is_real = plain is FLOAT32
            name = graph.unique_name(f"{tensor.name}_{'float' if is_real else plain}")
            made = Tensor(name, tensor.shape, plain, dynamic_axes=tensor.dynamic_axes)
            nodes = tensor.producer.origin.nodes if tensor.producer is not None else ()
            origin = Origin(nodes, f"operations on {'reals' if is_real else 'integers'} read {tensor.name!r}")
            type, package = ("Dequantize", NATIVE_PACKAGE) if is_real else ("Reinterpret", HOST_PACKAGE)
            op = make_op(graph, type, [tensor], [made], name=f"{name}_op", package=package, origin=origin)
            if tensor.producer is not None:
                graph.insert_after(tensor.producer, op)
            else:
                graph.insert_before(next(graph.ops), op)
            self._reals[tensor] = made
        return self._reals[tensor]

    def _meet(self, op: Op) -> None:
        """Drop or turn a border into fixed point whose operand is stored already.

        One out of fixed point stays for the readers that need plain values; the others pass it by.
        """
        source, result = op.inputs[0], op.outputs[0]
        if source is None or source not in self.plan.forms or not result.dtype.is_fixed:
            self._read(op, [self._stored(tensor) for tensor in op.inputs])
            return
        held = self.plan.home(source)
        if result in self.plan.homes:
            if not self.graph.is_output(result):
                self.graph.replace(result, held)
                self._drop(op, held)
            return
        if op.type == "Quantize":
            origin = Origin(op.origin.nodes, op.origin.reason or "the source changes the encoding here")
            self.graph.replace_op(op, Op("Convert", [held], [result], name=op.name, origin=origin))
            self.changed = True

    def _leave(self, op: Op) -> None:
        """Drop a border that nobody reads; let a Dequantize that makes an output make it fixed point."""
        source, result = op.inputs[0], op.outputs[0]
        graph = self.graph
        if source is None or graph.consumers(result):
            return
        if not graph.is_output(result):
            self._drop(op, source)
            return
        producer, form = source.producer, _form(source)
        if not self.plan.ports or op.type != "Dequantize" or producer is None or form is None:
            return
        if graph.is_output(source) or producer.outputs.count(source) != 1:
            return
        graph.unlink(op)
        result.dtype, result.encoding = form
        producer.origin = producer.origin.merged(op.origin)
        graph.set_output(producer, producer.outputs.index(source), result)
        graph.replace(source, result)
        graph.tensors.pop(source.name, None)
        self.changed = True

    def _drop(self, op: Op, held: Tensor) -> None:
        """Take out a border; what stores its values stands for its nodes too."""
        if held.producer is not None:
            held.producer.origin = held.producer.origin.merged(Origin(op.origin.nodes))
        self.graph.remove(op)
        self.changed = True
