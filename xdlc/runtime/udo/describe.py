"""From an op of a graph, or the view that a converter has of one, to what a child process is told of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from xdlc.errors import BackendError
from xdlc.ir import Op, Scalar, ScaleOffset, Tensor
from xdlc.ir.dtype import (
    BOOL8,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    PLAIN,
    STRING,
    UINT32,
    DType,
    from_numpy,
)
from xdlc.ir.stored import real_data, unpacked
from xdlc.opdefs.custom import Kernel, OpView, TensorSpec
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.runtime.builder import describe
from xdlc.runtime.udo.forms import OpForm, ParamForm, TensorForm, element, nbytes
from xdlc.runtime.udo.memory import ALIGNMENT, Memory
from xdlc.runtime.udo.structs import LAYOUTS, MAX_RANK

Array = Any  # numpy.ndarray


class StaticData:
    """Static data of an operation, which goes into one memory."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Callable[[], Array]]] = []
        self._size = 0

    def add(self, size: int, array: Callable[[], Array]) -> int:
        """Take up data and return where it will lie.

        Args:
            size: Bytes.
            array: Gives the elements.
        """
        place = self._size
        self._pieces.append((place, array))
        self._size += size
        self._size += -self._size % ALIGNMENT
        return place

    def memory(self) -> Memory:
        """Return a memory that holds it.

        Raises:
            StorageError: If there is not so much.
        """
        made = Memory(self._size)
        for place, give in self._pieces:
            array = give()
            made.array(place, array.shape, array.dtype)[...] = array
        return made


def kernel_dtype(dtype: DType) -> DType:
    """Return the type in which kernels take and give activations."""
    if dtype.is_fixed or (dtype.is_float and dtype is not FLOAT64):
        return FLOAT32
    return dtype


def form_of(op: Op, definition: OpDef | None, *, reals: bool = False) -> tuple[OpForm, StaticData]:
    """Return an op as its kernel sees it.

    Args:
        op: The op.
        definition: What the model knows of it; without it, places have names like ``in[0]``.
        reals: Whether static data of fixed point are reals to the kernel, whatever the definition says.

    Raises:
        BackendError: If something of it has no form for kernels.
        ModelError: If static data has no usable encoding.
    """
    for operand in (*op.inputs, *op.outputs, *op.params.values()):
        if isinstance(operand, Tensor):
            _check(op, operand)
    data = StaticData()
    inputs, outputs = (
        _places(sides, count, word)
        for sides, count, word in (
            (definition.inputs if definition else (), len(op.inputs), "in"),
            (definition.outputs if definition else (), len(op.outputs), "out"),
        )
    )
    return OpForm(
        op.package,
        op.type,
        op.name,
        (
            *(
                TensorForm(name, omitted=True)
                if tensor is None
                else _tensor(tensor, name, place, data, reals)
                for tensor, (name, place) in zip(op.inputs, inputs, strict=True)
            ),
            *_left_out(definition, len(op.inputs)),
        ),
        tuple(
            _tensor(tensor, name, place, data, reals)
            for tensor, (name, place) in zip(op.outputs, outputs, strict=True)
        ),
        (
            *(_param(name, param, definition, data, reals) for name, param in op.params.items()),
            *_defaults(definition, op.params, data),
        ),
    ), data


def _left_out(definition: OpDef | None, count: int) -> list[TensorForm]:
    """Return the places behind the last input of an op: a kernel finds each where the definition has it."""
    places = definition.inputs[count:] if definition is not None else ()
    return [TensorForm(place.name, omitted=True) for place in places if not place.repeated]


def _defaults(definition: OpDef | None, given: Container[str], data: StaticData) -> list[ParamForm]:
    """Return the parameters that an op leaves to defaults; xdlc writes them out, others may not."""
    missing = [param for param in definition.params.values() if param.name not in given] if definition else []
    values = [(param, default_value(param)) for param in missing]
    return [
        _value(param.name, param.enumeration[value] if param.enumeration else value, definition, data)
        for param, value in values
        if value is not None
    ]


