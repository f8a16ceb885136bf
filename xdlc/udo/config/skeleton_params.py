"""Drafts parameters from the attributes that nodes have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.errors import UnsupportedOp
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, UINT64, DType, from_numpy
from xdlc.opdefs.model import DescriptionPart, ParamDef
from xdlc.opdefs.source_match import UncoveredNode

_NARROWER = {INT64: INT32, UINT64: UINT32, FLOAT64: FLOAT32}
_SHOWN = 60


def stored(dtype: DType) -> DType:
    """Return the type under which a DLC holds a type of a source model.

    Example:
        >>> stored(INT64), stored(INT32)
        (int32, int32)
    """
    return _NARROWER.get(dtype, dtype)


def drafted_params(nodes: Sequence[UncoveredNode]) -> dict[str, ParamDef]:
    """Return the parameters of an operator.

    One that a node does without is optional.

    Args:
        nodes: All nodes of the operator.

    Raises:
        UnsupportedOp: If an attribute is nothing that a parameter can be.
    """
    names = dict.fromkeys(name for node in nodes for name in node.attributes)
    return {name: _param(name, nodes) for name in names}


def _param(name: str, nodes: Sequence[UncoveredNode]) -> ParamDef:
    given = [(node, node.attributes[name]) for node in nodes if not _is_left_out(node, name)]
    kinds = {_kind(value): node for node, value in given}
    if "" in kinds:
        raise UnsupportedOp(
            f"attribute {name!r} of {nodes[0].operator} is a graph, strings in a tensor, several tensors or "
            "the like",
            where=kinds[""].where,
            fix="leave it out of the model, or define the operator by a plugin: parameters are numbers, "
            "strings and tensors of numbers",
        )
    if "text" in kinds and len(kinds.keys() - {"text", "one"}):
        raise UnsupportedOp(
            f"attribute {name!r} of {nodes[0].operator} is text on some nodes and several numbers on others",
            where=kinds["text"].where,
            fix="give it the same form on all nodes",
        )
    values = [value for _, value in given]
    dtypes = _dtypes(values)
    words = f"Attribute {name!r}: {_values(values)}"
    if len(given) < len(nodes):
        words += f"; {len(given)} of {len(nodes)} nodes have it"
    return ParamDef(
        name,
        mandatory=len(given) == len(nodes),
        dtypes=dtypes,
        rank=0 if STRING in dtypes else _rank(values),
        description=(DescriptionPart(f"{words}."),),
    )


def _is_left_out(node: UncoveredNode, name: str) -> bool:
    return name not in node.attributes or node.attributes[name] == []


def _kind(value: Any) -> str:
    """Return ``one``, ``list``, ``text`` or ``tensor``; empty for what no parameter can be."""
    if isinstance(value, int | float):
        return "one"
    if isinstance(value, TensorData):
        return "tensor" if _tensor_type(value) is not None else ""
    items = value if isinstance(value, list) else [value]
    if all(isinstance(item, str) for item in items):
        return "text"
    return "list" if all(isinstance(item, int | float) for item in items) else ""


def _tensor_type(value: TensorData) -> DType | None:
    try:
        return stored(from_numpy(value.dtype))
    except TypeError:
        return None


def _dtypes(values: Sequence[Any]) -> tuple[DType, ...]:
    tensors = [dtype for value in values if isinstance(value, TensorData) and (dtype := _tensor_type(value))]
    plain = [value for value in values if not isinstance(value, TensorData)]
    elements = [item for value in plain for item in (value if isinstance(value, list) else [value])]
    numbers = [item for item in elements if not isinstance(item, str)]
    found = (STRING,) if len(numbers) < len(elements) else ()
    if numbers or not (found or tensors):
        found = (_number_type(numbers), *found)
    return tuple(dict.fromkeys((*tensors, *found)))


def _number_type(numbers: Sequence[int | float]) -> DType:
    """Return the type that holds all numbers; that of none is the usual one."""
    if any(isinstance(item, float) for item in numbers):
        return FLOAT32
    fitting = (dtype for dtype in (INT32, UINT32) if all(_fits(int(item), dtype) for item in numbers))
    return next(fitting, INT64)


def _fits(number: int, dtype: DType) -> bool:
    low, high = dtype.limits
    return low <= number <= high


def _rank(values: Sequence[Any]) -> int | None:
    """Return the number of axes that all values have; None if it differs, or is more than 4.

    A number stands for a list of one.
    """
    ranks = {
        len(value.shape) if isinstance(value, TensorData) else int(isinstance(value, list))
        for value in values
    }
    ranks -= {0} if ranks == {0, 1} else set()
    rank = ranks.pop() if len(ranks) == 1 else None
    return rank if rank is not None and rank <= 4 else (1 if not values else None)


def _values(values: Sequence[Any]) -> str:
    texts = dict.fromkeys(
        f"a tensor of {value.dtype}{list(value.shape)}" if isinstance(value, TensorData) else repr(value)
        for value in values
    )
    text = ", ".join(texts) or "an empty list"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
