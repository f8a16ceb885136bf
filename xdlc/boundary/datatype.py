"""Types of graph inputs and outputs, with conversions."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from xdlc.boundary.entry import connect, split
from xdlc.errors import ConstraintError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import NATIVE_PACKAGE, Graph, Model, Op, ScaleOffset, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.dtype import DType
from xdlc.ir.quantization import quantized_limits
from xdlc.json_fields import choice
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.opdefs.traits import traits
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.boundary.ports import Port

TYPES = {"float32": dt.FLOAT32, "fixedPoint8": dt.UFIXED8, "fixedPoint16": dt.UFIXED16}
"""Types of inputs and outputs, under the vendor's names."""
_NOT_CAST = (dt.INT8, dt.INT16, dt.UINT16)
"""Integers that HTP cannot cast to float; their bytes are fixed point with step 1."""
_WORDS = {name: held for name, held in dt.BY_NAME.items() if held.bits >= 8} | TYPES | {"bool": dt.BOOL8}


def set_types(
    model: Model, use_float_io: bool, buffer_data_type: Mapping[str, str], option: str = "buffer_data_type"
) -> None:
    """Set types of inputs and outputs; keep names, shapes and order.

    A conversion is inserted after each such input and before each such output: Quantize, Dequantize,
    Convert or Cast.  A fixed-point type takes its range from the encoding that the tensor has, or that
    the conversion next to it states.

    Args:
        model: The model; it is changed.
        use_float_io: Whether all inputs and outputs of numbers become float32: quantized ones and those
            of other float types.
        buffer_data_type: Type by name of the tensor, see ``TYPES``; overrides ``use_float_io``.
        option: What errors and reasons call these types.

    Raises:
        UsageError: If a type or a name is not known.
        ConstraintError: If an input or output cannot have the type: it holds integers, or has no range.
        ProblemList: If several are wrong.
    """
    ports = [(graph, port) for graph in outer_graphs(model) for port in (*graph.inputs, *graph.outputs)]
    names = [port.name for _, port in ports]
    problems: list[XdlcError] = []
    for name, kind in buffer_data_type.items():
        if kind not in TYPES:
            problem = f"{spell(option)} has the unknown type {kind!r} for {name!r}"
            problems.append(UsageError(problem, fix=choice(kind, TYPES)))
        if name not in names:
            fix = nearest_names(name, names) or f"inputs and outputs: {', '.join(names)}"
            problems.append(UsageError(f"{spell(option)} names {name!r}, not an input or output", fix=fix))
    raise_all(problems)
    changed: set[str] = set()
    for graph, port in ports:
        type_name = buffer_data_type.get(port.name)
        if type_name is None and not (use_float_io and (port.dtype.is_fixed or port.dtype.is_float)):
            continue
        flag = option if type_name else "use_float_io"
        try:
            wanted = TYPES[type_name or "float32"]
            _check_numbers(graph, port, wanted)
            is_as_wide = wanted.is_fixed and port.dtype.is_fixed and port.dtype.bits == wanted.bits
            if not is_as_wide and _set_type(graph, port, wanted, flag):
                changed.add(port.name if type_name else flag)
        except XdlcError as error:
            problems.append(error)
    raise_all(problems)
    for name in buffer_data_type:
        if name not in changed:
            warnings.warn(f"{spell(option)}: {name!r} is already {buffer_data_type[name]}", stacklevel=3)
    if use_float_io and "use_float_io" not in changed:
        warnings.warn(f"{spell('use_float_io')} has no effect: the graph is not quantized", stacklevel=3)


def parsed_word(value: str) -> DType:
    """Return a type by its name, like ``uint8``, ``float16`` or ``fixedPoint8``.

    Raises:
        UsageError: If no type has that name.
    """
    name = str(getattr(value, "__name__", value))  # numpy's types have names
    found = _WORDS.get(name) or _WORDS.get(name.lower())
    if found is None:
        raise UsageError(f"xdlc knows no data type {value!r}", fix=choice(name, _WORDS))
    return found


