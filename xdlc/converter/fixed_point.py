"""Operations on fixed point, imported as such where the source rounds each result.

Handlers and importers compute with floats.  A float tensor that no graph has stands for each fixed-point
tensor, which the ops read in its place.  When a node is done, ``settle`` lets its ops compute in fixed point
by the rules of the pass ``fold_quantize_dequantize``; others read floats after a Dequantize.  Integers are
unsigned (pass ``shift_signed``); those of the source are made where something reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.values import StoredValue, Value
from xdlc.ir import Op, Origin, ScaleOffset, Tensor, make_op
from xdlc.ir.derived_data import StaticEncoding
from xdlc.ir.dtype import (
    FLOAT32,
    INT8,
    INT16,
    INT32,
    PLAIN,
    SFIXED8,
    SFIXED16,
    SFIXED32,
    UFIXED8,
    UFIXED16,
    UINT8,
    UINT16,
    DType,
)
from xdlc.passes._fixed_point_plan import BORDERS, Plan, computed, form_of
from xdlc.passes._static_fixed_point import Form, store

REINTERPRET = "Reinterpret"
FIXED = {UINT8: UFIXED8, INT8: SFIXED8, UINT16: UFIXED16, INT16: SFIXED16, INT32: SFIXED32}
"""Fixed-point types that store integers of the source, by plain type."""
_AnyForm = tuple[DType, ir.Encoding | None]
_RECODED = "the source changes the encoding here"


def constant(b: Builder, value: Value, dtype: DType, encoding: StaticEncoding) -> Value:
    """Return the floats that static integers denote.

    The integers stay stored until something reads the floats.  Four bits lie in eight, as QNN has weights;
    unsigned ones around 8 are the signed ones around 0.

    Args:
        dtype: The fixed-point type that stores them.
        encoding: Their encoding, its axis one of the value's tensor.
    """
    data = value.tensor.data
    assert data is not None
    if value.bits == 4:
        if not dtype.is_signed and _offsets(encoding) == {-8}:
            data = data.transform(lambda array: array.astype("int8") - 8, dtype=SFIXED8.numpy)
            dtype, encoding = SFIXED8, _symmetric(encoding)
        encoding = replace(encoding, bits=4)
    return b.const(ir.Dequantized(data, dtype, encoding), value.tensor.name)


def _offsets(encoding: StaticEncoding) -> set[int]:
    return {encoding.offset} if isinstance(encoding, ScaleOffset) else set(encoding.offsets)


def _symmetric(encoding: StaticEncoding) -> StaticEncoding:
    if isinstance(encoding, ScaleOffset):
        return replace(encoding, offset=0)
    return replace(encoding, offsets=())


def real(b: Builder, value: Value, form: Form) -> Value:
    """Return the floats that computed integers of the source denote.

    Args:
        form: Their storage type and encoding in the source.
    """
    target = computed(form)
    if isinstance(value, StoredValue) and form_of(b.stored[value.real.tensor]) == target:
        return value.real
    fixed = _read(b, value.tensor, REINTERPRET, form)
    if target != form:
        fixed = _read(b, fixed, "Convert", target)
    return Value(b.standing(fixed), value.order, ranked=value.ranked)


def _read(b: Builder, tensor: Tensor, type: str, form: Form) -> Tensor:
    """Return the result of an op that reads a tensor's integers as another form."""
    for op in b.graph.consumers(tensor):
        if op.type == type and form_of(op.outputs[0]) == form:
            return op.outputs[0]
    return _recode(b, type, tensor, form, b.node)


def _recode(b: Builder, type: str, source: Tensor, form: _AnyForm, node: str) -> Tensor:
    """Append an op that stores numbers or integers in another form; return its result."""
    return b.graph.append(_recoding(b, type, source, form, node)).outputs[0]


def _recoding(b: Builder, type: str, source: Tensor, form: _AnyForm, node: str) -> Op:
    dtype, encoding = form
    name = b.graph.unique_name(node)
    origin = Origin((node,), _RECODED if type == "Convert" else None)
    package = ir.HOST_PACKAGE if type == REINTERPRET else ir.NATIVE_PACKAGE
    open_axes = source.dynamic_axes
    result = Tensor(b.graph.unique_name(f"{name}_out"), source.shape, dtype, encoding, dynamic_axes=open_axes)
    return make_op(b.graph, type, [source], [result], name=name, package=package, origin=origin)