def _check(op: Op, tensor: Tensor) -> None:
    where = describe(op.graph, op) if op.graph else op.name
    if tensor.rank > MAX_RANK:
        raise BackendError(
            f"{tensor.name!r} has {tensor.rank} axes, kernels take {MAX_RANK}",
            where=where,
            fix="reshape it before the op",
        )
    if tensor.dtype.kind in ("string", "undefined"):
        raise BackendError(
            f"{tensor.name!r} is {tensor.dtype}, and kernels take tensors of numbers",
            where=where,
            fix="hand texts over as string parameters",
        )


def _places(known: Sequence[TensorDef], count: int, word: str) -> list[tuple[str, TensorDef | None]]:
    """Return name and definition of each operand; a repeated one stands for all that follow."""
    found: list[tuple[str, TensorDef | None]] = []
    for index in range(count):
        place = known[min(index, len(known) - 1)] if known else None
        if place is None or (index >= len(known) and not place.repeated):
            found.append((f"{word}[{index}]", None))
        else:
            found.append((place.name, place))
    return found


def _layout(place: TensorDef | None) -> str:
    """Return the layout that a definition states; it may leave it open in several words."""
    return place.layout if place is not None and place.layout in LAYOUTS else ""


def _tensor(tensor: Tensor, name: str, place: TensorDef | None, data: StaticData, reals: bool) -> TensorForm:
    dims = tuple(None if axis in tensor.dynamic_axes else extent for axis, extent in enumerate(tensor.shape))
    layout = _layout(place)
    if not tensor.is_static:
        return TensorForm(name, kernel_dtype(tensor.dtype).code, dims, layout)
    allowed = () if place is None or (reals and tensor.dtype.is_fixed) else place.dtypes
    if place is not None and not place.is_static:  # a constant comes as the activation that it stands for
        allowed = (kernel_dtype(tensor.dtype),)
    return _static(tensor, name, layout, allowed, data)


def _static(tensor: Tensor, name: str, layout: str, allowed: Sequence[DType], data: StaticData) -> TensorForm:
    dtype, encoding, shape = tensor.dtype, tensor.encoding, tensor.shape
    scale, offset = 0.0, 0
    if dtype.is_fixed or (dtype.is_float and allowed and dtype not in allowed) or dtype.name == "bfloat16":
        stored = {dtype, PLAIN.get(dtype)} & set(allowed)
        if isinstance(encoding, ScaleOffset) and stored and FLOAT32 not in allowed:
            scale, offset = float(encoding.scale), int(encoding.offset)
        else:
            dtype = FLOAT32
    kind = element(dtype.code)

    def elements() -> Array:
        held = real_data(tensor) if dtype is FLOAT32 else unpacked(tensor)
        return held.numpy().astype(kind, copy=False).reshape(shape)

    place = data.add(nbytes(shape, kind.itemsize), elements)
    return TensorForm(name, dtype.code, shape, layout, scale, offset, place)


def _param(
    name: str, param: Scalar | Tensor, definition: OpDef | None, data: StaticData, reals: bool
) -> ParamForm:
    known = definition.params.get(name) if definition is not None else None
    if isinstance(param, Tensor):
        layout = _layout(known)
        allowed = () if known is None or (reals and param.dtype.is_fixed) else known.dtypes
        tensor = _static(param, name, layout, allowed, data)
        return ParamForm(name, tensor.dtype, tensor=tensor)
    value = param.value
    names = known.enumeration if known is not None else ()
    named = isinstance(value, int) and 0 <= value < len(names)
    return ParamForm(name, param.dtype.code, value, names[int(value)] if named else None)