def settle(graph: Graph, tensor: Tensor, port: Port) -> None:
    """Set the type of an input or output that callers request.

    Integers of 8 and 16 bits are the stored values where the graph is quantized or an encoding is
    requested; else they are numbers, and cast.

    Raises:
        ConstraintError: If it cannot have the type: it has no range, or is input and output at once.
    """
    requested = port.dtype
    if requested is None:
        return
    scale = port.quantization
    if port.is_input and tensor.dtype.is_float and requested in _NOT_CAST:
        scale = scale or ScaleOffset(1.0, 0)
    if requested.is_integer and requested.bits <= 16 and (tensor.dtype.is_fixed or scale):
        requested = dt.BY_NAME[f"{'s' if requested.is_signed else 'u'}fixed{requested.bits}"]
    option = "input_dtype" if port.is_input else "output_dtype"
    if requested.is_fixed and (tensor.dtype.is_integer or tensor.dtype.kind == "bool") and not scale:
        requested = dt.BY_NAME[f"{'' if requested.is_signed else 'u'}int{requested.bits}"]
    if port.is_input and requested.kind == "int" and tensor.dtype.kind in ("uint", "bool"):
        raise ConstraintError(
            f"{tensor.name!r} is {tensor.dtype}, which cannot hold negative numbers of {requested}",
            fix=f"request an unsigned type, or keep the type {tensor.dtype}",
        )
    if port.is_input and requested is dt.UINT8 and tensor.dtype.is_float:
        # HTP casts int32 to float32, but makes 0 and 1 of bytes (emulation of SDK 2.51, v69 to v79).
        _set_type(graph, tensor, dt.INT32, option)
    _set_type(graph, tensor, requested, option, scale)


def to_float(graph: Graph, tensor: Tensor) -> None:
    """Let a quantized input be float32 outside of a conversion."""
    if tensor.dtype.is_fixed:
        _set_type(graph, tensor, dt.FLOAT32, "preprocessing")


def parsed(texts: Sequence[str] | str) -> dict[str, str]:
    """Return types by name from texts like ``x=float32,y=fixedPoint8``.

    Example:
        >>> parsed(["x=float32,y=fixedPoint8"])
        {'x': 'float32', 'y': 'fixedPoint8'}

    Raises:
        UsageError: If a text has another form, or names a tensor twice.
    """
    types: dict[str, str] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        for part in filter(None, re.split(r"[,\s]+", text)):
            name, mark, kind = part.rpartition("=")
            if not mark or not name:
                raise UsageError(
                    f"{spell('buffer_data_type')} {part!r} is not of the form name=type",
                    fix="write NAME=TYPE, like x=float32",
                )
            if types.setdefault(name, kind) != kind:
                option = spell("buffer_data_type")
                raise UsageError(f"{option} has two types for {name!r}: {types[name]} and {kind}")
    return types


def _check_numbers(graph: Graph, port: Tensor, wanted: DType) -> None:
    if not (port.dtype.is_fixed or port.dtype.is_float):
        raise ConstraintError(
            f"{port.name!r} holds {port.dtype}, but {wanted} cannot store all its values",
            where=f"graph {graph.name!r}",
            fix=f"keep the type {port.dtype}",
        )


def _set_type(
    graph: Graph, port: Tensor, dtype: DType, flag: str, requested: ScaleOffset | None = None
) -> bool:
    """Convert an input or output to a type; return whether it changes."""
    if port.dtype is dtype and requested in (None, port.encoding):
        return False
    encoding = None
    if dtype.is_fixed:
        _check_numbers(graph, port, dtype)
        encoding = requested or _encoding(graph, port, dtype)
    reason = f"{flag}: {port.name!r} is {dtype} in your application, {port.dtype} in the graph"
    inner = split(graph, port)
    port.dtype, port.encoding = dtype, encoding
    is_input = port in graph.inputs
    source, target = (port, inner) if is_input else (inner, port)
    made = connect(graph, port, inner, _CONVERSIONS[source.dtype.is_fixed, target.dtype.is_fixed], reason)
    if is_input:
        _skip_quantize(graph, port, made)
    else:
        _skip_dequantize(graph, port, inner.producer)
    return True


