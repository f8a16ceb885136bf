"""Checked access to the inputs and parameters of an op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor


def operand(op: Op, index: int) -> Tensor:
    """Return an input that the op must have.

    Raises:
        ModelError: If it is missing.
    """
    tensor = op.inputs[index] if index < len(op.inputs) else None
    if tensor is None:
        raise ModelError(f"input {index} of the op is missing")
    return tensor


def optional(op: Op, index: int) -> Tensor | None:
    """Return an input; None if it is omitted."""
    return op.inputs[index] if index < len(op.inputs) else None


def result(op: Op, index: int = 0) -> Tensor:
    """Return an output that the op must have.

    Raises:
        ModelError: If the op lacks it.
    """
    if index >= len(op.outputs):
        raise ModelError(f"output {index} of the op is missing")
    return op.outputs[index]


def required(op: Op, name: str) -> Any:
    """Return the plain value of a parameter that the op must have.

    Raises:
        ModelError: If it is missing.
    """
    value = op.param(name)
    if value is None:
        raise ModelError(f"parameter {name!r} of the op is missing")
    return value


def operation(op: Op, names: Sequence[str]) -> str:
    """Return the name of the operation that parameter ``operation`` selects.

    Raises:
        ModelError: If it is missing or out of range.
    """
    number = int(required(op, "operation"))
    if not 0 <= number < len(names):
        raise ModelError(f"parameter 'operation' is {number}; use a number from 0 to {len(names) - 1}")
    return names[number]


def axis(op: Op, rank: int, *, name: str = "axis", default: int | None = None) -> int:
    """Return an axis parameter, from 0.

    Raises:
        ModelError: If it is missing or beyond the rank.
    """
    value = required(op, name) if default is None else op.param(name, default)
    found = int(value)
    if not -rank <= found < rank:
        raise ModelError(f"parameter {name!r} is {found}, but the tensor has rank {rank}")
    return found % rank if rank else 0


def axes(op: Op, rank: int, *, name: str = "axes", default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return a parameter that lists axes, each from 0, in the order given.

    Raises:
        ModelError: If it is missing, or an axis is repeated or beyond the rank.
    """
    value = op.param(name)
    if value is None and default is not None:
        return default
    numbers = [int(entry) for entry in integers(op, name)]
    if any(not -rank <= entry < rank for entry in numbers):
        raise ModelError(f"parameter {name!r} is {numbers}, but the tensor has rank {rank}")
    normal = tuple(entry % rank for entry in numbers)
    if len(set(normal)) != len(normal):
        raise ModelError(f"parameter {name!r} repeats an axis: {numbers}")
    return normal


def integers(op: Op, name: str, count: int | None = None, *, default: int | None = None) -> list[int]:
    """Return an integer parameter as a list; ``count`` repeats a scalar.

    Raises:
        ModelError: If it is missing without default, or has another number of values.
    """
    param = op.params.get(name)
    if isinstance(param, Tensor) and param.data is not None:
        data = param.data
        numbers = [int(entry) for entry in data.reshape((math.prod(data.shape),)).tolist()]
    else:
        numbers = [int(op.param(name, default) if default is not None else required(op, name))]
    if count is not None and len(numbers) == 1:
        numbers *= count
    if count is not None and len(numbers) != count:
        raise ModelError(f"parameter {name!r} has {len(numbers)} values instead of {count}")
    return numbers


def pads(op: Op, count: int) -> list[int]:
    """Return ``pad_amount`` of ``count`` axes in ONNX order: begins, then ends.

    Raises:
        ModelError: If it has another number of values.
    """
    if "pad_amount" not in op.params:
        return [0] * (2 * count)
    values = integers(op, "pad_amount", 2 * count)
    return values[0::2] + values[1::2]
