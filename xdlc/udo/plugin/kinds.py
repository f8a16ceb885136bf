"""Kinds of parameters: their definitions, and the attributes that fill them.

=========== ============================ ==========================================
Kind        Attribute of the source      Parameter of the op
=========== ============================ ==========================================
``Int``     integer                      scalar, int32 unless ``dtype`` states another
``Float``   number                       scalar, float32
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir.data import TensorData
from xdlc.ir.tensor import Tensor as IrTensor
from xdlc.opdefs.model import ParamDef
from xdlc.opdefs.values import as_text, element, enumerator, parameter
from xdlc.udo.plugin.tensors import checked_rank, data_type, described


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
"""Default of a parameter that the source must give; None is that of an optional one."""


Transform = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of parameter.

    Attributes:
        definition: Definition of the parameter; its name is that under which the plugin lists the kind.
        default: Value where the source has none; None for an optional parameter.
        source: Name of the source's attribute, if it is another.
        to_value: Returns an attribute as a value of the definition.
        read: Returns the value that an op stores as hooks see it.
    """

    definition: ParamDef
    default: Any = REQUIRED
    source: str = ""
    to_value: Transform = _same
    read: Transform = _same

    def named(self, name: str) -> ParamDef:
        """Return the definition under a name."""
        return replace(self.definition, name=name)


def _kind(
    default: Any, dtype: str, allowed: Sequence[str], rank: int | None, source: str, description: str,
    enumeration: tuple[str, ...] = (), to_value: Transform = _same, read: Transform = _same,
) -> Kind:  # fmt: skip
    stored = data_type(dtype)
    if stored.kind not in allowed:
        raise UsageError(
            f"the kind does not support data type {stored.name}",
            fix=f"use a type of kind {' or '.join(allowed)}",
        )
    param = ParamDef(
        "", default is REQUIRED, (stored,), rank, description=described(description), enumeration=enumeration
    )
    if default is not REQUIRED and default is not None:
        try:
            text = _text(param, to_value(default))
        except ValueError as error:
            fix = "give a default that fits, or another kind"
            raise UsageError(f"{default!r}, {error}", where="default", fix=fix) from error
        # XML strips texts and holds no empty ones; converted ops hold their defaults themselves.
        param = replace(param, default=text if text and text == text.strip() else None)
    return Kind(param, default, source, to_value, read)


def _text(param: ParamDef, value: Any) -> str:
    """Return a default as OpDef XML writes it.

    Raises:
        ValueError: If it does not fit.
    """
    if param.enumeration:
        return param.enumeration[enumerator(param.enumeration, value)]
    if param.is_scalar:
        return as_text(element(param.dtypes[0], value))
    if isinstance(value, list):
        return as_text([element(param.dtypes[0], item) for item in value])
    stored = parameter(param, value)
    assert isinstance(stored, IrTensor)  # the parameter is no scalar
    return as_text(stored.numpy().tolist())


def _simple(
    standard: str, *allowed: str, rank: int = 0, to_value: Transform = _same, read: Transform = _same
) -> Callable[..., Kind]:
    """Return the function that makes kinds of a data type.

    Args:
        standard: Data type where ``dtype`` states no other.
        allowed: Kinds of data types that ``dtype`` may state.
    """

    def kind(
        default: Any = REQUIRED, *, dtype: str = standard, source: str = "", description: str = ""
    ) -> Kind:
        return _kind(default, dtype, allowed, rank, source, description, (), to_value, read)

    return kind


def _as_list(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value)


def _as_text_of_strings(value: Any) -> str:
    alone = isinstance(value, str) and not value.startswith("[")
    text = _json_text(list, [value] if alone else value)
    if not all(isinstance(item, str) for item in json.loads(text)):
        raise UsageError(f"expected a list of strings, found {value!r:.60}")
    return text


def _octets(value: Any) -> Any:
    data = value.numpy().tobytes() if isinstance(value, TensorData) else value
    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    return list(data) if isinstance(data, bytes | bytearray) else data


