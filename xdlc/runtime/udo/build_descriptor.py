"""Descriptors of ops for the worker, from graph ops and converter views."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from xdlc.errors import BackendError, XdlcError, raise_all
from xdlc.ir import ArrayData, Op, Scalar, ScaleOffset, Tensor, packed
from xdlc.ir.dtype import (
    BY_CODE,
    FLOAT32,
    FLOAT64,
    INT64,
    PLAIN,
    SFIXED4,
    SFIXED8,
    SFIXED16,
    STRING,
    UFIXED4,
    UFIXED8,
    UFIXED16,
    UINT8,
    UINT16,
    UNDEFINED,
    DType,
    from_numpy,
)
from xdlc.ir.quantization import float_data, unpacked
from xdlc.opdefs.backend_view import CPU, holds_floats
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.input_defaults import default_inputs
from xdlc.opdefs.model import LAYOUTS, OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec, view_of
from xdlc.opdefs.source_match import Kernel
from xdlc.opdefs.values import parameter
from xdlc.opdefs.xml_elements import spelling
from xdlc.runtime.udo.descriptor import MAX_RANK, OpForm, ParamForm, TensorForm, element, nbytes
from xdlc.runtime.udo.memory import ALIGNMENT, Memory

Array = Any  # numpy.ndarray


_TYPES = (SFIXED16, UFIXED16, SFIXED8, UFIXED8, SFIXED4, UFIXED4)
"""The most exact first."""


def form_of(op: Op, definition: OpDef | None, *, reals: bool = False) -> tuple[OpForm, StaticData]:
    """Return the descriptor of an op.

    Args:
        definition: Its definition in the model; without it, operands have names like ``in[0]``.
        reals: Whether the kernel gets quantized static data as float values, whatever the definition states.

    Raises:
        BackendError: If an operand cannot be passed to kernels.
        ModelError: If static data has no usable encoding.
    """
    for operand in (*op.inputs, *op.outputs, *op.params.values()):
        if isinstance(operand, Tensor):
            _check(op, operand)
    data = StaticData()
    inputs = [
        TensorForm(name, omitted=True) if tensor is None else _tensor(tensor, name, place, data, reals)
        for tensor, (name, place) in _operands(op.inputs, definition, partial(view_of, op))
    ]
    outputs = [
        _tensor(tensor, name, place, data, reals)
        for tensor, (name, place) in zip(op.outputs, _places("out", len(op.outputs), definition), strict=True)
    ]
    params = [_param(name, param, definition, data, reals) for name, param in op.params.items()]
    params += _defaults(definition, op.params, data)
    form = OpForm(op.package, op.type, op.name, tuple(inputs), tuple(outputs), tuple(params))
    if definition is not None:
        check_types(op, form, definition)
    return form, data


def _operands(
    inputs: Sequence[Any], definition: OpDef | None, view: Callable[[OpDef], OpView]
) -> Iterator[tuple[Any, tuple[str, TensorDef | None]]]:
    """Yield the inputs of an op with their places, defaults filled in."""
    count, filled = len(inputs), dict[int, Tensor]()
    if definition is not None:
        count = max(count, sum(not place.repeated for place in definition.inputs))
        if any(place.default is not None for place in definition.inputs):
            filled = default_inputs(definition, view(definition))
    held = [*inputs, *[None] * (count - len(inputs))]
    operands = [filled.get(at, tensor) for at, tensor in enumerate(held)]
    yield from zip(operands, _places("in", count, definition), strict=True)


def _defaults(definition: OpDef | None, given: Container[str], data: StaticData) -> list[ParamForm]:
    """Return the parameters that an op omits, with their defaults."""
    missing = [param for param in definition.params.values() if param.name not in given] if definition else []
    values = [(param, default_value(param)) for param in missing]
    return [_value(param.name, value, definition, data) for param, value in values if value is not None]


def _check(op: Op, tensor: Tensor) -> None:
    where = place_of(op)
    if tensor.rank > MAX_RANK:
        raise BackendError(
            f"{tensor.name!r} has {tensor.rank} axes, but kernels support at most {MAX_RANK}",
            where=where,
            fix="insert a Reshape before the op",
        )
    if tensor.dtype.kind in ("string", "undefined"):
        raise BackendError(
            f"{tensor.name!r} is {tensor.dtype}, but kernels support numbers only",
            where=where,
            fix="pass texts as string parameters",
        )


def _places(word: str, count: int, definition: OpDef | None) -> list[tuple[str, TensorDef | None]]:
    """Return name and definition of each operand, also after a repeated one."""
    definitions: Sequence[TensorDef] = ()
    if definition is not None:
        definitions = definition.inputs if word == "in" else definition.outputs
    places: list[tuple[str, TensorDef | None]] = []
    for index in range(count):
        place = definitions[min(index, len(definitions) - 1)] if definitions else None
        if place is None or (index >= len(definitions) and not place.repeated):
            places.append((f"{word}[{index}]", None))
        else:
            places.append((place.name, place))
    return places


def _layout(place: TensorDef | None) -> str:
    """Return the layout that a definition states, or an empty string."""
    return place.layout if place is not None and place.layout in LAYOUTS else ""


def _tensor(tensor: Tensor, name: str, place: TensorDef | None, data: StaticData, reals: bool) -> TensorForm:
    dims = tuple(None if axis in tensor.dynamic_axes else extent for axis, extent in enumerate(tensor.shape))
    layout = _layout(place)
    if not tensor.is_static:
        return TensorForm(name, kernel_dtype(tensor.dtype).code, dims, layout)
    allowed = _types(tensor, place, reals)
    if place is not None and not place.is_static:  # a constant at the place of an activation
        allowed = (kernel_dtype(tensor.dtype),)
    return static_form(tensor, name, layout, allowed, data)


def _types(tensor: Tensor, place: TensorDef | None, reals: bool) -> tuple[DType, ...]:
    """Return the types of static data for a kernel; none: stored, or floats."""
    if place is None or not reals or not (tensor.dtype.is_float or tensor.dtype.is_fixed):
        return () if place is None else place.dtypes
    return () if tensor.dtype.is_fixed else (FLOAT32, FLOAT64)


def _param(
    name: str, param: Scalar | Tensor, definition: OpDef | None, data: StaticData, reals: bool
) -> ParamForm:
    place = definition.params.get(name) if definition is not None else None
    if isinstance(param, Tensor):
        layout = _layout(place)
        tensor = static_form(param, name, layout, _types(param, place, reals), data)
        return ParamForm(name, tensor.dtype, tensor=tensor)
    value = param.value
    names = place.enumeration if place is not None else ()
    named = isinstance(value, int) and 0 <= value < len(names)
    return ParamForm(name, param.dtype.code, value, names[int(value)] if named else None)


def form_of_view(view: OpView, definition: OpDef | None) -> tuple[OpForm, StaticData]:
    """Return the descriptor of an op under conversion.

    Args:
        definition: Its definition, for the numbers of enumerators and the types of parameters.
    """
    data = StaticData()

    def tensor(spec: TensorSpec | Tensor, name: str, place: TensorDef | None) -> TensorForm:
        if isinstance(spec, Tensor):
            return _tensor(spec, name, place, data, reals=False)
        layout = spec.layout or _layout(place)
        if spec.data is None:
            return TensorForm(name, kernel_dtype(spec.dtype).code, spec.shape, layout)
        return _static_of_view(spec, name, layout, () if place is None else place.dtypes, data)

    inputs = [
        TensorForm(name, omitted=True) if spec is None else tensor(spec, name, place)
        for spec, (name, place) in _operands(view.inputs, definition, lambda _: view)
    ]
    outputs = [
        TensorForm(name) if spec is None else tensor(spec, name, place)
        for spec, (name, place) in zip(
            view.outputs, _places("out", len(view.outputs), definition), strict=True
        )
    ]
    params = [_value(name, value, definition, data) for name, value in view.params.items()]
    params += _defaults(definition, view.params, data)
    return OpForm(view.package, view.type, view.name, tuple(inputs), tuple(outputs), tuple(params)), data


def _static_of_view(
    spec: TensorSpec, name: str, layout: str, allowed: Sequence[DType], data: StaticData
) -> TensorForm:
    shape = tuple(extent or 0 for extent in spec.shape)
    tensor = Tensor(spec.name, shape, spec.dtype, data=spec.data)
    if spec.dtype.is_fixed:  # a view has no encoding: as stored
        return array_form(unpacked(tensor).numpy(), name, layout, data, spec.dtype)
    return static_form(tensor, name, layout, allowed, data)


def _value(name: str, value: Any, definition: OpDef | None, data: StaticData) -> ParamForm:
    place = definition.params.get(name) if definition is not None else None
    rank = 0 if isinstance(value, bool | int | float | str) else None
    param = parameter(place or ParamDef(name, mandatory=False, dtypes=(), rank=rank), value)
    if isinstance(param, Tensor):
        return _array(name, unpacked(param).numpy(), _layout(place), data)
    return _param(name, param, definition, data, reals=False)


def _array(name: str, array: Array, layout: str, data: StaticData) -> ParamForm:
    form = array_form(array, name, layout, data)
    return ParamForm(name, form.dtype, tensor=form)


def arguments_of(kernel: Kernel) -> tuple[OpForm, StaticData]:
    """Return a compiled kernel's arguments as parameters named by letters.

    Raises:
        BackendError: If letters and values do not fit together.
    """
    import numpy

    data = StaticData()
    kinds: dict[str, Any] = {"i": int, "f": (int, float), "s": str, "o": (numpy.ndarray, list, tuple)}
    forms = []
    if len(kernel.arguments) != len(kernel.values):
        raise BackendError(
            f"the kernel has {len(kernel.values)} arguments, but the letters {kernel.arguments!r}"
        )
    for letter, value in zip(kernel.arguments, kernel.values, strict=True):
        if not isinstance(value, kinds.get(letter, ())):
            raise BackendError(
                f"the kernel has the argument {value!r:.80} for the letter {letter!r}, of another type"
            )
        if letter == "f":
            forms.append(ParamForm(letter, FLOAT64.code, float(value)))
        elif letter == "i":
            forms.append(ParamForm(letter, INT64.code, int(value)))
        elif letter == "s":
            forms.append(ParamForm(letter, STRING.code, value))
        else:
            forms.append(_array(letter, numpy.asarray(value), "", data))
    return OpForm("", "", kernel.name, (), (), tuple(forms)), data


class StaticData:
    """Static data of an operation, collected for shared memory.

    Attributes:
        rounded: Names of tensors whose float values are quantized for the kernel, and their types.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Callable[[], Array]]] = []
        self._size = 0
        self.rounded: list[tuple[str, DType]] = []

    def add(self, size: int, array: Callable[[], Array]) -> int:
        """Add data and return its offset.

        Args:
            size: Bytes.
            array: Returns the elements.
        """
        place = self._size
        self._pieces.append((place, array))
        self._size += size
        self._size += -self._size % ALIGNMENT
        return place

    def memory(self) -> Memory:
        """Return a memory with the data.

        Raises:
            StorageError: If there is not enough memory.
        """
        made = Memory(self._size)
        for place, give in self._pieces:
            array = give()
            made.array(place, array.shape, array.dtype)[...] = array
        return made


