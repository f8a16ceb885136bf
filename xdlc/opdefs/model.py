"""What is known of operations, as read from OpDef XML."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from xdlc.ir.dtype import DType

INCOMPLETE = "Incomplete:"
"""How the description of a native op begins whose inputs or parameters are not all known."""


@lru_cache(maxsize=4096)
def split_extents(text: str) -> tuple[str, ...]:
    """Return the extents of ``[rank(in[0]), 2]``; other texts tell none.

    Example:
        >>> split_extents("[n, max(h, w), 2]"), split_extents("as in[0]"), split_extents("[]")
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


@dataclass(frozen=True, slots=True)
class DescriptionPart:
    """One piece of a description; they keep their order.

    Attributes:
        text: What it says.
        is_code: Whether it is code (``Code``) or words (``Content``).
    """

    text: str
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """What an operation corresponds to elsewhere.

    Attributes:
        source: Framework, or framework and operator.
        url: Where it is described; may be empty.
        text: Words; may be empty.
    """

    source: str
    url: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule about one tensor.

    Which texts are enforced is told in ``xdlc.opdefs.rules`` for native operations, in
    ``xdlc.opdefs.custom_verify`` for those of users.

    Attributes:
        id: Number or name by which a supplement replaces it; may be empty.
        type: ``Number``, ``Shape``, ``Value``, ``Datatype``, ``Description`` or empty.
        text: The rule.
    """

    id: str
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class TensorDef:
    """An input or output of an operation.

    Attributes:
        name: ``in[0]``, ``out[1]`` in native definitions; anything in custom ones.
        mandatory: Whether it must be there.
        dtypes: Allowed types; empty if the backend decides.
        rank: Exact number of axes; None for any.
        text: What is said of the shape in words, or as ``[N, H, W, C]``; may be empty.
        layout: ``NHWC``, ``NCHW``, ``NHCW``, ``UNDEFINED``, ``BACKEND_SPECIFIC``, or empty.
        constraints: Rules.
        default: What stands in for a missing tensor, as text (see ``xdlc.opdefs.defaults``).
        repeated: Whether it stands for any number of tensors.
        is_static: Whether it holds data of the model.
        description: What it is.
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
        """Names, numbers or expressions of the extents; ``..`` stands for any number; empty if not told."""
        return split_extents(self.text)


@dataclass(frozen=True, slots=True)
class ParamDef(TensorDef):
    """A parameter; a scalar if its rank is 0.

    Attributes:
        enumeration: Names of the values 0, 1, 2...; empty for plain numbers.
    """

    enumeration: tuple[str, ...] = ()

    @property
    def is_scalar(self) -> bool:
        """Whether the parameter is one value."""
        return self.rank == 0


@dataclass(frozen=True, slots=True)
class OpDef:
    """An operation.

    Attributes:
        name: Operation type.
        package: Op package.
        inputs: Inputs by position.
        outputs: Outputs by position.
        params: Parameters by name.
        description: What it computes.
        references: What it corresponds to elsewhere.
        backends: Backends that the definition itself names.
        use_default_translation: Whether a custom op replaces the native op of its name.
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
        """Whether every input and parameter is known."""
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


@dataclass(frozen=True, slots=True)
class SupplementTensor:
    """What a backend adds about one input, output or parameter.

    Attributes:
        name: Name in the definition.
        dtypes: The types that the backend takes; empty if it says nothing of them.
        constraints: Rules; one replaces the definition's of the same id.
        only_default: Whether the backend takes nothing but the definition's default.
        layout: Layout that the backend takes; may be empty.
        text: What is said of the shape; may be empty.
    """

    name: str
    dtypes: tuple[DType, ...]
    constraints: tuple[Constraint, ...] = ()
    only_default: bool = False
    layout: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class SupplementOp:
    """What a backend adds about one operation; inputs, outputs and parameters by name."""

    name: str
    inputs: dict[str, SupplementTensor]
    outputs: dict[str, SupplementTensor]
    params: dict[str, SupplementTensor]


@dataclass(frozen=True, slots=True)
class SupplementTable:
    """One SupplementalOpDefList.

    Attributes:
        backend: Name in the file; a backend may have one table for quantized and one for float.
        supported: Types of operations that it has.
        ops: What it adds, by type; of several alternatives one must hold as a whole.
    """

    backend: str
    supported: frozenset[str]
    ops: dict[str, tuple[SupplementOp, ...]]


@dataclass(frozen=True, slots=True)
class Supplement:
    """All that is known of a backend.

    Attributes:
        backend: ``cpu``, ``gpu``, ``htp`` or ``hta``.
        tables: An op is accepted if one of them accepts it.
    """

    backend: str
    tables: tuple[SupplementTable, ...]

    def supports(self, type: str) -> bool:
        """Return whether the backend has the operation in any form."""
        return any(type in table.supported for table in self.tables)


@dataclass(frozen=True, slots=True)
class Collection:
    """Content of an OpDef XML file."""

    package: str
    domain: str
    version: str
    opdefs: tuple[OpDef, ...]
    supplements: tuple[SupplementTable, ...]


LAYOUTS = ("NHWC", "NCHW", "NHCW")


def order_of(layout: str, rank: int) -> tuple[int, ...]:
    """Return the order of source axes in which an operand lies; without a layout it is the source's.

    Layouts are written for images; of any other number of axes ``NHWC`` means channels last.

    Raises:
        ValueError: If the layout is none for so many axes.

    Example:
        >>> order_of("NHWC", 4), order_of("NHCW", 4), order_of("", 4), order_of("NHWC", 2)
        ((0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 2, 3), (0, 1))
    """
    if layout == "NHWC" and rank > 2:
        return (0, *range(2, rank), 1)
    if layout != "NHCW":
        return tuple(range(rank))
    if rank != 4:
        raise ValueError(f"NHCW is an order of 4 axes, but there are {rank}")
    return (0, 2, 1, 3)
