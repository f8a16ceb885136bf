"""Views of tensors: which results are views, and how a change is written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import mul
from typing import Any

from xdlc.converter.pytorch.calls import Call, Meta, Ref, schema, with_defaults
from xdlc.converter.pytorch.symbols import evaluate, symbols_of
from xdlc.errors import UnsupportedOp

COPY = "change a copy of the tensor: call clone() first"
_UNKNOWN = "whether a changed tensor is a view or a copy depends on its strides"
_DROPOUTS = frozenset(["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"])
_CASTS = frozenset(f"_cast_{name}" for name in "Byte Char Double Float Half Int Long Short".split())  # noqa: SIM905
_BY_LAYOUT = frozenset(["contiguous", "to", "type_as", *_CASTS])
"""Operators that return what they take if it has the layout and type of the result already."""
_SAME = frozenset(
    ["alias", "detach", "lift", "requires_grad", "positive", "resolve_conj", "resolve_neg", "real", "conj"]
) | (_DROPOUTS | _BY_LAYOUT)
"""Views that are what they view, or else copies."""
_ATLEAST = frozenset(["atleast_1d", "atleast_2d", "atleast_3d"])
_MAY_COPY = frozenset(["reshape", "flatten", "reshape_as", "ravel"])
"""Reshapes that copy where strides allow no view."""
_RESHAPES = _MAY_COPY | _ATLEAST | {"view", "unflatten", "squeeze", "unsqueeze", "view_as"}
_RESHAPES |= {"_unsafe_view", "_reshape_alias"}
"""Views with the elements of their base, in the same order."""
_SCATTERED = frozenset(["select", "slice", "diagonal", "as_strided"])
"""Views that an operator of the same arguments writes back, like ``select_scatter``."""
_SPLITS = frozenset(["split", "split_with_sizes", "chunk", "tensor_split"])
_SWAPS = frozenset(["t", "transpose", "swapaxes", "swapdims", "mT"])
_FROM_THE_START = _SAME | _RESHAPES | _SWAPS | {"permute"}
"""Views whose first element is that of their base."""
_UNMARKED = _CASTS | _ATLEAST | {"type_as", "broadcast_tensors", "meshgrid"}
"""Operators whose results may be their arguments, or views of them, which their schemas do not state."""
_SIZE = 5040
"""Sizes that symbols have where strides decide on views: divisible by small numbers, and different."""


@dataclass(slots=True, eq=False)
class Storage:
    """A tensor that owns its elements.

    Attributes:
        root: Its first name.
        value: Name of the value that it has now.
        version: How often it has been changed.
        doubt: Why its value is not known since a change, if so.
        is_input: Whether it is an input of the graph.
        is_passed: Whether it may be an operand of the call that returns it.
    """

    root: str
    value: str
    version: int = 0
    doubt: str = ""
    is_input: bool = False
    is_passed: bool = False


@dataclass(slots=True)
class Step:
    """A call that returns a view.

    Attributes:
        call: The call, with one result.
        argument: The argument that it views.
        doubt: Why the view cannot be made again or written back, if so.
    """

    call: Call
    argument: str
    doubt: str = ""


@dataclass(slots=True)
class Tensor:
    """A tensor: a view of a storage, or all of it.

    Attributes:
        steps: Calls from the root to the view.
        value: Name of the value that holds it.
        version: Version of the storage that the value is of.
    """

    storage: Storage
    steps: tuple[Step, ...]
    value: str
    version: int = 0


def viewed_argument(call: Call) -> str:
    """Return the argument that results of a call may be views of; "" if none."""
    space, _, name = call.target.partition(".")
    operator = name.partition(".")[0]
    if space != "aten" or operator == "lift_fresh":  # what it lifts is a literal of the program
        return ""
    if operator in _DROPOUTS:
        return "input"
    if operator in _UNMARKED:
        return "tensors" if "tensors" in call.arguments else "self"
    return next((each.name for each in schema(name) or () if each.is_viewed), "")


def step_of(call: Call, index: int, values: Mapping[str, Meta]) -> Step | None:
    """Return the step from a call's viewed argument to a result; None for a copy.

    Args:
        index: Position of the result.
        values: What the program states of tensors.
    """
    name, argument, output = call.target.split(".")[1], viewed_argument(call), call.outputs[index]
    viewed = call.arguments[argument]
    if isinstance(viewed, list):
        return Step(call, argument, f"an operand of {name}, or its result, is changed in place later")
    source, result = values.get(viewed), values.get(output)
    is_view = _is_view(name, call.arguments, source, result)
    if is_view is not True:
        return Step(call, argument, _UNKNOWN) if is_view is None else None
    part: tuple[str, dict[str, Any]] | None = None
    if name.startswith("expand") and source and result and source.sizes == result.sizes:
        part = "alias", {}
    elif name == "unbind":
        part = "select.int", {"dim": call.arguments.get("dim", 0), "index": index}
    elif source is not None:
        part = _slice(name, call, index, len(source.sizes), values)
    if part is not None:
        arguments = with_defaults(part[0], {"self": viewed, **part[1]})
        return Step(replace(call, target=f"aten.{part[0]}", arguments=arguments, outputs=[output]), "self")
    doubt = f"the operand of {name}, or a result, is changed in place" if len(call.outputs) > 1 else ""
    return Step(call, argument, doubt)


def _is_view(
    name: str, arguments: Mapping[str, Any], source: Meta | None, result: Meta | None
) -> bool | None:
    """Return whether a result shares elements with its source; None if unknown."""
    if name in _DROPOUTS:
        return not arguments.get("train", True) or arguments.get("p") == 0
    if name not in _BY_LAYOUT | _MAY_COPY:
        return True
    if arguments.get("copy") or (source and result and source.dtype != result.dtype):
        return False
    if name in _CASTS:
        return True
    layouts = _numbers(source, result) if source and result else None
    if layouts is None:
        return None
    before, after = (list(zip(*pair, strict=True)) for pair in (layouts[:2], layouts[2:]))
    if name in _MAY_COPY:
        return _has_view(before, layouts[2])
    return [pair for pair in before if pair[0] != 1] == [pair for pair in after if pair[0] != 1]


def _numbers(source: Meta, result: Meta) -> list[list[int]] | None:
    """Return sizes and strides of both tensors, symbols as numbers; None if unknown."""
    lists = (source.sizes, source.strides, result.sizes, result.strides)
    if any(len(sizes) != len(strides) for sizes, strides in (lists[:2], lists[2:])):
        return None
    try:
        names = sorted({name for many in lists for each in many for name in symbols_of(each)})
        symbols = {name: _SIZE * (index + 1) for index, name in enumerate(names)}
        return [[int(evaluate(each, symbols)) for each in many] for many in lists]
    except ValueError:
        return None


def _has_view(axes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> bool:
    """Return whether strided elements can have another shape without a copy.

    Axes whose elements follow each other are runs; the new shape must not merge two of them.

    Args:
        axes: Size and stride of each axis.
    """
    runs: list[list[int]] = []
    for size, stride in reversed([axis for axis in axes if axis[0] != 1]):
        if size == 0:
            return True
        if runs and stride == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= size
        else:
            runs.append([size, stride])
    return set(accumulate((run[0] for run in runs), mul)) <= {1, *accumulate(reversed(sizes), mul)}


def _slice(
    name: str, call: Call, index: int, rank: int, values: Mapping[str, Meta]
) -> tuple[str, dict[str, Any]] | None:
    """Return operator and arguments that select one of several parts, or None."""
    if not rank:
        return None
    dim = call.arguments.get("dim", 0) % rank if name in _SPLITS or name == "narrow" else 0
    if name == "narrow":
        start, size = call.arguments["start"], call.arguments["length"]
        if not isinstance(start, int) or not isinstance(size, int):
            return None
        end = None if start < 0 == start + size else start + size
        return "slice.Tensor", {"dim": dim, "start": start, "end": end}
    if name not in _SPLITS:
        return None
    metas = [values.get(output) for output in call.outputs[: index + 1]]
    sizes = [each.sizes[dim] for each in metas if each is not None and len(each.sizes) == rank]
    numbers = [each for each in sizes if isinstance(each, int)]
    if len(numbers) <= index:
        return None
    return "slice.Tensor", {"dim": dim, "start": sum(numbers[:index]), "end": sum(numbers)}


def strided_source(call: Call, tensor: Tensor, values: Mapping[str, Meta]) -> Ref:
    """Return the tensor whose elements, in order, are a strided view's storage.

    Raises:
        UnsupportedOp: If no tensor has them in that order.
    """
    names = {step.call.target.split(".")[1] for step in tensor.steps}
    is_absolute = call.arguments.get("storage_offset") is not None
    meta, step = values.get(tensor.storage.root), 1
    is_whole = meta is not None and len(meta.strides) == len(meta.sizes)
    is_whole &= not names if "scatter" in call.target else is_absolute or names <= _FROM_THE_START
    if meta is not None and is_whole:
        is_whole = not is_absolute or meta.offset == 0
        for size, stride in zip(reversed(meta.sizes), reversed(meta.strides), strict=True):
            is_whole &= size == 1 or stride == step
            step = step * size if isinstance(size, int) else 0
    if not is_whole:
        raise UnsupportedOp(
            f"{call.target.partition('.')[2]} views memory that is not one contiguous tensor",
            fix="use slices or indices instead",
        )
    return Ref(tensor.storage.root)


def inverse(
    view: Call, before: str, value: str, values: Mapping[str, Meta]
) -> tuple[str, dict[str, Any]] | None:
    """Return operator and arguments that write a view's new value into its base.

    Args:
        view: The call that made the view.
        before: The tensor that is viewed.
        value: The view's new value.
        values: What the program states of tensors.

    Returns:
        The operator, and its arguments but those that have defaults; None if the value itself is it.

    Raises:
        UnsupportedOp: If no operator expresses it.
    """
    name, arguments = view.target.split(".")[1], view.arguments
    if name in _SAME:
        return None
    if name in _RESHAPES and view.target != "aten.view.dtype":
        return "view_as", {"self": Ref(value), "other": Ref(before)}
    if name in _SCATTERED:
        return f"{name}_scatter", {**arguments, "self": Ref(before), "src": Ref(value)}
    order = _order(name, arguments, len(values[before].sizes)) if before in values else None
    if order is None:
        raise UnsupportedOp(f"a view made by {name} is changed in place, which is not supported", fix=COPY)
    return "permute", {"self": Ref(value), "dims": [order.index(axis) for axis in range(len(order))]}


def _order(name: str, arguments: Mapping[str, Any], rank: int) -> list[int] | None:
    """Return the permutation of axes by a view; None for other views."""
    order = list(range(rank))
    if name == "permute":
        return [axis % rank for axis in arguments["dims"]]
    if name == "numpy_T":
        return order[::-1]
    if name in _SWAPS:
        pairs = (("dim0", "axis0", -2), ("dim1", "axis1", -1))
        first, second = (arguments.get(key, arguments.get(synonym, last)) for key, synonym, last in pairs)
        if rank > 1:
            order[first], order[second] = order[second], order[first]
        return order
    if name not in ("movedim", "moveaxis"):
        return None
    many = [
        arguments[key] if isinstance(arguments[key], list) else [arguments[key]]
        for key in ("source", "destination")
    ]
    source, destination = ([axis % rank for axis in axes] for axes in many)
    rest = iter(axis for axis in order if axis not in source)
    return [source[destination.index(axis)] if axis in destination else next(rest) for axis in order]