def static_form(
    tensor: Tensor, name: str, layout: str, allowed: Sequence[DType], data: StaticData
) -> TensorForm:
    """Return a static tensor, whose elements are added to the data of its operation.

    Args:
        allowed: Types that its place takes: quantized values stay such if it takes them, and become
            float32 otherwise, unless it takes other integers alone.
        data: Where its elements go.
    """
    if (tensor.dtype.is_float or tensor.dtype.is_fixed) and not _is_taken(tensor, allowed):
        stored = rounded(tensor, allowed)
        if stored is not None:
            data.rounded.append((name, stored.dtype))
            tensor = stored
    dtype, encoding, shape = tensor.dtype, tensor.encoding, tensor.shape
    scale, offset = 0.0, 0
    if dtype.is_fixed or (dtype.is_float and allowed and dtype not in allowed) or dtype.name == "bfloat16":
        named = {dtype, PLAIN.get(dtype)} & set(allowed)
        if isinstance(encoding, ScaleOffset) and named and FLOAT32 not in allowed:
            scale, offset = float(encoding.scale), int(encoding.offset)
        else:
            dtype = FLOAT32
    kind = element(dtype.code)

    def elements() -> Array:
        held = float_data(tensor) if dtype is FLOAT32 else unpacked(tensor)
        return held.numpy().astype(kind, copy=False).reshape(shape)

    place = data.add(nbytes(shape, kind.itemsize), elements)
    return TensorForm(name, dtype.code, shape, layout, scale, offset, place)