def form_of_view(view: OpView, definition: OpDef | None) -> tuple[OpForm, StaticData]:
    """Return an op that a converter asks about.

    Args:
        view: The op.
        definition: Its definition: gives numbers of enumerators and the types of parameters.
    """
    data = StaticData()

    def tensor(spec: TensorSpec | None, name: str, place: TensorDef | None) -> TensorForm:
        if spec is None:
            return TensorForm(name, omitted=place is not None and not place.mandatory)
        layout = spec.layout or _layout(place)
        if spec.data is None:
            return TensorForm(name, kernel_dtype(spec.dtype).code, spec.shape, layout)
        return _static_of_view(spec, name, layout, () if place is None else place.dtypes, data)

    inputs = _places(definition.inputs if definition else (), len(view.inputs), "in")
    outputs = _places(definition.outputs if definition else (), len(view.outputs), "out")
    form = OpForm(
        view.package,
        view.type,
        view.name,
        (
            *(
                TensorForm(name, omitted=True) if spec is None else tensor(spec, name, place)
                for spec, (name, place) in zip(view.inputs, inputs, strict=True)
            ),
            *_left_out(definition, len(view.inputs)),
        ),
        tuple(
            TensorForm(name) if spec is None else tensor(spec, name, place)
            for spec, (name, place) in zip(view.outputs, outputs, strict=True)
        ),
        (
            *(_value(name, value, definition, data) for name, value in view.params.items()),
            *_defaults(definition, view.params, data),
        ),
    )
    return form, data


def _static_of_view(
    spec: TensorSpec, name: str, layout: str, allowed: Sequence[DType], data: StaticData
) -> TensorForm:
    shape = tuple(extent or 0 for extent in spec.shape)
    tensor = Tensor(spec.name, shape, spec.dtype, data=spec.data)
    if not spec.dtype.is_fixed:
        return _static(tensor, name, layout, allowed, data)
    kind = element(spec.dtype.code)  # a view knows no encoding: as it is stored
    place = data.add(nbytes(shape, kind.itemsize), lambda: unpacked(tensor).numpy().astype(kind, copy=False))
    return TensorForm(name, spec.dtype.code, shape, layout, place=place)


def _value(name: str, value: Any, definition: OpDef | None, data: StaticData) -> ParamForm:
    import numpy

    known = definition.params.get(name) if definition is not None else None
    stated = known.dtypes[0] if known is not None and len(known.dtypes) == 1 else None
    if known is not None and isinstance(value, str) and value in known.enumeration:
        return ParamForm(name, UINT32.code, known.enumeration.index(value), value)
    if isinstance(value, str):
        return ParamForm(name, STRING.code, value)
    if isinstance(value, bool | int | float | numpy.generic):
        plain = value.item() if isinstance(value, numpy.generic) else value
        return ParamForm(name, (stated or _type_of(plain)).code, plain)
    array = numpy.asarray(value)
    if stated is not None and not stated.is_fixed:
        array = array.astype(stated.numpy)
    elif array.dtype == numpy.float64:
        array = array.astype(numpy.float32)
    return _array(name, array, _layout(known), data)


def _array(name: str, array: Array, layout: str, data: StaticData) -> ParamForm:
    place = data.add(array.nbytes, lambda: array)
    form = TensorForm(name, from_numpy(array.dtype).code, array.shape, layout, place=place)
    return ParamForm(name, form.dtype, tensor=form)


def _type_of(value: bool | int | float) -> DType:
    if isinstance(value, bool):
        return BOOL8
    if isinstance(value, float):
        return FLOAT32
    return INT32 if INT32.limits[0] <= value <= INT32.limits[1] else INT64


def arguments_of(kernel: Kernel) -> tuple[OpForm, StaticData]:
    """Return the arguments of a compiled kernel as parameters that are named by their letters.

    Raises:
        BackendError: If letters and values do not fit together.
    """
    import numpy

    data = StaticData()
    kinds: dict[str, Any] = {"i": int, "f": (int, float), "s": str, "o": (numpy.ndarray, list, tuple)}
    forms = []
    if len(kernel.arguments) != len(kernel.values):
        raise BackendError(f"has {len(kernel.values)} arguments for the letters {kernel.arguments!r}")
    for letter, value in zip(kernel.arguments, kernel.values, strict=True):
        if not isinstance(value, kinds.get(letter, ())):
            raise BackendError(f"has the argument {value!r:.80} for the letter {letter!r}")
        if letter == "f":
            forms.append(ParamForm(letter, FLOAT64.code, float(value)))
        elif letter == "i":
            forms.append(ParamForm(letter, INT64.code, int(value)))
        elif letter == "s":
            forms.append(ParamForm(letter, STRING.code, value))
        else:
            forms.append(_array(letter, numpy.asarray(value), "", data))
    return OpForm("", "", kernel.name, (), (), tuple(forms)), data
