"""Drafts parameters from the attributes that nodes have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.errors import UnsupportedOp
from xdlc.ir.data import TensorData
from xdlc.ir.dtype import FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, UINT64, DType, from_numpy
from xdlc.opdefs.model import DescriptionPart, ParamDef
from xdlc.opdefs.uncovered import UncoveredNode

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
    for kind, node in kinds.items():
        if not kind:
            raise UnsupportedOp(
                f"attribute {name!r} of {node.operator} is a graph, a list of tensors or the like",
                where=node.where,
                fix="leave it out of the model: parameters are numbers, strings and tensors of numbers",
            )
    if "one" in kinds and len(kinds) > 1:
        node = kinds["list" if "list" in kinds else "tensor"]
        raise UnsupportedOp(
            f"attribute {name!r} of {node.operator} is one value on some nodes and several on others",
            where=node.where,
            fix="give it the same form on all nodes",
        )
    values = [value for _, value in given]
    dtype = _dtype(values)
    words = f"Attribute {name!r}: {_values(values)}"
    if len(given) < len(nodes):
        words += f"; {len(given)} of {len(nodes)} nodes have it"
    return ParamDef(
        name,
        mandatory=len(given) == len(nodes),
        dtypes=(dtype,),
        rank=0 if dtype is STRING else _rank(values),
        description=(DescriptionPart(f"{words}."),),
    )


def _is_left_out(node: UncoveredNode, name: str) -> bool:
    return name not in node.attributes or node.attributes[name] == []


def _kind(value: Any) -> str:
    """Return ``one``, ``list`` or ``tensor``; empty for what no parameter can be."""
    if isinstance(value, int | float | str):
        return "one"
    if isinstance(value, TensorData):
        return "tensor"
    plain = isinstance(value, list) and all(isinstance(item, int | float | str) for item in value)
    return "list" if plain else ""


def _dtype(values: Sequence[Any]) -> DType:
    tensors = [value for value in values if isinstance(value, TensorData)]
    if tensors:
        return stored(from_numpy(tensors[0].dtype))
    elements = [item for value in values for item in (value if isinstance(value, list) else [value])]
    if any(isinstance(item, str) for item in elements):
        return STRING
    if any(isinstance(item, float) for item in elements):
        return FLOAT32
    fitting = (dtype for dtype in (INT32, UINT32) if all(_fits(item, dtype) for item in elements))
    return next(fitting, INT64)


def _fits(number: int, dtype: DType) -> bool:
    low, high = dtype.limits
    return low <= number <= high


def _rank(values: Sequence[Any]) -> int | None:
    """Return the number of axes that all values have; None if it differs, or is more than 4."""
    ranks = {
        len(value.shape) if isinstance(value, TensorData) else int(isinstance(value, list))
        for value in values
    }
    rank = ranks.pop() if len(ranks) == 1 else None
    return rank if rank is not None and rank <= 4 else (1 if not values else None)


def _values(values: Sequence[Any]) -> str:
    texts = dict.fromkeys(
        f"a tensor of {value.dtype}{list(value.shape)}" if isinstance(value, TensorData) else repr(value)
        for value in values
    )
    text = ", ".join(texts) or "an empty list"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
