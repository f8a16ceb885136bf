"""Kinds of parameters: types of source attributes, and their form in the op.

=========== ============================ ==========================================
Kind        Attribute of the source      Parameter of the op
=========== ============================ ==========================================
``Int``     integer                      scalar, int32 unless ``dtype`` states another
``Float``   float; an integer            scalar, float32
``Bool``    integer 0 or 1               scalar, bool8
``Str``     string                       string
``Enum``    name, or number of a name    scalar, uint32, which counts the names
``Tensor``  tensor                       tensor
``Ints``    list of integers             tensor of one axis, int32
``Floats``  list of floats               tensor of one axis, float32
``Bools``   list of 0 and 1              tensor of one axis, bool8
``Strs``    list of strings              string: a JSON list, as there are no tensors of strings
``Json``    message, list of any depth   string: JSON
``Bytes``   bytes; a string              tensor of one axis, uint8
=========== ============================ ==========================================

A list of tensors has no form in a model; each of its tensors may be a parameter.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import UINT32, DType
from xdlc.opdefs.model import ParamDef
from xdlc.runtime.udo.structs import MAX_RANK
from xdlc.udo.plugin.declared_tensors import data_type, described


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
"""Default of a parameter that the source must give; None is that of an optional one."""


class Kind(ABC):
    """A kind of parameter.

    Args:
        default: Value where the source has none; None for an optional parameter.
        dtype: Name of the data type in which the op stores it.
        source: Name of the source's attribute, if it is another.
        description: What it is.
    """

    text: ClassVar[str]
    standard: ClassVar[str]
    allowed: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, default: Any = REQUIRED, *, dtype: str | None = None, source: str = "", description: str = ""
    ) -> None:
        self.default = default
        self.dtype: DType = data_type(dtype or self.standard)
        self.source = source
        self.description = description
        if self.dtype.kind not in self.allowed:
            raise UsageError(
                f"{type(self).__name__} does not support data type {self.dtype.name}",
                fix=f"use a type of kind {' or '.join(self.allowed)}",
            )
        if default is not REQUIRED and default is not None:
            try:
                self.default = self.check(default)
            except UsageError as error:
                error.where = "default"
                error.fix = error.fix or f"give a default that is {self.text}, or another kind"
                raise

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return a value of the source in the form of the op's parameter.

        Raises:
            UsageError: If it is not of this kind.
        """

    def read(self, value: Any) -> Any:
        """Return a value that the op stores as hooks see it."""
        return value

    def default_text(self) -> str | None:
        """Return the default as text for OpDef XML; None if XML cannot represent it.

        XML strips texts and holds no empty ones; converted ops hold their defaults themselves.
        """
        if self.default is REQUIRED or self.default is None:
            return None
        text = self.written(self.default)
        return text if text and text == text.strip() else None

    def written(self, value: Any) -> str:
        """Return a value as OpDef XML writes it."""
        return str(value)

    def definition(self, name: str) -> ParamDef:
        """Return the definition of a parameter of this kind."""
        return ParamDef(
            name,
            self.default is REQUIRED,
            (self.dtype,),
            self.rank(),
            default=self.default_text(),
            description=described(self.description),
        )

    def rank(self) -> int | None:
        """Return the number of axes; 0 for a scalar, None for any."""
        return 0

    def wrong(self, value: Any) -> UsageError:
        """Return the error of a value of another kind."""
        return UsageError(f"expected {self.text}, found {shown(value)}")


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, numpy's among them."""
    import numpy

    return isinstance(value, (int, numpy.integer))


def numbers(value: Any) -> Any:
    """Return nested lists with 0 and 1 for false and true."""
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return int(value) if isinstance(value, bool) else value