def _is_taken(tensor: Tensor, allowed: Sequence[DType]) -> bool:
    """Return whether a definition supports a tensor as it is stored."""
    if tensor.dtype.is_float:
        return tensor.dtype in allowed
    named = {tensor.dtype, PLAIN.get(tensor.dtype)} & set(allowed)
    return bool(named) and isinstance(tensor.encoding, ScaleOffset)


def array_form(
    array: Array, name: str, layout: str, data: StaticData, dtype: DType | None = None
) -> TensorForm:
    """Return an array as a static tensor; see ``static_form``."""
    dtype = dtype or from_numpy(array.dtype)
    held = array.astype(element(dtype.code), copy=False)
    return TensorForm(name, dtype.code, held.shape, layout, place=data.add(held.nbytes, lambda: held))


def rounded(tensor: Tensor, allowed: Sequence[DType]) -> Tensor | None:
    """Quantize static data under one scale; None if the place rejects integers.

    Before a model is quantized its static data are floats; a library that was built for integers
    runs on these.

    Args:
        tensor: Floats, or quantized values of a type that the place does not take.
        allowed: Types that the place takes.
    """
    import numpy

    dtype = next((one for one in _TYPES if {one, PLAIN.get(one)} & set(allowed)), None)
    if dtype is None or any(one.is_float for one in allowed):
        return None
    reals = float_data(tensor).numpy().reshape(tensor.shape).astype(numpy.float64)
    low, high = (float(numpy.append(reals, 0.0).min()), float(numpy.append(reals, 0.0).max()))
    if not (numpy.isfinite(low) and numpy.isfinite(high)):
        return None
    least, most = dtype.limits
    width = max(-low, high) / most if dtype.is_signed else (high - low) / most
    scale = float(numpy.float32(width)) or 1.0
    offset = 0 if dtype.is_signed else round(low / scale)
    steps = numpy.clip(numpy.rint(reals / scale) - offset, least, most)
    kind = numpy.dtype(f"{'i' if dtype.is_signed else 'u'}{max(dtype.bits, 8) // 8}")
    held = ArrayData(steps.astype(kind))
    data = packed(held) if dtype.bits == 4 else held
    return Tensor(tensor.name, tensor.shape, dtype, ScaleOffset(scale, offset), data, tensor.role)