def _json_text(types: Any, value: Any) -> str:
    """Return a message or list, or the JSON text of one, as JSON text.

    Raises:
        UsageError: If it is something else.
    """
    try:
        plain = json.loads(value) if isinstance(value, str) else _plain(value)
        if not isinstance(plain, types):
            raise ValueError(f"{value!r:.60} is of another type")
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise UsageError(f"expected a message or a list of plain values: {error}") from error


Int = _simple("int32", "int", "uint")
Float = _simple("float32", "float")
Bool = _simple("bool8", "bool")
Str = _simple("string", "string")
Ints = _simple("int32", "int", "uint", rank=1, read=_as_list)
Floats = _simple("float32", "float", rank=1, read=_as_list)
Bools = _simple("bool8", "bool", rank=1, read=_as_list)
Strs = _simple("string", "string", to_value=_as_text_of_strings, read=json.loads)
Json = _simple("string", "string", to_value=partial(_json_text, dict | list), read=json.loads)
Bytes = _simple("uint8", "uint", rank=1, to_value=_octets, read=lambda value: bytes(_as_list(value)))


def tensor(
    default: Any = REQUIRED,
    *,
    dtype: str = "float32",
    rank: int | None = None,
    source: str = "",
    description: str = "",
) -> Kind:
    """Return the kind of a tensor.

    Args:
        default: An array.
        dtype: Name of the data type, which must represent the values.
        rank: Number of axes; None for any.
        source: Name of the source's attribute, if it is another.
        description: What it is.
    """

    def array_of(value: Any) -> Any:
        import numpy

        return value if isinstance(value, TensorData) else numpy.asarray(value)

    checked_rank(rank, "a tensor")
    return _kind(
        default, dtype, ("float", "int", "uint", "bool"), rank, source, description, to_value=array_of
    )


def enum(
    *names: str,
    default: Any = REQUIRED,
    numbers: Mapping[int, str] | None = None,
    source: str = "",
    description: str = "",
) -> Kind:
    """Return the kind of a name from a list.

    Args:
        names: The names; the op stores their places, from 0 on.
        default: One of them.
        numbers: Numbers that the source uses for them; default: their places.
        source: Name of the source's attribute, if it is another.
        description: What it is.

    Example:
        >>> operation = enum("SUM", "ASUM", numbers={1: "SUM", 2: "ASUM"}, default="SUM")
        >>> operation.to_value(2), operation.to_value("SUM")
        ('ASUM', 'SUM')
    """
    bad = [name for name in names if not isinstance(name, str) or not name.isidentifier()]
    if bad or not names or len(set(names)) != len(names):
        raise UsageError(
            f"an enumeration has the names {list(names)}",
            fix="give at least one name, each once, of letters, digits and underscores",
        )
    unknown = sorted(set((numbers or {}).values()) - set(names))
    if unknown:
        raise UsageError(
            f"numbers name {unknown[0]!r}, which the enumeration lacks", fix=f"use one of {', '.join(names)}"
        )
    name_of = enum_map(dict(enumerate(names)) if numbers is None else numbers)
    return _kind(
        default, "uint32", ("uint",), 0, source, description, names,
        to_value=lambda value: value if isinstance(value, str) else name_of(value),
    )  # fmt: skip


Tensor, Enum = tensor, enum


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
        if isinstance(number, bool) or number not in of_number:
            choices = ", ".join(f"{key} ({name})" for key, name in of_number.items())
            raise UsageError(f"there is no {number!r:.60}", fix=f"use one of {choices}")
        return of_number[number]

    return name_of


def _plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Raises:
        UsageError: If JSON has no form of it.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "tolist"):  # of numpy
        return _plain(value.tolist())
    raise UsageError(
        f"a {type(value).__name__} cannot be stored as JSON",
        fix="declare a parameter of kind Bytes or Tensor, or omit the value",
    )
