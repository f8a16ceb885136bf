"""Operators that TorchScript calls: evaluated on numbers, recorded on tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xdlc.converter.pytorch.calls import results
from xdlc.converter.pytorch.script import primitives, quantized
from xdlc.converter.pytorch.script.overloads import chosen
from xdlc.converter.pytorch.script.recorder import Recorder
from xdlc.converter.pytorch.script.types import FLOATS, type_of
from xdlc.converter.pytorch.script.values import Tensor, tensors
from xdlc.errors import UnsupportedOp

_SAME = (
    *("alias", "cpu", "cuda", "data", "detach", "detach_", "lift", "lift_fresh", "positive"),
    *("requires_grad_", "resolve_conj", "resolve_neg"),
)
"""Operators whose result is their argument."""
_NO = ("is_complex", "is_cuda", "is_mkldnn", "is_sparse", "is_nested", "is_mps", "is_xla", "requires_grad")
_QUERIES: dict[str, Callable[..., Any]] = {
    "size": lambda tensor, dim=None: list(tensor.shape) if dim is None else tensor.shape[dim],
    "len": lambda tensor: tensor.shape[0],
    "numel": lambda tensor: math.prod(tensor.shape),
    "is_floating_point": lambda tensor: tensor.dtype in FLOATS,
    "dtype": lambda tensor: int(tensor.dtype),
    "device": lambda _: "cpu",
    "layout": lambda _: 0,
    "is_quantized": lambda tensor: tensor.quantizer is not None,
    "q_scale": lambda tensor: tensor.quantizer.scale,
    "q_zero_point": lambda tensor: tensor.quantizer.zero_point,
    "is_same_size": lambda first, second: first.shape == second.shape,
    **dict.fromkeys(("dim", "ndimension", "ndim"), lambda tensor: len(tensor.shape)),
    **dict.fromkeys(("is_contiguous", "is_cpu"), lambda *_: True),
    **dict.fromkeys(_NO, lambda _: False),
}
"""Properties of a tensor that queries return."""
_ITEMS = ("item", "ScalarImplicit", "IntImplicit", "Int", "FloatImplicit", "Float", "Bool")
"""Operators that make a number of a tensor."""
_SYNONYMS = {"floordiv": "floor_divide", "__not__": "logical_not", "__round_to_zero_floordiv": "floor_divide"}
_DIVISION, _FILL = 4, 5
"""Versions of files from which on division of integers, and fills of integers, are as today."""
_FIX = "export the model with torch.export"


def applied(
    recorder: Recorder, space: str, name: str, arguments: list[Any], named: Mapping[str, Any], version: int
) -> Any:
    """Return the result of an operator; record calls on tensors."""
    first: Any = arguments[0] if arguments else None
    if name == "RaiseException":
        raise UnsupportedOp(f"the model raises an error for these inputs: {str(first)[:200]}")
    if space == "prim" and name == "NumToTensor":
        return first if isinstance(first, Tensor) else recorder.number(first)
    if space == "quantized":
        return quantized.applied(recorder, name, [*arguments, *named.values()])
    if space not in ("aten", "prim"):
        raise UnsupportedOp(
            f"operator {space}::{name} is custom, so xdlc does not know the shapes of its results", fix=_FIX
        )
    if name in ("__is__", "__isnot__"):
        return primitives.apply(name, arguments)
    if isinstance(first, Tensor):
        if name in _SAME or (name == "to" and not _is_cast(arguments, named)):
            return first
        if name in _QUERIES:
            return _QUERIES[name](*arguments)
        if name in _ITEMS:
            return recorder.item(first, name.removesuffix("Implicit").lower())
    is_listed = isinstance(first, list | dict | str | tuple) and name in primitives.ON_LISTS
    if is_listed and recorder.branches and name in primitives.CHANGES:
        raise UnsupportedOp("a branch that depends on data changes a list", fix=_FIX)
    operands = [] if is_listed else tensors([arguments, list(named.values())])
    if not operands and primitives.is_known(name):
        return primitives.apply(name, [*arguments, *named.values()])
    if not operands and space == "prim":
        raise UnsupportedOp(f"operator {space}::{name} is not supported", fix=_FIX)
    if name in ("tensor", "as_tensor"):
        return _literal(recorder, first, *arguments[1:], **named)
    return _recorded(recorder, name, arguments, named, operands, version)


def _recorded(
    recorder: Recorder,
    name: str,
    positional: list[Any],
    named: Mapping[str, Any],
    operands: list[Tensor],
    version: int,
) -> Any:
    """Record a call of an operator of tensors."""
    is_number = bool(operands) and all(operand.number for operand in operands)
    if is_number:
        name = _SYNONYMS.get(name, name)
        if name in ("pow", "__and__", "__or__"):
            positional = [item if isinstance(item, Tensor) else recorder.number(item) for item in positional]
    try:
        overload, arguments = chosen(name, positional, named)
    except UnsupportedOp:  # numbers that are held as tensors may be such where it needs them
        others = {key: _plain(recorder, operand) for key, operand in named.items()}
        overload, arguments = chosen(name, [_plain(recorder, operand) for operand in positional], others)
    if name in ("to", "type_as"):
        stated = arguments.get("dtype")
        return recorder.cast(positional[0], arguments["other"].dtype if stated is None else stated)
    if version < _DIVISION and name == "div" and all(operand.dtype not in FLOATS for operand in operands):
        problem = "xdlc does not support integer division in files of torch before 1.6"
        raise UnsupportedOp(problem, fix="save the model with a newer torch")
    if version < _FILL and name == "full" and arguments["dtype"] is None:
        arguments["fill_value"] = float(arguments["fill_value"])
    recorded = quantized.kept(recorder, overload, arguments, operands)
    if is_number and isinstance(recorded, Tensor) and not recorded.shape and results(overload) == ("T",):
        recorded.number = True
    return recorded


def _plain(recorder: Recorder, value: Any) -> Any:
    """Return a tensor that denotes a known number as that number."""
    if isinstance(value, list):
        return [_plain(recorder, each) for each in value]
    is_known = isinstance(value, Tensor) and value.number and recorder.known(value) is not None
    return recorder.item(value) if is_known else value


def _is_cast(positional: list[Any], named: Mapping[str, Any]) -> bool:
    """Return whether ``to`` creates a new tensor: a copy, or another type."""
    _, arguments = chosen("to", positional, named)
    template, stated = arguments.get("other"), arguments.get("dtype")
    dtype = template.dtype if isinstance(template, Tensor) else stated
    return bool(arguments.get("copy")) or (dtype is not None and dtype != positional[0].dtype)


def _literal(recorder: Recorder, value: Any, dtype: int | None = None, *_: Any, **__: Any) -> Any:
    """Return the tensor of nested lists of numbers."""
    if isinstance(value, Tensor):
        return value if dtype is None or dtype == value.dtype else recorder.cast(value, dtype)
    if tensors(value):
        raise UnsupportedOp(
            "a tensor is made from numbers that depend on data", fix="stack the numbers with torch.stack"
        )
    array = np.asarray(value)
    if array.dtype.kind not in "bif":
        raise UnsupportedOp("a tensor is made from values that are not numbers", fix=_FIX)
    kind = type_of(array.reshape(-1)[0].item()) if array.size else type_of(0.0)
    return recorder.array(array, kind if dtype is None else dtype)