def shown(value: Any) -> str:
    """Return a value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Int(Kind):
    """An integer."""

    text = "an integer"
    standard = "int32"
    allowed = ("int", "uint")

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not is_integer(value):
            raise self.wrong(value)
        least, most = self.dtype.limits
        if not least <= value <= most:
            raise UsageError(f"{value} is not within {least}..{most} of {self.dtype.name}")
        return int(value)


class Float(Kind):
    """A real number."""

    text = "a number"
    standard = "float32"
    allowed = ("float",)

    def check(self, value: Any) -> float:
        import numpy

        if isinstance(value, bool) or not isinstance(value, (int, float, numpy.integer, numpy.floating)):
            raise self.wrong(value)
        with numpy.errstate(all="ignore"):
            stored = numpy.asarray(float(value)).astype(self.dtype.numpy)
        if numpy.isinf(stored) and not numpy.isinf(float(value)):
            raise UsageError(f"{self.dtype.name} cannot hold {value}")
        return float(value)


class Bool(Kind):
    """Yes or no."""

    text = "true, false, 1 or 0"
    standard = "bool8"
    allowed = ("bool",)

    def check(self, value: Any) -> bool:
        if not (isinstance(value, bool) or (is_integer(value) and value in (0, 1))):
            raise self.wrong(value)
        return bool(value)

    def written(self, value: Any) -> str:
        return "1" if value else "0"


class Str(Kind):
    """A string."""

    text = "a string"
    standard = "string"
    allowed = ("string",)

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise self.wrong(value)
        return value


class _List(Kind):
    item: ClassVar[type[Kind]]

    def __init_subclass__(cls) -> None:
        cls.standard, cls.allowed = cls.item.standard, cls.item.allowed

    def __init__(
        self, default: Any = REQUIRED, *, dtype: str | None = None, source: str = "", description: str = ""
    ) -> None:
        self._item = self.item(dtype=dtype)
        super().__init__(default, dtype=dtype, source=source, description=description)

    def check(self, value: Any) -> list[Any]:
        import numpy

        given = value.tolist() if isinstance(value, numpy.ndarray) and value.ndim == 1 else value
        given = [given] if isinstance(given, (int, float)) else given  # of a field that may repeat
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise self.wrong(value)
        return [self._item.check(item) for item in given]

    def read(self, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else list(value)

    def rank(self) -> int | None:
        return 1

    def written(self, value: Any) -> str:
        return json.dumps(numbers(value))


class Ints(_List):
    """A list of integers."""

    text = "a list of integers"
    item = Int


class Floats(_List):
    """A list of real numbers."""

    text = "a list of numbers"
    item = Float


class Bools(_List):
    """A list of yes and no."""

    text = "a list of 0 and 1"
    item = Bool


class Tensor(Kind):
    """A tensor.

    Args:
        default: An array.
        dtype: Name of the data type; values must have a form in it.
        rank: Number of axes; None for any.
        source: Name of the source's attribute, if it is another.
        description: What it is.
    """

    text = "a tensor"
    standard = "float32"
    allowed = ("float", "int", "uint", "bool")

    def __init__(
        self,
        default: Any = REQUIRED,
        *,
        dtype: str | None = None,
        rank: int | None = None,
        source: str = "",
        description: str = "",
    ) -> None:
        if rank is not None and not (isinstance(rank, int) and 1 <= rank <= MAX_RANK):
            raise UsageError(f"rank of a tensor is {rank!r}", fix=f"give None or 1 to {MAX_RANK}")
        self._rank = rank
        super().__init__(default, dtype=dtype, source=source, description=description)

    def check(self, value: Any) -> Any:
        import numpy

        array = value.numpy() if isinstance(value, TensorData) else value
        if not isinstance(array, (numpy.ndarray, list, tuple)):
            raise self.wrong(value)
        try:
            source = numpy.asarray(array)
            with numpy.errstate(all="ignore"):
                stored = source.astype(self.dtype.numpy)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.wrong(value) from error
        if self._rank is not None and stored.ndim != self._rank:
            raise UsageError(f"expected a tensor of {self._rank} axes, found shape {list(stored.shape)}")
        if not self.dtype.is_float and not numpy.array_equal(source, stored):
            raise UsageError(f"{self.dtype.name} cannot hold these values of {source.dtype}")
        return stored

    def rank(self) -> int | None:
        return self._rank

    def written(self, value: Any) -> str:
        return json.dumps(numbers(value.tolist()))


class Enum(Kind):
    """A name from a list.

    Args:
        names: The names; the op stores their places, from 0 on.
        default: One of them.
        numbers: Numbers that the source uses for them; default: their places.
        source: Name of the source's attribute, if it is another.
        description: What it is.

    Example:
        >>> operation = Enum("SUM", "ASUM", numbers={1: "SUM", 2: "ASUM"}, default="SUM")
        >>> operation.check(2), operation.check("SUM")
        ('ASUM', 'SUM')
    """

    text = "a name"
    standard = "uint32"
    allowed = ("uint",)

    def __init__(
        self,
        *names: str,
        default: Any = REQUIRED,
        numbers: Mapping[int, str] | None = None,
        source: str = "",
        description: str = "",
    ) -> None:
        if not names or len(set(names)) != len(names):
            raise UsageError(
                f"an enumeration has the names {list(names)}",
                fix="give at least one name, and each name once",
            )
        bad = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
        if bad:
            raise UsageError(
                f"{bad[0]!r} is not a name for an enumeration", fix="use letters, digits, underscores"
            )
        unknown = sorted(set((numbers or {}).values()) - set(names))
        if unknown:
            raise UsageError(
                f"numbers name {unknown[0]!r}, which the enumeration lacks",
                fix=f"use one of {', '.join(names)}",
            )
        self.names = names
        self._of_number = enum_map(dict(enumerate(names)) if numbers is None else numbers)
        super().__init__(default, source=source, description=description)

    def check(self, value: Any) -> str:
        if isinstance(value, str):
            if value not in self.names:
                near = nearest_names(value, self.names)
                raise UsageError(f"there is no {value!r}", fix=near or f"use one of {', '.join(self.names)}")
            return value
        return self._of_number(value)

    def definition(self, name: str) -> ParamDef:
        return ParamDef(
            name,
            self.default is REQUIRED,
            (UINT32,),
            0,
            default=self.default_text(),
            description=described(self.description),
            enumeration=self.names,
        )


def enum_map(names: Mapping[int, str]) -> Callable[[Any], str]:
    """Return a function from the numbers of a source's enumeration to names.

    Args:
        names: Names by number.

    Example:
        >>> enum_map({1: "SUM", 2: "ASUM"})(2)
        'ASUM'
    """
    of_number = dict(names)

    def name_of(number: Any) -> str:
        if isinstance(number, bool) or not is_integer(number) or int(number) not in of_number:
            choices = ", ".join(f"{key} ({name})" for key, name in of_number.items())
            raise UsageError(f"there is no {shown(number)}", fix=f"use one of {choices}")
        return of_number[int(number)]

    return name_of


class Json(Str):
    """A message or nested list, which the op stores as a JSON string."""

    text = "a message or a list of plain values"

    def check(self, value: Any) -> str:
        given = self._parsed(value) if isinstance(value, str) else value
        found = _plain(given)
        if not isinstance(found, (dict, list)):
            raise self.wrong(value)
        return json.dumps(found, ensure_ascii=False, allow_nan=False)

    def read(self, value: Any) -> Any:
        return self._parsed(value)

    def _parsed(self, value: str) -> Any:
        try:
            return json.loads(value)
        except ValueError as error:
            raise self.wrong(value) from error


class Strs(Json):
    """A list of strings, which the op stores as a JSON string."""

    text = "a list of strings"

    def check(self, value: Any) -> str:
        given = [value] if isinstance(value, str) and not value.startswith("[") else value
        given = self._parsed(given) if isinstance(given, str) else given
        if not isinstance(given, (list, tuple)) or not all(isinstance(item, str) for item in given):
            raise self.wrong(value)
        return super().check(list(given))


class Bytes(Ints):
    """Bytes; of sources whose texts may be any bytes, also a string, as UTF-8."""

    text = "bytes"

    def __init__(self, default: Any = REQUIRED, *, source: str = "", description: str = "") -> None:
        super().__init__(default, dtype="uint8", source=source, description=description)

    def check(self, value: Any) -> list[int]:
        given = value.numpy().tobytes() if isinstance(value, TensorData) else value
        given = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
        return super().check(list(given) if isinstance(given, (bytes, bytearray)) else given)

    def read(self, value: Any) -> bytes:
        return bytes(super().read(value))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Raises:
        UsageError: If JSON has no form of it.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if is_integer(value):
        return int(value)
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    raise UsageError(
        f"a {type(value).__name__} cannot be stored as JSON",
        fix="declare a parameter of kind Bytes or Tensor, or omit the value",
    )