_CONVERSIONS = {
    (False, True): "Quantize",
    (True, False): "Dequantize",
    (True, True): "Convert",
    (False, False): "Cast",
}
"""Ops by whether their input and their output are fixed point."""


def _skip_quantize(graph: Graph, port: Tensor, conversion: Op) -> None:
    """Let ops that read the input quantized as callers feed it read the input itself."""
    inner = conversion.outputs[0]
    for op in graph.consumers(inner):
        result = op.outputs[0]
        if _is_native(op, "Quantize") and _form(result) == _form(port) and not graph.is_output(result):
            graph.replace(result, port)
            graph.remove(op)
    if not graph.consumers(inner):
        graph.remove(conversion)


def _skip_dequantize(graph: Graph, port: Tensor, producer: Op | None) -> None:
    """Let the producer of a quantized output write the output, if allowed."""
    source = producer.inputs[0] if producer is not None and _is_native(producer, "Dequantize") else None
    if source is None or _form(source) != _form(port) or source.producer is None or graph.is_output(source):
        return
    if port.producer is not None:
        graph.unlink(port.producer)
    graph.replace(source, port)
    graph.set_output(source.producer, source.producer.outputs.index(source), port)
    graph.prune()


def _is_native(op: Op, type: str) -> bool:
    """Return whether an op is a native QNN op; a UDO may have the same type."""
    return op.package == NATIVE_PACKAGE and op.type == type


def _form(tensor: Tensor) -> tuple[DType, object]:
    return tensor.dtype, tensor.encoding


def _encoding(graph: Graph, port: Tensor, dtype: DType) -> ScaleOffset:
    """Return the encoding of an input or output for another fixed-point type."""
    fixed = port if port.dtype.is_fixed else _quantized(graph, port)
    if fixed is None or not isinstance(fixed.encoding, ScaleOffset):
        raise ConstraintError(
            f"{port.name!r} is {port.dtype}, but the model does not state the range of its values",
            where=f"graph {graph.name!r}",
            fix=f"quantize the model first, set the range with {spell('custom_io')}, or keep {port.dtype}",
        )
    if fixed.dtype is dtype:
        return fixed.encoding
    return _in_other_steps(fixed, fixed.encoding, dtype)


def _in_other_steps(fixed: Tensor, encoding: ScaleOffset, dtype: DType) -> ScaleOffset:
    """Return an encoding of the same range for another type; zero is exact."""
    low, high = ((bound + encoding.offset) * encoding.scale for bound in quantized_limits(fixed))
    low, high = min(low, 0.0), max(high, 0.0)
    least, most = dtype.limits
    steps = most - least
    scale = (high - low) / steps
    if not 0 < scale < math.inf:
        raise ConstraintError(
            f"the encoding has the scale {encoding.scale:g}, so the range of the tensor is empty",
            where=f"tensor {fixed.name!r}",
            fix="quantize the model again",
        )
    return ScaleOffset(scale, round(low / scale) - least)


def _quantized(graph: Graph, port: Tensor) -> Tensor | None:
    """Return the fixed-point tensor of a float input or output, also across views."""
    if port in graph.inputs:
        found = list(_quantized_readers(graph, port))
        forms = {None if reader is None else (reader.dtype, reader.encoding) for reader in found}
        return found[0] if len(forms) == 1 else None
    source: Tensor | None = port
    while source is not None and source.producer is not None:
        is_end = _is_native(source.producer, "Dequantize")
        if not is_end and not traits(source.producer).view:
            return None
        source = source.producer.inputs[0]
        if is_end:
            return source
    return None


def _quantized_readers(graph: Graph, tensor: Tensor) -> Iterator[Tensor | None]:
    pending = [tensor]
    while pending:
        for op in graph.consumers(pending.pop()):
            if traits(op).view:
                pending += op.outputs
            else:
                yield op.outputs[0] if _is_native(op, "Quantize") else None
