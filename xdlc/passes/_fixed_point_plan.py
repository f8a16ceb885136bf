"""Placement of fixed point: forward dataflow over two facts of each tensor.

The facts are the storage type in which a tensor is available (``forms``), and the one that all of
its consumers round it to (``requested``). A backward walk collects the requests. A forward walk
then visits each op once, after the ops before it: Quantize, Dequantize and Reinterpret are borders,
where a form enters or ends; an op that moves values hands the form of its operands on to its
results; an op that computes becomes fixed point if its operands have forms and its results are
requested in one. Nothing is revised, as no later op changes what an earlier one reads, and the
graph stays as it is: ``fold_quantize_dequantize`` edits it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial

from xdlc import ir
from xdlc.ir import Graph, Op, Role, ScaleOffset, Tensor
from xdlc.ir.dtype import FLOAT32, PLAIN, SFIXED8, SFIXED16, UFIXED8, UFIXED16, DType
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.traits import operation_name, traits, value_sources
from xdlc.opdefs.verify import accepts, verify_op
from xdlc.passes._match import is_reinterpret, is_type
from xdlc.passes._static_fixed_point import Form, rounded_bias, stored_constant, stored_weight
from xdlc.records import record

BORDERS = ("Quantize", "Dequantize")
_NEAREST = 0
_UNSIGNED = {SFIXED8: UFIXED8, SFIXED16: UFIXED16}
"""Types of activations that HTP computes with."""


def form_of(tensor: Tensor) -> Form | None:
    """Return the storage type of a fixed-point tensor with one scale, or None."""
    encoding = tensor.encoding
    return (tensor.dtype, encoding) if tensor.dtype.is_fixed and isinstance(encoding, ScaleOffset) else None


def computed(form: Form) -> Form:
    """Return the form in which HTP computes with values of another: unsigned integers.

    q + 128 with offset - 128 denotes the same number.
    """
    dtype, encoding = form
    if dtype not in _UNSIGNED or not isinstance(encoding, ScaleOffset) or encoding.bits is not None:
        return form
    return _UNSIGNED[dtype], ScaleOffset(encoding.scale, encoding.offset + dtype.limits[0])


def moves(op: Op) -> tuple[int, ...]:
    """Return the inputs whose values an op passes on unchanged; () if it computes.

    Clamps count if what they clip to is zero, which every encoding of a source holds, and so does padding
    with zero.  Those of plain integers do not: their zero is another float value.
    """
    if op.package != ir.NATIVE_PACKAGE:
        return ()
    if not traits(op).fills and len({out.dtype for out in op.outputs}) == 1:
        found = value_sources(op)
        if found:
            return found
    if op.type == "Resize" and op.param("interpolation_mode", _NEAREST) == _NEAREST:
        return (0,)
    first = op.inputs[0] if op.inputs else None
    has_zero = first is not None and not first.dtype.is_integer
    if op.type == "Pad" and op.param("scheme", 0) != 0:
        return (0,)
    is_zero = op.type == "Pad" and not op.param("pad_constant_value", 0)
    return (0,) if has_zero and (is_zero or operation_name(op) == "Relu") else ()


def carried(op: Op) -> tuple[int, ...]:
    """Return the inputs that may be rounded before an op instead of its result.

    That holds for what ``moves`` names and for every clamp: clipping keeps the order of values.
    """
    return (0,) if traits(op).clamps else moves(op)


def weight_axes(op: Op) -> dict[int, int | None]:
    """Return the axis of the output channels of each weight and bias that has one.

    A grouped transposed convolution has one scale: HTP's emulation (SDK 2.51, SM8650) is off by many
    steps where its weights have one for each channel.
    """
    row = traits(op)
    if op.type == "MatMul" and row.weight is not None:
        matrix = len(op.inputs) > 1 and op.inputs[1] is not None and op.inputs[1].rank == 2
        return {1: (0 if op.param("transpose_in1", False) else 1) if matrix else None}
    if row.weight is None or row.bias is None:
        return {}
    grouped = row.macs == "transposed" and op.param("group", 1) != 1
    return {row.weight: None if grouped else row.channel_axis, row.bias: 0}


def suits_fixed_point(fixed: Op, real: Callable[[], Op]) -> bool:
    """Return whether HTP supports an op on fixed point as well as on floats.

    Args:
        fixed: The op with fixed-point operands and results; need not be part of a graph.
        real: Returns the same op on floats.
    """
    if traits(fixed).unsigned and SFIXED8 in [tensor.dtype for tensor in fixed.inputs if tensor is not None]:
        return False
    if accepts("htp", fixed):
        return True
    return len(verify_op(fixed, backend="htp")) <= len(verify_op(real(), backend="htp"))


def _is_open(tensor: Tensor | None) -> bool:
    """Return whether a tensor may get an encoding: it is float32 or plain integers."""
    return tensor is not None and (tensor.dtype is FLOAT32 or tensor.dtype.is_integer)


def _is_known_integers(tensor: Tensor | None) -> bool:
    """Return whether a tensor is a static plain integer tensor."""
    return tensor is not None and tensor.is_static and tensor.dtype.is_integer


@record
class Plan:
    """Tensors and operations that become fixed point.

    Attributes:
        io: Whether inputs and outputs of the graph may become fixed point.
        udos: Definitions of UDOs by package and type, one for each backend.
        rounded: Storage types that the source rounds tensors to, without an op for that.
        requested: The storage type that every consumer of a tensor rounds it to.
        forms: Storage type of each tensor that is stored in fixed point.
        holders: The tensor that holds the quantized values of another.
        fixed: The operations that turn into ones on fixed point, with their static operands by position.
        reals: Tensors that such a UDO reads and writes as floats all the same.
    """

    graph: Graph
    io: bool
    udos: Mapping[tuple[str, str], Sequence[OpDef]] = field(default_factory=dict)
    rounded: Mapping[Tensor, set[Form]] = field(default_factory=dict)
    requested: dict[Tensor, Form] = field(default_factory=dict)
    forms: dict[Tensor, Form] = field(default_factory=dict)
    holders: dict[Tensor, Tensor] = field(default_factory=dict)
    fixed: dict[Op, dict[int, Tensor]] = field(default_factory=dict)
    reals: dict[Op, set[Tensor]] = field(default_factory=dict)

    def decide(self, ops: Sequence[Op]) -> None:
        """Plan ops that follow each other."""
        self.note_requests(ops)
        for tensor in self.graph.inputs if self.io else ():
            self._note_request(tensor)
            if tensor in self.requested:
                self.forms[tensor] = self.requested[tensor]
        for op in ops:
            self._decide_op(op)

    # ------------------------------------------------------------------ what consumers require

    def note_requests(self, ops: Sequence[Op]) -> None:
        """Record the storage type that every consumer rounds the results of operations to."""
        for op in reversed(ops):
            for tensor in op.outputs:
                self._note_request(tensor)

    def _note_request(self, tensor: Tensor) -> None:
        if not _is_open(tensor) or self.graph.is_output(tensor):
            return
        required: set[Form | None] = {self._request_of(op, tensor) for op in self.graph.consumers(tensor)}
        required.update(self.rounded.get(tensor, ()))
        form = required.pop() if len(required) == 1 else None
        if form is not None:
            self.requested[tensor] = form

    def _request_of(self, reader: Op, tensor: Tensor) -> Form | None:
        """Return the storage type that one consumer rounds a tensor to."""
        rounds = reader.type == "Quantize" if tensor.dtype is FLOAT32 else is_reinterpret(reader)
        if rounds and reader.package in (ir.NATIVE_PACKAGE, ir.HOST_PACKAGE):
            return form_of(reader.outputs[0])
        if not _carries(reader, tensor):
            return None
        required = {self.requested.get(result) for result in reader.outputs if self._is_read(result)}
        return required.pop() if len(required) == 1 else None

    def _is_read(self, tensor: Tensor) -> bool:
        return self.graph.is_read(tensor)

    # ------------------------------------------------------------------ what can be stored

    def _decide_op(self, op: Op) -> None:
        if is_reinterpret(op) or is_type(op, *BORDERS):
            self._decide_border(op)
            return
        if (op.package, op.type) in self.udos:
            self._decide_udo(op, self.udos[op.package, op.type])
            return
        if op.package != ir.NATIVE_PACKAGE or op.type in ("Cast", "Convert"):
            return
        inputs = op.inputs
        if FLOAT32 in [tensor.dtype for tensor in (*inputs, *op.outputs) if tensor is not None]:
            _ = self._decide_moving(op) or self._decide_computing(op)
        elif not self.forms.keys().isdisjoint(inputs):
            self._decide_moving(op)

    def _decide_udo(self, op: Op, definitions: Sequence[OpDef]) -> None:
        """Let a UDO compute in fixed point if a definition of it supports that."""
        for definition in definitions:
            forms = self._udo_forms(op, definition)
            if forms is not None and any(form is not None for form in forms.values()):
                results = {tensor: form for tensor in op.outputs if (form := forms.get(tensor)) is not None}
                self.forms.update(results)
                self.fixed[op] = {}
                self.reals[op] = {tensor for tensor, form in forms.items() if form is None}
                return

    def _udo_forms(self, op: Op, definition: OpDef) -> dict[Tensor, Form | None] | None:
        """Return the storage type of each float tensor of a UDO.

        A type of None keeps the tensor float; the result is None if the definition does not
        fit.
        """
        forms: dict[Tensor, Form | None] = {}
        for side, tensors in ((definition.inputs, op.inputs), (definition.outputs, op.outputs)):
            for index, tensor in enumerate(tensors):
                if tensor is None or tensor.is_static or tensor.dtype is not FLOAT32:
                    continue
                form = self._form(tensor) if side is definition.inputs else self.requested.get(tensor)
                place = side[min(index, len(side) - 1)]
                form = None if _is_floats(place) else form
                if form is None and not _is_floats(place):
                    return None
                if form is not None and not _supports(place, form[0]):
                    return None
                forms[tensor] = form
        return forms

    def _decide_border(self, op: Op) -> None:
        """Record where values enter or leave fixed point."""
        source, result = op.inputs[0], op.outputs[0]
        if source is None:
            return
        form = form_of(source)
        if form is not None and form_of(result) is None:
            if result.dtype is FLOAT32 or self.requested.get(result) == form:
                self.forms[result] = form
                self.holders[result] = self.holder(source)
        elif form is None and source in self.forms and self.forms[source] == form_of(result):
            self.holders[result] = self.holder(source)

    def holder(self, tensor: Tensor) -> Tensor:
        """Return the tensor that stores the integers of ``tensor``."""
        return self.holders.get(tensor, tensor)

    def _decide_moving(self, op: Op) -> bool:
        """Propagate the form of operands through an op that moves values."""
        positions = moves(op)
        if not positions:
            return False
        operands = [op.inputs[index] for index in positions]
        statics: dict[int, Tensor] = {}
        table = stored_weight(operands[0], None) if op.type == "Gather" and operands[0] is not None else None
        if table is not None:
            statics[positions[0]] = operands[0] = table
        found = {self._form(tensor) for tensor in operands if not _is_known_integers(tensor)}
        form = found.pop() if len(found) == 1 else None
        if form is None:
            return False
        for position, tensor in zip(positions, operands, strict=True):
            if tensor is not None and _is_known_integers(tensor):
                if tensor.dtype.bits != form[0].bits or tensor.dtype.is_signed != form[0].is_signed:
                    return False
                statics[position] = Tensor(tensor.name, tensor.shape, *form, tensor.data, Role.STATIC)
        if traits(op).clamps and self.requested.get(op.outputs[0], form) != form:
            return False
        if any(not self._may_move(result, form) for result in op.outputs):
            return False
        return self._accept(op, statics, dict.fromkeys(op.outputs, form))

    def _may_move(self, result: Tensor, form: Form) -> bool:
        if result.dtype is FLOAT32:
            return self.io or not self.graph.is_output(result)
        # Integers that anything else reads stay plain: only Reinterpret reads and writes them.
        return self.requested.get(result) == form or not self._is_read(result)

    def _form(self, tensor: Tensor | None) -> Form | None:
        if tensor is None:
            return None
        return self.forms.get(tensor) or form_of(tensor)

    def _decide_computing(self, op: Op) -> bool:
        """Let an op compute in fixed point if its operands and results allow it."""
        results: dict[Tensor, Form] = {}
        for tensor in op.outputs:
            if tensor.dtype is FLOAT32 and tensor in self.requested:
                results[tensor] = self.requested[tensor]
            elif tensor.dtype.is_float:
                return False
        types = [form[0] for form in map(self._form, op.inputs) if form is not None]
        both = {*types, *(form[0] for form in results.values())}
        if not types or (op.type == "ElementWiseBinary" and len(both) > 1):  # HTP refuses two types
            return False
        axes, statics = weight_axes(op), dict[int, Tensor]()
        for index, operand in enumerate(op.inputs):
            if operand is None or not operand.dtype.is_float or self._form(operand) is not None:
                continue
            axis = axes.get(index)
            stored = stored_weight(operand, axis) if index in axes else stored_constant(operand, types[0])
            if stored is None and index == traits(op).bias:
                stored = self._rounded_bias(op, operand, statics)
            if stored is None:
                return False
            statics[index] = stored
        return self._accept(op, statics, results)

    def _rounded_bias(self, op: Op, bias: Tensor, statics: Mapping[int, Tensor]) -> Tensor | None:
        """Return a float bias in steps of input times weight, or None.

        32-bit accumulators add it in these steps.
        """
        index = traits(op).weight
        weight = None if index is None else statics.get(index) or op.inputs[index]
        source, form = op.inputs[0], self._form(op.inputs[0])
        if weight is None or source is None or form is None or not isinstance(form[1], ScaleOffset):
            return None
        return rounded_bias(bias, form[1], weight.encoding)

    def _accept(self, op: Op, statics: dict[int, Tensor], results: dict[Tensor, Form]) -> bool:
        """Record an op as fixed point, unless HTP supports it better in float."""
        inputs = [statics.get(index) or self._as_stored(tensor) for index, tensor in enumerate(op.inputs)]
        outputs = [_typed(tensor, results.get(tensor)) for tensor in op.outputs]
        twin = Op(op.type, inputs, outputs, op.params, name=op.name, package=op.package)
        if not suits_fixed_point(twin, partial(self._on_floats, op)):
            return False
        self.forms.update(results)
        self.fixed[op] = statics
        return True

    def _on_floats(self, op: Op) -> Op:
        """Return an op with float32 in place of its dynamic fixed-point operands."""
        return op.twin(lambda tensor: tensor if form_of(tensor) is None else _typed(tensor, (FLOAT32, None)))

    def _as_stored(self, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else _typed(tensor, self.forms.get(tensor))


def _typed(tensor: Tensor, form: Form | tuple[DType, None] | None) -> Tensor:
    """Return a tensor like another in a storage type, in no graph."""
    if form is None:
        return tensor
    dtype, encoding = form
    return Tensor(tensor.name, tensor.shape, dtype, encoding, dynamic_axes=tensor.dynamic_axes)


def _carries(reader: Op, tensor: Tensor) -> bool:
    """Return whether rounding its input first leaves a reader's rounded result equal."""
    positions = carried(reader) if tensor.dtype is FLOAT32 else moves(reader)
    uses = [index for index, operand in enumerate(reader.inputs) if operand is tensor]
    return bool(uses) and all(index in positions for index in uses)


def _is_floats(place: TensorDef) -> bool:
    """Return whether a tensor of a definition has only float types."""
    return bool(place.dtypes) and all(dtype.is_float for dtype in place.dtypes)


def _supports(place: TensorDef, dtype: DType) -> bool:
    """Return whether a definition allows a fixed-point type, maybe as plain integers.

    Plain signed integers beside floats are what a kernel for integers takes.
    """
    plain = PLAIN.get(dtype)
    stands = not dtype.is_signed or not any(one.is_float for one in place.dtypes)
    return dtype in place.dtypes or (stands and plain in place.dtypes)