def stored(b: Builder, value: Value, form: Form, source: object = None) -> StoredValue:
    """Return the integers of the source that floats are rounded to.

    Args:
        form: Storage type and encoding of the integers in the source.
        source: The source's statement of these.
    """
    target, node = computed(form), b.node
    real = _rounded(b, value, target)
    fixed = b.stored[real.tensor]

    def make(before: Tensor | None) -> Tensor:
        if before is not None and b.graph.tensors.get(before.name) is before:
            return before
        signed = fixed if target == form else _recode(b, "Convert", fixed, form, node)
        return _recode(b, REINTERPRET, signed, (PLAIN[form[0]], None), node)

    return StoredValue(real, PLAIN[form[0]], source, make)


def rounded(b: Builder, value: Value, form: Form) -> StoredValue:
    """Return floats that are rounded to a storage type, which is their ``source``."""
    real = _rounded(b, value, form)
    fixed, node = b.stored[real.tensor], b.node
    return StoredValue(real, FLOAT32, form, lambda _: _restored(b, fixed, node))


def _rounded(b: Builder, value: Value, form: Form) -> Value:
    """Return floats that stand for a fixed-point tensor to which others are rounded."""
    fixed = _fixed(b, value)
    if fixed is not None and form_of(fixed) == form:
        return Value(b.standing(fixed), value.order, value.forms, ranked=value.ranked)
    type, source = ("Quantize", value.tensor) if fixed is None else ("Convert", fixed)
    return Value(b.standing(_recode(b, type, source, form, b.node)), value.order, ranked=value.ranked)


def _fixed(b: Builder, value: Value) -> Tensor | None:
    """Return the fixed-point tensor that floats stand for, or have become."""
    return value.tensor if value.tensor.dtype.is_fixed else b.stored.get(value.tensor)


def restored(b: Builder, value: Value) -> Value:
    """Return floats that the graph has."""
    fixed = _fixed(b, value)
    return value if fixed is None else Value(_restored(b, fixed, b.node), value.order, ranked=value.ranked)


def _restored(b: Builder, fixed: Tensor, node: str, before: Op | None = None) -> Tensor:
    """Return the result of a Dequantize, which is added before an op, or at the end."""
    graph, result = b.graph, b.restored.get(fixed)
    if result is None or graph.tensors.get(result.name) is not result:
        op = _recoding(b, "Dequantize", fixed, (FLOAT32, None), node)
        graph.append(op) if before is None else graph.insert_before(before, op)
        result = b.restored[fixed] = op.outputs[0]
    return result


def settle(
    b: Builder,
    start: Op | None,
    values: Sequence[Value],
    names: Sequence[str],
    forms: Sequence[Form | None],
) -> None:
    """Let the ops of a node compute in fixed point where the pass would.

    Args:
        start: The last op before those of the node.
        values: Results of the node.
        names: Their names in the source.
        forms: Storage types that the source rounds them to; None for others.
    """
    graph = b.graph
    rounding: dict[Tensor, set[Form]] = {}
    for value, name, form in zip(values, names, forms, strict=False):
        if form is not None:
            _name(b, value.tensor, name)
            rounding.setdefault(value.tensor, set()).add(computed(form))
    if not b.stored:
        return
    ops = list(graph.since(start))
    plan = Plan(graph, io=False, rounded=rounding)
    if not any(op.type in BORDERS for op in ops):  # else left to the pass, which sees through them
        plan.decide(ops)
    for op in ops:
        statics = plan.fixed.get(op)
        if statics is None:
            _keep(b, op)
        elif statics:
            store(graph, op, statics, {})
    for tensor, form in plan.forms.items():
        tensor.dtype, tensor.encoding = form


def _name(b: Builder, result: Tensor, name: str) -> None:
    """Name the float tensor that the node computed and that becomes fixed point."""
    op, graph = result.producer, b.graph
    if op is not None and op.origin.nodes[-1:] == (b.node,) and name and name not in graph.tensors:
        graph.rename(result, name)


def _keep(b: Builder, op: Op) -> None:
    """Let an op on floats read floats in place of the tensors that these stand for."""
    read = [tensor for tensor in op.inputs if tensor is not None and form_of(tensor) and not tensor.is_static]
    if read and not any(map(form_of, op.outputs)):
        inputs = [_restored(b, tensor, b.node, op) if tensor in read else tensor for tensor in op.inputs]
        b.graph.set_inputs(op, inputs)
