"""Views of tensors: which results share elements with an argument, and how a changed view is written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Any

from xdlc.converter.pytorch.calls import Call, Meta, Ref
from xdlc.converter.pytorch.schemas import schema
from xdlc.converter.pytorch.symbols import Unknown, evaluate, symbols_of
from xdlc.errors import UnsupportedOp

_SAME = frozenset(
    """
    alias contiguous detach lift requires_grad positive resolve_conj resolve_neg to type_as real conj
    _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
    dropout feature_dropout alpha_dropout feature_alpha_dropout
    """.split()  # noqa: SIM905 - a list literal would be longer
)
"""Views that are what they view, or else copies."""
_ATLEAST = ("atleast_1d", "atleast_2d", "atleast_3d")
_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_RESHAPES = frozenset(
    """
    view reshape flatten unflatten squeeze unsqueeze _unsafe_view _reshape_alias view_as reshape_as ravel
    atleast_1d atleast_2d atleast_3d
    """.split()  # noqa: SIM905
)
"""Views with the elements of what they view, in the same order."""
_MAY_COPY = frozenset(["reshape", "flatten", "reshape_as", "ravel"])
"""Those of them that copy where strides allow no view."""
_SCATTERS = {
    "select": ("select_scatter", ("dim", "index")),
    "slice": ("slice_scatter", ("dim", "start", "end", "step")),
    "diagonal": ("diagonal_scatter", ("offset", "dim1", "dim2")),
    "as_strided": ("as_strided_scatter", ("size", "stride", "storage_offset")),
}
"""Operators that write a part of a tensor back, with the arguments that they share with the view."""
_PARTS = frozenset(["split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit"])
_SWAPS = frozenset(["t", "transpose", "swapaxes", "swapdims", "adjoint", "mT", "mH"])
_ORDERS = frozenset(["permute", "numpy_T", "matrix_H", "movedim", "moveaxis"])
_LISTS = frozenset(["broadcast_tensors", "meshgrid", *_ATLEAST])
"""Operators whose results are views of the tensors of a list, one each."""
_UNMARKED = {"type_as": "self", **dict.fromkeys((name for name in _SAME if name[0] == "_"), "self")}
_UNMARKED |= dict.fromkeys(_DROPOUTS, "input") | dict.fromkeys(
    ("atleast_1d", "atleast_2d", "atleast_3d"), "self"
)
"""Operators whose results may be their arguments, which their schemas do not state."""
_FROM_THE_START = _SAME | _RESHAPES | _SWAPS | {"expand", "permute"}
"""Views whose first element is that of what they view."""
_SIZE = 5040
"""Sizes that symbols have where strides decide on views: divisible by small numbers, and different."""


@dataclass(slots=True)
class Storage:
    """A tensor that owns its elements.

    Attributes:
        root: Its first name.
        value: Name of the value that it has now.
        version: How often it has been changed.
        doubt: Why its value is not known since a change, if so.
        is_passed: Whether it may be an operand of the call that returns it.
    """

    root: str
    value: str
    version: int = 0
    doubt: str = ""
    is_passed: bool = False


@dataclass(slots=True)
class Step:
    """A call that makes a view.

    Attributes:
        call: The call.
        index: Which of its results the view is.
        argument: The argument that it views.
        position: Which tensor of the argument, if that is a list.
        doubt: Why it may make a copy instead, if so.
    """

    call: Call
    index: int
    argument: str
    position: int | None = None
    doubt: str = ""


@dataclass(slots=True)
class Tensor:
    """A tensor: a view of a storage, or all of it.

    Attributes:
        storage: The storage.
        steps: Calls from the root to the view.
        value: Name of the value that holds it.
        version: Version of the storage that the value is of.
    """

    storage: Storage
    steps: tuple[Step, ...]
    value: str
    version: int = 0


def viewed_argument(call: Call) -> str:
    """Return the name of the argument that results of a call may be views of; empty if there is none."""
    space, _, name = call.target.partition(".")
    operator, _, overload = name.partition(".")
    if space != "aten" or operator == "lift_fresh":  # what it lifts is a literal of the program
        return ""
    if operator in _LISTS and (overload == "Sequence" or not operator.startswith("atleast")):
        return "tensors"
    if operator in _UNMARKED:
        return _UNMARKED[operator]
    return next((each.name for each in schema(name) or () if each.is_viewed), "")


def is_view(call: Call, source: Meta | None, result: Meta | None) -> bool | None:
    """Return whether a result shares its elements with what the call may view; None if that is not known.

    Args:
        call: A call with a viewed argument.
        source: What the program states of this argument.
        result: What it states of the result.
    """
    name = call.target.split(".")[1]
    if name in _DROPOUTS:
        return not call.arguments.get("train", True) or call.arguments.get("p") == 0
    if name not in _SAME and name not in _MAY_COPY:
        return True
    if call.arguments.get("copy", False):
        return False
    if source is not None and result is not None and source.dtype != result.dtype:
        return False
    if name in _SAME - {"contiguous", "to", "type_as"}:
        return True
    if source is None or result is None:
        return None
    before, after = _numbers(source, result)
    if before is None or after is None:
        return None
    if name in _MAY_COPY:
        return _has_view(*before, after[0])
    return _steps(*before) == _steps(*after)


def _numbers(*metas: Meta) -> list[tuple[list[int], list[int]] | None]:
    """Return sizes and strides of tensors with different numbers for symbols; None where they are unknown."""
    names = sorted(
        {name for meta in metas for size in (*meta.sizes, *meta.strides) for name in symbols_of(size)}
    )
    symbols = {name: _SIZE * (index + 1) for index, name in enumerate(names)}
    found: list[tuple[list[int], list[int]] | None] = []
    for sizes, strides in ((meta.sizes, meta.strides) for meta in metas):
        try:
            known = [[int(evaluate(each, symbols)) for each in many] for many in (sizes, strides)]
        except (Unknown, ValueError):
            known = [[], [0]]
        found.append((known[0], known[1]) if len(known[0]) == len(known[1]) else None)
    return found


def _steps(sizes: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Return size and stride of each axis that has more than one element."""
    return [pair for pair in zip(sizes, strides, strict=True) if pair[0] != 1]


