"""Definitions of operations, as OpDef XML states them."""

from __future__ import annotations

from functools import lru_cache

from xdlc.ir.dtype import DType
from xdlc.records import record

INCOMPLETE = "Incomplete:"
"""Begin of the description of a native op whose inputs or parameters are not all published."""


@lru_cache(maxsize=4096)
def split_dims(text: str) -> tuple[str, ...]:
    """Return the items of a list of dimensions like ``[rank(in[0]), 2]``, or none.

    Example:
        >>> split_dims("[n, max(h, w), 2]"), split_dims("as in[0]"), split_dims("[]")
        (('n', 'max(h, w)', '2'), (), ())
    """
    if not (text.startswith("[") and text.endswith("]")) or text == "[]":
        return ()
    parts, depth, start = [], 0, 1
    for index, char in enumerate(text[:-1]):
        if char == "," and depth == 1:
            parts.append(text[start:index].strip())
            start = index + 1
        depth += (char in "([") - (char in ")]")
    return (*parts, text[start:-1].strip())


@record(frozen=True)
class DescriptionPart:
    """A part of a description; parts keep their order.

    Attributes:
        is_code: Whether it is code (``Code``), not words (``Content``).
    """

    text: str
    is_code: bool = False


@record(frozen=True)
class Reference:
    """A counterpart of an operation in another framework.

    Attributes:
        source: Framework, or framework and operator.
        url: Its description; may be empty.
        text: Words; may be empty.
    """

    source: str
    url: str = ""
    text: str = ""


@record(frozen=True)
class Constraint:
    """A constraint of one tensor, enforced if ``constraint_parser`` parses it.

    Attributes:
        id: Number or name by which a supplement replaces it; may be empty.
        type: ``Number``, ``Shape``, ``Value``, ``Datatype``, ``Description`` or empty.
    """

    id: str
    type: str
    text: str


@record(frozen=True)
class TensorDef:
    """An input or output of an operation.

    Attributes:
        name: ``in[0]``, ``out[1]`` in native definitions; any identifier in UDOs.
        dtypes: Allowed types; empty if the backend decides.
        rank: Exact number of axes; None for any.
        text: The shape in words, or as ``[N, H, W, C]``; may be empty.
        layout: ``NHWC``, ``NCHW``, ``NHCW``, ``UNDEFINED``, ``BACKEND_SPECIFIC``, or empty.
        default: Value of a missing tensor, as text (see ``xdlc.opdefs.defaults``).
        repeated: Whether it is any number of tensors.
        is_static: Whether it is data of the model.
    """

    name: str
    mandatory: bool
    dtypes: tuple[DType, ...]
    rank: int | None
    text: str = ""
    layout: str = ""
    constraints: tuple[Constraint, ...] = ()
    default: str | None = None
    repeated: bool = False
    is_static: bool = False
    description: tuple[DescriptionPart, ...] = ()

    @property
    def shape(self) -> tuple[str, ...]:
        """Names, numbers or expressions of the dimensions; ``..`` is any number of them."""
        return split_dims(self.text)


@record(frozen=True)
class ParamDef(TensorDef):
    """A parameter; a scalar if its rank is 0.

    Attributes:
        enumeration: Names of the values 0, 1, 2...; empty for plain numbers.
    """

    enumeration: tuple[str, ...] = ()

    @property
    def is_scalar(self) -> bool:
        """Whether the parameter is a scalar."""
        return self.rank == 0


@record(frozen=True)
class OpDef:
    """An operation.

    Attributes:
        references: Counterparts in other frameworks.
        backends: Backends that the definition itself names.
        use_default_translation: Whether a UDO replaces the native op of its name.
    """

    name: str
    package: str
    inputs: tuple[TensorDef, ...]
    outputs: tuple[TensorDef, ...]
    params: dict[str, ParamDef]
    description: tuple[DescriptionPart, ...] = ()
    references: tuple[Reference, ...] = ()
    backends: tuple[str, ...] = ()
    use_default_translation: bool = False

    @property
    def complete(self) -> bool:
        """Whether every input and parameter is published."""
        return not (self.description and self.description[0].text.startswith(INCOMPLETE))

    def value_of(self, param: str, name: str) -> int:
        """Return the number of an enumerator, like ``value_of("mode", "CRD")``.

        Raises:
            KeyError: If there is no such parameter or enumerator.
        """
        names = self.params[param].enumeration
        if name not in names:
            raise KeyError(name)
        return names.index(name)


@record(frozen=True)
class SupplementTensor:
    """Supplement of a backend for an input, output or parameter.

    Attributes:
        dtypes: The types that the backend accepts; empty if not stated.
        constraints: Rules; one replaces the definition's of the same id.
        only_default: Whether the backend accepts the definition's default alone.
        layout: Layout that the backend accepts; may be empty.
        text: The shape in words; may be empty.
    """

    name: str
    dtypes: tuple[DType, ...]
    constraints: tuple[Constraint, ...] = ()
    only_default: bool = False
    layout: str = ""
    text: str = ""


@record(frozen=True)
class SupplementOp:
    """A backend's supplement of one operation; tensors and parameters by name."""

    name: str
    inputs: dict[str, SupplementTensor]
    outputs: dict[str, SupplementTensor]
    params: dict[str, SupplementTensor]


@record(frozen=True)
class SupplementTable:
    """One SupplementalOpDefList.

    Attributes:
        backend: Name in the file; a backend may have one table for quantized and one for float.
        supported: Types of operations that it supports.
        ops: Supplements by type; of several alternatives one must hold as a whole.
    """

    backend: str
    supported: frozenset[str]
    ops: dict[str, tuple[SupplementOp, ...]]


@record(frozen=True)
class Supplement:
    """Tables of a backend.

    Attributes:
        backend: ``cpu``, ``gpu``, ``htp`` or ``hta``.
        tables: An op is accepted if one of them accepts it.
    """

    backend: str
    tables: tuple[SupplementTable, ...]

    def supports(self, type: str) -> bool:
        """Return whether the backend has the operation in any form."""
        return any(type in table.supported for table in self.tables)


@record(frozen=True)
class Collection:
    """Content of an OpDef XML file."""

    package: str
    domain: str
    version: str
    opdefs: tuple[OpDef, ...]
    supplements: tuple[SupplementTable, ...]


LAYOUTS = ("NHWC", "NCHW", "NHCW")


def order_of(layout: str, rank: int) -> tuple[int, ...]:
    """Return the permutation of source axes to a layout; others keep their order.

    Layouts are written for images; of any other number of axes ``NHWC`` means channels last.

    Raises:
        ValueError: If the layout has another number of axes.

    Example:
        >>> order_of("NHWC", 4), order_of("NHCW", 4), order_of("", 4), order_of("NHWC", 2)
        ((0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 2, 3), (0, 1))
    """
    if layout == "NHWC" and rank > 2:
        return (0, *range(2, rank), 1)
    if layout != "NHCW":
        return tuple(range(rank))
    if rank != 4:
        raise ValueError(f"NHCW is an order of 4 axes, but the tensor has {rank}")
    return (0, 2, 1, 3)