def kernel_dtype(dtype: DType) -> DType:
    """Return the data type that kernels receive for an activation."""
    return FLOAT32 if holds_floats(dtype) and dtype is not FLOAT64 else dtype


def check_types(op: Op, form: OpForm, definition: OpDef) -> None:
    """Check the types of activations at a kernel against its definition.

    Args:
        definition: Its definition for a CPU; another one does not state the types of a CPU.

    Raises:
        BackendError: If something is of another type; a ProblemList of all.
    """
    if definition.backends == (CPU,):
        inputs = _misfits(op, "input", zip(op.inputs, form.inputs, strict=False), definition.inputs)
        outputs = _misfits(op, "output", zip(op.outputs, form.outputs, strict=True), definition.outputs)
        raise_all([*inputs, *outputs])


def place_of(op: Op) -> str:
    """Return the title of an op in errors."""
    graph = f"graph {op.graph.name!r}: " if op.graph is not None else ""
    return f"{graph}op {op.name!r} ({op.package}::{op.type})"


def _misfits(
    op: Op, side: str, operands: Iterable[tuple[Tensor | None, TensorForm]], places: Sequence[TensorDef]
) -> Iterator[XdlcError]:
    for index, (tensor, form) in enumerate(operands):
        place = places[min(index, len(places) - 1)] if places else None
        if tensor is None or place is None or place.is_static or _takes(place, BY_CODE[form.dtype]):
            continue
        dtype, accepted = BY_CODE[form.dtype], " or ".join(map(_word, place.dtypes))
        stored = f", for kernels {_word(dtype)}" if dtype is not tensor.dtype else ""
        yield BackendError(
            f"{side} {index} ({place.name!r}) is {tensor.dtype} in the model{stored}; its definition "
            f"supports {accepted} on a CPU",
            where=place_of(op),
            fix=f"state {_word(dtype)} for the CPU, with per_core_data_types of JSON or a supplement of "
            "XML, and convert the model again",
        )


def _takes(place: TensorDef, found: DType) -> bool:
    if found is FLOAT32:
        return not place.dtypes or any(holds_floats(dtype) and dtype is not FLOAT64 for dtype in place.dtypes)
    return not place.dtypes or found in place.dtypes


def _word(dtype: DType) -> str:
    return spelling(dtype).removeprefix("QNN_DATATYPE_")


def typed(specs: list[TensorSpec] | None, view: OpView, definition: OpDef | None) -> list[TensorSpec] | None:
    """Set missing data types of outputs: of the first input, or the first allowed.

    Args:
        specs: Outputs; those of type undefined get a type.
    """
    if specs is None:
        return None
    first = kernel_dtype(next((spec.dtype for spec in view.inputs if spec is not None), FLOAT32))
    places = definition.outputs if definition is not None else ()
    typed_specs = []
    for index, spec in enumerate(specs):
        allowed = places[min(index, len(places) - 1)].dtypes if places else ()
        # integers of SNPE's DSPs are quantized values
        kinds = [FLOAT32 if dtype in (UINT8, UINT16) else kernel_dtype(dtype) for dtype in allowed]
        dtype = first if first in (*kinds, *allowed) or not kinds else kernel_dtype(allowed[0])
        typed_specs.append(replace(spec, dtype=dtype) if spec.dtype is UNDEFINED else spec)
    return typed_specs