def _has_view(sizes: Sequence[int], strides: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether elements can have another shape where they lie.

    Axes whose elements follow each other are runs; the new shape must not merge two of them.
    """
    if 0 in sizes:
        return True
    runs: list[list[int]] = []
    for size, stride in reversed(_steps(sizes, strides)):
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        else:
            runs.append([size, stride])
    return set(accumulate((run[0] for run in runs), mul)) <= {1, *accumulate(reversed(wanted), mul)}


def strided_source(call: Call, given: str, tensor: Tensor, values: Mapping[str, Meta]) -> str:
    """Return the tensor whose elements, in order, are the storage that a strided view looks at.

    Raises:
        UnsupportedOp: If no tensor has them in that order.
    """
    names = {step.call.target.split(".")[1] for step in tensor.steps}
    is_absolute = call.arguments.get("storage_offset") is not None
    keeps = names <= _SAME | _RESHAPES
    if call.target != "aten.as_strided_scatter":
        keeps = is_absolute or names <= _FROM_THE_START
        given = tensor.storage.root if keeps else given
    meta = values.get(given)
    if not keeps or not _is_in_order(meta) or (is_absolute and meta is not None and meta.offset != 0):
        raise UnsupportedOp(
            f"{call.target.partition('.')[2]} looks at memory that is not one tensor in order",
            where=f"call of {call.target}",
            fix="take the elements by slices or indices instead",
        )
    return given


def _is_in_order(meta: Meta | None) -> bool:
    """Return whether the elements of a tensor lie in memory as in order, as the program states."""
    if meta is None or len(meta.strides) != len(meta.sizes):
        return False
    step: int | str = 1
    for size, stride in zip(reversed(meta.sizes), reversed(meta.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step = step * size if isinstance(step, int) and isinstance(size, int) else "?"
    return True


def inverse(
    view: Call, index: int, before: str, value: str, values: Mapping[str, Meta]
) -> tuple[str, dict[str, Any]] | None:
    """Return operator and arguments of what a tensor becomes where its view has another value.

    Args:
        view: The call that made the view.
        index: Which of its results the view is.
        before: The tensor that is viewed.
        value: The view's new value.
        values: What the program states of tensors.

    Returns:
        The operator, and its arguments but those that have defaults; None if the value itself is it.

    Raises:
        UnsupportedOp: If no operator expresses it.
    """
    name, given = view.target.split(".")[1], view.arguments
    meta = values.get(before)
    shape = tuple(meta.sizes) if meta is not None else None
    base, this = {"self": Ref(before), "src": Ref(value)}, {"self": Ref(value)}
    if name in _SAME:
        return None
    if name in _RESHAPES and view.target != "aten.view.dtype":
        return "view_as", this | {"other": Ref(before)}
    if name in _SCATTERS:
        scatter, shared = _SCATTERS[name]
        return scatter, base | {key: given[key] for key in shared if key in given}
    if name in ("expand", "expand_as", "broadcast_to", "broadcast_tensors"):
        after = values.get(view.outputs[index])
        if after is not None and shape == tuple(after.sizes):
            return None
    if shape is not None and name in _SWAPS:
        first, second = (
            given.get(key, given.get(other)) for key, other in (("dim0", "axis0"), ("dim1", "axis1"))
        )
        if len(shape) < 2:
            return None
        return "transpose.int", this | ({"dim0": first, "dim1": second} if first is not None else _LAST)
    if shape is not None and name in _ORDERS:
        order = _order(name, given, len(shape))
        return "permute", this | {"dims": [order.index(axis) for axis in range(len(shape))]}
    taken = part(view, index, before, values)
    if taken is not None:
        return _SCATTER_OF[taken[0]], taken[1] | base
    raise UnsupportedOp(
        f"a view made by {name} is changed, which has no functional form",
        fix="change a copy of it: call clone() before",
    )


_LAST = {"dim0": -2, "dim1": -1}
_SCATTER_OF = {"select.int": "select_scatter", "slice.Tensor": "slice_scatter"}


def _order(name: str, given: Mapping[str, Any], rank: int) -> list[int]:
    """Return the axes of a tensor in the order in which a view has them."""
    if name == "permute":
        return [axis % rank for axis in given["dims"]]
    if name in ("numpy_T", "matrix_H"):
        return list(range(rank))[::-1]
    many = [given[key] if isinstance(given[key], list) else [given[key]] for key in ("source", "destination")]
    source, destination = ([axis % rank for axis in each] for each in many)
    rest = iter(axis for axis in range(rank) if axis not in source)
    return [source[destination.index(axis)] if axis in destination else next(rest) for axis in range(rank)]


def part(
    view: Call, index: int, before: str, values: Mapping[str, Meta]
) -> tuple[str, dict[str, Any]] | None:
    """Return operator and arguments that take one of several parts of a tensor alone; None if there are none.

    Args:
        view: The call that made the parts.
        index: Which of them.
        before: The tensor.
        values: What the program states of tensors.
    """
    name, given, meta = view.target.split(".")[1], view.arguments, values.get(before)
    if name == "unbind":
        return "select.int", {"self": Ref(before), "dim": given.get("dim", 0), "index": index}
    if meta is None or name not in _PARTS | {"narrow"}:
        return None
    rank = len(meta.sizes)
    dim = {"hsplit": min(1, rank - 1), "vsplit": 0, "dsplit": 2}.get(name, given.get("dim", 0)) % rank
    if name == "narrow":
        start, size, whole = given["start"], given["length"], meta.sizes[dim]
        if not isinstance(start, int) or not isinstance(size, int):
            return None
        if start < 0 and not isinstance(whole, int):
            return None
        start += int(whole) if start < 0 else 0
    else:
        metas = [values.get(output) for output in view.outputs[: index + 1]]
        sizes = [each.sizes[dim] for each in metas if each is not None]
        numbers = [each for each in sizes if isinstance(each, int)]
        if len(numbers) <= index:
            return None
        start, size = sum(numbers[:index]), numbers[index]
    return "slice.Tensor", {"self": Ref(before), "dim": dim, "start": start, "end": start + size, "step": 1}
