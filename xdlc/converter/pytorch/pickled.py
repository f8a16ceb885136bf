"""Values of PyTorch's pickles: stored tensors, and records in place of objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

MOST_ARGUMENTS = 16
_MOST_DEPTH = 200
_TOO_DEEP = f"its values nest more than {_MOST_DEPTH} deep, or contain themselves"
_MOST_RANK = 64


class Global(str):
    """Name of a class or function, with its module: ``torch.per_tensor_affine``."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Record:
    """An unbuilt object of a class, or unevaluated result of a function.

    Attributes:
        kind: Class or function, with its module.
        arguments: What it is made with.
        state: State that it is given then; None if it is given none.
    """

    kind: str
    arguments: tuple[Any, ...] = ()
    state: Any = None


class Storage(NamedTuple):
    """Storage of tensors.

    Attributes:
        number: Data type of its elements, as a number of c10; -1 for bytes of any type.
        key: Name of the record that holds it.
    """

    number: int
    key: str


class StoredTensor(NamedTuple):
    """A tensor in a storage.

    Attributes:
        storage: The storage, of the type of the tensor.
        offset: Its first element.
        strides: Elements between neighbours along each axis.
        quantizer: Scheme of a quantized tensor, then scale and zero point, or tensors of these and an axis.
    """

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    quantizer: tuple[Any, ...] = ()


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> StoredTensor:
    """Return the tensor of a call of ``torch._utils._rebuild_tensor_v2``."""
    if not isinstance(storage, Storage) or max(len(shape), len(strides)) > _MOST_RANK:
        raise TypeError("a tensor has no storage, or too many sizes")
    if not all(type(number) is int for number in (offset, *shape, *strides)):
        raise TypeError("a tensor has sizes that are not numbers")
    return StoredTensor(storage, offset, tuple(shape), tuple(strides))


def _typed_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, _: Any, __: Any, dtype: Any, *___: Any
) -> StoredTensor:
    """Return the tensor of a call of ``torch._utils._rebuild_tensor_v3``."""
    made = _tensor(storage, offset, shape, strides)
    number = _TYPES.get(dtype, -1) if isinstance(dtype, str) else -1
    return made._replace(storage=made.storage._replace(number=number))


def _quantized(storage: Any, offset: Any, shape: Any, strides: Any, quantizer: Any, *_: Any) -> StoredTensor:
    """Return the tensor of a call of ``torch._utils._rebuild_qtensor``."""
    if not isinstance(quantizer, tuple) or not quantizer or not isinstance(quantizer[0], Global):
        raise TypeError("a quantized tensor has no quantizer")
    return _tensor(storage, offset, shape, strides)._replace(quantizer=quantizer)


def _from_type(function: Any, _: Any, arguments: Any, *__: Any) -> Any:
    """Return a tensor subclass with its own rebuild function as a plain tensor."""
    if function not in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"):
        raise TypeError(f"a tensor is made by {function}")
    if not isinstance(arguments, tuple) or len(arguments) > MOST_ARGUMENTS:
        raise TypeError("a tensor has too many arguments")
    return FUNCTIONS[function](*arguments)


def _dict(values: Any = (), *_: Any) -> dict[Any, Any]:
    """Return an empty OrderedDict, whose items are set later."""
    if values:
        raise TypeError("an OrderedDict is made with items")
    return {}


_LISTS = ("intlist", "doublelist", "boollist", "tensorlist")
_PASSING = [
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    *(f"torch.jit._pickle.build_{name}" for name in _LISTS),
    "torch.jit._pickle.restore_type_tag",
    "torch.Size",
]
"""Functions whose result is their first argument."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_qtensor": _quantized,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "collections.OrderedDict": _dict,
    **dict.fromkeys(_PASSING, lambda value, *_: value),
}


_STORED = (
    "Byte Char Short Int Long Half Float Double ComplexHalf ComplexFloat ComplexDouble Bool QInt8 QUInt8 "
    "QInt32 BFloat16 QUInt4x2 QUInt2x4"
)
STORAGES = {f"{name}Storage": number for number, name in enumerate(_STORED.split())} | {"UntypedStorage": -1}
"""Number of c10 by class of storage (c10/core/ScalarType.h)."""
_TYPED = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 "
    "qint32 bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn "
    "float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"
)
_TYPES = {f"torch.{name}": number for number, name in enumerate(_TYPED.split())}
"""Number of c10 by data type."""


def check_depth(value: Any) -> None:
    """Refuse values that contain themselves, or nest deep.

    Raises:
        ValueError: If so.
    """
    if _depth(value, 0, {}) > _MOST_DEPTH:
        raise ValueError(_TOO_DEEP)


def _depth(value: Any, level: int, depths: dict[int, int]) -> int:
    """Return how deep a value at a level nests; results of all values are kept."""
    if level > _MOST_DEPTH:
        raise ValueError(_TOO_DEEP)
    if id(value) not in depths:
        inner = (part for part in _parts(value) if isinstance(part, list | tuple | dict | Record))
        depths[id(value)] = 1 + max((_depth(part, level + 1, depths) for part in inner), default=0)
    return depths[id(value)]


def _parts(value: Any) -> tuple[Any, ...]:
    """Return the values directly inside another."""
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, Record):
        return value.arguments, value.state  # arguments may be those of many records
    if isinstance(value, StoredTensor):
        return value.quantizer
    return tuple(value) if isinstance(value, list | tuple) else ()
